//! Commands to the program `carrick_command`, which runs on a packet of the process's own
//! (`BPF_PROG_TEST_RUN`): unlike other calls, it can read local sockets and change a splice in one step.

use super::skeleton::types::{packet_answer, packet_command};
use super::state::{self, Addresses};
use crate::Reason;
use crate::sys::clock::now_ns;
use libbpf_rs::libbpf_sys::bpf_test_run_opts;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// A dummy Ethernet header, which the kernel requires. Its type is for experiments (IEEE 802).
pub(crate) const ETHERNET_HEADER: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88, 0xb5];

/// A command of `enum packet_command`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    /// Splice, with the pacing of each way (`pace_handle`).
    Arm { pace: [u64; 2] },
    /// Forward to the peer of this side by this interface.
    GoBy { side: u32, interface: u32 },
    /// Splice what the second connection's peer sends, and keep its state in this record.
    ArmResponses {
        record: u32,
        /// How the kernel classifies requests, if it does.
        routes: Option<KernelRoutes>,
        /// How what is forwarded is paced.
        pace: u64,
    },
    /// Likewise, in the middle of a response, as soon as possible.
    ArmBody {
        record: u32,
        /// Bytes of it that were read but not written yet.
        held_bytes: u32,
        /// Its unread bytes.
        rest_bytes: u64,
        /// How what is forwarded is paced.
        pace: u64,
    },
    /// Return the connections; if forced, even if their local sockets are not at rest, or the kernel has
    /// forwarded requests that this process does not know of.
    Disarm {
        is_forced: bool,
        /// The number of forwarded requests it knows of.
        classified: u32,
    },
    /// Return the connections although the server's is of no further use. It may have missed a forwarded request.
    TakeClient { classified: u32 },
    /// The local socket of this side may send its FIN.
    MayEnd { side: u32 },
    /// Report whether a local socket still exists.
    Look,
    /// Free the slot and remove its connections.
    Forget,
}

/// The routes by which the kernel classifies requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRoutes {
    /// The index of the table ([`RequestTables::install`](super::http::RequestTables::install)).
    pub table: u32,
    /// Its generation. Once the table is replaced, the process gets all requests.
    pub generation: u32,
    /// The upstream of the server's connection: the process gets requests that are routed elsewhere.
    pub upstream: u32,
    /// After so many requests the process gets the next one: it may choose another server.
    pub requests_max: u32,
    /// Likewise, after this time.
    pub time_max: Duration,
}

/// `enum packet_answer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done.
    Done,
    /// There is no such splice, or it is in the wrong state.
    NoSlot,
    /// A local socket is not established.
    NoSocket,
    /// A local socket has something to receive or to send, or the server has not acknowledged a forwarded
    /// request. For `Look`: a peer has not acknowledged everything that a local socket has sent, FIN
    /// included.
    Busy,
    /// A connection's packets have not passed the hooks in both directions yet.
    Unseen,
    /// Only one connection has timestamps.
    Timestamps,
    /// Likewise, SACK.
    Sack,
    /// Likewise, ECN.
    Ecn,
    /// One side's segments may be too long for the other.
    Segments,
    /// A connection is signed.
    Signed,
    /// The splice has ended.
    Ended,
    /// Done, and a connection keeps the offsets of an earlier splice.
    Continued,
    /// A connection, or an interface, is not this process's.
    NotOurs,
    /// The kernel has forwarded more requests than this process knows of.
    Behind,
    /// A connection's packets have IP options, or TCP options that were not negotiated.
    Options,
}

impl Answer {
    fn of(number: u32) -> Answer {
        match packet_answer(number) {
            packet_answer::PACKET_DONE => Answer::Done,
            packet_answer::PACKET_NO_SOCKET => Answer::NoSocket,
            packet_answer::PACKET_BUSY => Answer::Busy,
            packet_answer::PACKET_UNSEEN => Answer::Unseen,
            packet_answer::PACKET_TIMESTAMPS => Answer::Timestamps,
            packet_answer::PACKET_SACK => Answer::Sack,
            packet_answer::PACKET_ECN => Answer::Ecn,
            packet_answer::PACKET_SEGMENTS => Answer::Segments,
            packet_answer::PACKET_SIGNED => Answer::Signed,
            packet_answer::PACKET_ENDED_BEFORE => Answer::Ended,
            packet_answer::PACKET_CONTINUED => Answer::Continued,
            packet_answer::PACKET_NOT_OURS => Answer::NotOurs,
            packet_answer::PACKET_BEHIND => Answer::Behind,
            packet_answer::PACKET_OPTIONS => Answer::Options,
            _ => Answer::NoSlot,
        }
    }

    /// The reason that this answer gives for not splicing.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Answer::Timestamps => Reason::PacketTimestamps,
            Answer::Sack => Reason::PacketSack,
            Answer::Ecn => Reason::PacketEcn,
            Answer::Segments => Reason::PacketSegments,
            Answer::Signed => Reason::PacketSigned,
            Answer::Unseen => Reason::PacketUnseen,
            Answer::Done
            | Answer::NoSlot
            | Answer::NoSocket
            | Answer::Busy
            | Answer::Ended
            | Answer::Continued
            | Answer::NotOurs
            | Answer::Behind
            | Answer::Options => Reason::PacketRefused,
        }
    }
}

