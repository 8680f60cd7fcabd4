//! Meaning of a valid file: safe defaults, words that are close to others, paths.
use super::mistakes::FORWARD;
use super::{examples, parse_right};
use carrick::config;
use carrick::config::plan::Mode;

#[test]
fn an_open_forward_proxy_does_not_reach_its_own_machine_and_link() {
    let with = |extra: &str| {
        let text = format!(
            "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\nallow = \"10.0.0.0/8\"\n{extra}"
        );
        parse_right(&text).plan.listeners[0].access.clone()
    };
    for address in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "169.254.169.254",
        "::1",
        "::",
        "fe80::1",
        "::ffff:127.0.0.1",
        "fd00:ec2::254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
    ] {
        let address = address.parse().expect("an address");
        assert!(
            with("").check_address(address).is_err(),
            "{address} is denied by default"
        );
        assert!(
            with("deny_to = [\"inner\", \"*.bad.example\"]")
                .check_address(address)
                .is_err(),
            "{address} is denied beside names"
        );
        assert!(
            with("deny_to = []").check_address(address).is_ok(),
            "{address} is allowed by the user"
        );
    }
    let named_inner = with("deny_to = \"inner.\"");
    assert!(named_inner.check_name(b"inner", 80, false).is_err());
    assert!(named_inner.deny_networks.is_empty());
    for address in ["192.0.2.1", "10.0.0.1", "2001:db8::1"] {
        assert!(
            with("")
                .check_address(address.parse().expect("an address"))
                .is_ok(),
            "{address}"
        );
    }
}

#[test]
fn connect_ports_none_is_not_all() {
    let with = |ports: &str| {
        parse_right(&format!("{FORWARD}connect_ports = {ports}"))
            .plan
            .listeners[0]
            .access
            .clone()
    };
    for (ports, https, ssh) in [
        ("[443]", true, false),
        ("\"all\"", true, true),
        ("\"none\"", false, false),
        ("[]", false, false),
    ] {
        let access = with(ports);
        assert_eq!(
            access.check_name(b"a.example", 443, true).is_ok(),
            https,
            "{ports}"
        );
        assert_eq!(
            access.check_name(b"a.example", 22, true).is_ok(),
            ssh,
            "{ports}"
        );
    }
}

#[test]
fn a_password_opens_a_forward_proxy_beyond_loopback() {
    let text =
        "[[listener]]\nlisten = \"0.0.0.0:3128\"\nmode = \"forward\"\nusers = \"users.htpasswd\"";
    let loaded = parse_right(text);
    assert!(loaded.problems.is_empty());
    let Mode::Forward(forward) = &loaded.plan.listeners[0].mode else {
        panic!("not a forward proxy")
    };
    assert_eq!(forward.users.as_ref().map(|users| users.count()), Some(1));
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::copy(
        examples().join("users.htpasswd"),
        directory.path().join("people"),
    )
    .expect("a copy");
    let file = directory.path().join("carrick.toml");
    std::fs::write(
        &file,
        format!("[log]\naccess = \"access.log\"\n{FORWARD}users = \"people\""),
    )
    .expect("a file");
    let loaded = config::load(Some(&file)).expect("a right file");
    assert_eq!(
        loaded.plan.log.access,
        config::plan::LogTarget::File(directory.path().join("access.log"))
    );
}
