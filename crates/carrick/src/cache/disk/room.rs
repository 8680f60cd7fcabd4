//! How much of its file system the disk may fill: all but a reserve for other programs.
use crate::config::plan::DiskPlan;
use rustix::fs::{StatVfs, statvfs};
use std::fmt;

/// The reserve: the smaller of so many bytes and this fraction (a divisor) of the file system.
const RESERVE_BYTES_MAX: u64 = 16 << 20;
const RESERVE_SHARE: u64 = 20;

/// The room of a file system for a user without privileges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// Bytes that are free.
    pub(super) free_bytes: u64,
    /// Bytes that there are.
    pub(super) total_bytes: u64,
}

impl Room {
    pub(super) fn of(status: &StatVfs) -> Self {
        let for_root = status.f_bfree.saturating_sub(status.f_bavail);
        let total = status.f_blocks.saturating_sub(for_root);
        Self {
            free_bytes: status.f_bavail.saturating_mul(status.f_frsize),
            total_bytes: total.saturating_mul(status.f_frsize),
        }
    }

    /// Bytes that stay free.
    pub(super) fn reserve_bytes(self) -> u64 {
        RESERVE_BYTES_MAX.min(self.total_bytes / RESERVE_SHARE)
    }
}

/// Says what is wrong if `size` is more than the file system can hold; `None`: nothing, or its size is unknown.
#[must_use]
pub fn misfit(plan: &DiskPlan) -> Option<String> {
    let there = plan.path.ancestors().find_map(|path| statvfs(path).ok());
    misfit_in(plan, Room::of(&there?))
}

fn misfit_in(plan: &DiskPlan, room: Room) -> Option<String> {
    let usable_bytes = room.total_bytes - room.reserve_bytes();
    (plan.bytes > usable_bytes).then(|| {
        format!(
            "`disk` of [cache]: `size` is {}, but the file system of {} has {}, of which {} stay free: at most {} can be used",
            Size(plan.bytes),
            plan.path.display(),
            Size(room.total_bytes),
            Size(room.reserve_bytes()),
            Size(usable_bytes)
        )
    })
}

/// Displays bytes, rounded to a tenth of a unit.
pub(super) struct Size(pub(super) u64);

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..0x10_0000 => (1 << 10, "KB"),
            0x10_0000..0x4000_0000 => (1 << 20, "MB"),
            _ => (1 << 30, "GB"),
        };
        let tenths = u128::from(self.0) * 10 / unit;
        match tenths % 10 {
            0 => write!(formatter, "{} {name}", tenths / 10),
            tenth => write!(formatter, "{}.{tenth} {name}", tenths / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(bytes: u64) -> DiskPlan {
        DiskPlan {
            path: "/cache".into(),
            bytes,
            objects: 10,
            object_bytes_max: bytes / 8,
        }
    }

    fn of_total(total_bytes: u64) -> Room {
        Room {
            free_bytes: 0,
            total_bytes,
        }
    }

    #[test]
    fn the_reserve_is_small_where_the_file_system_is() {
        for (total_bytes, reserve_bytes) in [
            (0, 0),
            (20 << 20, 1 << 20),
            (320 << 20, 16 << 20),
            (1 << 40, 16 << 20),
        ] {
            assert_eq!(of_total(total_bytes).reserve_bytes(), reserve_bytes);
        }
    }

    #[test]
    fn a_size_that_does_not_fit_is_told() {
        assert_eq!(misfit_in(&plan(19 << 20), of_total(20 << 20)), None);
        assert_eq!(misfit_in(&plan(100 << 30), of_total(1 << 40)), None);
        let why = misfit_in(&plan(20 << 20), of_total(20 << 20)).unwrap();
        assert_eq!(
            why,
            "`disk` of [cache]: `size` is 20 MB, but the file system of /cache has 20 MB, of which 1 MB stay free: at most 19 MB can be used"
        );
        let why = misfit_in(&plan(1 << 40), of_total(3 << 29)).unwrap();
        assert!(
            why.contains("has 1.5 GB, of which 16 MB stay free"),
            "{why}"
        );
    }
}
