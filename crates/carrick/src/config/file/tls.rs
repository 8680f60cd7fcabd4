//! TLS to a listener's clients, and to servers.
use crate::config::keys::{Form, NONE};
use crate::config::kinds::{Texts, one_of_or, switch, text_or, texts};
use crate::config::problem::Problems;
use crate::config::reader::{Section, wrong_kind};
use crate::config::section::{Keys, Written, section};
use crate::config::setting::Setting;
use crate::config::tls::Minimum;
use crate::config::word::words;
use toml::Spanned;
use toml::de::DeValue;

section! {
    /// `tls = { … }`
    #[derive(Debug)]
    pub struct Certificate = "tls = { }" {
        /// A PEM file: the server's certificate, then those that issued it
        certificate: Setting<String> = text_or("a path", "required without `acme`"),
        /// A PEM file with the certificate's private key, in the form of PKCS#8, SEC1 or PKCS#1
        key: Setting<String> = text_or("a path", "the file of `certificate`"),
        /// A file with the certificate's OCSP response (DER), which clients get with it
        ocsp: Setting<String> = text_or("a path", NONE),
        /// Names for which the authority of `[acme]` issues a certificate each, instead of a file
        acme: Setting<Texts> = texts("names", NONE),
    }
}

/// `tls`
#[derive(Debug)]
pub enum ListenerTls {
    /// `"acme"`: certificates for the hosts of the routes.
    OfHosts,
    /// These.
    Certificates(Vec<Written<Certificate>>),
}

/// `client_certificate`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Clients without one are refused.
    Required,
    /// Clients may present one.
    Optional,
}

words!(ClientCertificate { "required" => Required, "optional" => Optional });

pub(super) fn tls(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<ListenerTls> {
    if let Some(value) = table.raw(key)
        && let DeValue::String(text) = value.get_ref()
    {
        if text == "acme" {
            return Setting::Given(Spanned::new(value.span(), ListenerTls::OfHosts));
        }
        problems
            .error(value.span(), format!("`tls` cannot be \"{text}\""))
            .help("write `tls = { certificate = \"cert.pem\", key = \"key.pem\" }`, or `tls = \"acme\"`");
        return Setting::Wrong;
    }
    let tables = table.table_list(key, Certificate::TABLE, problems);
    tables.map(|tables| {
        let read = |inner| Written::of(inner, problems);
        ListenerTls::Certificates(tables.iter().map(read).collect())
    })
}

section! {
    /// `tls = { … }` of servers
    #[derive(Debug)]
    pub struct ServerTls = "tls = { } of servers" {
        /// A PEM file with the authorities that issue the servers' certificates, or with such certificates themselves
        ca: Setting<String> = text_or("a path", "the system's authorities"),
        /// A file with a revocation list (CRL) of each of these authorities: PEM, or one list in DER
        crl: Setting<String> = text_or("a path", "revocation is not checked"),
        /// The name that is asked for (SNI), and that the servers' certificates must have
        server_name: Setting<String> = text_or("a name or address", "each server's own, as it is written"),
        /// A PEM file with the certificate that is presented to servers that ask for one, then those that issued it
        certificate: Setting<String> = text_or("a path", NONE),
        /// A PEM file with the certificate's private key
        key: Setting<String> = text_or("a path", "the file of `certificate`"),
        /// The oldest version of TLS that servers may speak
        minimum: Setting<Minimum> = one_of_or("1.2"),
        /// Any certificate will do: whoever is between carrick and the servers can read and change everything
        insecure: bool = switch(false),
    }
}

/// What is said about it where it is a key.
pub const SERVER_TLS: &str = "`true`, or `{ ca, … }`";

/// TLS to servers; `None`: none.
pub fn server_tls(
    table: &Section<'_>,
    key: &'static str,
    _: Form,
    problems: &mut Problems,
) -> Setting<Option<Written<ServerTls>>> {
    let Some(value) = table.raw(key) else {
        return Setting::Absent;
    };
    let section = match value.get_ref() {
        DeValue::Boolean(false) => None,
        DeValue::Boolean(true) => Some(Section::empty(ServerTls::TABLE, value.span())),
        DeValue::Table(_) => match table.inner(value, ServerTls::TABLE, problems) {
            Some(section) => Some(section),
            None => return Setting::Wrong,
        },
        _ => return wrong_kind(value, key, SERVER_TLS, problems),
    };
    let written = section.map(|section| Written::of(&section, problems));
    Setting::Given(Spanned::new(value.span(), written))
}
