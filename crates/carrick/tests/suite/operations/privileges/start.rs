//! The privileges of every thread after start, however carrick was started; the engine works without them.
use super::*;
use crate::support::carrick::{ACCESS_LOG, FORWARD_TEXT, switch_text};
use rustix::process::Signal;

/// Every thread must run as `nobody`, with that user's groups.
fn expect_every_thread_as_nobody(carrick: &Carrick) {
    let user = nobody();
    for thread in threads(carrick) {
        assert_eq!(thread.numbers("Uid"), [user.uid.as_raw(); 4]);
        assert_eq!(thread.numbers("Gid"), [user.gid.as_raw(); 4]);
        assert_eq!(thread.numbers("Groups"), [user.gid.as_raw()]);
    }
}

#[test]
fn root_becomes_the_user_with_nothing_left_and_the_engine_goes_on() {
    if !is_root() || !has_engine() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    let text = AS_NOBODY.to_owned() + &socket_tunnel(server.address());
    let carrick = Carrick::start(&place, &text);
    expect_every_thread_as_nobody(&carrick);
    expect_capabilities_of_root(&carrick, 0);
    let ends = chat(&carrick, &server);
    // The kernel's report on a connection that it carries.
    if carrick.tells_of_sockets() {
        wait_for("a round-trip time", || {
            let splices: serde_json::Value =
                serde_json::from_slice(&carrick.ask_admin("/splices").body).expect("JSON");
            let rtt_us = splices["list"][0]["client_leg"]["rtt_us"].as_u64();
            rtt_us.filter(|rtt_us| *rtt_us > 0)
        });
    }
    expect_kernel_carried(&carrick, ends);
    assert!(went_without(&carrick) < 0.5);

    // Later operations work: another listener, whose tunnels also enter the kernel; a renamed log.
    carrick.reload(&place, &(text + &second_listener(TUNNEL_PORT + 1)));
    let mut client = wait_for("the second listener", || {
        let stream = std::net::TcpStream::connect(place.at(TUNNEL_PORT + 1)).ok()?;
        Some(Peer::new(stream))
    });
    client.send("question");
    let mut upstream = server.accept();
    upstream.expect("question");
    upstream.send("answer");
    client.expect("answer");
    let log = place.directory().join(ACCESS_LOG);
    std::fs::rename(&log, place.directory().join("moved.log")).expect("a log to move");
    carrick.signal(Signal::USR1);
    wait_until("a new log", || log.exists());

    // Threads that a reload starts have no more privileges.
    expect_capabilities_of_root(&carrick, 0);
    let mut process = carrick.status()["process"].clone();
    let sandbox = process["sandbox"].take();
    assert!(sandbox["files"]["detail"].is_string(), "{sandbox}");
    let user = nobody();
    let expected = serde_json::json!({
        "user": NOBODY,
        "uid": user.uid.as_raw(),
        "gid": user.gid.as_raw(),
        "groups": [user.gid.as_raw()],
        "capabilities": [],
        "no_new_privileges": true,
        "sandbox": null,
    });
    assert_eq!(process, expected);
    drop((client, upstream));
    let said = carrick.stop().standard_error;
    assert!(
        said.contains("  runs as nobody, without capabilities\n"),
        "{said}"
    );
    assert!(!said.contains("WARN"), "{said}");
}

#[test]
fn root_without_a_user_stays_root_and_keeps_no_capability() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(&place, &socket_tunnel(server.address()));
    for thread in threads(&carrick) {
        assert_eq!(thread.numbers("Uid"), [0; 4]);
    }
    expect_capabilities_of_root(&carrick, 0);
    let ends = chat(&carrick, &server);
    if has_engine() {
        expect_kernel_carried(&carrick, ends);
    }
    assert_eq!(carrick.status()["process"]["user"], "root");
}

#[test]
fn a_low_port_keeps_its_one_capability_for_further_ones() {
    if !is_root() || !has_low_ports() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    let text =
        AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]) + &second_listener(LOW_PORT);
    let carrick = Carrick::start(&place, &text);
    expect_every_thread_as_nobody(&carrick);
    expect_capabilities_of_root(&carrick, 1 << NET_BIND_SERVICE);
    assert_eq!(
        carrick.status()["process"]["capabilities"],
        serde_json::json!(["CAP_NET_BIND_SERVICE"])
    );
    carrick.reload(&place, &(text + &second_listener(OTHER_LOW_PORT)));
    wait_for("another low port", || {
        std::net::TcpStream::connect(place.at(OTHER_LOW_PORT)).ok()
    });
    let said = carrick.stop().standard_error;
    assert!(
        said.contains("  runs as nobody, with CAP_NET_BIND_SERVICE\n"),
        "{said}"
    );
}

#[test]
fn ambient_capabilities_load_the_engine_and_are_given_up() {
    if !is_root() || !has_engine() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let command = by_nobody(
        &place,
        &[
            "--inh-caps=-all,+bpf,+net_admin,+perfmon,+net_bind_service",
            "--ambient-caps=+bpf,+net_admin,+perfmon,+net_bind_service",
        ],
    );
    let carrick =
        Carrick::try_start_by(&place, &socket_tunnel(server.address()), command).expect("a start");
    expect_capabilities(&carrick, 0);
    let ends = chat(&carrick, &server);
    expect_kernel_carried(&carrick, ends);
    assert!(went_without(&carrick) < 0.5);
}

#[test]
fn the_capabilities_of_the_file_load_the_engine_and_are_given_up() {
    if !is_root() || !has_engine() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let command = by_nobody(&place, &[]);
    let set = Command::new("setcap")
        .arg("cap_bpf,cap_net_admin,cap_perfmon=ep")
        .arg(place.directory().join("carrick"))
        .status();
    if !set.is_ok_and(|status| status.success()) {
        carrick_test::lacks!("files cannot have capabilities here (setcap, the file system)");
        return;
    }
    let carrick =
        Carrick::try_start_by(&place, &socket_tunnel(server.address()), command).expect("a start");
    expect_capabilities(&carrick, 0);
    let ends = chat(&carrick, &server);
    expect_kernel_carried(&carrick, ends);
}

#[test]
fn without_privileges_it_runs_without_the_engine_and_says_so_once() {
    if !is_root() {
        // Then all other tests show that it runs.
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = socket_tunnel(server.address())
        + &switch_text(&[]).replace(&crate::support::carrick::upstream_text("u", &[]), "")
        + FORWARD_TEXT;
    let carrick =
        Carrick::try_start_by(&place, &text, by_nobody(&place, NOTHING)).expect("a start");
    for thread in threads(&carrick) {
        assert_eq!(thread.numbers("Uid"), [nobody().uid.as_raw(); 4]);
    }
    expect_capabilities(&carrick, 0);
    drop(chat(&carrick, &server));
    drop(chat(&carrick, &server));
    // Each direction of each tunnel asked for it.
    wait_until("choices that were counted", || {
        went_without(&carrick) >= 2.0
    });
    for engine in carrick.status()["engines"].as_array().expect("engines") {
        let is_socket = engine["name"] == "engine socket";
        let is_useless = engine["reason"] == "the configuration does not use it";
        assert_eq!(engine["usable"], !is_socket && !is_useless, "{engine}");
        if is_socket {
            let reason = engine["reason"].as_str().expect("a reason");
            assert!(
                reason.contains("CAP_BPF") || reason.contains("Linux"),
                "{reason}"
            );
        }
    }
    carrick.reload_as(&place, &text, "ok");
    let said = carrick.stop().standard_error;
    let complaints = said.matches("the engine \"socket\" is not usable").count();
    assert_eq!(complaints, 1, "{said}");
}
