//! Checks networks, and names of interfaces.
use crate::config::problem::Problems;
use crate::config::values;
use ipnet::IpNet;
use toml::Spanned;

/// The kernel's limit on the name of an interface, without its final zero (`IFNAMSIZ`).
pub const INTERFACE_BYTES_MAX: usize = 15;

/// The networks of a list; `None` if one of them is wrong.
pub fn networks(list: &[Spanned<String>], problems: &mut Problems) -> Option<Vec<IpNet>> {
    let mut networks = Vec::with_capacity(list.len());
    for text in list {
        match values::network(text.get_ref()) {
            Ok(network) => networks.push(network),
            Err(help) => {
                problems
                    .error(text.span(), "this is not a network")
                    .help(help);
            }
        }
    }
    (networks.len() == list.len()).then_some(networks)
}

/// Whether an interface can have this name.
pub fn is_interface(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte);
    (1..=INTERFACE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_part)
}
