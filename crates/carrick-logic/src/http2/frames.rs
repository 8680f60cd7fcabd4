//! Which frames of the other end are a nuisance: they cost work and carry nothing (RFC 9113 section 10.5).
use std::time::{Duration, Instant};

/// Length of a frame's head (RFC 9113 section 4.1).
const HEAD_BYTES: usize = 9;

/// Nuisances that the other end has free.
const FREE: u32 = 1000;

/// The time after which it has one more.
const ONE_MORE_AFTER: Duration = Duration::from_millis(10);

/// How many a reset counts as.
const RESET: u32 = 5;

/// Content.
const DATA: u8 = 0;

/// A frame of content that is smaller costs whoever keeps it more than it carries: up to the library's whole buffer of 8 KB.
const SMALL_BYTES: usize = 4096;

/// So many of them are to be taken together.
pub const SMALL_FRAMES_MAX: u32 = 250;

/// A frame with a head, or trailers.
const HEADERS: u8 = 1;

const SETTINGS: u8 = 4;

const WINDOW_UPDATE: u8 = 8;

/// A connection's window before any update (RFC 9113 section 6.9.2).
const WINDOW_BYTES: u64 = 65_535;

/// A setting.
const MAX_HEADER_LIST_SIZE: u16 = 6;

/// How many one of a server counts as: no window limits its 1xx responses.
const HEAD: u32 = 5;

/// What a server may send because of a request: the response's head, an interim one, trailers, and a reset that stops the request.
const NUISANCES_PER_REQUEST: u32 = 3 * HEAD + RESET;

/// What it may have left because of requests: so many may be answered at once.
const MOST: u32 = FREE + 100 * NUISANCES_PER_REQUEST;

/// `END_STREAM`, and `ACK`.
const FLAG: u8 = 0x1;

/// `END_HEADERS`.
const END_HEADERS: u8 = 0x4;

/// Follows the frames of a connection from its preface on, without keeping their content.
#[derive(Debug, Clone)]
pub struct FrameMeter {
    head: [u8; HEAD_BYTES],
    /// Bytes of the present head.
    head_bytes: usize,
    /// Bytes of the present frame's content, or of the preface, that are to come.
    left: usize,
    is_of_server: bool,
    small_frames: u32,
    /// What of the present frame's content is read; the beginning of the next one of it.
    reads: Reads,
    part: Vec<u8>,
    list_bytes_max: u32,
    window_bytes: u64,
}

/// What of a frame's content is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    Nothing,
    Settings,
    /// That of the connection.
    Window,
}

impl FrameMeter {
    /// Of a client, at the preface.
    #[must_use]
    pub fn new() -> Self {
        Self {
            head: [0; HEAD_BYTES],
            head_bytes: 0,
            left: super::PREFACE.len(),
            is_of_server: false,
            small_frames: 0,
            reads: Reads::Nothing,
            part: Vec::new(),
            list_bytes_max: u32::MAX,
            window_bytes: WINDOW_BYTES,
        }
    }

    /// Of a server, which has no preface before its frames.
    #[must_use]
    pub fn of_server() -> Self {
        Self {
            left: 0,
            is_of_server: true,
            ..Self::new()
        }
    }

    /// Whether [many](SMALL_FRAMES_MAX) small frames of content have come since that was last so.
    #[must_use]
    pub fn take_many_small(&mut self) -> bool {
        let are_many = self.small_frames >= SMALL_FRAMES_MAX;
        if are_many {
            self.small_frames = 0;
        }
        are_many
    }

    /// The longest list of fields that the other end takes (SETTINGS_MAX_HEADER_LIST_SIZE, RFC 9113 section 6.5.2).
    #[must_use]
    pub fn list_bytes_max(&self) -> u32 {
        self.list_bytes_max
    }

