//! Waiting for a response's head, and for a reset of the client, which ends the wait.
use crate::context::request_log::RequestLog;
use crate::http::least_rate::ReceiverPace;
use crate::http::while_taken::write_while_taken;
use crate::net::deadline::{Deadline, TimedOut, Timer, now};
use crate::net::io::{Stream, poll_reset, try_peek, try_read_at_most};
use crate::net::scratch::{Scratch, response_room};
use crate::net::transport::Transport;
use crate::net::transport::http2::server::ServerStream;
use carrick_logic::http1::{self, HeadLimits, Progress, Refusal, ResponseRewrite, Version};
use carrick_splice::{PaceHandle, Pacer};
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

/// Interim responses before one response: as many as a server sends within hours that says every second that it still works.
const INTERIM_MAX: usize = 10_000;

const TOO_MANY_INTERIM: Refusal = Refusal {
    status: 502,
    label: "too_many_interim",
    reason: "the server sends interim responses (1xx) without end",
};

/// What ended the wait.
pub enum NoResponseHead {
    /// The client reset its connection.
    ClientGone,
    /// The upstream closed or reset; whether a part of a head had come.
    Closed { started: bool },
    /// It took too long.
    TimedOut,
    /// What came is not a head that may be passed on.
    Refused(Refusal),
}

/// By what a response is told from bytes that the upstream sent before it had received anything of the request.
pub enum Asked {
    /// By nothing: the connection is fresh, or a stream.
    Surely,
    /// The length of a request without a body, on a connection that has carried others.
    Bytes(usize),
    /// What the upstream had acknowledged before a request with a body, on such a connection.
    Behind(u64),
}

impl Asked {
    /// For a request of so many bytes without a body.
    pub fn without_body(is_reused: bool, bytes: usize) -> Self {
        match is_reused {
            true => Self::Bytes(bytes),
            false => Self::Surely,
        }
    }
}

/// Two connections between a request and its response.
pub struct HeadWait<'a> {
    pub upstream: &'a Transport,
    /// The client's, if one waits for the response.
    pub client: Option<&'a Transport>,
    pub limits: HeadLimits,
    /// Name in `Via` of interim responses.
    pub via: &'a str,
    /// Longest time for an interim response to be taken by the client.
    pub idle: Duration,
    /// Most bytes of the first read. Few where a large body is expected, most of which is then spliced.
    pub first_read_bytes: usize,
    pub asked: Asked,
    /// What the response waits for before it is read: the worker's own work, if it is paced.
    pub leave: Option<(&'a Pacer, PaceHandle)>,
    /// Whether the upstream has acknowledged all of them, as far as that was asked.
    pub is_acknowledged: bool,
    pub interim: Interim,
    /// Whether an interim response, which says that the server still works, begins the wait anew.
    pub prolongs: bool,
    /// Whether a reset of the client ends the wait. Off while its body is under way, and once it has sent more or ended its side.
    pub watches_client: bool,
}

/// Interim responses on their way to the client.
#[derive(Default)]
pub struct Interim {
    /// How many have come.
    count: usize,
    /// What the client has of the one that is being passed on: the wait may be given up and begun again meanwhile.
    under_way: Option<usize>,
}

impl Interim {
    /// Whether the client has got a part of one, or TLS owes it: then nothing else may be written.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }
}

