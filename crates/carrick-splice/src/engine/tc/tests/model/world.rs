//! The event loop: a client, this host and a server in virtual time, and the invariants at every moment.

use super::super::wire::{Packet, RST};
use super::application::{Application, Step};
use super::endpoint::{Flight, Life, SECOND, START, Tcp, near};
use super::frame::{describe, options, parse};
use super::host::{After, Host, Tally};
use super::pacing::{Pace, TICK};
use super::programs::{Outcome, Programs, Verdict};
use super::random::Random;
use super::road::Road;
use super::scenario::{Kind, Scenario};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// More events than any run needs: beyond this, it is in a loop.
const EVENTS_MAX: u64 = 200_000;

/// After the end, for packets in flight.
const AFTERWARDS: u64 = 3 * SECOND;

#[derive(Debug)]
enum Event {
    /// A packet reaches a peer; the hook; a local socket, through the hook or directly.
    Peer(usize, Flight),
    Arriving(usize, Flight),
    Local(usize, Flight),
    PeerTimer(usize),
    LocalTimer(usize),
    Application(usize),
    Process,
    TakeBack(After),
    /// The waiters are attended; something changes about their pace.
    Grant,
    Pace,
}

pub struct World<'a> {
    programs: &'a Programs,
    random: Random,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: std::collections::HashMap<u64, Event>,
    order: u64,
    kind: Kind,
    peers: [Tcp; 2],
    applications: [Application; 2],
    host: Host,
    roads: [Road; 2],
    inside_max: u64,
    wake_max: u64,
    over_by: u64,
    /// Packets to a local socket keep their order.
    inside: [u64; 2],
    timers: [[Option<u64>; 2]; 2],
    process_at: Option<u64>,
    application_at: [Option<u64>; 2],
    /// The latest timestamp sent to each peer.
    last_tsval: [Option<u32>; 2],
    /// The window that the local socket gave to each peer.
    allowed: [u64; 2],
    /// Of each peer: the latest of its packets that has arrived.
    latest: [u64; 2],
    /// A reset from it has arrived.
    was_reset: [bool; 2],
    wrong: Option<String>,
    trace: Option<Vec<String>>,
    pace: Option<Pace>,
    grants: bool,
}

