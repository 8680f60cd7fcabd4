//! The head of a response as its client reads it.

use crate::content::framing::{Fields, Garbled, response};

/// What a head says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Framing and connection.
    pub fields: Fields,
    /// `X-Exchange`.
    pub exchange: Option<String>,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Content-Range`.
    pub content_range: Option<String>,
    /// `Via`, which may come once.
    via: Option<String>,
}

impl Head {
    /// The head at the beginning of `input`, after its length in bytes; none if it is not complete.
    ///
    /// # Errors
    /// When it is no head, or says something twice that may be said once.
    pub fn parse(input: &[u8]) -> Result<Option<(usize, Self)>, Garbled> {
        response(input, |response| {
            let mut head = Self {
                status: response.code.unwrap_or(0),
                ..Self::default()
            };
            for field in response.headers.iter() {
                head.take(field)?;
            }
            head.fields.check()?;
            Ok(head)
        })
    }

    fn take(&mut self, field: &httparse::Header<'_>) -> Result<(), Garbled> {
        if self.fields.take(field)? {
            return Ok(());
        }
        let place = match field.name.to_ascii_lowercase().as_str() {
            "x-exchange" => &mut self.exchange,
            "etag" => &mut self.etag,
            "content-range" => &mut self.content_range,
            "via" => &mut self.via,
            _ => return Ok(()),
        };
        match place.replace(String::from_utf8_lossy(field.value).into_owned()) {
            Some(_) => Err(Garbled(format!("{} comes twice", field.name))),
            None => Ok(()),
        }
    }
}
