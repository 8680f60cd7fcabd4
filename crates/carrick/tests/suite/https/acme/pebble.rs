//! Pebble, an ACME authority for tests, and a name server that leads every name to the test's address.
use crate::clients::tool::{Running, Tool, has_all};
use crate::https::certificates::{Key, file, issue, make_authority};
use crate::support::output::Output;
use crate::support::place::LISTENER_PORT;
use crate::support::{Carrick, Place, wait_for};
use std::net::{IpAddr, TcpStream};
use std::path::PathBuf;

/// Where the authority looks for answers to `http-01`; those to `tls-alpn-01` are at [`LISTENER_PORT`].
pub const HTTP_PORT: u16 = 15080;

const DIRECTORY_PORT: u16 = 14000;
const MANAGEMENT_PORT: u16 = 15000;
const DNS_PORT: u16 = 18053;
const DNS_MANAGEMENT_PORT: u16 = 18055;

/// How the authority is.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// How long its certificates are valid.
    pub validity_seconds: u64,
    /// How many of a hundred right nonces it refuses.
    pub nonces_refused: u8,
    /// Whether accounts must be bound: to the key in `external.key`.
    pub binds_accounts: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            validity_seconds: 90 * 24 * 3600,
            nonces_refused: 0,
            binds_accounts: false,
        }
    }
}

/// A running authority; its root is in `ca.pem`, and that of its directory in `directory.pem`.
#[derive(Debug)]
pub struct Pebble {
    _names: Running,
    authority: Running,
}

impl Pebble {
    /// Starts it. Names lead to `address`. `None`, with a visible message: it is not installed.
    pub fn start(place: &Place, address: IpAddr, manner: Manner) -> Option<Self> {
        if !has_all(&["pebble", "pebble-challtestsrv", "curl"]) || !make_authority(place) {
            return None;
        }
        let ip = place.ip();
        issue(place, "pebble", &format!("IP:{ip}"), Key::Ec);
        std::fs::copy(file(place, "ca.pem"), file(place, "directory.pem")).expect("a copy");
        let names = Tool::new("pebble-challtestsrv", place)
            .word("-dnsserver")
            .word(format!("{ip}:{DNS_PORT}"))
            .word("-management")
            .word(format!("{ip}:{DNS_MANAGEMENT_PORT}"))
            .word("-defaultIPv4")
            .word(address.to_string())
            .word("-defaultIPv6=")
            .words("-http01= -https01= -tlsalpn01= -doh=")
            .start();
        place.write("pebble.json", &configuration(ip, manner));
        place.write("external.key", EXTERNAL_KEY);
        let authority = Tool::new("pebble", place)
            .words("-config pebble.json -strict -dnsserver")
            .word(format!("{ip}:{DNS_PORT}"))
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0")
            .env("PEBBLE_WFE_NONCEREJECT", manner.nonces_refused.to_string())
            .start();
        for port in [DIRECTORY_PORT, MANAGEMENT_PORT, DNS_MANAGEMENT_PORT] {
            wait_for("the authority", || TcpStream::connect(place.at(port)).ok());
        }
        let root = Tool::new("curl", place)
            .words("--silent --fail --cacert directory.pem")
            .word(format!("https://{ip}:{MANAGEMENT_PORT}/roots/0"))
            .expect();
        place.write("ca.pem", &root);
        Some(Self {
            _names: names,
            authority,
        })
    }
}

impl Pebble {
    /// What it says.
    pub fn out(&self) -> &Output {
        self.authority.out()
    }

    /// Has it answer this when it is asked when to renew the certificate, which is in PEM.
    pub fn suggest(&self, place: &Place, certificate: &str, answer: &str) {
        let text = serde_json::json!({"Certificate": certificate, "ARIResponse": answer});
        place.write("suggestion.json", &text.to_string());
        Tool::new("curl", place)
            .words("--silent --fail --cacert directory.pem --data @suggestion.json")
            .word(format!(
                "https://{}:{MANAGEMENT_PORT}/set-renewal-info/",
                place.ip()
            ))
            .expect();
    }
}

/// The key of the account `kid-1`.
const EXTERNAL_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n";

fn configuration(ip: IpAddr, manner: Manner) -> String {
    serde_json::json!({"pebble": {
        "listenAddress": format!("{ip}:{DIRECTORY_PORT}"),
        "managementListenAddress": format!("{ip}:{MANAGEMENT_PORT}"),
        "certificate": "pebble.pem",
        "privateKey": "pebble.key",
        "httpPort": HTTP_PORT,
        "tlsPort": LISTENER_PORT,
        "externalAccountBindingRequired": manner.binds_accounts,
        "externalAccountMACKeys": {"kid-1": EXTERNAL_KEY.trim()},
        "retryAfter": {"authz": 0, "order": 0},
        "profiles": {"default": {"description": "", "validityPeriod": manner.validity_seconds}},
    }})
    .to_string()
}

/// The URL of the authority's directory.
pub fn directory(place: &Place) -> String {
    format!("https://{}:{DIRECTORY_PORT}/dir", place.ip())
}

/// `[acme]` with this authority, and these keys.
pub fn acme_text(place: &Place, keys: &str) -> String {
    format!(
        "[acme]\ndirectory = \"{}\"\nca = \"directory.pem\"\nstorage = \"kept/acme\"\n{keys}\n",
        directory(place)
    )
}

/// A listener that leads to HTTPS.
pub fn redirecting() -> String {
    format!(
        "[[listener]]\nlisten = \"{{ip}}:{HTTP_PORT}\"\nmode = \"switch\"\nredirect_to_https = {LISTENER_PORT}\n"
    )
}

/// The folder of what the authority has issued.
pub fn folder(place: &Place) -> PathBuf {
    let name = format!("{}-{DIRECTORY_PORT}-dir", place.ip());
    place.directory().join("kept/acme").join(name)
}

/// Waits for so many certificates.
pub fn wait_for_issued(carrick: &Carrick, count: f64) {
    carrick.wait_for_metric("carrick_acme_orders_total", &["result=\"issued\""], count);
}

/// Attempts that failed.
pub fn failed(carrick: &Carrick) -> f64 {
    carrick.metric("carrick_acme_orders_total", &["result=\"failed\""])
}
