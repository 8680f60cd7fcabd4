//! A server of HTTP/2 that does what a test says, by the library.
use crate::support::Place;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use rustls::ServerConfig;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A server, which serves until the test's process ends.
#[derive(Debug, Clone)]
pub struct Http2Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// A request, and the way back.
#[derive(Debug)]
pub struct Asked {
    pub head: Parts,
    pub body: RecvStream,
    pub respond: SendResponse<Bytes>,
}

impl Http2Server {
    /// Answers each request with this.
    pub fn start<F>(place: &Place, answer: impl Fn(Asked) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::with(place, Builder::new(), answer)
    }

    /// The same with other settings.
    pub fn with<F>(
        place: &Place,
        settings: Builder,
        answer: impl Fn(Asked) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::serving(place, settings, None, answer)
    }

    /// The same by TLS.
    pub fn by_tls<F>(
        place: &Place,
        config: Arc<ServerConfig>,
        answer: impl Fn(Asked) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::serving(place, Builder::new(), Some(config.into()), answer)
    }

    fn serving<F>(
        place: &Place,
        settings: Builder,
        tls: Option<TlsAcceptor>,
        answer: impl Fn(Asked) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        let listener = std::net::TcpListener::bind((place.ip(), 0)).expect("a listener");
        listener.set_nonblocking(true).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                let answer = Rc::new(answer);
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((tcp, _)) = listener.accept().await {
                    count.fetch_add(1, Relaxed);
                    let (settings, answer) = (settings.clone(), Rc::clone(&answer));
                    tokio::task::spawn_local(serve(tcp, tls.clone(), settings, answer));
                }
            });
        });
        Self {
            address,
            connections,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

async fn serve<F>(
    tcp: TcpStream,
    tls: Option<TlsAcceptor>,
    settings: Builder,
    answer: Rc<impl Fn(Asked) -> F + 'static>,
) where
    F: Future<Output = ()> + 'static,
{
    let Some(tls) = tls else {
        return serve_by(tcp, settings, answer).await;
    };
    // A client may refuse the certificate.
    if let Ok(stream) = tls.accept(tcp).await {
        serve_by(stream, settings, answer).await;
    }
}

async fn serve_by<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    settings: Builder,
    answer: Rc<impl Fn(Asked) -> F + 'static>,
) where
    F: Future<Output = ()> + 'static,
{
    let Ok(mut connection) = settings.handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (head, body) = request.into_parts();
        let asked = Asked {
            head,
            body,
            respond,
        };
        tokio::task::spawn_local(answer(asked));
    }
}

impl Asked {
    /// A field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// Reads the body to its end; with its trailers.
    pub async fn read(&mut self) -> Result<(Vec<u8>, Option<HeaderMap>), h2::Error> {
        let mut bytes = Vec::new();
        while let Some(data) = self.body.data().await {
            let data = data?;
            self.body.flow_control().release_capacity(data.len())?;
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, self.body.trailers().await?))
    }

    /// Answers with this body.
    pub fn answer(&mut self, status: u16, body: &[u8]) {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        // The client may be gone.
        if let Ok(mut stream) = self.respond.send_response(response, body.is_empty())
            && !body.is_empty()
        {
            let _ = stream.send_data(Bytes::copy_from_slice(body), true);
        }
    }
}
