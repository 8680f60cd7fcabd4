//! Checks what a listener says of TLS, and reads its certificates.
use super::{acme, path};
use crate::config::file::{self, ClientCertificate, ListenerTls};
use crate::config::plan::certificate_file;
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::tls::{
    CertificateFiles, ClientCertificates, Faults, Minimum, Part, Tls, TlsSettings,
};
use crate::config::values;
use carrick_splice::Choice;
use std::ops::Range;
use std::path::Path;

/// What means nothing without `tls`.
const ONLY_WITH_TLS: [&str; 5] = [
    "tls_minimum",
    "client_ca",
    "client_crl",
    "client_certificate",
    "hsts",
];

/// A listener's TLS. `None` if something is wrong with it.
#[expect(clippy::option_option, reason = "wrong, or not wanted")]
pub fn check(
    written: &Written<file::Listener>,
    directory: &Path,
    acme: Option<&acme::Settings>,
    problems: &mut Problems,
) -> Option<Option<Tls>> {
    let list = match &written.tls {
        Setting::Given(list) => list,
        Setting::Wrong => return None,
        Setting::Absent => {
            report_without_tls(written, problems);
            return Some(None);
        }
    };
    let certificates = match list.get_ref() {
        ListenerTls::OfHosts => {
            let hosts = acme::hosts(written, list.span(), acme, problems);
            by_acme(hosts, acme)
        }
        ListenerTls::Certificates(certificates) if certificates.is_empty() => {
            problems
                .error(list.span(), "there is no certificate for clients")
                .help("name one: `tls = { certificate = \"cert.pem\", key = \"key.pem\" }`, or remove `tls`");
            None
        }
        ListenerTls::Certificates(certificates) => {
            let each = certificates.iter();
            let each = each.map(|one| files(one, directory, acme, problems));
            // All of them are looked at.
            let all: Vec<_> = each.collect();
            let all: Option<Vec<_>> = all.into_iter().collect();
            all.map(|all| all.concat())
        }
    };
    if written.is_transparent() {
        problems
            .error(list.span(), "intercepted connections cannot be decrypted")
            .help("remove `transparent`, or `tls`: clients expect the certificates of the servers that they connect to");
    }
    report_engines(written, problems);
    let clients = clients(written, directory, problems);
    let (certificates, places): (Vec<_>, Vec<_>) = certificates?.into_iter().unzip();
    if certificates.is_empty() {
        return None;
    }
    let has_acme = certificates.iter().any(|files| files.acme.is_some());
    let settings = TlsSettings {
        certificates,
        acme: acme.map(|acme| acme.folder.clone()).filter(|_| has_acme),
        minimum: written
            .tls_minimum
            .given()
            .map_or(Minimum::Tls12, |one| *one.get_ref()),
        clients: clients?,
        http2: written.http2,
    };
    let place = |part| {
        let found = match part {
            Part::Certificate(index) => places.get(index).cloned(),
            Part::Authorities => written.value("client_ca"),
            Part::RevocationLists => written.value("client_crl"),
        };
        found.unwrap_or_else(|| list.span())
    };
    match Tls::load(settings) {
        Ok((tls, warnings)) => {
            report(warnings, place, problems);
            Some(Some(tls))
        }
        Err(errors) => {
            report(errors, place, problems);
            None
        }
    }
}

/// Certificates' files, each with its place in the configuration.
type Files = Vec<(CertificateFiles, Range<usize>)>;

/// Certificates that carrick orders.
fn by_acme(names: Vec<(String, Range<usize>)>, settings: Option<&acme::Settings>) -> Option<Files> {
    let folder = &settings?.folder;
    let files = names.into_iter().map(|(name, span)| {
        let file = certificate_file(folder, &name);
        let files = CertificateFiles {
            certificate: file.clone(),
            key: file,
            ocsp: None,
            acme: Some(name),
        };
        (files, span)
    });
    Some(files.collect())
}

/// `None` if something is wrong.
fn files(
    written: &Written<file::Certificate>,
    directory: &Path,
    acme: Option<&acme::Settings>,
    problems: &mut Problems,
) -> Option<Files> {
    if let Setting::Given(names) = &written.acme {
        let others = ["certificate", "key", "ocsp"];
        if let Some(other) = others.iter().find_map(|other| written.key(other)) {
            problems
                .error(other, "a certificate by ACME has no files of yours")
                .help("remove it, or `acme`; `tls` can be a list of both kinds");
        }
        if names.get_ref().is_empty() {
            problems
                .error(names.span(), "there is no name for a certificate")
                .help("name the site: `acme = [\"example.org\"]`");
        }
        let names = acme::names(names.get_ref().iter(), acme, problems);
        return by_acme(names, acme);
    }
    if written.certificate.is_absent() && written.acme.is_absent() {
        problems
            .error(written.span.clone(), "`certificate` is missing here")
            .help("name a PEM file, or write `acme = [\"example.org\"]`");
    }
    let certificate = path(directory, written.certificate.given()?.get_ref());
    let files = CertificateFiles {
        key: match &written.key {
            Setting::Given(key) => path(directory, key.get_ref()),
            Setting::Absent => certificate.clone(),
            Setting::Wrong => return None,
        },
        ocsp: match &written.ocsp {
            Setting::Given(ocsp) => Some(path(directory, ocsp.get_ref())),
            Setting::Absent => None,
            Setting::Wrong => return None,
        },
        certificate,
        acme: None,
    };
    Some(vec![(files, written.span.clone())])
}

