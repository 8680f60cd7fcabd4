//! The log from worker to file: golden lines, hostile bytes, full queues.
use super::*;
use crate::config::plan::{LogPlan, LogTarget};
use jiff::tz::{TimeZone, offset};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// 2000-10-10 13:55:36.789 in the zone seven hours west.
fn moment() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(971_211_336_789)
}

fn west() -> TimeZone {
    TimeZone::fixed(offset(-7))
}

fn record() -> Record<'static> {
    Record {
        client: IpAddr::from([192, 0, 2, 7]),
        client_port: 51234,
        user: Some("anna"),
        method: b"GET",
        target: b"/images/a.png?x=1",
        version: "HTTP/1.1",
        status: 200,
        bytes_received: 0,
        bytes_sent: 65536,
        referer: b"http://www.example.org/",
        user_agent: b"curl/8.5.0",
        job: Job::Switch,
        upstream: Some("images"),
        server: Some(SocketAddr::from(([10, 0, 0, 11], 80))),
        destination: None,
        engine: Some("pipe"),
        connect: Some(Duration::from_micros(213)),
        first_byte: Some(Duration::from_micros(1_502)),
        total: Duration::from_micros(61_002_030),
        reused: false,
        paths: None,
        ended: "complete",
    }
}

fn refused() -> Record<'static> {
    Record {
        client: "2001:db8::1".parse().unwrap(),
        user: None,
        method: b"",
        target: b"",
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
    format::combined(&mut out, record, Clock::in_zone(west()).at(moment()));
    String::from_utf8(out).unwrap()
}

fn json(record: &Record<'_>) -> String {
    let mut out = Vec::new();
    format::json(&mut out, record, Clock::in_zone(west()).at(moment()));
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
            "2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] \"-\" 400 150 \"-\" \"-\" mode=forward port=51234 received=0 \
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
         \"server\":\"10.0.0.11:80\",\"reused\":false,\"ended\":\"complete\"}\n"
    );
    let line = json(&tunnel());
    let end = "\"reused\":false,\"client_rtt\":0.080123,\"upstream_rtt\":null,\"client_retransmits\":3,\
               \"upstream_retransmits\":0,\"ended\":\"idle_timeout\"}\n";
    assert!(line.ends_with(end), "{line}");
    let refused: serde_json::Value = serde_json::from_str(&json(&refused())).unwrap();
    for absent in [
        "user",
        "method",
        "target",
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
fn where_a_client_wanted_to_go_is_told_only_if_it_was_intercepted() {
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
    let mut clock = Clock::in_zone(TimeZone::fixed(
        jiff::tz::Offset::from_seconds(5 * 3600 + 1800).unwrap(),
    ));
    let at = |clock: &mut Clock, ms| {
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

struct Scene {
    folder: tempfile::TempDir,
    thread: LogThread,
    sender: LogSender,
}

impl Scene {
    fn new(target: &str, format: LogFormat, lines_max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = LogPlan {
            access: LogTarget::File(folder.path().join(target)),
            format,
        };
        let (thread, sender) = LogThread::start(&plan, lines_max).unwrap();
        Self {
            folder,
            thread,
            sender,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn worker(&self) -> (AccessLog, Arc<WorkerMetrics>) {
        let metrics = Arc::new(WorkerMetrics::default());
        (self.sender.worker(Arc::clone(&metrics)), metrics)
    }

    /// Waits until everything that was handed over is written.
    fn settle(&self) {
        crate::control::testing::eventually("the log is written", || {
            self.sender.state.lines_waiting() == 0
        });
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(String::from)
        .collect()
}

fn numbered(number: usize) -> Vec<u8> {
    format!("/{number}/").into_bytes()
}

#[test]
fn lines_of_all_workers_arrive_whole_and_in_order() {
    let scene = Scene::new("log", LogFormat::Json, 100_000);
    std::thread::scope(|scope| {
        for port in 1..=3 {
            let sender = scene.sender.clone();
            scope.spawn(move || {
                let log = sender.worker(Arc::default());
                for number in 0..2000 {
                    log.write(&Record {
                        target: &numbered(number),
                        client_port: port,
                        ..record()
                    });
                }
                log.flush();
            });
        }
    });
    let (path, state) = (scene.path("log"), scene.thread.state());
    scene.thread.stop();
    let mut next = [0; 4];
    for line in lines(&path) {
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let port = usize::try_from(read["port"].as_u64().unwrap()).unwrap();
        assert_eq!(read["target"], format!("/{}/", next[port]));
        next[port] += 1;
    }
    assert_eq!(next, [0, 2000, 2000, 2000]);
    assert_eq!(
        (
            state.lines_written.get(),
            state.lines_lost.get(),
            state.lines_waiting()
        ),
        (6000, 0, 0)
    );
}

#[test]
fn nothing_is_written_before_a_flush_and_everything_at_it() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&record());
    std::thread::sleep(Duration::from_millis(20));
    assert!(lines(&scene.path("log")).is_empty());
    log.flush();
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("log")).len(), 1);
}

#[test]
fn a_worker_that_ends_leaves_nothing_behind() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&record());
    drop(log);
    scene.settle();
    assert_eq!(lines(&scene.path("log")).len(), 1);
}

