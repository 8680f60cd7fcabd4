//! The programs in the kernel, on no interface: their effect on a packet.

use super::loaded::{Loaded, Parts, Pool};
use super::wire::{ACK, Packet, RST, SYN};
use crate::engine::tc::command::{ProgramRun, run_on};
use crate::engine::tc::skeleton::types::{flow, packet_response, packet_splice, packet_state};
use crate::engine::tc::state::key;
use crate::engine::tc::{Connections, PacketEngine};
use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// `enum packet_state`.
pub const PROCESS: u32 = packet_state::PACKET_PROCESS.0;
pub const SPLICED: u32 = packet_state::PACKET_SPLICED.0;
pub const ENDED: u32 = packet_state::PACKET_ENDED.0;
pub const RESET: u32 = packet_state::PACKET_RESET.0;

/// The client's connection, and the server's.
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// The hook that sees the packet.
#[derive(Debug, Clone, Copy)]
pub enum Hook {
    Arriving,
    Leaving,
}
pub use Hook::{Arriving, Leaving};

/// The packet's expected fate.
#[derive(Debug, Clone)]
pub enum Fate {
    /// It passes, as this.
    Passed(Packet),
    /// It is forwarded to the other peer, as this.
    Forwarded(Packet),
    Dropped,
}
pub use Fate::{Dropped, Forwarded, Passed};

/// The mark that the programs use among themselves.
pub const OWN_MARK: u32 = 0x6361_7273;

/// bpf/tc/tc.bpf.c: the mark of copies for local sockets.
pub const COPY_MARK: u32 = OWN_MARK ^ 1;

/// net/pkt_cls.h: TC_ACT_UNSPEC, TC_ACT_SHOT, TC_ACT_REDIRECT.
const UNSPEC: u32 = u32::MAX;
const SHOT: u32 = 2;
const REDIRECT: u32 = 7;

/// The kernel computes the packet's checksum before the program runs, as an interface would, and checks it afterwards
/// (`BPF_F_TEST_SKB_CHECKSUM_COMPLETE`; Linux 6.14).
const SUM_WHOLE: u32 = 1 << 2;

/// The loaded programs and a splice at slot 0, whose connections have these addresses: ours, the peer's.
pub struct Lab {
    flows: MapHandle,
    splices: MapHandle,
    pulse: MapHandle,
    responses: MapHandle,
    programs: [OwnedFd; 2],
    pub addresses: [(SocketAddr, SocketAddr); 2],
    _loaded: Loaded,
}

static POOL: Pool = Pool::new(Vec::new());

impl Lab {
    /// `None` without root.
    pub fn v4() -> Option<Lab> {
        Lab::new([
            ("198.51.100.1:80", "192.0.2.9:40000"),
            ("198.51.100.2:50000", "203.0.113.5:8000"),
        ])
    }

    /// The same for IPv6.
    pub fn v6() -> Option<Lab> {
        Lab::new([
            ("[2001:db8:1::1]:80", "[2001:db8:ffff::9]:40000"),
            ("[2001:db8:2::1]:50000", "[2001:db8:abcd::5]:8000"),
        ])
    }

    fn new(addresses: [(&str, &str); 2]) -> Option<Lab> {
        let parse = |text: &str| text.parse().unwrap();
        Lab::between(addresses.map(|(own, peer)| (parse(own), parse(peer))))
    }

    pub fn between(addresses: [(SocketAddr, SocketAddr); 2]) -> Option<Lab> {
        if !carrick_test::is_root() {
            return None;
        }
        let loaded = Loaded::take(&POOL, || {
            let mut object = MaybeUninit::uninit();
            let loaded =
                PacketEngine::load_maps(&mut object, 4, OWN_MARK, None, Connections::Written);
            Parts::of(loaded.unwrap().object())
        });
        let lab = Lab {
            flows: loaded.map("flows"),
            splices: loaded.map("splices"),
            pulse: loaded.map("pulse"),
            responses: loaded.map("responses"),
            programs: ["carrick_arriving", "carrick_leaving"].map(|name| loaded.program(name)),
            addresses,
            _loaded: loaded,
        };
        lab.know_flows();
        Some(lab)
    }

