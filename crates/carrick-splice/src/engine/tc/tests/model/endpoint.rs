//! The model's TCP: small, but correct. It begins with an established connection. A strict one reports anything that a
//! correct peer could not have sent.

mod receiving;
mod sending;

use super::super::wire::{ACK, FIN, Packet, RST, sack, timestamps};
use super::frame::options;
use receiving::{Owed, Receiving};
use sending::{Alarm, Piece, Sending};
use std::net::SocketAddr;

/// Time is in microseconds.
pub const MILLISECOND: u64 = 1000;
pub const SECOND: u64 = 1000 * MILLISECOND;

/// Bytes are counted from here: behind the SYN. Earlier bytes have positions, too.
pub const START: u64 = (1 << 33) + 1;

const DELAYED_ACK: u64 = 40 * MILLISECOND;
/// How often packets without data outside the window are answered (tcp_oow_rate_limited).
const ANSWER_EVERY: u64 = SECOND / 2;
const KEEP_ALIVES_MAX: u32 = 9;

#[derive(Debug, Clone)]
pub struct Settings {
    pub own: SocketAddr,
    pub peer: SocketAddr,
    /// Sequence numbers of both SYNs.
    pub own_first: u32,
    pub peer_first: u32,
    pub mss: u64,
    /// Window scales of both sides.
    pub own_shift: u8,
    pub peer_shift: u8,
    pub send_room: usize,
    pub receive_room: usize,
    pub peer_room: usize,
    pub has_sack: bool,
    /// Its timestamp clock, if any: its value at 0, and its ticks per second.
    pub clock: Option<(u32, u64)>,
    /// The peer's clock at present.
    pub peer_tsval: u32,
    pub keep_alive: Option<u64>,
    /// Probes a closed window with one byte beyond it, as BSD does, or with an old number, as Linux does.
    pub probes_with_byte: bool,
}

/// A packet in flight.
#[derive(Debug, Clone)]
pub struct Flight {
    pub packet: Packet,
    /// Its place in the order of all sent packets: who created it, and who forwarded it last.
    pub sent: u64,
    pub departed: u64,
    /// A later packet of the same sender was forwarded earlier: the network has reordered them.
    pub is_late: bool,
}

/// A violation that a strict receiver reports.
#[derive(Debug)]
pub struct Fault {
    pub what: String,
    /// The end of the packet, if it violates the window.
    pub end: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    Open,
    /// The peer has reset the connection.
    Reset,
    /// It was closed without ends.
    Aborted,
}

pub struct Tcp {
    pub settings: Settings,
    pub sending: Sending,
    pub receiving: Receiving,
    pub life: Life,
    pub is_strict: bool,
    /// Reported violations.
    pub faults: Vec<Fault>,
    pub ts_recent: u32,
    /// Of the packet that it is from.
    recent_departed: u64,
    /// For the window rules of RFC 9293 section 3.10.7.4.
    window_seq: u64,
    peer_window_max: u64,
    answered: Option<u64>,
    /// When the last packet arrived, and its place in the order.
    heard: u64,
    heard_departed: u64,
    keep_alives: u32,
    /// A reader finds the end behind the available data.
    pub is_read_shut: bool,
}

/// The parsed packet.
struct Seen {
    seq: u64,
    ack: u64,
    is_end: bool,
    tsval: Option<u32>,
    tsecr: u32,
}

impl Tcp {
    pub fn new(settings: Settings, now: u64) -> Tcp {
        let first = |room: usize| START + room.min(0xffff) as u64;
        Tcp {
            sending: Sending::new(settings.mss, settings.send_room, first(settings.peer_room)),
            receiving: Receiving::new(
                settings.mss,
                settings.receive_room,
                first(settings.receive_room),
            ),
            life: Life::Open,
            is_strict: false,
            faults: Vec::new(),
            ts_recent: settings.peer_tsval,
            recent_departed: 0,
            window_seq: START,
            peer_window_max: settings.peer_room.min(0xffff) as u64,
            answered: None,
            heard: now,
            heard_departed: 0,
            keep_alives: 0,
            is_read_shut: false,
            settings,
        }
    }

    /// The value of the timestamp clock.
    pub fn tsval(&self, now: u64) -> u32 {
        let (start, hertz) = self.settings.clock.unwrap_or_default();
        start.wrapping_add((now / 1000 * hertz / 1000) as u32)
    }

