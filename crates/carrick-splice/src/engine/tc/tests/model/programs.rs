//! The real programs of the engine, run packet by packet. Their kernel calls are answered from maps (bpf/tc/model.bpf.c).

use super::super::lab::{COPY_MARK, as_bytes, from_bytes};
use super::super::loaded::{Loaded, Parts, Pool};
use super::endpoint::{Life, Tcp};
use super::frame::end;
use crate::engine::tc::command::{Answer, Command, ask, run_on};
use crate::engine::tc::granting::grant_some;
use crate::engine::tc::records::{Record, Records};
use crate::engine::tc::skeleton::types::{holding, pace_block, packet_splice};
use crate::engine::tc::state::{Addresses, key};
use crate::engine::tc::table::{SlotProgram, SpliceTable};
use crate::sys::mmap::Mmap;
use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/model.o"));

/// Slots for splices: each new one takes another.
pub const SLOTS: u32 = 64;

/// The first one is unused.
const RECORDS: u32 = 2;

/// net/tcp_states.h: TCP_ESTABLISHED, and another state.
const ESTABLISHED: u32 = 1;
const CLOSE_WAIT: u32 = 8;

/// net/pkt_cls.h: TC_ACT_UNSPEC, TC_ACT_SHOT, TC_ACT_REDIRECT.
const UNSPEC: u32 = u32::MAX;
const SHOT: u32 = 2;
const REDIRECT: u32 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Forward,
    Drop,
}

pub struct Programs {
    arriving: OwnedFd,
    leaving: OwnedFd,
    command: OwnedFd,
    place: OwnedFd,
    flows: MapHandle,
    splices: MapHandle,
    sockets: MapHandle,
    clock: MapHandle,
    clones: MapHandle,
    requests: MapHandle,
    lengths: MapHandle,
    records: Arc<Records>,
    grant: OwnedFd,
    held: MapHandle,
    pub holdings: Mmap,
    pub pace: Mmap,
    _loaded: Loaded,
}

static POOL: Pool = Pool::new(Vec::new());

/// A program's result for a frame, and the frame that it created for the local socket.
pub struct Outcome {
    pub verdict: Verdict,
    pub frame: Vec<u8>,
    pub clone: Option<Vec<u8>>,
}

impl Programs {
    /// `None` without root.
    pub fn load() -> Option<Programs> {
        if !carrick_test::is_root() {
            return None;
        }
        let loaded = Loaded::take(&POOL, || {
            let mut open = ObjectBuilder::default().open_memory(OBJECT).unwrap();
            for mut map in open.maps_mut() {
                match map.name().to_str().unwrap() {
                    "flows" => map.set_max_entries(2 * SLOTS).unwrap(),
                    "splices" => map.set_max_entries(SLOTS).unwrap(),
                    "responses" | "requests" => map.set_max_entries(RECORDS).unwrap(),
                    "held" => map.set_max_entries(4 * SLOTS).unwrap(),
                    _ => {}
                }
            }
            Parts::of(&open.load().unwrap())
        });
        let mapped = |name, bytes| Mmap::map(loaded.map(name).as_fd(), bytes).unwrap();
        let records = Records::map(loaded.map("responses").as_fd(), RECORDS).unwrap();
        Some(Programs {
            arriving: loaded.program("carrick_arriving"),
            leaving: loaded.program("carrick_leaving"),
            command: loaded.program("carrick_command"),
            place: loaded.program("carrick_place"),
            flows: loaded.map("flows"),
            splices: loaded.map("splices"),
            sockets: loaded.map("model_sockets"),
            clock: loaded.map("model_clock"),
            clones: loaded.map("model_clones"),
            requests: loaded.map("model_requests"),
            lengths: loaded.map("model_responses"),
            records: Arc::new(records),
            grant: loaded.program("carrick_grant"),
            held: loaded.map("held"),
            holdings: mapped("holdings", size_of::<holding>()),
            pace: mapped("pace", size_of::<pace_block>()),
            _loaded: loaded,
        })
    }

