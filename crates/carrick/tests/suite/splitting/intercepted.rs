//! Which packets are redirected to carrick, and which are not.
use super::*;
use rustix::process::{Pid, Signal, kill_process};
use socket2::{Domain, Socket, Type};
use std::process::Stdio;

#[test]
fn connections_that_stood_before_go_on_when_carrick_comes_and_goes() {
    let Some(bed) = Bed::build() else { return };
    for address in SERVERS {
        let listener = listen(&bed, address);
        let (mut client, mut server) = pair(&bed, &listener);
        assert!(!is_split(&bed, &client, &server));
        talk(&mut client, &mut server);
        for is_killed in [false, true] {
            let carrick = bed.carrick(SPLIT);
            talk(&mut client, &mut server);
            let (mut other, mut other_server) = pair(&bed, &listener);
            assert!(is_split(&bed, &other, &other_server));
            talk(&mut other, &mut other_server);
            assert_eq!(intercepted(&bed, &carrick), 1.0);
            if is_killed {
                carrick.kill();
            } else {
                drop((other, other_server));
                carrick.stop();
            }
            talk(&mut client, &mut server);
            bed.wait_for_supervisors();
        }
    }
}

#[test]
fn all_ports_but_those_that_are_left_out_of_both_families() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    for (host, expected) in [
        ("10.2.0.2:1", true),
        ("10.2.0.2:65535", true),
        ("[fd00:2::2]:9000", true),
        ("10.2.0.2:22", false),
        ("[fd00:2::2]:22", false),
        // The listener's own port, on another machine.
        ("10.2.0.2:3180", false),
    ] {
        let listener = listen(&bed, host);
        let (mut client, mut server) = pair(&bed, &listener);
        assert_eq!(is_split(&bed, &client, &server), expected, "{host}");
        talk(&mut client, &mut server);
    }
    assert_eq!(intercepted(&bed, &carrick), 3.0);
}

/// Neither the routes that sockets remember nor the set of recent SYNs are needed.
#[test]
fn packets_find_carricks_sockets_by_their_mark_alone() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    bed.router
        .set_parameter("net/ipv4/tcp_early_demux", "0")
        .expect("a parameter");
    for address in SERVERS {
        let listener = listen(&bed, address);
        let (mut client, mut server) = pair(&bed, &listener);
        assert!(is_split(&bed, &client, &server));
        for set in ["began-v4", "began-v6"] {
            bed.router
                .run("nft", &["flush", "set", "inet", "carrick-3180", set])
                .expect("an empty set");
        }
        talk(&mut client, &mut server);
    }
    drop(carrick);
}

/// A full SYN queue: further clients are answered with a SYN cookie, and only the cookie identifies them later.
#[test]
fn handshakes_by_cookies_are_intercepted_as_well() {
    let Some(bed) = Bed::build() else { return };
    bed.router
        .set_parameter("net/core/somaxconn", "16")
        .expect("a parameter");
    // Packets to this client are dropped, so its handshakes stay in the queue.
    let deaf = "table ip deaf { chain input { type filter hook input priority 0; ip daddr 10.1.0.3 drop; }; }";
    bed.client.run("nft", &[deaf]).expect("a rule");
    // Once a connection has ended, the kernel takes a packet of it that comes late for the end of another handshake: its cookie is still
    // valid.
    let mut kept = Vec::new();
    for (mode, address) in [("2", SERVERS[0]), ("2", SERVERS[1]), ("1", SERVERS[0])] {
        bed.router
            .set_parameter("net/ipv4/tcp_syncookies", mode)
            .expect("a parameter");
        let carrick = bed.carrick(SPLIT);
        let listener = listen(&bed, address);
        let _deaf: Vec<_> = (0..400)
            .filter(|_| mode == "1")
            .map(|_| begin(&bed, "10.1.0.3:0", address))
            .collect();
        let before = counter(&bed, "SyncookiesRecv");
        for _ in 0..50 {
            let (mut client, mut server) = pair(&bed, &listener);
            assert!(is_split(&bed, &client, &server));
            talk(&mut client, &mut server);
            kept.push((client, server));
        }
        let came = counter(&bed, "SyncookiesRecv") - before;
        assert!(came > 0 && (mode == "1" || came >= 50), "{came}");
        drop(carrick);
    }
}

/// A connection for which only the SYN is awaited.
fn begin(bed: &Bed, from: &str, to: &str) -> Socket {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    bed.client
        .inside(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            socket.bind(&from.into())?;
            let _ = socket.connect(&to.into());
            Ok(socket)
        })
        .expect("a socket")
}

/// A counter of the router's TCP.
fn counter(bed: &Bed, name: &str) -> u64 {
    let text = bed
        .router
        .inside(|| Ok(std::fs::read_to_string("/proc/thread-self/net/netstat")?))
        .expect("counters");
    let mut rows = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
    let at = names.split(' ').position(|other| other == name);
    let value = values.split(' ').nth(at.expect("the counter"));
    value.expect("a value").parse().expect("a number")
}

