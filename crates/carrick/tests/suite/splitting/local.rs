//! Connections of the router's own programs.
use super::*;

fn splitter(extra: &str) -> String {
    SPLIT.replace(
        "interfaces = [\"eth1\"]",
        "interfaces = [\"eth1\"], local = true",
    ) + extra
}

/// Both ends of a connection from a program on the router.
fn pair_of_router(bed: &Bed, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let address = listener.local_addr().expect("an address");
    let client = bed
        .router
        .inside(|| Ok(TcpStream::connect_timeout(&address, PATIENCE)?))
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