    /// The engine's table over these maps, empty.
    pub fn table(&self) -> SpliceTable {
        for map in [&self.flows, &self.sockets, &self.requests, &self.lengths] {
            for key in map.keys().collect::<Vec<_>>() {
                map.delete(&key).unwrap();
            }
        }
        self.forget_held();
        let copy = |map: &MapHandle| MapHandle::try_from(map).unwrap();
        let command = self.command.try_clone().unwrap();
        let slot_program = SlotProgram {
            program: self.place.try_clone().unwrap(),
            owned: copy(&self.sockets),
        };
        let splices = copy(&self.splices);
        for slot in 0..SLOTS {
            let nothing = vec![0; size_of::<packet_splice>()];
            splices
                .update(&slot.to_ne_bytes(), &nothing, MapFlags::ANY)
                .unwrap();
        }
        SpliceTable::new(
            copy(&self.flows),
            splices,
            command,
            Some(slot_program),
            SLOTS,
        )
    }

    /// Removes all waiters.
    pub fn forget_held(&self) {
        while self
            .held
            .lookup_and_delete(&[])
            .is_ok_and(|held| held.is_some())
        {}
        for at in (0..size_of::<holding>() & !7).step_by(8) {
            self.holdings.word(at).store(0, SeqCst);
        }
    }

    /// Number of waiters.
    pub fn held(&self) -> u32 {
        self.holdings
            .half_word(offset_of!(holding, count))
            .load(SeqCst)
    }

    /// Serves the first waiter. Returns the frame that arrives for it, if it gets something.
    pub fn grant(&self) -> Option<Vec<u8>> {
        grant_some(self.grant.as_fd(), 1).unwrap();
        self.take_clone()
    }

    /// The only record of forwarded responses.
    pub fn record(&self) -> Record {
        self.records.take().unwrap()
    }

    /// The kernel accepts a packet with this beginning and length as a plain request.
    pub fn let_classify(&self, first: [u8; 8], bytes: u64) {
        let bytes = (bytes as u32).to_ne_bytes();
        self.requests.update(&first, &bytes, MapFlags::ANY).unwrap();
    }

    /// Likewise, and it finds the line there that servers do not get.
    pub fn let_classify_without(&self, first: [u8; 8], bytes: u64, left_out_at: u64) {
        self.let_classify(first, bytes | left_out_at << 16);
    }

    /// The kernel finds this length in a response with this beginning.
    pub fn let_measure(&self, first: [u8; 8], bytes: u64) {
        self.lengths
            .update(&first, &bytes.to_ne_bytes(), MapFlags::ANY)
            .unwrap();
    }

    /// Two connections, at slot 0, in this state.
    pub fn set(&self, splice: &packet_splice, addresses: [Addresses; 2]) {
        for (number, addresses) in (0_u32..).zip(addresses) {
            let (key, number) = (key(addresses), number.to_ne_bytes());
            self.flows.update(&key, &number, MapFlags::ANY).unwrap();
        }
        let zero = 0_u32.to_ne_bytes();
        let splices = &self.splices;
        splices
            .update(&zero, as_bytes(splice), MapFlags::ANY)
            .unwrap();
    }

    /// Asks `carrick_command` about the splice at slot 0.
    pub fn ask(&self, command: Command) -> Answer {
        ask(self.command.as_fd(), 0, command).unwrap()
    }

    /// The state at slot 0.
    pub fn splice(&self) -> packet_splice {
        let bytes = self.splices.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        from_bytes(&bytes.unwrap().unwrap())
    }

    pub fn arriving(&self, frame: &[u8]) -> Outcome {
        self.arriving_as(frame, &[])
    }

    /// With fields of the packet that are not in its bytes (a `struct __sk_buff`).
    pub fn arriving_as(&self, frame: &[u8], context: &[u8]) -> Outcome {
        let outcome = self.run(&self.arriving, frame, context);
        // A shortened packet re-enters with its original addresses.
        let addresses = if frame[12] == 0x08 { 26..34 } else { 22..54 };
        if outcome.verdict == Verdict::Forward
            && outcome.frame[addresses.clone()] == frame[addresses]
        {
            return self.arriving(&outcome.frame);
        }
        outcome
    }

