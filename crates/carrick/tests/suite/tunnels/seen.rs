//! Reports on open tunnels, and on the state of their connections at the end.
use crate::support::carrick::{FORWARD_TEXT, switch_text, tunnel_text};
use crate::support::place::TUNNEL_PORT;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Server, wait_for, wait_until};
use carrick_lab::command::run;
use rustix::thread::UnshareFlags;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const ENGINES: [&str; 4] = ["copy", "pipe", "auto", "socket"];

fn tunnel(engine: &str) -> (Place, Carrick, Server) {
    tunnel_with(&format!("[splice]\nengine = \"{engine}\"\n"))
}

fn tunnel_with(tables: &str) -> (Place, Carrick, Server) {
    let place = Place::claim();
    // Every user can access its files.
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(place.directory(), everybody).expect("a directory of ours");
    let server = Server::listen(&place);
    let text = tables.to_owned() + &tunnel_text(&[server.address()]);
    let carrick = Carrick::start(&place, &text);
    (place, carrick, server)
}

/// Whether this carrick has the socket engine; otherwise prints a message.
fn has_socket_engine(carrick: &Carrick) -> bool {
    let status = carrick.status();
    let engines = status["engines"].as_array().expect("engines");
    let socket = engines
        .iter()
        .find(|engine| engine["name"].as_str() == Some("engine socket"))
        .unwrap_or_else(|| panic!("{status}"));
    if socket["usable"] != true {
        carrick_test::skip!("{}", socket["reason"]);
    }
    socket["usable"] == true
}

/// The only tunnel in the list of a page.
fn only_one(page: &Value) -> Option<Value> {
    let list = page["list"].as_array().expect("a list");
    assert!(list.len() <= 1, "{page}");
    list.first().cloned()
}

fn all_splices(carrick: &Carrick) -> Value {
    let response = carrick.ask_admin("/splices");
    assert_eq!(response.status, 200);
    serde_json::from_slice(&response.body).expect("JSON")
}

/// Bytes to the server and to the client.
fn bytes(entry: &Value) -> [u64; 2] {
    ["client_to_upstream", "upstream_to_client"]
        .map(|way| entry[way]["bytes"].as_u64().expect("bytes"))
}

/// Waits until the only tunnel has moved these bytes: bytes moved by the process are counted right afterwards. `None`
/// if the kernel does not report its own.
fn wait_for_bytes(carrick: &Carrick, moved: [u64; 2]) -> Option<Value> {
    wait_for("the bytes to be counted", || {
        if !carrick.tells_of_sockets() {
            return Some(None);
        }
        let entry = only_one(&all_splices(carrick));
        entry.filter(|entry| bytes(entry) == moved).map(Some)
    })
}

fn chat(client: &mut Peer, upstream: &mut Peer, rounds: usize) {
    for _ in 0..rounds {
        client.send("question");
        upstream.expect("question");
        upstream.send("yes");
        client.expect("yes");
    }
}

#[test]
fn what_the_kernel_moves_is_seen_while_it_moves() {
    see_what_the_kernel_moves("");
}

/// Reading needs none of the privileges that loading needs.
#[test]
fn it_is_seen_after_privileges_were_given_up() {
    if carrick_test::is_root() {
        see_what_the_kernel_moves("[process]\nuser = \"nobody\"\n");
    }
}

fn see_what_the_kernel_moves(tables: &str) {
    let (_place, carrick, server) = tunnel_with(&format!(
        "{tables}[limits]\nsplices = 20\n[splice]\nengine = \"socket\"\n"
    ));
    if !has_socket_engine(&carrick) {
        return;
    }
    let mut client = carrick.connect_tunnel();
    let mut upstream = server.accept();
    chat(&mut client, &mut upstream, 1);
    wait_until("the tunnel to be in the kernel", || {
        let status = carrick.status();
        status["splices"]["in_kernel"] == 1
    });
    if !carrick.tells_of_sockets() {
        return;
    }
    let mut before = wait_for_bytes(&carrick, [8, 3]).expect("it was reported before");
    for rounds in [1, 10, 100] {
        chat(&mut client, &mut upstream, rounds);
        let now = only_one(&carrick.status()["splices"]).expect("a tunnel");
        let [up, down] = bytes(&now);
        let [up_before, down_before] = bytes(&before);
        let rounds = rounds as u64;
        assert_eq!(
            (up - up_before, down - down_before),
            (8 * rounds, 3 * rounds)
        );
        before = now;
    }
    assert_eq!(before["engine"], "socket");
    assert_eq!(before["client"], client.local_address().to_string());
    assert_eq!(before["server"], server.address().to_string());
    assert!(before["client_to_upstream"]["forwarded_bytes"].as_u64() >= Some(8 * 100));
    for leg in ["client_leg", "upstream_leg"] {
        assert!(before[leg]["rtt_us"].as_u64() > Some(0), "{before}");
        assert_eq!(before[leg]["state"], "established");
    }
    assert_eq!(
        only_one(&all_splices(&carrick)).map(|entry| bytes(&entry)),
        Some(bytes(&before))
    );
    let of_socket = &["engine=\"socket\""];
    assert_eq!(carrick.metric("carrick_tunnels_by_engine", of_socket), 1.0);
    assert_eq!(carrick.metric("carrick_socket_splices", &[]), 1.0);
    assert_eq!(carrick.metric("carrick_limit", &["socket_splices"]), 20.0);
    assert_eq!(carrick.status()["splices"]["limit"], 20);
    let forwarded = carrick.metric("carrick_socket_splice_bytes", &["client_to_upstream"]);
    assert!(forwarded >= 8.0 * 100.0, "{forwarded}");
    assert!(carrick.metric("carrick_socket_rtt_seconds", &["leg=\"client\""]) > 0.0);
    assert_eq!(
        carrick.metric("carrick_tunnel_client_rtt_seconds_count", &[]),
        0.0
    );

    drop((client, upstream));
    wait_until("the tunnel to be gone", || {
        let splices = all_splices(&carrick);
        splices["in_kernel"] == 0 && only_one(&splices).is_none()
    });
    assert_eq!(carrick.metric("carrick_socket_splice_bytes", &[]), 0.0);
    let line = &carrick.access_log(1)[0];
    assert_eq!(
        [line.number("received"), line.number("sent")],
        bytes(&before)
    );
    assert_eq!(line.text("engine"), "socket");
}

