//! What is asked of the thread that talks with the server.
use tokio::sync::oneshot;

/// A field of a URL's hash: its kind and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field(pub u8, pub u8);

impl Field {
    /// As the server has it.
    #[cfg(any(test, feature = "shared-cache"))]
    pub fn text(self) -> String {
        format!("{}{:02x}", char::from(self.0), self.1)
    }
}

/// What there is.
#[derive(Debug)]
pub struct Got {
    /// The present generation.
    pub generation: u64,
    /// What the field has.
    pub value: Option<Vec<u8>>,
}

/// One thing to do.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "shared-cache"),
    expect(dead_code, reason = "without the feature nobody reads them")
)]
pub enum Order {
    /// The field of a URL, and the generation. The reply is dropped if the server fails.
    Get {
        key: Box<str>,
        field: Field,
        reply: oneshot::Sender<Got>,
    },
    /// These fields of a URL are written, and kept for so long at least. `bytes` are those that it is charged with while it
    /// waits.
    Put {
        key: Box<str>,
        fields: Vec<(Field, Vec<u8>)>,
        ttl_s: u32,
        bytes: u64,
    },
    /// A URL is deleted.
    Forget {
        key: Box<str>,
        reply: Option<oneshot::Sender<Result<(), String>>>,
    },
    /// A new generation is drawn.
    Renew {
        reply: oneshot::Sender<Result<(), String>>,
    },
}
