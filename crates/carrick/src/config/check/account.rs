//! `[process]`: the user that carrick becomes, looked up among the users of this machine.
use crate::config::file::File;
use crate::config::plan::Account;
use crate::config::problem::Problems;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::ffi::CString;

/// The user, if the file names one and this machine has it; whatever is wrong is reported.
pub(super) fn check(file: &File, problems: &mut Problems) -> Option<Account> {
    if let (Some(group), true) = (file.process.group.given(), file.process.user.is_absent()) {
        problems
            .error(group.span(), "`group` has no effect without `user`")
            .help("name the user that carrick becomes, too; or remove `group`");
    }
    let user = file.process.user.given()?;
    let user_span = user.span();
    let group = file.process.group.given().map(|written| {
        find_group(written.get_ref())
            .map_err(|why| report(problems, written.span(), &why, "group", written.get_ref()))
    });
    let user = find_user(user.get_ref())
        .map_err(|why| report(problems, user_span.clone(), &why, "user", user.get_ref()))
        .ok()?;
    let gid = match (group, user.gid) {
        (Some(group), _) => group.ok()?,
        (None, Some(gid)) => gid,
        (None, None) => {
            problems
                .error(
                    user_span,
                    "no user has this number, so its group is not known",
                )
                .help("say `group`, too");
            return None;
        }
    };
    Some(Account {
        groups: groups(&user.name, gid),
        user: user.name,
        uid: user.uid.as_raw(),
        gid: gid.as_raw(),
    })
}

struct Found {
    name: String,
    uid: Uid,
    /// Unknown if only the number is.
    gid: Option<Gid>,
}

/// Why there is no such user or group.
enum Missing {
    /// Nobody has this name.
    Unknown,
    /// The system's lists cannot be asked.
    Unasked(nix::Error),
}

/// By name, else by number.
fn find_user(written: &str) -> Result<Found, Missing> {
    let found = |user: User| Found {
        name: user.name,
        uid: user.uid,
        gid: Some(user.gid),
    };
    if let Some(user) = User::from_name(written).map_err(Missing::Unasked)? {
        return Ok(found(user));
    }
    let uid = Uid::from_raw(number(written)?);
    Ok(User::from_uid(uid).map_err(Missing::Unasked)?.map_or_else(
        || Found {
            name: uid.to_string(),
            uid,
            gid: None,
        },
        found,
    ))
}

/// By name, else by number.
fn find_group(written: &str) -> Result<Gid, Missing> {
    match Group::from_name(written).map_err(Missing::Unasked)? {
        Some(group) => Ok(group.gid),
        None => number(written).map(Gid::from_raw),
    }
}

/// A user's or group's number. The highest stands for "leave it as it is" (setresuid(2)).
fn number(written: &str) -> Result<u32, Missing> {
    written
        .parse()
        .ok()
        .filter(|number| *number != u32::MAX && written.bytes().all(|byte| byte.is_ascii_digit()))
        .ok_or(Missing::Unknown)
}

/// The groups that list the user, and its own.
fn groups(name: &str, gid: Gid) -> Vec<u32> {
    let listed = CString::new(name)
        .ok()
        .and_then(|name| getgrouplist(&name, gid).ok())
        .unwrap_or_else(|| vec![gid]);
    listed.into_iter().map(Gid::as_raw).collect()
}

fn report(
    problems: &mut Problems,
    span: std::ops::Range<usize>,
    why: &Missing,
    kind: &str,
    name: &str,
) {
    let list = if kind == "user" { "passwd" } else { "group" };
    match why {
        Missing::Unknown => problems
            .error(span, format!("this machine has no {kind} \"{name}\""))
            .help(format!(
                "name one that it has (`getent {list}` shows them), by name or by number; or add it (`{kind}add --system`)"
            )),
        Missing::Unasked(error) => problems
            .error(span, format!("the {kind} \"{name}\" cannot be looked up: {error}"))
            .help(format!("does `getent {list}` work?")),
    };
}
