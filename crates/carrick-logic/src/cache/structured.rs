//! Structured fields (RFC 9651), as far as a cache needs them: a Dictionary is read strictly, Strings and Tokens are
//! written.

/// The value of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item<'a> {
    Boolean(bool),
    Integer(i64),
    /// The inside of a String, escapes as they are; or a Token.
    Text(&'a [u8]),
    /// Any other type, an Inner List included.
    Other,
}

/// Most members of a Dictionary, each occurrence of a key counted: as many as must be understood (section 3.2). Each is
/// compared with those before it.
const MEMBERS_MAX: usize = 1024;

/// Reads a whole Dictionary (section 4.2.2); of a repeated key the last value counts. `None` if any byte of it is
/// wrong, or if it has too many members.
pub(super) fn dictionary(text: &[u8]) -> Option<Vec<(&[u8], Item<'_>)>> {
    let mut reader = Reader(text);
    let mut members: Vec<(&[u8], Item<'_>)> = Vec::new();
    let mut count = 0;
    reader.skip(b" ");
    while !reader.0.is_empty() {
        count += 1;
        if count > MEMBERS_MAX {
            return None;
        }
        let key = reader.key()?;
        let item = if reader.eat(b'=') {
            reader.item_or_inner_list()?
        } else {
            Item::Boolean(true)
        };
        reader.parameters()?;
        match members.iter_mut().find(|(known, _)| *known == key) {
            Some(member) => member.1 = item,
            None => members.push((key, item)),
        }
        reader.skip(b" \t");
        if reader.0.is_empty() {
            break;
        }
        if !reader.eat(b',') {
            return None;
        }
        reader.skip(b" \t");
        if reader.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn skip(&mut self, bytes: &[u8]) {
        while let [first, rest @ ..] = self.0
            && bytes.contains(first)
        {
            self.0 = rest;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(found)..];
        found
    }

    fn take_while(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().take_while(|&&byte| is_wanted(byte)).count();
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        if !matches!(self.0, [b'a'..=b'z' | b'*', ..]) {
            return None;
        }
        Some(self.take_while(
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*'),
        ))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.skip(b" ");
            self.key()?;
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn item_or_inner_list(&mut self) -> Option<Item<'a>> {
        if !self.eat(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.eat(b')') {
                return Some(Item::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.0, [b' ' | b')', ..]) {
                return None;
            }
        }
    }

    fn bare_item(&mut self) -> Option<Item<'a>> {
        match *self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            b'?' => {
                self.eat(b'?');
                match self.take_while(|byte| matches!(byte, b'0' | b'1')) {
                    b"0" => Some(Item::Boolean(false)),
                    b"1" => Some(Item::Boolean(true)),
                    _ => None,
                }
            }
            b':' => {
                self.eat(b':');
                self.take_while(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
                });
                self.eat(b':').then_some(Item::Other)
            }
            b'@' => {
                self.eat(b'@');
                matches!(self.number()?, Item::Integer(_)).then_some(Item::Other)
            }
            b'%' => {
                self.eat(b'%');
                self.display_string()
            }
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => Some(Item::Text(self.take_while(|byte| {
                crate::http1::syntax::is_token(&[byte]) || matches!(byte, b':' | b'/')
            }))),
            _ => None,
        }
    }

    /// At most 15 digits, or 12 before and 3 after the point (section 4.2.4).
    fn number(&mut self) -> Option<Item<'a>> {
        let sign = if self.eat(b'-') { -1 } else { 1 };
        let whole = self.take_while(|byte| byte.is_ascii_digit());
        if whole.is_empty() || whole.len() > 15 {
            return None;
        }
        if self.eat(b'.') {
            let fraction = self.take_while(|byte| byte.is_ascii_digit());
            return (whole.len() <= 12 && matches!(fraction.len(), 1..=3)).then_some(Item::Other);
        }
        let number = whole.iter().fold(0_i64, |number, &digit| {
            number * 10 + i64::from(digit - b'0')
        });
        Some(Item::Integer(sign * number))
    }

    fn string(&mut self) -> Option<Item<'a>> {
        let inside = &self.0[1..];
        let mut place = 0;
        loop {
            match *inside.get(place)? {
                b'"' => break,
                b'\\' if matches!(inside.get(place + 1), Some(b'"' | b'\\')) => place += 2,
                b'\\' => return None,
                b' '..=b'~' => place += 1,
                _ => return None,
            }
        }
        self.0 = &inside[place + 1..];
        Some(Item::Text(&inside[..place]))
    }

    /// Escapes must be two lower-case hexadecimal digits; that they make up UTF-8 is not looked at.
    fn display_string(&mut self) -> Option<Item<'a>> {
        if !self.eat(b'"') {
            return None;
        }
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            match byte {
                b'"' => return Some(Item::Other),
                b'%' => match rest {
                    [
                        b'0'..=b'9' | b'a'..=b'f',
                        b'0'..=b'9' | b'a'..=b'f',
                        rest @ ..,
                    ] => self.0 = rest,
                    _ => return None,
                },
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }
}

/// Whether `text` can be written as a Token.
fn is_sf_token(text: &[u8]) -> bool {
    matches!(text, [b'*' | b'A'..=b'Z' | b'a'..=b'z', ..]) && crate::http1::syntax::is_token(text)
}

/// Appends `text` as a Token if it can be one, else as a String; bytes that no String may have become `?`.
pub(super) fn write_token_or_string(out: &mut Vec<u8>, text: &[u8]) {
    if is_sf_token(text) {
        out.extend_from_slice(text);
    } else {
        write_string(out, text);
    }
}

/// Appends `text` as a String; bytes that no String may have become `?`.
pub(super) fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' => out.push(byte),
            _ => out.push(b'?'),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
