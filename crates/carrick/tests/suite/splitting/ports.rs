//! The source port that a server sees: the client's own, where possible.
use super::*;
use crate::support::carrick::PROGRAM;
use socket2::{Domain, Socket, Type};
use std::process::Command;

/// One that requires a privilege on this machine, and on the router.
const PRIVILEGED: &str = "10.1.0.2:900";

/// The next client of a server that does not block in accept.
fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let (stream, address) = wait_for("the client", || listener.accept().ok());
    stream.set_nonblocking(false).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    (stream, address)
}

/// A server that does not block in accept.
fn listen_without_waiting(bed: &Bed) -> TcpListener {
    let listener = listen(bed, SERVERS[0]);
    listener.set_nonblocking(true).expect("a listener");
    listener
}

/// A connection of the client to the first server, from that port.
fn connect_from_privileged(bed: &Bed) -> io::Result<TcpStream> {
    let [from, to] = [PRIVILEGED, SERVERS[0]].map(|text| text.parse::<SocketAddr>().unwrap());
    on(&bed.client, || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
        socket.connect_timeout(&to.into(), PATIENCE)?;
        Ok(socket.into())
    })
}

#[test]
fn a_client_with_a_privileged_port_keeps_it_where_carrick_may_have_it() {
    let Some(bed) = Bed::build() else { return };
    bed.open_to_all_users();
    let listener = listen_without_waiting(&bed);
    let without = [
        "setpriv",
        "--bounding-set=-net_bind_service",
        "--inh-caps=-net_bind_service",
        PROGRAM,
    ];
    let server_first = SPLIT.replace("at-once", "server-first");
    let as_nobody = format!("[process]\nuser = \"nobody\"\n{SPLIT}");
    for (command, text, is_kept) in [
        (&[PROGRAM][..], SPLIT, true),
        (&[PROGRAM], &as_nobody, true),
        (&[PROGRAM], &server_first, true),
        (&without, SPLIT, false),
        (&without, &server_first, false),
    ] {
        let carrick = bed
            .try_carrick(command, text)
            .unwrap_or_else(|said| panic!("{said}"));
        let mut client = connect_from_privileged(&bed).expect("a connection");
        let (mut server, address) = accept(&listener);
        talk(&mut client, &mut server);
        let is_own = address.to_string() == PRIVILEGED;
        assert_eq!(is_own, is_kept, "{address}: {text}");
        assert_eq!(intercepted(&bed, &carrick), 1.0);
        // The next one has the same addresses and ports.
        reset(client);
        carrick.stop();
        for name in ["carrick-0.log", "carrick-0.toml"] {
            let _ = std::fs::remove_file(bed.directory().join(name));
        }
    }
}

/// A firewall identifies a connection by its addresses and ports: if both halves had the same ones, it would confuse them.
#[test]
fn firewalls_that_track_connections_tell_the_halves_apart() {
    let Some(bed) = Bed::build() else { return };
    let rules = |text: &str| {
        on(&bed.router, || Command::new("nft").arg(text).status()).expect("nft");
    };
    let listener = listen_without_waiting(&bed);
    for (firewall, address) in [
        (
            "table ip fw { chain p { type nat hook postrouting priority srcnat; oifname \"eth2\" masquerade; }; }",
            "10.2.0.1",
        ),
        (
            "table ip fw { chain i { type filter hook input priority filter; ct state invalid drop; }; \
             chain o { type filter hook output priority filter; ct state invalid drop; }; }",
            "10.1.0.2",
        ),
    ] {
        rules(firewall);
        for handshake in ["at-once", "server-first"] {
            let carrick = bed.carrick(&SPLIT.replace("at-once", handshake));
            for _ in 0..3 {
                let mut client = connect(&bed, SERVERS[0]).expect("a connection");
                let (mut server, from) = accept(&listener);
                assert_eq!(from.ip().to_string(), address, "{handshake}");
                talk(&mut client, &mut server);
            }
            assert_eq!(intercepted(&bed, &carrick), 3.0, "{handshake}");
            carrick.stop();
        }
        rules("delete table ip fw");
    }
}
