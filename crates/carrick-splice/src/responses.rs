//! Responses that the kernel forwards from a server to a client, while the requests go through the process (packet engine).

use crate::packet::command::Answer;
use crate::packet::records::Record;
use crate::packet::splice::PacketSplice;
use crate::{Reason, Splicer};
use std::io;
use std::task::Context;
use tokio::net::TcpStream;

/// A client's connection and a server's, between which the kernel forwards what the server sends, packet by packet: the
/// response, head included, does not visit the process. What the client sends, its end of stream and a reset come to its
/// socket here as always; the process reads requests, and writes them to the server's socket.
///
/// While it is armed, nothing may be written to the client's socket, and nothing comes to the server's but its end of stream (once
/// the client has acknowledged all before it) or a reset. After [`ResponseSplice::disarm`] both sockets are as if all that was
/// forwarded had gone through them. Dropping it disarms, too.
///
/// The connections stay known to the kernel as long as they live, since their numbers differ from those of their peers from
/// then on. They can be bound again, to each other or to others.
pub struct ResponseSplice {
    splice: PacketSplice,
    record: Record,
    splicer: Splicer,
    /// What had been forwarded, and acknowledged, before the latest request was sent.
    before: Progress,
    /// Acknowledged bytes that are in the splicer's counters.
    counted_bytes: u64,
}

/// Bytes of responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Forwarded to the client.
    pub sent_bytes: u64,
    /// And acknowledged by it.
    pub acked_bytes: u64,
}

/// What came of an attempt to arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arming {
    /// The kernel forwards what the server sends from now on.
    Armed,
    /// Not yet: the kernel has not seen both connections, or something is under way. Relay this response; the next one may go.
    NotYet,
    /// Never, for this reason, which the splicer has counted.
    Never(Reason),
}

impl Splicer {
    /// Makes two connections known to the kernel, so that [`ResponseSplice::arm`] can follow once a request and a response have
    /// passed. `label` is the owner's number for it.
    ///
    /// # Errors
    /// Why that cannot be; it is counted.
    pub fn responses(
        &self,
        client: &TcpStream,
        server: &TcpStream,
        label: u64,
    ) -> Result<ResponseSplice, Reason> {
        let refuse = |reason| {
            self.counters().reason(reason).add(1);
            reason
        };
        let engine = self
            .packet_engine()
            .ok_or_else(|| refuse(Reason::PacketUnavailable))?;
        let record = engine
            .take_record()
            .ok_or_else(|| refuse(Reason::PacketFull))?;
        match PacketSplice::new(engine, [client, server], label) {
            Ok(Some(splice)) => Ok(ResponseSplice {
                splice,
                record,
                splicer: self.clone(),
                before: Progress::default(),
                counted_bytes: 0,
            }),
            Ok(None) => Err(refuse(Reason::PacketFull)),
            Err(_) => Err(refuse(Reason::PacketRefused)),
        }
    }
}

impl ResponseSplice {
    /// Lets the kernel forward what the server sends. To be called between a response and the next request, before that is
    /// written to the server's socket. Costs a system call.
    pub fn arm(&mut self) -> Arming {
        if self.splice.is_armed() {
            return Arming::Armed;
        }
        let refuse = |splicer: &Splicer, reason| {
            splicer.counters().reason(reason).add(1);
            Arming::Never(reason)
        };
        match self.splice.arm_responses(&self.record) {
            Ok(Answer::Done) => {
                self.splicer.counters().packet_splices.add(1);
                self.counted_bytes = self.record.acked_bytes();
                self.expect_response();
                Arming::Armed
            }
            Ok(Answer::Busy | Answer::Unseen) => Arming::NotYet,
            Ok(Answer::Unlike | Answer::Segments | Answer::Signed) => {
                refuse(&self.splicer, Reason::PacketUnlike)
            }
            Ok(_) | Err(_) => refuse(&self.splicer, Reason::PacketRefused),
        }
    }

    /// Whether the kernel forwards what the server sends.
    #[must_use]
    pub fn is_armed(&self) -> bool {
        self.splice.is_armed()
    }

    /// A request is about to be written to the server's socket: what is forwarded from now on belongs to its response, if all
    /// responses before are whole.
    pub fn expect_response(&mut self) {
        self.count();
        self.before = self.total();
    }

    /// How much of the response has gone to the client. Costs no system call.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let total = self.total();
        Progress {
            sent_bytes: total.sent_bytes - self.before.sent_bytes,
            acked_bytes: total.acked_bytes - self.before.acked_bytes,
        }
    }

    /// The beginning of the response: what was in its first packet, at most 1024 bytes. Empty if there is none yet, or if its packets did
    /// not come in order. What it means is for the caller to say: if the response before was not whole when the request was
    /// sent, these may be bytes of that one. Costs no system call.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        self.record.head(self.before.sent_bytes)
    }

    /// The last five bytes of what was forwarded; empty if they are not known. Costs no system call.
    #[must_use]
    pub fn tail(&self) -> Vec<u8> {
        self.record.tail()
    }

    /// Whether the server's end of stream has come behind the response. It is kept from the client.
    #[must_use]
    pub fn has_server_ended(&self) -> bool {
        self.record.has_end()
    }

    /// Sees to `cx` being woken when the server has ended its stream and the client has acknowledged all before, or when packets have
    /// to go another way. False if there is nobody to do that.
    pub fn listen(&self, cx: &Context<'_>) -> bool {
        self.splice.listen(cx)
    }

    /// Gives both connections back to their sockets. What the client has not acknowledged yet comes again, to the
    /// server's socket; that takes a retransmission time-out.
    ///
    /// # Errors
    /// The kernel's: neither connection can be used any more.
    pub fn disarm(&mut self) -> io::Result<()> {
        self.count();
        match self.splice.disarm()? {
            Answer::Done => Ok(()),
            answer => Err(io::Error::other(format!("the packet engine: {answer:?}"))),
        }
    }

    fn total(&self) -> Progress {
        // In this order: what is acknowledged was sent before.
        let acked_bytes = self.record.acked_bytes();
        Progress {
            sent_bytes: self.record.sent_bytes(),
            acked_bytes,
        }
    }

    fn count(&mut self) {
        let acked_bytes = self.record.acked_bytes();
        let counters = self.splicer.counters();
        counters.packet_bytes.add(acked_bytes - self.counted_bytes);
        self.counted_bytes = acked_bytes;
    }
}

impl Drop for ResponseSplice {
    fn drop(&mut self) {
        if self.is_armed() {
            self.count();
        }
    }
}

impl std::fmt::Debug for ResponseSplice {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ResponseSplice")
            .field("is_armed", &self.is_armed())
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}