impl HeadWait<'_> {
    /// Waits until `scratch.response` begins with a final response's head, parsed into `scratch.response_head`. Interim
    /// responses are passed on to the client on the way.
    pub async fn final_head(
        &mut self,
        timer: &mut Timer,
        deadline: &mut Deadline,
        scratch: &mut Scratch,
        log: &mut RequestLog,
    ) -> Result<(), NoResponseHead> {
        loop {
            self.head(timer, deadline, scratch, log).await?;
            if !scratch.response_head.is_interim() {
                return Ok(());
            }
            self.pass_interim(timer, scratch).await?;
            if self.prolongs {
                *deadline = Deadline::after(deadline.limit());
            }
        }
    }

    async fn head(
        &mut self,
        timer: &mut Timer,
        deadline: &mut Deadline,
        scratch: &mut Scratch,
        log: &mut RequestLog,
    ) -> Result<(), NoResponseHead> {
        let Scratch {
            response,
            response_head,
            request_head,
            ..
        } = scratch;
        loop {
            if !response.is_empty() {
                match response_head.parse(response, request_head.method, &self.limits) {
                    Ok(Progress::Complete) => return Ok(()),
                    Ok(Progress::Partial) => {}
                    Err(refusal) => return Err(NoResponseHead::Refused(refusal)),
                }
            }
            let started = !response.is_empty();
            if let Some((pacer, pace)) = self.leave.take_if(|_| !started) {
                match timer.until(deadline, self.readable()).await {
                    Ok(true) => {}
                    Ok(false) => return Err(NoResponseHead::ClientGone),
                    Err(TimedOut) => return Err(NoResponseHead::TimedOut),
                }
                // Boxed: few wait.
                Box::pin(pacer.admit_response(pace)).await;
            }
            match timer.until(deadline, self.read(response)).await {
                Ok(None) => return Err(NoResponseHead::ClientGone),
                Ok(Some(Ok(0) | Err(_))) => return Err(self.ended(started)),
                Ok(Some(Ok(_))) if started => {}
                // The server has not received the request: this is no response to it, and another client's would follow.
                Ok(Some(Ok(_))) if self.is_unasked() => {
                    response.clear();
                    return Err(NoResponseHead::Closed { started: false });
                }
                Ok(Some(Ok(_))) => {
                    log.first_byte = log.first_byte.or_else(|| Some(now() - log.begun))
                }
                Err(TimedOut) => return Err(NoResponseHead::TimedOut),
            }
        }
    }

    fn ended(&self, started: bool) -> NoResponseHead {
        let stream = self.upstream.server_stream();
        match stream.and_then(ServerStream::malformed) {
            Some(refusal) => NoResponseHead::Refused(refusal),
            // An interim response says that the server has begun.
            None => NoResponseHead::Closed {
                started: started || self.interim.count > 0,
            },
        }
    }

    /// Whether the upstream has acknowledged nothing of the request. One system call, but for fresh connections.
    fn is_unasked(&mut self) -> bool {
        let asked = match self.asked {
            Asked::Surely => return false,
            Asked::Behind(acknowledged) => return self.upstream.acked_bytes() == acknowledged,
            Asked::Bytes(asked) => asked,
        };
        let unacknowledged = self.upstream.unacknowledged_bytes();
        self.is_acknowledged = unacknowledged == Some(0);
        unacknowledged.is_some_and(|bytes| bytes >= asked as u64)
    }

    /// Reads from the upstream; `None`: the client is gone.
    fn read(
        &mut self,
        buffer: &mut Vec<u8>,
    ) -> impl Future<Output = Option<io::Result<usize>>> + Unpin {
        let bytes_max = if buffer.is_empty() {
            self.first_read_bytes
        } else {
            usize::MAX
        };
        let (upstream, client) = (self.upstream, self.client);
        let watches = &mut self.watches_client;
        poll_fn(move |cx| {
            while let Poll::Ready(ready) = upstream.poll_read_ready(cx) {
                response_room(buffer);
                match ready.and_then(|()| try_read_at_most(upstream, buffer, bytes_max)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(Some(read)),
                }
            }
            if let Some(client) = client
                && *watches
                && poll_reset(client, watches, cx)
            {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
    }

    /// Waits until there is something to read; `false`: the client is gone.
    fn readable(&mut self) -> impl Future<Output = bool> + Unpin {
        let (upstream, client) = (self.upstream, self.client);
        let watches = &mut self.watches_client;
        poll_fn(move |cx| {
            if client.is_some_and(|client| *watches && poll_reset(client, watches, cx)) {
                return Poll::Ready(false);
            }
            while upstream.poll_read_ready(cx).is_ready() {
                // The readiness may be of a response before.
                match try_peek(upstream) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => return Poll::Ready(true),
                }
            }
            Poll::Pending
        })
    }

    /// Passes a 1xx response on to a client that knows them (RFC 9110 section 15.2) and removes it from `scratch.response`.
    async fn pass_interim(
        &mut self,
        timer: &mut Timer,
        scratch: &mut Scratch,
    ) -> Result<(), NoResponseHead> {
        if !self.interim.is_under_way() {
            self.interim.count += 1;
        }
        if self.interim.count > INTERIM_MAX {
            return Err(NoResponseHead::Refused(TOO_MANY_INTERIM));
        }
        if let Some(client) = self.client
            && scratch.request_head.version == Version::Http11
        {
            let mut out = Vec::with_capacity(256);
            let how = ResponseRewrite {
                via: self.via,
                client_version: Version::Http11,
                keep_alive: true,
                add_chunked: false,
                pass_upgrade: false,
            };
            http1::write_response(&mut out, &scratch.response, &scratch.response_head, &how);
            let done = self.interim.under_way.get_or_insert(0);
            let (patience, pace) = ((timer, self.idle), &mut ReceiverPace::new(None));
            match write_while_taken(patience, client, (&out, &[]), done, pace).await {
                Ok(Ok(())) => self.interim.under_way = None,
                Ok(Err(_)) | Err(_) => return Err(NoResponseHead::ClientGone),
            }
        }
        scratch.response.drain(..scratch.response_head.head_bytes);
        Ok(())
    }
}
