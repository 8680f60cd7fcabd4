//! Becoming another user.
use crate::config::plan::Account;
use nix::unistd::{Gid, Uid, User, getresgid, getresuid, setgroups, setresgid, setresuid};
use rustix::thread::CapabilitySet;
use std::io;

/// Becomes the user, with its groups; false if it is that user already and cannot change. All threads of the process do.
pub(super) fn become_user(account: &Account, effective: CapabilitySet) -> io::Result<bool> {
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    let (users, groups) = (getresuid()?, getresgid()?);
    let is_already = [users.real, users.effective, users.saved] == [uid; 3]
        && [groups.real, groups.effective, groups.saved] == [gid; 3];
    if !effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
        return if is_already {
            Ok(false)
        } else {
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "carrick runs as {} and cannot become {}, as [process] user says: only root can; start it as root, or leave [process] out",
                    name(users.effective.as_raw()),
                    account.user
                ),
            ))
        };
    }
    let groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
    let failed = |call: &str, error: nix::Error| {
        let error = io::Error::from(error);
        io::Error::new(
            error.kind(),
            format!(
                "carrick cannot become {} (user {uid}, group {gid}): {call}: {error}",
                account.user
            ),
        )
    };
    // In this order, as each step takes the right to the one before.
    setgroups(&groups).map_err(|error| failed("setgroups", error))?;
    setresgid(gid, gid, gid).map_err(|error| failed("setresgid", error))?;
    setresuid(uid, uid, uid).map_err(|error| failed("setresuid", error))?;
    Ok(!is_already)
}

/// The name of a user; its number if it has none.
pub(super) fn name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => uid.to_string(),
    }
}
