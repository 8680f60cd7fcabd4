//! Reads the splices in the kernel while bytes move: a BPF iterator over the sockets, joined with the counts
//! of each direction and the owners' labels. Takes no lock, and delays no splice.

use super::shared::Direction;
use super::{SocketEngine, SocketService};
use crate::engine::slot_owner::SlotOwner;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapHandle, OpenObject};
use skeleton::types::leg_record;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::AsFd;
use std::time::Duration;

skeleton!("live.skel.rs");

/// A splice in the kernel. Its numbers were read one after the other while bytes moved.
#[derive(Debug, Clone)]
pub struct LiveSplice {
    /// The label from [`ExchangeOrder::label`](crate::ExchangeOrder::label).
    pub label: u64,
    /// The connections `a` and `b`; `None`: it has left the kernel already, or is not there yet.
    pub legs: [Option<LiveLeg>; 2],
    /// From `a` to `b`, and from `b` to `a`. In a one-way transfer, `a` is the sender, and nothing comes from
    /// `b`.
    pub directions: [LiveDirection; 2],
}

/// The state of one TCP connection.
#[derive(Debug, Clone, Copy)]
pub struct LiveLeg {
    /// Smoothed round-trip time; `None`: not measured yet.
    pub rtt: Option<Duration>,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// Segments retransmitted over the connection's life.
    pub retransmissions: u32,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Bytes sent and not acknowledged.
    pub in_flight_bytes: u32,
    /// Bytes in its TCP and not sent yet.
    pub unsent_bytes: u32,
    /// Bytes received and read by neither kernel nor process.
    pub unread_bytes: u32,
    /// Memory of its send queue, with overhead.
    pub send_memory_bytes: u32,
    /// Its TCP state, in small letters as in ss(8): `established`, `close-wait`, ...
    pub state: &'static str,
}

/// What came from one connection for the other since the splice is in the kernel.
#[derive(Debug, Clone, Copy)]
pub struct LiveDirection {
    /// Bytes that the kernel has forwarded.
    pub forwarded_bytes: u64,
    /// Bytes left to the process and written by it.
    pub relayed_bytes: u64,
    /// Bytes left to the process and not written yet.
    pub waiting_bytes: u64,
    /// Forwarded bytes that the receiver's TCP does not have yet. `None`: the receiver has left the kernel.
    pub backlog_bytes: Option<u64>,
}

/// What reads the sockets' state.
pub(super) struct Live {
    links: Vec<Link>,
}

impl Live {
    /// Loads the iterator for each of these socket maps, whose splices have the same slots. Needs the
    /// engine's privileges; reading needs none.
    pub(super) fn load(sockets: &[&MapHandle], directions: &MapHandle) -> libbpf_rs::Result<Live> {
        let mut object = MaybeUninit::<OpenObject>::uninit();
        let mut open = skeleton::LiveSkelBuilder::default().open(&mut object)?;
        open.maps.directions.reuse_fd(directions.as_fd())?;
        let loaded = open.load()?;
        let links = sockets
            .iter()
            .map(|map| loaded.progs.tell_of_leg.attach_iter(map.as_fd()));
        Ok(Live {
            links: links.collect::<libbpf_rs::Result<_>>()?,
        })
    }

    /// The current legs of each slot.
    fn legs(&self) -> io::Result<BTreeMap<u32, [Option<Leg>; 2]>> {
        let mut bytes = Vec::new();
        for link in &self.links {
            Iter::new(link)
                .map_err(|error| io::Error::other(format!("BPF_ITER_CREATE: {error:#}")))?
                .read_to_end(&mut bytes)?;
        }
        let mut slots = BTreeMap::<u32, [Option<Leg>; 2]>::new();
        for record in bytes.chunks_exact(size_of::<leg_record>()) {
            let index = word(record, offset_of!(leg_record, index));
            slots.entry(index / 2).or_default()[(index % 2) as usize] = Some(Leg::read(record));
        }
        Ok(slots)
    }
}