/// A receiver that does not read: the bytes are reported where they wait.
#[test]
fn bytes_that_stand_still_are_seen() {
    let (_place, carrick, server) = tunnel("socket");
    if !has_socket_engine(&carrick) {
        return;
    }
    let mut client = carrick.connect_tunnel();
    let mut upstream = server.accept();
    chat(&mut client, &mut upstream, 1);
    wait_until("the tunnel to be in the kernel", || {
        carrick.status()["splices"]["in_kernel"] == 1
    });
    if !carrick.tells_of_sockets() {
        return;
    }
    const LENGTH: usize = 64 << 20;
    let sending = std::thread::spawn(move || {
        upstream.send(vec![7; LENGTH]);
        upstream
    });
    let mut last = 0;
    let entry = wait_for("the transfer to stand still", || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let entry = only_one(&carrick.status()["splices"]).expect("a tunnel");
        let moved = bytes(&entry)[1];
        let is_unsent = entry["client_leg"]["unsent_bytes"].as_u64() > Some(0);
        let stands_still = moved > 3 && moved == last && is_unsent;
        last = moved;
        stands_still.then_some(entry)
    });
    assert!(last < LENGTH as u64, "{entry}");
    let backlog = entry["upstream_to_client"]["backlog_bytes"].as_u64();
    assert!(
        backlog.is_some_and(|bytes| bytes <= (1 << 20) + (64 << 10)),
        "{entry}"
    );
    assert_eq!(client.read_exact(LENGTH).len(), LENGTH);
    drop(sending.join().expect("no panic"));
}

