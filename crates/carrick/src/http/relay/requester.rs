//! For whom a response is fetched: for a client that waits for it, or for the store alone.
use crate::context::client::Client;
use crate::context::downstream::Downstream;
use crate::context::pace::KeptPace;
use crate::context::request_context::RequestContext;
use crate::net::deadline::Timer;
use crate::net::transport::Transport;
use crate::upstream::checkout::Checkout;
use carrick_splice::tcp::is_hung_up;
use std::task::{Context, Waker};

/// For whom a response is fetched.
pub enum Requester<'a> {
    /// A client, which gets the response.
    Client(&'a mut Client),
    /// The store alone.
    Store(&'a mut Background),
}

/// What is fetched for the store alone, in the name of a client that does not wait for it.
pub struct Background {
    /// In whose name.
    pub context: RequestContext,
    /// Limits what has to be waited for.
    pub timer: Timer,
    pace: KeptPace,
}

impl Background {
    /// A fetch in this name.
    #[must_use]
    pub fn new(context: RequestContext) -> Self {
        Self {
            context,
            timer: Timer::default(),
            pace: KeptPace::default(),
        }
    }
}

impl Requester<'_> {
    /// What the request is decided, fetched and logged by.
    pub(super) fn context(&self) -> &RequestContext {
        match self {
            Self::Client(client) => &client.context,
            Self::Store(background) => &background.context,
        }
    }

    /// The client, if it gets the response.
    pub(super) fn client(&mut self) -> Option<&mut Client> {
        match self {
            Self::Client(client) => Some(client),
            Self::Store(_) => None,
        }
    }

    /// The connection of a client that gets the response.
    pub(super) fn downstream(&self) -> Option<&Downstream> {
        match self {
            Self::Client(client) => Some(&client.downstream),
            Self::Store(_) => None,
        }
    }

    /// Whether the client has reset its stream of HTTP/2 or, where the server's connection is shared, its connection. Servers end connections,
    /// with the requests of others, for some that are begun in vain.
    pub(super) fn is_gone(&self, found: &Checkout) -> bool {
        match self.downstream().map(|downstream| &downstream.transport) {
            Some(Transport::Http2(stream)) => {
                let mut cx = Context::from_waker(Waker::noop());
                stream.poll_reset(&mut cx).is_ready()
            }
            Some(transport) if found.upstream.transport.server_stream().is_some() => {
                transport.socket().is_some_and(is_hung_up)
            }
            _ => false,
        }
    }

    /// Limits what has to be waited for.
    pub(super) fn timer(&mut self) -> &mut Timer {
        self.waiting().1
    }

    /// What a wait for the response's head needs: the context, the timer, and the connection of a client that gets the response.
    pub(super) fn waiting(&mut self) -> (&RequestContext, &mut Timer, Option<&Transport>) {
        match self {
            Self::Client(client) => {
                let downstream = &mut client.downstream;
                let transport = Some(&downstream.transport);
                (&client.context, &mut downstream.timer, transport)
            }
            Self::Store(background) => (&background.context, &mut background.timer, None),
        }
    }

    /// The context, and how what is spliced is paced by it.
    pub(super) fn pace(&mut self) -> (&RequestContext, &mut KeptPace) {
        match self {
            Self::Client(client) => (&client.context, &mut client.downstream.pace),
            Self::Store(background) => (&background.context, &mut background.pace),
        }
    }
}
