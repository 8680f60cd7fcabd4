//! SIGHUP: the whole file is read again under load, and an invalid one changes nothing.
use super::echo_server;
use super::load::{Asking, Load};
use crate::support::carrick::FORWARD_TEXT;
use crate::support::place::{FORWARD_PORT, LISTENER_PORT, TUNNEL_PORT};
use crate::support::{Carrick, Peer, Place, carrick, wait_for, wait_until};
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

/// The port of a listener that is added and removed.
const SECOND_PORT: u16 = LISTENER_PORT + 1;

const ASK: &str = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";

fn listener(port: u16, routes: &str) -> String {
    format!("[[listener]]\nlisten = \"{{ip}}:{port}\"\nmode = \"switch\"\n{routes}")
}

fn route(path: &str, upstream: &str) -> String {
    format!("[[listener.route]]\npath = \"{path}\"\nupstream = \"{upstream}\"\n")
}

#[test]
fn reloads_under_load_fail_no_request() {
    let place = Place::claim();
    let servers = [
        echo_server(&place),
        echo_server(&place),
        echo_server(&place),
    ];
    let address = |number: usize| servers[number].address();
    let texts = [
        // Other servers, another route, a second listener; then back again.
        listener(LISTENER_PORT, &route("/", "u")) + &carrick::upstream_text("u", &[address(0)]),
        listener(LISTENER_PORT, &(route("/1/", "one") + &route("/", "u")))
            + &listener(SECOND_PORT, &route("/", "u"))
            + &carrick::upstream_text("one", &[address(1)])
            + &carrick::upstream_text("u", &[address(2), address(0)]),
        listener(LISTENER_PORT, &route("/", "u"))
            + &carrick::upstream_text("u", &[address(1), address(2)])
            + "balance = \"least-connections\"\nkeepalive = 1\n",
    ];
    let carrick = Carrick::start(&place, &texts[0]);
    let asking = |requests_per_connection| Asking {
        address: carrick.listener(),
        clients: 3,
        requests_per_connection,
    };
    let keep_alive = Load::start(&asking(usize::MAX));
    let short = Load::start(&asking(2));
    for round in 1..=12 {
        keep_alive.wait_for_more(20);
        short.wait_for_more(20);
        carrick.reload_as(&place, &texts[round % texts.len()], "ok");
        let has_second = round % texts.len() == 1;
        if !has_second {
            wait_until("the second listener to close", || {
                TcpStream::connect(place.at(SECOND_PORT)).is_err()
            });
        } else {
            // At once: that was the reload.
            let response = Peer::connect(place.at(SECOND_PORT)).ask(ASK);
            assert_eq!((response.status, response.text().as_str()), (200, "/a"));
        }
    }
    let (keep_alive, short) = (keep_alive.stop(), short.stop());
    keep_alive.expect_no_failure(240);
    short.expect_no_failure(240);
    for server in &servers {
        assert!(server.accepted() > 0, "a server was never used");
    }
    let reloads = &carrick.status()["reloads"];
    assert_eq!(reloads["ok"], 12);
    assert_eq!(reloads["failed"], 0);
}

#[test]
fn a_transfer_under_way_outlives_its_listener_and_its_upstream() {
    let place = Place::claim();
    let server = crate::support::Server::listen(&place);
    let other = echo_server(&place);
    let text = listener(LISTENER_PORT, &route("/", "u"))
        + &listener(SECOND_PORT, &route("/", "old"))
        + &carrick::upstream_text("u", &[other.address()])
        + &carrick::upstream_text("old", &[server.address()]);
    let carrick = Carrick::start(&place, &text);
    let mut client = Peer::connect(place.at(SECOND_PORT));
    client.send(ASK);
    let mut upstream = server.accept();
    upstream.read_head();
    // This connection closes, so that only the other one can be reused.
    upstream.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nab");
    client.read_head();
    client.expect("ab");
    let mut idle = Peer::connect(place.at(SECOND_PORT));
    idle.send(ASK);
    let mut second = server.accept();
    second.read_head();
    second.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(idle.read_response("GET").status, 204);

    let text = listener(LISTENER_PORT, &route("/", "u"))
        + &carrick::upstream_text("u", &[other.address()]);
    carrick.reload_as(&place, &text, "ok");
    wait_for("the listener to close", || {
        TcpStream::connect(place.at(SECOND_PORT)).err()
    });
    upstream.send("cd");
    client.expect("cd");
    // A request on an existing connection is answered as before, once.
    idle.send(ASK);
    if !second.waits_for_head() {
        second = server.accept();
    }
    second.read_head();
    second.send("HTTP/1.1 204 No Content\r\n\r\n");
    let last = idle.read_response("GET");
    assert_eq!(last.status, 204);
    assert_eq!(last.field("connection").as_deref(), Some("close"));
    idle.expect_end();
    assert_eq!(carrick.connect().ask(ASK).status, 200);
}