/// Only the supervisor, with carrick's rules.
#[test]
fn a_supervisor_excludes_pairs_of_networks_for_a_while_and_does_nothing_else() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let mut supervisor = crate::transparent::bed::inside(
        &bed.router,
        &[crate::support::carrick::PROGRAM, "keep-rules"],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("a supervisor");
    let mut lines = supervisor.stdin.take().expect("a pipe");
    let task = serde_json::json!({
        "interceptions": [{
            "listener": "[::]:3180", "ports": [{ "first": 1, "last": 65535 }], "except_ports": [], "interfaces": ["eth1"],
            "from": [], "to": [], "except": [], "mark": 103_180, "table": 103_180, "keeps_client": true, "local": null
        }],
        "account": null
    });
    writeln!(lines, "{task}").expect("a task");
    let mut answer = [0; 6];
    supervisor
        .stdout
        .as_mut()
        .expect("a pipe")
        .read_exact(&mut answer)
        .expect("an answer");
    assert_eq!(&answer, b"ready\n");
    // systemd may send these to every process of the unit.
    for signal in [
        Signal::TERM,
        Signal::INT,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
    ] {
        kill_process(Pid::from_child(&supervisor), signal).expect("it exists");
    }
    let listed = |family: &str| {
        let set = format!("left-{family}");
        let words = ["list", "set", "inet", "carrick-3180", &set];
        bed.router.run("nft", &words).expect("a set")
    };
    let elements = |family: &str| listed(family).matches(" expires ").count();
    let wait = |family: &'static str, count| {
        wait_until("elements", || elements(family) == count);
    };
    let six = "leave-out 3180 fd00:1::/48 fd00:2::/48 3600";
    for line in [
        "leave-out 3180 10.1.0.0/24 10.2.0.0/24 60",
        "leave-out 3180 10.1.1.0/24 10.2.0.0/24 60",
        six,
        // Ignored lines.
        "leave-out 3181 10.1.2.0/24 10.2.0.0/24 60",
        "leave-out 3180 10.1.3.0/24 10.2.0.0/24 60; flush ruleset",
        "flush ruleset",
        "\u{0}",
        // Again, for longer.
        "leave-out 3180 10.1.0.0/24 10.2.0.0/24 7200",
    ] {
        writeln!(lines, "{line}").expect("a line");
    }
    wait_until("more time", || {
        listed("v4").contains("10.1.0.0/24 . 10.2.0.0/24 timeout 2h")
    });
    wait("v4", 2);
    wait("v6", 1);
    // Listens in place of carrick: connections that are not excluded arrive here.
    let here = bed.router.inside(|| {
        let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
        socket.set_only_v6(false)?;
        socket.set_ip_transparent_v6(true)?;
        socket.bind(&"[::]:3180".parse::<SocketAddr>()?.into())?;
        socket.listen(16)?;
        Ok(TcpListener::from(socket))
    });
    let here = here.expect("a listener");
    let there = listen(&bed, SERVERS[0]);
    let (mut client, mut server) = pair(&bed, &there);
    assert!(!is_split(&bed, &client, &server));
    talk(&mut client, &mut server);
    for line in [
        "leave-out 3180 10.1.0.0/24 10.2.0.0/24 0",
        "leave-out 3180 10.1.1.0/24 10.2.0.0/24 0",
        "leave-out 3180 10.1.9.0/24 10.2.0.0/24 0",
    ] {
        writeln!(lines, "{line}").expect("a line");
    }
    wait("v4", 0);
    wait("v6", 1);
    let mut other = connect(&bed, SERVERS[0]).expect("a connection");
    here.set_nonblocking(true).expect("an option");
    let (mut intercepted, _) = wait_for("a connection", || here.accept().ok());
    intercepted.set_nonblocking(false).expect("an option");
    intercepted
        .set_read_timeout(Some(PATIENCE))
        .expect("a time limit");
    talk(&mut other, &mut intercepted);
    // Excluded connections continue.
    talk(&mut client, &mut server);
    drop(lines);
    let output = supervisor.wait_with_output().expect("its end");
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.matches("ignoring a line").count(), 4, "{said}");
    assert_eq!(said.lines().count(), 4, "{said}");
    assert_eq!(bed.rules(), before);
}

/// A router behind carrick reports that a packet is too large, to the address that it sees: the error is for carrick.
#[test]
fn what_routers_say_about_packets_reaches_the_connection_that_sent_them() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    let listener = listen(&bed, "10.2.0.2:9000");
    let (mut client, mut server) = pair(&bed, &listener);
    talk(&mut client, &mut server);
    let seen = server.peer_addr().expect("an address");
    bed.server
        .inside(|| {
            let icmp = Socket::new(Domain::IPV4, Type::RAW, Some(socket2::Protocol::ICMPV4))?;
            let error = too_large(seen, "10.2.0.2:9000".parse()?, 700);
            let to = SocketAddr::new(seen.ip(), 0);
            icmp.send_to(&error, &to.into())?;
            Ok(())
        })
        .expect("a packet");
    // A sequence number out of the window is ignored; a counter shows that it reached carrick's socket.
    wait_until("the error", || counter(&bed, "OutOfWindowIcmps") > 0);
    talk(&mut client, &mut server);
    drop(carrick);
}

/// "Fragmentation needed", with the beginning of a packet from `from` to `to` (RFC 1191).
fn too_large(from: SocketAddr, to: SocketAddr, mtu: u16) -> Vec<u8> {
    let ip = |address: SocketAddr| match address.ip().to_canonical() {
        std::net::IpAddr::V4(address) => address.octets(),
        std::net::IpAddr::V6(_) => unreachable!("IPv4"),
    };
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend([0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    message.extend(ip(from));
    message.extend(ip(to));
    message.extend(from.port().to_be_bytes());
    message.extend(to.port().to_be_bytes());
    message.extend([0; 4]);
    let mut sum: u32 = (message.chunks(2))
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = !(sum as u16);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}
