//! The state of a splice in the map: `struct packet_splice` of bpf/tc/tc.h, read and written as bytes.

use super::skeleton::types::{flow, packet_leg, packet_splice, packet_state, packet_way};
use std::mem::{offset_of, size_of};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Where a splice's packets go (`enum packet_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// To the local sockets, or the slot is free.
    Process,
    /// To the peers.
    Kernel,
    /// Both connections have ended.
    Ended,
    /// A peer has reset its connection: the second one's, or (also if it is not known) the first one's.
    Reset { is_by_second: bool },
}

/// What the process reads of a splice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketState {
    pub(crate) holder: Holder,
    /// Whether a peer's packet was to be forwarded and could not be, as a fragment: the local sockets are to go on.
    pub(crate) is_stuck: bool,
    /// Bytes acknowledged by each receiver while spliced.
    pub(crate) bytes: [u64; 2],
    /// Packets forwarded each way.
    pub(crate) packets: [u64; 2],
    /// Of these, retransmissions. Wraps.
    pub(crate) again: [u32; 2],
    /// Whether the receiver has acknowledged the FIN, which the local socket does not know.
    pub(crate) is_passed: [bool; 2],
    /// Whether the receivers have acknowledged everything, and the senders may send more.
    pub(crate) is_quiet: bool,
    /// For how long data was in flight while spliced, until the last was acknowledged.
    pub(crate) active: Duration,
}

/// A connection as in the maps: our address and the peer's.
pub(super) type Addresses = (SocketAddr, SocketAddr);

/// The key of a connection in the map of flows.
pub(super) fn key((own, peer): Addresses) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<flow>()];
    put(&mut bytes, offset_of!(flow, own), &octets(own.ip()));
    put(&mut bytes, offset_of!(flow, peer), &octets(peer.ip()));
    put(
        &mut bytes,
        offset_of!(flow, own_port),
        &own.port().to_be_bytes(),
    );
    put(
        &mut bytes,
        offset_of!(flow, peer_port),
        &peer.port().to_be_bytes(),
    );
    bytes
}

/// The input of the program `carrick_place`: `struct packet_placing`, which has no gaps.
pub(super) fn slot_question(slot: u32, legs: [Addresses; 2]) -> Vec<u8> {
    let mut bytes = slot.to_ne_bytes().to_vec();
    bytes.extend(legs.into_iter().flat_map(key));
    bytes
}

/// Bytes of a splice.
pub(super) const BYTES: usize = size_of::<packet_splice>();

/// The keys of both connections of a splice.
pub(super) fn keys(splice: &[u8]) -> [&[u8]; 2] {
    [0, 1].map(|side| {
        let leg = offset_of!(packet_splice, legs) + side * size_of::<packet_leg>();
        let start = leg + offset_of!(packet_leg, flow);
        splice
            .get(start..start + size_of::<flow>())
            .unwrap_or_default()
    })
}

/// The interfaces by which packets go to the peers of both connections.
pub(super) fn interfaces(splice: &[u8]) -> [u32; 2] {
    [0, 1].map(|side| {
        let leg = offset_of!(packet_splice, legs) + side * size_of::<packet_leg>();
        u32_at(splice, leg + offset_of!(packet_leg, ifindex))
    })
}

/// Whether packets of both connections were seen in both directions.
pub(super) fn is_seen(splice: &[u8]) -> bool {
    let received = |side: usize| flag(splice, side, offset_of!(packet_leg, was_received));
    interfaces(splice)
        .into_iter()
        .all(|interface| interface != 0)
        && [0, 1].into_iter().all(received)
}

/// A flag of a connection.
fn flag(splice: &[u8], side: usize, field: usize) -> bool {
    let leg = offset_of!(packet_splice, legs) + side * size_of::<packet_leg>();
    splice.get(leg + field).is_some_and(|flag| *flag != 0)
}

/// Reads a splice.
pub(super) fn read(splice: &[u8]) -> PacketState {
    let way = |side: usize| offset_of!(packet_splice, ways) + side * size_of::<packet_way>();
    let bytes = |side| u64_at(splice, way(side) + offset_of!(packet_way, bytes));
    let packets = |side| u64_at(splice, way(side) + offset_of!(packet_way, packets));
    let again = |side| u32_at(splice, way(side) + offset_of!(packet_way, again));
    let is_passed = |side| {
        let field = |at| u32_at(splice, way(side) + at);
        field(offset_of!(packet_way, has_end)) != 0
            && field(offset_of!(packet_way, has_moved)) != 0
            && field(offset_of!(packet_way, start)) == field(offset_of!(packet_way, end_of_stream))
    };
    let is_quiet = |side| {
        let field = |at| u32_at(splice, way(side) + at);
        let end = field(offset_of!(packet_way, end));
        let room = field(offset_of!(packet_way, window_end)).wrapping_sub(end);
        // Beyond the window, as after a probe, there is none.
        let has_room = (1..=i32::MAX as u32).contains(&room);
        field(offset_of!(packet_way, start)) == end
            && (has_room || field(offset_of!(packet_way, has_end)) != 0)
    };
    PacketState {
        holder: match state_of(splice) {
            packet_state::PACKET_SPLICED | packet_state::PACKET_RESPONSES => Holder::Kernel,
            packet_state::PACKET_ENDED => Holder::Ended,
            packet_state::PACKET_RESET => Holder::Reset {
                is_by_second: flag(splice, 1, offset_of!(packet_leg, has_reset)),
            },
            _ => Holder::Process,
        },
        is_stuck: [0, 1]
            .into_iter()
            .any(|side| flag(splice, side, offset_of!(packet_leg, is_unforwardable))),
        bytes: [bytes(0), bytes(1)],
        packets: [packets(0), packets(1)],
        again: [again(0), again(1)],
        is_passed: [is_passed(0), is_passed(1)],
        is_quiet: is_quiet(0) && is_quiet(1),
        active: active(splice, bytes(0) + bytes(1)),
    }
}

