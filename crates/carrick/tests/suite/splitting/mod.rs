//! Splitters on a real router: clients, a router with carrick, and servers, each in a network namespace; every byte is checked.
mod burst;
mod ends;
mod exits;
mod intercepted;
mod learning;
mod local;
mod ports;
mod tcp_profiles;

use crate::outliving::bed::on;
use crate::support::{PATIENCE, wait_for, wait_until};
use crate::transparent::bed::{Bed, Running};
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A splitter for all ports of both families.
const SPLIT: &str = "[[listener]]\nlisten = \"[::]:3180\"\nmode = \"split\"\nhandshake = \"at-once\"\nsplit = \"always\"\nintercept = { ports = \"all\", except_ports = [22], interfaces = [\"eth1\"] }\n";

/// The server's addresses, in both families.
const SERVERS: [&str; 2] = ["10.2.0.2:9000", "[fd00:2::2]:9000"];

const INTERCEPTED: &str = "carrick_intercepted_connections_total";

fn listen(bed: &Bed, address: &str) -> TcpListener {
    on(&bed.server, || carrick_test::listen(address))
}

fn connect(bed: &Bed, address: &str) -> io::Result<TcpStream> {
    let address: SocketAddr = address.parse().expect("an address");
    let stream = bed
        .client
        .inside(|| Ok(TcpStream::connect_timeout(&address, PATIENCE)))
        .expect("the namespace")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Both ends of a connection from the client to the server.
fn pair(bed: &Bed, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let address = listener.local_addr().expect("an address").to_string();
    let client = connect(bed, &address).expect("a connection");
    let (server, _) = listener.accept().expect("a connection");
    server
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    (client, server)
}

/// Whether carrick is in between: then the router has a socket with the client's address and port, which the server sees in either case.
fn is_split(bed: &Bed, client: &TcpStream, server: &TcpStream) -> bool {
    let client = client.local_addr().unwrap();
    assert_eq!(client, server.peer_addr().unwrap(), "the client's ends");
    let filter = format!("sport = :{}", client.port());
    let shown = on(&bed.router, || {
        std::process::Command::new("ss")
            .args(["-Htn", &filter])
            .output()
    });
    !shown.expect("ss").stdout.is_empty()
}

/// Sends something in both directions, and checks that it arrives.
fn talk(client: &mut TcpStream, server: &mut TcpStream) {
    let mut buffer = [0; 5];
    client.write_all(b"there").expect("sending");
    server.read_exact(&mut buffer).expect("the client's bytes");
    assert_eq!(&buffer, b"there");
    server.write_all(b"again").expect("sending");
    client.read_exact(&mut buffer).expect("the server's bytes");
    assert_eq!(&buffer, b"again");
}

/// Whether a connection ends by a reset.
fn is_reset(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => {
                eprintln!("it ended without a reset");
                return false;
            }
            Ok(_) => {}
            Err(error) => {
                eprintln!("the end: {error}");
                return error.kind() == io::ErrorKind::ConnectionReset;
            }
        }
    }
}

/// Closes with a reset.
fn reset(stream: TcpStream) {
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .expect("an option");
}

fn intercepted(bed: &Bed, carrick: &Running) -> f64 {
    carrick.metric(bed, INTERCEPTED)
}
