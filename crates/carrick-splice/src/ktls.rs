//! TLS by the kernel (kTLS, Documentation/networking/tls.rst): what is written to a connection, also by `splice(2)` and
//! `sendfile(2)`, is encrypted, and what comes is decrypted. A library does the handshake, and gives the keys.

mod keys;
mod records;
mod self_test;

pub use keys::{Cipher, Direction, Keys, Suite, Version};
pub use records::{ALERT, HANDSHAKE, Record, receive, send_record};

use crate::unavailable::on_loopback;
use crate::{Unavailable, sys};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// linux/tcp.h
const TCP_ULP: i32 = 31;

/// linux/socket.h
pub(crate) const SOL_TLS: i32 = 282;

/// The suites that the kernel can be given here, shared by all who ask. None before [`load`](Self::load).
#[derive(Debug, Clone, Default)]
pub struct KtlsService(Arc<AtomicU8>);

impl KtlsService {
    /// Finds out which suites the kernel takes: each is tried on loopback, both ways. Privileged, this loads the kernel's
    /// modules. Takes some milliseconds; blocks. Does nothing if some were found before.
    ///
    /// # Errors
    /// Why there is none.
    pub fn load(&self) -> Result<(), Unavailable> {
        if self.0.load(Ordering::Relaxed) != 0 {
            return Ok(());
        }
        let passed = self_test::run().map_err(|error| explain(&on_loopback(error)))?;
        let bits = passed.into_iter().map(Suite::bit);
        self.0
            .store(bits.fold(0, |all, bit| all | bit), Ordering::Relaxed);
        Ok(())
    }

    /// Whether the kernel can be given connections with this suite.
    #[must_use]
    pub fn takes(&self, suite: Suite) -> bool {
        self.0.load(Ordering::Relaxed) & suite.bit() != 0
    }

    /// What passed the self-test, in words.
    #[must_use]
    pub fn detail(&self) -> String {
        let taken = Suite::ALL.into_iter().filter(|suite| self.takes(*suite));
        let names: Vec<String> = taken.map(|suite| suite.to_string()).collect();
        format!("its self-test passed: {}", names.join(", "))
    }
}

/// The kernel's TLS on this machine, for `carrick doctor` and the like.
pub(crate) fn probe() -> io::Result<String> {
    let service = KtlsService::default();
    service.load().map_err(io::Error::other)?;
    Ok(service.detail())
}

/// Prepares a connection for [`install`]. Until keys are installed, its bytes are neither encrypted nor decrypted.
///
/// # Errors
/// Those of `setsockopt(2)`: the kernel has no TLS, or the connection is half closed. The connection is as it was.
pub fn attach(socket: &impl AsFd) -> io::Result<()> {
    sys::sockopt::set_bytes(socket.as_fd(), libc::IPPROTO_TCP, TCP_ULP, b"tls")
}

/// Gives the kernel the keys for a direction of a connection, from the next record on.
///
/// # Errors
/// Those of `setsockopt(2)`, or the keys do not fit the suite. The direction is as it was.
pub fn install(
    socket: &impl AsFd,
    suite: Suite,
    direction: Direction,
    keys: &Keys<'_>,
) -> io::Result<()> {
    let info = keys::crypto_info(suite, direction, keys)?;
    let name = match direction {
        Direction::Send => 1,
        Direction::Receive => 2,
    };
    sys::sockopt::set_bytes(socket.as_fd(), SOL_TLS, name, &info)
}

fn explain(error: &io::Error) -> Unavailable {
    Unavailable::new(match error.raw_os_error() {
        Some(libc::ENOENT) => {
            "the kernel's module \"tls\" is not loaded (modprobe tls), or there is none (CONFIG_TLS)"
                .to_owned()
        }
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests;
