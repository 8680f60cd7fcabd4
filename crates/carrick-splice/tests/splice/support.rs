//! Connections, bytes and clocks for the tests.

use carrick_splice::{Choice, Counters, PoolLimits, SPLICES_MAX, SocketService, Splicer, tcp};
pub use carrick_test::{Random, wait_until};
use socket2::{Domain, SockRef, Socket, Type};
use std::future::Future;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Every way to request an engine.
pub const CHOICES: [Choice; 4] = [Choice::Copy, Choice::Pipe, Choice::Auto, Choice::Socket];

/// Every way to request an engine that works in both directions.
pub const EXCHANGE_CHOICES: [Choice; 4] =
    [Choice::Copy, Choice::Pipe, Choice::Auto, Choice::Socket];

/// Longer than anything here should ever wait: a longer wait is a hang.
pub const HANG: Duration = carrick_test::PATIENCE;

/// The size of segments between small buffers.
const SEGMENT_BYTES: u32 = 536;

/// How long to watch that nothing arrives.
pub const SHORT: Duration = Duration::from_millis(30);

/// The states of connections (`net/tcp_states.h`).
pub const ESTABLISHED: u8 = 1;
pub const CLOSED: u8 = 7;
pub const CLOSE_WAIT: u8 = 8;

/// Whether this kernel has not got this yet, which is said.
pub fn lacks(what: &str, from: (u32, u32)) -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map(|number| number.parse().unwrap_or(0));
    let here = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if here < from {
        carrick_test::lacks!("{what} needs Linux {}.{} or later", from.0, from.1);
    }
    here < from
}

/// Runs a test on a runtime like a worker's.
pub fn on_worker<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        tokio::time::timeout(HANG, test).await.expect("it hangs")
    })
}

/// Waits for a condition; the limit is the test's.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        tokio::time::sleep(carrick_test::pause(begun.elapsed())).await;
    }
}

/// Lets this much time pass at once for timers.
pub async fn pass(time: Duration) {
    struct Stopped;
    impl Drop for Stopped {
        fn drop(&mut self) {
            tokio::time::resume();
        }
    }
    tokio::time::pause();
    let _stopped = Stopped;
    tokio::time::advance(time).await;
}

/// Connects from a given address and port, as soon as the kernel has released them.
pub fn connect_from(own: SocketAddr, to: SocketAddr) -> std::net::TcpStream {
    let mut connected = None;
    wait_until("the port is free", || {
        let socket = Socket::new(Domain::for_address(own), Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&own.into()).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        match socket.connect_timeout(&to.into(), HANG) {
            Ok(()) => connected = Some(socket.into()),
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
            Err(error) => panic!("{error}"),
        }
        connected.is_some()
    });
    connected.unwrap()
}

/// Writes a flood until the other end, which is being read, accepts no more. Returns the number of bytes.
pub async fn fill(sender: &mut TcpStream, from: &TcpStream, flood: &[u8]) -> usize {
    let mut sent = 0;
    // How much waited when nothing could be written last. Its reader was woken then, or had no room for it.
    let mut waited = 0;
    loop {
        assert!(sent < flood.len(), "all of it was taken");
        match tokio::time::timeout(SHORT, sender.write(&flood[sent..])).await {
            Ok(written) => (sent, waited) = (sent + written.unwrap(), 0),
            Err(_) => {
                let waits = tcp::pending_input(from).unwrap();
                if waits > 0 && waits == waited {
                    return sent;
                }
                waited = waits;
            }
        }
    }
}

/// A splicer with its own counters.
pub fn splicer() -> Splicer {
    Splicer::with_socket(
        PoolLimits::default(),
        Arc::new(Counters::default()),
        socket_service().clone(),
    )
}

/// The socket engine of this process; if it cannot be loaded, splices that request it go through the process.
pub fn socket_service() -> &'static SocketService {
    static SERVICE: OnceLock<SocketService> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let service = SocketService::default();
        if let Err(because) = service.load(SPLICES_MAX, None) {
            carrick_test::skip!("what tests the socket engine: {because}");
        }
        service
    })
}

/// Four sockets: `sender` is connected to `from`, `to` to `receiver`.
pub struct Sockets {
    pub sender: TcpStream,
    pub from: TcpStream,
    pub to: TcpStream,
    pub receiver: TcpStream,
}

impl Sockets {
    pub async fn new() -> Sockets {
        Sockets::with(None, None).await
    }

