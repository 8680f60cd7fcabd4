//! Whether the kernel tracks connections here (nf_conntrack), as it does for firewalls that ask for states, and for NAT.
//!
//! conntrack identifies a connection by its addresses and ports only. The two halves of a split connection must not share them, or NAT
//! ignores the second one and treats its packets as invalid packets of the first.
use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How many connections are tracked in this network namespace. Nobody tracks only while there are rules that want it: where some are, there is
/// hardly ever none.
const COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";

/// What tells it; opened once it is there.
#[derive(Debug, Default)]
pub struct Tracking(OnceCell<File>);

impl Tracking {
    /// Whether connections are tracked now. A system call; several, as long as the kernel has no such thing.
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
