//! Checks `shared` of `[cache]`: the cache that several carricks share.
use super::path;
use crate::config::file;
use crate::config::plan::{Password, ServerAddress, SharedPlan};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use std::path::Path;
use toml::Spanned;

/// The port of a server when none is given.
const PORT: u16 = 6379;

/// Whether this carrick was built with it.
const IS_BUILT_IN: bool = cfg!(feature = "shared-cache");

/// The plan; `None`: there is something wrong.
pub(super) fn check(
    written: &Written<file::Shared>,
    directory: &Path,
    problems: &mut Problems,
) -> Option<SharedPlan> {
    if !IS_BUILT_IN {
        problems
            .error(
                written.span.clone(),
                "this carrick was built without a shared cache",
            )
            .help(
                "build it with `cargo build --release --features shared-cache`, or remove `shared`",
            );
        return None;
    }
    let servers = servers(written, problems);
    let password = (written.password_file.given()).map(|file| password(file, directory, problems));
    let prefix = prefix(&written.prefix, problems);
    let user = written.user.given();
    if let Some(user) = user.filter(|_| written.password_file.is_absent()) {
        problems
            .error(user.span(), "`user` has no effect without `password_file`")
            .help("add `password_file`, or remove it");
    }
    Some(SharedPlan {
        cluster: written.cluster,
        prefix: prefix?,
        timeout: written.timeout,
        object_bytes_max: written.object_max,
        user: user.map(|user| user.get_ref().clone()),
        password: match password {
            Some(password) => Some(password?),
            None => None,
        },
        servers: servers?,
    })
}

/// `None` if one of them is wrong.
fn servers(written: &Written<file::Shared>, problems: &mut Problems) -> Option<Vec<ServerAddress>> {
    let Some(list) = written.servers.given() else {
        if written.servers.is_absent() {
            problems
                .error(written.span.clone(), "`servers` is missing here")
                .help("write where the Redis or Valkey is, such as `servers = \"10.0.0.7:6379\"`");
        }
        return None;
    };
    if list.get_ref().is_empty() || (list.get_ref().len() > 1 && !written.cluster) {
        problems
            .error(list.span(), "exactly one server is required here")
            .help("only a cluster may have several: add `cluster = true`");
        return None;
    }
    let servers: Vec<_> = (list.get_ref().iter())
        .filter_map(|text| {
            let address =
                super::server_address(&Setting::Given(text.clone()), Some(PORT), problems);
            address.given().map(|address| address.get_ref().clone())
        })
        .collect();
    (servers.len() == list.get_ref().len()).then_some(servers)
}

/// A word: braces would decide in a cluster which server has a key.
fn prefix(prefix: &Spanned<String>, problems: &mut Problems) -> Option<String> {
    let text = prefix.get_ref();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(is_plain) {
        problems
            .error(prefix.span(), "this cannot be a prefix")
            .help("write up to 64 letters, digits, or any of \"-_.:\"");
        return None;
    }
    Some(text.clone())
}

fn password(file: &Spanned<String>, directory: &Path, problems: &mut Problems) -> Option<Password> {
    let path = path(directory, file.get_ref());
    let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let line = text.and_then(|text| match text.lines().next().unwrap_or_default() {
        "" => Err("its first line is empty".to_owned()),
        line => Ok(line.to_owned()),
    });
    match line {
        Ok(text) => Some(Password { file: path, text }),
        Err(error) => {
            problems
                .error(
                    file.span(),
                    format!(
                        "the password cannot be read from {}: {error}",
                        path.display()
                    ),
                )
                .help("put the password into the first line of that file");
            None
        }
    }
}
