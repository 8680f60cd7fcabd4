//! The router: takes packets from each device, lets the emulation decide, and sends them on when it is time.
//!
//! One thread. The kernel of this namespace does not forward (it would send each packet a second time); it still answers
//! for the router's own addresses, ARP and neighbour discovery included.

mod begin;

use std::net::IpAddr;

use anyhow::{Context as _, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::wan::ack_filter::{AckFilter, Verdict};
use crate::wan::cache::Cache;
use crate::wan::control::{Order, Orders};
use crate::wan::emulation::Emulation;
use crate::wan::model::Fate;
use crate::wan::neighbours::Neighbours;
use crate::wan::packet::{self, Header, Mac, OFFLOAD_BYTES, Offload};
use crate::wan::resolve;
use crate::wan::routes::{Device, Routes};
use crate::wan::spec::{WanCounts, WanSpec};
use crate::wan::sys::{BATCH_MAX, Batch, PacketSocket, send};

/// Bytes of packets that are on their way; more are dropped and counted as overruns.
pub const HELD_BYTES_MAX: usize = 512 << 20;
/// Destinations of a generation of the cache of ways.
const WAYS_MAX: usize = 16_384;
/// Reads from one device before the others have their turn.
const ROUNDS_MAX: usize = 4;

/// Emulates a network between devices of this network namespace until it is told to stop; then says what it did.
///
/// `devices` are names; none: all that have Ethernet addresses and are up. `ready` is called when packets are being
/// forwarded.
///
/// # Errors
/// When the specification is wrong, not root, a device is missing, or the kernel forwards packets itself.
pub fn run(
    spec: &WanSpec,
    devices: &[String],
    orders: &Orders,
    ready: impl FnOnce() -> Result<()>,
) -> Result<WanCounts> {
    let mut forwarder = Forwarder::begin(spec, devices)?;
    ready()?;
    forwarder.serve(orders)?;
    forwarder.counts()
}

struct Forwarder {
    devices: Vec<Served>,
    names: Vec<String>,
    routes: Routes,
    /// The neighbour for each destination; `None`: there is no way.
    ways: Cache<IpAddr, Option<usize>>,
    neighbours: Neighbours<Held>,
    emulation: Emulation,
    filter: AckFilter<Filtered>,
    schedule: crate::wan::schedule::Schedule<Held>,
    held_bytes: usize,
    told: Told,
}

/// What was said on standard error, to say it once.
#[derive(Default)]
struct Told {
    joined: bool,
    overruns: bool,
}

struct Served {
    device: Device,
    mac: Mac,
    socket: PacketSocket,
    leaving: Vec<Leaving>,
    /// Who sent the last packet: learned already.
    last_sender: Option<(IpAddr, Mac)>,
}

/// A packet that goes out at the end of this turn.
enum Leaving {
    /// It is still where it was read to.
    Slot(usize),
    Kept(Vec<u8>),
}

/// A packet on its way.
struct Held {
    neighbour: usize,
    /// With its virtio-net header.
    bytes: Vec<u8>,
    twice: bool,
}

/// An ACK that waits for the next one.
struct Filtered {
    neighbour: usize,
    header: Header,
    /// With its virtio-net header.
    bytes: Vec<u8>,
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Forwarder {
    fn serve(&mut self, orders: &Orders) -> Result<()> {
        let mut batch = Batch::new();
        loop {
            let ready = self.wait(orders)?;
            if ready.first().is_some_and(|flags| !flags.is_empty()) {
                for order in orders.take() {
                    match order {
                        Order::Stop => return Ok(()),
                        Order::Counts(sender) => {
                            // It fails if the caller no longer waits.
                            let _ = sender.send(self.counts()?);
                        }
                        Order::Replace(spec) => self.replace(&spec)?,
                    }
                }
            }
            self.ask_neighbours();
            for (device, flags) in ready.iter().skip(1).enumerate() {
                if !flags.is_empty() {
                    self.read_device(device, &mut batch)?;
                }
            }
            self.release_due(now_ns(), &batch);
            self.flush(&batch);
        }
    }

    /// Waits for an order, a packet, or the next packet's time; what is ready: orders, then each device.
    fn wait(&self, orders: &Orders) -> Result<Vec<PollFlags>> {
        let next_ns = [
            self.schedule.next_ns(),
            self.neighbours.next_ns(),
            self.filter.next_ns(),
        ]
        .into_iter()
        .flatten()
        .min();
        let timeout = next_ns.map(|next_ns| {
            let left_ns = next_ns.saturating_sub(now_ns());
            Timespec {
                tv_sec: (left_ns / 1_000_000_000) as i64,
                tv_nsec: (left_ns % 1_000_000_000) as i64,
            }
        });
        let mut waiting = Vec::with_capacity(1 + self.devices.len());
        waiting.push(PollFd::from_borrowed_fd(orders.bell(), PollFlags::IN));
        for served in &self.devices {
            waiting.push(PollFd::new(&served.socket, PollFlags::IN));
        }
        match poll(&mut waiting, timeout.as_ref()) {
            Ok(_) => Ok(waiting.iter().map(PollFd::revents).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error).context("ppoll: cannot wait for packets"),
        }
    }

    fn read_device(&mut self, device: usize, batch: &mut Batch) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            let Some(served) = self.devices.get(device) else {
                return Ok(());
            };
            let count = match batch.receive(&served.socket) {
                Ok(count) => count,
                // The device was taken down: what was sent to it meanwhile is gone, as on any network.
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => return Ok(()),
                Err(error) => bail!(
                    "recvmmsg: cannot read from the device {}: {error}; is it still there?",
                    served.device.name
                ),
            };
            let now_ns = now_ns();
            // What is due leaves before what comes now.
            self.release_due(now_ns, batch);
            for slot in 0..count {
                self.take(device, batch, slot, now_ns);
            }
            self.flush(batch);
            if count < BATCH_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Decides about one frame that came.
    fn take(&mut self, device: usize, batch: &mut Batch, slot: usize, now_ns: u64) {
        let Some(received) = batch.received(slot) else {
            return;
        };
        let frame = batch.frame_mut(slot);
        if let Some((address, mac)) = resolve::read_arp(frame) {
            self.learn(device, address, mac, now_ns);
            return;
        }
        let Some(header) = packet::read(frame) else {
            return;
        };
        if let Some(learned) = resolve::read_discovery(frame, &header) {
            if let Some((address, mac)) = learned {
                self.learn(device, address, mac, now_ns);
            }
            return;
        }
        let to = header.flow.to;
        if !received.is_for_us || !packet::is_routable(to) || self.routes.is_own(to) {
            return;
        }
        self.learn_sender(device, frame, header.flow.from, now_ns);
        let way = self.way(to);
        let (Some(neighbour), true, false) = (way, header.hop_limit > 1, received.is_cut_off)
        else {
            self.emulation.counts_mut().refused += 1;
            return;
        };
        if self.filter(neighbour, &header, batch, slot, now_ns) {
            self.pass(neighbour, &header, batch, slot, now_ns);
        }
    }

    /// Whether a packet passes the ACK filter of its rule, if that has one; what it lets go before it goes on.
    fn filter(
        &mut self,
        neighbour: usize,
        header: &Header,
        batch: &mut Batch,
        slot: usize,
        now_ns: u64,
    ) -> bool {
        let Some((rule, settings)) = self.emulation.filter(&header.flow) else {
            return true;
        };
        let Some(segment) = packet::read_tcp(batch.frame_mut(slot), header) else {
            return true;
        };
        let keep = || Filtered {
            neighbour,
            header: *header,
            bytes: batch.whole(slot).to_vec(),
        };
        let verdict = self
            .filter
            .decide(&header.flow, &segment, settings, now_ns, keep);
        let (before, dropped, passes) = match verdict {
            Verdict::Passes { before, dropped } => (before, dropped, true),
            Verdict::Kept { dropped } => (None, dropped, false),
        };
        // All pure ACKs of a flow are as long, but for options that come and go.
        self.emulation
            .count_filtered(rule, dropped, dropped * header.bytes as u64);
        if let Some(before) = before {
            self.let_go(before, now_ns);
        }
        passes
    }

    /// An ACK that was kept takes its way.
    fn let_go(&mut self, filtered: Filtered, now_ns: u64) {
        let Filtered {
            neighbour,
            header,
            mut bytes,
        } = filtered;
        let fate = self
            .emulation
            .pass(&header.flow, now_ns, header.bytes, false);
        let Fate::Sent { at_ns, twice, .. } = fate else {
            return;
        };
        if let Some(frame) = bytes.get_mut(OFFLOAD_BYTES..) {
            packet::decrement_hop_limit(frame);
        }
        let held = Held {
            neighbour,
            bytes,
            twice,
        };
        self.hold(held, at_ns);
    }

    fn hold(&mut self, held: Held, at_ns: u64) {
        if self.held_bytes + held.bytes.len() > HELD_BYTES_MAX {
            self.emulation.counts_mut().overruns += 1;
            return;
        }
        self.held_bytes += held.bytes.len();
        self.schedule.push(at_ns, held);
    }

    fn pass(
        &mut self,
        neighbour: usize,
        header: &Header,
        batch: &mut Batch,
        slot: usize,
        now_ns: u64,
    ) {
        let offload = Offload::read(batch.whole(slot));
        let frame = batch.frame_mut(slot);
        let bytes = offload.bytes_on_line(frame, header);
        let is_joined = offload.segment_bytes.is_some();
        let fate = self.emulation.pass(&header.flow, now_ns, bytes, is_joined);
        let Fate::Sent { at_ns, twice, .. } = fate else {
            return;
        };
        packet::decrement_hop_limit(frame);
        // Asks early, so that the answer is here when the packet leaves.
        let mac = self.neighbours.mac(neighbour, now_ns);
        if at_ns <= now_ns
            && let Some(mac) = mac
            && let Some(device) = self.neighbours.device(neighbour)
            && let Some(served) = self.devices.get_mut(device)
        {
            packet::address(frame, mac, served.mac);
            served.leaving.push(Leaving::Slot(slot));
            if twice {
                served.leaving.push(Leaving::Slot(slot));
            }
            return;
        }
        let held = Held {
            neighbour,
            bytes: batch.whole(slot).to_vec(),
            twice,
        };
        if at_ns > now_ns {
            self.hold(held, at_ns);
        } else if self.held_bytes + held.bytes.len() > HELD_BYTES_MAX {
            self.emulation.counts_mut().overruns += 1;
        } else {
            self.let_wait(held);
        }
    }

    /// The neighbour on the way to a destination.
    #[inline]
    fn way(&mut self, to: IpAddr) -> Option<usize> {
        if let Some(known) = self.ways.get(&to) {
            return known;
        }
        let way = self
            .routes
            .find(to)
            .and_then(|hop| self.neighbours.number(hop.device, hop.next));
        self.ways.insert(to, way);
        way
    }

    /// Who sends packets has told his address: the way back needs no question.
    fn learn_sender(&mut self, device: usize, frame: &[u8], from: IpAddr, now_ns: u64) {
        let Some(mac) = frame.get(6..).and_then(|rest| rest.first_chunk::<6>()) else {
            return;
        };
        let Some(served) = self.devices.get_mut(device) else {
            return;
        };
        if served.last_sender == Some((from, *mac)) {
            return;
        }
        served.last_sender = Some((from, *mac));
        if served.device.is_near(from) {
            self.learn(device, from, *mac, now_ns);
        }
    }

    fn learn(&mut self, device: usize, address: IpAddr, mac: Mac, now_ns: u64) {
        for held in self.neighbours.learn(device, address, mac, now_ns) {
            self.held_bytes = self.held_bytes.saturating_sub(held.bytes.len());
            self.leave(held, mac);
        }
    }

    fn let_wait(&mut self, held: Held) {
        let bytes = held.bytes.len();
        match self.neighbours.wait(held.neighbour, held) {
            Ok(()) => self.held_bytes += bytes,
            Err(_) => self.emulation.counts_mut().refused += 1,
        }
    }

    fn release_due(&mut self, now_ns: u64, batch: &Batch) {
        while let Some(filtered) = self.filter.pop_due(now_ns) {
            self.let_go(filtered, now_ns);
        }
        while let Some(held) = self.schedule.pop_due(now_ns) {
            self.held_bytes = self.held_bytes.saturating_sub(held.bytes.len());
            match self.neighbours.mac(held.neighbour, now_ns) {
                Some(mac) => self.leave(held, mac),
                None => self.let_wait(held),
            }
        }
        if self
            .devices
            .iter()
            .any(|served| served.leaving.len() >= BATCH_MAX)
        {
            self.flush(batch);
        }
    }

    fn leave(&mut self, mut held: Held, mac: Mac) {
        let Some(served) = self
            .neighbours
            .device(held.neighbour)
            .and_then(|device| self.devices.get_mut(device))
        else {
            return;
        };
        if let Some(frame) = held.bytes.get_mut(OFFLOAD_BYTES..) {
            packet::address(frame, mac, served.mac);
        }
        if held.twice {
            served.leaving.push(Leaving::Kept(held.bytes.clone()));
        }
        served.leaving.push(Leaving::Kept(held.bytes));
    }

    /// Sends all that leaves in this turn.
    fn flush(&mut self, batch: &Batch) {
        let counts = self.emulation.counts_mut();
        for served in &mut self.devices {
            if served.leaving.is_empty() {
                continue;
            }
            let frames: Vec<&[u8]> = served
                .leaving
                .iter()
                .map(|leaving| match leaving {
                    Leaving::Slot(slot) => batch.whole(*slot),
                    Leaving::Kept(bytes) => bytes.as_slice(),
                })
                .collect();
            let mut rest = frames.as_slice();
            while !rest.is_empty() {
                let done = match send(&served.socket, rest) {
                    Ok(sent) => sent.max(1),
                    Err(error) => match error.raw_os_error() {
                        Some(libc::EINTR) => 0,
                        // The device behind has no room (a full backlog).
                        Some(libc::ENOBUFS | libc::EAGAIN) => {
                            counts.overruns += 1;
                            1
                        }
                        // Too large, or the device is down.
                        _ => {
                            counts.refused += 1;
                            1
                        }
                    },
                };
                rest = rest.get(done..).unwrap_or_default();
            }
            served.leaving.clear();
        }
    }

    fn ask_neighbours(&mut self) {
        let now_ns = now_ns();
        if self.neighbours.next_ns().is_none_or(|next| next > now_ns) {
            return;
        }
        let (questions, lost) = self.neighbours.questions(now_ns);
        for held in lost {
            self.held_bytes = self.held_bytes.saturating_sub(held.bytes.len());
            self.emulation.counts_mut().refused += 1;
        }
        for (device, address) in questions {
            let Some(served) = self.devices.get_mut(device) else {
                continue;
            };
            let own = served.device.own_address_for(address);
            if let Some(question) = own.and_then(|own| resolve::question(served.mac, own, address))
            {
                let mut bytes = vec![0; OFFLOAD_BYTES];
                bytes.extend(question);
                served.leaving.push(Leaving::Kept(bytes));
            }
        }
    }

    /// The counts, with the kernel's drops; says on standard error, once, what makes them doubtful.
    fn counts(&mut self) -> Result<WanCounts> {
        for served in &self.devices {
            self.emulation.counts_mut().overruns +=
                served.socket.take_drops().with_context(|| {
                    format!("getsockopt PACKET_STATISTICS of {}", served.device.name)
                })?;
        }
        let counts = self.emulation.counts().clone();
        if counts.joined > 0 && !std::mem::replace(&mut self.told.joined, true) {
            begin::warn(&format!(
                "{} packets came joined by segmentation offload where each should count by itself: on the senders' devices, `ethtool -K DEVICE tso off gso off`",
                counts.joined
            ));
        }
        if counts.overruns > 0 && !std::mem::replace(&mut self.told.overruns, true) {
            begin::warn(&format!(
                "{} packets were dropped for lack of room: the machine is too slow for this load, and the counts are not to be trusted",
                counts.overruns
            ));
        }
        Ok(counts)
    }
}
