//! A connection of an exchange: lent or owned; an owned one can wait outside of tokio.

use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;

/// A connection for [`Splicer::exchange`](crate::Splicer::exchange): lent (`&TcpStream`) or owned
/// (`TcpStream`).
///
/// The socket engine moves bytes between connections of either kind. But a lent one stays registered with
/// tokio, so the kernel wakes the thread needlessly for each piece it forwards. An owned one is removed from
/// tokio's registry while the kernel does the work, so that no thread wakes up.
#[derive(Clone)]
pub struct Leg<'a>(Kind<'a>);

#[derive(Clone)]
enum Kind<'a> {
    Lent(&'a TcpStream),
    Own(Arc<TcpStream>),
}

impl<'a> From<&'a TcpStream> for Leg<'a> {
    fn from(stream: &'a TcpStream) -> Self {
        Leg(Kind::Lent(stream))
    }
}

impl From<TcpStream> for Leg<'_> {
    fn from(stream: TcpStream) -> Self {
        Leg(Kind::Own(Arc::new(stream)))
    }
}

impl std::ops::Deref for Leg<'_> {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        match &self.0 {
            Kind::Lent(stream) => stream,
            Kind::Own(stream) => stream,
        }
    }
}

impl Leg<'_> {
    /// Whether it is owned.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.0, Kind::Own(_))
    }

    /// Whether this is the only reference.
    pub(crate) fn is_own_alone(&self) -> bool {
        matches!(&self.0, Kind::Own(stream) if Arc::strong_count(stream) == 1)
    }

    /// The stream, if this is the only reference.
    pub(crate) fn into_own(self) -> Option<TcpStream> {
        match self.0 {
            Kind::Own(stream) => Arc::into_inner(stream),
            Kind::Lent(_) => None,
        }
    }

    /// Removes it from tokio's registry. Only if this is the only reference.
    pub(crate) fn into_std(self) -> io::Result<std::net::TcpStream> {
        self.into_own()
            .ok_or_else(|| io::Error::from(io::ErrorKind::ResourceBusy))?
            .into_std()
    }
}