/// Sends a command for the splice at `slot`.
pub(super) fn ask(program: BorrowedFd<'_>, slot: u32, command: Command) -> io::Result<Answer> {
    let (number, argument) = match command {
        Command::Arm { .. } => (packet_command::PACKET_ARM, 0),
        Command::Disarm { is_forced, .. } => (packet_command::PACKET_DISARM, u32::from(is_forced)),
        Command::TakeClient { .. } => (packet_command::PACKET_TAKE_CLIENT, 0),
        Command::MayEnd { side } => (packet_command::PACKET_MAY_END, side),
        Command::Look => (packet_command::PACKET_LOOK, 0),
        Command::Forget => (packet_command::PACKET_FORGET, 0),
        Command::ArmResponses { record, .. } => (packet_command::PACKET_ARM_RESPONSES, record),
        Command::ArmBody { record, .. } => (packet_command::PACKET_ARM_BODY, record),
        Command::GoBy { interface, .. } => (packet_command::PACKET_GO_BY, interface),
    };
    let further = match command {
        Command::ArmResponses {
            routes: Some(routes),
            ..
        } => {
            let [lower, upper] = halves(u128::from(now_ns()) + routes.time_max.as_nanos());
            let KernelRoutes {
                table,
                generation,
                upstream,
                ..
            } = routes;
            [table + 1, generation, upstream, 0, 0, lower, upper]
        }
        Command::GoBy { side, .. } => [0, 0, 0, side, 0, 0, 0],
        Command::ArmBody {
            held_bytes,
            rest_bytes,
            ..
        } => {
            let [lower, upper] = halves(rest_bytes.into());
            [0, 0, 0, 0, held_bytes, lower, upper]
        }
        _ => [0; 7],
    };
    let pace = match command {
        Command::Arm { pace } => pace,
        Command::ArmResponses { pace, .. } | Command::ArmBody { pace, .. } => [0, pace],
        _ => [0; 2],
    };
    let pace = pace.into_iter().flat_map(|handle| halves(handle.into()));
    let mut packet = Vec::with_capacity(96);
    packet.extend_from_slice(&ETHERNET_HEADER);
    let requests = match command {
        Command::Disarm { classified, .. } | Command::TakeClient { classified } => classified,
        Command::ArmResponses { routes, .. } => routes.map_or(0, |routes| routes.requests_max),
        _ => 0,
    };
    let words = [number.0, slot, argument].into_iter();
    for word in words.chain(further).chain(pace).chain([requests]) {
        packet.extend_from_slice(&word.to_ne_bytes());
    }
    run(program, &packet).map(Answer::of)
}

/// A number of 64 bits, lower half first; a larger one counts as the largest.
fn halves(number: u128) -> [u32; 2] {
    let number = u64::try_from(number).unwrap_or(u64::MAX);
    [(number & u64::from(u32::MAX)) as u32, (number >> 32) as u32]
}

/// Puts two connections into a slot, by the program `carrick_place`.
pub(super) fn fill_slot(
    program: BorrowedFd<'_>,
    slot: u32,
    legs: [Addresses; 2],
) -> io::Result<Answer> {
    let mut packet = ETHERNET_HEADER.to_vec();
    packet.extend_from_slice(&state::slot_question(slot, legs));
    run(program, &packet).map(Answer::of)
}

/// Runs a tc program on a packet, and returns its result.
pub(crate) fn run(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
    run_in(program, packet, &[])
}

/// [`run`], with packet metadata (a `struct __sk_buff`, or nothing).
pub(crate) fn run_in(program: BorrowedFd<'_>, packet: &[u8], context: &[u8]) -> io::Result<u32> {
    test_run(program, packet, context, &mut [], (1, 0)).map(|options| options.retval)
}

/// How long the program takes, in nanoseconds: the mean of this many runs on one packet, whatever their
/// result.
pub(super) fn measure(program: BorrowedFd<'_>, packet: &[u8], times: u32) -> io::Result<u32> {
    let times = i32::try_from(times).unwrap_or(i32::MAX);
    test_run(program, packet, &[], &mut [], (times, 0)).map(|options| options.duration)
}

/// The result of a program run.
#[derive(Debug)]
pub(super) struct ProgramRun {
    /// Its return value.
    pub(super) verdict: u32,
    /// The packet afterwards.
    pub(super) packet: Vec<u8>,
}

/// [`run_in`], with these flags (`BPF_F_TEST_…`); also returns the packet's bytes afterwards.
pub(super) fn run_on(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: &[u8],
    flags: u32,
) -> io::Result<ProgramRun> {
    let mut after = vec![0; packet.len() + 256];
    let options = test_run(program, packet, context, &mut after, (1, flags))?;
    after.truncate(options.data_size_out as usize);
    Ok(ProgramRun {
        verdict: options.retval,
        packet: after,
    })
}

/// The call's results: return value, length of the packet in `after`, mean run time.
#[expect(
    unsafe_code,
    reason = "libbpf-rs has it only for programs that cannot be shared between threads"
)]
fn test_run(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: &[u8],
    after: &mut [u8],
    (times, flags): (i32, u32),
) -> io::Result<bpf_test_run_opts> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as u64,
        data_in: packet.as_ptr().cast(),
        data_size_in: size(packet)?,
        repeat: times,
        flags,
        ..Default::default()
    };
    if !context.is_empty() {
        options.ctx_in = context.as_ptr().cast();
        options.ctx_size_in = size(context)?;
    }
    if !after.is_empty() {
        options.data_size_out = size(after)?;
        options.data_out = after.as_mut_ptr().cast();
    }
    // SAFETY: the options are those of this version of libbpf, and point to memory that outlives the call.
    let outcome =
        unsafe { libbpf_rs::libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if outcome < 0 {
        return Err(io::Error::from_raw_os_error(-outcome));
    }
    Ok(options)
}
