//! The meaning of a seed: the connections, the networks, both peers' actions, and when the process takes the connections back.

mod responses;

use super::application::{Plan, Step};
use super::endpoint::{MILLISECOND, SECOND, Settings};
use super::host::{After, Rounds};
use super::pacing::Pace;
use super::random::Random;
use super::road::Road;
use std::net::SocketAddr;

/// The subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Chatter,
    BulkUp,
    BulkDown,
    BothWays,
    SlowReader,
    ClientEndsFirst,
    ServerEndsFirst,
    BothEndAtOnce,
    ClientResets,
    ServerResets,
    Silence,
    /// Requests and responses; the kernel forwards only the latter ([`Scenario::responses`]).
    Responses,
}

const KINDS: [Kind; 11] = [
    Kind::Chatter,
    Kind::BulkUp,
    Kind::BulkDown,
    Kind::BothWays,
    Kind::SlowReader,
    Kind::ClientEndsFirst,
    Kind::ServerEndsFirst,
    Kind::BothEndAtOnce,
    Kind::ClientResets,
    Kind::ServerResets,
    Kind::Silence,
];

pub struct Scenario {
    pub kind: Kind,
    /// Of the client, the local socket towards it, the one towards the server, the server.
    pub settings: [Settings; 4],
    pub roads: [Road; 2],
    pub plans: [Plan; 2],
    pub take_back: Vec<(u64, After)>,
    pub rounds: Option<Rounds>,
    /// Longest time of a packet between a hook and a local socket, and of the process's wake-up.
    pub inside_max: u64,
    pub wake_max: u64,
    /// Everything has ended by then.
    pub over_by: u64,
    /// Pacing.
    pub pace: Option<Pace>,
}

impl Scenario {
    pub fn new(seed: u64) -> Scenario {
        let mut random = Random::new(seed);
        let kind = KINDS[(seed % KINDS.len() as u64) as usize];
        Scenario::of(kind, &mut random)
    }

    /// The same, or a scenario of [`Scenario::responses`], with rates, policies, and a process that may die.
    pub fn paced(seed: u64) -> Scenario {
        let scenario = if seed % 3 == 2 {
            Scenario::responses(seed)
        } else {
            Scenario::new(seed)
        };
        Scenario {
            pace: Some(Pace::new(seed)),
            ..scenario
        }
    }

    fn of(kind: Kind, random: &mut Random) -> Scenario {
        let calm_at = random.between(300 * MILLISECOND, 6 * SECOND);
        let harm = match random.below(4) {
            0 => [0, 0, 0],
            1 => [random.between(1, 10), 0, 0],
            _ => [
                random.between(0, 50),
                random.between(0, 50),
                random.between(0, 20),
            ],
        };
        let roads = [0, 1].map(|_| {
            let delay = random.between(20, 30_000);
            let jitter = random.below(delay / 4 + 1);
            Road::new(delay, jitter, harm, calm_at)
        });
        let (plans, rounds) = match kind {
            Kind::Responses => responses::plans(random, harm[0] > 0),
            _ => (plans(kind, random), None),
        };
        let take_back = take_back(random);
        let lasts = plans.iter().map(lasts).sum::<u64>();
        Scenario {
            kind,
            settings: settings(kind, random),
            roads,
            plans,
            take_back,
            rounds,
            inside_max: random.one_of(&[0, 20, 200, 3000]),
            wake_max: random.one_of(&[0, 100, 2000]),
            over_by: calm_at + lasts + 90 * SECOND,
            pace: None,
        }
    }
}