    pub fn own_number(&self, at: u64) -> u32 {
        self.settings.own_first.wrapping_add(at as u32)
    }

    pub fn peer_number(&self, at: u64) -> u32 {
        self.settings.peer_first.wrapping_add(at as u32)
    }

    pub fn write(&mut self, bytes: &[u8]) -> usize {
        match self.life {
            Life::Open => self.sending.write(bytes),
            _ => 0,
        }
    }

    /// Closes the stream.
    pub fn shut(&mut self) {
        self.sending.has_end = true;
    }

    /// Everything was read, and the stream has ended.
    pub fn is_at_end(&self) -> bool {
        self.receiving.ready.is_empty() && (self.receiving.has_ended || self.is_read_shut)
    }

    /// Everything is sent, and the peer has it.
    pub fn is_through(&self) -> bool {
        self.sending.has_end && self.sending.una == self.sending.limit()
    }

    /// The peer has everything sent so far.
    pub fn has_no_debts(&self) -> bool {
        self.sending.una == self.sending.limit()
    }

    pub fn abort(&mut self, now: u64) -> Option<Packet> {
        let was_open = self.life == Life::Open;
        self.life = Life::Aborted;
        was_open.then(|| self.packet(now, self.sending.next, RST, &[]))
    }

    fn complain(&mut self, of: impl FnOnce() -> String) {
        if self.is_strict {
            self.faults.push(Fault {
                what: of(),
                end: None,
            });
        }
    }

    fn packet(&mut self, now: u64, seq: u64, flags: u8, payload: &[u8]) -> Packet {
        let window = self.receiving.window(self.settings.own_shift);
        let mut option = Vec::new();
        if self.settings.clock.is_some() {
            option = timestamps(self.tsval(now), self.ts_recent);
        }
        if self.settings.has_sack && flags & RST == 0 {
            let blocks = self.receiving.blocks().into_iter();
            let blocks: Vec<_> = blocks
                .map(|(from, to)| (self.peer_number(from), self.peer_number(to)))
                .collect();
            if !blocks.is_empty() {
                option.extend(sack(&blocks));
            }
        }
        Packet {
            source: self.settings.own,
            destination: self.settings.peer,
            seq: self.own_number(seq),
            ack: self.peer_number(self.receiving.next),
            flags: flags | ACK,
            window,
            urgent: 0,
            options: option,
            payload: payload.to_vec(),
            tos: 0,
            hops: 64,
            ip_options: Vec::new(),
        }
    }

    fn acknowledgement(&mut self, now: u64) -> Packet {
        self.packet(now, self.sending.next, ACK, &[])
    }

    fn carry(&mut self, now: u64, piece: &Piece) -> Packet {
        let flags = if piece.is_end { FIN } else { 0 };
        self.packet(now, piece.from, flags, &piece.bytes)
    }

    /// Sends what may be sent now.
    pub fn flush(&mut self, now: u64) -> Vec<Packet> {
        let mut packets = Vec::new();
        if self.life != Life::Open {
            return packets;
        }
        while let Some(piece) = self.sending.next_piece(now) {
            packets.push(self.carry(now, &piece));
        }
        let is_due = match self.receiving.owed {
            Owed::Nothing => false,
            Owed::Later(when) => when <= now,
            Owed::Now => true,
        };
        if is_due {
            packets.push(self.acknowledgement(now));
        }
        packets
    }

    /// When it must be called again.
    pub fn next_timer(&self) -> Option<u64> {
        if self.life != Life::Open {
            return None;
        }
        let owed = match self.receiving.owed {
            Owed::Later(when) => Some(when),
            _ => None,
        };
        let keep_alive = self.keep_alive_at();
        [self.sending.timer, owed, keep_alive]
            .into_iter()
            .flatten()
            .min()
    }

    fn keep_alive_at(&self) -> Option<u64> {
        let every = self.settings.keep_alive?;
        let is_idle = self.sending.una == self.sending.next && self.sending.timer.is_none();
        is_idle.then(|| self.heard + every * u64::from(1 + self.keep_alives))
    }

