//! Tunnels by the TLS server name, which is read and not changed.
use crate::support::carrick::upstream_text;
use crate::support::place::TUNNEL_PORT;
use crate::support::tls::{client_hello, client_hello_in_records};
use crate::support::{Carrick, Peer, Place, Server};
use std::io::Write;
use std::process::{Command, Stdio};

struct Stage {
    exact: Server,
    below: Server,
    rest: Server,
    carrick: Carrick,
    place: Place,
}

impl Stage {
    fn with(tables: &str) -> Self {
        let place = Place::claim();
        let [exact, below, rest] = [(); 3].map(|()| Server::listen(&place));
        let carrick = Carrick::start(
            &place,
            &format!(
                "{tables}\n[[listener]]\nlisten = \"{{ip}}:{TUNNEL_PORT}\"\nmode = \"tunnel\"\n\
                 [[listener.route]]\nsni = \"a.example.org\"\nupstream = \"exact\"\n\
                 [[listener.route]]\nsni = \"*.example.org\"\nupstream = \"below\"\n\
                 [[listener.route]]\nupstream = \"rest\"\n{}{}{}",
                upstream_text("exact", &[exact.address()]),
                upstream_text("below", &[below.address()]),
                upstream_text("rest", &[rest.address()]),
            ),
        );
        Self {
            exact,
            below,
            rest,
            carrick,
            place,
        }
    }

    /// The bytes must arrive at `server` unchanged, and an answer must come back.
    fn expect_at(&self, server: &Server, mut client: Peer, bytes: &[u8]) {
        let mut upstream = server.accept();
        upstream.expect(bytes);
        upstream.send("answer");
        client.expect("answer");
        client.send("more");
        upstream.expect("more");
    }
}

#[test]
fn the_server_name_decides() {
    let stage = Stage::with("");
    for (name, server) in [
        (Some("a.example.org"), &stage.exact),
        (Some("A.Example.ORG"), &stage.exact),
        (Some("b.example.org"), &stage.below),
        (Some("c.b.example.org"), &stage.below),
        (Some("example.org"), &stage.rest),
        (Some("a.example.org.evil.example"), &stage.rest),
        (Some("xa.example.orgx"), &stage.rest),
        (None, &stage.rest),
    ] {
        let hello = client_hello(name);
        let mut client = stage.carrick.connect_tunnel();
        client.send(&hello);
        stage.expect_at(server, client, &hello);
    }
    let lines = stage.carrick.access_log(8);
    let mut targets: Vec<&str> = lines.iter().map(|line| line.text("target")).collect();
    targets.sort_unstable();
    assert_eq!(targets[1..3], ["a.example.org"; 2], "{targets:?}");
    assert!(
        lines.iter().all(|line| line.text("version") == "TLS"),
        "{lines:?}"
    );
}

#[test]
fn a_hello_in_many_segments_and_records_is_put_together_and_passed_on_as_it_came() {
    let stage = Stage::with("");
    for hello in [
        client_hello(Some("a.example.org")),
        client_hello_in_records("a.example.org", 1),
        client_hello_in_records("a.example.org", 60),
    ] {
        for sizes in [&[usize::MAX][..], &[1], &[3, 7, 11], &[5]] {
            if sizes == [1] && hello.len() > 1000 {
                continue;
            }
            let mut client = stage.carrick.connect_tunnel();
            client.send_in_pieces(&hello, sizes);
            stage.expect_at(&stage.exact, client, &hello);
        }
    }
}

#[test]
fn bytes_right_behind_the_hello_are_not_lost() {
    let stage = Stage::with("");
    let mut bytes = client_hello(Some("b.example.org"));
    bytes.extend(crate::support::random::Random::new(4).bytes(200_000));
    let client = stage.carrick.connect_tunnel();
    let mut sender = client.second();
    let sent = bytes.clone();
    let sending = std::thread::spawn(move || sender.send(sent));
    stage.expect_at(&stage.below, client, &bytes);
    sending.join().expect("no panic");
}

#[test]
fn what_is_not_tls_has_no_name() {
    let stage = Stage::with("");
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n"[..],
        b"SSH-2.0-x\r\n",
        b"\x16",
        b"\x16\x03\x01\x00",
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16\x02\x01\x00\x05",
        b"\x80\x2e\x01\x03\x01",
        b"\0",
    ] {
        let mut client = stage.carrick.connect_tunnel();
        client.send(bytes);
        if bytes[0] == 0x16 && bytes.len() < 5 {
            // It may still become a ClientHello: the rest decides.
            client.send(b"rubbish that is no record");
            let mut whole = bytes.to_vec();
            whole.extend_from_slice(b"rubbish that is no record");
            stage.expect_at(&stage.rest, client, &whole);
        } else {
            stage.expect_at(&stage.rest, client, bytes);
        }
    }
}