fn settings(kind: Kind, random: &mut Random) -> [Settings; 4] {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let (client_leg, server_leg) = if random.happens(250) {
        (
            ["[2001:db8:ffff::9]:40000", "[2001:db8:1::1]:80"],
            ["[2001:db8:2::1]:50000", "[2001:db8:abcd::5]:8000"],
        )
    } else {
        (
            ["192.0.2.9:40000", "198.51.100.1:80"],
            ["198.51.100.2:50000", "203.0.113.5:8000"],
        )
    };
    let mss = random.one_of(&[536, 1000, 1448]);
    let has_sack = random.happens(800);
    let has_timestamps = random.happens(800);
    // A lost reset is noticed only by a side that sends.
    let is_awake = matches!(
        kind,
        Kind::Silence | Kind::ClientResets | Kind::ServerResets
    );
    let keep_alive_max = if is_awake { 3000 } else { 20_000 };
    // The peers have their own clocks; this host's tick 1000 times per second (tcp_clock_ts).
    let mut ends = [0, 1, 2, 3].map(|at| {
        let hertz = if at == 1 || at == 2 {
            1000
        } else {
            random.one_of(&[100, 1000, 1000])
        };
        let is_slow = matches!(kind, Kind::SlowReader | Kind::Responses) && random.happens(500);
        let room = if is_slow {
            random.between(2 * mss, 8 * mss)
        } else {
            random.between(6 * mss, 200_000)
        };
        let keep_alive = random.between(300, keep_alive_max) * MILLISECOND;
        Settings {
            own: address("0.0.0.0:0"),
            peer: address("0.0.0.0:0"),
            own_first: near_the_wrap(random),
            peer_first: 0,
            mss,
            own_shift: random.between(2, 9) as u8,
            peer_shift: 0,
            send_room: random.between(4 * mss, 150_000) as usize,
            receive_room: room as usize,
            peer_room: 0,
            has_sack,
            clock: has_timestamps.then(|| (near_the_wrap(random), hertz)),
            peer_tsval: 0,
            keep_alive: (at == 0 || at == 3).then_some(keep_alive),
            probes_with_byte: random.happens(500) && (at == 0 || at == 3),
        }
    });
    for (a, b, [own, peer]) in [(0, 1, client_leg), (2, 3, server_leg)] {
        (ends[a].own, ends[a].peer) = (address(own), address(peer));
        (ends[b].own, ends[b].peer) = (address(peer), address(own));
        for (a, b) in [(a, b), (b, a)] {
            ends[a].peer_first = ends[b].own_first;
            ends[a].peer_shift = ends[b].own_shift;
            ends[a].peer_room = ends[b].receive_room;
            ends[a].peer_tsval = ends[b].clock.map_or(0, |(start, _)| start);
        }
    }
    ends
}

/// Any number, but half of them soon wrap.
fn near_the_wrap(random: &mut Random) -> u32 {
    let number = random.next() as u32;
    if random.happens(500) {
        (random.magnitude(300_000) as u32).wrapping_neg()
    } else {
        number
    }
}

fn take_back(random: &mut Random) -> Vec<(u64, After)> {
    let count = random.one_of(&[0, 1, 1, 2, 3, 5]);
    let mut moments: Vec<u64> = (0..count)
        .map(|_| {
            let bits = random.between(15, 23);
            random.below(1 << bits) + 20 * MILLISECOND
        })
        .collect();
    moments.sort_unstable();
    let after = |random: &mut Random| match random.below(5) {
        0 => After::Process,
        1 | 2 => After::Again,
        _ => After::Anew,
    };
    moments
        .into_iter()
        .map(|when| (when, after(random)))
        .collect()
}

/// The time that a plan takes by itself.
fn lasts(plan: &Plan) -> u64 {
    let mut sum = plan.deaf.map_or(0, |(_, to)| to);
    for step in &plan.steps {
        sum += match step {
            Step::Pause(time) => *time,
            // The other side may read slowly.
            Step::Say(bytes) => bytes * 60,
            _ => 0,
        };
    }
    sum
}

/// A few bytes in each direction, and silence, so that the process can arm.
fn greeting(random: &mut Random) -> [Vec<Step>; 2] {
    let (asked, answered) = (random.between(1, 300), random.between(1, 300));
    let pause = random.one_of(&[0, 2, 60, 400]) * MILLISECOND;
    [
        vec![Step::Say(asked), Step::Hear(answered), Step::Pause(pause)],
        vec![Step::Hear(asked), Step::Say(answered)],
    ]
}