    /// With small segments and socket buffers of a few of them. (Buffers smaller than a segment would test the kernel's
    /// persist timer, at 200 ms each.)
    pub async fn tiny() -> Sockets {
        Sockets::with(Some(2048), Some(2048)).await
    }

    /// With the receiver's connection as in [`tiny`](Sockets::tiny), so that no body fits into its buffers.
    pub async fn to_a_tiny_receiver() -> Sockets {
        Sockets::with(None, Some(2048)).await
    }

    /// [`tiny`](Sockets::tiny) with each other seed.
    pub async fn of(seed: u64) -> Sockets {
        if seed.is_multiple_of(2) {
            Sockets::tiny().await
        } else {
            Sockets::new().await
        }
    }

    async fn with(sender_bytes: Option<usize>, receiver_bytes: Option<usize>) -> Sockets {
        let (sender, from) = connection(sender_bytes).await;
        let (receiver, to) = connection(receiver_bytes).await;
        Sockets {
            sender,
            from,
            to,
            receiver,
        }
    }

    /// With little room towards the receiver, and the usual room for incoming data.
    pub async fn to_a_slow_receiver() -> Sockets {
        let (sender, from) = connection(None).await;
        let (receiver, to) = connection_of(None, Some(16 << 10), SEGMENT_BYTES).await;
        SockRef::from(&to).set_send_buffer_size(16 << 10).unwrap();
        Sockets {
            sender,
            from,
            to,
            receiver,
        }
    }
}

/// A connection on loopback: the connecting end, and the accepted end.
pub async fn connection(buffer_bytes: Option<usize>) -> (TcpStream, TcpStream) {
    let segment_bytes = if buffer_bytes.is_some() {
        SEGMENT_BYTES
    } else {
        u32::MAX
    };
    connection_of(buffer_bytes, buffer_bytes, segment_bytes).await
}

/// The same, with the buffer sizes of the accepted end and of the connecting end.
async fn connection_of(
    accepted_bytes: Option<usize>,
    connecting_bytes: Option<usize>,
    segment_bytes: u32,
) -> (TcpStream, TcpStream) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    if segment_bytes < u32::MAX {
        listener.set_tcp_mss(segment_bytes).unwrap();
    }
    if let Some(bytes) = accepted_bytes {
        listener.set_send_buffer_size(bytes).unwrap();
        listener.set_recv_buffer_size(bytes).unwrap();
    }
    listener
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
        .unwrap();
    listener.listen(1).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener.into()).unwrap();
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    if segment_bytes < u32::MAX {
        SockRef::from(&socket).set_tcp_mss(segment_bytes).unwrap();
    }
    if let Some(bytes) = connecting_bytes {
        socket.set_send_buffer_size(bytes as u32).unwrap();
        socket.set_recv_buffer_size(bytes as u32).unwrap();
    }
    let (near, far) = tokio::join!(
        socket.connect(listener.local_addr().unwrap()),
        listener.accept()
    );
    let (near, far) = (near.unwrap(), far.unwrap().0);
    near.set_nodelay(true).unwrap();
    far.set_nodelay(true).unwrap();
    (near, far)
}

/// Closes by RST.
pub fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(stream);
}

/// Number of segments with data that this connection has sent: `tcpi_data_segs_out` (linux/tcp.h).
pub fn data_segments_sent(stream: &TcpStream) -> u32 {
    u32::from_ne_bytes(tcp_info(stream, 156))
}

/// The state of a connection: `tcpi_state`.
pub fn tcp_state(stream: &impl AsFd) -> u8 {
    tcp_info::<1>(stream, 0)[0]
}

/// Whether the peer has acknowledged everything sent: `tcpi_unacked` and `tcpi_notsent_bytes`.
pub fn is_all_acknowledged(stream: &impl AsFd) -> bool {
    [24, 144]
        .map(|offset| u32::from_ne_bytes(tcp_info(stream, offset)))
        .eq(&[0, 0])
}

/// Whether the peer's window is closed: nothing is in flight, though there is data to send.
pub fn is_window_shut(stream: &impl AsFd) -> bool {
    let [unacked, unsent] = [24, 144].map(|offset| u32::from_ne_bytes(tcp_info(stream, offset)));
    unacked == 0 && unsent > 0
}

