//! Changes the user.
use crate::config::plan::Account;
use nix::unistd::{User, getresgid, getresuid};
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io;

/// Becomes the user, with its groups; false if the process already is that user and cannot change. Only affects the calling thread and those
/// that it starts: libc's wrappers would also change the thread that loads BPF programs.
pub(super) fn become_user(account: &Account, effective: CapabilitySet) -> io::Result<bool> {
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(account.gid));
    let (users, groups) = (getresuid()?, getresgid()?);
    let is_already = [users.real, users.effective, users.saved].map(u32::from) == [account.uid; 3]
        && [groups.real, groups.effective, groups.saved].map(u32::from) == [account.gid; 3];
    if !effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
        return if is_already {
            Ok(false)
        } else {
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "carrick runs as {} and cannot become {}, the [process] user: only root can; start it as root, or remove [process] user",
                    name(users.effective.into()),
                    account.user
                ),
            ))
        };
    }
    let groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
    let failed = |call: &str, error: rustix::io::Errno| {
        let error = io::Error::from(error);
        io::Error::new(
            error.kind(),
            format!(
                "carrick cannot become {} (user {}, group {}): {call}: {error}",
                account.user, account.uid, account.gid
            ),
        )
    };
    // In this order, since each step drops the right to take the previous one.
    set_thread_groups(&groups).map_err(|error| failed("setgroups", error))?;
    set_thread_res_gid(gid, gid, gid).map_err(|error| failed("setresgid", error))?;
    set_thread_res_uid(uid, uid, uid).map_err(|error| failed("setresuid", error))?;
    Ok(!is_already)
}

/// The name of a user; its number if it has none.
pub fn name(uid: u32) -> String {
    match User::from_uid(nix::unistd::Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        Ok(None) | Err(_) => uid.to_string(),
    }
}
