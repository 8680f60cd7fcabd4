//! A run as its seed decides it: the way of carrick, the network, and who says what when.

use std::time::Duration;

use crate::load::chance::{Chance, Weighted};
use crate::torture::http::Way;
use crate::torture::http::exchange::{Cut, Exchange, Framing, Kind, Rest};
use crate::torture::http::network::Network;

/// Most conversations of a run.
const CLIENTS_MAX: f64 = 256.0;
/// Most exchanges of a conversation.
const EXCHANGES_MAX: f64 = 14.0;
/// Least and most bytes of an object.
const OBJECT_BYTES: (f64, f64) = (1e3, 100e6);
/// Least and most bytes of all bodies of a run; but for those with an object of [`OBJECT_BYTES`]' most.
const RUN_BYTES: (f64, f64) = (300e3, 30e6);
/// How much more than the mean a conversation may have of them.
const UNEVENNESS: f64 = 10.0;
/// What a conversation may take by the network's rule of thumb, in seconds.
const CONVERSATION_SECONDS: f64 = 2.5;
/// A network that is as fast as this may have an object of the most bytes.
const FAST_BYTES_PER_SECOND: f64 = 8e6;
/// A response's head is shorter, unless it is made long.
const HEAD_BYTES: usize = 1_000;
/// Most bytes of a request's body.
const UPLOAD_BYTES_MAX: f64 = 300e3;

/// All that a seed decides.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// How carrick moves the responses.
    pub way: Way,
    /// Its worker threads.
    pub workers: u32,
    /// Its limit of splices.
    pub splices: u32,
    /// What is between.
    pub network: Network,
    /// Whether the origin closes connections without having said so.
    pub has_silent_closes: bool,
    /// What is said.
    pub conversations: Vec<Conversation>,
}

/// A client's connection.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// When it is made, from the start of the run.
    pub starts: Duration,
    /// The client's receive buffer in bytes, if it is set.
    pub receive_buffer: Option<u32>,
    /// Most bytes that the client reads at once.
    pub read_bytes: usize,
    /// What is asked, one behind the other.
    pub exchanges: Vec<Exchange>,
    /// How the client goes, if the connection is still there after the last one.
    pub farewell: Farewell,
}

/// How a client goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// It closes.
    Close,
    /// It resets.
    Reset,
    /// It says that it says no more behind its last request, and reads on to the end.
    HalfClose,
    /// It stays for a while, then closes.
    Linger(Duration),
}

impl Scenario {
    /// What this seed decides; `way`: the seed does not decide that.
    #[must_use]
    pub fn draw(seed: u64, way: Option<Way>) -> Self {
        let chance = &mut Chance::new(seed, 1);
        let drawn = Weighted::new(Way::DRAWN.map(|(_, weight)| weight)).choose(chance);
        let way = way.unwrap_or(Way::DRAWN[drawn].0);
        let network = Network::draw(chance);
        let workers = if chance.happens(0.3) { 2 } else { 1 };
        let splices = if chance.happens(0.05) { 4 } else { 16_384 };
        let has_silent_closes = chance.happens(0.12);
        let clients = log_uniform(chance, 1.0, CLIENTS_MAX + 0.99) as usize;
        let rate = network.bytes_per_second();
        let is_large = rate >= FAST_BYTES_PER_SECOND && chance.happens(0.06);
        let run_bytes = log_uniform(chance, RUN_BYTES.0, RUN_BYTES.1);
        let mut conversations = Vec::new();
        // Together they cannot be faster than the emulator.
        let at_most = (run_bytes / clients as f64).min(rate * CONVERSATION_SECONDS);
        for number in 0..clients {
            // Some have much more than others: long bodies and many clients belong together.
            let share = log_uniform(chance, 0.2, UNEVENNESS.min(clients as f64).max(1.0));
            let mut writer = Writer {
                chance: Chance::new(seed, 1_000 + number as u64),
                conversation: number,
                has_silent_closes,
                bytes_left: (at_most * share).max(OBJECT_BYTES.0),
            };
            conversations.push(writer.conversation());
        }
        if is_large {
            for _ in 0..1 + chance.below(2) {
                let at = chance.below(clients as u64) as usize;
                let largest = conversations[at]
                    .exchanges
                    .iter_mut()
                    .rfind(|exchange| exchange.kind == Kind::Get);
                if let Some(exchange) = largest {
                    exchange.object_bytes = OBJECT_BYTES.1 as u64;
                    exchange.origin_piece_bytes = 64 * 1024;
                }
            }
        }
        Self {
            seed,
            way,
            workers,
            splices,
            network,
            has_silent_closes,
            conversations,
        }
    }

