//! Packets that were corrupted in transit.

use super::bed::*;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

/// A TCP segment as the client's sockets send it, with another payload.
struct Segment {
    ports: [u16; 2],
    seq: u32,
    ack: u32,
}

impl Segment {
    /// The next segment to the proxy, observed by a raw socket on the client: with the tunnel's next number, which `ask` makes it send.
    fn next(raw: &mut Socket, ask: impl FnOnce(), is_v4: bool) -> Segment {
        ask();
        loop {
            let mut packet = [0; 2000];
            let bytes = raw.read(&mut packet).unwrap();
            let tcp = if is_v4 {
                &packet[usize::from(packet[0] & 15) * 4..bytes]
            } else {
                &packet[..bytes]
            };
            let word = |at: usize| u32::from_be_bytes(*tcp[at..].first_chunk().unwrap());
            let port = |at: usize| u16::from_be_bytes(*tcp[at..].first_chunk().unwrap());
            let payload_bytes = tcp.len() - usize::from(tcp[12] >> 4) * 4;
            if payload_bytes > 0 {
                return Segment {
                    ports: [port(2), port(0)],
                    seq: word(8),
                    ack: word(4).wrapping_add(payload_bytes as u32),
                };
            }
        }
    }

    /// With a byte of payload, from the client to the proxy, and a checksum that is neither right nor left to the hardware.
    fn broken(&self, proxy: IpAddr) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.ports[0].to_be_bytes());
        tcp.extend(self.ports[1].to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        // ACK and PSH; a window.
        tcp.extend([0x50, 0x18, 1, 0, 0, 0, 0, 0, b'X']);
        let mut pseudo = match proxy {
            IpAddr::V4(proxy) => proxy.octets().to_vec(),
            IpAddr::V6(proxy) => proxy.octets().to_vec(),
        };
        // The client is number 2 of the same network.
        pseudo.extend(pseudo.clone());
        *pseudo.last_mut().unwrap() = 2;
        pseudo.extend([0, tcp.len() as u8, 0, 6]);
        let begun = sum(&pseudo);
        pseudo.extend(&tcp);
        let right = !sum(&pseudo);
        let wrong = (1..4_u16).find(|wrong| ![begun, right].contains(wrong));
        tcp[16..18].copy_from_slice(&wrong.unwrap().to_be_bytes());
        tcp
    }
}

/// RFC 1071.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)))
        .sum();
    (sum % 0xffff) as u16
}

/// Number of TCP packets with a wrong checksum that this host has received.
fn broken(bed: &Bed, host: Host) -> u64 {
    let counters = bed.read(host, "/proc/net/snmp");
    let mut lines = counters.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "InCsumErrors").unwrap();
    value.parse().unwrap()
}

#[test]
fn a_broken_packet_is_dropped_here_and_the_tunnel_goes_on() {
    for addresses in [V4, V6] {
        let Some(bed) = Bed::new() else { return };
        let serving = bed.serve(addresses[1], 1, answer);
        let proxying = bed.tunnels(addresses, 1);
        let asking = bed.on(Host::Client, move || ask_with_broken_ones(addresses[0]));
        let sent = asking.join().unwrap();
        serving.join().unwrap();
        proxying.join().unwrap()[0].assert_closed(sent);
        // IPv6 is counted there, too: it is TCP's counter.
        assert_eq!(broken(&bed, Host::Middle), 10);
        assert_eq!(broken(&bed, Host::Server), 0);
    }
}

fn ask_with_broken_ones(proxy: IpAddr) -> (u64, u64) {
    let domain = Domain::for_address(SocketAddr::new(proxy, 0));
    let mut raw = Socket::new(domain, Type::RAW, Some(Protocol::TCP)).unwrap();
    let mut stream = connect(proxy);
    let mut sum = (0, 0);
    let mut ask_once = |stream: &mut std::net::TcpStream| {
        let bytes = ask(stream, 100, 1000);
        sum = (sum.0 + bytes.0, sum.1 + bytes.1);
    };
    for _ in 0..GREETING {
        ask_once(&mut stream);
    }
    until_given(1);
    for _ in 0..10 {
        raw.set_nonblocking(true).unwrap();
        while raw.read(&mut [0; 2000]).is_ok() {}
        raw.set_nonblocking(false).unwrap();
        let segment = Segment::next(&mut raw, || ask_once(&mut stream), proxy.is_ipv4());
        let to = SockAddr::from(SocketAddr::new(proxy, 0));
        raw.send_to(&segment.broken(proxy), &to).unwrap();
    }
    ask_once(&mut stream);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    sum
}
