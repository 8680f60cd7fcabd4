//! Bytes over a link: complete, in order, in both directions at once; and what both ends report.
use super::{ONE_WORKER, Stage, far_text, near_text};
use crate::linking::LINK_PORT;
use crate::support::carrick::upstream_text;
use crate::support::place::TUNNEL_PORT;
use crate::support::random::Random;
use crate::support::{Carrick, Peer, Place, Server, wait_for};

const ENGINES: [&str; 4] = ["auto", "copy", "pipe", "socket"];

fn each_engine(play: impl Fn(Stage)) {
    for engine in ENGINES {
        let tables = format!("[splice]\nengine = \"{engine}\"\n{ONE_WORKER}");
        play(Stage::with(&tables, "", &tables));
    }
}

#[test]
fn small_messages_go_back_and_forth() {
    each_engine(|stage| {
        let (mut client, mut upstream) = stage.begin();
        for round in 0..100 {
            let ping = format!("ping {round}\r\n\0\u{ff}");
            client.send(&ping);
            upstream.expect(&ping);
            upstream.send(&ping);
            client.expect(&ping);
        }
    });
}

#[test]
fn the_server_may_speak_first() {
    let stage = Stage::plain();
    let (mut client, mut upstream) = stage.begin();
    upstream.send("220 mail.example ESMTP\r\n");
    client.expect("220 mail.example ESMTP\r\n");
    client.send("EHLO a\r\n");
    upstream.expect("EHLO a\r\n");
}

/// At this rate, each 4 KB wait for twice the idle time.
#[test]
fn pacing_may_hold_bytes_for_longer_than_the_idle_time() {
    const BYTES: usize = 6000;
    const PACED: &str = "[timeouts]\ntunnel_idle = \"2s\"\n[pace]\ndefault = \"slow\"\n[pace.classes.slow]\nceiling = \"1 KB\"\n";
    let play = |ends: [&str; 2]| {
        let [near, far] = ends.map(|tables| format!("{ONE_WORKER}{tables}"));
        let stage = Stage::with(&near, "", &far);
        let bytes = Random::new(7).bytes(BYTES);
        // Again, where a busy machine keeps the bytes from coming in time: that tunnel was idle, and ends empty.
        let came = wait_for("bytes in time", || {
            let mut client = stage.near.connect_tunnel();
            let _ = client.try_send(&bytes);
            let mut upstream = stage.server.accept();
            upstream.reads_until(|came| came.len() >= BYTES);
            let came = upstream.take_ahead();
            (!came.is_empty()).then_some(came)
        });
        assert!(came == bytes, "{} bytes, or others, came", came.len());
    };
    std::thread::scope(|scope| {
        for ends in [[PACED, ""], ["", PACED]] {
            scope.spawn(move || play(ends));
        }
    });
}

/// What a client had of a class is free for the next one.
#[test]
fn a_link_connection_is_paced_only_while_it_carries_a_client() {
    let paced = "[pace]\ndefault = \"slow\"\n[pace.classes.slow]\nceiling = \"1 MB\"\n";
    let far = format!("{ONE_WORKER}{paced}");
    let stage = Stage::with(ONE_WORKER, "preconnect = 0", &far);
    let (mut client, mut upstream) = stage.begin();
    client.send("hello");
    upstream.expect("hello");
    let is_paced = |splices| (stage.far).wait_until_metric("carrick_pace_splices", &[], splices);
    is_paced(1.0);
    drop((client, upstream));
    is_paced(0.0);
    stage.expect_one_connection();
}

#[test]
fn a_server_behind_a_link_is_counted_as_any_other() {
    let stage = Stage::plain();
    let (mut client, mut upstream) = stage.begin();
    client.send("hello");
    upstream.expect("hello");
    upstream.send("hi");
    client.expect("hi");
    let near = |name, value| stage.near.wait_until_metric(name, &[], value);
    near("carrick_server_requests_total", 1.0);
    drop((client, upstream));
    near("carrick_server_bytes_total", 7.0);
    near("carrick_server_active", 0.0);
    // Nobody could be asked.
    drop(stage.far);
    stage.near.connect_tunnel().read_ending();
    near("carrick_server_requests_total", 1.0);
}

/// Megabytes in both directions at the same time: frames of one direction never wait for the other.
#[test]
fn large_bodies_cross() {
    each_engine(|stage| {
        let (client, upstream) = stage.begin();
        let bytes = [5, 6].map(|seed| Random::new(seed).bytes(7_000_001));
        let ends = [client, upstream];
        let mut threads = Vec::new();
        for (number, mut end) in ends.into_iter().enumerate() {
            let (mine, theirs) = (bytes[number].clone(), bytes[1 - number].clone());
            let mut reader = Peer::new(end.stream().try_clone().expect("a descriptor"));
            threads.push(std::thread::spawn(move || {
                end.send(&mine);
                end.half_close();
            }));
            threads.push(std::thread::spawn(move || {
                assert!(reader.read_to_end() == theirs, "other bytes came");
            }));
        }
        for thread in threads {
            thread.join().expect("the bytes");
        }
        let line = stage.near.access_log(1).remove(0);
        assert_eq!(line.number("received"), 7_000_001);
        assert_eq!(line.number("sent"), 7_000_001);
        assert_eq!(line.text("ended"), "complete");
        for end in [&stage.near, &stage.far] {
            let sent = end.metric("carrick_link_bytes_total", &["direction=\"sent\""]);
            assert_eq!(sent, 7_000_001.0);
        }
    });
}

