//! TCP sockets of other processes, as the kernel shows them to a thread in their network namespace.
use super::Peer;
use std::net::SocketAddr;

/// One end of an IPv4 connection, or a listening socket, whose far end is unspecified.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub local: SocketAddr,
    pub far: SocketAddr,
}

/// A line of `/proc/net/tcp`.
#[derive(Debug)]
pub struct Shown {
    is_established: bool,
    /// Bytes sent and not acknowledged.
    pub unacknowledged: u32,
    /// Unread bytes; of a listening socket, connections that were not accepted.
    pub unread: u32,
}

impl End {
    /// The state of the socket; `None` if it is gone.
    pub fn look(self) -> Option<Shown> {
        let ends = [self.local, self.far].map(|address| match address {
            SocketAddr::V4(address) => {
                let ip = u32::from_ne_bytes(address.ip().octets());
                format!("{ip:08X}:{:04X}", address.port())
            }
            SocketAddr::V6(_) => panic!("not for IPv6"),
        });
        let sockets = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("sockets");
        sockets.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, far, state, queues, ..] = fields[..] else {
                return None;
            };
            if ends != [local, far] {
                return None;
            }
            let (unacknowledged, unread) = queues.split_once(':')?;
            let number = |text| u32::from_str_radix(text, 16).expect("a number");
            Some(Shown {
                is_established: number(state) == 1,
                unacknowledged: number(unacknowledged),
                unread: number(unread),
            })
        })
    }

    /// Whether it has noticed that the other side has closed, or is gone.
    pub fn knows_of_end(self) -> bool {
        !self.look().is_some_and(|shown| shown.is_established)
    }
}

impl Peer {
    /// This end.
    pub fn near_end(&self) -> End {
        let local = self.local_address();
        let far = self.stream().peer_addr().expect("an address");
        End { local, far }
    }

    /// The other end.
    pub fn far_end(&self) -> End {
        let End { local, far } = self.near_end();
        let (local, far) = (far, local);
        End { local, far }
    }
}
