//! Finds the control group (cgroup2) of this process.

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs::read_to_string;
use std::path::PathBuf;

/// Opens its folder. If no cgroup2 is visible, as under `ip netns exec`, which hides mounts below `/sys`,
/// through a private mount that lasts as long as the descriptor (fsmount(2)).
///
/// Why there is none.
pub(super) fn own() -> Result<OwnedFd, String> {
    let read = |path: &str| read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let groups = read("/proc/thread-self/cgroup")?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let why = match find(&read("/proc/thread-self/mountinfo")?, &groups) {
        Ok(folder) => match openat(CWD, &folder, flags, Mode::empty()) {
            Ok(opened) => return Ok(opened),
            Err(error) => format!("{}: {error}", folder.display()),
        },
        Err(why) => why,
    };
    let inside = of_cgroup2(&groups)?.trim_start_matches('/');
    let inside = if inside.is_empty() { "." } else { inside };
    let own_mount = own_mount().map_err(|error| format!("{why}; a mount of its own: {error}"))?;
    openat(&own_mount, inside, flags, Mode::empty())
        .map_err(|error| format!("{why}; {inside} in a mount of its own: {error}"))
}

/// A detached mount of cgroup2. Needs `CAP_SYS_ADMIN`.
fn own_mount() -> rustix::io::Result<OwnedFd> {
    let opened = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&opened)?;
    fsmount(
        &opened,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
}

/// The folder, from the kernel's lists of mounts and of this process's groups (proc_pid_mountinfo(5),
/// cgroups(7)).
fn find(mounts: &str, groups: &str) -> Result<PathBuf, String> {
    let own = of_cgroup2(groups)?;
    let mounts = mounts.lines().filter_map(cgroup2_mount);
    let mut found = mounts.filter_map(|(root, point)| {
        let inside = match root.as_str() {
            "/" => own,
            root => own.strip_prefix(root)?,
        };
        let is_inside = inside.is_empty() || inside.starts_with('/');
        is_inside.then(|| PathBuf::from(format!("{point}{inside}")))
    });
    found.next().ok_or_else(|| {
        "no cgroup2 is mounted that has the control group of this process (mount -t cgroup2 none /sys/fs/cgroup)".into()
    })
}

/// The control group, relative to its namespace.
fn of_cgroup2(groups: &str) -> Result<&str, String> {
    let own = groups
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or("this process is in no control group of cgroup2")?;
    // For a process moved outside its cgroup namespace.
    if own.starts_with("/..") {
        return Err(format!(
            "its control group, {own}, is outside of what it can see"
        ));
    }
    Ok(own)
}

/// Root and mount point of a line of mountinfo, if it is a cgroup2.
fn cgroup2_mount(line: &str) -> Option<(String, String)> {
    let (mount, kind) = line.split_once(" - ")?;
    (kind.split(' ').next()? == "cgroup2").then_some(())?;
    let mut fields = mount.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    Some((unescaped(root), unescaped(point)))
}

/// Blanks, tabs, line ends and backslashes are written as three octal digits.
fn unescaped(text: &str) -> String {
    let mut plain = text.to_owned();
    for (escape, character) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        plain = plain.replace(escape, character);
    }
    plain
}

#[cfg(test)]
mod tests;
