//! A request as the origin reads it.

use crate::torture::http::exchange::Exchange;

/// Most fields of a head.
const FIELDS_MAX: usize = 64;
/// Longest head, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What a head says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The conversation, and the exchange in it.
    pub name: (usize, usize),
    /// The method.
    pub method: String,
    /// The fields that make a difference: `Range`, `If-None-Match`, `Content-Length`.
    pub conditions: [Option<String>; 3],
    /// Whether it says `Connection: close`: only for the next hop.
    pub closes: bool,
}

impl Request {
    /// The head at the beginning of `input`, and its length in bytes; none if it is not whole.
    ///
    /// # Errors
    /// In words, when it is no head, or not in the plan.
    pub fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        let shown = || input[..input.len().min(80)].escape_ascii().to_string();
        let bytes = match request.parse(input) {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
            Ok(httparse::Status::Partial) => return Err(String::from("a head without end")),
            Err(error) => return Err(format!("no request ({error}), but `{}`", shown())),
        };
        let name = request.path.and_then(Exchange::name_of);
        let name =
            name.ok_or_else(|| format!("a request that no client has sent: `{}`", shown()))?;
        let mut conditions: [Option<String>; 3] = Default::default();
        let mut closes = false;
        for field in request.headers.iter() {
            let place = match field.name.to_ascii_lowercase().as_str() {
                "range" => 0,
                "if-none-match" => 1,
                "content-length" => 2,
                "connection" => {
                    closes |= field.value.eq_ignore_ascii_case(b"close");
                    continue;
                }
                _ => continue,
            };
            let value = String::from_utf8_lossy(field.value).into_owned();
            if conditions[place].replace(value).is_some() {
                return Err(format!("{} comes twice", field.name));
            }
        }
        let method = request.method.unwrap_or_default().to_owned();
        Ok(Some((
            Self {
                name,
                method,
                conditions,
                closes,
            },
            bytes,
        )))
    }

    /// What is not as its client has written it, in words.
    #[must_use]
    pub fn difference(&self, exchange: &Exchange) -> Option<String> {
        let written = Self::parse(exchange.request_head().as_bytes());
        let Ok(Some((written, _))) = written else {
            return Some(String::from("its own head cannot be read"));
        };
        let is_same = (&self.method, &self.conditions) == (&written.method, &written.conditions);
        (!is_same).then(|| format!("{self:?} has reached the origin, not {written:?}"))
    }
}