#[test]
fn clients_that_wait_for_a_slot_outlive_their_listener() {
    let place = Place::claim();
    let slow = crate::support::Server::listen(&place);
    let echo = echo_server(&place);
    let head = "[limits]\nconnections = 2\n[timeouts]\ndrain = \"2s\"\n";
    let text = String::from(head)
        + &listener(LISTENER_PORT, &route("/", "u"))
        + &carrick::upstream_text("u", &[echo.address()]);
    let before = text.clone()
        + &listener(SECOND_PORT, &(route("/slow", "slow") + &route("/", "u")))
        + &carrick::upstream_text("slow", &[slow.address()]);
    let carrick = Carrick::start(&place, &before);
    let mut served = [SECOND_PORT; 2].map(|port| Peer::connect(place.at(port)));
    let mut upstreams = served.each_mut().map(|client| {
        client.send("GET /slow HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let mut upstream = slow.accept();
        upstream.read_head();
        upstream
    });
    let mut waiting: Vec<Peer> = (0..4)
        .map(|_| Peer::connect(place.at(SECOND_PORT)))
        .collect();
    for client in &mut waiting {
        client.send(ASK);
    }
    carrick.reload_as(&place, &text, "ok");
    wait_for("the listener to close", || {
        TcpStream::connect(place.at(SECOND_PORT)).err()
    });
    for (upstream, client) in upstreams.iter_mut().zip(&mut served) {
        upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 204);
    }
    drop(served);
    for client in &mut waiting {
        let response = client.read_response("GET");
        assert_eq!((response.status, response.text().as_str()), (200, "/a"));
        client.expect_end();
    }
}

/// A reload of `text` must fail with the reason `why` everywhere, and the old configuration must stay in force.
fn expect_refusal(carrick: &Carrick, place: &Place, text: &str, why: &str) {
    let mut kept = carrick.connect();
    assert_eq!(kept.ask(ASK).status, 200);
    let listeners = carrick.status()["listeners"].clone();
    carrick.reload_as(place, text, "failed");
    let said = carrick
        .standard_error()
        .wait_for("the new configuration was rejected and the previous one stays in force")
        .expect("a message");
    assert!(said.contains(why), "{why:?} is missing in:\n{said}");
    let status = carrick.status();
    let error = status["reloads"]["last"]["error"]
        .as_str()
        .expect("an error");
    assert!(error.contains(why), "{why:?} is missing in {error:?}");
    assert_eq!(status["listeners"], listeners);
    assert_eq!(kept.ask(ASK).status, 200);
    assert_eq!(carrick.connect().ask(ASK).status, 200);
}

#[test]
fn a_wrong_file_keeps_the_old_one_and_says_why() {
    let place = Place::claim();
    let server = echo_server(&place);
    let right = carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(&place, &right);
    let wrong = right.replace("upstream = \"u\"", "upstream = \"nowhere\"");
    expect_refusal(&carrick, &place, &wrong, "there is no upstream \"nowhere\"");
    expect_refusal(&carrick, &place, "listen = [", "carrick.toml:");
    // A valid file still works.
    carrick.reload_as(&place, &right, "ok");
    let status = carrick.status();
    assert_eq!(status["reloads"]["failed"], 2);
    assert_eq!(status["reloads"]["last"]["error"], serde_json::Value::Null);
}

