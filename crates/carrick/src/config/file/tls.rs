//! TLS to a listener's clients.
use crate::config::keys::{Form, NONE};
use crate::config::kinds::{Texts, text_or, texts};
use crate::config::problem::Problems;
use crate::config::reader::Section;
use crate::config::section::{Keys, Written, section};
use crate::config::setting::Setting;
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
            .error(value.span(), format!("`tls` cannot be \"{text}\""), "")
            .help("write `tls = { certificate = \"cert.pem\", key = \"key.pem\" }`, or `tls = \"acme\"`");
        return Setting::Wrong;
    }
    let tables = table.table_list(key, Certificate::TABLE, problems);
    tables.map(|tables| {
        let read = |inner| Written::of(inner, problems);
        ListenerTls::Certificates(tables.iter().map(read).collect())
    })
}