#[test]
fn the_file_is_reopened_after_it_was_moved() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&Record {
        target: b"/before",
        ..record()
    });
    log.flush();
    scene.settle();
    fs::rename(scene.path("log"), scene.path("log.1")).unwrap();
    log.write(&Record {
        target: b"/moved",
        ..record()
    });
    log.flush();
    scene.settle();
    scene.thread.reopen();
    log.write(&Record {
        target: b"/after",
        ..record()
    });
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("log.1")).len(), 2);
    let after = lines(&scene.path("log"));
    assert!(after.len() == 1 && after[0].contains("/after"), "{after:?}");
}

#[test]
fn a_reopen_that_fails_keeps_the_old_file() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    fs::rename(scene.path("log"), scene.path("log.1")).unwrap();
    fs::create_dir(scene.path("log")).unwrap();
    scene.thread.reopen();
    log.write(&record());
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("log.1")).len(), 1);
}

#[test]
fn a_change_takes_new_lines_to_the_new_target_and_old_ones_to_the_old() {
    let scene = Scene::new("old", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&Record {
        target: b"/1",
        ..record()
    });
    let plan = LogPlan {
        access: LogTarget::File(scene.path("new")),
        format: LogFormat::Json,
    };
    scene
        .thread
        .change(LogThread::prepare(&plan, 1000).unwrap());
    log.write(&Record {
        target: b"/2",
        ..record()
    });
    log.flush();
    scene.settle();
    let (old, new) = (lines(&scene.path("old")), lines(&scene.path("new")));
    assert!(old.len() == 1 && old[0].contains("\"GET /1 "), "{old:?}");
    assert!(
        new.len() == 1 && new[0].contains("\"target\":\"/2\""),
        "{new:?}"
    );

    let off = LogPlan {
        access: LogTarget::Off,
        format: LogFormat::Json,
    };
    scene.thread.change(LogThread::prepare(&off, 1000).unwrap());
    assert!(!log.is_on());
    log.write(&record());
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("new")).len(), 1);
    scene
        .thread
        .change(LogThread::prepare(&plan, 1000).unwrap());
    assert!(log.is_on());
    log.write(&record());
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("new")).len(), 2);
}

#[test]
fn a_change_to_a_file_that_cannot_be_opened_changes_nothing() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    let plan = LogPlan {
        access: LogTarget::File(scene.path("no/such/folder")),
        format: LogFormat::Json,
    };
    let error = LogThread::prepare(&plan, 1000).unwrap_err().to_string();
    assert!(
        error.contains("cannot open the access log") && error.contains("no/such/folder"),
        "{error}"
    );
    log.write(&record());
    log.flush();
    scene.settle();
    assert!(lines(&scene.path("log"))[0].starts_with("192.0.2.7 - anna ["));
}

