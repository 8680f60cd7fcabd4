//! Servers given by name.
use crate::support::carrick::{PROGRAM, switch_text};
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, wait_until};
use std::net::{IpAddr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A name server for which each name has one address, for a second.
struct NameServer(Arc<Mutex<IpAddr>>);

impl NameServer {
    /// On the port that `/etc/resolv.conf` implies.
    fn listen(place: &Place, address: IpAddr) -> Self {
        let socket = UdpSocket::bind(place.at(53)).expect("the port of name servers");
        let address = Arc::new(Mutex::new(address));
        let known = Arc::clone(&address);
        // Ends with the tests.
        std::thread::spawn(move || {
            let mut query = [0; 512];
            while let Ok((length, asker)) = socket.recv_from(&mut query) {
                let answer = answer(&query[..length], *known.lock().expect("a lock"));
                socket.send_to(&answer, asker).expect("a datagram");
            }
        });
        Self(address)
    }

    fn now_says(&self, address: IpAddr) {
        *self.0.lock().expect("a lock") = address;
    }
}

/// The answer to a query (RFC 1035 section 4): one A record, or none of another type.
fn answer(query: &[u8], address: IpAddr) -> Vec<u8> {
    let name = query[12..].iter().position(|byte| *byte == 0);
    let question = &query[12..12 + name.expect("the end of the name") + 5];
    let is_a = question[question.len() - 4..] == [0, 1, 0, 1];
    let mut answer = query[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(question);
    if let (true, IpAddr::V4(address)) = (is_a, address) {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
        answer.extend(address.octets());
    }
    answer
}

/// A carrick with this name server only, and an upstream with one server, by name.
fn start(place: &Place, port: u16) -> Carrick {
    place.write("resolv.conf", &format!("nameserver {}\n", place.ip()));
    let script =
        "mount --make-rprivate / && mount --bind resolv.conf /etc/resolv.conf && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", PROGRAM]);
    let server = place.at(port);
    let text =
        switch_text(&[server]).replace(&server.to_string(), &format!("moving.example:{port}"));
    Carrick::try_start_by(place, &text, command).expect("a start")
}

/// The old server goes on: only the name says that it is no longer meant.
#[test]
fn requests_follow_a_name_to_its_new_address_though_their_connection_is_never_idle_for_long() {
    if !carrick_test::is_root() {
        return;
    }
    let (place, other) = (Place::claim(), Place::claim());
    let serve = |server: Server, status: u16| {
        server.serve(move |peer, _| {
            answer_requests(peer, |_| {
                format!("HTTP/1.1 {status} OK\r\nContent-Length: 0\r\n\r\n").into_bytes()
            });
        })
    };
    let old = serve(Server::listen(&place), 200);
    let port = old.address().port();
    let new = serve(Server::listen_at(other.at(port)), 203);
    let names = NameServer::listen(&place, place.ip());
    let carrick = start(&place, port);
    // The connection is the client's alone, or anybody's between two requests.
    for request in [
        &GET.replace("\r\n\r\n", "\r\nAuthorization: NTLM a\r\n\r\n"),
        GET,
    ] {
        let mut client = carrick.connect();
        assert_eq!(client.ask(request).status, 200);
        for (server, status) in [(&new, 203), (&old, 200)] {
            names.now_says(server.address().ip());
            wait_until("the new address", || client.ask(request).status == status);
        }
    }
}