/// For how long data was in flight, until the last of these bytes were acknowledged.
fn active(splice: &[u8], bytes: u64) -> Duration {
    let settled = u64_at(splice, offset_of!(packet_splice, active_ns));
    let is_settled = u64_at(splice, offset_of!(packet_splice, noted_bytes)) == bytes;
    let pending = u64_at(splice, offset_of!(packet_splice, pending_ns));
    Duration::from_nanos(settled + if is_settled { 0 } else { pending })
}

/// The window of the second way's receiver, in bytes, if it has acknowledged everything.
pub(super) fn response_room_bytes(splice: &[u8]) -> u32 {
    let way = offset_of!(packet_splice, ways) + size_of::<packet_way>();
    let field = |at| u32_at(splice, way + at);
    let end = field(offset_of!(packet_way, end));
    if field(offset_of!(packet_way, acked)) != end {
        return 0;
    }
    let room = field(offset_of!(packet_way, offered_end)).wrapping_sub(end);
    // Beyond the window, as after a probe.
    if room > i32::MAX as u32 { 0 } else { room }
}

fn state_of(splice: &[u8]) -> packet_state {
    packet_state(u32_at(splice, offset_of!(packet_splice, state)))
}

/// The layout of a splice, as far as other processes read it. A change of meaning without a change of offset
/// must change the first number.
pub(super) const LAYOUT: [usize; 13] = [
    2,
    size_of::<flow>(),
    offset_of!(flow, own),
    offset_of!(flow, peer),
    offset_of!(flow, own_port),
    offset_of!(flow, peer_port),
    BYTES,
    offset_of!(packet_splice, state),
    offset_of!(packet_splice, seen_ns),
    offset_of!(packet_splice, legs) + offset_of!(packet_leg, flow),
    size_of::<packet_leg>(),
    offset_of!(packet_splice, ways) + offset_of!(packet_way, bytes),
    size_of::<packet_way>(),
];

/// Whether the kernel forwards, and no local socket is needed.
pub(super) fn is_spliced(splice: &[u8]) -> bool {
    state_of(splice) == packet_state::PACKET_SPLICED
}

/// When a packet was last forwarded, or the splice was made.
pub(super) fn seen_ns(splice: &[u8]) -> u64 {
    u64_at(splice, offset_of!(packet_splice, seen_ns))
}

/// The addresses of both connections.
pub(super) fn addresses(splice: &[u8]) -> [Addresses; 2] {
    keys(splice).map(|key| {
        let address = |ip: usize, port: usize| {
            let octets = key.get(ip..).and_then(|rest| rest.first_chunk::<16>());
            let port = key.get(port..).and_then(|rest| rest.first_chunk());
            let ip = octets.map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets));
            SocketAddr::new(
                IpAddr::V6(ip).to_canonical(),
                port.map_or(0, |port| u16::from_be_bytes(*port)),
            )
        };
        (
            address(offset_of!(flow, own), offset_of!(flow, own_port)),
            address(offset_of!(flow, peer), offset_of!(flow, peer_port)),
        )
    })
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        let parse = |text: &str| text.parse().unwrap();
        for [own, peer, other_own, other_peer] in [
            [
                "198.51.100.1:80",
                "192.0.2.9:40000",
                "198.51.100.2:50000",
                "203.0.113.5:8000",
            ],
            [
                "[2001:db8:1::1]:80",
                "[2001:db8::9]:40000",
                "198.51.100.2:50000",
                "203.0.113.5:1",
            ],
        ] {
            let legs = [
                (parse(own), parse(peer)),
                (parse(other_own), parse(other_peer)),
            ];
            let mut splice = vec![0; BYTES];
            for (side, addresses) in legs.into_iter().enumerate() {
                let leg = offset_of!(packet_splice, legs) + side * size_of::<packet_leg>();
                let flow = leg + offset_of!(packet_leg, flow);
                put(&mut splice, flow, &key(addresses));
            }
            assert_eq!(addresses(&splice), legs);
            assert!(!is_spliced(&splice));
        }
    }
}
