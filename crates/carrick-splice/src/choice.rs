//! Chooses the engine for each burst, and records why. Decides only; moves nothing.

use crate::Engine;
use std::str::FromStr;

// CPU time of the relaying process per keep-alive request over veth, medians of five interleaved runs on a busy machine,
// copied and by pipe: 1 KB, 16 and 19 us; 10 KB, 22 and 21 us; 64 KB, 38 and 27 us; 1 MB, 450 and 150 us. They cost the
// same somewhere about 10 KB.

/// A body of at least this many bytes goes by pipe from its first byte.
pub(crate) const LARGE_BODY_BYTES: u64 = 16 << 10;

/// A burst of at least this many bytes, or one that fills the copy buffer, switches a direction to a pipe.
pub(crate) const LARGE_BURST_BYTES: usize = 16 << 10;

/// A burst of at most this many bytes is cheaper to copy.
pub(crate) const SMALL_BURST_BYTES: usize = 8 << 10;

/// This many small bursts in a row switch a direction back to copying.
pub(crate) const SMALL_BURSTS: u8 = 4;

/// The engine that an order asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Choice {
    /// The fastest for each transfer, by its length or by the bursts seen. A long exchange goes to the
    /// kernel's engines that are loaded and take it: `Packet` before `Socket`. (A caller that gives long
    /// responses to the engine `Packet` by [`Splicer::responses`](crate::Splicer::responses) first checks
    /// [`Splicer::may_choose_packets`](crate::Splicer::may_choose_packets).)
    #[default]
    Auto,
    /// Always [`Engine::Copy`](crate::Engine::Copy).
    Copy,
    /// [`Engine::Pipe`](crate::Engine::Pipe) whenever a pipe is available.
    Pipe,
    /// [`Engine::Socket`](crate::Engine::Socket), where it is loaded and the kernel takes the connections; otherwise, and for
    /// transfers with a local copy, as `Auto`.
    Socket,
    /// [`Engine::Packet`](crate::Engine::Packet) for exchanges, where it is loaded and the connections are
    /// compatible; otherwise, and for transfers, as `Auto`. (Responses are given to the engine by
    /// [`Splicer::responses`](crate::Splicer::responses).)
    Packet,
}

/// An unknown engine name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown engine `{0}`; use auto, copy, pipe, socket or packet")]
pub struct UnknownEngine(String);

impl FromStr for Choice {
    type Err = UnknownEngine;

    /// The choice of this name, as in carrick's configuration: `auto`, `copy`, `pipe`, `socket`, `packet`.
    fn from_str(word: &str) -> Result<Choice, UnknownEngine> {
        match word {
            "auto" => Ok(Choice::Auto),
            "copy" => Ok(Choice::Copy),
            "pipe" => Ok(Choice::Pipe),
            "socket" => Ok(Choice::Socket),
            "packet" => Ok(Choice::Packet),
            _ => Err(UnknownEngine(word.to_owned())),
        }
    }
}

/// Why an engine was chosen. Counted in [`Counters`](crate::Counters), once per decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The order names the engine.
    Forced,
    /// The length is known and small: copying is cheaper.
    SmallBody,
    /// The length is known and large: a pipe is cheaper.
    LargeBody,
    /// The length is unknown and nothing has been seen yet: copying, until a large burst arrives.
    UnknownLength,
    /// A large burst arrived: on with a pipe.
    BurstLarge,
    /// Only small bursts arrived for a while: back to copying.
    BurstSmall,
    /// The local copy goes to the process, which has the bytes in a buffer anyway.
    LocalCopy,
    /// No pipe was available: copying.
    PipesExhausted,
    /// Small messages go back and forth: on in the kernel.
    Chatter,
    /// Too much data, or too little room, for the kernel: back to the process.
    Bulk,
    /// The socket engine was asked for and is not loaded.
    SocketUnavailable,
    /// The socket engine was asked for a transfer with a local copy, which it does not support.
    SocketLocalCopy,
    /// All slots of the socket engine are taken.
    SocketFull,
    /// The kernel did not take a connection, usually because it is half closed already.
    SocketRefused,
    /// The packet engine was asked for and is not loaded.
    PacketUnavailable,
    /// All slots of the packet engine are taken.
    PacketFull,
    /// Only one of the two connections has timestamps, which the packet engine can translate but not invent.
    PacketTimestamps,
    /// Likewise, SACK.
    PacketSack,
    /// Likewise, ECN.
    PacketEcn,
    /// One side's segments may be too long for the other.
    PacketSegments,
    /// A connection is signed (TCP MD5, TCP-AO).
    PacketSigned,
    /// One connection is IPv4, the other IPv6.
    PacketFamilies,
    /// A peer is this machine.
    PacketLoopback,
    /// A connection uses a network interface that the packet engine is not on.
    PacketInterface,
    /// The packets of a connection were not seen under its addresses: they are translated, or take another
    /// route.
    PacketUnseen,
    /// The order does not name the engine, and netfilter rules must see all packets, such as quotas.
    PacketNetfilter,
    /// Likewise, and packets are marked, or routed by marks.
    PacketMarks,
    /// Likewise, and an interface drops packets whose reverse route is another one (`rp_filter`).
    PacketReversePath,
    /// Between the networks of both peers one leg loses so much that two connections do better than one.
    PacketLossyPath,
    /// The kernel did not take the packets.
    PacketRefused,
    /// A tunnel has cost the process enough, or enough of a response is still to come, for the packet engine
    /// to pay.
    PacketPays,
}

