//! Frames, valid and invalid, whole and in pieces; and two ends that exchange them in any order.
use super::connection_state::{ConnectionState, Event};
use super::{
    CONTROL_BYTES_MAX, DATA_BYTES_MAX, Destination, ErrorCode, Frame, HEAD_BYTES, Read, read,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

fn written(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.write(&mut bytes);
    bytes
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        (any::<[u8; 4]>(), any::<u16>()).prop_map(|(ip, port)| (IpAddr::from(ip), port).into()),
        (any::<[u8; 16]>(), any::<u16>()).prop_map(|(ip, port)| (
            IpAddr::from(ip).to_canonical(),
            port
        )
            .into()),
    ]
}

fn any_why() -> impl Strategy<Value = ErrorCode> {
    proptest::sample::select(ErrorCode::ALL.to_vec())
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let destination = prop_oneof![
        any_address().prop_map(Destination::Address),
        ("[!-~]{1,253}", any::<u16>()).prop_map(|(host, port)| Destination::Name { host, port }),
    ];
    prop_oneof![
        any::<u16>().prop_map(|version| Frame::Hello { version }),
        (any::<u32>(), any_address(), destination).prop_map(|(number, client, destination)| {
            Frame::Open {
                number,
                client,
                destination,
            }
        }),
        (any::<u32>(), any_address()).prop_map(|(number, server)| Frame::Opened { number, server }),
        (any::<u32>(), any_why()).prop_map(|(number, why)| Frame::Refused { number, why }),
        (1..=DATA_BYTES_MAX).prop_map(Frame::Data),
        Just(Frame::End),
        (any::<u32>(), any_why()).prop_map(|(number, why)| Frame::Reset { number, why }),
    ]
}

