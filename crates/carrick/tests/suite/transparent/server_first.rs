//! Deferred SYNs: what a client sees of a server that accepts, refuses, is silent, speaks first, or disconnects; and
//! what the server sees of a client that disconnects.
mod drain;

use super::bed::{Running, inside, lines};
use super::*;
use crate::outliving::bed::on;
use crate::support::carrick::PROGRAM;
use crate::support::descriptors::{MANY, turn};
use crate::support::output::Output;
use crate::support::{PATIENCE, wait_for, wait_until};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

/// A splitter of all ports but nginx's.
const SPLIT: &str = "[[listener]]\nlisten = \"[::]:8443\"\nmode = \"split\"\nsplit = \"always\"\ntransparent = true\nhandshake = \"server-first\"\nintercept = { ports = \"all\", interfaces = [\"eth1\"] }\n";

/// The server in both families.
const SERVERS: [&str; 2] = ["10.2.0.2", "fd00:2::2"];

/// Time limit for what must not arrive.
const SHORT: Duration = Duration::from_millis(1500);

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

fn connect(bed: &Bed, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    on(&bed.client, || TcpStream::connect_timeout(&to, patience))
}

fn listen(bed: &Bed, address: SocketAddr) -> TcpListener {
    on(&bed.server, || carrick_test::listen(address))
}

/// The next client of a server.
fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("a client");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// How a connection without data ends.
fn end_of(mut stream: TcpStream) -> io::Result<usize> {
    loop {
        match stream.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            end => return end,
        }
    }
}

/// Number of deferred SYNs with this event.
fn done(carrick: &Running, bed: &Bed, event: &str) -> f64 {
    let name = format!("carrick_deferred_syns_total{{event=\"{event}\"}}");
    carrick.metric(bed, &name)
}

/// What a round with a carrick of its own comes to. It is repeated if a worker stood still for a second: then SYNs pass,
/// and their clients are answered at once.
fn attended<T>(bed: &Bed, text: &str, mut round: impl FnMut(&Running) -> T) -> T {
    wait_for("a round in which no worker stands still", || {
        let carrick = bed.carrick(text);
        let outcome = round(&carrick);
        let is_attended = done(&carrick, bed, "unattended") == 0.0;
        carrick.stop();
        is_attended.then_some(outcome)
    })
}

/// Waits until so many SYNs are deferred, or have passed since a worker stands still.
fn wait_for_syns(carrick: &Running, bed: &Bed, least: f64) {
    wait_until("the SYN", || {
        let events = ["deferred", "unattended"].map(|event| done(carrick, bed, event));
        events.iter().sum::<f64>() >= least
    });
}

/// The server ignores SYNs to this port from now on.
fn silence(bed: &Bed, port: u16) {
    for words in [
        &["add", "table", "inet", "t"][..],
        &[
            "add",
            "chain",
            "inet",
            "t",
            "i",
            "{ type filter hook input priority 0 ; }",
        ],
        &[
            "add",
            "rule",
            "inet",
            "t",
            "i",
            "tcp",
            "dport",
            &port.to_string(),
            "drop",
        ],
    ] {
        bed.server.run("nft", words).expect("a rule");
    }
}

fn end_silence(bed: &Bed) {
    bed.server
        .run("nft", &["delete", "table", "inet", "t"])
        .expect("no rule");
}

#[test]
fn a_client_hears_what_its_server_says_and_keeps_its_address_if_that_is_wanted() {
    let Some(bed) = Bed::build() else { return };
    for keep in ["true", "false"] {
        let text = format!("{SPLIT}keep_client_address = {keep}\n");
        let (heard, counts, log) = attended(&bed, &text, |carrick| {
            let heard = SERVERS.map(|server| {
                let refused = connect(&bed, at(server, 9999), PATIENCE).map(drop);
                let host = if server.contains(':') {
                    format!("[{server}]")
                } else {
                    server.into()
                };
                (refused, bed.curl(&format!("http://{host}/a")))
            });
            let counts = ["refused", "joined", "deferred"].map(|event| done(carrick, &bed, event));
            (heard, counts, carrick.access_log(4))
        });
        for (refused, said) in heard {
            let refused = refused.expect_err("a closed port");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{said}");
            let is_kept = said.contains("client=10.1.0.2 ") || said.contains("client=fd00:1::2 ");
            assert_eq!(is_kept, keep == "true", "{said}");
        }
        assert_eq!(counts, [2.0, 2.0, 4.0]);
        let failed = log.iter().filter(|line| line["ended"] == "connect");
        assert_eq!(failed.count(), 2, "{log:?}");
    }
}