/// Occupies a port of the test's address.
fn occupy(address: SocketAddr) -> TcpListener {
    TcpListener::bind(address).expect("a free address")
}

#[test]
fn an_address_in_use_keeps_the_old_configuration() {
    let place = Place::claim();
    let server = echo_server(&place);
    let right = carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(&place, &right);
    let text = right.clone() + &listener(SECOND_PORT, &route("/", "u"));
    let why = format!("cannot listen on {}", place.at(SECOND_PORT));
    let occupied = occupy(place.at(SECOND_PORT));
    expect_refusal(&carrick, &place, &text, &why);
    drop(occupied);
    // As another carrick does, with which it would share its clients.
    let shared = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    shared.set_reuse_port(true).expect("an option");
    let address = place.at(SECOND_PORT).into();
    carrick_test::until_free(|| shared.bind(&address)).expect("it is free");
    shared.listen(1).expect("to listen");
    expect_refusal(&carrick, &place, &text, &why);
}

/// Clients inherit its settings from the listening socket.
#[test]
fn a_tcp_profile_that_is_taken_off_a_listener_leaves_nothing_behind() {
    let place = Place::claim();
    let server = echo_server(&place);
    let text = |keys: &str| {
        String::from("[timeouts]\nhead = \"10m\"\ndrain = \"2s\"\n")
            + &listener(LISTENER_PORT, &format!("{keys}{}", route("/", "u")))
            + &carrick::upstream_text("u", &[server.address()])
            + "[tcp_profile.short]\nsegment_max = 1000\n"
    };
    let short = text("tcp_profiles = { side = \"client\", profile = \"short\" }\n");
    let carrick = Carrick::start(&place, &short);
    let is_short = || {
        let client = carrick.connect();
        let bytes = SockRef::from(client.stream()).tcp_mss().expect("an option");
        bytes <= 1000
    };
    // Listening: the local address is the second word of a line, and the state the fourth.
    let IpAddr::V4(ip) = carrick.listener().ip() else {
        panic!("IPv4 was used")
    };
    let local = format!(
        "{:08X}:{LISTENER_PORT:04X}",
        u32::from_ne_bytes(ip.octets())
    );
    let sockets = || {
        let text = std::fs::read_to_string("/proc/net/tcp").expect("a table");
        let words = text.lines().map(|line| line.split_whitespace().collect());
        words
            .filter(|words: &Vec<&str>| words[1] == local && words[3] == "0A")
            .count()
    };
    let load = Load::start(&Asking {
        address: carrick.listener(),
        clients: 3,
        requests_per_connection: 1,
    });
    for _ in 0..3 {
        assert!(is_short());
        load.wait_for_more(20);
        let mut silent: Vec<Peer> = (0..8).map(|_| carrick.connect()).collect();
        carrick.reload_as(&place, &text(""), "ok");
        wait_until("the old sockets to close", || sockets() == 2);
        assert!(!is_short());
        for client in &mut silent {
            assert_eq!(client.ask(ASK).status, 200);
        }
        load.wait_for_more(20);
        carrick.reload_as(&place, &short, "ok");
    }
    load.stop().expect_no_failure(120);
}

#[test]
fn a_reload_that_fails_late_leaves_the_access_log_where_it_was() {
    let place = Place::claim();
    let server = echo_server(&place);
    let right = carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(&place, &right);
    let occupied = occupy(place.at(SECOND_PORT));
    let text = format!(
        "[admin]\nlisten = \"{}\"\n[log]\naccess = \"other.log\"\nformat = \"combined\"\n{right}",
        place.at(SECOND_PORT)
    );
    expect_refusal(&carrick, &place, &text, &place.at(SECOND_PORT).to_string());
    assert_eq!(carrick.access_log(3).len(), 3);
    // Both move together once the address is free.
    drop(occupied);
    drop(
        carrick_test::until_free(|| TcpListener::bind(place.at(SECOND_PORT))).expect("it is free"),
    );
    carrick.reload(&place, &text);
    wait_for("admin to move", || {
        TcpStream::connect(place.at(SECOND_PORT)).ok()
    });
    // Workers follow one by one.
    wait_for("a line in the other log", || {
        assert_eq!(carrick.connect().ask(ASK).status, 200);
        let text = std::fs::read_to_string(place.directory().join("other.log")).ok()?;
        text.contains("\"GET /a HTTP/1.1\" 200").then_some(())
    });
    wait_for("the old admin address to close", || {
        TcpStream::connect(carrick.admin()).err()
    });
}