/// Who must present a certificate. `None` if that is wrong.
#[expect(clippy::option_option, reason = "wrong, or not wanted")]
fn clients(
    written: &Written<file::Listener>,
    directory: &Path,
    problems: &mut Problems,
) -> Option<Option<ClientCertificates>> {
    let demand = written.client_certificate.given();
    match &written.client_ca {
        Setting::Wrong => None,
        Setting::Absent => {
            if let Some(word) = demand {
                problems
                    .error(
                        word.span(),
                        "`client_ca`, which says who issues clients' certificates, is missing",
                    )
                    .help("add `client_ca = \"ca.pem\"`");
            }
            if let Setting::Given(crl) = &written.client_crl {
                problems
                    .error(crl.span(), "`client_crl` means nothing without `client_ca`")
                    .help("add `client_ca = \"ca.pem\"`, or remove it");
            }
            Some(None)
        }
        Setting::Given(ca) => Some(Some(ClientCertificates {
            ca: path(directory, ca.get_ref()),
            crl: match &written.client_crl {
                Setting::Wrong => return None,
                Setting::Absent => None,
                Setting::Given(crl) => Some(path(directory, crl.get_ref())),
            },
            is_required: demand.is_none_or(|word| *word.get_ref() == ClientCertificate::Required),
        })),
    }
}

/// Where an engine is named that cannot have these connections.
fn report_engines(written: &Written<file::Listener>, problems: &mut Problems) {
    let decrypted = written.routes.iter().filter(|route| route.sni.is_absent());
    let of_listener =
        Some(&written.engine).filter(|_| decrypted.clone().count() == written.routes.len());
    let of_routes = decrypted.map(|route| &route.engine);
    for engine in of_routes.chain(of_listener).filter_map(Setting::given) {
        if !matches!(engine.get_ref(), Choice::Auto | Choice::Copy) {
            problems
                .warning(engine.span(), "the process encrypts for clients of this listener: no engine moves their bytes")
                .help("remove `engine`, or `tls`");
        }
    }
}

fn report_without_tls(written: &Written<file::Listener>, problems: &mut Problems) {
    for (key, span) in &written.keys_given {
        if ONLY_WITH_TLS.contains(key) {
            problems
                .error(span.clone(), format!("`{key}` means nothing without `tls`"))
                .help(
                    "add `tls = { certificate = \"cert.pem\", key = \"key.pem\" }`, or remove it",
                );
        }
    }
}

/// The value of `Strict-Transport-Security` (RFC 6797 section 6.1).
pub fn hsts(written: &Written<file::Listener>, problems: &mut Problems) -> Option<String> {
    let value = written.hsts.refine("a value of `hsts`", problems, |text| {
        if let Ok(time) = values::time(text) {
            return Ok(format!("max-age={}", time.as_secs()));
        }
        let is_text = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        let has_age = (text.split(';').map(str::trim))
            .filter_map(|directive| {
                directive
                    .to_ascii_lowercase()
                    .strip_prefix("max-age=")
                    .map(str::to_owned)
            })
            .any(|age| !age.is_empty() && age.bytes().all(|byte| byte.is_ascii_digit()));
        match is_text && has_age {
            true => Ok(text.clone()),
            false => Err(
                "write a time such as \"1year\", or \"max-age=31536000; includeSubDomains\""
                    .to_owned(),
            ),
        }
    });
    value.given().map(|value| value.get_ref().clone())
}

/// Where requests are redirected to.
pub fn redirect_port(written: &Written<file::Listener>, problems: &mut Problems) -> Option<u16> {
    let port = written.redirect_to_https.given()?;
    if !written.tls.is_absent() {
        problems
            .error(
                port.span(),
                "clients of this listener come by HTTPS already",
            )
            .help("give `redirect_to_https` to a listener without `tls`, such as that on port 80");
    }
    if let Some(route) = written
        .key("route")
        .filter(|_| written.trusted_proxies.is_absent())
    {
        problems
            .warning(route, "no request reaches these routes: all are redirected")
            .help("remove the routes, or `redirect_to_https`");
    }
    Some(*port.get_ref())
}

/// Problems with a file as a whole are shown where the configuration names it.
pub fn report(found: Faults, place: impl Fn(Part) -> Range<usize>, problems: &mut Problems) {
    for (part, problem) in found {
        problems.add_of_file(problem, place(part));
    }
}