    /// One client that asks plainly, so many times, on a network that is left as it is.
    #[must_use]
    pub fn plain(seed: u64, way: Way, requests: usize) -> Self {
        let network = Network {
            wire: crate::torture::http::network::Wire::Direct,
            tcp: crate::testbed::plan::TcpOptions::default(),
            has_many_networks: false,
        };
        let exchange = |number| Exchange::plain((0, number), seed ^ number as u64, 5_000);
        Self {
            seed,
            way,
            workers: 1,
            splices: 16_384,
            network,
            has_silent_closes: false,
            conversations: vec![Conversation {
                starts: Duration::ZERO,
                receive_buffer: None,
                read_bytes: 64 * 1024,
                exchanges: (0..requests).map(exchange).collect(),
                farewell: Farewell::Close,
            }],
        }
    }

    /// Whether carrick has reason to let the kernel forward something: a client sends enough plain requests.
    #[must_use]
    pub fn invites_packets(&self) -> bool {
        let is_plain = |exchange: &&Exchange| {
            let is_long = self.way != Way::Bodies || exchange.body().2 >= 400_000;
            exchange.kind == Kind::Get
                && exchange.framing == Framing::Length
                && !exchange.is_pipelined
                && !exchange.is_split
                && !exchange.is_last()
                && !exchange.closes_silently
                && is_long
        };
        self.way.is_packet()
            && self.splices > 100
            && self.conversations.iter().any(|conversation| {
                let exchanges = conversation.exchanges.iter();
                exchanges.skip(2).take_while(is_plain).count() >= 3
            })
    }

    /// The bytes of all bodies.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        let conversations = self.conversations.iter();
        let exchanges = conversations.flat_map(|conversation| &conversation.exchanges);
        exchanges.map(|exchange| exchange.body().2).sum()
    }
}

/// Writes one conversation.
struct Writer {
    chance: Chance,
    conversation: usize,
    has_silent_closes: bool,
    bytes_left: f64,
}

impl Writer {
    fn conversation(&mut self) -> Conversation {
        let count = log_uniform(&mut self.chance, 1.0, EXCHANGES_MAX + 0.99) as usize;
        let pipelines = self.chance.happens(0.2);
        // Half of the conversations are plain: those the kernel has longest.
        let is_plain = self.chance.happens(0.5);
        let mut exchanges: Vec<Exchange> = Vec::new();
        for number in 0..count {
            let mut exchange = self.exchange(number, is_plain, pipelines);
            exchange.is_pipelined =
                pipelines && number > 0 && may_be_pipelined(&exchange) && self.chance.happens(0.6);
            exchanges.push(exchange);
            if exchanges.last().is_some_and(Exchange::is_last) {
                break;
            }
        }
        let farewell = match self.chance.below(10) {
            0..=3 => Farewell::Close,
            4 | 5 => Farewell::Reset,
            6 | 7 => Farewell::HalfClose,
            _ => Farewell::Linger(self.milliseconds(20, 400)),
        };
        Conversation {
            starts: self.milliseconds(0, 600),
            receive_buffer: self
                .chance
                .happens(0.15)
                .then(|| log_uniform(&mut self.chance, 4e3, 200e3) as u32),
            read_bytes: if self.chance.happens(0.2) {
                log_uniform(&mut self.chance, 200.0, 60e3) as usize
            } else {
                64 * 1024
            },
            exchanges,
            farewell,
        }
    }