    /// How many bytes of content, of all streams together, it has allowed so far (RFC 9113 section 6.9).
    #[must_use]
    pub fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.part.push(byte);
            match (self.reads, self.part.as_slice()) {
                (Reads::Settings, &[high, low, a, b, c, d]) => {
                    if u16::from_be_bytes([high, low]) == MAX_HEADER_LIST_SIZE {
                        self.list_bytes_max = u32::from_be_bytes([a, b, c, d]);
                    }
                }
                (Reads::Window, &[a, b, c, d]) => {
                    // The first bit is reserved.
                    let more = u32::from_be_bytes([a & 0x7f, b, c, d]);
                    self.window_bytes = self.window_bytes.saturating_add(more.into());
                }
                _ => continue,
            }
            self.part.clear();
        }
    }

    /// Moves past `bytes`; how many nuisances the frames are that began in them.
    pub fn pass(&mut self, mut bytes: &[u8]) -> u32 {
        let mut nuisances = 0;
        loop {
            let skipped = self.left.min(bytes.len());
            if self.reads != Reads::Nothing {
                self.read(&bytes[..skipped]);
            }
            self.left -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return nuisances;
            }
            let taken = (HEAD_BYTES - self.head_bytes).min(bytes.len());
            self.head[self.head_bytes..self.head_bytes + taken].copy_from_slice(&bytes[..taken]);
            self.head_bytes += taken;
            bytes = &bytes[taken..];
            if self.head_bytes == HEAD_BYTES {
                let [high, middle, low, kind, flags, ref stream @ ..] = self.head;
                let length = u32::from_be_bytes([0, high, middle, low]) as usize;
                self.head_bytes = 0;
                self.left = length;
                self.part.clear();
                self.reads = match kind {
                    SETTINGS if flags & FLAG == 0 => Reads::Settings,
                    WINDOW_UPDATE if *stream == [0; 4] => Reads::Window,
                    _ => Reads::Nothing,
                };
                self.small_frames += u32::from(kind == DATA && length < SMALL_BYTES);
                nuisances += match (self.is_of_server, kind) {
                    (true, HEADERS) => HEAD,
                    _ => nuisance(kind, flags, length),
                };
            }
        }
    }
}

impl Default for FrameMeter {
    fn default() -> Self {
        Self::new()
    }
}

/// How many nuisances a frame is. Clients in their right minds send few such. Those that make requests, carry content, or open windows are
/// limited otherwise.
fn nuisance(kind: u8, flags: u8, length: usize) -> u32 {
    let is_one = match kind {
        // Empty, and not the end.
        DATA => length == 0 && flags & FLAG == 0,
        HEADERS | WINDOW_UPDATE => false,
        // RST_STREAM: a request was begun in vain (CVE-2023-44487).
        3 => return RESET,
        // SETTINGS: those that demand an answer.
        SETTINGS => flags & FLAG == 0,
        // CONTINUATION: small, and not the end.
        9 => length < 64 && flags & END_HEADERS == 0,
        // PRIORITY, PUSH_PROMISE, PING, GOAWAY, and what is not known. An answer to a ping, too: carrick sends few.
        _ => true,
    };
    u32::from(is_one)
}

/// What the other end has left of nuisances.
#[derive(Debug, Clone)]
pub struct NuisanceBudget {
    left: u32,
    at: Instant,
}