impl Reason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Reason; 31] = [
        Reason::Forced,
        Reason::SmallBody,
        Reason::LargeBody,
        Reason::UnknownLength,
        Reason::BurstLarge,
        Reason::BurstSmall,
        Reason::LocalCopy,
        Reason::PipesExhausted,
        Reason::Chatter,
        Reason::Bulk,
        Reason::SocketUnavailable,
        Reason::SocketLocalCopy,
        Reason::SocketFull,
        Reason::SocketRefused,
        Reason::PacketUnavailable,
        Reason::PacketFull,
        Reason::PacketTimestamps,
        Reason::PacketSack,
        Reason::PacketEcn,
        Reason::PacketSegments,
        Reason::PacketSigned,
        Reason::PacketFamilies,
        Reason::PacketLoopback,
        Reason::PacketInterface,
        Reason::PacketUnseen,
        Reason::PacketNetfilter,
        Reason::PacketMarks,
        Reason::PacketReversePath,
        Reason::PacketLossyPath,
        Reason::PacketRefused,
        Reason::PacketPays,
    ];

    /// A short name for metrics: lower case, words joined by `_`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Forced => "forced",
            Reason::SmallBody => "small_body",
            Reason::LargeBody => "large_body",
            Reason::UnknownLength => "unknown_length",
            Reason::BurstLarge => "burst_large",
            Reason::BurstSmall => "burst_small",
            Reason::LocalCopy => "local_copy",
            Reason::PipesExhausted => "pipes_exhausted",
            Reason::Chatter => "chatter",
            Reason::Bulk => "bulk",
            Reason::SocketUnavailable => "socket_unavailable",
            Reason::SocketLocalCopy => "socket_local_copy",
            Reason::SocketFull => "socket_full",
            Reason::SocketRefused => "socket_refused",
            Reason::PacketUnavailable => "packet_unavailable",
            Reason::PacketFull => "packet_full",
            Reason::PacketTimestamps => "packet_timestamps",
            Reason::PacketSack => "packet_sack",
            Reason::PacketEcn => "packet_ecn",
            Reason::PacketSegments => "packet_segments",
            Reason::PacketSigned => "packet_signed",
            Reason::PacketFamilies => "packet_families",
            Reason::PacketLoopback => "packet_loopback",
            Reason::PacketInterface => "packet_interface",
            Reason::PacketUnseen => "packet_unseen",
            Reason::PacketNetfilter => "packet_netfilter",
            Reason::PacketMarks => "packet_marks",
            Reason::PacketReversePath => "packet_rp_filter",
            Reason::PacketLossyPath => "packet_lossy_path",
            Reason::PacketRefused => "packet_refused",
            Reason::PacketPays => "packet_pays",
        }
    }
}

/// Chooses for one direction, burst by burst. A burst is what one read finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chooser {
    engine: Engine,
    adapts: bool,
    small_bursts: u8,
}

impl Chooser {
    /// The first choice, and why. `length` is the number of bytes to come, if known; `copy_to_process`: a
    /// local copy needs the bytes in a buffer.
    pub(crate) fn new(
        choice: Choice,
        length: Option<u64>,
        copy_to_process: bool,
    ) -> (Chooser, Reason) {
        let (engine, adapts, reason) = match (choice, length) {
            // What the kernel leaves to the process is copied: splice(2) does not work on a socket in a
            // SOCKMAP.
            (Choice::Copy | Choice::Socket, _) => (Engine::Copy, false, Reason::Forced),
            (Choice::Pipe, _) => (Engine::Pipe, false, Reason::Forced),
            (Choice::Auto | Choice::Packet, _) if copy_to_process => {
                (Engine::Copy, false, Reason::LocalCopy)
            }
            (Choice::Auto | Choice::Packet, Some(length)) if length < LARGE_BODY_BYTES => {
                (Engine::Copy, false, Reason::SmallBody)
            }
            (Choice::Auto | Choice::Packet, Some(_)) => (Engine::Pipe, true, Reason::LargeBody),
            (Choice::Auto | Choice::Packet, None) => (Engine::Copy, true, Reason::UnknownLength),
        };
        (
            Chooser {
                engine,
                adapts,
                small_bursts: 0,
            },
            reason,
        )
    }

    /// The engine for the next burst, of which at most `bytes_max` will be taken.
    #[inline]
    pub(crate) fn engine(&self, bytes_max: u64) -> Engine {
        if self.adapts && bytes_max <= SMALL_BURST_BYTES as u64 {
            Engine::Copy
        } else {
            self.engine
        }
    }

    /// Records a burst of `bytes`; `filled`: there was no room for more. Returns the reason if the engine
    /// changes.
    #[inline]
    pub(crate) fn observe(&mut self, bytes: usize, filled: bool) -> Option<Reason> {
        if !self.adapts {
            return None;
        }
        if bytes > SMALL_BURST_BYTES || filled {
            self.small_bursts = 0;
        } else {
            self.small_bursts = self.small_bursts.saturating_add(1);
        }
        match self.engine {
            Engine::Copy if bytes >= LARGE_BURST_BYTES || filled => {
                self.engine = Engine::Pipe;
                Some(Reason::BurstLarge)
            }
            Engine::Pipe if self.small_bursts >= SMALL_BURSTS => {
                self.engine = Engine::Copy;
                Some(Reason::BurstSmall)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
