//! Measurements of TCP connections.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

#[test]
fn fields_are_where_the_kernel_has_them() {
    let mut info: TcpInfo = [0; 256];
    let mut put =
        |offset: usize, value: &[u8]| info[offset..][..value.len()].copy_from_slice(value);
    put(RTT_US, &600_000_u32.to_ne_bytes());
    put(MIN_RTT_US, &u32::MAX.to_ne_bytes());
    put(SEGMENTS_SENT, &200_u32.to_ne_bytes());
    put(RETRANSMISSIONS, &3_u32.to_ne_bytes());
    put(DELIVERY_RATE, &5_000_000_000_u64.to_ne_bytes());
    let measured = Measured::read(&info);
    assert_eq!(measured.rtt, Some(Duration::from_millis(600)));
    assert_eq!(measured.rtt_min, None);
    assert_eq!((measured.segments_sent, measured.retransmissions), (200, 3));
    assert_eq!(measured.delivery_rate, 5_000_000_000);
}

#[test]
fn a_connection_is_measured_while_it_stands() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let before = measure(&near).unwrap();
    assert_eq!(before.segments_sent, 0);
    assert!(before.rtt.is_some() && before.congestion_window > 0);
    let bytes = vec![7; 1 << 20];
    std::thread::scope(|threads| {
        threads.spawn(|| (&near).write_all(&bytes).unwrap());
        far.read_exact(&mut vec![0; 1 << 20]).unwrap();
    });
    let after = measure(&near).unwrap();
    assert!(
        after.segments_sent > 0 && after.segment_bytes > 0,
        "{after:?}"
    );
    assert!(after.rtt_min <= after.rtt, "{after:?}");
    assert!(after.delivery_rate > 0, "{after:?}");
    // Probes of a closed window count as retransmissions.
    assert!(after.retransmissions < after.segments_sent, "{after:?}");
}
