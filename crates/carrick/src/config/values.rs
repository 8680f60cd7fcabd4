//! Single values as the file writes them: sizes, times, addresses, host and port.
use carrick_logic::access::unmapped;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Host (name or address literal) and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ServerAddress {
    Ip(SocketAddr),
    Name { host: String, port: u16 },
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip(address) => write!(out, "{address}"),
            Self::Name { host, port } => write!(out, "{host}:{port}"),
        }
    }
}

/// Bytes: `"64 KB"`, `"512 KiB"`, `"1 MB"`, `"4096"`. As in other proxies a KB is 1024 bytes, and so is a KiB.
///
/// # Errors
/// Says what would be right.
pub fn size(text: &str) -> Result<u64, String> {
    parse_size::Config::new()
        .with_binary()
        .parse_size(text.trim())
        .map_err(|_| match text.trim().strip_suffix("/s") {
            Some(bytes) => format!("sizes are written without a time, also where they are for each second; write \"{bytes}\""),
            None => "write a number of bytes, or \"64 KB\", \"1 MB\"".to_owned(),
        })
}

/// Bytes per second: `"10 MB/s"`, or without the time, `"10 MB"`. A KB is 1024 bytes, as in [`size`].
///
/// # Errors
/// Says what would be right; with bits, how many bytes they are.
pub fn rate(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = split_number(text);
    if let Some(bits) = bits_per_second(unit) {
        // As everywhere in networks a kilobit is 1000 bits.
        let bytes = number.parse::<f64>().map(|number| number * bits / 8.0);
        return Err(match bytes {
            Ok(bytes) if bytes.is_finite() => format!(
                "rates are bytes, not bits; write \"{bytes:.0}/s\" for as many bytes as that is"
            ),
            _ => RATE_HELP.to_owned(),
        });
    }
    let bytes = match unit.split_once('/') {
        None => text,
        Some((size, "s")) => {
            let prefix = size.trim_end().strip_suffix('b');
            if let Some(prefix) = prefix.filter(|prefix| prefix.len() == 1) {
                let unit = prefix.to_uppercase();
                return Err(format!(
                    "a small \"b\" often stands for bits; write \"{number} {unit}B/s\" for bytes, \"{number} {unit}bit/s\" to be told how many bytes these bits are"
                ));
            }
            text.trim_end_matches("/s").trim_end()
        }
        Some((size, "sec" | "second")) => {
            return Err(format!("write \"{number} {}/s\"", size.trim()));
        }
        Some(_) => {
            return Err(
                "rates are for each second; say what it is in one, such as \"10 MB/s\"".to_owned(),
            );
        }
    };
    size(bytes).map_err(|_| RATE_HELP.to_owned())
}

const RATE_HELP: &str = "write a number of bytes per second, or \"64 KB/s\", \"10 MB/s\"";

/// Digits and points, and what comes after them without the spaces between.
fn split_number(text: &str) -> (&str, &str) {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let end = text.find(|letter| !is_number(letter));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    (number, unit.trim_start())
}

/// How many bits per second the unit is, if it is one of bits.
fn bits_per_second(unit: &str) -> Option<f64> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, rest) = match unit.chars().next()? {
        'k' => (1e3, &unit[1..]),
        'm' => (1e6, &unit[1..]),
        'g' => (1e9, &unit[1..]),
        _ => (1.0, &*unit),
    };
    let is_bits = matches!(rest, "bit" | "bits" | "bps") || {
        let per = rest.strip_suffix("/s").or(rest.strip_suffix("/sec"));
        per.is_some_and(|bits| matches!(bits, "bit" | "bits"))
    };
    is_bits.then_some(prefix)
}

/// A time: `"500ms"`, `"10s"`, `"1m30s"`, `"1h"`.
///
/// # Errors
/// Says what would be right.
pub fn time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim()).map_err(|_| {
        "write a number with its unit: \"500ms\", \"10s\", \"1m30s\", \"1h\"".to_owned()
    })
}

/// A size as the file would write it.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (1 << 50, "PB"),
        (1 << 40, "TB"),
        (1 << 30, "GB"),
        (1 << 20, "MB"),
        (1 << 10, "KB"),
    ];
    match UNITS
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("\"{} {name}\"", bytes / unit),
        None => bytes.to_string(),
    }
}

/// A time as the file would write it.
#[must_use]
pub fn show_time(time: Duration) -> String {
    format!(
        "\"{}\"",
        humantime::format_duration(time)
            .to_string()
            .replace(' ', "")
    )
}

/// An address to listen on.
///
/// # Errors
/// Says what would be right.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Err(format!(
            "the port is missing; write \"{}\"",
            SocketAddr::new(address.into(), 8080)
        ));
    }
    if let Some(port) = text
        .strip_prefix(':')
        .or(Some(text))
        .and_then(|port| port.parse::<u16>().ok())
    {
        return Err(format!(
            "the address is missing; write \"0.0.0.0:{port}\" for all of IPv4, \"[::]:{port}\" for IPv6, too, or \"127.0.0.1:{port}\" for this machine only"
        ));
    }
    if let Some(address) = unbracketed(text, 8080) {
        return Err(format!("IPv6 addresses need brackets; write \"{address}\""));
    }
    if let Some(port) = text
        .strip_prefix("localhost:")
        .or_else(|| text.strip_prefix("*:"))
    {
        let address = if text.starts_with('*') {
            "0.0.0.0"
        } else {
            "127.0.0.1"
        };
        return Err(format!(
            "this must be an address, not a name; write \"{address}:{port}\""
        ));
    }
    Err("write an address and a port, such as \"0.0.0.0:8080\", \"[::]:8080\" or \"127.0.0.1:3128\"".to_owned())
}

