//! Checks `[acme]`, the names for which listeners want certificates, and whether a challenge for them can be answered.
use super::path;
use crate::config::file::{self, Acme, File};
use crate::config::plan::{AcmePlan, ChallengeKind, ExternalAccount, ListenerPlan, Mode};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::tls::{Authorities, ServerTlsSettings, authorities, read_file};
use crate::config::values;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use toml::Spanned;
use url::Url;

/// Last labels of names that are nobody's in the public name system (RFC 6761, RFC 6762, RFC 7686, RFC 8375 and ICANN's `internal`).
const PRIVATE_ENDS: [&str; 12] = [
    "alt",
    "arpa",
    "corp",
    "example",
    "home",
    "internal",
    "invalid",
    "lan",
    "local",
    "localhost",
    "onion",
    "test",
];

/// What `[acme]` says, without names and challenges.
pub struct Settings {
    email: Option<String>,
    directory: String,
    /// Where certificates are.
    pub folder: PathBuf,
    ca: Option<PathBuf>,
    external_account: Option<ExternalAccount>,
}

/// Checks `[acme]`. `None` if something is wrong with it.
pub fn check(file: &File, base: &Path, problems: &mut Problems) -> Option<Settings> {
    let errors_before = problems.count_errors();
    let written = &file.acme;
    let directory = directory(&written.directory, problems);
    let email = (written.email).refine("an address", problems, |text| email(text));
    let storage = match &written.storage {
        Setting::Given(storage) => Some(path(base, storage.get_ref())),
        Setting::Wrong => None,
        Setting::Absent => Some(state_folder().join("acme")),
    };
    let ca = written.ca.given().map(|ca| {
        let ca_file = path(base, ca.get_ref());
        if let Err(problem) = authorities(&ca_file, "CA", "the directory") {
            problems.add_of_file(*problem, ca.span());
        }
        ca_file
    });
    let external_account = external_account(written, base, problems);
    if problems.count_errors() > errors_before {
        return None;
    }
    let directory = directory?;
    Some(Settings {
        folder: storage?.join(folder_name(&directory)),
        email: email.given().map(|email| email.get_ref().clone()),
        directory,
        ca,
        external_account,
    })
}

fn directory(written: &Spanned<String>, problems: &mut Problems) -> Option<String> {
    let url = Url::parse(written.get_ref()).ok();
    let url = url.filter(|url| url.scheme() == "https" && url.host_str().is_some());
    if url.is_none() {
        problems
            .error(written.span(), "this is not the URL of an ACME directory")
            .help("it begins with \"https://\"; for experiments Let's Encrypt has \"https://acme-staging-v02.api.letsencrypt.org/directory\"");
    }
    url.map(String::from)
}

fn email(text: &str) -> Result<String, String> {
    let is_plain =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let parts = text.split_once('@');
    match parts.filter(|(user, host)| is_plain(user) && values::host_name(host).is_ok()) {
        Some(_) => Ok(text.to_owned()),
        None => Err("write one address, such as \"webmaster@example.org\"".to_owned()),
    }
}

/// The directory's host and path as the name of a folder.
fn folder_name(directory: &str) -> String {
    let bare = directory.trim_start_matches("https://");
    let letter = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' => letter,
        _ => '-',
    };
    bare.chars().map(letter).collect()
}

/// Where carrick keeps what must not be lost: systemd's `StateDirectory=`, else where such things are by custom. It stays
/// the same when privileges are dropped.
fn state_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let variable = |name: &str| {
        let value = std::env::var_os(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os("STATE_DIRECTORY").and_then(|list| first(&list)) {
            return folder;
        }
        let of_user = || {
            let home = variable("HOME").map(|home| home.join(".local/state"));
            variable("XDG_STATE_HOME").or(home)
        };
        match (rustix::process::geteuid().is_root(), of_user()) {
            (false, Some(folder)) => folder.join("carrick"),
            _ => PathBuf::from("/var/lib/carrick"),
        }
    })
}

/// The first folder of a list (systemd.exec(5), `StateDirectory=`).
fn first(list: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(list)
        .next()
        .filter(|path| path.is_absolute())
}

