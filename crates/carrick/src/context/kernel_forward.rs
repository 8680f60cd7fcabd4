//! A client whose responses the kernel forwards, and the server's connection that they come from.
use super::destination::NextHop;
use super::request_log::RequestLog;
use crate::telemetry::forwarded::ReportedName;
use crate::upstream::checkout::Checkout;
use carrick_logic::http1::{Method, ResponseBody};
use carrick_splice::ResponseSplice;
use carrick_splice::tcp::UnreadWindow;
use std::cell::Cell;

/// After this many refusals in a row a client is left to the process: each costs some system calls.
pub const REFUSALS_MAX: u32 = 3;

/// A client's connection and a server's between which the kernel forwards: the server's serves this client alone for a while.
pub struct Pair {
    /// The name under which the kernel records the requests that it forwards. Declared before the splice, so that it is dropped first.
    pub(crate) named: Option<ReportedName>,
    pub(crate) checkout: Checkout,
    pub(crate) splice: Box<ResponseSplice>,
    pub(crate) next_hop: NextHop,
    /// The response under way.
    pub(crate) pending: Option<Pending>,
    /// The latest request's head as the client has written it: for the log, and to ask another server.
    pub(crate) request: Vec<u8>,
    pub(crate) past: PastResponses,
    /// Limits what waits unread of the server, once a client has not taken at once what the process relays.
    pub(crate) unread: Option<UnreadWindow>,
}

/// What a client's connection has to do with forwarding in the kernel.
#[derive(Default)]
pub struct KernelForward {
    /// The pair that it is part of.
    pub pair: Option<Box<Pair>>,
    /// Whether a request of it was answered: for clients that send only one, a pair does not pay.
    pub is_persistent: bool,
    /// How often the engine has refused it in a row.
    pub(crate) refusals: Cell<u32>,
    /// Whether it has sent a request before it had the previous response.
    pub has_pipelined: bool,
    /// Whether a server has reported a request loop: only the process marks requests, and without the mark the loop would go on.
    pub(crate) is_in_circle: Cell<bool>,
}

/// The status of a request that has come back (RFC 5842 section 7.2).
const LOOP_DETECTED: u16 = 508;

impl KernelForward {
    /// The engine has refused it with a server's connection. It may accept another one.
    pub fn refused(&self) {
        self.refusals.set(self.refusals.get() + 1);
    }

    /// Whether it is not worth trying again.
    pub fn is_hopeless(&self) -> bool {
        self.refusals.get() >= REFUSALS_MAX || self.is_in_circle.get()
    }

    /// A server has answered a request of it with this status.
    pub fn note_status(&self, status: u16) {
        if status == LOOP_DETECTED {
            self.is_in_circle.set(true);
        }
    }

    /// Whether the kernel may forward the client's next response.
    pub fn is_worth_it(&self) -> bool {
        self.is_persistent && !self.is_hopeless()
    }

    /// The engine has accepted it, or the configuration has changed: what was refused may be accepted now.
    pub fn start_afresh(&self) {
        self.refusals.set(0);
        self.is_in_circle.set(false);
    }
}

/// A request whose response the kernel forwards.
pub struct Pending {
    pub(crate) log: RequestLog,
    pub(crate) method: Method,
    /// Whether the connection was exactly at rest when the request was sent: what comes is its response.
    pub(crate) is_trusted: bool,
    /// Whether the kernel has forwarded the request, and records it.
    pub(crate) is_classified: bool,
    /// The response's head, as soon as it is known.
    pub(crate) known: Option<KnownHead>,
    /// Whether the kernel has read in the head how long the response is: of long heads the process gets no more than a part.
    pub(crate) is_measured: bool,
    /// Bytes of the response that went through the process.
    pub(crate) relayed_bytes: u64,
}

/// What a response's head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownHead {
    /// Bytes of all heads, interim ones included.
    pub head_bytes: u64,
    /// Its status.
    pub status: u16,
    /// What follows it.
    pub body: ResponseBody,
    /// Whether the connection goes on.
    pub keep_alive: bool,
    /// Another head follows (1xx), of which nothing is known.
    pub is_interim: bool,
}

/// What is known of the responses so far on a server's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastResponses {
    /// Whether each is known to be whole by its length: then the next bytes are the next response's head.
    pub is_exact: bool,
    /// The length of the latest one was known, so that its end is certain.
    pub(crate) had_length: bool,
    /// Whether the latest one said that its connection ends.
    pub is_closing: bool,
}