    /// Makes both connections known (again).
    pub fn know_flows(&self) {
        for (number, addresses) in (0_u32..).zip(self.addresses) {
            let number = number.to_ne_bytes();
            self.flows
                .update(&key(addresses), &number, MapFlags::ANY)
                .unwrap();
        }
    }

    /// Whether the connection of a side is known.
    pub fn knows(&self, side: usize) -> bool {
        let flow = self.flows.lookup(&key(self.addresses[side]), MapFlags::ANY);
        flow.unwrap().is_some()
    }

    /// When a packet was last forwarded, and when a process last attended.
    pub fn pulse(&self) -> [u64; 2] {
        let value = self.pulse.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        [0, 8].map(|at| u64::from_ne_bytes(value[at..at + 8].try_into().unwrap()))
    }

    pub fn set_pulse(&self, pulse: [u64; 2]) {
        let value = pulse.map(u64::to_ne_bytes).concat();
        self.pulse.update(&[0; 4], &value, MapFlags::ANY).unwrap();
    }

    pub fn set(&self, splice: &packet_splice) {
        self.splices
            .update(&0_u32.to_ne_bytes(), as_bytes(splice), MapFlags::ANY)
            .unwrap();
    }

    pub fn splice(&self) -> packet_splice {
        let bytes = self.splices.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        from_bytes(&bytes.unwrap().unwrap())
    }

    /// The state of record 1, for responses.
    pub fn record(&self) -> packet_response {
        let bytes = self.responses.lookup(&1_u32.to_ne_bytes(), MapFlags::ANY);
        from_bytes(&bytes.unwrap().unwrap())
    }

    pub fn set_record(&self, record: &packet_response) {
        let number = 1_u32.to_ne_bytes();
        self.responses
            .update(&number, as_bytes(record), MapFlags::ANY)
            .unwrap();
    }

    pub fn run(&self, hook: Hook, frame: &[u8], context: &[u8]) -> ProgramRun {
        self.run_once(hook, frame, context, 0).unwrap()
    }

    /// The same for a packet whose checksum the interface has computed over the whole (CHECKSUM_COMPLETE), which must
    /// be right afterwards. `None` if this kernel does not support that.
    pub fn run_summed(&self, hook: Hook, frame: &[u8]) -> Option<ProgramRun> {
        match self.run_once(hook, frame, &[], SUM_WHOLE) {
            Ok(ran) => Some(ran),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
            Err(error) => {
                panic!("the kernel's checksum of the packet is wrong afterwards: {error}")
            }
        }
    }

    fn run_once(
        &self,
        hook: Hook,
        frame: &[u8],
        context: &[u8],
        flags: u32,
    ) -> std::io::Result<ProgramRun> {
        run_on(self.programs[hook as usize].as_fd(), frame, context, flags)
    }

    /// Runs a program on a packet, with the splice in state `before`; checks that exactly the expected fields of the splice change.
    #[track_caller]
    pub fn check(
        &self,
        what: &str,
        before: &packet_splice,
        (hook, packet): (Hook, &Packet),
        fate: Fate,
        change: impl FnOnce(&mut packet_splice),
    ) -> packet_splice {
        self.set(before);
        let summed = self.run_summed(hook, &packet.bytes());
        self.know_flows();
        self.set(before);
        let ran = self.run(hook, &packet.bytes(), &[]);
        if let Some(summed) = summed {
            assert_eq!(summed.verdict, ran.verdict, "summed up: {what}");
            assert_frame(&summed.packet, &ran.packet, what);
        }
        let (verdict, expected) = match &fate {
            Passed(packet) => (UNSPEC, Some(packet)),
            Forwarded(packet) => (REDIRECT, Some(packet)),
            Dropped => (SHOT, None),
        };
        assert_eq!(ran.verdict, verdict, "the verdict: {what}");
        if let Some(expected) = expected {
            assert_frame(&ran.packet, &expected.bytes(), what);
        }
        let mut after = self.splice();
        let mut expected = *before;
        if matches!(fate, Forwarded(_)) {
            self.offer(&mut expected, packet);
        }
        change(&mut expected);
        assert_eq!(after.seen_ns != 0, matches!(fate, Forwarded(_)), "{what}");
        forget_times(&mut after);
        assert_eq!(format!("{after:#?}"), format!("{expected:#?}"), "{what}");
        after
    }

