//! Basic authentication (RFC 7617) against a password file.
use crate::support::carrick::FORWARD_TEXT;
use crate::support::message::field;
use crate::support::{Carrick, Place, Server};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Users with passwords in several formats of `htpasswd` and `openssl passwd`: each is `open sesame`.
const USERS: &str = "\
    sha:{SHA}mx7yYWgI4+pmNuQlsUS2oDCZ9hU=\n";

fn basic(text: &str) -> String {
    format!(
        "Proxy-Authorization: Basic {}\r\n",
        BASE64_STANDARD.encode(text)
    )
}

/// Creates the file with the usual tool.
fn users_file(place: &Place) {
    let made = std::process::Command::new("openssl")
        .args(["passwd", "-6", "-salt", "pepper", "open sesame"])
        .output();
    let hash = made
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let mut text = USERS.to_owned();
    if let Some(hash) = hash {
        text += &format!("crypt:{hash}\n");
    }
    place.write("users.htpasswd", &text);
}

#[test]
fn without_a_right_password_the_answer_is_407_and_nothing_goes_out() {
    let place = Place::claim();
    let server = Server::listen(&place);
    place.write(
        "users.htpasswd",
        &format!("ali:{{SHA}}{}\n", sha1_of("open sesame")),
    );
    let carrick = Carrick::start(
        &place,
        &format!("{FORWARD_TEXT}users = \"users.htpasswd\"\n"),
    );
    let url = format!("http://{}/", server.address());
    let mut client = carrick.connect_forward();
    for fields in [
        String::new(),
        basic("ali:wrong"),
        basic("ali:"),
        basic("ali"),
        basic(":open sesame"),
        basic("bob:open sesame"),
        basic("ALI:open sesame"),
        "Proxy-Authorization: Basic !!!\r\n".to_owned(),
        "Proxy-Authorization: Bearer abc\r\n".to_owned(),
        basic("ali:open sesame").replace("Proxy-", ""),
    ] {
        for request in [
            format!("GET {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"),
            format!(
                "CONNECT {} HTTP/1.1\r\nHost: x\r\n{fields}\r\n",
                server.address()
            ),
        ] {
            // The connection stays open: clients try without credentials first, and retry on the same one.
            let response = client.ask(&request);
            assert_eq!(response.status, 407, "{request:?}");
            assert!(
                response
                    .field("proxy-authenticate")
                    .is_some_and(|value| value.starts_with("Basic realm=")),
                "{}",
                response.head
            );
            assert_eq!(response.field("connection"), None);
        }
    }
    server.expect_no_connection();
    let right = basic("ali:open sesame");
    client.send(format!("GET {url} HTTP/1.1\r\nHost: x\r\n{right}\r\n"));
    let mut upstream = server.accept();
    let head = upstream.read_head();
    assert_eq!(
        field(&head, "proxy-authorization"),
        None,
        "the password is for the proxy alone: {head}"
    );
    upstream.send("HTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.read_response("GET").status, 204);
    client.send(format!(
        "CONNECT {} HTTP/1.1\r\nHost: x\r\n{right}\r\n",
        server.address()
    ));
    assert!(client.read_head().starts_with("HTTP/1.1 200 "));
    let mut tunnel = server.accept();
    client.send("through");
    tunnel.expect("through");
    drop((client, tunnel));
    let lines = carrick.access_log(22);
    let named = lines
        .iter()
        .filter(|line| line.text("user") == "ali")
        .count();
    assert_eq!(named, 2, "{lines:?}");
}

#[test]
fn passwords_as_the_usual_tools_write_them_are_understood() {
    let place = Place::claim();
    let server = Server::listen(&place).serve(|peer, _| {
        crate::support::server::answer_requests(peer, |_| b"HTTP/1.1 204 No Content\r\n\r\n".into())
    });
    users_file(&place);
    let mut names = vec!["crypt".to_owned()];
    for (name, option) in [("bcrypt", "-B"), ("md5", "-m"), ("sha1", "-s")] {
        let made = std::process::Command::new("htpasswd")
            .args(["-b", option, "users.htpasswd", name, "open sesame"])
            .current_dir(place.directory())
            .output();
        match made {
            Ok(output) => {
                assert!(output.status.success(), "{output:?}");
                names.push(name.to_owned());
            }
            Err(error) => carrick_test::skip!("htpasswd: {error}"),
        }
    }
    let carrick = Carrick::start(
        &place,
        &format!("{FORWARD_TEXT}users = \"users.htpasswd\"\n"),
    );
    for name in names {
        for (password, status) in [("open sesame", 204), ("open sesam", 407)] {
            let response = carrick.connect_forward().ask(&format!(
                "GET http://{}/ HTTP/1.1\r\nHost: x\r\n{}\r\n",
                server.address(),
                basic(&format!("{name}:{password}"))
            ));
            assert_eq!(response.status, status, "{name} {password}");
        }
    }
}

fn sha1_of(text: &str) -> String {
    use sha1::Digest;
    BASE64_STANDARD.encode(sha1::Sha1::digest(text.as_bytes()))
}
