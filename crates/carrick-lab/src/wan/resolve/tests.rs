//! Questions and answers about Ethernet addresses.

use super::*;
use crate::wan::packet::read;

const OWN: Mac = [2, 0, 0, 0, 0, 1];
const THEIRS: Mac = [2, 0, 0, 0, 0, 2];

#[test]
fn an_arp_request_says_who_asks() {
    let own: IpAddr = "10.0.1.1".parse().unwrap();
    let frame = question(OWN, own, "10.0.1.2".parse().unwrap()).unwrap();
    assert_eq!(frame.len(), 42);
    assert_eq!(frame[..6], BROADCAST);
    assert_eq!(frame[20..22], [0, 1], "a request");
    assert_eq!(frame[38..], [10, 0, 1, 2]);
    assert_eq!(read_arp(&frame), Some((own, OWN)));
    assert_eq!(read_arp(&frame[..41]), None);
    assert_eq!(question(OWN, own, "fd00::2".parse().unwrap()), None);
}

#[test]
fn a_probe_for_an_address_is_nobody() {
    let frame = arp_request(OWN, Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(10, 0, 1, 2)).unwrap();
    assert_eq!(read_arp(&frame), None);
}

#[test]
fn a_solicitation_is_right_and_says_who_asks() {
    let own: IpAddr = "fd00:1::1".parse().unwrap();
    let frame = question(OWN, own, "fd00:1::ab:cdef".parse().unwrap()).unwrap();
    assert_eq!(frame.len(), 14 + 40 + 32);
    assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0xab, 0xcd, 0xef]);
    let header = read(&frame).unwrap();
    assert_eq!(
        header.flow.to,
        "ff02::1:ffab:cdef".parse::<IpAddr>().unwrap()
    );
    assert_eq!(header.hop_limit, 255);
    assert_eq!(read_discovery(&frame, &header), Some(Some((own, OWN))));
    let message = Icmpv6Slice::from_slice(&frame[14 + 40..]).unwrap();
    let (IpAddr::V6(from), IpAddr::V6(to)) = (own, header.flow.to) else {
        panic!("{header:?}");
    };
    assert!(message.is_checksum_valid(from.octets(), to.octets()));
}

fn advertisement(hop_limit: u8, options: &[u8]) -> Vec<u8> {
    let own = "fd00:1::2".parse().unwrap();
    let mut frame = solicitation(THEIRS, own, "fd00:1::1".parse().unwrap()).unwrap();
    frame[14 + 7] = hop_limit;
    frame[14 + 40] = 136;
    frame[14 + 48..14 + 64].copy_from_slice(&own.octets());
    frame.truncate(14 + 64);
    frame.extend(options);
    frame[14 + 5] = 24 + options.len() as u8;
    frame
}

#[test]
fn an_advertisement_is_believed_unless_it_was_routed() {
    let them: IpAddr = "fd00:1::2".parse().unwrap();
    let said = |frame: &[u8]| read_discovery(frame, &read(frame).unwrap());
    let target = [2, 1, 2, 0, 0, 0, 0, 7];
    let behind_another = [&[14, 1, 0, 0, 0, 0, 0, 0][..], &target].concat();
    let mac = [2, 0, 0, 0, 0, 7];
    assert_eq!(said(&advertisement(255, &target)), Some(Some((them, mac))));
    assert_eq!(
        said(&advertisement(255, &behind_another)),
        Some(Some((them, mac)))
    );
    assert_eq!(said(&advertisement(255, &[])), Some(Some((them, THEIRS))));
    assert_eq!(said(&advertisement(254, &target)), Some(None));
    // An option of length 0 would never end.
    assert_eq!(
        said(&advertisement(255, &[14, 0])),
        Some(Some((them, THEIRS)))
    );
}
