//! Requests to an authority: HTTP/1.1 over TLS, a connection for each.
use super::schedule::WAIT_MAX;
use crate::config::plan::AcmePlan;
use crate::control::dial::dial;
use crate::resolver::Resolver;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls_pki_types::ServerName;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Most bytes of a response's body; a chain of certificates has a tenth.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// For a request, from the look-up of the name to the response's last byte.
const REQUEST_MAX: Duration = Duration::from_secs(30);

const PORT_DEFAULT: u16 = 443;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// What an authority answered.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    /// `Retry-After`, at most a day.
    pub wait: Option<Duration>,
    pub body: Bytes,
}

/// Speaks to an authority.
#[derive(Clone)]
pub struct Https {
    resolver: Resolver,
    /// See [`Plan::own_mark`](crate::config::plan::Plan::own_mark).
    mark: Option<u32>,
    tls: TlsConnector,
    /// What the last refusal asked for (`Retry-After`).
    asked_wait: Arc<Mutex<Option<Duration>>>,
}

impl fmt::Debug for Https {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Https").finish_non_exhaustive()
    }
}

impl Https {
    /// Trusts the plan's authorities.
    ///
    /// # Errors
    /// There are none; says what to do.
    pub fn new(plan: &AcmePlan, resolver: Resolver, mark: Option<u32>) -> Result<Self, String> {
        let config = plan.tls.config().map_err(|faults| {
            let why: Vec<_> = faults.iter().map(|(_, one)| one.to_string()).collect();
            why.join("; ")
        });
        let (config, _) = config?;
        Ok(Self {
            resolver,
            mark,
            tls: TlsConnector::from(Arc::new(config)),
            asked_wait: Arc::default(),
        })
    }

    /// How long the authority asked to be left alone.
    pub fn asked_wait(&self) -> Option<Duration> {
        *self
            .asked_wait
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a resource that requires no account. Follows no redirects.
    ///
    /// # Errors
    /// There is no answer, within 30 s.
    pub async fn get(&self, url: &str) -> Result<Answer, String> {
        let request = Request::get(url)
            .header(USER_AGENT, concat!("carrick/", env!("CARGO_PKG_VERSION")))
            .body(BodyWrapper::default())
            .map_err(|error| format!("{url}: {error}"))?;
        let response = self.exchange_in_time(request).await;
        let (parts, body) = response.map_err(|error| error.to_string())?.into_parts();
        Ok(Answer {
            status: parts.status,
            // It is bounded already.
            wait: parts.headers.get(RETRY_AFTER).and_then(retry_after),
            body,
        })
    }

    async fn exchange_in_time(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Result<Response<Bytes>, Failed> {
        let result = timeout(REQUEST_MAX, self.exchange(request)).await;
        result.unwrap_or_else(|_| Err("no answer within 30 s".into()))
    }

    async fn exchange(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Result<Response<Bytes>, Failed> {
        let (host, port) = authority(request.uri())?;
        let tcp = self.connect(&host, port).await;
        let tcp = tcp.map_err(|error| format!("cannot reach {host}:{port}: {error}"))?;
        let name = ServerName::try_from(host.clone())?;
        let tls = self.tls.connect(name, tcp).await;
        let tls = tls.map_err(|error| format!("TLS with {host}:{port}: {error}"))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        // Ends with the request, also if that takes too long.
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        let response = sender.send_request(origin_form(request)?).await;
        self.whole(response?).await
    }

    async fn whole(
        &self,
        response: Response<hyper::body::Incoming>,
    ) -> Result<Response<Bytes>, Failed> {
        let (mut parts, body) = response.into_parts();
        let wait = bound_wait(&mut parts.headers);
        let body = Limited::new(body, BODY_BYTES_MAX)
            .collect()
            .await?
            .to_bytes();
        if matches!(
            parts.status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            *self
                .asked_wait
                .lock()
                .unwrap_or_else(PoisonError::into_inner) = wait;
        }
        Ok(Response::from_parts(parts, body))
    }

    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, Failed> {
        let found = self.resolver.resolve(host).await?;
        let addresses = found.iter().map(|address| SocketAddr::new(*address, port));
        let addresses: Vec<_> = addresses.collect();
        Ok(dial(&addresses, REQUEST_MAX / 2, self.mark).await?)
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let own = self.clone();
        Box::pin(async move {
            let response = own.exchange_in_time(request).await;
            let (parts, body) = response.map_err(Error::Other)?.into_parts();
            Ok(BytesResponse {
                parts,
                body: Box::new(body),
            })
        })
    }
}

/// Host and port.
fn authority(uri: &Uri) -> Result<(String, u16), Failed> {
    let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
    let host = host.ok_or("the authority's directory names a URL without https://")?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    Ok((bare.to_owned(), uri.port_u16().unwrap_or(PORT_DEFAULT)))
}

fn origin_form(
    request: Request<BodyWrapper<Bytes>>,
) -> Result<Request<BodyWrapper<Bytes>>, Failed> {
    let (mut parts, body) = request.into_parts();
    let host = parts.uri.authority().map(|authority| authority.as_str());
    let host = HeaderValue::from_str(host.unwrap_or_default())?;
    parts.headers.insert(HOST, host);
    parts
        .headers
        .insert(CONNECTION, HeaderValue::from_static("close"));
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    Ok(Request::from_parts(parts, body))
}

/// What the authority asks for, which is bounded for the library, too: it adds this to the time of day.
fn bound_wait(headers: &mut HeaderMap) -> Option<Duration> {
    let wait = headers
        .get(RETRY_AFTER)
        .and_then(retry_after)?
        .min(WAIT_MAX);
    headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs()));
    Some(wait)
}

/// RFC 9110 section 10.2.3.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    until.duration_since(SystemTime::now()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_is_spoken() {
        let of = |text: &'static str| authority(&Uri::from_static(text)).ok();
        assert_eq!(
            of("https://ca.example/x"),
            Some(("ca.example".to_owned(), 443))
        );
        assert_eq!(of("https://[::1]:14000/x"), Some(("::1".to_owned(), 14000)));
        assert_eq!(of("http://ca.example/x"), None);
        assert_eq!(of("/x"), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let of = |text| retry_after(&HeaderValue::from_static(text));
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        let hour = Duration::from_secs(3600);
        let date = httpdate::fmt_http_date(SystemTime::now() + hour);
        let date = HeaderValue::try_from(date).unwrap();
        assert!(retry_after(&date).is_some_and(|wait| wait <= hour && wait > hour / 2));
        assert_eq!(of("Fri, 31 Dec 1999 23:59:59 GMT"), None);
        assert_eq!(of("soon"), None);
    }

    #[test]
    fn a_wait_beyond_all_times_becomes_a_day() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from(u64::MAX));
        assert_eq!(bound_wait(&mut headers), Some(WAIT_MAX));
        assert_eq!(headers[RETRY_AFTER], "86400");
        headers.insert(RETRY_AFTER, HeaderValue::from_static("soon"));
        assert_eq!(bound_wait(&mut headers), None);
    }
}
