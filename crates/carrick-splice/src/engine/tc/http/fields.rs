//! Field lines that the kernel appends to requests.
use super::{FIELDS_BYTES_MAX, HOST_BYTES_MAX};

/// What forwarded requests of a connection get behind their own field lines; they lose `Connection: keep-alive`, which is for one
/// hop. By default they are forwarded as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestFields {
    text: Vec<u8>,
    host: Vec<u8>,
}

impl RequestFields {
    /// `text`: whole lines, and the empty one that ends a head. `host`: what they name; requests with another `Host` are the process's.
    /// Empty: they name none.
    ///
    /// `None`: longer than the kernel takes ([`FIELDS_BYTES_MAX`], [`HOST_BYTES_MAX`]).
    #[must_use]
    pub fn new(text: Vec<u8>, host: &[u8]) -> Option<Self> {
        let fits = text.len() <= FIELDS_BYTES_MAX && host.len() <= HOST_BYTES_MAX;
        fits.then(|| Self {
            text,
            host: host.to_vec(),
        })
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    pub(crate) fn host(&self) -> &[u8] {
        &self.host
    }
}