impl SocketService {
    /// The splices in the kernel now, with the state of their connections. One that starts or ends meanwhile
    /// may be missing. Needs no privileges. Takes two or three milliseconds with room for 8192 splices, plus
    /// less than a microsecond for each splice; nothing if there is none.
    ///
    /// Why the kernel cannot report them. (Splicing still works.)
    pub fn live(&self) -> io::Result<Vec<LiveSplice>> {
        let Some(engine) = self.engine() else {
            return Ok(Vec::new());
        };
        if self.splices().0 == 0 {
            return Ok(Vec::new());
        }
        let live = engine
            .live
            .as_ref()
            .map_err(|because| io::Error::other(because.clone()))?;
        let before: Vec<u64> = engine.slot_owners.iter().map(SlotOwner::stay).collect();
        let mut splices = Vec::new();
        for (slot, legs) in live.legs()? {
            let (Some(slot_owner), Some(stay)) = (
                engine.slot_owners.get(slot as usize),
                before.get(slot as usize),
            ) else {
                continue;
            };
            let splice = LiveSplice::read(engine, slot, slot_owner, legs);
            // The slot is free, or has changed hands during the read.
            if SlotOwner::is_there(*stay) && slot_owner.stay() == *stay {
                splices.push(splice);
            }
        }
        Ok(splices)
    }
}

/// One leg, and its backlog.
#[derive(Debug, Clone, Copy)]
struct Leg {
    leg: LiveLeg,
    backlog_bytes: u64,
}

impl Leg {
    fn read(record: &[u8]) -> Leg {
        let word = |offset| word(record, offset);
        let rtt = Duration::from_micros(word(offset_of!(leg_record, rtt_us)).into());
        Leg {
            leg: LiveLeg {
                rtt: (!rtt.is_zero()).then_some(rtt),
                rtt_variation: Duration::from_micros(
                    word(offset_of!(leg_record, rtt_variation_us)).into(),
                ),
                retransmissions: word(offset_of!(leg_record, retransmissions)),
                congestion_window: word(offset_of!(leg_record, congestion_window)),
                in_flight_bytes: word(offset_of!(leg_record, in_flight_bytes)),
                unsent_bytes: word(offset_of!(leg_record, unsent_bytes)),
                unread_bytes: word(offset_of!(leg_record, unread_bytes)),
                send_memory_bytes: word(offset_of!(leg_record, send_memory_bytes)),
                state: state_name(word(offset_of!(leg_record, state))),
            },
            backlog_bytes: number(record, offset_of!(leg_record, backlog_bytes)),
        }
    }
}

impl LiveSplice {
    fn read(
        engine: &SocketEngine,
        slot: u32,
        slot_owner: &SlotOwner,
        legs: [Option<Leg>; 2],
    ) -> LiveSplice {
        let way = |side: u32| engine.directions.get(2 * slot + side);
        let backlog = |leg: Option<Leg>| leg.map(|leg| leg.backlog_bytes);
        LiveSplice {
            label: slot_owner.label(),
            legs: legs.map(|leg| leg.map(|leg| leg.leg)),
            directions: [
                LiveDirection::read(way(0), backlog(legs[1])),
                LiveDirection::read(way(1), backlog(legs[0])),
            ],
        }
    }
}

impl LiveDirection {
    fn read(way: Direction<'_>, backlog_bytes: Option<u64>) -> LiveDirection {
        let relayed_bytes = way.relayed_bytes();
        LiveDirection {
            forwarded_bytes: way.forwarded_bytes(),
            relayed_bytes,
            waiting_bytes: way.passed_bytes().saturating_sub(relayed_bytes),
            backlog_bytes,
        }
    }
}

/// The 32-bit number at `offset`; 0 if there is none.
fn word(record: &[u8], offset: usize) -> u32 {
    let bytes = record.get(offset..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The 64-bit number at `offset`; 0 if there is none.
fn number(record: &[u8], offset: usize) -> u64 {
    let bytes = record.get(offset..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// net/tcp_states.h. Only these occur in a map.
fn state_name(state: u32) -> &'static str {
    match state {
        1 => "established",
        4 => "fin-wait-1",
        5 => "fin-wait-2",
        7 => "closed",
        8 => "close-wait",
        9 => "last-ack",
        11 => "closing",
        _ => "unknown",
    }
}
