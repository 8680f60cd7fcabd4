//! TCP profiles: which connections have them, on both sides.
use super::*;

/// The congestion control of the router's connections with `peer`.
fn controls(bed: &Bed, peer: &str) -> Vec<String> {
    let text = bed
        .router
        .run("ss", &["-Htinm", "state", "established", "dst", peer])
        .expect("connections");
    // A line for the connection, and one that begins with the congestion control after the buffers.
    text.split_whitespace()
        .filter(|word| [SYSTEM, "bbr", "cubic"].contains(word))
        .map(str::to_owned)
        .collect()
}

/// The congestion control of connections without a profile.
const SYSTEM: &str = "reno";

/// Another one that this machine supports.
fn other_control(bed: &Bed) -> Option<&'static str> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let text = bed.router.inside(|| Ok(std::fs::read_to_string(path)?));
    let text = text.expect("a parameter");
    let found = ["bbr", "cubic"]
        .into_iter()
        .find(|name| text.contains(name));
    if found.is_none() {
        carrick_test::lacks!("the only congestion control is {text}");
    }
    found
}

#[test]
fn each_side_has_the_profile_that_rules_choose() {
    let Some(bed) = Bed::build() else { return };
    let Some(control) = other_control(&bed) else {
        return;
    };
    let text = format!(
        "{SPLIT}tcp_profiles = [
  {{ side = \"server\", subnet = \"10.2.0.3\", profile = \"other\" }},
  {{ side = \"server\", rtt_above = \"10s\", profile = \"other\" }},
  {{ side = \"client\", interface = \"eth2\", profile = \"other\" }},
  {{ side = \"client\", interface = \"eth1\", profile = \"far\" }},
]
[tcp_profile.far]\ncongestion = \"{control}\"\n[tcp_profile.other]\ncongestion = \"{control}\"\n"
    );
    bed.router
        .set_parameter("net/ipv4/tcp_congestion_control", SYSTEM)
        .expect("a parameter");
    let carrick = bed.carrick(&text);
    for (address, client, server) in [
        ("10.2.0.2:9000", control, SYSTEM),
        ("10.2.0.3:9000", control, control),
        ("[fd00:2::2]:9000", control, SYSTEM),
    ] {
        let listener = listen(&bed, address);
        let (mut near, mut far) = pair(&bed, &listener);
        talk(&mut near, &mut far);
        let host = |address: SocketAddr| match address {
            SocketAddr::V4(_) => address.ip().to_string(),
            SocketAddr::V6(_) => format!("[{}]", address.ip()),
        };
        let of_client = controls(&bed, &host(near.local_addr().unwrap()));
        let of_server = controls(&bed, &host(far.local_addr().unwrap()));
        assert_eq!(
            (of_client, of_server),
            (vec![client.to_owned()], vec![server.to_owned()]),
            "{address}"
        );
    }
    drop(carrick);
}

#[test]
fn unsupported_settings_of_a_profile_are_reported_at_start() {
    let Some(bed) = Bed::build() else { return };
    let text = format!(
        "{SPLIT}tcp_profiles = {{ profile = \"p\" }}\n[tcp_profile.p]\ncongestion = \"nosuch\"\n"
    );
    let carrick = bed.carrick(&text);
    let said = carrick.said.text();
    assert!(
        said.contains("[tcp_profile.p]: ") && said.contains("nosuch"),
        "{said}"
    );
}
