//! Connections of the router's own programs.
use super::*;
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};

fn splitter(extra: &str) -> String {
    SPLIT.replace(
        "interfaces = [\"eth1\"]",
        "interfaces = [\"eth1\"], local = true",
    ) + extra
}

/// Both ends of a connection from a program on the router.
fn pair_of_router(bed: &Bed, listener: &TcpListener) -> (TcpStream, TcpStream) {
    pair_from_port(bed, listener, 0)
}

/// Likewise, from this port.
fn pair_from_port(bed: &Bed, listener: &TcpListener, port: u16) -> (TcpStream, TcpStream) {
    let address = listener.local_addr().expect("an address");
    let any: SocketAddr = if address.is_ipv4() {
        ([0; 4], port).into()
    } else {
        ([0_u16; 8], port).into()
    };
    let client = on(&bed.router, || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.bind(&any.into())?;
        socket.connect_timeout(&address.into(), PATIENCE)?;
        io::Result::Ok(TcpStream::from(socket))
    })
    .expect("a connection");
    client
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    let (server, _) = listener.accept().expect("a connection");
    server
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    (client, server)
}

#[test]
fn programs_of_the_router_are_clients_and_carrick_is_none() {
    let Some(bed) = Bed::build() else { return };
    bed.open_to_all_users();
    let before = bed.rules();
    for (count, (address, extra)) in [
        (SERVERS[0], ""),
        (SERVERS[1], "keep_client_address = false\n"),
        (SERVERS[0], "keep_client_address = false\n"),
        (SERVERS[1], ""),
    ]
    .into_iter()
    .enumerate()
    {
        let listener = listen(&bed, address);
        let (mut standing, mut standing_server) = pair_of_router(&bed, &listener);
        let user = if count > 1 {
            "[process]\nuser = \"nobody\"\n"
        } else {
            ""
        };
        let carrick = bed.carrick(&format!("{user}{}", splitter(extra)));
        let (mut client, mut server) = pair_of_router(&bed, &listener);
        assert_ne!(
            client.local_addr().unwrap().port(),
            server.peer_addr().unwrap().port(),
            "{address}"
        );
        talk(&mut client, &mut server);
        talk(&mut standing, &mut standing_server);
        let (mut other, mut other_server) = pair(&bed, &listener);
        talk(&mut other, &mut other_server);
        // One of each, and none of carrick's own: there is no loop.
        assert_eq!(intercepted(&bed, &carrick), 2.0, "{address}");
        reset(client);
        assert!(is_reset(&mut server));
        drop((other, other_server));
        carrick.stop();
        talk(&mut standing, &mut standing_server);
        assert_eq!(bed.rules(), before);
    }
}

#[test]
fn two_carricks_do_not_take_each_others_connections() {
    let Some(bed) = Bed::build() else { return };
    let one = bed.carrick(&splitter(""));
    let program = crate::support::carrick::PROGRAM;
    let other = splitter("").replace("3180", "3181");
    let said = bed.try_carrick(&[program], &other).err().expect("no start");
    assert!(
        said.contains("another carrick intercepts connections of local programs"),
        "{said}"
    );
    drop(one);
}

#[test]
fn while_carrick_drains_new_connections_of_programs_bypass_it() {
    let Some(bed) = Bed::build() else { return };
    let text = splitter("keep_client_address = false\n");
    let carrick = bed.carrick(&format!("[timeouts]\ndrain = \"1m\"\n{text}"));
    let listeners = SERVERS.map(|address| listen(&bed, address));
    let mut standing = listeners.each_ref().map(|one| pair_of_router(&bed, one));
    // The rules know their addresses and ports for an hour.
    let ports = listeners.each_ref().map(|listener| {
        let (client, mut server) = pair_of_router(&bed, listener);
        let port = client.local_addr().unwrap().port();
        reset(client);
        assert!(is_reset(&mut server));
        port
    });
    carrick.signal(Signal::TERM);
    wait_until("the rules of a drain", || {
        let chain = ["list", "chain", "inet", "carrick-3180", "begin-local"];
        let chain = bed.router.run("nft", &chain).expect("a chain");
        !chain.contains("mark")
    });
    for (listener, port) in listeners.iter().zip(ports) {
        for port in [port, 0] {
            let (mut client, mut server) = pair_from_port(&bed, listener, port);
            assert_eq!(client.local_addr().unwrap(), server.peer_addr().unwrap());
            talk(&mut client, &mut server);
        }
    }
    for (client, server) in &mut standing {
        talk(client, server);
    }
    // The second signal.
    carrick.stop();
}
