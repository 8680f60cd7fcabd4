//! Listing and purging.
use super::{Play, cached_switch, get, ok};
use crate::support::carrick::PROGRAM;
use std::process::{Command, Output};

const FRESH: &str = "Cache-Control: max-age=60\r\n";

fn carrick(play: &Play, arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(arguments)
        .args(["--admin", &play.carrick.admin().to_string()])
        .output()
        .expect("carrick")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Without the rules, nothing that changes it would have been noticed.
#[test]
fn what_was_stored_by_rules_that_were_gone_meanwhile_is_out_of_date() {
    let play = Play::begin("");
    let text = cached_switch(&[play.server.address()], "", "");
    let reload = |text: &str| play.carrick.reload_as(&play.place, text, "ok");
    play.fetch("/a", &ok(FRESH, "old"));
    reload(&text);
    assert_eq!(play.find("/a").text(), "old");
    reload(&text.replace("cache = true", ""));
    reload(&text);
    assert_eq!(play.fetch("/a", &ok(FRESH, "new")).text(), "new");
}

#[test]
fn what_is_stored_is_listed_and_counted() {
    let play = Play::begin("");
    play.fetch("/a", &ok(FRESH, "hello"));
    play.find("/a");
    play.fetch("/b", &ok(FRESH, "hello"));
    // They are counted after the clients have their responses.
    play.carrick
        .wait_for_metric("carrick_cache_requests_total", &[], 3.0);
    let all = said(&carrick(&play, &["cache", "ls"]));
    assert!(
        all.contains("http://a.example:80/a\n") && all.contains("http://a.example:80/b\n"),
        "{all}"
    );
    let one = said(&carrick(
        &play,
        &["cache", "ls", "--prefix", "http://a.example/a"],
    ));
    assert!(one.contains("/a\n") && !one.contains("/b\n"), "{one}");
    let stat = said(&carrick(&play, &["cache", "stat"]));
    assert!(stat.contains("objects                  2\n"), "{stat}");
    let status = play.carrick.status();
    assert_eq!(status["cache"]["objects"], 2);
    assert!((status["cache"]["hit_ratio"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-9);
    for (result, expected) in [("hit", 1.0), ("miss", 2.0)] {
        let label = format!("result=\"{result}\"");
        assert_eq!(
            play.carrick
                .metric("carrick_cache_requests_total", &[&label]),
            expected
        );
    }
    let saved = "carrick_cache_saved_bytes_total";
    assert_eq!(play.carrick.wait_for_metric(saved, &[], 5.0), 5.0);
    let lines = play.carrick.access_log(3);
    let mut results: Vec<&str> = lines.iter().map(|line| line.text("cache")).collect();
    // Two workers write them in any order.
    results.sort_unstable();
    assert_eq!(results, ["hit", "miss", "miss"]);
}

#[test]
fn purging_takes_out_what_is_named_and_nothing_else() {
    let play = Play::begin("");
    let fill = || {
        for (path, lines) in [
            ("/a?x", ""),
            ("/a/b", "Surrogate-Key: red blue\r\n"),
            ("/c", "Cache-Tag: blue\r\n"),
        ] {
            let response = play
                .carrick
                .connect()
                .ask(&get(path, "Cache-Control: only-if-cached\r\n"));
            if response.status == 504 {
                play.fetch(path, &ok(&format!("{FRESH}{lines}"), path));
            }
        }
    };
    let stored = |paths: &[&str]| {
        for path in ["/a?x", "/a/b", "/c"] {
            let response = play.find_with(path, "Cache-Control: only-if-cached\r\n");
            assert_eq!(response.status == 200, paths.contains(&path), "{path}");
        }
    };
    for (arguments, left) in [
        (&["--url", "http://A.example/a?x"][..], &["/a/b", "/c"][..]),
        (&["--prefix", "http://a.example/a"], &["/c"]),
        (&["--tag", "blue"], &["/a?x"]),
        (&["--tag", "red"], &["/a?x", "/c"]),
        (&["--all"], &[]),
        (&["--url", "http://a.example/a"], &["/a?x", "/a/b", "/c"]),
    ] {
        fill();
        stored(&["/a?x", "/a/b", "/c"]);
        let arguments = [&["purge"], arguments].concat();
        let purged = said(&carrick(&play, &arguments));
        assert_eq!(purged, format!("purged: {}\n", 3 - left.len()));
        stored(left);
    }
}

#[test]
fn purges_by_url_reach_what_is_stored_without_its_query() {
    for query in ["\"none\"", "[\"x\"]"] {
        let play = Play::begin_with("", &format!("cache_key = {{ query = {query} }}"));
        for url in ["http://a.example/a?x=1", "http://a.example/a"] {
            play.fetch("/a?x=1", &ok(FRESH, "body"));
            play.find("/a?x=1");
            let purged = said(&carrick(&play, &["purge", "--url", url]));
            assert_eq!(purged, "purged: 1\n", "{query} {url}");
        }
    }
}

#[test]
fn what_is_outdated_is_validated_before_it_is_sent_again() {
    let play = Play::begin("");
    play.fetch("/a", &ok(&format!("{FRESH}ETag: \"v\"\r\n"), "body"));
    said(&carrick(&play, &["purge", "--all", "--outdate"]));
    // Even for a client that would take it stale.
    let (response, asked) = play.fetch_with(
        "/a",
        "Cache-Control: max-stale=1000\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nConnection: close\r\n\r\n",
    );
    assert!(asked.contains("If-None-Match: \"v\""), "{asked}");
    assert_eq!(response.text(), "body");
}

#[test]
fn mistakes_are_reported() {
    let play = Play::begin("");
    for arguments in [&["purge"][..], &["purge", "--all", "--tag", "x"]] {
        let output = carrick(&play, arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    let output = carrick(&play, &["purge", "--url", "not-a-url"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("Choose one of ?url="),
        "{output:?}"
    );
    // A web page cannot make a browser purge.
    play.fetch("/a", &ok(FRESH, "body"));
    for from in ["Origin: https://evil.example", "Sec-Fetch-Site: same-site"] {
        let mut page = crate::support::Peer::connect(play.carrick.admin());
        page.send(format!(
            "DELETE /cache?all=yes HTTP/1.1\r\nHost: 127.0.0.1\r\n{from}\r\n\r\n"
        ));
        assert_eq!(page.read_response("DELETE").status, 403);
    }
    assert_eq!(play.find("/a").text(), "body");
    // Without these fields, POST is still an unsupported method.
    let mut page = crate::support::Peer::connect(play.carrick.admin());
    page.send("POST /cache?all=yes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(page.read_response("POST").status, 405);
}

#[test]
fn what_is_under_way_is_purged_too() {
    let body = "x".repeat(200_000);
    let announced = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n{FRESH}ETag: \"v\"\r\n\r\n",
        body.len()
    );
    let until_close = format!("HTTP/1.1 200 OK\r\n{FRESH}ETag: \"v\"\r\n\r\n");
    let part = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes 0-199999/300000\r\nConnection: close\r\n\
         {FRESH}ETag: \"v\"\r\n\r\n",
        body.len()
    );
    for (name, asked, head) in [
        ("of known length", "", announced),
        ("of unknown length", "", until_close),
        ("a part", "Range: bytes=0-199999\r\n", part),
    ] {
        for when in ["before its head", "before its end"] {
            let play = Play::begin("");
            let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", asked));
            if when == "before its end" {
                upstream.send(format!("{head}{}", &body[..1000]));
                client.read_exact(500);
            }
            said(&carrick(&play, &["purge", "--url", "http://a.example/a"]));
            if when == "before its end" {
                upstream.send(&body[1000..]);
            } else {
                upstream.send(format!("{head}{body}"));
            }
            drop(upstream);
            // A client that asked before gets it.
            let came = if when == "before its end" { 500 } else { 0 };
            let whole = body.len() + came;
            assert!(
                client.read_exact(whole - 1000).len() > 1000,
                "{name} {when}"
            );
            play.carrick
                .wait_until_metric("carrick_cache_fills", &[], 0.0);
            for lines in ["", "Range: bytes=0-9\r\n"] {
                let lines = format!("Cache-Control: only-if-cached\r\n{lines}");
                assert_eq!(play.find_with("/a", &lines).status, 504, "{name} {when}");
            }
        }
    }
}

#[test]
fn what_is_under_way_is_outdated_too() {
    let play = Play::begin("");
    let (mut client, mut upstream) = play.carrick.asked(&play.server, get("/a", ""));
    said(&carrick(&play, &["purge", "--all", "--outdate"]));
    upstream.send(ok(&format!("{FRESH}ETag: \"v\"\r\n"), "body"));
    assert_eq!(client.read_response("GET").text(), "body");
    drop(upstream);
    let not_modified = "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nConnection: close\r\n\r\n";
    let (again, asked) = play.fetch_with("/a", "", not_modified);
    assert!(asked.contains("If-None-Match: \"v\""), "{asked}");
    assert_eq!(again.text(), "body");
}

#[test]
fn what_is_being_validated_is_outdated_too() {
    let play = Play::begin("");
    play.fetch("/a", &ok(&format!("{FRESH}ETag: \"v\"\r\n"), "body"));
    let not_modified = "HTTP/1.1 304 Not Modified\r\nETag: \"v\"\r\nConnection: close\r\n\r\n";
    let (mut client, mut upstream) = play
        .carrick
        .asked(&play.server, get("/a", "Cache-Control: no-cache\r\n"));
    said(&carrick(&play, &["purge", "--all", "--outdate"]));
    upstream.send(not_modified);
    assert_eq!(client.read_response("GET").text(), "body");
    drop(upstream);
    let (again, asked) = play.fetch_with("/a", "", not_modified);
    assert!(asked.contains("If-None-Match: \"v\""), "{asked}");
    assert_eq!(again.text(), "body");
    play.find("/a");
}

#[test]
fn times_and_ages_are_reported() {
    let play = Play::begin("");
    assert!(play.carrick.status()["cache"]["age_max_s"].is_null());
    play.fetch("/a", &ok(&format!("{FRESH}Age: 20\r\n"), "a"));
    play.fetch("/b", &ok(&format!("{FRESH}Age: 10\r\n"), "b"));
    for _ in 0..3 {
        play.find("/a");
    }
    let cache = &play.carrick.status()["cache"];
    let (mean, max) = (
        cache["age_mean_s"].as_u64().unwrap(),
        cache["age_max_s"].as_u64().unwrap(),
    );
    assert!(
        (15..60).contains(&mean) && (20..60).contains(&max),
        "{cache}"
    );
    // They are counted after the client has its response.
    let wait = |name: &str, count| {
        play.carrick
            .wait_for_metric(&format!("{name}_count"), &[], count)
    };
    assert_eq!(wait("carrick_cache_first_byte_seconds", 3.0), 3.0);
    wait("carrick_cache_find_seconds", 5.0);
    let sum = play
        .carrick
        .metric("carrick_cache_first_byte_seconds_sum", &[]);
    assert!(sum > 0.0);
}
