//! Reload, drain, log and metrics.
use super::*;
use std::time::Duration;

#[test]
fn a_line_is_written_although_the_client_stays_silent() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    let ask = |number: usize| {
        let asked = std::time::Instant::now();
        let target = format!("/s/silent/{number}");
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nUser-Agent: t\r\nReferer: r\r\n\r\n"
        ));
        upstream.read_head();
        upstream.send(ok(b"0123456789"));
        assert_eq!(client.read_response("GET").body.len(), 10);
        let line = play.line(&target);
        let total = line.value("total").as_f64().expect("a number");
        let noticed = asked.elapsed().as_secs_f64();
        assert!(total > 0.0 && total <= noticed, "{total} {noticed}");
        // Written on the acknowledgement, not by the periodic check, which comes within a second.
        (total + 0.3 < noticed).then_some(line)
    };
    let line = (0..30)
        .find_map(ask)
        .expect("a line before the periodic check");
    assert_eq!((line.text("engine"), line.status()), ("packet", 200));
    assert_eq!((line.number("sent"), line.text("user_agent")), (10, "t"));
    assert_eq!(
        (line.text("referer"), line.text("server")),
        ("r", SERVERS[0])
    );
    let metric = |name: &str| play.carrick.metric(&play.bed, name);
    assert!(metric("carrick_requests_total{mode=\"switch\",status=\"200\"}") > 2.5);
    assert!(metric("carrick_splice_bytes_total{engine=\"packet\"}") > 10.5);
    // The connection can continue.
    answer(&mut client, &mut upstream, "/s/more", b"more");
}

#[test]
fn a_reload_is_followed_by_the_next_request() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let _other = play.serve(1, |_| ok(b"other"));
    let (mut client, mut upstream) = play.pair(&server);
    answer(&mut client, &mut upstream, "/s/before", b"before");
    let changed =
        format!("[workers]\ncount = 1\n{SWITCH}").replace("10.2.0.2:9000", "10.2.0.3:9001");
    play.carrick.reload(&changed, "reloaded");
    assert_eq!(client.ask(&get("/s/after")).body, b"other");
    assert_eq!(play.line("/s/before").text("engine"), "packet");
}

#[test]
fn a_drain_waits_for_a_response_that_the_kernel_forwards() {
    let Some(mut play) = Play::begin("[timeouts]\ndrain = \"10m\"\n") else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    let (mut idle, _its_server) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/under-way");
    let body = Random::new(3).bytes(100_000);
    let response = ok(&body);
    upstream.send(&response[..1000]);
    play.carrick.signal(rustix::process::Signal::TERM);
    // The idle one is closed after a grace period, this one is not.
    idle.expect_end();
    std::thread::sleep(Duration::from_millis(500));
    upstream.send(&response[1000..]);
    assert!(hash(&client.read_response("GET").body) == hash(&body));
    client.expect_end();
    play.carrick.wait();
    play.complete_line("/s/under-way");
}

#[test]
fn in_a_drain_too_a_server_that_says_nothing_is_given_up() {
    let Some(mut play) = Play::begin("[timeouts]\nidle = \"4s\"\ndrain = \"10m\"\n") else {
        return;
    };
    let server = play.server(0);
    let (mut idle, _its_server) = play.pair(&server);
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/silent");
    play.carrick.signal(rustix::process::Signal::TERM);
    idle.expect_end();
    assert_eq!(client.read_response("GET").status, 504);
    client.expect_end();
    play.carrick.wait();
    let line = play.line("/s/silent");
    assert_eq!(line.text("ended"), "upstream_timeout");
}

#[test]
fn what_is_left_at_the_end_of_a_drain_is_cut_off() {
    let Some(mut play) = Play::begin("[timeouts]\ndrain = \"1s\"\n") else {
        return;
    };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    ask(&mut client, &mut upstream, "/s/endless");
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart");
    play.carrick.signal(rustix::process::Signal::TERM);
    assert!(matches!(
        client.read_ending(),
        crate::support::Ending::Reset(_)
    ));
    play.carrick.wait();
    let line = play.line("/s/endless");
    assert_eq!(line.text("ended"), "drain");
}

#[test]
fn a_server_is_not_counted_as_busy_between_two_requests() {
    let Some(play) = Play::begin("") else { return };
    let server = play.server(0);
    let (mut client, mut upstream) = play.pair(&server);
    answer(&mut client, &mut upstream, "/s/third", b"third");
    let active = "carrick_server_active{upstream=\"servers\"";
    let url = "http://127.0.0.1:3129/metrics";
    wait_for("no request under way", || {
        let text = play.bed.router.run("curl", &["-sS", url]).expect("metrics");
        let line = text
            .lines()
            .find(|line| line.starts_with(active))?
            .to_owned();
        line.ends_with(" 0").then_some(())
    });
    drop(client);
}
