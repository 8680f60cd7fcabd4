//! Trailer fields after a chunked body (RFC 9112 section 7.1.2), checked byte by byte.
use super::{OddNames, Refusal, fields, syntax};

/// Most bytes of a trailer section, its empty line included, unless more [may come](Trailers::allow).
const TRAILERS_BYTES_MAX: u32 = 8 * 1024;

/// Fields that have no place in a trailer: they decide on framing, routing, authentication, or how the content is to be taken
/// (RFC 9110 section 6.5.1). A next hop that merges trailers into the head would take them for the sender's word.
const FORBIDDEN: [&[u8]; 26] = [
    b"authorization",
    b"cache-control",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"host",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"keep-alive",
    b"location",
    b"max-forwards",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"range",
    b"set-cookie",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"www-authenticate",
];

fn is_forbidden(name: &[u8]) -> bool {
    (FORBIDDEN.iter()).any(|meant| syntax::may_pass_for(name, meant))
}

/// Whether a field with this name may stand in the trailer section of a response.
#[must_use]
pub fn may_trail_response(name: &[u8]) -> bool {
    !is_forbidden(name) && !fields::tells_of_client(name)
}

/// At least the longest name that is searched for.
const NAME_BYTES_KEPT: usize = 32;

/// Where in a trailer section a connection stands.
#[derive(Debug, Clone)]
pub(super) struct Trailers {
    state: State,
    /// So many more may come.
    bytes_left: u32,
    /// The beginning of the present name.
    name: [u8; NAME_BYTES_KEPT],
    name_bytes: u16,
    is_odd: bool,
    /// The present line does not go on.
    is_dropped: bool,
    /// What becomes of odd names in a request; `None`: this is a response.
    odd_names: Option<OddNames>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    LineStart,
    Name,
    Value,
    LineFeed,
    LastLineFeed,
}

impl Default for Trailers {
    fn default() -> Self {
        Self {
            state: State::default(),
            bytes_left: TRAILERS_BYTES_MAX,
            name: [0; NAME_BYTES_KEPT],
            name_bytes: 0,
            is_odd: false,
            is_dropped: false,
            odd_names: None,
        }
    }
}

impl Trailers {
    /// So many bytes may come, of a section that has not begun.
    pub(super) fn allow(&mut self, bytes_max: usize) {
        self.bytes_left = u32::try_from(bytes_max).unwrap_or(u32::MAX);
    }

    /// Those of a request.
    pub(super) fn of_request(odd_names: OddNames) -> Self {
        Self {
            odd_names: Some(odd_names),
            ..Self::default()
        }
    }

    /// Moves past one byte; says whether it was the section's last.
    pub(super) fn step(&mut self, byte: u8) -> Result<bool, Refusal> {
        self.bytes_left = self.bytes_left.checked_sub(1).ok_or(Refusal::bad(
            "trailers_too_long",
            "the trailer section is too long",
        ))?;
        self.state = match self.state {
            State::LineStart if byte == b'\r' => State::LastLineFeed,
            State::LineStart | State::Name if syntax::is_token_byte(byte) => {
                self.add_name_byte(byte);
                State::Name
            }
            State::Name if byte == b':' => {
                self.check_name()?;
                State::Value
            }
            State::Value if byte == b'\r' => State::LineFeed,
            State::Value if syntax::is_text_byte(byte) => State::Value,
            State::LineFeed if byte == b'\n' => State::LineStart,
            State::LastLineFeed if byte == b'\n' => return Ok(true),
            _ => {
                return Err(Refusal::bad(
                    "bad_trailer",
                    "a trailer field is malformed; it is `name: value`",
                ));
            }
        };
        Ok(false)
    }

    /// Whether a line has begun and not ended.
    pub(super) fn is_in_line(&self) -> bool {
        self.state != State::LineStart
    }

    /// Whether a line has just ended that does not go on.
    pub(super) fn drops_line(&self) -> bool {
        self.is_dropped && !self.is_in_line()
    }

    fn add_name_byte(&mut self, byte: u8) {
        if self.state == State::LineStart {
            self.name_bytes = 0;
            self.is_odd = false;
            self.is_dropped = false;
        }
        if let Some(place) = self.name.get_mut(usize::from(self.name_bytes)) {
            *place = byte;
        }
        self.is_odd |= !syntax::is_plain_name(&[byte]);
        self.name_bytes = self.name_bytes.saturating_add(1);
    }

    /// Refuses the present line, or drops it, if its name asks for that.
    fn check_name(&mut self) -> Result<(), Refusal> {
        match self.odd_names {
            Some(OddNames::Refuse) if self.is_odd => {
                return Err(Refusal::bad(
                    "odd_field_name",
                    "a trailer field's name has another byte than letters, digits and hyphens; gateways may take it for another field",
                ));
            }
            Some(OddNames::Drop) if self.is_odd => {
                self.is_dropped = true;
                return Ok(());
            }
            // Of servers no gateway makes variables.
            None if self.is_odd => return Ok(()),
            _ => {}
        }
        let name = self.name.get(..usize::from(self.name_bytes));
        let name = name.unwrap_or(&self.name);
        if is_forbidden(name) || self.odd_names.is_none() && fields::tells_of_client(name) {
            return Err(Refusal::bad(
                "forbidden_trailer",
                "a trailer field has no place after the content",
            ));
        }
        self.is_dropped = self.odd_names.is_some() && fields::belongs_to_proxies(name);
        Ok(())
    }
}
