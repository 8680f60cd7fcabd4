//! The splice service: joins two TCP connections so that bytes flow from one to the other until an agreed boundary, and
//! hands both back exactly there.
//!
//! A [`Splicer`] belongs to one thread (one tokio `current_thread` runtime). It makes [`Transfer`]s (one way) and
//! [`Exchange`]s (both ways). Both can be left at any moment: drop the future that `run` returned, then call `unsplice`.
//!
//! | engine | bytes move | use |
//! |---|---|---|
//! | [`Engine::Copy`] | through the process | small transfers; anything that must be looked at |
//! | [`Engine::Pipe`] | socket, pipe, socket by `splice(2)`; `tee(2)` for the local copy | bulk |
//! | [`Engine::Socket`] | in the kernel, by BPF `sk_skb` | tunnels and chatter |
//! | [`Engine::Packet`] | in the kernel, packet by packet, by tc BPF; exchanges only | tunnels between like connections |
//!
//! Bytes are held only while they are in flight, in a buffer or pipe from the splicer's pools: an idle tunnel costs its
//! state, a few hundred bytes, and its two sockets. A receiver that does not read holds its sender back, as TCP does.
//!
//! A response of known length, passed on and followed by the next one on the same connections:
//!
//! ```
//! use carrick_splice::{Counters, End, Ended, Order, PoolLimits, Splicer, tcp};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # async fn connection() -> std::io::Result<(TcpStream, TcpStream)> {
//! #     let listener = TcpListener::bind("127.0.0.1:0").await?;
//! #     let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr()?), listener.accept());
//! #     Ok((near?, far?.0))
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (mut server, upstream) = connection().await?;
//! # let (client, mut browser) = connection().await?;
//! let splicer = Splicer::new(PoolLimits::default(), std::sync::Arc::new(Counters::default()));
//! tcp::set_nodelay(&client)?;
//! # server.write_all(b"hello world, and the next response").await?;
//!
//! // The head was read and checked. Of the body, eleven bytes long, "hel" was read together with it; the rest
//! // is still in the upstream's socket.
//! # let mut read = [0; 3];
//! # let mut upstream = upstream;
//! # upstream.read_exact(&mut read).await?;
//! let head_and_more = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhel";
//! let order = Order { prefix: head_and_more, ..Order::new(End::AfterBytes(8)) };
//! let mut transfer = splicer.transfer(&upstream, &client, order);
//! match transfer.run().await {
//!     Ok(Ended::Bytes) => {} // Both connections stand behind the body: they can be used again.
//!     Ok(_) => tcp::reset_on_close(&client)?, // The upstream closed early, or nothing moves any more.
//!     Err(fault) => return Err(fault.into()),
//! }
//! # drop(transfer);
//! # let mut arrived = vec![0; head_and_more.len() + 8];
//! # browser.read_exact(&mut arrived).await?;
//! # assert!(arrived.ends_with(b"\r\n\r\nhello world"));
//! # assert_eq!(tcp::pending_input(&upstream)?, 23);
//! # Ok(())
//! # }
//! ```
//!
//! A whole relay, and how this interface relates to `splice` and `unsplice` of the papers and to `SO_SPLICE` of BSD:
//! [`interface`].

#[macro_use]
mod skeleton;

mod choice;
mod counters;
mod engine;
mod exchange;
pub mod interface;
pub mod ktls;
mod last_bytes;
mod leg;
mod lifecycle;
mod loopback;
pub mod netlink;
mod outcome;
mod pacing;
pub mod probe;
mod refusal;
mod relay;
mod responses;
pub mod syn_defer;
mod sys;
pub mod tcp;
pub mod tcp_tuning;
mod transfer;
mod unavailable;
pub mod verifier;

pub use choice::{Choice, Reason, UnknownEngine};
pub use counters::{Counter, Counters};
pub use engine::sockmap::live::{LiveDirection, LiveLeg, LiveSplice};
pub use engine::sockmap::{SPLICES_MAX, SocketService};
pub use engine::tc::{
    Adopted, AdoptedTotals, Cleaned, Left, LossyPath, PacketService, Pinned, Taken,
    http as requests, measuring,
};
pub use exchange::{Exchange, ExchangeEnd, ExchangeOrder};
pub use last_bytes::LAST_BYTES_IDLE;
pub use leg::Leg;
pub use lifecycle::State as SpliceState;
pub use lifecycle::pair::Forwarded;
pub use lifecycle::policy::Joining;
pub use outcome::{End, Ended, Fault, HandOver, Side};
pub use pacing::{
    ClassReport, ClassSettings, Drain, HOLD_MAX, INTERVAL, NetworkRate, PaceError, PaceHandle,
    Paced, Pacer, Pacing, Policy, RATE_MAX, RATE_MIN, Throttle, Weight, WorkerReport,
};
pub use relay::local_copy::LocalCopy;
pub use relay::pool::{PoolLimits, Splicer};
pub use relay::stalls::Stalled;
pub use relay::watch::{RateMin, STEP_BYTES};
pub use responses::{
    Arming, CaughtUp, DisarmError, KernelRoutes, Progress as ResponseProgress, ResponseSplice,
    ResponseWatch, ToldResponse,
};
pub use transfer::{Order, Transfer};
pub use unavailable::Unavailable;

/// Programs at the network interfaces: what carrick-packet-rules takes of the packet engine.
#[doc(hidden)]
pub mod hooks {
    pub use crate::engine::tc::hooks::{
        Direction, HookError, HookPosition, Hooks, Interface, Interfaces, Settings, interfaces,
    };
}

/// How bytes move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Through a buffer of the process.
    Copy,
    /// Through a pipe, by `splice(2)`.
    Pipe,
    /// In the kernel, from socket to socket, without waking the process.
    Socket,
    /// In the kernel, from interface to interface, without touching the sockets.
    Packet,
}
