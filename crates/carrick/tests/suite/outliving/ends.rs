//! Ends of connections that the network loses while carrick exits.
use super::bed::{Bed, PROXY, Running, SERVER, inside, on};
use crate::support::{PATIENCE, wait_until};
use crate::transparent::bed::{inside as command_in, lines};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A switch whose responses the kernel forwards.
fn switch(bed: &Bed) -> Running {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:3129\"\n[log]\naccess = \"\"\n[process]\npins = \"{}\"\n\
         [[listener]]\nlisten = \"{PROXY}\"\nmode = \"switch\"\n\
         [[listener.route]]\nupstream = \"u\"\nengine = \"packet\"\n\
         [upstream.u]\nservers = [\"{SERVER}\"]\n",
        bed.pins().display()
    );
    let file = bed.directory().join("switch.toml");
    std::fs::write(&file, text).expect("a file");
    bed.start_by(0, &[], &file)
}

fn read_head(stream: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).expect("a line"), 0, "{head}");
    }
    head
}

#[test]
fn a_client_hears_of_its_end_that_was_lost_while_carrick_ended() {
    inside(|bed| {
        let carrick = switch(bed);
        let client = on(&bed.client, || {
            TcpStream::connect(PROXY).expect("the proxy")
        });
        client.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut client = BufReader::new(client);
        let mut server = None;
        for _ in 0..4 {
            let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
            client.get_mut().write_all(request).expect("asked");
            let server = server.get_or_insert_with(|| BufReader::new(bed.accept()));
            read_head(server);
            let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            server.get_mut().write_all(response).expect("answered");
            read_head(&mut client);
            client.read_exact(&mut [0; 2]).expect("its body");
        }
        wait_until("the acknowledgement of the last response", || {
            let output = command_in(&bed.server, &["ss", "-Htin"])
                .output()
                .expect("ss");
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            !told.contains("unacked:")
        });
        lines(&bed.client, &["link set c down"]);
        let said = carrick.stop();
        assert!(
            said.contains("without their peers' acknowledgement"),
            "{said}"
        );
        assert_eq!(bed.generations().len(), 1);
        lines(&bed.client, &["link set c up"]);
        assert_eq!(client.read(&mut [0; 2]).expect("its end"), 0);
    });
}