    /// Handles expired timers.
    pub fn timers(&mut self, now: u64) -> Vec<Packet> {
        let mut packets = Vec::new();
        if self.life != Life::Open {
            return packets;
        }
        if self.keep_alive_at().is_some_and(|when| when <= now) {
            self.keep_alives += 1;
            if self.keep_alives > KEEP_ALIVES_MAX {
                self.complain(|| "the peer does not answer keep-alive probes".into());
            }
            packets.push(self.packet(now, self.sending.next - 1, ACK, &[]));
        }
        if self.sending.timer.is_some_and(|when| when <= now) {
            match self.sending.alarm(now) {
                Alarm::No | Alarm::Again => {}
                Alarm::Probe(Some(piece)) => packets.push(self.carry(now, &piece)),
                Alarm::Probe(None) => packets.push(self.probe(now)),
            }
        }
        packets.extend(self.flush(now));
        packets
    }

    fn probe(&mut self, now: u64) -> Packet {
        if self.settings.probes_with_byte
            && let Some(piece) = self.sending.byte_behind()
        {
            return self.carry(now, &piece);
        }
        self.packet(now, self.sending.una - 1, ACK, &[])
    }

    /// A packet has arrived. (`flush` sends the answers.)
    pub fn arrive(&mut self, now: u64, flight: &Flight) -> Option<Packet> {
        let packet = &flight.packet;
        if self.life != Life::Open {
            return self.refuse(packet);
        }
        let read = options(&packet.options);
        let (base, una) = (self.receiving.next, self.sending.una);
        let seq = near(base, packet.seq.wrapping_sub(self.peer_number(base)));
        if packet.flags & RST != 0 {
            return self.reset(now, seq);
        }
        let ack = near(una, packet.ack.wrapping_sub(self.own_number(una)));
        let seen = Seen {
            seq,
            ack,
            is_end: packet.flags & FIN != 0,
            tsval: read.timestamps.map(|(tsval, _)| tsval),
            tsecr: read.timestamps.map_or(0, |(_, tsecr)| tsecr),
        };
        if self.settings.clock.is_some() != seen.tsval.is_some() {
            self.complain(|| format!("timestamps on one side only: {packet:?}"));
        }
        if !self.is_in_order(flight, &seen) {
            return self.answer_old(now, packet);
        }
        if !self.check_ack(flight, &seen) {
            return self.answer_old(now, packet);
        }
        self.heard = now;
        self.heard_departed = self.heard_departed.max(flight.departed);
        self.keep_alives = 0;
        if let Some(tsval) = seen.tsval {
            // RFC 7323 section 4.3.
            if seen.seq <= self.receiving.told && !is_before(tsval, self.ts_recent) {
                self.ts_recent = tsval;
                self.recent_departed = self.recent_departed.max(flight.departed);
            }
            if is_before(self.tsval(now), seen.tsecr) {
                self.complain(|| format!("an echo of a time to come: {packet:?}"));
            }
        }
        self.take_ack(now, packet, &seen, &read.blocks);
        self.take_data(now, packet, &seen);
        None
    }

    /// The socket is closed (RFC 9293 section 3.10.7.1).
    fn refuse(&self, packet: &Packet) -> Option<Packet> {
        (packet.flags & RST == 0).then(|| Packet {
            source: self.settings.own,
            destination: self.settings.peer,
            seq: packet.ack,
            ack: 0,
            flags: RST,
            window: 0,
            options: Vec::new(),
            payload: Vec::new(),
            ..packet.clone()
        })
    }

    /// RFC 5961 section 3.
    fn reset(&mut self, now: u64, seq: u64) -> Option<Packet> {
        if seq == self.receiving.next {
            self.life = Life::Reset;
            return None;
        }
        let is_in_window = seq > self.receiving.next && seq < self.receiving.edge;
        is_in_window.then(|| self.acknowledgement(now))
    }

    /// PAWS (RFC 7323 section 5) and the window.
    fn is_in_order(&mut self, flight: &Flight, seen: &Seen) -> bool {
        let packet = &flight.packet;
        let bytes = packet.payload.len() as u64;
        let end = seen.seq + bytes + u64::from(seen.is_end);
        if let Some(tsval) = seen.tsval
            && is_before(tsval, self.ts_recent)
        {
            let is_new = self.receiving.is_new(seen.seq, bytes, seen.is_end)
                || (seen.ack > self.sending.una && seen.ack <= self.sending.sent_max);
            // Packets that the network reordered may look old after a retransmission.
            if is_new && !flight.is_late && flight.departed > self.recent_departed {
                let recent = self.ts_recent;
                self.complain(|| format!("something new before {recent} (PAWS): {packet:?}"));
            }
            return false;
        }
        if self.is_strict && end > self.receiving.edge + 1 {
            let edge = self.peer_number(self.receiving.edge);
            self.faults.push(Fault {
                what: format!("behind the window, which ends at {edge}: {packet:?}"),
                end: Some(end),
            });
        }
        end >= self.receiving.told && seen.seq <= self.receiving.edge
    }