/// Host and port of a server; without a port, `default_port`.
///
/// # Errors
/// Says what would be right.
pub fn server_address(text: &str, default_port: Option<u16>) -> Result<ServerAddress, String> {
    if let Some((scheme, rest)) = text.split_once("://") {
        let rest = rest.split('/').next().unwrap_or_default();
        return Err(format!(
            "only host and port belong here, without \"{scheme}://\"; write \"{rest}\""
        ));
    }
    if let Some((host, path)) = text.split_once('/') {
        return Err(format!(
            "only host and port belong here, without \"/{path}\"; write \"{host}\""
        ));
    }
    if let Some(address) = unbracketed(text, 80) {
        return Err(format!("IPv6 addresses need brackets; write \"{address}\""));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match (port, default_port) {
        (Some(port), _) => read_port(port)?,
        (None, Some(port)) => port,
        (None, None) => {
            return Err(format!(
                "the port is missing; write \"{host}:443\" or whatever the server listens on"
            ));
        }
    };
    if let Some(inner) = host.strip_prefix('[') {
        let address = inner
            .strip_suffix(']')
            .and_then(|inner| inner.parse::<Ipv6Addr>().ok());
        let address = address.ok_or("what is in brackets is not an IPv6 address")?;
        return Ok(ServerAddress::Ip(SocketAddr::new(address.into(), port)));
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(ServerAddress::Ip(SocketAddr::new(address, port)));
    }
    Ok(ServerAddress::Name {
        host: host_name(host)?,
        port,
    })
}

/// A host name, in small letters and without a final dot (RFC 1123 section 2.1; an underscore is let through, as resolvers do).
///
/// # Errors
/// Says what would be right.
pub fn host_name(text: &str) -> Result<String, String> {
    const NAME_BYTES_MAX: usize = 253;
    const LABEL_BYTES_MAX: usize = 63;
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() {
        return Err("the host is missing; write \"host:port\"".to_owned());
    }
    if !name.is_ascii() {
        return Err("only ASCII is possible here; write the name in its \"xn--\" form".to_owned());
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_BYTES_MAX
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if name.len() > NAME_BYTES_MAX || !name.split('.').all(is_label) {
        return Err(
            "this is neither a host name nor an address; names are letters, digits, \"-\" and dots"
                .to_owned(),
        );
    }
    // A last label of digits only is an address that went wrong (RFC 1123 section 2.1, WHATWG URL).
    if name
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return Err(
            "this looks like an IPv4 address and is not one, which would be four numbers from 0 to 255"
                .to_owned(),
        );
    }
    Ok(name.to_ascii_lowercase())
}

/// A network (`10.0.0.0/8`) or a single address; of IPv4 also where it is written as one of IPv6 (`::ffff:10.0.0.0/104`).
///
/// # Errors
/// Says what would be right.
pub fn network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(unmapped(&IpNet::from(address)));
    }
    let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
    let is_padded = |number: &str| {
        number.len() > 1
            && number.starts_with('0')
            && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !address.contains(':') && address.split('.').chain([prefix]).any(is_padded) {
        return Err(
            "a number begins with 0, which some programs read as octal; write it without"
                .to_owned(),
        );
    }
    // The parser of networks is less strict than that of addresses.
    let network = (text.parse::<IpNet>().ok())
        .filter(|_| address.parse::<IpAddr>().is_ok())
        .ok_or("write a network or an address, such as \"10.0.0.0/8\", \"2001:db8::/32\" or \"192.0.2.7\"")?;
    if network.trunc() != network {
        return Err(format!(
            "the address has bits beyond its prefix; write \"{}\" for the network, or \"{}\" for the one address",
            network.trunc(),
            network.addr()
        ));
    }
    Ok(unmapped(&network))
}

/// Whether the text is meant as an address or network rather than as a name.
#[must_use]
pub fn looks_like_network(text: &str) -> bool {
    text.contains('/')
        || text.contains(':')
        || text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A name of the file's author's choice that becomes a label of metrics and a word of log lines.
///
/// # Errors
/// Says what would be right.
pub fn plain_name(text: &str) -> Result<(), String> {
    const NAME_BYTES_MAX: usize = 64;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > NAME_BYTES_MAX || !text.bytes().all(is_plain) {
        return Err(format!(
            "up to {NAME_BYTES_MAX} letters, digits, \"-\", \"_\" and \".\""
        ));
    }
    Ok(())
}

/// A token of RFC 9110 section 5.6.2: a method, a field's name.
#[must_use]
pub fn is_token(text: &str) -> bool {
    const PUNCTUATION: &[u8] = b"!#$%&'*+-.^_`|~";
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || PUNCTUATION.contains(&byte))
}

/// A piece of a field's value: visible ASCII and spaces inside.
#[must_use]
pub fn is_field_value(text: &str) -> bool {
    text.trim() == text && !text.bytes().any(|byte| byte.is_ascii_control())
}

fn read_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a port is a number from 1 to 65535".to_owned()),
        Ok(port) => Ok(port),
    }
}

/// An IPv6 address without brackets, as it should have been written. `2001:db8::31:80` is an address, but with a port more likely.
fn unbracketed(text: &str, default_port: u16) -> Option<String> {
    if text.starts_with('[') || text.matches(':').count() < 2 {
        return None;
    }
    if let Some((address, port)) = text.rsplit_once(':')
        && let (Ok(address), Ok(port)) = (address.parse::<Ipv6Addr>(), port.parse::<u16>())
    {
        return Some(format!("[{address}]:{port}"));
    }
    let address = text.parse::<Ipv6Addr>().ok()?;
    Some(format!("[{address}]:{default_port}"))
}

#[cfg(test)]
mod tests;
