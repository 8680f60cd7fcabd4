//! The calls to the kernel that no library wraps: switching a device's offloads (ioctl `SIOCETHTOOL`), and real-time threads.

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketType, socket};

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Runs an ethtool command with one number on a device of the calling thread's network namespace; returns the number
/// that the kernel leaves there.
///
/// # Errors
/// The kernel's, and `InvalidInput` for a name that is too long.
pub(crate) fn ethtool(device: &str, command: u32, data: u32) -> io::Result<u32> {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut value = EthtoolValue { command, data };
    let mut name = [0; libc::IFNAMSIZ];
    // The last byte stays 0.
    if device.len() >= name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = from.cast_signed();
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: (&raw mut value).cast(),
        },
    };
    #[expect(unsafe_code, reason = "ioctl has no safe wrapper for this request")]
    // SAFETY: SIOCETHTOOL reads and writes the ifreq and, for commands with one number, the ethtool_value behind
    // ifru_data; both outlive the call. The descriptor is open.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value.data)
}

/// Makes the calling thread one that every ordinary thread of its core stands back for (`SCHED_FIFO`, the lowest priority).
///
/// # Errors
/// The kernel's: `EPERM` without `CAP_SYS_NICE`, or in a cgroup without real-time bandwidth.
pub(crate) fn make_this_thread_real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    #[expect(unsafe_code, reason = "no library wraps this call")]
    // SAFETY: the kernel reads one sched_param, which outlives the call; 0 is the calling thread.
    let done = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
