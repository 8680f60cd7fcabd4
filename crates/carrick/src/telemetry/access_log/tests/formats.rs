//! Lines: expected ones in both formats, hostile bytes, dates.
use super::*;
use jiff::tz::{TimeZone, offset};

/// 2000-10-10 13:55:36.789 in the zone seven hours west.
fn moment() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(971_211_336_789)
}

fn west() -> TimeZone {
    TimeZone::fixed(offset(-7))
}

fn refused() -> Record<'static> {
    Record {
        client: "2001:db8::1".parse().unwrap(),
        user: None,
        method: b"",
        target: b"GET / \"HTTP/2.0\x1b",
        version: "",
        status: 400,
        bytes_sent: 150,
        referer: b"",
        user_agent: b"",
        job: Job::Forward,
        upstream: None,
        server: None,
        engine: None,
        connect: None,
        first_byte: None,
        total: Duration::from_micros(90),
        ended: "refused",
        ..record()
    }
}

fn tunnel() -> Record<'static> {
    Record {
        user: None,
        method: b"TUNNEL",
        target: b"a.example.org",
        version: "TLS",
        bytes_received: 517,
        bytes_sent: 4096,
        referer: b"",
        user_agent: b"",
        job: Job::Tunnel,
        upstream: Some("tls-a"),
        engine: Some("copy"),
        first_byte: None,
        total: Duration::from_secs(3600),
        paths: Some([
            PathState {
                rtt: Some(Duration::from_micros(80_123)),
                retransmissions: 3,
            },
            PathState {
                rtt: None,
                retransmissions: 0,
            },
        ]),
        ended: "idle_timeout",
        ..record()
    }
}

fn combined(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    format::combined(&mut out, record, LogClock::in_zone(west()).at(moment()));
    String::from_utf8(out).unwrap()
}

fn json(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    format::json(&mut out, record, LogClock::in_zone(west()).at(moment()));
    String::from_utf8(out).unwrap()
}

#[test]
fn golden_lines_in_the_combined_format() {
    let golden = [
        (
            record(),
            "192.0.2.7 - anna [10/Oct/2000:13:55:36 -0700] \"GET /images/a.png?x=1 HTTP/1.1\" 200 65536 \
             \"http://www.example.org/\" \"curl/8.5.0\" mode=switch port=51234 received=0 connect=0.000213 \
             first_byte=0.001502 total=61.002030 engine=pipe upstream=images server=10.0.0.11:80 reused=0 ended=complete\n",
        ),
        (
            refused(),
            "2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] \"GET / \\x22HTTP/2.0\\x1b\" 400 150 \"-\" \"-\" mode=forward port=51234 received=0 \
             connect=- first_byte=- total=0.000090 engine=- upstream=- server=- reused=0 ended=refused\n",
        ),
        (
            tunnel(),
            "192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"TUNNEL a.example.org TLS\" 200 4096 \"-\" \"-\" mode=tunnel \
             port=51234 received=517 connect=0.000213 first_byte=- total=3600.000000 engine=copy upstream=tls-a \
             server=10.0.0.11:80 reused=0 ended=idle_timeout\n",
        ),
    ];
    for (record, line) in golden {
        assert_eq!(combined(&record), line);
    }
}

#[test]
fn golden_lines_in_json() {
    assert_eq!(
        json(&record()),
        "{\"time\":\"2000-10-10T13:55:36.789-07:00\",\"client\":\"192.0.2.7\",\"port\":51234,\"user\":\"anna\",\
         \"mode\":\"switch\",\"method\":\"GET\",\"target\":\"/images/a.png?x=1\",\"version\":\"HTTP/1.1\",\"status\":200,\
         \"received\":0,\"sent\":65536,\"referer\":\"http://www.example.org/\",\"user_agent\":\"curl/8.5.0\",\
         \"connect\":0.000213,\"first_byte\":0.001502,\"total\":61.002030,\"engine\":\"pipe\",\"upstream\":\"images\",\
         \"server\":\"10.0.0.11:80\",\"reused\":false,\"server_version\":null,\"tls\":null,\"ended\":\"complete\"}\n"
    );
    let line = json(&tunnel());
    let end = "\"reused\":false,\"server_version\":null,\"tls\":null,\"client_rtt\":0.080123,\"upstream_rtt\":null,\"client_retransmits\":3,\
               \"upstream_retransmits\":0,\"ended\":\"idle_timeout\"}\n";
    assert!(line.ends_with(end), "{line}");
    let refused: serde_json::Value = serde_json::from_str(&json(&refused())).unwrap();
    for absent in [
        "user",
        "method",
        "version",
        "referer",
        "user_agent",
        "connect",
        "first_byte",
        "engine",
        "upstream",
        "server",
    ] {
        assert!(refused[absent].is_null(), "{absent}");
    }
    assert_eq!(refused["target"], "GET / \"HTTP/2.0\u{1b}");
}

