//! HTTP/2 (RFC 9113) as far as it is not framing: its messages in the form of HTTP/1.1, and which frames are a nuisance.
mod frames;
mod request;
mod reset;
mod response;

pub use frames::{FrameMeter, NuisanceBudget, SMALL_FRAMES_MAX};
pub use request::{
    Malformed, Pseudo, RequestBody, RequestForm, RequestTranslation, is_trailer, write_request,
};
pub use reset::reset_for_client;
pub use response::{ResponseTranslation, write_response};

/// What an HTTP/2 connection begins with (RFC 9113 section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// As many of its bytes as no request of HTTP/1.1 begins with: the method is reserved for it.
const PREFACE_METHOD: &[u8] = b"PRI ";

/// Whether a connection that begins with `bytes` is one of HTTP/2; `None`: it may be, more bytes are needed.
#[must_use]
pub fn is_preface(bytes: &[u8]) -> Option<bool> {
    let length = bytes.len().min(PREFACE_METHOD.len());
    match bytes[..length] == PREFACE_METHOD[..length] {
        true if length < PREFACE_METHOD.len() => None,
        is_so => Some(is_so),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_begins_with_the_preface_or_with_a_request() {
        assert_eq!(is_preface(b""), None);
        assert_eq!(is_preface(b"PR"), None);
        assert_eq!(is_preface(b"PRI "), Some(true));
        assert_eq!(is_preface(PREFACE), Some(true));
        assert_eq!(is_preface(b"PROPFIND /"), Some(false));
        assert_eq!(is_preface(b"G"), Some(false));
    }
}
