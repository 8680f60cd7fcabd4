//! Names and messages. tests/suite tests the kernel's behaviour with the whole program.
use super::*;

fn given_up(capabilities: CapabilitySet, changed_user: bool) -> GivenUp {
    GivenUp {
        capabilities,
        changed_user,
        identity: Identity {
            user: "carrick".to_owned(),
            uid: 998,
            gid: 998,
            groups: vec![998],
            capabilities: Vec::new(),
            no_new_privileges: true,
            sandbox: Sandboxed::off("a test"),
        },
    }
}

#[test]
fn capabilities_have_the_names_of_the_manual() {
    let set = ENGINE | CapabilitySet::NET_BIND_SERVICE | CapabilitySet::from_bits_retain(1 << 63);
    let expected = [
        "CAP_NET_BIND_SERVICE",
        "CAP_NET_ADMIN",
        "CAP_PERFMON",
        "CAP_BPF",
        "capability 63",
    ];
    assert_eq!(names(set), expected);
    assert!(names(CapabilitySet::empty()).is_empty());
}

#[test]
fn a_refusal_says_what_is_gone_only_where_something_is() {
    let refused = io::Error::from(io::ErrorKind::PermissionDenied);
    let other = io::Error::from(io::ErrorKind::AddrInUse);
    let of_root = given_up(CapabilitySet::all(), true);
    let said = of_root.explain(&refused);
    assert!(said.contains("carrick, without capabilities"), "{said}");
    assert!(said.contains("restart"), "{said}");
    assert_eq!(of_root.explain(&other), other.to_string());
    // A restart restores nothing to a process that had no privileges.
    let unprivileged = given_up(CapabilitySet::empty(), false);
    assert_eq!(unprivileged.explain(&refused), refused.to_string());
    assert!(!unprivileged.is_something() && of_root.is_something());
}

#[test]
fn dropped_engine_privileges_are_remembered() {
    assert!(given_up(ENGINE, false).has_engine());
    let before_linux_5_8 = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    assert!(given_up(before_linux_5_8, false).has_engine());
    assert!(!given_up(ENGINE - CapabilitySet::BPF, true).has_engine());
}

#[test]
fn this_process_has_a_standing() {
    let identity = Identity::read().expect("read credentials");
    assert_eq!(identity.uid, rustix::process::geteuid().as_raw());
    let shown = identity.to_string();
    assert!(shown.starts_with(&identity.user), "{shown}");
}