#[test]
fn two_carricks_defer_side_by_side() {
    let Some(bed) = Bed::build() else { return };
    let listener = |port: &str, intercepted: &str| {
        let text = SPLIT.replace("8443", port);
        text.replace("\"all\"", &format!("[{intercepted}]"))
    };
    let carricks =
        [("8443", "80"), ("8444", "8000")].map(|(port, to)| bed.carrick(&listener(port, to)));
    for (carrick, to) in carricks.iter().zip([80, 8000]) {
        let said = bed.curl(&format!("http://10.2.0.2:{to}/"));
        assert!(said.contains("server=10.2.0.2"), "{said}");
        let events = ["joined", "unattended"].map(|event| done(carrick, &bed, event));
        assert!(events.iter().sum::<f64>() >= 1.0, "{to}: {events:?}");
    }
}

#[test]
fn denied_clients_and_destinations_are_refused() {
    let Some(bed) = Bed::build() else { return };
    let text = SPLIT.to_owned() + "deny_to = [\"10.2.0.3\"]\nallow = [\"10.1.0.2\"]\n";
    let (denied, refused) = attended(&bed, &text, |carrick| {
        assert!(bed.curl("http://10.2.0.2/").contains("server=10.2.0.2"));
        let denied = [("10.1.0.2", "10.2.0.3"), ("10.1.0.3", "10.2.0.2")];
        let denied =
            denied.map(|(from, to)| bed.try_curl(&format!("--interface {from} http://{to}/")));
        (denied, done(carrick, &bed, "refused"))
    });
    for said in denied {
        let said = said.expect_err("refused");
        assert!(said.contains("exit status: 7"), "{said}");
    }
    assert_eq!(refused, 2.0);
}

#[test]
fn while_a_server_is_silent_so_is_the_way_to_it() {
    let Some(bed) = Bed::build() else { return };
    // No machine has these addresses.
    bed.router
        .run("ip", &["route", "add", "unreachable", "10.3.0.0/24"])
        .expect("a route");
    let text = String::from("[timeouts]\nconnect = \"1s\"\ndrain = \"2s\"\n") + SPLIT;
    let (silent, nowhere, unreachable) = attended(&bed, &text, |carrick| {
        silence(&bed, 80);
        let silent = connect(&bed, at(SERVERS[0], 80), SHORT).map(drop);
        wait_until("the end of the attempt", || {
            let ends = ["unanswered", "unattended"].map(|event| done(carrick, &bed, event));
            ends.iter().sum::<f64>() >= 1.0
        });
        // A client that retries causes another attempt.
        end_silence(&bed);
        connect(&bed, at(SERVERS[0], 80), PATIENCE).expect("an answer");
        let nowhere = connect(&bed, at("10.3.0.1", 80), PATIENCE).map(drop);
        (silent, nowhere, done(carrick, &bed, "unreachable"))
    });
    let silent = silent.expect_err("no answer");
    assert_eq!(silent.kind(), ErrorKind::TimedOut);
    let nowhere = nowhere.expect_err("no route");
    assert_eq!(nowhere.raw_os_error(), Some(libc::EHOSTUNREACH));
    assert_eq!(unreachable, 1.0);
}

