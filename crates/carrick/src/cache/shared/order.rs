//! Orders to the thread that talks to the server.
use tokio::sync::oneshot;

/// A field of a URL's hash: its kind and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field(pub u8, pub u8);

impl Field {
    /// Its name on the server.
    #[cfg(any(test, feature = "shared-cache"))]
    pub fn text(self) -> String {
        format!("{}{:02x}", char::from(self.0), self.1)
    }
}

/// The reply to [`Order::Get`].
#[derive(Debug)]
pub struct GetReply {
    /// The present generation.
    pub generation: u64,
    /// The value of the field.
    pub value: Option<Vec<u8>>,
}

/// An order.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "shared-cache"),
    expect(dead_code, reason = "without the feature, no thread reads them")
)]
pub enum Order {
    /// Read a field of a URL, and the generation. If the server fails, the reply is dropped.
    Get {
        key: Box<str>,
        field: Field,
        reply: oneshot::Sender<GetReply>,
    },
    /// Write fields of a URL, to be kept for at least `ttl_s`. `bytes` counts as queued.
    Put {
        key: Box<str>,
        fields: Vec<(Field, Vec<u8>)>,
        ttl_s: u32,
        bytes: u64,
    },
    /// Delete a URL.
    Forget {
        key: Box<str>,
        reply: Option<oneshot::Sender<Result<(), String>>>,
    },
    /// Draw a new generation.
    Renew {
        reply: oneshot::Sender<Result<(), String>>,
    },
}
