//! Rounds of requests and responses, in all orders and with all ends.

use super::super::application::{Plan, Step};
use super::super::endpoint::{MILLISECOND, SECOND};
use super::super::host::{Round, Rounds};
use super::super::random::Random;
use super::{Kind, Scenario};

impl Scenario {
    /// A scenario in which the kernel forwards only responses.
    pub fn responses(seed: u64) -> Scenario {
        Scenario::of(Kind::Responses, &mut Random::new(seed ^ 0x5EED << 40))
    }
}

/// The way it ends.
#[derive(Clone, Copy)]
enum End {
    /// The client closes when it has received everything, or as soon as it has sent everything.
    Client,
    ClientAtOnce,
    /// The server closes directly behind its last response, or later.
    Server,
    ServerLater,
    ClientResets,
    ServerResets,
}

const ENDS: [End; 8] = [
    End::Client,
    End::ClientAtOnce,
    End::ClientAtOnce,
    End::Server,
    End::Server,
    End::ServerLater,
    End::ClientResets,
    End::ServerResets,
];

fn rounds(random: &mut Random) -> Rounds {
    let is_bulk = random.happens(300);
    let count = if is_bulk {
        random.between(2, 5)
    } else {
        random.between(2, 14)
    };
    let classified = random.one_of(&[0, 500, 900]);
    let bodies = random.one_of(&[0, 300, 900]);
    let all = (0..count)
        .map(|_| {
            let is_plain = random.happens(classified);
            let request_max = random.one_of(&[100, 500, 3000, 40_000]);
            let request_bytes = if is_plain {
                random.between(8, 500)
            } else {
                8 + random.magnitude(request_max)
            };
            let response_max = if is_bulk { 300_000 } else { 20_000 };
            Round {
                request_bytes,
                response_bytes: random.magnitude(response_max),
                is_plain,
                is_body: random.happens(bodies),
                cut_bytes: random.one_of(&[0, 0, 0, 1, 700, 20_000]),
            }
        })
        .collect();
    Rounds {
        all,
        holds: bodies > 0 && random.happens(500),
        is_classified: classified > 0,
        is_serial: random.happens(700),
        ends_at_once: random.happens(500),
        pause_max: random.one_of(&[0, 0, 100, 3000]),
    }
}

/// Whether nothing may follow before the response.
fn is_alone(rounds: &Rounds, round: &Round, is_lossy: bool) -> bool {
    rounds.is_classified && round.is_plain && is_lossy
}

pub fn plans(random: &mut Random, is_lossy: bool) -> ([Plan; 2], Option<Rounds>) {
    let mut rounds = rounds(random);
    for at in 0..rounds.all.len() {
        if is_alone(&rounds, &rounds.all[at], is_lossy) {
            // There must be a response to wait for.
            rounds.all[at].response_bytes += 1;
        }
    }
    let end = random.one_of(&ENDS);
    let pipelined = random.one_of(&[0, 0, 200, 700]);
    let last = match end {
        End::ClientResets | End::ServerResets => random.below(rounds.all.len() as u64) as usize,
        _ => rounds.all.len(),
    };
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let mut heard = [0, 0];
    let thinks = random.one_of(&[0, 1, 300 * MILLISECOND]);
    for round in &rounds.all[..last] {
        up.push(Step::Say(round.request_bytes));
        heard[1] += round.request_bytes;
        down.push(Step::Hear(heard[1]));
        if random.happens(300) {
            down.push(Step::Pause(random.magnitude(300 * MILLISECOND)));
        }
        down.push(Step::Say(round.response_bytes));
        heard[0] += round.response_bytes;
        // docs: What is given up.
        let may_follow = !is_alone(&rounds, round, is_lossy);
        if !(may_follow && random.happens(pipelined)) {
            up.push(Step::Hear(heard[0]));
            up.push(Step::Pause(random.magnitude(thinks)));
        }
    }
    let pause = Step::Pause(random.magnitude(2 * SECOND));
    match end {
        End::Client => {
            up.extend([Step::Hear(heard[0]), pause, Step::End, Step::HearEnd]);
            down.extend([Step::HearEnd, Step::End]);
        }
        End::ClientAtOnce => {
            up.extend([Step::End, Step::HearEnd]);
            down.extend([Step::HearEnd, Step::End]);
        }
        End::Server => {
            down.extend([Step::End, Step::HearEnd]);
            up.extend([Step::HearEnd, Step::End]);
        }
        End::ServerLater => {
            down.extend([pause, Step::End, Step::HearEnd]);
            up.extend([Step::HearEnd, Step::End]);
        }
        End::ClientResets | End::ServerResets => {
            let (one, other) = match end {
                End::ClientResets => (&mut up, &mut down),
                _ => (&mut down, &mut up),
            };
            one.push(Step::Pause(random.magnitude(SECOND)));
            if random.happens(500) {
                let round = &rounds.all[last];
                match end {
                    End::ClientResets => one.push(Step::Say(round.request_bytes)),
                    _ => {
                        one.push(Step::Hear(heard[1] + round.request_bytes));
                        one.push(Step::Say(round.response_bytes));
                        other.push(Step::Say(round.request_bytes));
                    }
                }
                one.push(Step::Pause(random.magnitude(SECOND)));
            }
            one.push(Step::Reset);
            other.push(Step::HearEnd);
        }
    }
    let mut deaf = None;
    if random.happens(300) {
        let from = random.magnitude(2 * SECOND);
        deaf = Some((from, from + random.magnitude(6 * SECOND)));
    }
    let is_slow = random.happens(100);
    let client = Plan {
        steps: up,
        read_bytes: if is_slow { 1200 } else { 65_536 },
        read_every: if is_slow { 20 * MILLISECOND } else { 0 },
        deaf,
    };
    let server = Plan {
        steps: down,
        read_bytes: 65_536,
        read_every: 0,
        deaf: None,
    };
    ([client, server], Some(rounds))
}