#[test]
fn a_routing_loop_ends_as_at_any_router() {
    const ATTEMPTS_MAX: f64 = 30.0;
    let Some(bed) = Bed::build() else { return };
    // The client is a router, too, and sends back what is not for it.
    lines(&bed.router, &["route add 10.77.0.0/24 via 10.1.0.2"]);
    for (parameter, value) in [
        ("ip_forward", "1"),
        ("conf/all/accept_local", "1"),
        ("conf/all/rp_filter", "0"),
        ("conf/eth0/rp_filter", "0"),
    ] {
        let name = format!("net/ipv4/{parameter}");
        bed.client.set_parameter(&name, value).expect("a parameter");
    }
    let limits = "[limits]\nconnections = 200\n[timeouts]\nconnect = \"1s\"\ndrain = \"2s\"\n";
    let (deferred, crowded) = attended(&bed, &(limits.to_owned() + SPLIT), |carrick| {
        let client = on(&bed.client, || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
                .expect("a socket");
            socket.set_nonblocking(true).expect("a socket");
            socket.set_ttl_v4(8).expect("an option");
            let _ = socket.connect(&at("10.77.0.1", 80).into());
            socket
        });
        // It has come in again.
        wait_for_syns(carrick, &bed, 2.0);
        drop(client);
        let ends = [
            "released",
            "refused",
            "unreachable",
            "unanswered",
            "crowded",
        ];
        let deferred = wait_for("the end of all attempts", || {
            let deferred = done(carrick, &bed, "deferred");
            let ended: f64 = ends.iter().map(|end| done(carrick, &bed, end)).sum();
            (ended >= deferred).then_some(deferred)
        });
        (deferred, done(carrick, &bed, "crowded"))
    });
    assert!(deferred <= ATTEMPTS_MAX, "{deferred}");
    assert_eq!(crowded, 0.0);
}

/// Anybody can send a SYN in a client's name.
#[test]
fn a_syn_that_nobody_follows_up_is_none_of_its_clients_connections() {
    let Some(bed) = Bed::build() else { return };
    let limits = "[limits]\nconnections_per_client = 1\n";
    silence(&bed, 2525);
    let begin = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        socket.set_nonblocking(true).expect("a socket");
        let _ = socket.connect(&at(SERVERS[0], 2525).into());
        socket
    };
    let (open, said) = attended(&bed, &(limits.to_owned() + SPLIT), |carrick| {
        let pending = on(&bed.client, begin);
        wait_for_syns(carrick, &bed, 1.0);
        // It is answered at once, and counted when it is accepted.
        let open = connect(&bed, at(SERVERS[0], 80), PATIENCE).and_then(|mut open| {
            open.set_read_timeout(Some(PATIENCE))?;
            open.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
            open.read_exact(&mut [0])?;
            Ok(open)
        });
        let said = bed.try_curl("http://10.2.0.2/");
        drop(pending);
        (open.map(drop), said)
    });
    open.expect("a connection with a response");
    let said = said.expect_err("one too many");
    assert!(said.contains("exit status: 7"), "{said}");
}

/// What each end of a connection hears of the other. They may still be opening.
fn converse(mut ends: [TcpStream; 2]) -> io::Result<[[u8; 5]; 2]> {
    let mut heard = [[0; 5]; 2];
    for (from, to) in [(0, 1), (1, 0)] {
        ends[from].write_all(b"hello")?;
        ends[to].read_exact(&mut heard[to])?;
    }
    Ok(heard)
}

#[test]
fn both_ends_may_open_at_once() {
    let Some(bed) = Bed::build() else { return };
    let open = |from: SocketAddr, to: SocketAddr| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        socket.bind(&from.into()).expect("a port");
        socket.set_nonblocking(true).expect("a socket");
        let _ = socket.connect(&to.into());
        socket.set_nonblocking(false).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        socket
            .set_write_timeout(Some(PATIENCE))
            .expect("a time-out");
        TcpStream::from(socket)
    };
    // Those of an earlier round may still be in TIME_WAIT.
    let mut port = 2599;
    let (heard, deferred) = attended(&bed, SPLIT, |carrick| {
        port += 1;
        let ends = ["10.1.0.2", SERVERS[0]].map(|ip| at(ip, port));
        // Neither end gets the other's SYN before both have sent their own.
        silence(&bed, port);
        let client = on(&bed.client, || open(ends[0], ends[1]));
        wait_until("carrick's SYN", || {
            let words = ["-Htn", "state", "syn-sent"];
            let sockets = bed.router.run("ss", &words).expect("ss");
            sockets.contains(&format!(":{port}"))
        });
        let server = on(&bed.server, || open(ends[1], ends[0]));
        end_silence(&bed);
        (converse([client, server]), done(carrick, &bed, "deferred"))
    });
    assert_eq!(heard.expect("a conversation"), [*b"hello"; 2]);
    assert_eq!(deferred, 1.0);
}

