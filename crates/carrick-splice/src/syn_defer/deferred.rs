//! A deferred SYN, and the decisions about it.

use super::Inner;
use super::frame::{Syn, Unreachable};
use super::skeleton::types::{__sk_buff, syn_answer, syn_report, syn_state};
use crate::engine::tc::command::{ETHERNET_HEADER, run, run_in};
use std::io;
use std::mem::offset_of;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Offsets of a record's fields.
const FLOW_BYTES: usize = offset_of!(syn_report, sequence);
const SEQUENCE_AT: usize = offset_of!(syn_report, sequence);
const MARK_AT: usize = offset_of!(syn_report, mark);
const INTERFACE_AT: usize = offset_of!(syn_report, interface);
const PACKET_BYTES_AT: usize = offset_of!(syn_report, packet_bytes);
const SOURCE_AT: usize = offset_of!(syn_report, source);
const DESTINATION_AT: usize = offset_of!(syn_report, destination);
const PACKET_AT: usize = size_of::<syn_report>();

/// Types of Ethernet frames.
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

/// Which way a packet goes.
#[derive(Clone, Copy)]
enum Way {
    /// Into the interface, as if it arrived.
    In,
    /// Out of it.
    Out,
}

/// A deferred SYN. Dropped, it is forgotten: nothing is answered, and the client's retransmission is deferred
/// anew.
pub struct DeferredSyn {
    client: SocketAddr,
    server: SocketAddr,
    /// The record's head.
    head: [u8; PACKET_AT],
    /// The packet, from the IP header on, with its whole checksum.
    packet: Vec<u8>,
    inner: Arc<Inner>,
    is_decided: bool,
}

impl DeferredSyn {
    /// `None` if it is not a valid SYN; it is forgotten.
    pub(super) fn read(record: &[u8], inner: &Arc<Inner>) -> Option<DeferredSyn> {
        let (head, packet) = record.split_first_chunk()?;
        let mut deferred = DeferredSyn {
            // Until the packet is read.
            client: SocketAddr::from(([0; 4], 0)),
            server: SocketAddr::from(([0; 4], 0)),
            head: *head,
            packet: Vec::new(),
            inner: Arc::clone(inner),
            is_decided: false,
        };
        let packet = packet.get(..deferred.number(PACKET_BYTES_AT) as usize)?;
        let syn = Syn::read(packet)?;
        deferred.packet = syn.with_checksum()?;
        (deferred.client, deferred.server) = (syn.client(), syn.server());
        Some(deferred)
    }

    /// The client's address. IPv4 addresses are not mapped.
    #[must_use]
    pub fn client(&self) -> SocketAddr {
        self.client
    }

    /// The address it connects to.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// The packet's firewall mark.
    #[must_use]
    pub fn mark(&self) -> u32 {
        self.number(MARK_AT)
    }

    /// The number of the interface it came in on.
    #[must_use]
    pub fn interface(&self) -> u32 {
        self.number(INTERFACE_AT)
    }

    /// How many more hops it may make, the one by this machine included (TTL, hop limit); 0: it is not valid.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        Syn::read(&self.packet).map_or(0, |syn| syn.hop_limit())
    }

    /// The longest segment that the client takes, in bytes as TCP's option MSS counts them, if it says.
    #[must_use]
    pub fn segment_bytes(&self) -> Option<u16> {
        Syn::read(&self.packet)?.segment_bytes()
    }

    /// Releases it: it enters the interface again unchanged, and passes, as do its retransmissions. False:
    /// too late, because it has passed meanwhile, the client has started another attempt, or it was evicted;
    /// the client retransmits it.
    ///
    /// # Errors
    /// The interface is gone or down; the kernel's.
    pub fn release(mut self) -> io::Result<bool> {
        if !self.decide(syn_state::SYN_RELEASED)? {
            return Ok(false);
        }
        let packet = std::mem::take(&mut self.packet);
        self.send(Way::In, &packet)
    }

    /// Answers it as a server without a listener does: with a RST. False: as for [`DeferredSyn::release`].
    ///
    /// # Errors
    /// As of [`DeferredSyn::release`].
    pub fn refuse(mut self) -> io::Result<bool> {
        let answer = Syn::read(&self.packet).map(|syn| syn.reset());
        self.answer(answer)
    }

    /// Answers it as a router that cannot forward does: with an ICMP message, from the server's address.
    /// False: as for [`DeferredSyn::release`].
    ///
    /// # Errors
    /// As of [`DeferredSyn::release`].
    pub fn unreachable(mut self, why: Unreachable) -> io::Result<bool> {
        let answer = Syn::read(&self.packet).map(|syn| syn.unreachable(why));
        self.answer(answer)
    }

    fn answer(&mut self, answer: Option<Vec<u8>>) -> io::Result<bool> {
        let Some(answer) = answer else {
            return Ok(false);
        };
        if !self.decide(syn_state::SYN_REFUSED)? {
            return Ok(false);
        }
        self.send(Way::Out, &answer)
    }

    fn number(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.head[at..at + 4]);
        u32::from_ne_bytes(bytes)
    }

    /// False if it is too late.
    fn decide(&mut self, state: syn_state) -> io::Result<bool> {
        self.is_decided = true;
        self.note(state.0)
    }

    /// `struct syn_decision`.
    fn note(&self, state: u32) -> io::Result<bool> {
        let mut decision = ETHERNET_HEADER.to_vec();
        decision.extend_from_slice(&self.head[..FLOW_BYTES]);
        decision.extend_from_slice(&self.head[SEQUENCE_AT..SEQUENCE_AT + 4]);
        decision.extend_from_slice(&state.to_ne_bytes());
        let answer = run(self.inner.decide.as_fd(), &decision)?;
        Ok(answer == syn_answer::SYN_DONE.0)
    }

    /// False: the decision was evicted (`SYN_ENTRIES_MAX`), so that the program sends nothing.
    fn send(&self, way: Way, packet: &[u8]) -> io::Result<bool> {
        let [client, own] = [SOURCE_AT, DESTINATION_AT].map(|at| &self.head[at..at + 6]);
        let (to, from, comes_in) = match way {
            Way::In => (own, client, 1),
            Way::Out => (client, own, 0),
        };
        let kind = if self.client.is_ipv4() { IPV4 } else { IPV6 };
        let frame = [to, from, &kind, packet].concat();
        let mut context = [0; size_of::<__sk_buff>()];
        let fields = [
            (offset_of!(__sk_buff, ifindex), self.interface()),
            (offset_of!(__sk_buff, cb), comes_in),
        ];
        for (at, value) in fields {
            context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        // What a helper returns: 0, or an error; also codes of a queue that drops it (include/linux/netdevice.h, `NET_XMIT_DROP`),
        // which is a loss like any other.
        let outcome = run_in(self.inner.send.as_fd(), &frame, &context)?.cast_signed();
        match -outcome {
            libc::EPERM => Ok(false),
            errno if errno > 0 => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(true),
        }
    }
}

impl Drop for DeferredSyn {
    fn drop(&mut self) {
        if !self.is_decided {
            // If that fails, it is forgotten after a time.
            let _ = self.note(0);
        }
    }
}

impl std::fmt::Debug for DeferredSyn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("DeferredSyn");
        debug
            .field("client", &self.client)
            .field("server", &self.server)
            .field("mark", &self.mark())
            .finish_non_exhaustive()
    }
}
