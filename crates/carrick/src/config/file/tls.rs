//! TLS to a listener's clients.
use crate::config::keys::NONE;
use crate::config::kinds::{required_text, text_or};
use crate::config::section::section;
use crate::config::setting::Setting;
use crate::config::word::words;

section! {
    /// `tls = { … }`
    #[derive(Debug)]
    pub struct Certificate = "tls = { }" {
        /// A PEM file: the server's certificate, then those that issued it
        certificate: Setting<String> = required_text("a path"),
        /// A PEM file with the certificate's private key, in the form of PKCS#8, SEC1 or PKCS#1
        key: Setting<String> = text_or("a path", "the file of `certificate`"),
        /// A file with the certificate's OCSP response (DER), which clients get with it
        ocsp: Setting<String> = text_or("a path", NONE),
    }
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