    fn exchange(&mut self, number: usize, is_plain: bool, pipelines: bool) -> Exchange {
        let seed = self.chance.number();
        let most = self.bytes_left.clamp(OBJECT_BYTES.0 + 1.0, OBJECT_BYTES.1);
        let object_bytes = log_uniform(&mut self.chance, OBJECT_BYTES.0, most);
        let mut exchange = Exchange::plain((self.conversation, number), seed, object_bytes as u64);
        if self.chance.happens(0.15) {
            exchange.pause = self.milliseconds(0, 60);
        }
        if !is_plain {
            self.season(&mut exchange, pipelines);
        }
        self.bytes_left -= exchange.body().2 as f64;
        let (_, _, body_bytes) = exchange.body();
        if body_bytes > 0 {
            let chance = &mut self.chance;
            let place = |chance: &mut Chance| chance.below(body_bytes + 1);
            if chance.happens(0.08) {
                exchange.origin_rest = Some(Rest {
                    at: place(chance),
                    time: Duration::from_millis(chance.below(400)),
                });
            }
            if chance.happens(0.10) {
                exchange.client_rest = Some(Rest {
                    at: place(chance),
                    time: Duration::from_millis(50 + chance.below(1_500)),
                });
            }
            // One conversation in five or so is cut by one of its ends.
            if chance.happens(0.04) {
                exchange.client_cut = Some(Cut {
                    at: place(chance),
                    is_reset: chance.happens(0.5),
                });
            } else if chance.happens(0.04) {
                exchange.origin_cut = Some(origin_cut(&exchange, chance));
            }
        }
        exchange
    }

    /// Makes something else of a plain exchange.
    fn season(&mut self, exchange: &mut Exchange, pipelines: bool) {
        let chance = &mut self.chance;
        exchange.kind = match chance.below(20) {
            0..=9 => Kind::Get,
            10 | 11 => Kind::Head,
            12 | 13 => Kind::Range {
                from: chance.below(exchange.object_bytes),
            },
            14 | 15 => Kind::NotModified {
                tells_length: chance.happens(0.5),
            },
            16 => Kind::NoContent,
            _ => Kind::Post {
                upload_bytes: log_uniform(chance, 1.0, UPLOAD_BYTES_MAX) as u64,
            },
        };
        if exchange.has_body() {
            exchange.framing = match chance.below(20) {
                0..=5 if exchange.kind == Kind::Get => Framing::Chunked {
                    // Its end cannot be told: for clients that pipeline, that is the connection's (docs/modes/kernel-forwarding.md).
                    has_trailer: !pipelines && chance.happens(0.2),
                },
                6 if exchange.kind == Kind::Get => Framing::UntilClose,
                _ => Framing::Length,
            };
        }
        exchange.is_split = chance.happens(0.1);
        exchange.client_closes = chance.happens(0.04);
        exchange.origin_closes = chance.happens(0.04);
        exchange.has_interim = !pipelines && chance.happens(0.03);
        if !pipelines && chance.happens(0.05) {
            exchange.padding_bytes = 200 + chance.below(3_000) as usize;
        }
        if chance.happens(0.2) {
            // A body in small pieces takes a call for each.
            let least = (exchange.object_bytes as f64 / 2_000.0).max(1.0);
            exchange.origin_piece_bytes = log_uniform(chance, least, 64e3) as usize;
        }
        // Where the end cannot be told, the connection's is it: then it has been told.
        let is_told = !exchange.has_interim
            && exchange.padding_bytes == 0
            && exchange.origin_piece_bytes >= HEAD_BYTES
            && exchange.framing != (Framing::Chunked { has_trailer: true });
        exchange.closes_silently = is_told && self.has_silent_closes && chance.happens(0.2);
    }

    fn milliseconds(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.chance.below(to - from))
    }
}

/// Bodies go up one at a time, and what is cut must not take answers with it that are still under way.
fn may_be_pipelined(exchange: &Exchange) -> bool {
    !matches!(exchange.kind, Kind::Post { .. })
        && !exchange.is_split
        && exchange.client_cut.is_none()
        && exchange.origin_cut.is_none()
        && exchange.client_rest.is_none()
}

/// A body without length that ends by FIN is whole; so only a reset can cut it.
fn origin_cut(exchange: &Exchange, chance: &mut Chance) -> Cut {
    let (_, _, bytes) = exchange.body();
    let is_until_close = exchange.framing == Framing::UntilClose;
    Cut {
        at: chance.below(if is_until_close { bytes + 1 } else { bytes }),
        is_reset: is_until_close || chance.happens(0.5),
    }
}

/// The logarithm is uniform.
fn log_uniform(chance: &mut Chance, least: f64, most: f64) -> f64 {
    (least.ln() + (most.ln() - least.ln()).max(0.0) * chance.share()).exp()
}
