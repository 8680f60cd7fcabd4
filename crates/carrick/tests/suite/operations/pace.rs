//! Pacing for administrators: which class paces what, how classes are shown and changed, and how a reload affects them.
use crate::support::carrick::{PROGRAM, switch_text, tunnel_text};
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Place, Server, wait_until};
use carrick::config::file::PaceClass;
use carrick::config::section::Keys;
use serde_json::Value;
use std::process::{Command, Output};

/// Longer than what is read together with a head.
const LONG: usize = 200_000;

/// A server that answers `/long` with a long body, and everything else with a short one.
fn server(place: &Place) -> Serving {
    Server::listen(place).serve(|peer, _| {
        answer_requests(peer, |head| {
            let length = if head.contains(" /long") { LONG } else { 5 };
            let mut answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
            answer.resize(answer.len() + length, b'x');
            answer
        });
    })
}

fn command(carrick: &Carrick, arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .arg("pace")
        .args(arguments)
        .args(["--admin", &carrick.admin().to_string()])
        .output()
        .expect("carrick")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// One class as admin shows it.
fn class(carrick: &Carrick, name: &str) -> Value {
    let page: Value = serde_json::from_str(&carrick.ask_admin("/pace").text()).expect("JSON");
    let mut classes = page["classes"].as_array().expect("classes").iter();
    let found = classes.find(|class| class["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {page}")).clone()
}

fn wait_for_splices(carrick: &Carrick, name: &str, count: u64) {
    wait_until(&format!("{count} splices of {name}"), || {
        class(carrick, name)["splices"] == count
    });
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")
}

#[test]
fn a_client_has_a_share_of_its_class_from_its_first_long_body_to_its_end() {
    let place = Place::claim();
    let server = server(&place);
    let text = switch_text(&[server.address()])
        .replace("mode =", "pace = \"all\"\nmode =")
        .replace(
            "[[listener.route]]\n",
            "[[listener.route]]\npath = \"/long/own\"\npace = \"own\"\nupstream = \"u\"\n\
             [[listener.route]]\npath = \"/long/free\"\npace = \"\"\nupstream = \"u\"\n[[listener.route]]\n",
        )
        + "[pace.classes.all]\n[pace.classes.own]\n";
    let carrick = Carrick::start(&place, &text);
    let mut client = carrick.connect();
    for (path, all, own) in [
        ("/short", 0, 0),
        ("/long", 1, 0),
        ("/short", 1, 0),
        ("/long", 1, 0),
        ("/long/own", 0, 1),
        ("/long", 1, 0),
        ("/long/free", 0, 0),
        ("/long/own", 0, 1),
    ] {
        assert_eq!(client.ask(&request(path)).status, 200);
        assert_eq!(class(&carrick, "all")["splices"], all, "{path}");
        assert_eq!(class(&carrick, "own")["splices"], own, "{path}");
    }
    let mut other = carrick.connect();
    assert_eq!(other.ask(&request("/long/own")).status, 200);
    assert_eq!(class(&carrick, "own")["splices"], 2);
    drop(client);
    wait_for_splices(&carrick, "own", 1);
    drop(other);
    wait_for_splices(&carrick, "own", 0);
}

#[test]
fn a_request_s_body_is_paced_as_well() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = switch_text(&[server.address()]) + "[pace]\ndefault = \"all\"\n[pace.classes.all]\n";
    let carrick = Carrick::start(&place, &text);
    let mut client = carrick.connect();
    client.send(format!(
        "PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {LONG}\r\n\r\n"
    ));
    client.send(vec![b'x'; LONG]);
    let mut upstream = server.accept();
    upstream.read_head();
    upstream.read_exact(LONG);
    assert_eq!(class(&carrick, "all")["splices"], 1);
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("PUT").status, 204);
}

#[test]
fn a_tunnel_is_paced_while_it_stands_and_networks_are_those_of_the_proxy_header() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = tunnel_text(&[server.address()]).replace("mode =", "proxy_protocol = true\nmode =")
        + "[pace]\ndefault = \"lines\"\n[pace.classes.lines]\nnetwork_ceiling = \"10 MB\"\nnetwork_prefix_v4 = 24\n";
    let carrick = Carrick::start(&place, &text);
    let mut tunnels = Vec::new();
    for (address, networks) in [
        ("192.0.2.7", 1),
        ("192.0.2.8", 1),
        ("198.51.100.7", 2),
        ("192.0.2.7", 2),
    ] {
        let mut client = carrick.connect_tunnel();
        client.send(format!("PROXY TCP4 {address} 192.0.2.99 40000 80\r\nhello"));
        let mut upstream = server.accept();
        upstream.expect("hello");
        tunnels.push((client, upstream));
        let class = class(&carrick, "lines");
        assert_eq!(class["splices"], tunnels.len(), "{class}");
        assert_eq!(class["networks"], networks, "{class}");
    }
    let splices = carrick.metric("carrick_pace_splices", &["class=\"lines\""]);
    assert!((splices - 4.0).abs() < 0.5, "{splices}");
    assert_eq!(carrick.status()["pace"]["splices"], 4);
    tunnels.clear();
    wait_for_splices(&carrick, "lines", 0);
    assert_eq!(class(&carrick, "lines")["networks"], 0);
}

#[test]
fn a_connect_tunnel_is_paced() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = format!(
        "{}pace = \"all\"\n[pace.classes.all]\n",
        crate::support::carrick::FORWARD_TEXT
    );
    let carrick = Carrick::start(&place, &text);
    let mut client = carrick.connect_forward();
    client.send(format!(
        "CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n",
        server.address()
    ));
    let mut upstream = server.accept();
    assert!(client.read_head().starts_with("HTTP/1.1 200"));
    upstream.send("hello");
    client.expect("hello");
    assert_eq!(class(&carrick, "all")["splices"], 1);
    drop((client, upstream));
    wait_for_splices(&carrick, "all", 0);
}