impl NuisanceBudget {
    /// All of it.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self {
            left: FREE,
            at: now,
        }
    }

    /// Takes so much from it; whether it had so much.
    pub fn spend(&mut self, nuisances: u32, now: Instant) -> bool {
        let since = now.saturating_duration_since(self.at);
        let more = since.as_millis() / ONE_MORE_AFTER.as_millis();
        if more > 0 {
            self.at = now;
            self.give(u32::try_from(more).unwrap_or(FREE));
        }
        let has_enough = nuisances <= self.left;
        self.left = self.left.saturating_sub(nuisances);
        has_enough
    }

    /// Gives some back: a client that gets much may say much about it.
    pub fn give(&mut self, nuisances: u32) {
        let most = self.left.max(FREE);
        self.left = self.left.saturating_add(nuisances).min(most);
    }

    /// Gives what a reset takes.
    pub fn give_for_reset(&mut self) {
        self.give(RESET);
    }

    /// Gives what a server may say of a request that it is sent.
    pub fn give_for_request(&mut self) {
        self.left = self.left.saturating_add(NUISANCES_PER_REQUEST).min(MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        frame.extend_from_slice(content);
        frame
    }

    #[test]
    fn the_longest_list_and_the_window_are_known_however_frames_are_cut() {
        let settings = [&[0, 3, 0, 0, 0, 100][..], &[0, 6, 0, 0, 0x20, 0]].concat();
        let mut of_connection = frame(WINDOW_UPDATE, 0, &[0x80, 0, 1, 0]);
        of_connection[8] = 0;
        let all = [
            frame(SETTINGS, 0, &settings),
            of_connection,
            frame(WINDOW_UPDATE, 0, &[0, 1, 0, 0]),
            frame(SETTINGS, FLAG, b""),
            frame(DATA, 0, &settings),
        ];
        for (mut meter, preface) in [
            (FrameMeter::of_server(), &b""[..]),
            (FrameMeter::new(), super::super::PREFACE),
        ] {
            assert_eq!(meter.window_bytes(), WINDOW_BYTES);
            for byte in [preface, &all.concat()].concat() {
                meter.pass(&[byte]);
            }
            assert_eq!(meter.list_bytes_max(), 0x2000);
            assert_eq!(meter.window_bytes(), WINDOW_BYTES + 0x100);
        }
    }

    #[test]
    fn frames_are_told_apart_however_they_are_cut() {
        let mut all = super::super::PREFACE.to_vec();
        let frames = [
            (frame(4, 0, &[0; 6]), 1),
            (frame(4, 1, b""), 0),
            (frame(1, 5, &[6; 300]), 0),
            (frame(0, 0, b"a"), 0),
            (frame(0, 0, b""), 1),
            (frame(0, 1, b""), 0),
            (frame(6, 0, &[0; 8]), 1),
            (frame(6, 1, &[0; 8]), 1),
            (frame(8, 0, &[0, 0, 0, 1]), 0),
            (frame(9, 0, b""), 1),
            (frame(9, 4, b""), 0),
            (frame(3, 0, &[0; 4]), RESET),
            (frame(200, 0, b"what"), 1),
        ];
        let expected: u32 = frames.iter().map(|(_, nuisances)| nuisances).sum();
        for (frame, _) in &frames {
            all.extend_from_slice(frame);
        }
        assert_eq!(FrameMeter::new().pass(&all), expected);
        for size in 1..20 {
            let mut meter = FrameMeter::new();
            let sum: u32 = all.chunks(size).map(|piece| meter.pass(piece)).sum();
            assert_eq!(sum, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn many_small_frames_of_content_are_noticed_once() {
        let mut meter = FrameMeter::of_server();
        let (small, large) = (frame(DATA, 0, b"a"), frame(DATA, 0, &[0; SMALL_BYTES]));
        for _ in 1..SMALL_FRAMES_MAX {
            meter.pass(&small);
            meter.pass(&large);
        }
        assert!(!meter.take_many_small());
        meter.pass(&small);
        assert!(meter.take_many_small() && !meter.take_many_small());
    }

    #[test]
    fn heads_of_a_server_are_counted_and_no_request_is_too_much() {
        let head = frame(HEADERS, END_HEADERS, b"x");
        let reset = frame(3, 0, &[0; 4]);
        let mut all = frame(4, 0, &[]);
        for frame in [&head, &head, &head, &reset] {
            all.extend_from_slice(frame);
        }
        let sum = FrameMeter::of_server().pass(&all);
        assert_eq!(sum, 1 + NUISANCES_PER_REQUEST);
    }

    #[test]
    fn a_budget_grows_with_time_and_with_what_is_given() {
        let begun = Instant::now();
        let mut budget = NuisanceBudget::new(begun);
        assert!(budget.spend(FREE, begun));
        assert!(!budget.spend(1, begun));
        budget.give(2);
        assert!(budget.spend(2, begun));
        assert!(!budget.spend(1, begun + ONE_MORE_AFTER / 2));
        assert!(budget.spend(3, begun + 3 * ONE_MORE_AFTER));
        assert!(!budget.spend(1, begun + 3 * ONE_MORE_AFTER));
        let later = begun + Duration::from_secs(3600);
        assert!(budget.spend(FREE, later) && !budget.spend(1, later));
        // Requests under way may all be answered at once, after a rest as well.
        budget = NuisanceBudget::new(begun);
        for _ in 0..200 {
            budget.give_for_request();
        }
        budget.give(1);
        assert!(budget.spend(MOST, later) && !budget.spend(1, later));
    }
}
