//! Who may use a transparent listener, for what destinations, and clients that connect to the listener itself.
use super::*;
use crate::support::access_log::Line;

#[test]
fn clients_of_the_listener_itself_are_refused_and_nothing_loops() {
    let Some(bed) = Bed::build() else { return };
    // A route that leads to the listener, by an address that the check does not know.
    let text = SWITCH.to_owned() + &IMAGES.replace("10.2.0.3:80", "10.1.0.1:8080");
    let carrick = bed.carrick(&text);
    for listener in ["10.1.0.1", "[fd00:1::1]"] {
        let said = bed.curl(&format!("-i http://{listener}:8080/"));
        assert!(
            said.starts_with("HTTP/1.1 403 ") && said.contains("This is a transparent proxy"),
            "{said}"
        );
    }
    let said = bed.curl("-i http://10.2.0.2/images/a");
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    // One line for each of the three, one for carrick as its own client.
    assert_eq!(carrick.access_log(4).len(), 4);
    let refused = carrick.metric(&bed, "carrick_refusals_total{reason=\"not_intercepted\"}");
    assert!((refused - 3.0).abs() < 0.5, "{refused}");
}

#[test]
fn allow_and_deny_to_hold_for_original_destinations() {
    let Some(bed) = Bed::build() else { return };
    let rules = "allow = [\"10.1.0.2\", \"fd00::/16\"]\ndeny_to = [\"10.2.0.3\", \"*.bad.example\", \"fd00:2::3\"]\n";
    let carrick = bed.carrick(&(SWITCH.to_owned() + rules + IMAGES));
    let is_refused = |words: &str| {
        let said = bed.curl(&format!("-i {words}"));
        assert!(said.starts_with("HTTP/1.1 403 "), "{words}: {said}");
    };
    is_refused("--interface 10.1.0.3 http://10.2.0.2/");
    is_refused("http://10.2.0.3/");
    is_refused("http://[fd00:2::3]/");
    is_refused("-H Host:www.bad.example http://10.2.0.2/");
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    assert!(bed.curl("http://[fd00:2::2]/").contains(VIA));
    // A route's upstream is the administrator's choice, whatever clients may not reach themselves.
    assert!(
        bed.curl("http://10.2.0.2/images/")
            .contains("server=10.2.0.3 ")
    );
    let statuses: Vec<_> = carrick
        .access_log(7)
        .iter()
        .map(|line| line["status"].clone())
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 4);
}

#[test]
fn an_unreachable_destination_is_reported_to_the_client() {
    let Some(bed) = Bed::build() else { return };
    let text = SWITCH.replace("ports = [80]", "ports = [80, 81]");
    let _carrick = bed.carrick(&text);
    let said = bed.curl("-i http://10.2.0.2:81/");
    assert!(
        said.starts_with("HTTP/1.1 502 ") && said.contains("connect to the server"),
        "{said}"
    );
    // CONNECT is for proxies that clients know.
    let said = bed.curl("-i -X CONNECT --request-target 10.2.0.2:443 http://10.2.0.2/");
    assert!(said.starts_with("HTTP/1.1 405 "), "{said}");
}

#[test]
fn a_cache_behind_the_same_interface_reaches_the_servers_itself() {
    let Some(bed) = Bed::build() else { return };
    // The second client is the cache: its requests are not sent to it again.
    for (mode, next_hop) in [
        (
            "switch",
            "[[listener.route]]\nupstream = \"cache\"\n[upstream.cache]\nservers = [\"10.1.0.3:80\"]\n",
        ),
        ("forward", "parent = { proxy = \"10.1.0.3:80\" }\n"),
        (
            "tunnel",
            "[[listener.route]]\nupstream = \"cache\"\n[upstream.cache]\nservers = [\"10.1.0.3:80\"]\n",
        ),
    ] {
        let carrick = bed.carrick(&(SWITCH.replace("switch", mode) + next_hop));
        let said = bed.curl("--interface 10.1.0.3 http://10.2.0.2/");
        assert!(
            said.contains("server=10.2.0.2 client=10.2.0.1 "),
            "{mode}: {said}"
        );
        // Others are sent there, where nothing listens.
        let outcome = bed.try_curl("-i --interface 10.1.0.2 http://10.2.0.2/");
        assert_eq!(outcome.is_err(), mode == "tunnel", "{outcome:?}");
        let mut lines = carrick.access_log(2).into_iter().map(Line);
        let is_sent_there =
            |line: Line| (line.text("ended"), line.text("server")) == ("connect", "10.1.0.3:80");
        assert!(lines.any(is_sent_there), "{mode}");
    }
}

/// By SYNs that nobody follows up, one client fills it.
#[test]
fn while_the_set_of_recent_syns_is_full_rules_hold_and_others_are_served() {
    const ENTRIES: usize = 131_072;
    let Some(bed) = Bed::build() else { return };
    let rules = "deny_to = [\"10.2.0.3\"]\n";
    let carrick = bed.carrick(&(SWITCH.to_owned() + rules));
    let entries: Vec<String> = (0..ENTRIES)
        .map(|number| {
            let (port, server) = (number % 65_536, 4 + number / 65_536);
            format!("10.1.0.9 . {port} . 10.2.0.{server} . 80 timeout 1h")
        })
        .collect();
    let set = "inet carrick-8080 began-v4";
    let text = format!(
        "flush set {set}\nadd element {set} {{ {} }}\n",
        entries.join(", ")
    );
    let file = bed.write("full.nft", &text).display().to_string();
    bed.router.run("nft", &["-f", &file]).expect("a full set");
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    let said = bed.curl("-i http://10.2.0.3/");
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    assert_eq!(carrick.access_log(2).len(), 2);
}
