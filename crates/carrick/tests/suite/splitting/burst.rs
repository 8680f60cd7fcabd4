//! Many connections at once.
use super::*;
use crate::support::descriptors::{MANY, turn};
use socket2::{Domain, Socket, Type};

#[test]
fn nine_thousand_connections_in_a_burst_are_all_split_and_all_alive() {
    let Some(_turn) = turn() else { return };
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(&format!(
        "[timeouts]\nconnect = \"10m\"\ndrain = \"2s\"\n{SPLIT}"
    ));
    let address: SocketAddr = SERVERS[0].parse().unwrap();
    let listener = bed.server.inside(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&address.into())?;
        socket.listen(4096)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    });
    let listener = listener.expect("a listener");
    let servers = std::thread::spawn(move || -> Vec<TcpStream> {
        let one = |_| {
            let (server, _) = wait_for("a connection", || listener.accept().ok());
            server.set_nonblocking(false).expect("an option");
            server
                .set_read_timeout(Some(PATIENCE))
                .expect("a time limit");
            server
        };
        (0..MANY).map(one).collect()
    });
    let clients: Vec<TcpStream> = bed
        .client
        .inside(|| {
            let one = |_| {
                let client = TcpStream::connect_timeout(&address, PATIENCE)?;
                client.set_read_timeout(Some(PATIENCE))?;
                Ok(client)
            };
            (0..MANY).map(one).collect()
        })
        .expect("connections");
    let servers = servers.join().expect("servers");
    assert_eq!(intercepted(&bed, &carrick), MANY as f64);
    for (number, mut client) in clients.iter().enumerate() {
        client
            .write_all(&(number as u32).to_be_bytes())
            .expect("sending");
    }
    let mut numbers: Vec<u32> = (servers.iter())
        .map(|mut server| {
            let mut bytes = [0; 4];
            server.read_exact(&mut bytes).expect("a number");
            server.write_all(&bytes).expect("sending");
            u32::from_be_bytes(bytes)
        })
        .collect();
    for (number, mut client) in clients.iter().enumerate() {
        let mut bytes = [0; 4];
        client.read_exact(&mut bytes).expect("a number");
        assert_eq!(u32::from_be_bytes(bytes), number as u32);
    }
    numbers.sort_unstable();
    assert!(
        numbers
            .iter()
            .enumerate()
            .all(|(at, number)| at as u32 == *number)
    );
}