#[test]
fn a_client_that_ends_its_side_at_once_hears_what_the_server_says() {
    let stage = Stage::with("");
    let mut client = stage.carrick.connect_tunnel();
    client.half_close();
    let mut upstream = stage.rest.accept();
    upstream.expect_end();
    upstream.send("220 ready\r\n");
    upstream.half_close();
    assert_eq!(client.read_to_end(), b"220 ready\r\n");
}

#[test]
fn a_hello_without_end_is_not_waited_for_longer_than_the_head_time_out() {
    let stage = Stage::with("[timeouts]\nhead = \"12s\"\ndrain = \"1s\"");
    let hello = client_hello(Some("a.example.org"));
    let mut client = stage.carrick.connect_tunnel();
    client.send(&hello[..40]);
    assert!(client.read_ending().bytes().is_empty());
    for server in [&stage.exact, &stage.below, &stage.rest] {
        server.expect_no_connection();
    }
    assert_eq!(stage.carrick.limit_reached("head_timeout"), 1.0);
    let line = &stage.carrick.access_log(1)[0];
    assert_eq!((line.status(), line.text("ended")), (408, "head_timeout"));
}

#[test]
fn a_hello_that_is_too_long_is_tls_without_a_name() {
    let stage = Stage::with("");
    let mut client = stage.carrick.connect_tunnel();
    // A record of 16 KB with the beginning of a message of 64 KB.
    let hello = [0x16, 3, 1, 0x40, 0, 1, 1, 0, 0];
    client.send(hello);
    stage.expect_at(&stage.rest, client, &hello);
    assert_eq!(stage.carrick.access_log(1)[0].text("version"), "TLS");
}

/// If the server speaks first, the client sends nothing: after the head time-out there is a tunnel without a name.
#[test]
fn a_server_that_speaks_first_is_reached_behind_sni_routes() {
    let stage = Stage::with("[timeouts]\nhead = \"300ms\"\ndrain = \"1s\"");
    let mut client = stage.carrick.connect_tunnel();
    let mut upstream = stage.rest.accept();
    upstream.send("220 hello\r\n");
    client.expect("220 hello\r\n");
    client.send("EHLO\r\n");
    upstream.expect("EHLO\r\n");
}

#[test]
fn without_a_route_for_the_name_the_connection_is_reset() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::start(
        &place,
        &format!(
            "[[listener]]\nlisten = \"{{ip}}:{TUNNEL_PORT}\"\nmode = \"tunnel\"\n[[listener.route]]\nsni = \"a.example.org\"\nupstream = \"u\"\n{}",
            upstream_text("u", &[server.address()])
        ),
    );
    for bytes in [
        client_hello(Some("b.example.org")),
        client_hello(None),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let mut client = carrick.connect_tunnel();
        client.send(bytes);
        assert!(client.read_ending().bytes().is_empty());
    }
    server.expect_no_connection();
    assert_eq!(carrick.access_log(3).len(), 3);
}

/// A real client and a real server: the handshake is between the two, and the client verifies the certificate for the name.
#[test]
fn a_real_handshake_goes_through_to_the_server_of_its_name() {
    let stage = Stage::with("");
    let directory = stage.place.directory();
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=a.example.org",
            "-addext",
            "subjectAltName=DNS:a.example.org",
        ])
        .args(["-keyout", "key.pem", "-out", "certificate.pem"])
        .current_dir(directory)
        .stderr(Stdio::null())
        .status();
    let Ok(made) = made else {
        carrick_test::skip!("there is no openssl");
        return;
    };
    assert!(made.success());
    // The real server replaces the scripted one on its port.
    let Stage {
        place,
        exact,
        carrick,
        ..
    } = stage;
    let address = exact.close();
    let mut server = Command::new("openssl")
        .args([
            "s_server",
            "-quiet",
            "-rev",
            "-cert",
            "certificate.pem",
            "-key",
            "key.pem",
            "-naccept",
            "1",
        ])
        .args(["-accept", &address.to_string()])
        .current_dir(place.directory())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    // Until it listens, carrick resets.
    let output = crate::support::wait_for("the TLS answer", || {
        let mut client = Command::new("openssl")
            .args([
                "s_client",
                "-quiet",
                "-verify_return_error",
                "-CAfile",
                "certificate.pem",
            ])
            .args([
                "-servername",
                "a.example.org",
                "-verify_hostname",
                "a.example.org",
            ])
            .args(["-connect", &carrick.tunnel_address().to_string()])
            .current_dir(place.directory())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl");
        let mut input = client.stdin.take().expect("a pipe");
        let _ = input.write_all(b"carrick\n");
        let mut output = std::io::BufReader::new(client.stdout.take().expect("a pipe"));
        let mut line = String::new();
        let _ = std::io::BufRead::read_line(&mut output, &mut line);
        drop(input);
        let _ = client.kill();
        let _ = client.wait();
        (!line.is_empty()).then_some(line)
    });
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(output, "kcirrac\n");
}
