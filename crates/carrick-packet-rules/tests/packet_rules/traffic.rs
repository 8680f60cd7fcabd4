//! Conversations whose every byte is checked, and single packets.

use crate::support::{HANG, assert_same, sample};
use carrick_test::until_free;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// How many bytes a conversation has each way: enough for large packets, and for losses to show.
const BYTES: usize = 3_000_000;

/// Asks `to`, and checks every byte of the answer. Returns the address that answers, and the largest segment.
pub fn ask(to: SocketAddr) -> (SocketAddr, u32) {
    let mut stream = TcpStream::connect_timeout(&to, HANG).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let peer = stream.peer_addr().unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sample(1, BYTES)).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    writing.join().unwrap();
    assert_same(&answer, &sample(2, BYTES), "the answer");
    let segment = socket2::SockRef::from(&stream).tcp_mss().unwrap();
    (peer, segment)
}

/// Answers one who asks. Returns the address that was asked.
pub fn answer(listener: &TcpListener) -> SocketAddr {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sample(2, BYTES)).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut question = Vec::new();
    stream.read_to_end(&mut question).unwrap();
    writing.join().unwrap();
    assert_same(&question, &sample(1, BYTES), "the question");
    stream.local_addr().unwrap()
}

/// Whether the kernel takes listening sockets with `SO_REUSEPORT` for redirected connections (Linux 6.6).
pub fn takes_reuseport() -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split('.')
        .map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}

/// A socket that waits for packets, but not long.
pub fn udp(address: SocketAddr, patience: Duration) -> UdpSocket {
    let socket = until_free(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(patience)).unwrap();
    socket
}

/// The checksum of UDP over IPv4, of the addresses and what follows them, whose own one is 0.
pub fn udp_checksum(addresses_and_segment: &[u8]) -> u16 {
    let length = addresses_and_segment.len() as u32 - 8;
    let pairs = addresses_and_segment.chunks(2);
    let words = pairs.map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let sum = words.sum::<u32>() + length + 17;
    !((sum & 0xffff) + (sum >> 16)) as u16
}