    /// Notes what the kernel does of the window in a peer's packet that it forwards through a tunnel.
    fn offer(&self, splice: &mut packet_splice, packet: &Packet) {
        if packet.flags & (SYN | RST) != 0 {
            return;
        }
        let side = usize::from(packet.source != self.addresses[CLIENT].1);
        let window = u32::from(packet.window) << (splice.legs[side].peer_shift & 15);
        let back = &mut splice.ways[1 - side];
        let acked = packet.ack.wrapping_sub(back.delta);
        if acked.wrapping_sub(back.acked) < 1 << 31 {
            back.offered_end = acked.wrapping_add(window);
        }
    }

    /// A packet from a peer, and its form for the other peer if only addresses are translated.
    pub fn peer_packet(&self, side: usize) -> (Packet, Packet) {
        let (own, peer) = self.addresses[side];
        let (other_own, other_peer) = self.addresses[1 - side];
        let packet = Packet {
            source: peer,
            destination: own,
            seq: 0,
            ack: 0,
            flags: ACK,
            window: 1000,
            urgent: 0,
            options: Vec::new(),
            payload: Vec::new(),
            tos: 0,
            hops: 64,
            ip_options: Vec::new(),
        };
        let forwarded = packet.with(|packet| {
            packet.source = other_own;
            packet.destination = other_peer;
            packet.hops = 63;
        });
        (packet, forwarded)
    }

    /// A packet from the local socket to its peer.
    pub fn local_packet(&self, side: usize) -> Packet {
        let (own, peer) = self.addresses[side];
        self.peer_packet(side).0.with(|packet| {
            packet.source = own;
            packet.destination = peer;
        })
    }

    /// A splice in the hands of the local sockets.
    pub fn in_process(&self) -> packet_splice {
        let mut splice = packet_splice {
            state: PROCESS,
            ..packet_splice::default()
        };
        for (leg, addresses) in splice.legs.iter_mut().zip(self.addresses) {
            leg.flow = from_bytes::<flow>(&key(addresses));
            leg.is_ipv6 = u8::from(addresses.0.is_ipv6());
            leg.ifindex = 1;
            leg.was_received = 1;
        }
        splice
    }
}

/// Reports the first difference, with its offset.
#[track_caller]
pub fn assert_frame(frame: &[u8], expected: &[u8], what: &str) {
    let parting = frame.iter().zip(expected).position(|(a, b)| a != b);
    assert!(
        frame == expected,
        "{what}: byte {parting:?} differs\n   is {frame:02x?}\n want {expected:02x?}"
    );
}

/// Types that the kernel and the process share: plain numbers without gaps.
pub trait Plain: Default {}
impl Plain for packet_splice {}
impl Plain for flow {}
impl Plain for packet_response {}

#[expect(unsafe_code, reason = "the generated types have no conversion")]
pub fn as_bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: plain numbers without gaps may be seen as bytes.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

#[expect(unsafe_code, reason = "the generated types have no conversion")]
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    // SAFETY: every pattern of bits is a value of plain numbers, and there are enough bytes.
    unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) }
}

/// Times and generations of routes differ from run to run.
pub fn forget_times(splice: &mut packet_splice) {
    (splice.seen_ns, splice.noted_ns, splice.noted_bytes) = (0, 0, 0);
    (splice.active_ns, splice.pending_ns) = (0, 0);
    for leg in &mut splice.legs {
        (leg.shown_at, leg.hop_generation, leg.hop_ifindex) = (0, 0, 0);
    }
}