#[test]
fn a_full_disk_loses_lines_and_nothing_else() {
    let plan = LogPlan {
        access: LogTarget::File("/dev/full".into()),
        format: LogFormat::Combined,
    };
    let (thread, sender) = LogThread::start(&plan, 1000).unwrap();
    let log = sender.worker(Arc::default());
    for _ in 0..10 {
        log.write(&record());
        log.flush();
    }
    crate::control::testing::eventually("lines are lost", || thread.state().lines_lost.get() == 10);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let plan = LogPlan {
        access: LogTarget::File(path.clone()),
        format: LogFormat::Combined,
    };
    thread.change(LogThread::prepare(&plan, 1000).unwrap());
    log.write(&record());
    log.flush();
    let state = thread.state();
    thread.stop();
    assert_eq!((state.lines_written.get(), state.lines_lost.get()), (1, 10));
    assert_eq!(lines(&path).len(), 1);
}

/// A FIFO that is open for reading, and that nobody reads.
fn stuck_fifo() -> (tempfile::TempDir, PathBuf, fs::File) {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    let reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .unwrap();
    (folder, path, reader)
}

#[test]
fn a_target_that_takes_nothing_does_not_hold_up_the_worker() {
    let (_folder, path, reader) = stuck_fifo();
    let plan = LogPlan {
        access: LogTarget::File(path),
        format: LogFormat::Combined,
    };
    let (thread, sender) = LogThread::start(&plan, 400).unwrap();
    let metrics = Arc::new(WorkerMetrics::default());
    let log = sender.worker(Arc::clone(&metrics));
    let begun = Instant::now();
    for _ in 0..10_000 {
        log.write(&record());
    }
    log.flush();
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert!(thread.state().lines_waiting() <= 400);
    let dropped = metrics.limits.get(Limit::LogQueue);
    assert!(dropped > 8_000, "{dropped}");
    // The reader goes away: what waits is lost, and the thread lives.
    drop(reader);
    crate::control::testing::eventually("the queue is empty", || {
        thread.state().lines_waiting() == 0
    });
    log.flush();
    let state = thread.state();
    thread.stop();
    assert_eq!(
        dropped + state.lines_written.get() + state.lines_lost.get(),
        10_000
    );
}

#[test]
fn the_queue_is_limited_in_bytes_too() {
    let state = LogState::new(Settings::default(), 100);
    assert!(state.reserve(1, 60 * BYTES_PER_LINE));
    assert!(!state.reserve(1, 60 * BYTES_PER_LINE));
    assert!(state.reserve(1, 40 * BYTES_PER_LINE));
    assert!(!state.reserve(1, 1));
    state.release(2, 100 * BYTES_PER_LINE);
    // Larger than the limit, but alone.
    assert!(state.reserve(500, 1));
    assert!(!state.reserve(1, 1));
    assert_eq!(state.lines_waiting(), 500);
}

#[test]
fn settings_survive_their_packing() {
    let mut settings = Settings::default();
    for format in [Some(LogFormat::Combined), None, Some(LogFormat::Json)] {
        settings = settings.next(format);
        assert_eq!(Settings::unpack(settings.pack()), settings);
    }
    assert_eq!(settings.generation, 3);
    let last = Settings {
        generation: u32::MAX >> 2,
        format: None,
    };
    assert_eq!(
        last.next(Some(LogFormat::Json)),
        Settings {
            generation: 0,
            format: Some(LogFormat::Json)
        }
    );
}

#[test]
fn lines_after_the_thread_has_ended_are_counted_as_dropped() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, metrics) = scene.worker();
    let sender = scene.sender.clone();
    scene.thread.stop();
    log.write(&record());
    log.flush();
    assert_eq!(metrics.limits.get(Limit::LogQueue), 1);
    assert_eq!(sender.state.lines_waiting(), 0);
}