impl<'a> World<'a> {
    pub fn new(
        programs: &'a Programs,
        scenario: Scenario,
        seed: u64,
        is_traced: bool,
    ) -> World<'a> {
        let [client, near, far, server] = scenario.settings;
        let mut peers = [client, server].map(|settings| Tcp::new(settings, 0));
        let mut locals = [near, far].map(|settings| Tcp::new(settings, 0));
        for tcp in peers.iter_mut().chain(&mut locals) {
            tcp.is_strict = true;
        }
        let [up, down] = scenario.plans;
        let mut world = World {
            programs,
            random: Random::new(seed ^ 0xABCD),
            now: 0,
            events: BinaryHeap::new(),
            waiting: std::collections::HashMap::new(),
            order: 0,
            kind: scenario.kind,
            peers,
            applications: [Application::new(up, 0), Application::new(down, 1)],
            host: Host::new(locals, programs, scenario.rounds),
            roads: scenario.roads,
            inside_max: scenario.inside_max,
            wake_max: scenario.wake_max,
            over_by: scenario.over_by,
            inside: [0; 2],
            timers: [[None; 2]; 2],
            process_at: None,
            application_at: [None; 2],
            last_tsval: [None; 2],
            allowed: [0; 2],
            latest: [0; 2],
            was_reset: [false; 2],
            wrong: None,
            trace: is_traced.then(Vec::new),
            pace: scenario.pace,
            grants: false,
        };
        if let Some(pace) = &world.pace {
            world.host.pace = pace.begin(programs);
            world.at(0, Event::Pace);
        }
        for side in [0, 1] {
            world.at(0, Event::Application(side));
        }
        for (when, after) in scenario.take_back {
            world.at(when, Event::TakeBack(after));
        }
        world.note(|_| format!("{:?}, over by {}", scenario.kind, scenario.over_by));
        world
    }

    /// Runs everything. Returns the first error, if any.
    pub fn run(&mut self) -> Result<Tally, String> {
        let mut over = None;
        let mut count = 0;
        while let Some(Reverse((when, order))) = self.events.pop() {
            if over.is_some_and(|over: u64| when > over + AFTERWARDS) {
                break;
            }
            self.now = when;
            count += 1;
            if count > EVENTS_MAX {
                return Err("it does not come to an end: too many packets".into());
            }
            if over.is_none() && when > self.over_by {
                break;
            }
            let event = self.waiting.remove(&order).unwrap();
            self.happen(event)?;
            self.complaints()?;
            if over.is_none() && self.is_over() {
                over = Some(when);
                self.note(|_| "everything is sent".into());
            }
        }
        if over.is_none() {
            return Err(format!("stalled: {}", self.wants()));
        }
        self.check_end()?;
        Ok(self.host.tally)
    }

    /// The trace, if enabled.
    pub fn trace(&self) -> String {
        let lines = self.trace.as_deref().unwrap_or_default().join("\n");
        format!("{lines}\n{:#?}", self.host.splice())
    }

    fn at(&mut self, when: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((when, self.order)));
        self.waiting.insert(self.order, event);
    }

    fn note(&mut self, what: impl FnOnce(&World<'_>) -> String) {
        if self.trace.is_some() {
            let line = format!("{:>12.6} {}", self.now as f64 / 1e6, what(self));
            if let Some(trace) = &mut self.trace {
                trace.push(line);
            }
        }
    }

    fn note_packet(&mut self, what: &str, side: usize, packet: &Packet) {
        self.note(|world| {
            let peer = &world.peers[side].settings;
            let is_outward = packet.destination == peer.own;
            let (seq, ack) = if is_outward {
                (peer.peer_first, peer.own_first)
            } else {
                (peer.own_first, peer.peer_first)
            };
            let name = ["client", "server"][side];
            let arrow = if is_outward { "->" } else { "<-" };
            format!("{what:<9} {arrow} {name} {}", describe(packet, seq, ack))
        });
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Peer(side, flight) => {
                self.note_packet("arrives", side, &flight.packet);
                let answer = self.peers[side].arrive(self.now, &flight);
                self.let_peer_send(side, answer.into_iter().collect());
                return self.application(side);
            }
            Event::PeerTimer(side) => {
                self.timers[0][side] = None;
                let packets = self.peers[side].timers(self.now);
                self.let_peer_send(side, packets);
            }
            Event::Application(side) => {
                self.application_at[side] = None;
                return self.application(side);
            }
            Event::Arriving(side, flight) => self.arriving(side, &flight),
            Event::Local(side, flight) => {
                self.note_packet("local", side, &flight.packet);
                let answer = self.host.locals[side].arrive(self.now, &flight);
                self.let_local_send(side, answer.into_iter().collect());
                self.wake_process();
            }
            Event::LocalTimer(side) => {
                self.timers[1][side] = None;
                let packets = self.host.locals[side].timers(self.now);
                self.let_local_send(side, packets);
            }
            Event::TakeBack(after) => {
                self.note(|_| format!("the process takes back: {after:?}"));
                self.host.take_back(after);
                self.wake_process();
            }
            Event::Process => self.process(),
            Event::Grant => self.grant(),
            Event::Pace => self.change_pace(),
        }
        self.attend();
        Ok(())
    }

    fn application(&mut self, side: usize) -> Result<(), String> {
        let (application, tcp) = (&mut self.applications[side], &mut self.peers[side]);
        let is_reset = application.act(self.now, tcp)?;
        let wakes_at = application.wakes_at;
        if let Some(when) = wakes_at
            && self.application_at[side].is_none_or(|at| at > when)
        {
            self.application_at[side] = Some(when);
            self.at(when, Event::Application(side));
        }
        let mut packets = Vec::new();
        if is_reset {
            packets.extend(self.peers[side].abort(self.now));
        }
        self.let_peer_send(side, packets);
        Ok(())
    }

    fn process(&mut self) {
        self.process_at = None;
        let packets = self.host.run(self.now, self.programs);
        for line in std::mem::take(&mut self.host.told) {
            self.note(|_| format!("process   {line}"));
        }
        for (side, packet) in packets {
            self.let_local_send(side, vec![packet]);
        }
        for side in [0, 1] {
            self.let_local_send(side, Vec::new());
        }
        if let Some(when) = self.host.wakes_at {
            self.process_by(when);
        }
    }

    fn wake_process(&mut self) {
        let when = self.now + self.random.below(self.wake_max + 1);
        self.process_by(when);
    }

    fn process_by(&mut self, when: u64) {
        if self.process_at.is_none_or(|at| at > when) {
            self.process_at = Some(when);
            self.at(when, Event::Process);
        }
    }

    fn let_peer_send(&mut self, side: usize, mut packets: Vec<Packet>) {
        packets.extend(self.peers[side].flush(self.now));
        for packet in packets {
            self.note_packet("sent", side, &packet);
            let flight = self.flight(packet);
            let arrivals = self.roads[side].arrivals(self.now, false, &mut self.random);
            for when in arrivals {
                self.at(when, Event::Arriving(side, flight.clone()));
            }
        }
        self.set_timer(0, side);
    }

    /// A packet that is sent now.
    fn flight(&mut self, packet: Packet) -> Flight {
        self.order += 1;
        Flight {
            packet,
            sent: self.order,
            departed: self.order,
            is_late: false,
        }
    }

    fn let_local_send(&mut self, side: usize, mut packets: Vec<Packet>) {
        packets.extend(self.host.locals[side].flush(self.now));
        // The hook sees it before the socket continues (tcp_transmit_skb).
        for packet in packets {
            self.leaving(side, &packet);
        }
        self.set_timer(1, side);
    }

    /// When a packet that has passed the hook reaches the local socket.
    fn inside(&mut self, side: usize) -> u64 {
        let when = self.now + self.random.below(self.inside_max + 1);
        let last = &mut self.inside[side];
        *last = when.max(*last);
        *last
    }

    fn set_timer(&mut self, local: usize, side: usize) {
        let tcp = if local == 1 {
            &self.host.locals[side]
        } else {
            &self.peers[side]
        };
        let Some(when) = tcp.next_timer() else {
            return;
        };
        let when = when.max(self.now);
        if self.timers[local][side].is_none_or(|set| set > when) {
            self.timers[local][side] = Some(when);
            let event = [Event::PeerTimer, Event::LocalTimer][local];
            self.at(when, event(side));
        }
    }

    fn arriving(&mut self, side: usize, flight: &Flight) {
        self.show();
        self.was_reset[side] |= flight.packet.flags & RST != 0;
        let Outcome {
            verdict,
            frame,
            clone,
        } = self.programs.arriving(&flight.packet.bytes());
        self.note_packet(&format!("{verdict:?}"), side, &flight.packet);
        let is_late = flight.sent < self.latest[side];
        self.latest[side] = self.latest[side].max(flight.sent);
        let with = |frame: &[u8]| Flight {
            packet: parse(frame),
            ..flight.clone()
        };
        if let Some(clone) = clone {
            self.host.tally.copies += 1;
            let when = self.inside(side);
            self.at(when, Event::Local(side, with(&clone)));
        }
        match verdict {
            Verdict::Pass => {
                let when = self.inside(side);
                self.at(when, Event::Local(side, with(&frame)));
            }
            Verdict::Forward => {
                self.host.tally.forwarded += 1;
                let mut flight = with(&frame);
                self.order += 1;
                flight.departed = self.order;
                flight.is_late = is_late;
                self.depart(1 - side, &flight);
                self.wake_process();
            }
            Verdict::Drop => self.host.tally.refused += 1,
        }
    }

    /// If there are waiters, the process attends them soon, as long as it lives.
    fn attend(&mut self) {
        let lives = self
            .pace
            .as_ref()
            .is_some_and(|pace| self.now < pace.dies_at);
        if lives && !self.grants && self.programs.held() > 0 {
            self.grants = true;
            self.at(self.now + TICK, Event::Grant);
        }
    }

    fn grant(&mut self) {
        self.grants = false;
        for _ in 0..self.programs.held() {
            self.programs.set_clock(self.now);
            let Some(frame) = self.programs.grant() else {
                continue;
            };
            self.host.tally.grants += 1;
            let packet = parse(&frame);
            let is_of = |side: &usize| self.peers[*side].settings.own == packet.source;
            let side = [0, 1].into_iter().find(is_of).unwrap();
            let mut flight = self.flight(packet);
            flight.sent = self.latest[side];
            self.arriving(side, &flight);
        }
    }

    fn change_pace(&mut self) {
        let Some(pace) = &mut self.pace else { return };
        if let Some(when) = pace.change(self.now, self.programs) {
            self.at(when, Event::Pace);
        }
    }

    fn show(&self) {
        if self.host.is_armed {
            self.programs.set_clock(self.now);
            for local in &self.host.locals {
                self.programs.show(local);
            }
        }
    }

    fn leaving(&mut self, side: usize, packet: &Packet) {
        self.show();
        let Outcome { verdict, frame, .. } = self.programs.leaving(&packet.bytes());
        self.note_packet(&format!("{verdict:?}"), side, packet);
        assert_ne!(
            verdict,
            Verdict::Forward,
            "leaving packets are not redirected"
        );
        if verdict == Verdict::Drop {
            return;
        }
        let packet = parse(&frame);
        if let (Some((tsval, _)), Some(last)) =
            (options(&packet.options).timestamps, self.last_tsval[side])
            && (tsval.wrapping_sub(last) as i32) < 0
        {
            self.wrong = Some(format!("the local timestamp {tsval} comes after {last}"));
        }
        let peer = &self.peers[side];
        let una = peer.sending.una;
        let ack = near(una, packet.ack.wrapping_sub(peer.own_number(una)));
        let window = u64::from(packet.window) << peer.settings.peer_shift;
        self.allowed[side] = self.allowed[side].max(ack + window);
        let flight = self.flight(packet);
        self.depart(side, &flight);
    }

    /// A packet leaves this host for a peer.
    fn depart(&mut self, side: usize, flight: &Flight) {
        let packet = &flight.packet;
        assert_eq!(packet.destination, self.peers[side].settings.own);
        // A reset is accepted whatever its timestamp, and changes nothing (RFC 7323 section 5.2).
        if packet.flags & RST == 0
            && let Some((tsval, _)) = options(&packet.options).timestamps
        {
            let last = self.last_tsval[side].unwrap_or(tsval);
            let is_later = (tsval.wrapping_sub(last) as i32) > 0;
            self.last_tsval[side] = Some(if is_later { tsval } else { last });
        }
        self.note_packet("departs", side, packet);
        let arrivals = self.roads[side].arrivals(self.now, true, &mut self.random);
        for when in arrivals {
            self.at(when, Event::Peer(side, flight.clone()));
        }
    }

    fn complaints(&mut self) -> Result<(), String> {
        if let Some(wrong) = self.wrong.take().or(self.host.wrong.take()) {
            return Err(wrong);
        }
        let names = ["client", "server", "local to client", "local to server"];
        let all = self.peers.iter_mut().chain(&mut self.host.locals);
        for (at, tcp) in all.enumerate() {
            for fault in std::mem::take(&mut tcp.faults) {
                // The sender uses the window that the local socket gave, whatever the receiver allows (docs: Arming, Windows).
                if fault.end.is_some_and(|end| end <= self.allowed[1 - at % 2]) {
                    self.host.tally.behind_windows += 1;
                    continue;
                }
                return Err(format!("{}: {}", names[at], fault.what));
            }
            // A TCP that accepts an acknowledgement for data never sent is wrong.
            assert!(tcp.sending.una <= tcp.sending.sent_max);
        }
        for side in [0, 1] {
            if self.peers[side].life == Life::Reset && !self.may_reset(side) {
                return Err(format!("side {side} is reset without a reason"));
            }
        }
        Ok(())
    }

    /// Whether this side's connection may be reset.
    fn may_reset(&self, side: usize) -> bool {
        self.applications[1 - side].has_reset || self.host.tally.gave_up > 0
    }

    fn is_over(&self) -> bool {
        [0, 1].into_iter().all(|side| {
            let (tcp, application) = (&self.peers[side], &self.applications[side]);
            let has_ended = application.has_heard_end && tcp.is_through();
            // If the other side's reset is lost, and the connections are in the process, it cannot be known.
            let is_known = match self.kind {
                Kind::Responses => self.was_reset[1 - side],
                _ => self.host.is_armed,
            };
            let is_forgotten = self.applications[1 - side].has_reset && !is_known;
            let only_listens = application.step() == Some(Step::HearEnd) && tcp.has_no_debts();
            tcp.life != Life::Open
                || (application.is_done() && has_ended)
                || (is_forgotten && (only_listens || self.kind == Kind::Responses))
        })
    }

    fn wants(&self) -> String {
        let names = ["client", "server"];
        let each = [0, 1].map(|side| {
            let (tcp, application) = (&self.peers[side], &self.applications[side]);
            format!(
                "{} {:?} wants {:?}, has said {} and heard {}, sent {} of {}, {} of it acknowledged",
                names[side],
                tcp.life,
                application.step(),
                application.said,
                application.heard,
                tcp.sending.next - START,
                tcp.sending.limit() - START,
                tcp.sending.una - START,
            )
        });
        each.join("; ")
    }

    fn check_end(&mut self) -> Result<(), String> {
        let [client, server] = &self.applications;
        for (speaker, listener, name) in [
            (client, server, "the server"),
            (server, client, "the client"),
        ] {
            if speaker.has_reset || listener.has_reset || self.host.tally.gave_up > 0 {
                continue;
            }
            if listener.heard != speaker.will_say() || !listener.has_heard_end {
                return Err(format!(
                    "{name} has heard {} of {} bytes",
                    listener.heard,
                    speaker.will_say()
                ));
            }
        }
        let is_reset = client.has_reset || server.has_reset || self.host.tally.gave_up > 0;
        if !is_reset {
            self.host.check_end(server.will_say())?;
        }
        let is_kind = matches!(
            self.kind,
            Kind::ClientResets | Kind::ServerResets | Kind::Responses
        );
        if client.has_reset || server.has_reset {
            assert!(is_kind);
        }
        if !is_reset && self.peers.iter().any(|tcp| tcp.life != Life::Open) {
            return Err("a connection was reset".into());
        }
        Ok(())
    }
}
