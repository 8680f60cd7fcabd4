//! Packet sockets (packet(7)): opened on a device, read and written many frames at a time.
#![expect(
    unsafe_code,
    reason = "the standard library and rustix have neither packet sockets' addresses nor recvmmsg and sendmmsg"
)]

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;

use crate::wan::packet::OFFLOAD_BYTES;

/// Frames that are read or written by one call.
pub(crate) const BATCH_MAX: usize = 64;
/// The longest frame with its virtio-net header: segmentation offload joins up to 64 KB.
const FRAME_BYTES_MAX: usize = 66 * 1024;
/// Bytes that may wait in the kernel for the emulator: as many as it lets us have.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

// linux/if_packet.h
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_HOST: u8 = 0;

/// `struct tpacket_stats` of linux/if_packet.h.
#[repr(C)]
#[derive(Default)]
struct Statistics {
    packets: u32,
    drops: u32,
}

/// A socket that gets the frames that come to a device, and sends frames by it.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    socket: OwnedFd,
}

/// A frame that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes, with the virtio-net header.
    pub(crate) bytes: usize,
    /// It is for this machine's Ethernet address.
    pub(crate) is_for_us: bool,
    /// It was longer than what can be read.
    pub(crate) is_cut_off: bool,
}

impl PacketSocket {
    /// Opens a socket on the device with the kernel's number `index`.
    pub(crate) fn open(index: u32) -> io::Result<Self> {
        // No protocol: nothing is received until the socket is bound to its device.
        // SAFETY: plain call; the result is checked before it is used.
        let number =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        let socket = Self { socket };
        socket.set(PACKET_VNET_HDR, 1)?;
        socket.set(PACKET_IGNORE_OUTGOING, 1)?;
        // Needs a capability that a container's root may lack; then the system's limit holds.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(
            &socket.socket,
            RECEIVE_BUFFER_BYTES,
        )
        .is_err()
        {
            rustix::net::sockopt::set_socket_recv_buffer_size(
                &socket.socket,
                RECEIVE_BUFFER_BYTES,
            )?;
        }
        socket.bind(index)?;
        Ok(socket)
    }

    fn set(&self, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: the pointer and the length are those of `value`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                ptr::from_ref(&value).cast(),
                length_of::<libc::c_int>(),
            )
        };
        check(result)
    }

    fn bind(&self, index: u32) -> io::Result<()> {
        // SAFETY: all zeroes are a valid `sockaddr_ll`, which has integers only.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        // SAFETY: the pointer and the length are those of `address`, which outlives the call.
        let result = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                ptr::from_ref(&address).cast(),
                length_of::<libc::sockaddr_ll>(),
            )
        };
        check(result)
    }

    /// Packets that the kernel dropped for want of room since the last call.
    pub(crate) fn take_drops(&self) -> io::Result<u64> {
        let mut statistics = Statistics::default();
        let mut length = length_of::<Statistics>();
        // SAFETY: the pointer and the length are those of `statistics`, which has the kernel's layout.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                ptr::from_mut(&mut statistics).cast(),
                &raw mut length,
            )
        };
        check(result)?;
        Ok(u64::from(statistics.drops))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn length_of<T>() -> libc::socklen_t {
    mem::size_of::<T>() as libc::socklen_t
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Buffers for the frames of one read.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    received: Vec<Received>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; BATCH_MAX * FRAME_BYTES_MAX],
            received: Vec::with_capacity(BATCH_MAX),
        }
    }

    /// Reads what is there, up to [`BATCH_MAX`] frames, without waiting; how many frames it was.
    pub(crate) fn receive(&mut self, socket: &PacketSocket) -> io::Result<usize> {
        self.received.clear();
        let mut addresses = [const { MaybeUninit::<libc::sockaddr_ll>::zeroed() }; BATCH_MAX];
        let mut parts = [const { MaybeUninit::<libc::iovec>::zeroed() }; BATCH_MAX];
        let mut messages = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; BATCH_MAX];
        let slots = self.bytes.chunks_exact_mut(FRAME_BYTES_MAX);
        for (((address, part), message), slot) in addresses
            .iter_mut()
            .zip(&mut parts)
            .zip(&mut messages)
            .zip(slots)
        {
            part.write(libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: slot.len(),
            });
            // SAFETY: it was made of zeroes, which are a valid `mmsghdr`: null pointers and lengths of 0.
            let header = unsafe { &mut message.assume_init_mut().msg_hdr };
            header.msg_name = address.as_mut_ptr().cast();
            header.msg_namelen = length_of::<libc::sockaddr_ll>();
            header.msg_iov = part.as_mut_ptr();
            header.msg_iovlen = 1;
        }
        // SAFETY: every message points to a slot of `self.bytes`, a part and an address of its own, with their true
        // lengths; all of them outlive the call, and nothing else uses them meanwhile.
        let count = unsafe {
            libc::recvmmsg(
                socket.socket.as_raw_fd(),
                messages.as_mut_ptr().cast(),
                BATCH_MAX as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        for (message, address) in messages.iter().zip(&addresses).take(count) {
            // SAFETY: both were made of zeroes, which are valid, and then at most filled in by the kernel.
            let (message, address) =
                unsafe { (message.assume_init_ref(), address.assume_init_ref()) };
            self.received.push(Received {
                bytes: (message.msg_len as usize).min(FRAME_BYTES_MAX),
                is_for_us: address.sll_pkttype == PACKET_HOST,
                is_cut_off: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            });
        }
        Ok(count)
    }

    /// What was read into a slot.
    #[inline]
    pub(crate) fn received(&self, slot: usize) -> Option<Received> {
        self.received.get(slot).copied()
    }

    /// A frame, behind its virtio-net header.
    #[inline]
    pub(crate) fn whole(&self, slot: usize) -> &[u8] {
        let bytes = self.received.get(slot).map_or(0, |received| received.bytes);
        self.bytes
            .get(slot * FRAME_BYTES_MAX..)
            .and_then(|rest| rest.get(..bytes))
            .unwrap_or_default()
    }

    /// A frame without its virtio-net header, to be changed.
    #[inline]
    pub(crate) fn frame_mut(&mut self, slot: usize) -> &mut [u8] {
        let bytes = self.received.get(slot).map_or(0, |received| received.bytes);
        self.bytes
            .get_mut(slot * FRAME_BYTES_MAX..)
            .and_then(|rest| rest.get_mut(OFFLOAD_BYTES..bytes))
            .unwrap_or_default()
    }
}

/// Sends frames, each behind its virtio-net header, up to [`BATCH_MAX`] by one call; how many were sent, from the first
/// on. An error is that of the first.
pub(crate) fn send(socket: &PacketSocket, frames: &[&[u8]]) -> io::Result<usize> {
    let mut parts = [const { MaybeUninit::<libc::iovec>::zeroed() }; BATCH_MAX];
    let mut messages = [const { MaybeUninit::<libc::mmsghdr>::zeroed() }; BATCH_MAX];
    let count = frames.len().min(BATCH_MAX);
    for ((part, message), frame) in parts.iter_mut().zip(&mut messages).zip(frames) {
        part.write(libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        });
        // SAFETY: it was made of zeroes, which are a valid `mmsghdr`: null pointers and lengths of 0.
        let header = unsafe { &mut message.assume_init_mut().msg_hdr };
        header.msg_iov = part.as_mut_ptr();
        header.msg_iovlen = 1;
    }
    // SAFETY: the first `count` messages point to a part of their own, and that to a frame, with its true length; all
    // outlive the call. The kernel only reads the frames.
    let sent = unsafe {
        libc::sendmmsg(
            socket.socket.as_raw_fd(),
            messages.as_mut_ptr().cast(),
            count as libc::c_uint,
            0,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