#[test]
fn pieces_of_all_sizes_arrive_as_they_were() {
    let stage = Stage::plain();
    let (mut client, mut upstream) = stage.begin();
    let bytes = Random::new(9).bytes(200_000);
    let expected = bytes.clone();
    let reading = std::thread::spawn(move || {
        upstream.expect(&expected);
        upstream
    });
    client.send_in_pieces(&bytes, &[1, 4095, 3, 9000, 65_536, 7]);
    let mut upstream = reading.join().expect("the bytes");
    upstream.send_in_pieces(&bytes[..50_000], &[5, 1, 1448, 30_000]);
    client.expect(&bytes[..50_000]);
}

#[test]
fn both_ends_write_a_line_with_the_clients_address() {
    let stage = Stage::plain();
    let (mut client, mut upstream) = stage.begin();
    client.send("four");
    upstream.expect("four");
    upstream.send("seven b");
    client.expect("seven b");
    let port = u64::from(client.stream().local_addr().expect("an address").port());
    client.half_close();
    upstream.expect_end();
    upstream.half_close();
    client.expect_end();
    for (end, mode) in [(&stage.near, "tunnel"), (&stage.far, "link")] {
        let line = end.access_log(1).remove(0);
        assert_eq!((line.status(), line.text("ended")), (200, "complete"));
        assert_eq!(line.text("mode"), mode);
        assert_eq!((line.number("received"), line.number("sent")), (4, 7));
        assert_eq!(line.number("port"), port);
        assert_eq!(line.text("server"), stage.server.address().to_string());
        let tunnels = end.metric("carrick_tunnels_total", &[&format!("mode=\"{mode}\"")]);
        assert_eq!(tunnels, 1.0);
        let open = end.metric("carrick_tunnels_open", &[]);
        assert_eq!(open, 0.0);
    }
    let links = &stage.near.status()["links"];
    assert_eq!(links["peers"][0]["name"], "sky");
    assert_eq!(links["relayed"], 1);
    assert_eq!(links["bytes_received"], 7);
}

/// The far end resolves names.
#[test]
fn a_server_with_a_name_is_found_by_the_far_end() {
    let (near_place, far_place) = (Place::claim(), Place::claim());
    let server = Server::listen_at(([127, 0, 0, 1], 0).into());
    let _far = Carrick::start(&far_place, &far_text("", "deny_to = []"));
    let text = near_text("", "", far_place.at(LINK_PORT), server.address());
    let address = server.address().to_string();
    let name = format!("localhost:{}", server.address().port());
    let near = Carrick::start(&near_place, &text.replace(&address, &name));
    let (mut client, mut upstream) = (near.connect_tunnel(), server.accept());
    client.send("by name");
    upstream.expect("by name");
}

/// Nothing that a client sends can pass for the header.
#[test]
fn a_server_gets_the_proxy_header_over_a_link_before_everything_else() {
    let (near_place, far_place) = (Place::claim(), Place::claim());
    let server = Server::listen(&far_place);
    let _far = Carrick::start(&far_place, &far_text("", "deny_to = []"));
    let text = near_text("", "", far_place.at(LINK_PORT), server.address());
    let near = Carrick::start(&near_place, &format!("{text}send_proxy_protocol = true\n"));
    let mut client = near.connect_tunnel();
    let (from, to) = (client.local_address(), near.tunnel_address());
    let [from_ip, to_ip] = [from, to].map(|end| end.ip());
    let mut upstream = server.accept();
    upstream.expect(format!(
        "PROXY TCP4 {from_ip} {to_ip} {} {}\r\n",
        from.port(),
        to.port()
    ));
    client.send("PROXY TCP4 ");
    upstream.expect("PROXY TCP4 ");
    drop((client, upstream));
    assert_eq!(near.access_log(1)[0].number("received"), 11);
}

/// The bytes of the ClientHello that were read are sent first.
#[test]
fn a_route_by_server_name_goes_over_the_link() {
    let (near_place, far_place) = (Place::claim(), Place::claim());
    let server = Server::listen(&far_place);
    let far = Carrick::start(&far_place, &far_text("", "deny_to = []"));
    let peer = far_place.at(LINK_PORT);
    let text = format!(
        "[link.sky]\npeer = \"{peer}\"\n[[listener]]\nlisten = \"{{ip}}:{TUNNEL_PORT}\"\nmode = \"split\"\ntransparent = false\n[[listener.route]]\nsni = \"a.example\"\nupstream = \"u\"\n[[listener.route]]\nupstream = \"u\"\nlink = \"sky\"\n{}",
        upstream_text("u", &[server.address()])
    );
    let near = Carrick::start(&near_place, &text);
    let mut client = near.connect_tunnel();
    client.send("GET / HTTP/1.1\r\n");
    let mut upstream = server.accept();
    upstream.expect("GET / HTTP/1.1\r\n");
    upstream.send("HTTP/1.1 204\r\n");
    client.expect("HTTP/1.1 204\r\n");
    drop((client, upstream));
    assert_eq!(far.access_log(1).remove(0).text("mode"), "link");
}

#[test]
fn the_list_of_tunnels_has_what_goes_over_a_link() {
    let stage = Stage::plain();
    let (mut client, mut upstream) = stage.begin();
    client.send("12345");
    upstream.expect("12345");
    for end in [&stage.near, &stage.far] {
        let page = end.ask_admin("/splices").text();
        let client = client.stream().local_addr().expect("an address");
        assert!(page.contains(&client.to_string()), "{page}");
    }
}
