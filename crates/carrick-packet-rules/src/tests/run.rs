//! Runs the programs on frames.

use crate::skeleton::types::__sk_buff;
use crate::{Count, Programs, Rule, check, read};
use carrick_splice::hooks::{Direction, interfaces};
use libbpf_rs::MapHandle;
use libbpf_rs::libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};
use std::io;
use std::os::fd::AsRawFd;

/// What tc does with a packet (linux/pkt_cls.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The next program sees it, or the host.
    Next,
    Dropped,
    SentOn,
}

/// The kernel sums the packet up before the program runs, as an interface would, and looks afterwards whether its
/// sum is still right (`BPF_F_TEST_SKB_CHECKSUM_COMPLETE`; Linux 6.14).
const SUM_WHOLE: u32 = 1 << 2;

/// Where the firewall mark is in the context.
const MARK_AT: usize = std::mem::offset_of!(__sk_buff, mark);

/// The programs, with a set of rules.
pub struct Bench {
    programs: Programs,
    set: MapHandle,
    rules: usize,
}

/// What came of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Verdict,
    pub frame: Vec<u8>,
    pub mark: u32,
}

/// The programs with these rules. `None`, and a word about it, without privileges.
pub fn bench(rules: &[Rule]) -> Option<Bench> {
    if !carrick_test::is_root() {
        return None;
    }
    check::check(rules).expect("rules that make sense");
    let programs = Programs::load().expect("the programs");
    let set = install(&programs, rules);
    Some(Bench {
        programs,
        set,
        rules: rules.len(),
    })
}

fn install(programs: &Programs, rules: &[Rule]) -> MapHandle {
    let here = interfaces().expect("the interfaces");
    programs.install(rules, &here).expect("the set")
}

impl Bench {
    pub fn replace(&mut self, rules: &[Rule]) {
        check::check(rules).expect("rules that make sense");
        self.set = install(&self.programs, rules);
        self.rules = rules.len();
    }

    pub fn counts(&self) -> Vec<Count> {
        read(&self.set, &vec![Count::default(); self.rules]).expect("the counts")
    }

    /// Runs a program on a frame at the interface `lo`, once as it is, and once summed up by the interface.
    pub fn run(&self, direction: Direction, frame: &[u8]) -> Outcome {
        self.run_marked(direction, frame, 0)
    }

    /// The same for a packet with a firewall mark.
    pub fn run_marked(&self, direction: Direction, frame: &[u8], mark: u32) -> Outcome {
        let plain = self.run_once(direction, frame, mark, 0).expect("run");
        match self.run_once(direction, frame, mark, SUM_WHOLE) {
            Ok(summed) => assert_eq!(summed, plain),
            // Not in this kernel.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            // Its sum is without the Ethernet header, which it only knows at a real hook when it takes a tag off
            // (`bpf_push_mac_rcsum`).
            Err(error)
                if error.raw_os_error() == Some(libc::EBADMSG)
                    && plain.frame.len() + 4 == frame.len() => {}
            Err(error) => panic!("the kernel's sum of the packet is wrong afterwards: {error}"),
        }
        plain
    }

    #[expect(unsafe_code, reason = "libbpf-rs has it without the context")]
    fn run_once(
        &self,
        direction: Direction,
        frame: &[u8],
        mark: u32,
        flags: u32,
    ) -> io::Result<Outcome> {
        let program = match direction {
            Direction::Ingress => &self.programs.arriving,
            Direction::Egress => &self.programs.leaving,
        };
        let mut out = vec![0_u8; frame.len() + 64];
        // As numbers, because what is between its fields has to be 0, too.
        let mut context = [0_u64; size_of::<__sk_buff>() / 8];
        context[MARK_AT / 8] = u64::from_le(u64::from(mark) << (8 * (MARK_AT % 8)));
        let context_bytes = size_of_val(&context) as u32;
        let mut options = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as u64,
            data_in: frame.as_ptr().cast(),
            data_size_in: frame.len() as u32,
            data_out: out.as_mut_ptr().cast(),
            data_size_out: out.len() as u32,
            ctx_in: context.as_ptr().cast(),
            ctx_size_in: context_bytes,
            ctx_out: context.as_mut_ptr().cast(),
            ctx_size_out: context_bytes,
            repeat: 1,
            flags,
            ..Default::default()
        };
        // SAFETY: the options are those of this version of libbpf, and point to memory that outlives the call.
        let outcome = unsafe { bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
        if outcome < 0 {
            return Err(io::Error::from_raw_os_error(-outcome));
        }
        out.truncate(options.data_size_out as usize);
        let verdict = match options.retval.cast_signed() {
            -1 => Verdict::Next,
            2 => Verdict::Dropped,
            7 => Verdict::SentOn,
            other => panic!("no program answers {other}"),
        };
        Ok(Outcome {
            verdict,
            frame: out,
            mark: (context[MARK_AT / 8].to_le() >> (8 * (MARK_AT % 8))) as u32,
        })
    }
}