#[test]
fn a_log_that_cannot_be_opened_keeps_the_old_configuration() {
    let place = Place::claim();
    let server = echo_server(&place);
    let right = carrick::switch_text(&[server.address()]);
    let carrick = Carrick::start(&place, &right);
    let text = format!("[log]\naccess = \"missing/access.log\"\nformat = \"json\"\n{right}");
    expect_refusal(&carrick, &place, &text, "/missing does not exist");
    assert_eq!(carrick.access_log(3).len(), 3);
}

/// One worker: if one client sees the new plan, all do.
const ONE_WORKER: &str = "[workers]\ncount = 1\n";

/// A switch, a forward proxy and a tunnel, whose listeners have these additional keys.
fn three_listeners(server: SocketAddr, keys: &str) -> String {
    let at = |port: u16, mode: &str| {
        format!("[[listener]]\nlisten = \"{{ip}}:{port}\"\nmode = \"{mode}\"\n{keys}")
    };
    // Half a request may wait for a reload.
    let times = "[timeouts]\nhead = \"10m\"\ndrain = \"2s\"\n";
    String::from(ONE_WORKER)
        + times
        + &at(LISTENER_PORT, "switch")
        + &route("/", "u")
        + &at(FORWARD_PORT, "forward")
        + "connect_ports = \"all\"\n"
        + &at(TUNNEL_PORT, "tunnel")
        + "[[listener.route]]\nupstream = \"u\"\n"
        + &carrick::upstream_text("u", &[server])
}

