//! Checks what is said of TLS to servers, and reads its certificates.
use super::{path, tls};
use crate::config::file::{self, ServerHttp2};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::tls::{
    Authorities, CertificateFiles, Minimum, Part, Protocols, ServerTls, ServerTlsSettings,
};
use crate::config::values::ServerAddress;
use rustls::pki_types::{IpAddr, ServerName};
use std::path::Path;
use std::sync::Arc;
use toml::Spanned;

/// TLS to these servers of `owner`. `None` if something is wrong with it.
#[expect(clippy::option_option, reason = "wrong, or not wanted")]
pub fn check(
    setting: &Setting<Option<Written<file::ServerTls>>>,
    (owner, http2): (String, ServerHttp2),
    servers: &[Spanned<ServerAddress>],
    directory: &Path,
    problems: &mut Problems,
) -> Option<Option<Arc<ServerTls>>> {
    let given = match setting {
        Setting::Wrong => return None,
        Setting::Absent => return Some(None),
        Setting::Given(given) => given,
    };
    let Some(written) = given.get_ref() else {
        return Some(None);
    };
    let names = names(written, servers, problems);
    let authorities = authorities(written, directory, problems);
    let certificate = certificate(written, directory, problems);
    let crl = match &written.crl {
        Setting::Wrong => return None,
        Setting::Absent => None,
        Setting::Given(crl) if written.insecure => {
            problems
                .error(
                    crl.span(),
                    "`crl` means nothing with `insecure`: no server is verified",
                )
                .help("remove `insecure`, so that the list counts");
            return None;
        }
        Setting::Given(crl) => Some(path(directory, crl.get_ref())),
    };
    let settings = ServerTlsSettings {
        authorities: authorities?,
        crl,
        certificate: certificate?,
        protocols: match http2 {
            ServerHttp2::Never => Protocols::Http1,
            ServerHttp2::Auto => Protocols::Any,
            ServerHttp2::Always => Protocols::Http2,
        },
        minimum: written
            .minimum
            .given()
            .map_or(Minimum::Tls12, |one| *one.get_ref()),
        names: names?,
    };
    let place = |part| {
        let key = match part {
            Part::Certificate(_) => "certificate",
            Part::Authorities => "ca",
            Part::RevocationLists => "crl",
        };
        written.value(key).unwrap_or_else(|| given.span())
    };
    match ServerTls::load(owner, settings) {
        Ok((made, warnings)) => {
            tls::report(warnings, place, problems);
            Some(Some(Arc::new(made)))
        }
        Err(errors) => {
            tls::report(errors, place, problems);
            None
        }
    }
}

/// The name of each server: `server_name`, or its own.
fn names(
    written: &Written<file::ServerTls>,
    servers: &[Spanned<ServerAddress>],
    problems: &mut Problems,
) -> Option<Vec<ServerName<'static>>> {
    let named = written
        .server_name
        .refine("a server's name", problems, |text| {
            ServerName::try_from(text.trim_end_matches('.').to_owned()).map_err(|_| {
                "write a host name such as \"www.example.org\", or an address".to_owned()
            })
        });
    let one = match named {
        Setting::Wrong => return None,
        Setting::Given(name) => Some(name.into_inner()),
        Setting::Absent => None,
    };
    let of = |server: &Spanned<ServerAddress>| match (&one, server.get_ref()) {
        (Some(name), _) => Some(name.clone()),
        (None, ServerAddress::Ip(address)) => {
            Some(ServerName::IpAddress(IpAddr::from(address.ip())))
        }
        (None, ServerAddress::Name { host, .. }) => {
            let name = ServerName::try_from(host.trim_end_matches('.').to_owned());
            name.map_err(|_| {
                problems
                    .error(server.span(), "a certificate cannot have this name")
                    .help("say which name it has: `tls = { server_name = \"www.example.org\" }`");
            })
            .ok()
        }
    };
    servers.iter().map(of).collect()
}

fn authorities(
    written: &Written<file::ServerTls>,
    directory: &Path,
    problems: &mut Problems,
) -> Option<Authorities> {
    let ca = match &written.ca {
        Setting::Wrong => return None,
        Setting::Absent => None,
        Setting::Given(ca) => Some(ca),
    };
    if !written.insecure {
        return Some(Authorities::of(ca.map(|ca| path(directory, ca.get_ref()))));
    }
    let place = written
        .key("insecure")
        .unwrap_or_else(|| written.span.clone());
    match ca {
        Some(ca) => {
            problems
                .error(ca.span(), "`ca` means nothing with `insecure`: no server is verified")
                .help("remove `insecure`, so that these authorities count");
            return None;
        }
        None => problems
            .warning(place, "servers are not verified: whoever is between can read and change everything")
            .help("name the authority that issues their certificates, or a certificate itself: `ca = \"ca.pem\"`"),
    };
    Some(Authorities::Anybody)
}

/// What is presented. `None` if it is wrong.
#[expect(clippy::option_option, reason = "wrong, or not wanted")]
fn certificate(
    written: &Written<file::ServerTls>,
    directory: &Path,
    problems: &mut Problems,
) -> Option<Option<CertificateFiles>> {
    let certificate = match (&written.certificate, &written.key) {
        (Setting::Wrong, _) | (_, Setting::Wrong) => return None,
        (Setting::Absent, Setting::Absent) => return Some(None),
        (Setting::Absent, Setting::Given(key)) => {
            problems
                .error(key.span(), "`key` means nothing without `certificate`")
                .help("add `certificate = \"client.pem\"`, or remove it");
            return None;
        }
        (Setting::Given(certificate), _) => path(directory, certificate.get_ref()),
    };
    let key = written.key.given();
    Some(Some(CertificateFiles {
        key: key.map_or_else(|| certificate.clone(), |key| path(directory, key.get_ref())),
        ocsp: None,
        acme: None,
        certificate,
    }))
}
