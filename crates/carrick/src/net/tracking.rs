//! Whether the kernel tracks connections here (nf_conntrack), as stateful firewalls and NAT require.
//!
//! conntrack identifies a connection by its addresses and ports only. The two halves of a split connection must not share them, or NAT
//! ignores the second one and treats its packets as invalid packets of the first.
use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Number of tracked connections in this network namespace. It is zero unless some rule requires tracking, and then hardly ever.
const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";

/// The file with the count; opened once it exists.
#[derive(Debug, Default)]
pub struct Tracking(OnceCell<File>);

impl Tracking {
    /// Whether connections are tracked now. One system call; several while the kernel has no connection tracking.
    #[must_use]
    pub fn is_on(&self) -> bool {
        let file = match self.0.get() {
            Some(file) => file,
            None => match File::open(COUNT) {
                Ok(file) => self.0.get_or_init(|| file),
                Err(_) => return false,
            },
        };
        let mut first = [0];
        file.read_at(&mut first, 0).is_ok_and(|count| count == 1) && first != *b"0"
    }
}