    pub fn leaving(&self, frame: &[u8]) -> Outcome {
        self.run(&self.leaving, frame, &[])
    }

    fn run(&self, program: &OwnedFd, frame: &[u8], context: &[u8]) -> Outcome {
        let ran = run_on(program.as_fd(), frame, context, 0).unwrap();
        Outcome {
            verdict: match ran.verdict {
                UNSPEC => Verdict::Pass,
                SHOT => Verdict::Drop,
                REDIRECT => Verdict::Forward,
                other => panic!("verdict {other}"),
            },
            frame: ran.packet,
            clone: self.clone_of(),
        }
    }

    /// The local socket's part of a copy: the programs see it once more when it arrives.
    fn clone_of(&self) -> Option<Vec<u8>> {
        let frame = self.take_clone()?;
        // struct __sk_buff: length, kind, mark.
        let context: Vec<u8> = [0, 0, COPY_MARK]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        let mut ran = run_on(self.arriving.as_fd(), &frame, &context, 0).unwrap();
        assert_eq!(ran.verdict, UNSPEC);
        ran.packet.truncate(end(&ran.packet));
        Some(ran.packet)
    }

    fn take_clone(&self) -> Option<Vec<u8>> {
        let zero = 0_u32.to_ne_bytes();
        let mut clone = self.clones.lookup(&zero, MapFlags::ANY).unwrap().unwrap();
        let bytes = u32::from_ne_bytes(*clone.first_chunk().unwrap()) as usize;
        if bytes == 0 {
            return None;
        }
        let frame = clone[4..4 + bytes].to_vec();
        clone[..4].fill(0);
        self.clones.update(&zero, &clone, MapFlags::ANY).unwrap();
        Some(frame)
    }

    pub fn set_clock(&self, now: u64) {
        let (zero, now) = (0_u32.to_ne_bytes(), (now * 1000).to_ne_bytes());
        self.clock.update(&zero, &now, MapFlags::ANY).unwrap();
    }

    /// Tells the programs a local socket's state (`struct model_socket`).
    pub fn show(&self, tcp: &Tcp) {
        let key = key(addresses(tcp));
        if tcp.life != Life::Open {
            // Fails if it is already gone.
            let _ = self.sockets.delete(&key);
            return;
        }
        let (sending, receiving, settings) = (&tcp.sending, &tcp.receiving, &tcp.settings);
        let is_established = !sending.has_end && !receiving.has_ended;
        let read = receiving.next - receiving.ready.len() as u64;
        let (start, option_bytes) = settings.clock.map_or((0, 0), |(start, _)| (start, 12));
        let fields = [
            if is_established {
                ESTABLISHED
            } else {
                CLOSE_WAIT
            },
            tcp.peer_number(read),
            tcp.peer_number(receiving.next),
            receiving.edge.saturating_sub(receiving.told) as u32,
            tcp.peer_number(receiving.told),
            tcp.own_number(sending.una),
            tcp.own_number(sending.sent_max),
            sending.edge.saturating_sub(sending.una) as u32,
            tcp.own_number(sending.limit()),
            start,
            tcp.ts_recent,
            settings.mss as u32,
            settings.mss as u32 + option_bytes,
            u32::from(settings.clock.is_some()),
            u32::from(settings.has_sack),
            u32::from(settings.own_shift),
            u32::from(settings.peer_shift),
            u32::from(receiving.is_out_of_order()),
        ];
        let bytes: Vec<u8> = fields.into_iter().flat_map(u32::to_ne_bytes).collect();
        self.sockets.update(&key, &bytes, MapFlags::ANY).unwrap();
    }
}

pub fn addresses(tcp: &Tcp) -> Addresses {
    (tcp.settings.own, tcp.settings.peer)
}
