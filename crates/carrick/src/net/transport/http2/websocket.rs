//! The word by which a server agrees to a WebSocket (RFC 6455 section 4.2.2); HTTP/2 does without it.
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// RFC 6455 section 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What `Sec-WebSocket-Key` is to be answered with.
#[must_use]
pub fn websocket_accept(key: &[u8]) -> Box<str> {
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    STANDARD.encode(digest).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_that_of_the_rfc() {
        let accept = websocket_accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(&*accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
