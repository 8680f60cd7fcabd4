//! What the process asks of the program `carrick_command`, which is run on a packet of the process' own (`BPF_PROG_TEST_RUN`): it can
//! look at local sockets and change a splice in one step, as no other call can.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An Ethernet header without meaning: the kernel wants one. Its type is one for experiments (IEEE 802).
const ETHERNET_HEADER: [u8; 14] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x88, 0xb5];

/// A question of `enum packet_command`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Command {
    /// Splice.
    Arm,
    /// Splice what the second connection's peer sends, and note it in this record.
    ArmResponses { record: u32 },
    /// Give the connections back; by force even if their local sockets are not at rest.
    Disarm { is_forced: bool },
    /// The local socket of this side may send its end of stream.
    MayEnd { side: u32 },
    /// Is a local socket there yet?
    Look,
}

/// `enum packet_answer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// There is no such splice, or it is not in a state for that.
    NoPlace,
    /// A local socket is not established.
    NoSocket,
    /// A local socket has something to receive, to send, or to be acknowledged.
    Busy,
    /// No packet of a connection has passed the hooks both ways yet.
    Unseen,
    /// Only one connection has timestamps, selective acknowledgements, or ECN.
    Unlike,
    /// Segments of one side may be too long for the other.
    Segments,
    /// A connection is signed.
    Signed,
    /// It has ended.
    Ended,
}

impl Answer {
    fn of(number: u32) -> Answer {
        match number {
            0 => Answer::Done,
            2 => Answer::NoSocket,
            3 => Answer::Busy,
            4 => Answer::Unseen,
            5..=7 => Answer::Unlike,
            8 => Answer::Segments,
            9 => Answer::Signed,
            10 => Answer::Ended,
            _ => Answer::NoPlace,
        }
    }
}

/// Asks it about the splice at `place`.
pub(super) fn ask(program: BorrowedFd<'_>, place: u32, command: Command) -> io::Result<Answer> {
    let (number, argument) = match command {
        Command::Arm => (1_u32, 0),
        Command::Disarm { is_forced } => (2, u32::from(is_forced)),
        Command::MayEnd { side } => (3, side),
        Command::Look => (4, 0),
        Command::ArmResponses { record } => (5, record),
    };
    let mut packet = Vec::with_capacity(64);
    packet.extend_from_slice(&ETHERNET_HEADER);
    for word in [number, place, argument] {
        packet.extend_from_slice(&word.to_ne_bytes());
    }
    run(program, &packet).map(Answer::of)
}

/// Runs a tc program on a packet, and gives what it returns.
pub(super) fn run(program: BorrowedFd<'_>, packet: &[u8]) -> io::Result<u32> {
    test_run(program, packet, &[], &mut []).map(|(returned, _)| returned)
}

/// What a program has made of a packet.
#[cfg(test)]
#[derive(Debug)]
pub(super) struct Ran {
    /// What it returned.
    pub(super) verdict: u32,
    /// The packet afterwards.
    pub(super) packet: Vec<u8>,
}

/// [`run`], with fields of the packet that are not in its bytes (a `struct __sk_buff`, or nothing), and its bytes afterwards.
#[cfg(test)]
pub(super) fn run_on(program: BorrowedFd<'_>, packet: &[u8], context: &[u8]) -> io::Result<Ran> {
    let mut after = vec![0; packet.len() + 256];
    let (verdict, length) = test_run(program, packet, context, &mut after)?;
    after.truncate(length);
    Ok(Ran {
        verdict,
        packet: after,
    })
}

/// What the program returns, and the length of the packet in `after`.
#[expect(
    unsafe_code,
    reason = "libbpf-rs has it only for programs that cannot be shared between threads"
)]
fn test_run(
    program: BorrowedFd<'_>,
    packet: &[u8],
    context: &[u8],
    after: &mut [u8],
) -> io::Result<(u32, usize)> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
    let mut options = libbpf_rs::libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_test_run_opts>() as u64,
        data_in: packet.as_ptr().cast(),
        data_size_in: size(packet)?,
        repeat: 1,
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
    Ok((options.retval, options.data_size_out as usize))
}
