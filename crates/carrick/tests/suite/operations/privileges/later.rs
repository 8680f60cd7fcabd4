//! Later operations that need privileges: a reload or a rotation without them reports that, and the rest continues.
use super::*;
use crate::support::carrick::ACCESS_LOG;
use crate::support::place::{FORWARD_PORT, LISTENER_PORT};
use rustix::process::Signal;
use std::path::Path;

/// Makes a file accessible for root only.
fn close(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions");
}

fn last_error(carrick: &Carrick) -> String {
    let error = carrick.status()["reloads"]["last"]["error"].clone();
    error.as_str().expect("an error").to_owned()
}

#[test]
fn a_low_port_at_a_reload_waits_for_a_restart() {
    if !is_root() || !has_low_ports() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    let text = AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]);
    let carrick = Carrick::start(&place, &text);
    carrick.reload_as(
        &place,
        &(text.clone() + &second_listener(LOW_PORT)),
        "failed",
    );
    let error = last_error(&carrick);
    for part in [
        &format!("cannot listen on {}", place.at(LOW_PORT)),
        "CAP_NET_BIND_SERVICE",
        "carrick dropped its privileges at start and now runs as nobody",
        "restart",
    ] {
        assert!(error.contains(part), "{part:?} is missing in {error:?}");
    }
    drop(chat(&carrick, &server));
    // The same for admin.
    let with_admin = format!("[admin]\nlisten = \"{{ip}}:{LOW_PORT}\"\n{text}");
    carrick.reload_as(&place, &with_admin, "failed");
    let error = last_error(&carrick);
    assert!(
        error.contains("for admin") && error.contains("restart"),
        "{error}"
    );
    carrick.reload_as(&place, &text, "ok");
}

/// A forward proxy on another port.
fn forward_listener(port: u16) -> String {
    format!("[[listener]]\nlisten = \"{{ip}}:{port}\"\nmode = \"forward\"\n")
}

#[test]
fn a_listener_that_root_opened_may_have_another_mode_and_others_open_beside_it() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    let tunnel = tunnel_text(&[server.address()]);
    let switch = tunnel.replace("\"tunnel\"", "\"switch\"");
    let before = forward_listener(FORWARD_PORT) + &switch + AS_NOBODY;
    // The new listener comes after the one with another mode.
    let with = |listener: &str| listener.to_owned() + &forward_listener(LISTENER_PORT) + AS_NOBODY;
    let carrick = Carrick::start(&place, &before);
    for _ in 0..2 {
        carrick.reload_as(&place, &with(&tunnel), "ok");
        let mut client = carrick.connect_tunnel();
        let mut upstream = server.accept();
        upstream.send("220 a.example\r\n");
        client.expect("220 a.example\r\n");
        drop((client, upstream));
        drop(carrick.connect());

        carrick.reload_as(&place, &with(&switch), "ok");
        let mut client = carrick.connect_tunnel();
        client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
        let mut upstream = server.accept();
        upstream.read_head();
        upstream.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        assert_eq!(client.read_response("GET").status, 204);
        drop(carrick.connect());
    }
}

#[test]
fn all_addresses_instead_of_one_wait_for_a_restart_if_root_opened_that_one() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    let port = place.port_on_all_addresses();
    let one = tunnel_text(&[server.address()]).replace(&TUNNEL_PORT.to_string(), &port.to_string());
    let all = one.replace("{ip}", "0.0.0.0") + AS_NOBODY;
    let carrick = Carrick::start(&place, &(one.clone() + AS_NOBODY));
    carrick.reload_as(&place, &all, "failed");
    let error = last_error(&carrick);
    for part in [
        &format!("cannot listen on 0.0.0.0:{port}"),
        "carrick's own socket",
        "restart carrick",
    ] {
        assert!(error.contains(part), "{part:?} is missing in {error:?}");
    }
    drop(Peer::connect(place.at(port)));
    drop(server.accept());
}

