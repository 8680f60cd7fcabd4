//! What the process asks of the program `carrick_command`, which is run on a packet of the process' own (`BPF_PROG_TEST_RUN`): it can
//! look at local sockets and change a splice in one step, as no other call can.

use super::skeleton::types::{packet_answer, packet_command};
use super::state::{self, Addresses};
use crate::Reason;
use libbpf_rs::libbpf_sys::bpf_test_run_opts;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An Ethernet header without meaning: the kernel wants one. Its type is one for experiments (IEEE 802).
pub(crate) const ETHERNET_HEADER: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88, 0xb5];

/// A question of `enum packet_command`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    /// Splice. How each way is paced (`pace_handle`).
    Arm { pace: [u64; 2] },
    /// Let what is forwarded to the peer of this side go by this interface.
    GoBy { side: u32, interface: u32 },
    /// Splice what the second connection's peer sends, and note it in this record.
    ArmResponses {
        record: u32,
        /// Requests are judged in the kernel.
        judging: Option<Judging>,
        /// How what is forwarded is paced.
        pace: u64,
    },
    /// Likewise, in the midst of a response, as soon as that can be.
    ArmBody {
        record: u32,
        /// Bytes of it that were read and not written yet.
        held_bytes: u32,
        /// Bytes of it that were not read yet.
        rest_bytes: u64,
        /// How what is forwarded is paced.
        pace: u64,
    },
    /// Give the connections back; by force even if their local sockets are not at rest, or more requests were forwarded than this process
    /// knows of.
    Disarm {
        is_forced: bool,
        /// So many it knows of.
        judged: u32,
    },
    /// The local socket of this side may send its end of stream.
    MayEnd { side: u32 },
    /// Is a local socket there yet?
    Look,
    /// The slot is free again, and its connections are let go.
    Forget,
}

/// By which routes the kernel judges requests that it may forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judging {
    /// The place of the table ([`RequestTables::install`](super::http::RequestTables::install)).
    pub table: u32,
    /// Its generation. Once another table is there, all requests are up to the process.
    pub generation: u32,
    /// Where the server's connection leads: requests with a route to elsewhere are up to the process.
    pub upstream: u32,
}

/// `enum packet_answer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// There is no such splice, or it is not in a state for that.
    NoSlot,
    /// A local socket is not established.
    NoSocket,
    /// A local socket has something to receive or to send, or the server has not acknowledged a request that was forwarded. Of a look: a
    /// peer has not acknowledged all that a local socket has sent, its end included.
    Busy,
    /// No packet of a connection has passed the hooks both ways yet.
    Unseen,
    /// Only one connection has timestamps.
    Timestamps,
    /// Likewise, selective acknowledgements.
    Sack,
    /// Likewise, ECN.
    Ecn,
    /// Segments of one side may be too long for the other.
    Segments,
    /// A connection is signed.
    Signed,
    /// It has ended.
    Ended,
    /// It is done, and a connection keeps the numbers of an earlier splice.
    Continued,
    /// A connection, or an interface, is not this process's.
    NotOurs,
    /// More requests were forwarded than this process knows of.
    Behind,
    /// A connection's packets have IP options, or TCP options that were not agreed on.
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

    /// Why two connections are not spliced, if this is the answer.
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

/// Asks it about the splice at `slot`.
pub(super) fn ask(program: BorrowedFd<'_>, slot: u32, command: Command) -> io::Result<Answer> {
    let (number, argument) = match command {
        Command::Arm { .. } => (packet_command::PACKET_ARM, 0),
        Command::Disarm { is_forced, .. } => (packet_command::PACKET_DISARM, u32::from(is_forced)),
        Command::MayEnd { side } => (packet_command::PACKET_MAY_END, side),
        Command::Look => (packet_command::PACKET_LOOK, 0),
        Command::Forget => (packet_command::PACKET_FORGET, 0),
        Command::ArmResponses { record, .. } => (packet_command::PACKET_ARM_RESPONSES, record),
        Command::ArmBody { record, .. } => (packet_command::PACKET_ARM_BODY, record),
        Command::GoBy { interface, .. } => (packet_command::PACKET_GO_BY, interface),
    };
    let further = match command {
        Command::ArmResponses {
            judging: Some(judging),
            ..
        } => [
            judging.table + 1,
            judging.generation,
            judging.upstream,
            0,
            0,
            0,
            0,
        ],
        Command::GoBy { side, .. } => [0, 0, 0, side, 0, 0, 0],
        Command::ArmBody {
            held_bytes,
            rest_bytes,
            ..
        } => {
            let lower = (rest_bytes & u64::from(u32::MAX)) as u32;
            let upper = (rest_bytes >> 32) as u32;
            [0, 0, 0, 0, held_bytes, lower, upper]
        }
        _ => [0; 7],
    };
    let pace = match command {
        Command::Arm { pace } => pace,
        Command::ArmResponses { pace, .. } | Command::ArmBody { pace, .. } => [0, pace],
        _ => [0; 2],
    };
    let pace = pace
        .into_iter()
        .flat_map(|handle| [(handle & u64::from(u32::MAX)) as u32, (handle >> 32) as u32]);
    let mut packet = Vec::with_capacity(96);
    packet.extend_from_slice(&ETHERNET_HEADER);
    let judged = match command {
        Command::Disarm { judged, .. } => judged,
        _ => 0,
    };
    let words = [number.0, slot, argument].into_iter();
    for word in words.chain(further).chain(pace).chain([judged]) {
        packet.extend_from_slice(&word.to_ne_bytes());
    }
    run(program, &packet).map(Answer::of)
}

/// Gives two connections a slot, by the program `carrick_place`.
pub(super) fn fill_slot(
    program: BorrowedFd<'_>,
    slot: u32,
    legs: [Addresses; 2],
) -> io::Result<Answer> {
    let mut packet = ETHERNET_HEADER.to_vec();
    packet.extend_from_slice(&state::slot_question(slot, legs));
    run(program, &packet).map(Answer::of)
}

/// Runs a tc program on a packet, and gives what it returns.
pub(crate) fn run(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
    run_in(program, packet, &[])
}

/// [`run`], with fields of the packet that are not in its bytes (a `struct __sk_buff`, or nothing).
pub(crate) fn run_in(program: BorrowedFd<'_>, packet: &[u8], context: &[u8]) -> io::Result<u32> {
    test_run(program, packet, context, &mut [], (1, 0)).map(|options| options.retval)
}

/// How long the program takes, in nanoseconds: the mean of so many times in a row, on one packet, whatever it makes of that.
pub(super) fn measure(program: BorrowedFd<'_>, packet: &[u8], times: u32) -> io::Result<u32> {
    let times = i32::try_from(times).unwrap_or(i32::MAX);
    test_run(program, packet, &[], &mut [], (times, 0)).map(|options| options.duration)
}

/// What a program has made of a packet.
#[derive(Debug)]
pub(super) struct Ran {
    /// What it returned.
    pub(super) verdict: u32,
    /// The packet afterwards.
    pub(super) packet: Vec<u8>,
}

/// [`run_in`], as the flags say (`BPF_F_TEST_…`), with the packet's bytes afterwards.
pub(super) fn run_on(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: &[u8],
    flags: u32,
) -> io::Result<Ran> {
    let mut after = vec![0; packet.len() + 256];
    let options = test_run(program, packet, context, &mut after, (1, flags))?;
    after.truncate(options.data_size_out as usize);
    Ok(Ran {
        verdict: options.retval,
        packet: after,
    })
}

/// The program's options afterwards: what it returned, the length of the packet in `after`, the mean time that it took.
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