/// The result for every prefix of `bytes`: first undecided, then final; it never asks for bytes beyond the frame.
#[track_caller]
fn assert_same_for_every_prefix(bytes: &[u8]) {
    let whole = read(bytes);
    let mut decided = false;
    for length in 0..=bytes.len() {
        match read(&bytes[..length]) {
            Ok(Read::Partial(wanted)) => {
                assert!(!decided, "undecided again at {length} of {bytes:?}");
                assert!(wanted > length && wanted <= CONTROL_BYTES_MAX);
                if let Ok(Read::Complete(end, _)) = &whole {
                    assert!(wanted <= *end, "asks for {wanted} of {end}");
                }
            }
            answer => {
                decided = true;
                assert_eq!(answer, whole, "at {length} of {bytes:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(frames in vec(any_frame(), 1..6)) {
        let bytes: Vec<u8> = frames.iter().flat_map(written).collect();
        let mut rest = &bytes[..];
        for frame in &frames {
            assert_same_for_every_prefix(rest);
            let Ok(Read::Complete(length, came)) = read(rest) else {
                panic!("{frame:?} is not read: {:?}", read(rest));
            };
            prop_assert_eq!(&came, frame);
            prop_assert!(length <= CONTROL_BYTES_MAX);
            rest = &rest[length..];
        }
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn garbage_is_refused_or_a_frame(bytes in vec(any::<u8>(), 0..400)) {
        assert_same_for_every_prefix(&bytes);
    }

    #[test]
    fn frames_with_wrong_bytes_are_judged_alike(frame in any_frame(), place in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = written(&frame);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        assert_same_for_every_prefix(&bytes);
        if let Ok(Read::Complete(length, other)) = read(&bytes) {
            prop_assert_eq!(written(&other), &bytes[..length], "a frame is written in one way only");
        }
    }

    /// Two ends that send any allowed frames, with frames in flight in both directions: neither receives a forbidden
    /// frame, both are idle in the end, and they agree on what has ended.
    #[test]
    fn two_ends_understand_each_other(choices in vec((any::<bool>(), any::<u8>()), 0..300)) {
        let mut line = Line::new();
        for (near, choice) in choices {
            line.step(usize::from(near), choice)?;
        }
        line.finish()?;
    }
}

/// Two ends, and the frames in flight to each.
struct Line {
    ends: [ConnectionState; 2],
    under_way: [VecDeque<Frame>; 2],
}

impl Line {
    fn new() -> Self {
        Self {
            ends: [ConnectionState::new(true), ConnectionState::new(false)],
            under_way: Default::default(),
        }
    }

    fn send(&mut self, end: usize, frame: Frame) {
        self.under_way[1 - end].push_back(frame);
    }

    /// One end receives a frame, or sends one.
    fn step(&mut self, end: usize, choice: u8) -> Result<(), TestCaseError> {
        if choice < 100 {
            return self.deliver(end);
        }
        let state = &mut self.ends[end];
        let unanswered = end == 1 && !state.is_at_rest() && !state.may_send() && !state.has_ended();
        let frame = match choice % 6 {
            0 | 1 if state.is_at_rest() => state.open().map(|number| Frame::Open {
                number,
                client: address(),
                destination: Destination::Address(address()),
            }),
            0 | 1 if unanswered => Some(state.opened(address())),
            2 if unanswered => Some(state.refused(ErrorCode::Refused)),
            3 if state.may_send() => Some(Frame::Data(7)),
            4 if state.may_send() => Some(state.end()),
            5 if state.may_reset() => Some(state.reset(ErrorCode::Reset)),
            _ => None,
        };
        if let Some(frame) = frame {
            self.send(end, frame);
        }
        Ok(())
    }

    fn deliver(&mut self, end: usize) -> Result<(), TestCaseError> {
        let Some(frame) = self.under_way[end].pop_front() else {
            return Ok(());
        };
        let event = self.ends[end].came(&frame);
        prop_assert!(event.is_ok(), "{frame:?}: {event:?}");
        if let Ok(Event::Reset(_) | Event::Refused(_)) = event
            && !self.ends[end].has_ended()
        {
            let reset = self.ends[end].reset(ErrorCode::Reset);
            self.send(end, reset);
        }
        Ok(())
    }

    /// Everything arrives; an end that is still open gives up.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..4 {
            for end in [0, 1] {
                while !self.under_way[end].is_empty() {
                    self.deliver(end)?;
                }
            }
            if self.ends[0].may_reset() {
                let reset = self.ends[0].reset(ErrorCode::Failed);
                self.send(0, reset);
            }
        }
        for end in &self.ends {
            prop_assert!(end.is_at_rest(), "{end:?}");
        }
        prop_assert_eq!(self.ends[0].number(), self.ends[1].number());
        Ok(())
    }
}

fn address() -> SocketAddr {
    ([192, 0, 2, 1], 80).into()
}

#[test]
fn what_is_no_frame_is_refused_at_its_first_wrong_byte() {
    let hello = written(&Frame::Hello { version: 1 });
    for (bytes, reason) in [
        (&b"GET / HTTP/1.1\r\n"[..], "there is no frame of this kind"),
        (b"\0", "there is no frame of this kind"),
        (
            &[&hello[..6], b"X"].concat(),
            "this is not the protocol of carrick's links",
        ),
        (&[5, 0, 0x10, 0, 1], "no frame of this kind has this length"),
        (&[5, 0, 0, 0, 0], "no frame of this kind has this length"),
        (&[6, 0, 0, 0, 1], "no frame of this kind has this length"),
        (
            &[2, 0xff, 0xff, 0xff, 0xff],
            "no frame of this kind has this length",
        ),
        (&[7, 0, 0, 0, 5, 0, 0, 0, 1, 0], "there is no such reason"),
        (&[7, 0, 0, 0, 5, 0, 0, 0, 1, 8], "there is no such reason"),
    ] {
        assert_eq!(read(bytes), Err(reason), "{bytes:?}");
    }
}

#[test]
fn addresses_have_one_form_and_names_are_names() {
    let open = |client: &[u8], destination: &[u8]| {
        let payload = [&[0, 0, 0, 1], client, destination].concat();
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        read(&[&[2], &length[..], &payload].concat())
    };
    let v4 = [4, 192, 0, 2, 1, 0, 80];
    assert!(matches!(open(&v4, &v4), Ok(Read::Complete(23, _))));
    let mapped = [&[6][..], &[0; 10], &[0xff; 2], &[192, 0, 2, 1, 0, 80]].concat();
    assert_eq!(
        open(&v4, &mapped),
        Err("an IPv4 address is written as one of IPv6")
    );
    assert_eq!(
        open(&[1, 1, b'a', 0, 80], &v4),
        Err("a client has an address")
    );
    assert_eq!(
        open(&v4, &[9, 1, b'a', 0, 80]),
        Err("there is no such family of addresses")
    );
    for name in [
        &[1, 0, 0, 80, 0][..],
        &[1, 1, b' ', 0, 80],
        &[1, 1, 0xff, 0, 80],
    ] {
        assert_eq!(open(&v4, name), Err("this is not a name"));
    }
    assert_eq!(
        open(&v4, &[1, 9, b'a', 0, 80]),
        Err("a frame ends too early")
    );
    assert_eq!(
        open(&v4, &[&v4[..], &[0]].concat()),
        Err("a frame is longer than what it says")
    );
    // An IPv4-mapped IPv6 address is written as IPv4.
    let frame = Frame::Opened {
        number: 1,
        server: "[::ffff:192.0.2.1]:80".parse().unwrap(),
    };
    assert_eq!(written(&frame).len(), HEAD_BYTES + 4 + 7);
}

#[test]
fn what_must_not_come_is_refused() {
    let open = |number| Frame::Open {
        number,
        client: address(),
        destination: Destination::Address(address()),
    };
    let opened = |number| Frame::Opened {
        number,
        server: address(),
    };
    let reset = |number| Frame::Reset {
        number,
        why: ErrorCode::Reset,
    };
    let mut far = ConnectionState::new(false);
    for frame in [
        Frame::Data(1),
        Frame::End,
        open(0),
        open(2),
        opened(0),
        reset(1),
    ] {
        assert!(far.clone().came(&frame).is_err(), "{frame:?} at first");
    }
    assert_eq!(far.came(&open(1)), Ok(Event::Open));
    for frame in [open(2), opened(1), Frame::Hello { version: 1 }, reset(2)] {
        assert!(far.clone().came(&frame).is_err(), "{frame:?} after OPEN");
    }
    assert_eq!(far.came(&Frame::End), Ok(Event::End));
    for frame in [Frame::Data(1), Frame::End] {
        assert!(far.clone().came(&frame).is_err(), "{frame:?} after END");
    }
    assert_eq!(far.came(&reset(1)), Ok(Event::Reset(ErrorCode::Reset)));
    assert!(far.clone().came(&reset(1)).is_err());

    let mut near = ConnectionState::new(true);
    assert_eq!(near.open(), Some(1));
    assert_eq!(near.open(), None, "one at a time");
    for frame in [Frame::Data(1), Frame::End, open(2), opened(2)] {
        assert!(
            near.clone().came(&frame).is_err(),
            "{frame:?} before OPENED"
        );
    }
    assert_eq!(near.came(&opened(1)), Ok(Event::Opened(address())));
    assert!(near.clone().came(&opened(1)).is_err(), "twice");
    near.reset(ErrorCode::Reset);
    assert_eq!(near.came(&Frame::Data(3)), Ok(Event::Unwanted(3)));
    assert!(!near.is_at_rest());
    assert_eq!(near.came(&Frame::End), Ok(Event::End));
    assert!(near.is_at_rest());
}