#[test]
fn a_standing_connection_of_a_client_that_may_not_come_any_more_is_refused() {
    let place = Place::claim();
    let server = echo_server(&place);
    let at = server.address();
    let carrick = Carrick::start(&place, &three_listeners(at, ""));
    let mut switched = [carrick.connect(), carrick.connect()];
    let mut forwarded = carrick.connect_forward();
    let absolute = format!("GET http://{at}/a HTTP/1.1\r\nHost: {at}\r\n\r\n");
    for client in &mut switched {
        assert_eq!(client.ask(ASK).status, 200);
    }
    assert_eq!(forwarded.ask(&absolute).status, 200);
    let mut connected = carrick.connect_forward();
    connected.send(format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    assert!(connected.read_head().contains(" 200 "));
    let mut tunnelled = carrick.connect_tunnel();
    for client in [&mut connected, &mut tunnelled] {
        assert_eq!(client.ask(ASK).status, 200);
    }
    let [switched, half_way] = &mut switched;
    // The head is complete only after the reload.
    half_way.send(&ASK[..20]);

    let text = three_listeners(at, "allow = [\"192.0.2.0/24\"]\n");
    carrick.reload_as(&place, &text, "ok");
    wait_until("the new plan", || carrick.connect().ask(ASK).status == 403);
    half_way.send(&ASK[20..]);
    let refused = [
        switched.ask(ASK),
        half_way.read_response("GET"),
        forwarded.ask(&absolute),
    ];
    for response in refused {
        assert_eq!(response.status, 403);
        assert_eq!(response.field("connection").as_deref(), Some("close"));
    }
    for client in [switched, half_way, &mut forwarded] {
        client.expect_end();
    }
    // Established tunnels continue.
    for client in [&mut connected, &mut tunnelled] {
        assert_eq!(client.ask(ASK).status, 200);
    }
}

#[test]
fn a_standing_connection_meets_the_rules_for_destinations_and_users_of_a_reload() {
    let place = Place::claim();
    let server = echo_server(&place);
    let at = server.address();
    place.write("users", "ali:{SHA}mx7yYWgI4+pmNuQlsUS2oDCZ9hU=\n");
    let text = |keys: &str| format!("{ONE_WORKER}{FORWARD_TEXT}{keys}");
    let carrick = Carrick::start(&place, &text(""));
    let get = format!("GET http://{at}/a HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let connect = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let denied = format!("deny_to = [\"{}\"]\n", at.ip());
    for (keys, request, status) in [
        ("users = \"users\"\n", &get, 407),
        (denied.as_str(), &get, 403),
        ("connect_ports = [443]\n", &connect, 403),
    ] {
        carrick.reload_as(&place, &text(""), "ok");
        let mut standing = wait_for("the old plan", || {
            let mut client = carrick.connect_forward();
            (client.ask(&get).status == 200).then_some(client)
        });
        let all = "connect_ports = \"all\"\n";
        let text = if keys.starts_with("connect_ports") {
            text("").replace(all, keys)
        } else {
            text(keys)
        };
        carrick.reload_as(&place, &text, "ok");
        wait_until("the new plan", || {
            carrick.connect_forward().ask(request).status == status
        });
        assert_eq!(standing.ask(request).status, status, "{keys}");
    }
}

/// What its connections ask for once more is answered, but nothing begins that would last.
#[test]
fn a_listener_that_is_gone_or_has_another_mode_begins_no_tunnel() {
    let place = Place::claim();
    let server = echo_server(&place);
    let at = server.address();
    let get = format!("GET http://{at}/a HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let connect = format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n");
    let before = three_listeners(at, "");
    let forward = format!("listen = \"{{ip}}:{FORWARD_PORT}\"\nmode = \"forward\"\n");
    let switch = |keys: &str| {
        let listener = format!("listen = \"{{ip}}:{FORWARD_PORT}\"\nmode = \"switch\"\n{keys}");
        before.replace(&forward, &listener).replace(
            "connect_ports = \"all\"\n",
            "[[listener.route]]\nupstream = \"u\"\n",
        )
    };
    let without = before.replace(&FORWARD_PORT.to_string(), &SECOND_PORT.to_string());
    let carrick = Carrick::start(&place, &before);
    for (after, request, status) in [
        (&without, &get, 200),
        (&without, &connect, 421),
        (&switch(""), &connect, 421),
        (&switch("allow = \"192.0.2.0/24\"\n"), &get, 403),
    ] {
        carrick.reload_as(&place, &before, "ok");
        let mut standing = carrick.connect_forward();
        assert_eq!(standing.ask(&get).status, 200);
        carrick.reload_as(&place, after, "ok");
        let response = standing.ask(request);
        assert_eq!(response.status, status, "{request}");
        assert_eq!(response.field("connection").as_deref(), Some("close"));
        standing.expect_end();
    }
}

/// `carrick reload`, of the process that admin names.
fn reload_command(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carrick"))
        .args(["reload", "-c"])
        .arg(file)
        .output()
        .expect("the program")
}

#[test]
fn the_command_reloads_the_carrick_that_admin_names() {
    let place = Place::claim();
    let carrick = Carrick::start(&place, FORWARD_TEXT);
    let output = reload_command(&carrick.directory().join("carrick.toml"));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(carrick.status()["reloads"]["ok"], 1);
}

#[test]
fn the_command_signals_no_other_process_that_whoever_listens_at_admins_address_names() {
    let mut other = Command::new("sleep").arg("3600").spawn().expect("sleep");
    let admin = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = admin.local_addr().expect("its address");
    let answer = format!("HTTP/1.0 200 OK\r\n\r\n{{\"pid\": {}}}", other.id());
    std::thread::spawn(move || {
        while let Ok((mut asking, _)) = admin.accept() {
            let _ = asking.read(&mut [0; 1024]);
            let _ = asking.write_all(answer.as_bytes());
        }
    });
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("carrick.toml");
    let text = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";
    let text = format!("{text}[admin]\nlisten = \"{address}\"\n");
    std::fs::write(&file, text).expect("a file");
    let output = reload_command(&file);
    let ended = other.try_wait().expect("its state");
    other.kill().expect("to end it");
    other.wait().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("it is no carrick"),
        "{said}"
    );
    assert!(ended.is_none(), "{ended:?}");
}
