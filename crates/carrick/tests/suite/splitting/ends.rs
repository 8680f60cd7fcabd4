//! How connections end: half-closes, resets and refusals reach the other side unchanged.
use super::*;
use std::net::Shutdown;

#[test]
fn a_half_close_reaches_the_other_side_and_the_way_back_stays_open() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    for address in SERVERS {
        let listener = listen(&bed, address);
        for is_client_first in [true, false] {
            let (client, server) = pair(&bed, &listener);
            assert!(is_split(&bed, &client, &server));
            let (mut first, mut second) = if is_client_first {
                (client, server)
            } else {
                (server, client)
            };
            first.write_all(b"all I have").expect("sending");
            first.shutdown(Shutdown::Write).expect("a half-close");
            let mut text = String::new();
            second.read_to_string(&mut text).expect("the end");
            assert_eq!(text, "all I have");
            second.write_all(&[7; 300_000]).expect("sending");
            drop(second);
            let mut bytes = Vec::new();
            first.read_to_end(&mut bytes).expect("the end");
            assert!(bytes.len() == 300_000 && bytes.iter().all(|byte| *byte == 7));
        }
    }
    drop(carrick);
}

#[test]
fn a_reset_reaches_the_other_side_as_a_reset() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    for address in SERVERS {
        let listener = listen(&bed, address);
        let (mut client, mut server) = pair(&bed, &listener);
        talk(&mut client, &mut server);
        reset(client);
        assert!(is_reset(&mut server), "the client's, {address}");
        let (mut client, mut server) = pair(&bed, &listener);
        talk(&mut client, &mut server);
        reset(server);
        assert!(is_reset(&mut client), "the server's, {address}");
    }
    drop(carrick);
}

#[test]
fn a_client_that_was_answered_at_once_is_reset_when_the_server_refuses() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    for address in SERVERS {
        match connect(&bed, address) {
            Ok(mut client) => assert!(is_reset(&mut client), "{address}"),
            // The reset may arrive before the connection is used.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }
    let log = carrick.access_log(2);
    assert!(log.iter().all(|line| line["mode"] == "split"), "{log:?}");
}

/// A client whose machine is gone: nothing arrives from it, not even a reset.
#[test]
fn a_client_that_vanishes_is_given_up_and_the_server_told() {
    let Some(bed) = Bed::build() else { return };
    let text = format!(
        "{SPLIT}tcp_profiles = {{ profile = \"p\" }}\n[tcp_profile.p]\nuser_timeout = \"1s\"\nkeepalive = {{ idle = \"1s\", interval = \"1s\", probes = 2 }}\n"
    );
    let carrick = bed.carrick(&text);
    let listener = listen(&bed, SERVERS[0]);
    let (mut client, mut server) = pair(&bed, &listener);
    talk(&mut client, &mut server);
    crate::transparent::bed::lines(&bed.client, &["link set eth0 down"]);
    assert!(is_reset(&mut server));
    drop((client, carrick));
}

#[test]
fn a_receiver_that_does_not_read_holds_no_more_than_its_bound() {
    let Some(bed) = Bed::build() else { return };
    let text = format!(
        "{SPLIT}tcp_profiles = {{ profile = \"small\" }}\n[tcp_profile.small]\nsend_buffer = \"128 KB\"\nreceive_buffer = \"128 KB\"\n"
    );
    let carrick = bed.carrick(&text);
    let listener = listen(&bed, SERVERS[0]);
    let (mut client, server) = pair(&bed, &listener);
    for end in [&client, &server] {
        let end = SockRef::from(end);
        end.set_recv_buffer_size(64 << 10).expect("an option");
        end.set_send_buffer_size(64 << 10).expect("an option");
    }
    server.set_nonblocking(true).expect("an option");
    let mut sent = 0_usize;
    let mut idle = 0;
    // Until nothing is accepted for a second.
    while idle < 100 {
        match (&server).write(&[9; 65_536]) {
            Ok(count) => (sent, idle) = (sent + count, 0),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                idle += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    // Two buffers of carrick's, a pipe, and the ends' own buffers; the kernel doubles the configured sizes.
    assert!(sent < 2 << 20, "{sent} bytes are in flight");
    drop(server);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).expect("the end");
    assert!(bytes.len() == sent && bytes.iter().all(|byte| *byte == 9));
    drop(carrick);
}

#[test]
fn a_smaller_mtu_on_one_side_is_no_trouble_for_the_other() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    for (namespace, device) in [(&bed.client, "eth0"), (&bed.server, "eth0")] {
        let of_router = if namespace.name() == bed.client.name() {
            "eth1"
        } else {
            "eth2"
        };
        let set = |mtu| {
            let near = format!("link set {device} mtu {mtu}");
            crate::transparent::bed::lines(namespace, &[near.as_str()]);
            let far = format!("link set {of_router} mtu {mtu}");
            crate::transparent::bed::lines(&bed.router, &[far.as_str()]);
        };
        set(1280);
        for address in SERVERS {
            let listener = listen(&bed, address);
            let (mut client, mut server) = pair(&bed, &listener);
            let sent = std::thread::spawn(move || {
                server.write_all(&[5; 1 << 20]).expect("sending");
            });
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).expect("the end");
            assert_eq!(bytes.len(), 1 << 20);
            sent.join().expect("the server");
        }
        set(1500);
    }
    drop(carrick);
}

#[test]
fn a_splitter_that_is_not_transparent_goes_where_its_routes_say_and_can_be_chained() {
    let Some(bed) = Bed::build() else { return };
    let one = |port: u16, next: &str| {
        format!(
            "[[listener]]\nlisten = \"[::]:{port}\"\nmode = \"split\"\ntransparent = false\n[[listener.route]]\nupstream = \"next\"\n[upstream.next]\nservers = \"{next}\"\n"
        )
    };
    let near = bed.carrick(&one(3181, "127.0.0.1:3182"));
    let far = bed.carrick(&one(3182, SERVERS[0]));
    let listener = listen(&bed, SERVERS[0]);
    let mut client = connect(&bed, "10.1.0.1:3181").expect("a connection");
    let (mut server, from) = listener.accept().expect("a connection");
    assert_eq!(from.ip().to_string(), "10.2.0.1");
    talk(&mut client, &mut server);
    reset(client);
    assert!(is_reset(&mut server));
    drop((near, far));
}