#[test]
fn every_tunnel_is_listed_with_what_it_was_asked_for() {
    for engine in ENGINES {
        let place = Place::claim();
        let [far, near] = [(); 2].map(|()| Server::listen(&place));
        let text = format!(
            "[splice]\nengine = \"{engine}\"\n{FORWARD_TEXT}{}",
            switch_text(&[near.address()])
        );
        let carrick = Carrick::start(&place, &text);
        let address = far.address().to_string();
        let mut client = carrick.connect_forward();
        client.send(format!(
            "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\nearly"
        ));
        client.read_head();
        let mut upstream = far.accept();
        upstream.expect("early");
        chat(&mut client, &mut upstream, 3);
        let Some(entry) = wait_for_bytes(&carrick, [5 + 3 * 8, 3 * 3]) else {
            continue;
        };
        assert_eq!(entry["mode"], "forward");
        assert_eq!(entry["listener"], carrick.forward_address().to_string());
        assert_eq!(
            (&entry["target"], &entry["server"]),
            (&address.clone().into(), &address.into())
        );
        assert_eq!(entry["upstream"], Value::Null);
        assert_eq!(carrick.metric("carrick_tunnels_by_engine", &[]), 1.0);
        drop((client, upstream));
        wait_until("the tunnel to be gone", || {
            only_one(&all_splices(&carrick)).is_none()
        });

        let (mut client, mut upstream) = carrick.asked(
            &near,
            "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        );
        upstream
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        client.read_head();
        chat(&mut client, &mut upstream, 1);
        let Some(entry) = wait_for_bytes(&carrick, [8, 3]) else {
            continue;
        };
        assert_eq!(entry["mode"], "switch");
        assert_eq!(entry["target"], "/chat");
        assert_eq!(entry["upstream"], "u");
    }
}

#[test]
fn the_log_has_the_tcp_state_of_a_tunnels_connections() {
    for engine in ENGINES {
        let (_place, carrick, server) = tunnel(engine);
        let mut client = carrick.connect_tunnel();
        let mut upstream = server.accept();
        chat(&mut client, &mut upstream, 10);
        client.half_close();
        upstream.expect_end();
        upstream.half_close();
        client.expect_end();
        // And one that is reset.
        let mut client = carrick.connect_tunnel();
        let mut upstream = server.accept();
        chat(&mut client, &mut upstream, 1);
        client.reset();
        upstream.read_ending();
        // Where a receiver loses its processor for long, the kernel sends something again.
        let mut retransmissions = 0;
        for line in carrick.access_log(2) {
            for leg in ["client", "upstream"] {
                let rtt = line.value(&format!("{leg}_rtt")).as_f64();
                assert!(rtt.is_some_and(|rtt| rtt > 0.0 && rtt < 5.0), "{line:?}");
                retransmissions += line.number(&format!("{leg}_retransmits"));
            }
        }
        for name in ["client", "upstream"] {
            let count = format!("carrick_tunnel_{name}_rtt_seconds_count");
            assert_eq!(carrick.metric(&count, &[]), 2.0);
        }
        let counted = carrick.metric("carrick_tunnel_retransmissions_total", &[]);
        assert_eq!(counted, retransmissions as f64);
    }
}

#[test]
fn lines_of_requests_say_nothing_of_connections() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    });
    let carrick = Carrick::switch(&place, &[server.address()]);
    let request = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(carrick.connect().ask(request).status, 204);
    let line = &carrick.access_log(1)[0];
    for field in [
        "client_rtt",
        "upstream_rtt",
        "client_retransmits",
        "upstream_retransmits",
    ] {
        assert!(line.0.get(field).is_none(), "{line:?}");
    }
}

/// In its own network namespace, in which carrick's packets to the client are dropped for a while.
#[test]
fn retransmissions_are_reported() {
    if !carrick_test::is_root() {
        return;
    }
    let play = std::thread::spawn(|| {
        enter_new_network();
        for engine in ["auto", "socket"] {
            lose_and_send_again(engine);
        }
    });
    play.join().expect("no panic");
}

#[expect(unsafe_code, reason = "unshare(2)")]
fn enter_new_network() {
    // SAFETY: the namespace belongs to this thread and to what it starts; no descriptors change hands.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.expect("unshare");
    tool("ip link set lo up");
}

fn lose_and_send_again(engine: &str) {
    let (_place, carrick, server) = tunnel(engine);
    let mut client = carrick.connect_tunnel();
    let mut upstream = server.accept();
    chat(&mut client, &mut upstream, 2);
    let is_in_kernel = engine == "socket" && has_socket_engine(&carrick);
    if is_in_kernel {
        wait_until("the tunnel to be in the kernel", || {
            carrick.status()["splices"]["in_kernel"] == 1
        });
        if !carrick.tells_of_sockets() {
            return;
        }
    }
    tool("tc qdisc add dev lo root handle 1: htb");
    tool("tc class add dev lo parent 1: classid 1:3 htb rate 1gbit quantum 1500");
    tool("tc qdisc add dev lo parent 1:3 handle 3: blackhole");
    tool(&format!(
        "tc filter add dev lo parent 1: protocol ip u32 match ip sport {TUNNEL_PORT} 0xffff flowid 1:3"
    ));
    upstream.send("an answer");
    if is_in_kernel {
        let retransmissions = |leg: &str| {
            let entry = only_one(&carrick.status()["splices"]).expect("a tunnel");
            entry[leg]["retransmissions"].as_u64().expect("a leg")
        };
        wait_until("it to be sent again", || retransmissions("client_leg") > 0);
        assert!(carrick.metric("carrick_socket_retransmissions", &["leg=\"client\""]) > 0.0);
    } else {
        let port = format!(":{TUNNEL_PORT}");
        wait_until("it to be sent again", || {
            let told = run("ss", &["-tinH", "sport", "=", &port]).expect("ss");
            told.contains("retrans:")
        });
    }
    tool("tc qdisc del dev lo root");
    client.expect("an answer");
    drop((client, upstream));
    let line = &carrick.access_log(1)[0];
    assert!(line.number("client_retransmits") > 0, "{line:?}");
    let counted = |leg: &str| carrick.metric("carrick_tunnel_retransmissions_total", &[leg]);
    assert_eq!(
        counted("leg=\"client\"") as u64,
        line.number("client_retransmits")
    );
    assert_eq!(
        counted("leg=\"upstream\"") as u64,
        line.number("upstream_retransmits")
    );
}

fn tool(line: &str) {
    let mut words = line.split(' ');
    let status = Command::new(words.next().expect("a message"))
        .args(words)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{line}");
}