#[test]
fn hostile_bytes_stay_inside_of_their_field() {
    let table: [(&[u8], &str, &str); 10] = [
        (
            b"/\r\n127.0.0.1 - - [forged]",
            "/\\x0d\\x0a127.0.0.1 - - [forged]",
            "/\r\n127.0.0.1 - - [forged]",
        ),
        (
            b"/\" 200 1 \"x\" \"y",
            "/\\x22 200 1 \\x22x\\x22 \\x22y",
            "/\" 200 1 \"x\" \"y",
        ),
        (b"/\\\" x", "/\\x5c\\x22 x", "/\\\" x"),
        (
            b"/\x1b[2J\x1b]0;owned\x07",
            "/\\x1b[2J\\x1b]0;owned\\x07",
            "/\u{1b}[2J\u{1b}]0;owned\u{7}",
        ),
        (b"/\0\x7f\x01", "/\\x00\\x7f\\x01", "/\0\u{7f}\u{1}"),
        (b"/\xff\xfe", "/\\xff\\xfe", "/\\xff\\xfe"),
        (b"/\xc2\x9b31m", "/\\xc2\\x9b31m", "/\u{9b}31m"),
        (
            "/ü\u{202e}\u{2028}😀".as_bytes(),
            "/\\xc3\\xbc\\xe2\\x80\\xae\\xe2\\x80\\xa8\\xf0\\x9f\\x98\\x80",
            "/ü\u{202e}\u{2028}😀",
        ),
        (b"/\xf0\x9f\x98", "/\\xf0\\x9f\\x98", "/\\xf0\\x9f\\x98"),
        (b"/%0a%22", "/%0a%22", "/%0a%22"),
    ];
    for (bytes, in_combined, in_json) in table {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let line = combined(&Record {
            target: bytes,
            referer: bytes,
            user_agent: bytes,
            method: bytes,
            ..record()
        });
        assert_eq!(line.matches(in_combined).count(), 4, "{line}");
        assert_eq!(line.matches('"').count(), 6, "{line}");
        assert_one_clean_line(&line);

        let user = Record {
            user: Some(&text),
            upstream: Some(&text),
            ..record()
        };
        let line = combined(&user);
        assert_eq!(line.matches('"').count(), 6, "{line}");
        assert_eq!(
            line.split(' ').count(),
            combined(&record()).split(' ').count(),
            "{line}"
        );
        assert_one_clean_line(&line);

        let line = json(&Record {
            target: bytes,
            referer: bytes,
            user_agent: bytes,
            ..record()
        });
        assert_one_clean_line(&line);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        for field in ["target", "referer", "user_agent"] {
            assert_eq!(read[field], in_json, "{line}");
        }
    }
}

fn assert_one_clean_line(line: &str) {
    let text = line.strip_suffix('\n').unwrap();
    assert!(
        text.bytes().all(|byte| matches!(byte, b' '..=b'~')),
        "{text:?}"
    );
}

#[test]
fn every_byte_survives_both_formats_in_a_readable_form() {
    for byte in 0..=u8::MAX {
        let target = [b'/', byte, b'x'];
        let record = Record {
            target: &target,
            ..record()
        };
        assert_one_clean_line(&combined(&record));
        let line = json(&record);
        assert_one_clean_line(&line);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        if byte.is_ascii() {
            assert_eq!(read["target"].as_str().unwrap().as_bytes(), target);
        }
    }
}

#[test]
fn long_fields_are_cut() {
    let long = vec![b'\xff'; 100_000];
    let line = combined(&Record {
        target: &long,
        ..record()
    });
    assert!(line.contains("\\xff... HTTP/1.1"), "{line}");
    assert!(line.len() < 4 * format::FIELD_BYTES_MAX + 1000);
    let line = json(&Record {
        user_agent: &long,
        ..record()
    });
    assert!(line.contains("\\\\xff...\""), "{line}");
    let exact = vec![b'a'; format::FIELD_BYTES_MAX];
    assert!(
        !combined(&Record {
            target: &exact,
            ..record()
        })
        .contains("...")
    );
}

#[test]
fn the_original_destination_is_logged_only_for_intercepted_clients() {
    let intercepted = Record {
        destination: Some("[2001:db8::5]:80".parse().unwrap()),
        ..record()
    };
    assert!(
        combined(&intercepted)
            .trim_end()
            .ends_with(" reused=0 destination=[2001:db8::5]:80 ended=complete")
    );
    let read: serde_json::Value = serde_json::from_str(&json(&intercepted)).unwrap();
    assert_eq!(read["destination"], "[2001:db8::5]:80");
    assert!(!json(&record()).contains("destination"));
    assert!(!combined(&record()).contains("destination"));
}

#[test]
fn an_empty_user_is_not_no_user() {
    assert!(
        combined(&Record {
            user: Some(""),
            ..record()
        })
        .starts_with("192.0.2.7 - \"\" [")
    );
}

#[test]
fn dates_follow_the_clock_and_the_zone() {
    let mut clock = LogClock::in_zone(TimeZone::fixed(
        jiff::tz::Offset::from_seconds(5 * 3600 + 1800).unwrap(),
    ));
    let at = |clock: &mut LogClock, ms| {
        let stamp = clock.at(SystemTime::UNIX_EPOCH + Duration::from_millis(ms));
        format!(
            "{} {}.{:03}{}",
            stamp.combined, stamp.date_time, stamp.millisecond, stamp.offset
        )
    };
    assert_eq!(
        at(&mut clock, 0),
        "01/Jan/1970:05:30:00 +0530 1970-01-01T05:30:00.000+05:30"
    );
    assert_eq!(
        at(&mut clock, 999),
        "01/Jan/1970:05:30:00 +0530 1970-01-01T05:30:00.999+05:30"
    );
    assert_eq!(
        at(&mut clock, 1000),
        "01/Jan/1970:05:30:01 +0530 1970-01-01T05:30:01.000+05:30"
    );
    // The clock was set back.
    assert_eq!(
        at(&mut clock, 5),
        "01/Jan/1970:05:30:00 +0530 1970-01-01T05:30:00.005+05:30"
    );
    let stamp = clock.at(SystemTime::UNIX_EPOCH - Duration::from_secs(10));
    assert_eq!(stamp.date_time, "1970-01-01T05:30:00");
}
