//! Transparent listeners on a real router: a client, a router with carrick, and servers, each in a network namespace.
mod access;
pub mod bed;
mod crashes;
mod load;
mod neighbours;
mod privileges;
mod reloads;
mod requests;
mod server_first;
mod spoofing;
mod tunnels;

use bed::Bed;

/// A transparent switch for port 80 and both families, to which routes can be appended.
const SWITCH: &str = "[[listener]]\nlisten = \"[::]:8080\"\nmode = \"switch\"\ntransparent = true\nintercept = { ports = [80], interfaces = [\"eth1\"] }\n";

/// Pictures go to another server.
const IMAGES: &str = "[[listener.route]]\npath = \"/images/\"\nupstream = \"images\"\n[upstream.images]\nservers = [\"10.2.0.3:80\"]\n";

/// nginx's output for a request through carrick.
const VIA: &str = "via=1.1 carrick ";