fn plans(kind: Kind, random: &mut Random) -> [Plan; 2] {
    let [mut up, mut down] = greeting(random);
    let mut heard = [sum(&down), sum(&up)];
    let bulk = |random: &mut Random| 1 + random.magnitude(300_000);
    let mut deaf = [None, None];
    let mut slow = [false; 2];
    match kind {
        Kind::Chatter => {
            for _ in 0..random.between(1, 12) {
                let (question, answer) = (1 + random.magnitude(3000), 1 + random.magnitude(30_000));
                up.push(Step::Pause(random.magnitude(300 * MILLISECOND)));
                up.push(Step::Say(question));
                heard[1] += question;
                down.push(Step::Hear(heard[1]));
                down.push(Step::Say(answer));
                heard[0] += answer;
                up.push(Step::Hear(heard[0]));
            }
            close(&mut up, &mut down, random);
        }
        Kind::BulkUp => {
            up.push(Step::Say(bulk(random)));
            close(&mut up, &mut down, random);
        }
        Kind::BulkDown => {
            down.push(Step::Say(bulk(random)));
            close(&mut up, &mut down, random);
        }
        Kind::BothWays => {
            for steps in [&mut up, &mut down] {
                for _ in 0..random.between(1, 4) {
                    steps.push(Step::Say(bulk(random) / 2));
                    steps.push(Step::Pause(random.magnitude(SECOND)));
                }
            }
            close(&mut up, &mut down, random);
        }
        Kind::SlowReader => {
            up.push(Step::Say(bulk(random) / 2));
            down.push(Step::Say(bulk(random) / 2));
            for side in [0, 1] {
                let from = random.magnitude(2 * SECOND);
                deaf[side] = Some((from, from + random.magnitude(6 * SECOND)));
                slow[side] = random.happens(300);
            }
            close(&mut up, &mut down, random);
        }
        Kind::ClientEndsFirst => {
            up.extend([Step::Say(bulk(random) / 8), Step::End]);
            down.extend([Step::HearEnd, Step::Say(bulk(random)), Step::End]);
        }
        Kind::ServerEndsFirst => {
            down.extend([Step::Say(bulk(random) / 8), Step::End]);
            up.extend([Step::HearEnd, Step::Say(bulk(random)), Step::End]);
        }
        Kind::BothEndAtOnce => {
            let bytes = random.magnitude(20_000);
            up.extend([Step::Say(bytes), Step::End]);
            down.extend([Step::Say(random.magnitude(20_000)), Step::End]);
        }
        Kind::ClientResets => resets(&mut up, &mut down, random),
        Kind::ServerResets => resets(&mut down, &mut up, random),
        Kind::Silence => {
            up.push(Step::Pause(random.between(1, 20) * SECOND));
            up.push(Step::Say(random.magnitude(5000)));
            down.push(Step::Pause(random.between(1, 20) * SECOND));
            down.push(Step::Say(random.magnitude(5000)));
            close(&mut up, &mut down, random);
        }
        Kind::Responses => unreachable!("they have their own plans"),
    }
    for steps in [&mut up, &mut down] {
        if *steps.last().unwrap() == Step::End {
            steps.push(Step::HearEnd);
        }
    }
    let plan = |steps, side: usize| Plan {
        steps,
        read_bytes: if slow[side] { 1200 } else { 65_536 },
        read_every: if slow[side] { 20 * MILLISECOND } else { 0 },
        deaf: deaf[side],
    };
    [plan(up, 0), plan(down, 1)]
}

fn sum(steps: &[Step]) -> u64 {
    let bytes = steps.iter().map(|step| match step {
        Step::Say(bytes) => *bytes,
        _ => 0,
    });
    bytes.sum()
}

/// In either order.
fn close(up: &mut Vec<Step>, down: &mut Vec<Step>, random: &mut Random) {
    let pause = Step::Pause(random.magnitude(2 * SECOND));
    match random.below(4) {
        0 => {
            up.extend([pause, Step::End]);
            down.extend([Step::HearEnd, Step::End]);
        }
        1 => {
            down.extend([pause, Step::End]);
            up.extend([Step::HearEnd, Step::End]);
        }
        _ => {
            up.push(Step::End);
            down.extend([pause, Step::End]);
        }
    }
}

/// One side resets at any moment, while the other one sends, or waits.
fn resets(one: &mut Vec<Step>, other: &mut Vec<Step>, random: &mut Random) {
    if random.happens(500) {
        one.push(Step::Say(random.magnitude(50_000)));
    }
    one.push(Step::Pause(random.magnitude(3 * SECOND)));
    one.push(Step::Reset);
    if random.happens(500) {
        other.push(Step::Say(random.magnitude(200_000)));
    }
    other.push(Step::HearEnd);
}
