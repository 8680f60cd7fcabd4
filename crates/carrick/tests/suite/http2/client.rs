//! A client that keeps to the rules, by the library.
use crate::support::PATIENCE;
use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request, StatusCode};
use std::net::SocketAddr;

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

impl Reply {
    /// A field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.to_str().ok()
    }
}

/// Runs a test's client to its end.
pub fn run<T>(client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(PATIENCE, client)
            .await
            .expect("no hang")
    })
}

/// Connects without TLS.
pub async fn connect(to: SocketAddr) -> SendRequest<Bytes> {
    connect_with(to, &h2::client::Builder::new()).await
}

/// The same with other settings.
pub async fn connect_with(to: SocketAddr, builder: &h2::client::Builder) -> SendRequest<Bytes> {
    let tcp = tokio::net::TcpStream::connect(to)
        .await
        .expect("a connection");
    let (sender, connection) = builder.handshake(tcp).await.expect("a handshake");
    tokio::spawn(async move {
        // Its end is seen by the requests.
        let _ = connection.await;
    });
    sender.ready().await.expect("a connection")
}

/// A request.
pub fn request(method: &str, path: &str) -> Request<()> {
    let request = Request::builder()
        .method(method)
        .uri(format!("http://a.example{path}"));
    request.body(()).expect("a request")
}

/// Sends a request with this body (empty: none) and trailers, and reads its response to the end.
pub async fn fetch(
    sender: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: &[u8],
    trailers: Option<HeaderMap>,
) -> Result<Reply, h2::Error> {
    let is_whole = body.is_empty() && trailers.is_none();
    let (response, stream) = sender.send_request(request, is_whole)?;
    let sending = async {
        if !is_whole {
            send(stream, body, trailers).await;
        }
        Ok(())
    };
    let (reply, ()) = tokio::try_join!(read(response), sending)?;
    Ok(reply)
}

/// Sends as the server's window allows.
async fn send(mut stream: h2::SendStream<Bytes>, mut body: &[u8], trailers: Option<HeaderMap>) {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return;
        };
        let (now, later) = body.split_at(room.min(body.len()));
        let is_last = later.is_empty() && trailers.is_none();
        if stream
            .send_data(Bytes::copy_from_slice(now), is_last)
            .is_err()
        {
            return;
        }
        body = later;
    }
    if let Some(trailers) = trailers {
        let _ = stream.send_trailers(trailers);
    }
}

/// Reads a response to its end.
pub async fn read(response: h2::client::ResponseFuture) -> Result<Reply, h2::Error> {
    let (head, mut stream) = response.await?.into_parts();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    Ok(Reply {
        status: head.status,
        fields: head.headers,
        body,
        trailers: stream.trailers().await?,
    })
}