#[test]
fn the_client_is_answered_behind_the_server() {
    let Some(bed) = Bed::build() else { return };
    if bed.router.run("tcpdump", &["--version"]).is_err() {
        carrick_test::skip!("there is no tcpdump");
        return;
    }
    let text = attended(&bed, SPLIT, |_| {
        let words = [
            "tcpdump",
            "-i",
            "any",
            "-nlU",
            "--immediate-mode",
            "-Q",
            "inout",
            "tcp[13] & 2 != 0",
        ];
        let mut capture = inside(&bed.router, &words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tcpdump");
        let said = Output::collect(capture.stderr.take().expect("a pipe"));
        said.wait_for("listening on").expect("tcpdump");
        let seen = Output::collect(capture.stdout.take().expect("a pipe"));
        bed.curl("http://10.2.0.2/");
        let text = seen.wait_for("eth1  Out").expect("an answer");
        let _ = capture.kill();
        let _ = capture.wait();
        text
    });
    let place = |device: &str, flags: &str| {
        let mut lines = text.lines();
        lines.position(|line| line.contains(device) && line.contains(flags))
    };
    let order = [
        place("eth1  In", "Flags [S]"),
        place("eth2  Out", "Flags [S]"),
        place("eth2  In", "Flags [S.]"),
        place("eth1  Out", "Flags [S.]"),
    ];
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted(),
        "{order:?}: {text}"
    );
}

#[test]
fn servers_that_speak_first_or_go_at_once() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    for server in SERVERS {
        let listener = listen(&bed, at(server, 2525));
        let speaking = std::thread::spawn(move || {
            let mut stream = accept(&listener);
            stream.write_all(b"220 hello").expect("a client");
            drop(stream);
            // One more, which is reset soon after it began.
            let gone = accept(&listener);
            socket2::SockRef::from(&gone)
                .set_linger(Some(Duration::ZERO))
                .expect("a reset");
        });
        let mut stream = connect(&bed, at(server, 2525), PATIENCE).expect("a server");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("a greeting");
        assert_eq!(said, "220 hello");
        let gone = connect(&bed, at(server, 2525), PATIENCE).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            end_of(stream)
        });
        let gone = gone.expect_err("a reset").kind();
        assert!(
            [ErrorKind::ConnectionReset, ErrorKind::ConnectionRefused].contains(&gone),
            "{gone}"
        );
        speaking.join().expect("a server");
    }
    carrick.stop();
}

#[test]
fn the_server_of_a_client_that_has_gone_is_reset() {
    let Some(bed) = Bed::build() else { return };
    let (ends, expired) = attended(&bed, SPLIT, |carrick| {
        let listener = listen(&bed, at(SERVERS[0], 2525));
        let ends = [false, true].map(|vanishes| {
            silence(&bed, 2525);
            let client = on(&bed.client, || {
                let socket =
                    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
                        .expect("a socket");
                socket.set_nonblocking(true).expect("a socket");
                let _ = socket.connect(&at(SERVERS[0], 2525).into());
                socket
            });
            wait_for_syns(carrick, &bed, if vanishes { 2.0 } else { 1.0 });
            if vanishes {
                lines(&bed.client, &["link set eth0 down"]);
            }
            drop(client);
            end_silence(&bed);
            // Its server may never hear of the end of a client that was answered at once.
            let is_attended = done(carrick, &bed, "unattended") == 0.0;
            let end = is_attended.then(|| end_of(accept(&listener)));
            if vanishes {
                let up = ["link set eth0 up", "route replace default via 10.1.0.1"];
                lines(&bed.client, &up);
            }
            end
        });
        if ends.iter().all(Option::is_some) {
            wait_until("nothing to wait for them", || {
                let waiting = carrick.metric(&bed, "carrick_deferred_syns_waiting");
                waiting == 0.0 && done(carrick, &bed, "expired") >= 2.0
            });
        }
        (ends, done(carrick, &bed, "expired"))
    });
    for end in ends {
        let end = end.expect("a round in which no worker stands still");
        assert_eq!(end.expect_err("a reset").kind(), ErrorKind::ConnectionReset);
    }
    assert_eq!(expired, 2.0);
}

