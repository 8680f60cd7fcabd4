//! Pages laid out for rooms of several sizes.
use super::super::rates::tests::{snapshot, status, tunnel};
use super::super::snapshot::{Snapshot, escape};
use super::*;
use serde_json::{Value, json};

const ADDRESS: &str = "127.0.0.1:3129";

/// Rates with the given numbers of classes, workers and tunnels; each tunnel is faster than the one before.
fn rates(classes: usize, workers: usize, tunnels: usize) -> Rates {
    let seen = |second: u64| -> Snapshot {
        let class = |number: usize| {
            json!({
                "name": format!("class-{number}"), "policy": "conservative", "ceiling": 10 << 20, "splices": 2,
                "bytes": 2048 * second, "yields": 4 * second, "rate_waits": 5 * second, "waited_ms": 500 * second,
            })
        };
        let worker = |number: usize| json!({ "worker": number, "runnable_ms": 250 * second, "local_requests": 7 * second, "hits_p99_us": 1500 });
        let tunnel = |number: usize| {
            let mut tunnel = tunnel(
                &format!("{number}"),
                &format!("192.0.2.{number}:51234"),
                60.0,
                1024 * second * number as u64,
                0,
            );
            tunnel["class"] = json!("class-0");
            tunnel
        };
        let list =
            |count, of: &dyn Fn(usize) -> Value| -> Vec<Value> { (0..count).map(of).collect() };
        snapshot(
            second,
            status(json!({
                "splice": { "pipe_bytes": 3 * 1024 * 1024 * second, "pipe_splices": 0 },
                "splices": { "in_kernel": 3, "limit": 64, "tunnels": { "pipe": tunnels } },
                "cache": { "hits": 9 * second, "misses": second, "objects": 12, "bytes": 2048, "bytes_max": 1 << 20 },
            })),
            json!({ "list": list(tunnels, &tunnel) }),
            json!({ "classes": list(classes, &class), "workers": list(workers, &worker) }),
        )
    };
    Rates::between(&seen(1), &seen(2)).unwrap()
}

fn view(rates: &Rates) -> View<'_> {
    View {
        address: ADDRESS.parse().unwrap(),
        rates: Some(rates),
        trouble: None,
        is_paused: false,
        sort: Sort::Rate,
        interval: Duration::from_secs(1),
        is_utf8: false,
        has_keys: true,
    }
}

fn room(width: usize, height: usize) -> Room {
    Room {
        width,
        height,
        tunnels_max: usize::MAX,
    }
}

fn text(lines: &[Line]) -> String {
    lines
        .iter()
        .map(|line| format!("{}\n", line.text))
        .collect()
}

#[test]
fn everything_is_there_in_eighty_by_twenty_four() {
    let rates = rates(2, 2, 3);
    let shown = text(&page(&view(&rates), room(80, 24)));
    let expected = "\
carrick 1.2.3 at 127.0.0.1:3129  pid 7  up 1h01  serving  over 1.0 s
clients 0 open, 0/s new   requests 0/s   tunnels 3   servers 0 open, 0 idle
cache hits 90.0% of 10.0/s   saved 0B/s   12 objects, 2.0KB of 1.0MB
engine      bytes/s splices/s   tunnels in the kernel
copy              0         0         0
pipe           3.0M         0         3
socket            0         0         0 3 of 64
packet            0         0         0 0
all            3.0M
class          policy         ceiling bytes/s splices yields/s waits/s   held
class-0        conservative     10.0M    2.0K       2      4.0     5.0    0.5
class-1        conservative     10.0M    2.0K       2      4.0     5.0    0.5
worker      clients  runnable forwarding own req/s spliced/s  hits p99
0                 0     25.0%       0.0%       7.0         0     1.5ms
1                 0     25.0%       0.0%       7.0         0     1.5ms
client          server        engine    age    up/s  down/s  bytes class
192.0.2.2:51234 10.0.0.11:443 pipe     1m00    2.0K       0   4.0K class-0
192.0.2.1:51234 10.0.0.11:443 pipe     1m00    1.0K       0   2.0K class-0
192.0.2.0:51234 10.0.0.11:443 pipe     1m00       0       0      0 class-0



";
    assert_eq!(shown.trim_end().lines().count(), 24, "{shown}");
    assert!(shown.starts_with(expected.trim_end()), "{shown}");
    assert!(shown.trim_end().ends_with("every 1.0 s"), "{shown}");
}