fn external_account(
    written: &Acme,
    base: &Path,
    problems: &mut Problems,
) -> Option<ExternalAccount> {
    let account = written.external_account.given()?.get_ref();
    let (id, key) = (account.id.given()?, account.key.given()?);
    let file = path(base, key.get_ref());
    let text = match read_file(&file, "key") {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(problem) => {
            problems.add_of_file(*problem, key.span());
            return None;
        }
    };
    let bare = text.trim().trim_end_matches('=');
    match URL_SAFE_NO_PAD.decode(bare) {
        Ok(key) if !key.is_empty() => Some(ExternalAccount {
            id: id.get_ref().clone(),
            file,
            key,
        }),
        _ => {
            problems
                .error(key.span(), "this file has no key in Base64url")
                .help("copy the HMAC key as the authority shows it into the file");
            None
        }
    }
}

/// The names that a listener's routes serve.
pub fn hosts(
    written: &Written<file::Listener>,
    tls: Range<usize>,
    settings: Option<&Settings>,
    problems: &mut Problems,
) -> Vec<(String, Range<usize>)> {
    let hosts: Vec<_> = (written.routes.iter())
        .filter_map(|route| route.host.given())
        .collect();
    if hosts.is_empty() {
        problems
            .error(tls, "no route says for which name the certificate is to be")
            .help("give routes a `host`, or write `tls = { acme = [\"example.org\"] }`");
    }
    names(hosts.into_iter(), settings, problems)
}

/// Names, each once; those that cannot have a certificate are reported.
pub fn names<'n>(
    written: impl Iterator<Item = &'n Spanned<String>>,
    settings: Option<&Settings>,
    problems: &mut Problems,
) -> Vec<(String, Range<usize>)> {
    let is_own_authority = settings.is_some_and(|settings| settings.ca.is_some());
    let mut names: Vec<(String, Range<usize>)> = Vec::new();
    for text in written {
        match name(text.get_ref(), is_own_authority) {
            Ok(name) if names.iter().any(|(known, _)| *known == name) => {}
            Ok(name) => names.push((name, text.span())),
            Err(help) => {
                problems
                    .error(text.span(), "no certificate can be had by ACME for this")
                    .help(help);
            }
        }
    }
    names
}

/// A name as it is in certificates.
fn name(text: &str, is_own_authority: bool) -> Result<String, String> {
    if text.contains('*') || text.starts_with('.') {
        return Err("wildcards need the challenge DNS-01, which carrick does not have: name the hosts one by one, or use a certificate from a file".to_owned());
    }
    if values::looks_like_network(text) {
        return Err(
            "certificates are for names; use a certificate from a file for an address".to_owned(),
        );
    }
    let name = values::host_name(text)?;
    if name.contains('_') {
        return Err("certificates have no \"_\" in names".to_owned());
    }
    let (rest, last) = name.rsplit_once('.').unwrap_or(("", &name));
    if !is_own_authority && (rest.is_empty() || PRIVATE_ENDS.contains(&last)) {
        return Err("the public name system does not have this name: use a public one, or name the `ca` of an authority of your own in [acme]".to_owned());
    }
    Ok(name)
}

