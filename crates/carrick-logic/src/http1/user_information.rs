//! URLs for logs: without the user name and password that may stand before the host (RFC 9110 section 4.2.4).
use std::borrow::Cow;

/// Stands where something was left out.
const HIDDEN: &[u8] = b"***";

/// `text`, a target or a whole request line, whether it is right or not, with `***` for what stands before the host of each URL in it.
#[must_use]
pub fn without_user_information(text: &[u8]) -> Cow<'_, [u8]> {
    let (mut out, mut shown) = (Vec::new(), 0);
    let mut word_start = 0;
    for word in text.split(|&byte| byte == b' ') {
        for_each_secret(word, |start, end| {
            out.extend_from_slice(&text[shown..word_start + start]);
            out.extend_from_slice(HIDDEN);
            shown = word_start + end;
        });
        word_start += word.len() + 1;
    }
    if shown == 0 {
        return Cow::Borrowed(text);
    }
    out.extend_from_slice(&text[shown..]);
    Cow::Owned(out)
}

/// Tells the ranges of a word that must not be shown, in their order.
fn for_each_secret(word: &[u8], mut hide: impl FnMut(usize, usize)) {
    const SCHEME_END: &[u8] = b"://";
    let mut from = match memchr::memmem::find(word, SCHEME_END) {
        Some(scheme) => scheme + SCHEME_END.len(),
        // CONNECT has an authority alone.
        None => 0,
    };
    let has_scheme = from > 0;
    let last_at = memchr::memrchr(b'@', word);
    loop {
        let rest = &word[from..];
        let end = rest.iter().position(|byte| b"/?#".contains(byte));
        let authority = &rest[..end.unwrap_or(rest.len())];
        let colon = memchr::memrchr(b':', authority);
        let is_port = |colon: usize| authority[colon + 1..].iter().all(u8::is_ascii_digit);
        let mut behind = from + authority.len();
        if let Some(at) = memchr::memrchr(b'@', authority) {
            hide(from, from + at);
        } else if let Some(colon) = colon
            && has_scheme
            && !word.starts_with(b"/")
            && !authority.starts_with(b"[")
            && !is_port(colon)
        {
            // A password with a slash in it, or one that was cut off.
            match last_at.filter(|at| *at >= from) {
                Some(at) => {
                    hide(from, at);
                    behind = at;
                }
                None => hide(from + colon + 1, behind),
            }
        }
        let Some(next) = memchr::memmem::find(&word[behind..], SCHEME_END) else {
            return;
        };
        from = behind + next + SCHEME_END.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_names_and_passwords_are_hidden() {
        for (text, expected) in [
            ("http://user:pw@host/", "http://***@host/"),
            ("http://user@host/", "http://***@host/"),
            ("http://@host/", "http://***@host/"),
            ("HTTP://user:p@w@host:80/a@b", "HTTP://***@host:80/a@b"),
            ("http://user:pw@host", "http://***@host"),
            ("http://user:pw@host?a", "http://***@host?a"),
            (
                "GET http://user:pw@host/ HTTP/1.1",
                "GET http://***@host/ HTTP/1.1",
            ),
            ("GET  ftp://user:pw@host/", "GET  ftp://***@host/"),
            (
                "CONNECT user:pw@host:443 HTTP/1.1",
                "CONNECT ***@host:443 HTTP/1.1",
            ),
            (
                "/to?u=http://a:b@c/&v=http://d:e@f/",
                "/to?u=http://***@c/&v=http://***@f/",
            ),
            // What was meant as a password, and is none by the grammar; and what was cut off.
            ("http://user:p/w@host/", "http://***@host/"),
            ("GET http://user:p w@host/", "GET http://user:*** ***@host/"),
            ("GET http://user:passw", "GET http://user:***"),
        ] {
            let shown = without_user_information(text.as_bytes());
            assert_eq!(String::from_utf8_lossy(&shown), expected, "{text}");
            let again = without_user_information(&shown);
            assert_eq!(again, shown, "{text}");
        }
    }

    #[test]
    fn all_else_stays() {
        for text in [
            "",
            "/",
            "/@scope/name?q=a@b",
            "/a:b@c",
            "http://host/@name",
            "http://host:8080/a:b",
            "http://[::1]:80/",
            "http://[::1]/",
            "GET http://host",
            "GET http://host: HTTP/1.1",
            "/to?u=http://a:b",
            "CONNECT host:443 HTTP/1.1",
            "host:443",
            "*",
            "://",
            "\x16\x03\x01 :: x",
        ] {
            let shown = without_user_information(text.as_bytes());
            assert!(matches!(shown, Cow::Borrowed(_)), "{text}: {shown:?}");
        }
    }
}
