//! Certificates that an authority issues to carrick (ACME, RFC 8555).
use crate::config::keys::NONE;
use crate::config::kinds::{one_of_or, required_text, table_or, text, text_or};
use crate::config::section::{Written, section};
use crate::config::setting::Setting;
use crate::config::word::words;
use toml::Spanned;

/// The authority if none is named: Let's Encrypt.
pub const DIRECTORY_DEFAULT: &str = "https://acme-v02.api.letsencrypt.org/directory";

section! {
    /// `[acme]`
    #[derive(Debug)]
    pub struct Acme = "[acme]" {
        /// An address that the authority may write to. Let's Encrypt uses none
        email: Setting<String> = text_or("an address", NONE),
        /// The authority's ACME directory
        directory: Spanned<String> = text("a URL", DIRECTORY_DEFAULT),
        /// The folder of account and certificates, which several processes may share; it is made if it does not exist
        storage: Setting<String> = text_or("a path", "`acme` in the [state folder](modes/acme.md#where-they-are-kept)"),
        /// A PEM file with the authority that issued the directory's own certificate, for an authority of your own
        ca: Setting<String> = text_or("a path", "the system's authorities"),
        /// The only challenge to use: `http-01` (at port 80) or `tls-alpn-01` (at port 443)
        challenge: Setting<ChallengeKind> = one_of_or("what listeners allow; if one fails, the other is next"),
        /// Binds the account to one that you have with the authority, if it demands that
        external_account: Setting<Written<ExternalAccount>> = table_or(NONE),
    }
}

section! {
    /// `external_account = { … }`
    #[derive(Debug)]
    pub struct ExternalAccount = "external_account = { }" {
        /// The key's identifier
        id: Setting<String> = required_text("a text"),
        /// A file with the key, in Base64url, as the authority shows it
        key: Setting<String> = required_text("a path"),
    }
}

/// How an authority is shown that a name is carrick's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// By an HTTP response at port 80 (RFC 8555 section 8.3).
    Http01,
    /// By a TLS handshake at port 443 (RFC 8737).
    TlsAlpn01,
}

words!(ChallengeKind { "http-01" => Http01, "tls-alpn-01" => TlsAlpn01 });
