//! What the kernel holds for the sockets of a namespace.

use anyhow::Result;

use crate::testbed::namespace::Namespace;

/// Memory of the TCP sockets in a namespace, as the kernel accounts for it, in bytes.
///
/// # Errors
/// When the namespace is gone, or ss(8) fails.
pub fn sockets_of(namespace: &Namespace) -> Result<u64> {
    let text = namespace.run("ss", &["-H", "-t", "-a", "-n", "-m"])?;
    Ok(socket_bytes(&text))
}

/// The sum over `skmem:(r0,rb131072,t0,tb87040,f4096,w0,o0,bl0,d0)`: received (r), reserved (f), written (w) and in the
/// backlog (bl). What is reserved may be less than nothing for a moment, and ss(8) shows it without its sign.
fn socket_bytes(text: &str) -> u64 {
    let sum: i64 = text
        .split("skmem:(")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .flat_map(|fields| fields.split(','))
        .filter_map(|field| {
            let digits = field.find(|letter: char| letter.is_ascii_digit())?;
            let (name, value) = field.split_at(digits);
            let value: u32 = value.parse().ok()?;
            matches!(name, "r" | "f" | "w" | "bl").then(|| i64::from(value.cast_signed()))
        })
        .sum();
    u64::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests;
