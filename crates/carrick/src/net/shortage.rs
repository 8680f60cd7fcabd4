//! Detects that a connection failed because this machine lacks a resource, which says nothing about the server.
use std::io;
use std::net::SocketAddr;

/// TCP is considered short of memory at a sixteenth of the machine's (tcp_init_mem()) if `net.ipv4.tcp_mem` cannot be
/// read; only the initial network namespace has it.
const TCP_SHARE: u64 = 16;

/// The resource that is lacking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// File descriptors, of this process or of all.
    Descriptors,
    /// The kernel's memory.
    Memory,
    /// Local ports.
    Ports,
}

impl Shortage {
    /// The lacking resource, if that is why a system call failed.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        match error.raw_os_error()? {
            libc::EMFILE | libc::ENFILE => Some(Self::Descriptors),
            libc::ENOBUFS | libc::ENOMEM => Some(Self::Memory),
            libc::EADDRNOTAVAIL => Some(Self::Ports),
            _ => None,
        }
    }

    /// Its name in metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Descriptors => "descriptors",
            Self::Memory => "kernel_memory",
            Self::Ports => "ports",
        }
    }
}

impl std::fmt::Display for Shortage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Descriptors => "no file descriptor is free for a connection to the upstream",
            Self::Memory => "this machine has no memory for a connection to the upstream",
            Self::Ports => "no local port is free for a connection to the upstream",
        })
    }
}

/// Why `connect(2)` failed: to an IPv6 address from a machine that has none, it fails as if no port were free (`ip6_dst_lookup_tail()`).
#[must_use]
pub fn connect_error(address: SocketAddr, error: io::Error) -> io::Error {
    let has_none = || std::fs::read("/proc/net/if_inet6").is_ok_and(|all| all.is_empty());
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) if address.is_ipv6() && has_none() => {
            io::Error::from_raw_os_error(libc::ENETUNREACH)
        }
        _ => error,
    }
}

/// The size of the machine's memory.
#[must_use]
pub fn memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    (machine.totalram).saturating_mul(machine.mem_unit.max(1).into())
}

/// Whether TCP uses so much memory on this machine that the kernel drops incoming packets. Then a missing answer says
/// nothing about the server.
#[must_use]
pub fn is_tcp_memory_short() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let page = rustix::param::page_size() as u64;
    is_short(
        &read("/proc/net/sockstat"),
        &read("/proc/sys/net/ipv4/tcp_mem"),
        memory_bytes() / TCP_SHARE / page.max(1),
    )
}

/// Like [`is_tcp_memory_short`], from the contents of the two files; `pages_else` is the limit without the second one.
fn is_short(sockstat: &str, tcp_mem: &str, pages_else: u64) -> bool {
    let used = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:")?.split(" mem ").nth(1))
        .and_then(|text| text.trim().parse::<u64>().ok());
    let pressure = tcp_mem.split_whitespace().nth(1);
    let pressure = pressure.and_then(|text| text.parse().ok());
    used.is_some_and(|used| used >= pressure.unwrap_or(pages_else))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_shortage_is_distinguished_from_a_server_error() {
        for (code, shortage) in [
            (libc::EMFILE, Some(Shortage::Descriptors)),
            (libc::ENFILE, Some(Shortage::Descriptors)),
            (libc::ENOBUFS, Some(Shortage::Memory)),
            (libc::ENOMEM, Some(Shortage::Memory)),
            (libc::EADDRNOTAVAIL, Some(Shortage::Ports)),
            (libc::ECONNREFUSED, None),
            (libc::ETIMEDOUT, None),
            (libc::EHOSTUNREACH, None),
        ] {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(Shortage::of(&error), shortage, "{error}");
        }
        assert_eq!(Shortage::of(&io::ErrorKind::TimedOut.into()), None);
    }

    #[test]
    fn the_memory_of_tcp_is_short_from_its_pressure_on() {
        let used = |pages: u64| {
            format!(
                "sockets: used 9\nTCP: inuse 1 orphan 0 tw 0 alloc 4 mem {pages}\nUDP: inuse 0 mem 3\n"
            )
        };
        let limits = "287901\t383869\t575802\n";
        assert!(!is_short(&used(383_868), limits, 1));
        assert!(is_short(&used(383_869), limits, 1));
        assert!(!is_short(&used(999), "", 1000));
        assert!(is_short(&used(1000), "", 1000));
        assert!(!is_short("", "", 1000));
    }
}