    /// RFC 5961 section 5.2.
    fn check_ack(&mut self, flight: &Flight, seen: &Seen) -> bool {
        let packet = &flight.packet;
        if seen.ack > self.sending.sent_max {
            let sent = self.own_number(self.sending.sent_max);
            self.complain(|| format!("acknowledges more than {sent}: {packet:?}"));
            return false;
        }
        if seen.ack + self.peer_window_max < self.sending.una {
            // An empty one is no loss.
            let is_bare = packet.payload.is_empty() && !seen.is_end;
            if !is_bare && !flight.is_late && flight.departed > self.heard_departed {
                self.complain(|| format!("an acknowledgement from long ago: {packet:?}"));
            }
            return false;
        }
        true
    }

    fn take_ack(&mut self, now: u64, packet: &Packet, seen: &Seen, blocks: &[(u32, u32)]) {
        let una = self.sending.una;
        let mut known = Vec::new();
        for (from, to) in blocks {
            let place = |number: &u32| near(una, number.wrapping_sub(self.own_number(una)));
            let (from, to) = (place(from), place(to));
            if from >= to || to > self.sending.sent_max {
                self.complain(|| format!("a block of what was never sent: {packet:?}"));
            } else if to > seen.ack {
                known.push((from, to));
            }
        }
        let edge = seen.ack + (u64::from(packet.window) << self.settings.peer_shift);
        let is_same_window = edge == self.sending.edge;
        let is_newer = seen.ack > una
            || seen.seq > self.window_seq
            || (seen.seq == self.window_seq && edge > self.sending.edge);
        if seen.ack >= una && is_newer {
            self.sending.edge = edge;
            self.window_seq = seen.seq;
            let window = edge - seen.ack;
            self.peer_window_max = self.peer_window_max.max(window);
        }
        let is_duplicate =
            seen.ack == una && packet.payload.is_empty() && !seen.is_end && is_same_window;
        let sample = seen.tsval.and_then(|_| self.sample(now, seen.tsecr));
        if seen.ack >= una {
            self.sending
                .acknowledged(now, seen.ack, &known, is_duplicate, sample);
        }
    }

    /// The age of an echo, if it is plausible (tcp_rtt_tsopt_us).
    fn sample(&self, now: u64, tsecr: u32) -> Option<u64> {
        let (_, hertz) = self.settings.clock?;
        let ticks = self.tsval(now).wrapping_sub(tsecr);
        (u64::from(ticks) < 2000 * hertz).then(|| u64::from(ticks) * SECOND / hertz)
    }

    fn take_data(&mut self, now: u64, packet: &Packet, seen: &Seen) {
        if packet.payload.is_empty() && !seen.is_end {
            return;
        }
        let room = self.receiving.edge.saturating_sub(seen.seq) as usize;
        let count = packet.payload.len().min(room);
        let is_whole = count == packet.payload.len();
        if count == 0 && !(is_whole && seen.is_end) {
            self.receiving.owed = Owed::Now;
            return;
        }
        self.receiving.take(
            now,
            seen.seq,
            &packet.payload[..count],
            seen.is_end && is_whole,
            DELAYED_ACK,
        );
        if !is_whole {
            self.receiving.owed = Owed::Now;
        }
    }

    fn answer_old(&mut self, now: u64, packet: &Packet) -> Option<Packet> {
        if packet.payload.is_empty() && packet.flags & FIN == 0 {
            if self.answered.is_some_and(|when| now < when + ANSWER_EVERY) {
                return None;
            }
            self.answered = Some(now);
        }
        Some(self.acknowledgement(now))
    }
}

fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The position at this distance from `base`, in sequence-number arithmetic.
pub fn near(base: u64, difference: u32) -> u64 {
    base.wrapping_add_signed(i64::from(difference as i32))
}
