//! Holds bytes that arrive while a socket is being taken out of the map: a connection of the process with
//! itself, to whose receiving end the verdict program redirects. The socket itself would forget them
//! (`sk_psock_drop`).

use crate::sys::sockopt;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

/// Room for what may be sheltered at a time (SHELTERED_BYTES_MAX in bpf/sockmap/sockmap.bpf.c).
const ROOM_BYTES: u32 = 64 << 20;

/// One for all splices, used by one at a time, and emptied after each.
pub(super) struct Shelter {
    receiving: TcpStream,
    _other_end: TcpStream,
    /// Its place in the map.
    index: u32,
    /// What was read so far, while incomplete.
    taken: Vec<u8>,
    /// Somebody may have left something there.
    is_soiled: bool,
}

impl Shelter {
    /// Opens the connection and puts its receiving end into `sockets` at `index`.
    pub(super) fn open(sockets: &MapHandle, index: u32) -> io::Result<Shelter> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let other_end = TcpStream::connect(listener.local_addr()?)?;
        // Another process may have connected to the port; only the connection made here counts.
        let receiving = loop {
            let (receiving, address) = listener.accept()?;
            if address == other_end.local_addr()? {
                break receiving;
            }
        };
        receiving.set_nonblocking(true)?;
        // With less, the kernel delivers a little at a time, with a clock tick in between. The first shelter
        // is opened with the privileges for this; a later one has the ordinary limit.
        let set = |option| sockopt::set(receiving.as_fd(), libc::SOL_SOCKET, option, ROOM_BYTES);
        if set(libc::SO_RCVBUFFORCE).is_err() {
            set(libc::SO_RCVBUF)?;
        }
        let descriptor = u64::try_from(receiving.as_raw_fd()).unwrap_or(u64::MAX);
        sockets
            .update(
                &index.to_ne_bytes(),
                &descriptor.to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(io::Error::other)?;
        Ok(Shelter {
            receiving,
            _other_end: other_end,
            index,
            taken: Vec::new(),
            is_soiled: false,
        })
    }

    /// Somebody may have left something there.
    pub(super) fn soil(&mut self) {
        self.is_soiled = true;
    }

    /// Empties it: if something may be there, replaces the connection.
    pub(super) fn make_clean(&mut self, sockets: &MapHandle) -> io::Result<()> {
        if self.is_soiled {
            *self = Shelter::open(sockets, self.index)?;
        }
        Ok(())
    }

    /// Its place in the map.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// Reads this many bytes, which are all that are sheltered. `None`: a kernel worker has not delivered all
    /// of them yet.
    pub(super) fn take(&mut self, bytes: u64) -> io::Result<Option<Vec<u8>>> {
        let left = bytes.saturating_sub(self.taken.len() as u64);
        match (&self.receiving).take(left).read_to_end(&mut self.taken) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let is_all = self.taken.len() as u64 == bytes;
        Ok(is_all.then(|| std::mem::take(&mut self.taken)))
    }
}