#[test]
fn nine_thousand_at_once() {
    let Some(_turn) = turn() else { return };
    let Some(bed) = Bed::build() else { return };
    for host in [&bed.server, &bed.router] {
        host.set_parameter("net/core/somaxconn", "65535")
            .expect("a parameter");
        host.set_parameter("net/ipv4/tcp_max_syn_backlog", "65535")
            .expect("a parameter");
    }
    let carrick = bed.carrick(SPLIT);
    let server = at(SERVERS[0], 2525);
    let serving = on(&bed.server, || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.bind(&server.into()).expect("a port");
        socket.listen(65_535).expect("a port");
        TcpListener::from(socket)
    });
    // A client that comes so late that its server connection was given up gets another one.
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = serving.accept() {
            let _ = stream.write_all(b"x");
        }
    });
    let clients: Vec<socket2::Socket> = on(&bed.client, || {
        let begin = |_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let socket = socket.expect("a socket");
            socket.set_nonblocking(true).expect("a socket");
            let _ = socket.connect(&server.into());
            socket
        };
        (0..MANY).map(begin).collect()
    });
    for client in clients {
        client.set_nonblocking(false).expect("a socket");
        client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut byte = [0];
        wait_until("a connection", || client.peer_addr().is_ok());
        (&client).read_exact(&mut byte).expect("the server's word");
    }
    assert!(done(&carrick, &bed, "joined") > 0.0);
}

/// Each arrives when the reader of its SYN has just found nothing more to read, or is about to.
#[test]
fn one_after_the_other_none_is_forgotten() {
    const EACH: usize = 2_000;
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SPLIT);
    let server = at(SERVERS[0], 2525);
    let serving = on(&bed.server, || TcpListener::bind(server).expect("a port"));
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = serving.accept() {
            let _ = stream.write_all(b"x");
        }
    });
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let mut client = connect(&bed, server, PATIENCE).expect("a connection");
                    client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
                    client.read_exact(&mut [0]).expect("the server's word");
                    // No port may stay in TIME_WAIT.
                    socket2::SockRef::from(&client)
                        .set_linger(Some(Duration::ZERO))
                        .expect("an option");
                }
            });
        }
    });
    // The last one's repetition may still be waiting.
    wait_until("none to wait", || {
        carrick.metric(&bed, "carrick_deferred_syns_waiting") == 0.0
    });
    // A reader that has not been running for a second is passed by.
    let events = ["deferred", "unattended"].map(|event| done(&carrick, &bed, event));
    assert!(
        events.iter().sum::<f64>() >= 4.0 * EACH as f64,
        "{events:?}"
    );
}

#[test]
fn a_client_that_is_held_when_carrick_is_killed_gets_to_its_server() {
    let Some(bed) = Bed::build() else { return };
    wait_until("a client that is held", || {
        let carrick = bed.carrick(SPLIT);
        silence(&bed, 80);
        let is_held = std::thread::scope(|scope| {
            let client = scope.spawn(|| connect(&bed, at(SERVERS[0], 80), PATIENCE));
            wait_for_syns(&carrick, &bed, 1.0);
            let is_held = done(&carrick, &bed, "unattended") == 0.0;
            carrick.kill();
            end_silence(&bed);
            let connected = client.join().expect("a client");
            assert!(connected.is_ok() || !is_held, "{connected:?}");
            is_held
        });
        if !is_held {
            bed.wait_for_supervisors();
        }
        is_held
    });
}

#[test]
fn where_nothing_can_be_held_it_says_so() {
    let Some(bed) = Bed::build() else { return };
    let without = ["setpriv", "--bounding-set=-bpf,-sys_admin", PROGRAM];
    let Err(said) = bed.try_carrick(&without, SPLIT) else {
        panic!("it cannot hold SYNs");
    };
    assert!(said.contains("`handshake = \"server-first\"` on the listener [::]:8443: this machine cannot defer SYNs, because the privileges CAP_BPF"), "{said}");
    let by_default = SPLIT.replace("handshake = \"server-first\"\n", "");
    let carrick = bed.try_carrick(&without, &by_default).expect("a carrick");
    let text = carrick.said.text();
    assert!(
        text.contains(
            "answers clients before their server has accepted, because the privileges CAP_BPF"
        ),
        "{text}"
    );
    assert!(bed.curl("http://10.2.0.2/").contains("server=10.2.0.2"));
    assert_eq!(done(&carrick, &bed, "deferred"), 0.0);
}
