//! TLS to an ACME directory.
use super::clients::{authorities, system_authorities};
use crate::config::problem::Problem;
use rustls::ClientConfig;
use rustls::crypto::ring;
use std::path::Path;
use std::sync::Arc;

/// Verifies the directory by the authorities in a file, or by those of the system.
///
/// # Errors
/// There are none.
pub fn client_config(ca: Option<&Path>) -> Result<ClientConfig, Box<Problem>> {
    let roots = match ca {
        Some(ca) => authorities(ca, "CA", "the directory")?.0,
        None => system_authorities()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Box::new(super::impossible(&error)))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
