//! A server of HTTP/2 that does what a test says, by the library.
use crate::support::Place;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, Connection, SendResponse};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::net::{TcpListener, TcpStream};

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
    /// The number of its connection, from 0.
    pub connection: usize,
}

/// A connection that the test serves by itself.
pub type Served = Connection<TcpStream, Bytes>;

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
        Self::raw(
            place,
            move |answer_of, tcp, number| {
                let (settings, answer): (Builder, Rc<_>) = (settings.clone(), answer_of);
                async move {
                    let Ok(mut connection) = settings.handshake(tcp).await else {
                        return;
                    };
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let (head, body) = request.into_parts();
                        let answer = Rc::clone(&answer);
                        let asked = Asked {
                            head,
                            body,
                            respond,
                            connection: number,
                        };
                        tokio::task::spawn_local(async move { answer(asked).await });
                    }
                }
            },
            answer,
        )
    }

    /// Serves each connection so.
    pub fn serving<F>(place: &Place, serve: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + 'static,
    {
        Self::raw(
            place,
            |serve: Rc<_>, tcp, number| (*serve)(tcp, number),
            serve,
        )
    }

    fn raw<S: Send + 'static, F: Future<Output = ()> + 'static>(
        place: &Place,
        serve: impl Fn(Rc<S>, TcpStream, usize) -> F + Send + 'static,
        shared: S,
    ) -> Self {
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
            let tasks = tokio::task::LocalSet::new();
            tasks.block_on(&runtime, async move {
                let shared = Rc::new(shared);
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((tcp, _)) = listener.accept().await {
                    let number = count.fetch_add(1, Relaxed);
                    tokio::task::spawn_local(serve(Rc::clone(&shared), tcp, number));
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
