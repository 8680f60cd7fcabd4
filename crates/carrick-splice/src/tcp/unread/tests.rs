//! When a window grows.
use super::*;
use tokio::net::TcpListener;

const LIMIT: UnreadLimit = UnreadLimit { window_bytes: 1000 };

const RTT: Duration = Duration::from_millis(50);

/// The time, the total bytes received so far, and the bytes read since the last time.
type Read = (u64, u64, u64);

#[test]
fn a_window_grows_while_half_of_it_comes_in_a_round_trip() {
    let begun = Instant::now();
    let table: [(&str, &[Read], u32); 8] = [
        (
            "a third in each",
            &[(50, 300, 300), (100, 600, 300), (150, 900, 300)],
            1000,
        ),
        ("half of it in one", &[(50, 500, 500)], 2000),
        (
            "the same in two pieces",
            &[(20, 250, 250), (40, 500, 250)],
            2000,
        ),
        ("half of it a little too late", &[(51, 500, 500)], 1000),
        ("seen late", &[(500, 5000, 5000)], 2000),
        ("twice", &[(50, 500, 500), (100, 1500, 1000)], 4000),
        (
            "once, and half of the first window again",
            &[(50, 500, 500), (100, 1000, 500)],
            2000,
        ),
        // A receiver that has read nothing for long, and then reads the backlog.
        (
            "what had waited",
            &[(5000, 1000, 500), (5001, 1000, 500), (5051, 1400, 500)],
            1000,
        ),
    ];
    for (what, reads, expected) in table {
        let mut window = UnreadWindow::new(LIMIT);
        let sample = |at_ms, come_bytes| {
            let now = begun + Duration::from_millis(at_ms);
            move || {
                Some(Sample {
                    now,
                    come_bytes: 7000 + come_bytes,
                    rtt: RTT,
                })
            }
        };
        // The initial backlog may have arrived at any time.
        assert_eq!(window.grown(1_000_000, sample(0, 0)), None);
        for &(at_ms, come_bytes, read_bytes) in reads {
            window.grown(read_bytes, sample(at_ms, come_bytes));
        }
        assert_eq!(window.limit.window_bytes, expected, "{what}");
    }
}

/// Both ends of a connection on loopback.
async fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap());
    let (one, other) = tokio::join!(one, listener.accept());
    [one.unwrap(), other.unwrap().0]
}

fn buffer_bytes(stream: &TcpStream) -> usize {
    SockRef::from(stream).recv_buffer_size().unwrap()
}

/// Limit on the window (`TCP_WINDOW_CLAMP`).
fn window_max(stream: &TcpStream) -> u32 {
    crate::tcp_tuning::window_max(stream).unwrap()
}

fn is_fixed(stream: &TcpStream) -> bool {
    crate::sys::sockopt::buffer_locks(stream).unwrap() & RECEIVE_LOCK != 0
}

#[tokio::test]
async fn a_near_peer_gets_a_buffer_of_the_size_and_a_fixed_one_stays() {
    let [one, other] = pair().await;
    let limit = UnreadLimit::begin(&one, 1 << 20).unwrap();
    assert_eq!(limit, UnreadLimit::default());
    assert_eq!((buffer_bytes(&one), is_fixed(&one)), (1 << 20, true));
    assert_eq!(window_max(&one), 1 << 19);
    SockRef::from(&other).set_recv_buffer_size(10_000).unwrap();
    assert_eq!(
        UnreadLimit::begin(&other, 1 << 20).unwrap(),
        UnreadLimit::default()
    );
    assert_eq!(buffer_bytes(&other), 20_000);
}

#[tokio::test]
async fn a_late_limit_is_set_once_the_connection_has_carried_a_little() {
    let [one, other] = pair().await;
    let mut window = UnreadWindow::new(UnreadLimit::begin_late(&one, 1 << 20).unwrap());
    for (bytes, look_bytes) in [(1, 32_767), (32_766, 1), (0, 1)] {
        window.took(&one, bytes);
        assert_eq!(window.until_look(), Some(look_bytes));
        assert!(!is_fixed(&one));
    }
    window.took(&one, 1);
    assert_eq!((buffer_bytes(&one), is_fixed(&one)), (1 << 20, true));
    assert_eq!(window.until_look(), None, "a near peer's does not grow");
    // Less than what the connection begins with is set at once.
    UnreadLimit::begin_late(&other, 10_000).unwrap();
    assert!(is_fixed(&other));
}

#[tokio::test]
async fn a_window_that_grows_needs_no_leave_of_rmem_max() {
    let [one, _other] = pair().await;
    SockRef::from(&one).set_recv_buffer_size(100_000).unwrap();
    assert!(widen(&one, 300_000, 0).unwrap());
    assert!(buffer_bytes(&one) >= 300_000 && is_fixed(&one));
    // At the system's maximum, the kernel manages it.
    assert!(!widen(&one, i32::MAX as u32, 0).unwrap());
    assert!(!is_fixed(&one));
    assert_eq!(crate::sys::sockopt::receive_low_water(&one).unwrap(), 1);
}
