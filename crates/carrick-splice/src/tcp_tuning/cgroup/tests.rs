//! How a process's control group is found.

use super::*;

const UNIFIED: &str = "25 1 0:22 / /proc rw - proc proc rw\n\
    31 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const HYBRID: &str = "31 25 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
    32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
const GROUPS: &str = "8:pids:/\n1:cpu:/x\n0::/system.slice/carrick.service\n";

#[test]
fn the_group_is_below_the_mount() {
    let found = |mounts, groups| find(mounts, groups).unwrap().display().to_string();
    assert_eq!(
        found(UNIFIED, GROUPS),
        "/sys/fs/cgroup/system.slice/carrick.service"
    );
    assert_eq!(
        found(HYBRID, GROUPS),
        "/sys/fs/cgroup/unified/system.slice/carrick.service"
    );
    assert_eq!(found(HYBRID, "0::/\n"), "/sys/fs/cgroup/unified/");
    // Only a part is mounted, as in a container, with a space in its name.
    let part = "9 1 0:26 /system.slice /a\\040b rw - cgroup2 none rw\n";
    assert_eq!(found(part, GROUPS), "/a b/carrick.service");
}

#[test]
fn without_a_group_the_reason_is_reported() {
    let why = |mounts, groups| find(mounts, groups).unwrap_err();
    assert!(why(UNIFIED, "1:cpu:/\n").contains("in no control group"));
    assert!(why("", GROUPS).contains("no cgroup2 is mounted"));
    let other = "9 1 0:26 /system /cg rw - cgroup2 none rw\n";
    assert!(why(other, GROUPS).contains("no cgroup2 is mounted"));
    assert!(why(UNIFIED, "0::/../other\n").contains("outside"));
}

/// Programs started by `ip netns exec` have their own `/sys`, with nothing mounted below it.
#[test]
fn it_is_found_where_none_is_mounted() {
    if !carrick_test::is_root() {
        return;
    }
    // Of this thread only.
    let found = std::thread::spawn(|| {
        use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        #[expect(
            unsafe_code,
            reason = "no other thread has this one's view of the files"
        )]
        // SAFETY: neither descriptors nor memory are unshared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }.unwrap();
        mount_change(
            "/",
            MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
        )
        .unwrap();
        unmount("/sys", UnmountFlags::DETACH).unwrap();
        let mounts = read_to_string("/proc/thread-self/mountinfo").unwrap();
        assert!(!mounts.contains("cgroup2"), "{mounts}");
        own().map(|group| rustix::fs::fstatfs(&group).unwrap().f_type)
    });
    const CGROUP2_MAGIC: i64 = 0x6367_7270;
    assert_eq!(found.join().unwrap().unwrap(), CGROUP2_MAGIC);
}
