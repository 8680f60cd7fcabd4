//! TLS to an ACME directory.
use super::clients::authorities;
use super::pem::whole;
use crate::config::problem::Problem;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// Verifies the directory by the authorities in a file, or by those of the system.
///
/// # Errors
/// There are none.
pub fn client_config(ca: Option<&Path>) -> Result<ClientConfig, Box<Problem>> {
    let roots = match ca {
        Some(ca) => authorities(ca, "CA", "the directory")?.0,
        None => system()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Box::new(super::impossible(&error)))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn system() -> Result<RootCertStore, Box<Problem>> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken > 0 {
        return Ok(roots);
    }
    let why = (found.errors.first()).map_or_else(String::new, |error| format!(": {error}"));
    Err(whole(
        format!("this system has no certificate authorities{why}"),
        "install ca-certificates, or name the directory's authority: `ca = \"ca.pem\"`",
    ))
}
