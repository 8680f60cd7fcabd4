//! A connection of an exchange: lent by its owner, or given for good, so that it can wait elsewhere than with tokio.

use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;

/// A connection that is given to [`Splicer::exchange`](crate::Splicer::exchange): lent (`&TcpStream`) or for good
/// (`TcpStream`).
///
/// The socket engine moves bytes between connections of either kind. But tokio has registered a lent one for input, and the
/// kernel wakes the thread for each piece that it hands on, for nothing. An own one it takes out of tokio's registry while the
/// kernel does the work: then nobody wakes up.
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
    /// Whether it was given for good.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self.0, Kind::Own(_))
    }

    /// Whether nobody else has it.
    pub(crate) fn is_own_alone(&self) -> bool {
        matches!(&self.0, Kind::Own(stream) if Arc::strong_count(stream) == 1)
    }

    /// The stream, if nobody else has it.
    pub(crate) fn into_own(self) -> Option<TcpStream> {
        match self.0 {
            Kind::Own(stream) => Arc::into_inner(stream),
            Kind::Lent(_) => None,
        }
    }

    /// Takes it out of tokio's registry. Only if nobody else has it.
    pub(crate) fn into_std(self) -> io::Result<std::net::TcpStream> {
        self.into_own()
            .ok_or_else(|| io::Error::from(io::ErrorKind::ResourceBusy))?
            .into_std()
    }
}