#[test]
fn an_engine_that_is_asked_for_later_waits_for_a_restart() {
    if !is_root() || !has_engine() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    // No configuration that would load the engine.
    let without = format!(
        "[splice]\nengine = \"copy\"\n{}",
        tunnel_text(&[server.address()])
    );
    let carrick = Carrick::start(&place, &without);
    assert!(
        !carrick
            .standard_error()
            .text()
            .contains("not usable, because")
    );
    let with = socket_tunnel(server.address());
    carrick.reload_as(&place, &with, "ok");
    let said = carrick
        .standard_error()
        .wait_for("configuration reloaded")
        .expect("a message");
    for part in [
        "the engine \"socket\" is not usable, because the privileges CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON are missing",
        "carrick dropped the privileges for it at start, and needs a restart to have them",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    // It goes through the process, and is counted; `/status` has the reason.
    drop(chat(&carrick, &server));
    wait_until("a choice that was counted", || {
        went_without(&carrick) >= 1.0
    });
    let engine = carrick.status()["engines"][2].clone();
    assert_eq!(engine["name"], "engine socket");
    let reason = engine["reason"].as_str().expect("a reason");
    assert!(reason.contains("CAP_BPF"), "{reason}");
    carrick.reload_as(&place, &with, "ok");
    let said = carrick.stop().standard_error;
    assert_eq!(said.matches("is not usable, because").count(), 1, "{said}");
}

#[test]
fn an_engine_that_is_loaded_stays_for_later_reloads() {
    if !is_root() || !has_engine() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let with = socket_tunnel(server.address());
    let carrick = Carrick::start(&place, &with);
    carrick.reload_as(&place, &tunnel_text(&[server.address()]), "ok");
    carrick.reload_as(&place, &with, "ok");
    // The workers apply a new configuration when they wake.
    wait_until("a tunnel in the kernel", || {
        drop(chat(&carrick, &server));
        let labels = ["engine=\"socket\""];
        carrick.metric("carrick_splice_bytes_total", &labels) > 0.0
    });
    assert!(went_without(&carrick) < 0.5);
}

#[test]
fn another_user_at_a_reload_waits_for_a_restart() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    let server = Server::listen(&place);
    let text = tunnel_text(&[server.address()]);
    let carrick = Carrick::start(&place, &text);
    carrick.reload_as(&place, &(AS_NOBODY.to_owned() + &text), "ok");
    let said = carrick
        .standard_error()
        .wait_for("a changed [process] takes effect only after a restart")
        .expect("a message");
    assert!(
        said.contains("continues to run as root, without capabilities"),
        "{said}"
    );
    assert_eq!(carrick.status()["process"]["user"], "root");
}

#[test]
fn a_log_that_the_user_cannot_open_keeps_carrick_from_starting() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    close(place.directory(), 0o755);
    let server = Server::listen(&place);
    let text = AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]);
    let ended = Carrick::try_start(&place, &text).expect_err("carrick must not start");
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    let user = format!("carrick runs as user {} without privileges", nobody().uid);
    for part in ["cannot open the access log", ACCESS_LOG, &user] {
        assert!(ended.standard_error.contains(part), "{part:?}: {ended:#?}");
    }
}

#[test]
fn a_log_that_cannot_be_opened_again_goes_on_in_the_old_file() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    let server = Server::listen(&place);
    let text = AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]);
    let carrick = Carrick::start(&place, &text);
    let moved = place.directory().join("moved.log");
    std::fs::rename(place.directory().join(ACCESS_LOG), &moved).expect("a log to move");
    close(place.directory(), 0o755);
    carrick.signal(Signal::USR1);
    let said = carrick
        .standard_error()
        .wait_for("carrick continues to write the old file")
        .expect("a message");
    assert!(
        said.contains("allow it to write the file, and the directory"),
        "{said}"
    );
    drop(chat(&carrick, &server));
    wait_until("a line in the old file", || {
        let text = std::fs::read_to_string(&moved).expect("the log");
        text.contains("\"mode\":\"tunnel\"")
    });
    // A reload that moves the log is refused in the same way.
    let elsewhere = format!("[log]\naccess = \"other.log\"\nformat = \"json\"\n{text}");
    carrick.reload_as(&place, &elsewhere, "failed");
    let error = last_error(&carrick);
    assert!(
        error.contains("cannot open the access log") && error.contains("dropped its privileges"),
        "{error}"
    );
}

#[test]
fn a_configuration_that_only_root_can_read_is_reported_at_start() {
    if !is_root() {
        return;
    }
    let place = Place::claim();
    open_to_all_users(&place);
    place.write("carrick.toml", "");
    close(&place.directory().join("carrick.toml"), 0o600);
    let server = Server::listen(&place);
    let text = AS_NOBODY.to_owned() + &tunnel_text(&[server.address()]);
    let carrick = Carrick::start(&place, &text);
    let said = carrick.standard_error().text();
    for part in [
        "carrick now runs as nobody, without capabilities, and can no longer read its configuration",
        "carrick.toml cannot be read: Permission denied",
    ] {
        assert!(said.contains(part), "{part:?} is missing in {said}");
    }
    carrick.reload_as(&place, &text, "failed");
    assert!(last_error(&carrick).contains("cannot be read"));
    drop(chat(&carrick, &server));
}