#[test]
fn no_room_is_overrun() {
    let sizes = [0, 1, 2, 3, 7, 10, 24, 40, 79, 80, 81, 132, 400];
    for (classes, workers, tunnels) in [(0, 0, 0), (0, 2, 1), (64, 128, 1000), (3, 2, 40)] {
        let rates = rates(classes, workers, tunnels);
        for (width, height) in sizes
            .into_iter()
            .flat_map(|width| sizes.map(|height| (width, height)))
        {
            for (trouble, is_utf8) in [(None, true), (Some("no answer"), false)] {
                let view = View {
                    trouble,
                    is_utf8,
                    ..view(&rates)
                };
                for lines in [
                    page(&view, room(width, height)),
                    help(room(width, height), is_utf8),
                ] {
                    assert!(lines.len() <= height, "{width}x{height}");
                    for line in &lines {
                        let columns = line.text.chars().count();
                        assert!(columns <= width, "{width}x{height}: {}", line.text);
                        assert!(is_utf8 || line.text.is_ascii(), "{}", line.text);
                    }
                }
            }
        }
    }
}

#[test]
fn what_has_no_room_is_counted_and_tunnels_stay_longest() {
    let rates = rates(20, 20, 100);
    let shown = text(&page(&view(&rates), room(80, 24)));
    assert!(shown.contains("192.0.2.99:51234"), "{shown}");
    let counts: usize = shown
        .lines()
        .filter_map(|line| line.rsplit_once("  +")?.1.parse::<usize>().ok())
        .sum();
    let listed = shown.matches("conservative").count()
        + shown.matches("1.5ms").count()
        + shown.matches(":51234").count();
    assert_eq!(counts + listed, 140, "{shown}");
    let low = text(&page(&view(&rates), room(80, 12)));
    assert!(low.contains("192.0.2.99:51234"), "{low}");
    assert!(!low.contains("worker "), "{low}");
}

#[test]
fn wide_rooms_have_targets_and_narrow_ones_cut() {
    let rates = rates(0, 1, 2);
    let wide = text(&page(&view(&rates), room(132, 24)));
    assert!(wide.contains("a.example"), "{wide}");
    let narrow = text(&page(&view(&rates), room(40, 24)));
    assert!(
        narrow.contains('~') && !narrow.contains("a.example"),
        "{narrow}"
    );
    let with_utf8 = View {
        is_utf8: true,
        ..view(&rates)
    };
    let narrow = text(&page(&with_utf8, room(40, 24)));
    assert!(
        narrow.contains('\u{2026}') && narrow.contains('\u{2191}'),
        "{narrow}"
    );
}

#[test]
fn trouble_and_pauses_are_shown() {
    let rates = rates(1, 1, 1);
    let away = View {
        trouble: Some("refused\u{1b}[2J"),
        is_paused: true,
        sort: Sort::Down,
        ..view(&rates)
    };
    let lines = page(&away, room(80, 24));
    assert_eq!(lines[1].style, Style::Alarm);
    assert!(
        lines[1].text.contains("does not answer") && lines[1].text.contains("refused\\u{1b}[2J")
    );
    let shown = text(&lines);
    assert!(
        shown.contains("PAUSED") && shown.contains("down/s*"),
        "{shown}"
    );
    // The last rates stay.
    assert!(shown.contains("192.0.2.0:51234"), "{shown}");
    let first = View {
        rates: None,
        ..view(&rates)
    };
    assert!(text(&page(&first, room(80, 24))).contains("no rates yet"));
}

#[test]
fn names_of_others_move_no_cursor() {
    let evil = "a\u{1b}]0;x\u{7}\n\r\u{202e}\u{e4}\u{9b}2J\u{1F600}";
    assert!(
        escape(evil)
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
    );
    let seen = |second: u64| {
        let mut one = tunnel("1", evil, 60.0, 1024 * second, 0);
        for field in ["server", "target", "engine", "class"] {
            one[field] = json!(evil);
        }
        snapshot(
            second,
            status(json!({ "version": evil, "state": evil })),
            json!({ "list": [one], "outliving": { "list": [{ "client": evil, "server": evil }] } }),
            json!({ "classes": [{ "name": evil, "policy": evil }] }),
        )
    };
    let rates = Rates::between(&seen(1), &seen(2)).unwrap();
    for line in page(&view(&rates), room(300, 24)) {
        assert!(
            line.text
                .bytes()
                .all(|byte| byte == b' ' || byte.is_ascii_graphic()),
            "{:?}",
            line.text
        );
    }
}

#[test]
fn the_help_fits_and_names_every_order() {
    let lines = help(room(80, 24), false);
    assert_eq!(lines.len(), HELP.lines().count());
    assert!(lines.iter().all(|line| !line.text.ends_with('~')));
}