#[test]
fn the_command_shows_and_changes_classes_until_the_next_reload() {
    let place = Place::claim();
    let server = server(&place);
    let with = |classes: &str| switch_text(&[server.address()]) + classes;
    let first = with("[pace]\ndefault = \"slow\"\n[pace.classes.slow]\nceiling = \"1 MB\"\n");
    let carrick = Carrick::start(&place, &first);
    let table = said(&command(&carrick, &[]));
    let row = table.lines().find(|line| line.starts_with("slow "));
    let row: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(
        row[..6],
        ["slow", "immediate", "-", "1MB", "-", "-"],
        "{table}"
    );
    assert!(
        table.contains("worker") && table.contains("hits p99 us"),
        "{table}"
    );
    // Cells are aligned with their headings.
    for part in table.split("\n\n") {
        let mut lines = part.lines().map(|line| line.chars().count());
        let heading = lines.next().expect("a heading");
        assert!(lines.all(|length| length == heading), "{table}");
    }

    let changed = said(&command(
        &carrick,
        &[
            "slow",
            "policy=deadline",
            "target=2ms",
            "ceiling=2 MB",
            "network_ceiling=1MB",
        ],
    ));
    for line in [
        "policy             deadline\n",
        "target             2ms\n",
        "ceiling            2MB/s\n",
        "network_prefix_v6  64\n",
        "parent             none\n",
    ] {
        assert!(changed.contains(line), "{line}{changed}");
    }
    let is_setting = |line: &&str| {
        let key = line.split(' ').next().unwrap_or_default();
        PaceClass::TABLE
            .keys
            .iter()
            .any(|declared| declared.name == key)
    };
    // The rest are counters.
    let settings = |page: &str| -> Vec<String> {
        (page.lines().filter(is_setting))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join("="))
            .collect()
    };
    let shown = settings(&changed);
    assert_eq!(settings(&said(&command(&carrick, &["slow"]))), shown);
    for setting in ["target=2ms", "network_ceiling=1MB/s", "splice_ceiling=none"] {
        assert!(shown.iter().any(|line| line == setting), "{changed}");
    }
    let mut again = vec!["slow"];
    again.extend(shown.iter().map(String::as_str));
    assert_eq!(
        settings(&said(&command(&carrick, &again))),
        shown,
        "a class accepts the settings that it shows"
    );
    assert!(said(&command(&carrick, &[])).contains("deadline 2ms"));
    assert_eq!(carrick.status()["pace"]["changed"], 1);

    for (arguments, code, part) in [
        (
            &["slow", "ceiling=1"][..],
            1,
            "ceiling is 1 bytes per second; it can be 1000",
        ),
        (&["slow", "ceilling=none"], 1, "did you mean `ceiling`?"),
        (
            &["fast", "ceiling=none"],
            1,
            "no class \"fast\": there are slow",
        ),
        (&["fast"], 1, "no class \"fast\"; there are: slow"),
        (&["slow", "ceiling"], 2, "write key=value"),
    ] {
        let output = command(&carrick, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
    assert_eq!(settings(&said(&command(&carrick, &["slow"]))), shown);

    // A failed reload changes nothing; one with the same file restores the configuration.
    carrick.reload_as(&place, &with("[pace]\ndefault = \"fast\"\n"), "failed");
    assert_eq!(settings(&said(&command(&carrick, &["slow"]))), shown);
    carrick.reload_as(&place, &first, "ok");
    let slow = class(&carrick, "slow");
    assert_eq!(slow["ceiling"], 1 << 20, "{slow}");
    assert_eq!(slow["policy"], "immediate", "{slow}");
    assert_eq!(slow["network"], Value::Null, "{slow}");
    assert_eq!(carrick.status()["pace"]["changed"], 0);
}

#[test]
fn a_reload_that_takes_a_class_away_is_followed_with_the_next_request() {
    let place = Place::claim();
    let server = server(&place);
    let with = |name: &str, more: &str| {
        format!(
            "{}[pace]\ninterval = \"1s\"\ndefault = \"{name}\"\n[pace.classes.{name}]\n{more}",
            switch_text(&[server.address()])
        )
    };
    let carrick = Carrick::start(&place, &with("a", ""));
    let mut client = carrick.connect();
    assert_eq!(client.ask(&request("/long")).status, 200);
    assert_eq!(class(&carrick, "a")["splices"], 1);
    carrick.reload_as(&place, &with("b", ""), "ok");
    let names = |carrick: &Carrick| {
        let page: Value = serde_json::from_str(&carrick.ask_admin("/pace").text()).expect("JSON");
        assert_eq!(page["interval_ms"], 1000);
        let classes = page["classes"].as_array().expect("classes").iter();
        classes
            .map(|class| class["name"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&carrick), ["b"]);
    // The worker applies the new plan at its own pace.
    wait_until("a request under the new plan", || {
        assert_eq!(client.ask(&request("/long")).status, 200);
        class(&carrick, "b")["splices"] == 1
    });
    // A class gets another rate for networks: a client has it from its next request on.
    carrick.reload_as(&place, &with("b", "network_ceiling = \"100 MB\"\n"), "ok");
    wait_until("a network", || {
        assert_eq!(client.ask(&request("/long")).status, 200);
        class(&carrick, "b")["networks"] == 1
    });
    let nothing = switch_text(&[server.address()]);
    carrick.reload_as(&place, &(nothing + "[pace]\ninterval = \"1s\"\n"), "ok");
    assert_eq!(names(&carrick).len(), 0);
    assert_eq!(client.ask(&request("/long")).status, 200);
}