/// The plan, if listeners have certificates of the authority.
pub fn plan(
    file: &Written<File>,
    settings: Option<Settings>,
    listeners: &[Option<ListenerPlan>],
    problems: &mut Problems,
) -> Option<AcmePlan> {
    let mut names: Vec<String> = (listeners.iter().flatten())
        .filter_map(|listener| listener.tls.as_ref())
        .flat_map(|tls| tls.settings.acme_names().map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.dedup();
    let header = file.key("acme");
    if names.is_empty() {
        if let Some(header) = header.filter(|_| listeners.iter().all(Option::is_some)) {
            problems
                .warning(header, "no listener has certificates by ACME")
                .help("write `tls = \"acme\"` in a [[listener]], or remove [acme]");
        }
        return None;
    }
    let settings = settings?;
    let challenges = challenges(file, &settings, listeners, problems);
    Some(AcmePlan {
        email: settings.email,
        directory: settings.directory,
        folder: settings.folder,
        tls: ServerTlsSettings::new(Authorities::of(settings.ca)),
        challenges,
        external_account: settings.external_account,
        names,
    })
}

/// Those that a listener can answer, the likelier first.
fn challenges(
    file: &Written<File>,
    settings: &Settings,
    listeners: &[Option<ListenerPlan>],
    problems: &mut Problems,
) -> Vec<ChallengeKind> {
    // An authority of one's own may be among those that `allow` admits.
    let is_open = |listener: &&ListenerPlan| {
        let clients = &listener.access.clients;
        let is_everybody = clients.is_empty() || clients.iter().any(|one| one.prefix_len() == 0);
        listener.interception.is_none() && (is_everybody || settings.ca.is_some())
    };
    let ports = |kind| {
        let open = listeners.iter().flatten().filter(is_open);
        let able = open.filter(move |listener| answers(listener, kind));
        able.map(|listener| listener.address.port())
    };
    let (http, tls) = (ChallengeKind::Http01, ChallengeKind::TlsAlpn01);
    let is_at_port = |kind, port| ports(kind).any(|own| own == port);
    let (has_80, has_443) = (is_at_port(http, 80), is_at_port(tls, 443));
    let mut kinds = if has_443 && !has_80 {
        vec![tls, http]
    } else {
        vec![http, tls]
    };
    kinds.retain(|kind| ports(*kind).next().is_some());
    let at = file.acme.challenge.given();
    if let Some(only) = at {
        kinds.retain(|kind| kind == only.get_ref());
    }
    let span = at.map(Spanned::span).or(file.acme.value("directory"));
    let span = span.or(file.key("acme")).unwrap_or(0..0);
    if kinds.is_empty() {
        problems
            .error(span, "the authority cannot see that the names are carrick's: no listener can answer its challenges")
            .help("\"http-01\" requires a \"switch\" listener without `tls`, such as one on port 80 with `redirect_to_https = true`; \"tls-alpn-01\" a listener with `tls = \"acme\"` that demands no certificates of clients; both, that `allow` admits everybody");
    } else if !has_80 && !has_443 && settings.ca.is_none() {
        problems
            .note(
                span,
                "the authority connects to port 80 or 443, and no listener has one of them",
            )
            .help("something in front of carrick must forward one of them");
    }
    kinds
}

fn answers(listener: &ListenerPlan, kind: ChallengeKind) -> bool {
    match (kind, &listener.tls) {
        (ChallengeKind::Http01, None) => matches!(listener.mode, Mode::Switch(_)),
        (ChallengeKind::TlsAlpn01, Some(tls)) => {
            let clients = tls.settings.clients.as_ref();
            tls.settings.acme_names().next().is_some()
                && !clients.is_some_and(|clients| clients.is_required)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_authority_can_certify() {
        let right = |text| name(text, false);
        assert_eq!(right("Example.ORG."), Ok("example.org".to_owned()));
        assert_eq!(
            right("xn--bcher-kva.example.net").as_deref(),
            Ok("xn--bcher-kva.example.net")
        );
        for wrong in [
            "*.example.org",
            ".example.org",
            "*",
            "192.0.2.1",
            "::1",
            "localhost",
            "a.local",
            "a.test",
            "a_b.example.org",
            "bücher.example.org",
            "a..org",
            "",
        ] {
            assert!(name(wrong, false).is_err(), "{wrong}");
        }
        for own in ["a.test", "host", "a.internal"] {
            assert!(name(own, true).is_ok(), "{own}");
        }
    }

    #[test]
    fn of_several_state_folders_the_first_is_used() {
        let of = |list: &str| first(OsStr::new(list));
        assert_eq!(of("/var/lib/a"), Some("/var/lib/a".into()));
        assert_eq!(of("/var/lib/a:/var/lib/b"), Some("/var/lib/a".into()));
        assert_eq!(of("a"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn each_directory_has_its_folder() {
        let folder = folder_name("https://acme-v02.api.letsencrypt.org/directory");
        assert_eq!(folder, "acme-v02.api.letsencrypt.org-directory");
        assert_eq!(
            folder_name("https://[::1]:14000/../dir?x"),
            "---1--14000-..-dir-x"
        );
    }
}
