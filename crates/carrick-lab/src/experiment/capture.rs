//! Watches the packets of a namespace, with the kernel's timestamps, as tcpdump does: for the time that a proxy takes to
//! forward one (Rosu 2002, Table 4).

use std::io::IoSliceMut;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::socket::{
    ControlMessageOwned, LinkAddr, MsgFlags, SockaddrLike, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};

use crate::testbed::namespace::Namespace;
use crate::wan::packet;

/// All protocols (linux/if_ether.h).
const ETH_P_ALL: u16 = 0x0003;
/// A packet that was sent from here (linux/if_packet.h).
const PACKET_OUTGOING: u8 = 4;
/// Room for what arrives while this program does something else.
const BUFFER_BYTES: usize = 4 * 1024 * 1024;
/// How long the kernel may keep the reader waiting before it looks whether it is to stop.
const POLL: Duration = Duration::from_millis(50);
/// More than the headers of a frame.
const FRAME_BYTES: usize = 256;
/// More than any measurement needs; then the watching ends.
const PACKETS_MAX: usize = 1_000_000;
const TCP: u8 = 6;

/// A TCP packet with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// When the kernel received it, or handed it to the device, in nanoseconds since 1970.
    pub at_ns: i128,
    /// Whether it was sent from the namespace.
    pub outgoing: bool,
    /// Source.
    pub from: IpAddr,
    /// Destination.
    pub to: IpAddr,
}

/// A watch that has begun.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<Result<Vec<Packet>>>>,
}

impl Capture {
    /// Begins to watch all devices of a namespace.
    ///
    /// # Errors
    /// When the kernel gives no packet socket (that needs root).
    pub fn start(namespace: &Namespace) -> Result<Self> {
        let socket = namespace.inside(|| {
            let protocol = Protocol::from(i32::from(ETH_P_ALL.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol))
                .context("socket(AF_PACKET): cannot watch packets (are you root?)")?;
            socket
                .set_recv_buffer_size(BUFFER_BYTES)
                .context("setsockopt(SO_RCVBUF) of a packet socket")?;
            socket
                .set_read_timeout(Some(POLL))
                .context("setsockopt(SO_RCVTIMEO) of a packet socket")?;
            Ok(socket)
        })?;
        let socket = OwnedFd::from(socket);
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)
            .context("setsockopt(SO_TIMESTAMPNS): the kernel gives no timestamps of packets")?;
        let stop = Arc::new(AtomicBool::new(false));
        let reader = std::thread::Builder::new()
            .name(String::from("capture"))
            .spawn({
                let stop = Arc::clone(&stop);
                move || read(&socket, &stop)
            })
            .context("cannot start a thread")?;
        Ok(Self {
            stop,
            reader: Some(reader),
        })
    }

    /// Ends, and gives the packets with data, in the order in which they were seen.
    ///
    /// # Errors
    /// When the kernel could not keep them all, or the socket failed.
    pub fn finish(mut self) -> Result<Vec<Packet>> {
        self.stop.store(true, Ordering::Relaxed);
        match self.reader.take().map(JoinHandle::join) {
            Some(Ok(packets)) => packets,
            _ => bail!("the thread that watches packets failed"),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn read(socket: &OwnedFd, stop: &AtomicBool) -> Result<Vec<Packet>> {
    let mut packets = Vec::new();
    let mut frame = [0; FRAME_BYTES];
    let mut control = nix::cmsg_space!(TimeSpec);
    // Looked at before reading, so that what is queued when the end comes is still read.
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        let received = {
            let mut parts = [IoSliceMut::new(&mut frame)];
            recvmsg::<LinkAddr>(
                socket.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::empty(),
            )
            .map(|message| {
                let time = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|one| match one {
                        ControlMessageOwned::ScmTimestampns(time) => Some(time),
                        _ => None,
                    })
                });
                let outgoing = message
                    .address
                    .filter(|address| address.family().is_some())
                    .map(|address| address.pkttype() == PACKET_OUTGOING);
                (message.bytes, time, outgoing)
            })
        };
        match received {
            Ok((bytes, Some(time), Some(outgoing))) => {
                let at_ns = i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec());
                packets.extend(with_data(&frame[..bytes.min(FRAME_BYTES)], at_ns, outgoing));
                if packets.len() >= PACKETS_MAX {
                    return Ok(packets);
                }
            }
            Ok(_) => bail!("recvmsg of a packet socket: a packet without time or direction"),
            Err(nix::errno::Errno::EAGAIN) if is_last => return Ok(packets),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("recvmsg of a packet socket"),
        }
    }
}

/// A frame as a packet, if it is TCP with data.
fn with_data(frame: &[u8], at_ns: i128, outgoing: bool) -> Option<Packet> {
    let header = packet::read(frame)?;
    if header.protocol != TCP {
        return None;
    }
    let tcp_bytes = usize::from(frame.get(header.payload_at + 12)? >> 4) * 4;
    let headers = header.payload_at - packet::ETHERNET_BYTES + tcp_bytes;
    // A frame that was cut off still says in its IP header how long it was.
    let total = usize::from(u16::from_be_bytes([*frame.get(16)?, *frame.get(17)?]));
    (header.bytes.max(total) > headers).then_some(Packet {
        at_ns,
        outgoing,
        from: header.flow.from,
        to: header.flow.to,
    })
}
