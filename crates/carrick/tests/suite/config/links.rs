//! Links: which routes use them, and the defaults of a far end.
use super::parse_right;
use carrick::config::plan::{Handshake, Mode};

const LINK: &str = "[link.l]\npeer = \"192.0.2.7:4140\"\n[[listener]]\nlisten = \"[::]:3130\"\nmode = \"split\"\nintercept = { ports = [80], from = \"10.0.0.0/8\" }\nlink = \"l\"\n";

fn links(keys: &str) -> Vec<Option<usize>> {
    let loaded = parse_right(&format!("{LINK}{keys}"));
    let routes = loaded.plan.listeners[0].mode.routes();
    routes.iter().map(|route| route.link).collect()
}

#[test]
fn what_goes_to_its_original_destination_goes_over_the_listeners_link() {
    assert_eq!(links(""), [Some(0)]);
    assert_eq!(
        links("[[listener.route]]\nsni = \"a\"\nto = \"original\"\n"),
        [Some(0), Some(0)]
    );
    assert_eq!(
        links("[[listener.route]]\nsni = \"a\"\nto = \"original\"\nlink = \"\"\n"),
        [None, Some(0)]
    );
    assert_eq!(
        links("[[listener.route]]\nsni = \"a\"\nto = \"original\"\nsplit = \"never\"\n"),
        [None, Some(0)]
    );
    assert_eq!(
        links(
            "[upstream.u]\nservers = \"10.0.0.1:443\"\n[[listener.route]]\nsni = \"a\"\nupstream = \"u\"\n"
        ),
        [None, Some(0)]
    );
}

#[test]
fn clients_are_answered_at_once_where_there_is_a_link() {
    let loaded = parse_right(LINK);
    assert_eq!(loaded.plan.listeners[0].handshake, Handshake::AtOnce);
    assert!(loaded.problems.is_empty());
    let link = &loaded.plan.links[0];
    assert_eq!((link.connections, link.preconnect), (16, 4));
    let few = LINK.replace("4140\"", "4140\"\nconnections = 2");
    assert_eq!(parse_right(&few).plan.links[0].preconnect, 2);
}

#[test]
fn a_far_end_does_not_connect_to_its_own_machine_unless_told_to() {
    let far = "[[listener]]\nlisten = \"127.0.0.1:4140\"\nmode = \"link\"\nallow = \"10.0.0.1\"\n";
    let listener = |keys: &str| parse_right(&format!("{far}{keys}")).plan.listeners[0].clone();
    let plain = listener("");
    assert!(matches!(plain.mode, Mode::Link(_)));
    assert!(plain.interception.is_none());
    for (address, is_denied) in [("127.0.0.1", true), ("::1", true), ("192.0.2.1", false)] {
        let checked = plain
            .access
            .check_address(address.parse().expect("an address"));
        assert_eq!(checked.is_err(), is_denied, "{address}");
    }
    let anywhere = listener("deny_to = []");
    assert!(
        anywhere
            .access
            .check_address("::1".parse().expect("an address"))
            .is_ok()
    );
    let keeping = listener("keep_client_address = true");
    let interception = keeping.interception.as_ref().expect("rules for answers");
    assert!(interception.keeps_client && interception.ports.is_empty());
    assert!(
        interception.takes_v4() && interception.takes_v6(),
        "servers of both families"
    );
}