/// Bytes of `struct tcp_info` (linux/tcp.h).
#[expect(unsafe_code, reason = "no library reads these fields of TCP_INFO")]
pub fn tcp_info<const BYTES: usize>(stream: &impl AsFd, offset: usize) -> [u8; BYTES] {
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has.
    let outcome = unsafe {
        libc::getsockopt(
            stream.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(
        outcome == 0 && length as usize >= offset + BYTES,
        "TCP_INFO: {outcome}, {length} bytes"
    );
    info[offset..offset + BYTES].try_into().unwrap()
}

/// A number from the environment.
pub fn seeds(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap())
}

/// Bytes in which every loss, duplication and displacement shows.
pub fn sample(seed: u64, length: usize) -> Vec<u8> {
    Random::new(seed).bytes(length)
}

/// FNV-1a, 64 bits.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Reports where two byte strings differ, instead of printing them.
#[track_caller]
pub fn assert_same(arrived: &[u8], sent: &[u8], what: &str) {
    if hash(arrived) != hash(sent) || arrived.len() != sent.len() {
        let parting = arrived
            .iter()
            .zip(sent)
            .position(|(arrived, sent)| arrived != sent);
        panic!(
            "{what}: {} bytes arrived of {}, they part at {parting:?}",
            arrived.len(),
            sent.len()
        );
    }
}

/// Writes in pieces of random sizes, with occasional pauses.
pub async fn send_in_pieces(stream: &mut TcpStream, bytes: &[u8], random: &mut Random) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let piece = 1 + random.magnitude(rest.len());
        stream.write_all(&rest[..piece]).await.unwrap();
        rest = &rest[piece..];
        pause(random).await;
    }
}

/// Reads to the end in pieces of random sizes, with occasional pauses.
pub async fn receive_in_pieces(stream: &mut TcpStream, random: &mut Random) -> Vec<u8> {
    let mut arrived = Vec::new();
    receive_in_pieces_into(&mut arrived, stream, random).await;
    arrived
}

/// The same, keeping the bytes if it is aborted.
pub async fn receive_in_pieces_into(
    arrived: &mut Vec<u8>,
    stream: &mut TcpStream,
    random: &mut Random,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let piece = 1 + random.magnitude(buffer.len());
        match stream.read(&mut buffer[..piece]).await.unwrap() {
            0 => return,
            read => arrived.extend_from_slice(&buffer[..read]),
        }
        pause(random).await;
    }
}

async fn pause(random: &mut Random) {
    match random.below(40) {
        0 => tokio::time::sleep(Duration::from_millis(1)).await,
        1..10 => tokio::task::yield_now().await,
        _ => {}
    }
}

/// Reads exactly this many bytes.
pub async fn receive(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut arrived = vec![0; length];
    stream.read_exact(&mut arrived).await.unwrap();
    arrived
}

/// Reads to the end, or to the reset.
pub async fn receive_until_it_breaks(stream: &mut TcpStream) -> (Vec<u8>, std::io::Result<()>) {
    let mut arrived = Vec::new();
    let outcome = stream.read_to_end(&mut arrived).await.map(|_| ());
    (arrived, outcome)
}

/// Polls a future at most this many times, and gives up then.
pub async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = times;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match Pin::as_mut(&mut future).poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Runs one ignored test of this binary in a separate process, where it may count or use up descriptors.
pub fn in_a_process_of_its_own(test: &str) {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            test,
            "--test-threads=1",
            "--nocapture",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} failed:\n{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// RFC 1071.
pub fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2);
    let mut sum: u32 = pairs
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A socket for frames of all kinds on an interface of this thread's namespace.
pub fn frame_socket(device: &str) -> Socket {
    let every = i32::from((libc::ETH_P_ALL as u16).to_be());
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(every.into())).unwrap();
    socket.bind(&link_address(&socket, device)).unwrap();
    socket
}

/// The address for frames of all kinds: an interface of this thread's namespace.
#[expect(unsafe_code, reason = "socket2 has no addresses of frames")]
pub fn link_address(socket: &socket2::Socket, device: &str) -> socket2::SockAddr {
    let index = rustix::net::netdevice::name_to_index(socket, device).unwrap();
    // SAFETY: the address is a `sockaddr_ll`, all of whose bytes are set, and the length is its own.
    let address = unsafe {
        socket2::SockAddr::try_init(|storage, length| {
            storage.write(std::mem::zeroed());
            let address = storage.cast::<libc::sockaddr_ll>();
            (*address).sll_family = libc::AF_PACKET as u16;
            (*address).sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            (*address).sll_ifindex = index.cast_signed();
            *length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            Ok(())
        })
    };
    address.unwrap().1
}
