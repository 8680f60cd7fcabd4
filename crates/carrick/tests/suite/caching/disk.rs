//! The cache on disk: what survives an exit and a kill, and what memory has no room for.
use super::{get, ok, status};
use crate::support::carrick::{PROGRAM, switch_text};
use crate::support::peer::Ending;
use crate::support::random::{Random, hash};
use crate::support::server::answer_requests;
use crate::support::{Carrick, Peer, Place, Response, Server, wait_for, wait_until};
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, mpsc};

const FRESH: &str = "Cache-Control: max-age=600\r\nETag: \"e\"\r\nSurrogate-Key: tag\r\n";

/// A switch with little memory and a disk, which can be restarted.
struct Play {
    place: Place,
    server: Server,
    text: String,
    carrick: Option<Carrick>,
}

impl Play {
    fn begin() -> Self {
        Self::begin_by(Command::new(PROGRAM))
    }

    /// Started by a command that executes carrick.
    fn begin_by(command: Command) -> Self {
        let place = Place::claim();
        let server = Server::listen(&place);
        let text = switch_text(&[server.address()]).replace(
            "upstream = \"u\"\n[upstream",
            "upstream = \"u\"\ncache = true\n[upstream",
        );
        let path = path(&place);
        let text = format!(
            "[cache]\nmemory = \"1 MB\"\ndisk = {{ path = {path:?}, size = \"64 MB\" }}\n{text}"
        );
        let carrick = Carrick::try_start_by(&place, &text, command).expect("it starts");
        let play = Self {
            place,
            server,
            text,
            carrick: Some(carrick),
        };
        play.wait_for("indexed", 1.0);
        play
    }

    fn carrick(&self) -> &Carrick {
        self.carrick.as_ref().expect("it runs")
    }

    /// Ends or kills it, and starts it again.
    fn again(&mut self, is_killed: bool) {
        let mut carrick = self.carrick.take().expect("it runs");
        if is_killed {
            carrick.signal(Signal::KILL);
            carrick.wait();
        } else {
            carrick.stop();
        }
        self.carrick = Some(Carrick::start(&self.place, &self.text));
        self.wait_for("indexed", 1.0);
    }

    fn wait_for(&self, name: &str, least: f64) {
        let name = format!("carrick_cache_disk_{name}");
        self.carrick().wait_for_metric(&name, &[], least);
    }

    /// Waits until nothing waits for the disk: memory has room for little that does, and drops the rest.
    fn wait_until_written(&self) {
        let waiting = ["kind=\"waiting\""];
        self.carrick()
            .wait_until_metric("carrick_cache_disk_bytes", &waiting, 0.0);
    }

    /// Requests `path`, and plays the server.
    fn fetch(&self, path: &str, answer: impl AsRef<[u8]>) -> Response {
        let mut client = self.carrick().connect();
        client.send(get(path, ""));
        let mut upstream = self.server.accept();
        upstream.read_head();
        upstream.send(answer);
        upstream.half_close();
        client.read_response("GET")
    }

    /// Requests `path`, which must be answered without the server.
    fn find(&self, path: &str, lines: &str) -> Response {
        let response = self.carrick().connect().ask(&get(path, lines));
        self.server.expect_no_connection();
        response
    }

    /// Has `path` stored and written to disk.
    fn keep(&self, path: &str, body: &[u8]) {
        let before = self
            .carrick()
            .metric("carrick_cache_disk_writes_total", &[]);
        self.fetch(path, answer(body));
        self.find(path, "");
        self.wait_for("writes_total", before + 1.0);
    }

    fn purge(&self, arguments: &[&str]) -> String {
        let output = Command::new(PROGRAM)
            .arg("purge")
            .args(arguments)
            .args(["--admin", &self.carrick().admin().to_string()])
            .output()
            .expect("carrick");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Files of objects.
    fn files(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(path(&self.place)).expect("the folder");
        folders
            .map(|folder| folder.expect("it exists").path())
            .filter(|folder| folder.is_dir() && !folder.ends_with("unfinished"))
            .flat_map(|folder| std::fs::read_dir(folder).expect("a folder"))
            .map(|file| file.expect("it exists").path())
            .collect()
    }
}

fn path(place: &Place) -> PathBuf {
    place.directory().join("disk")
}

fn answer(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n{FRESH}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn body(bytes: usize) -> Vec<u8> {
    Random::new(bytes as u64).bytes(bytes)
}

#[test]
fn what_has_come_is_there_after_an_end_and_after_a_kill() {
    let mut play = Play::begin();
    let bodies = [body(0), body(10), body(20_000), body(65_537), body(120_000)];
    for (number, body) in bodies.iter().enumerate() {
        play.keep(&format!("/{number}"), body);
    }
    play.fetch("/once", answer(b"once"));
    for is_killed in [false, true, true] {
        play.again(is_killed);
        for (number, body) in bodies.iter().enumerate() {
            let found = play.find(&format!("/{number}"), "");
            assert_eq!(hash(&found.body), hash(body), "{number}");
            assert!(status(&found).contains("hit"), "{}", found.head);
            assert!(found.field("age").is_some());
        }
        let disk = &play.carrick().status()["cache"]["disk"];
        assert_eq!(disk["objects"], 6, "{disk}");
        if !is_killed {
            // The previous process may lose its last log lines.
            let lines = play.carrick().access_log(11 + 5);
            let from_disk = lines.iter().filter(|line| line.text("cache") == "hit-disk");
            assert_eq!(from_disk.count(), 5);
        }
    }
    for (name, labels) in [
        ("carrick_cache_requests_total", &["result=\"hit-disk\""][..]),
        ("carrick_cache_disk_seconds_count", &[]),
    ] {
        let count = play.carrick().wait_for_metric(name, labels, 5.0);
        assert_eq!(count, 5.0, "{name}");
    }
    let once = play.find("/once", "");
    assert_eq!(
        (once.text().as_str(), status(&once).contains("hit")),
        ("once", true)
    );
}

#[test]
fn what_memory_had_no_more_room_for_needs_no_thread() {
    let play = Play::begin();
    for bytes in [10_000, 60_000] {
        // Three times what memory has room for.
        let names: Vec<_> = (0..3_000_000 / bytes)
            .map(|number| format!("/{bytes}/{number}"))
            .collect();
        for (number, name) in names.iter().enumerate() {
            let all = body(bytes + number);
            assert_eq!(hash(&play.fetch(name, answer(&all)).body), hash(&all));
            if number % 8 == 7 {
                play.wait_until_written();
            }
        }
        play.wait_until_written();
        let loads = || {
            ["loads", "loads_at_once"]
                .map(|name| format!("carrick_cache_disk_{name}_total"))
                .map(|name| play.carrick().metric(&name, &[]))
        };
        let before = loads();
        let mut client = play.carrick().connect();
        for _ in 0..2 {
            for (number, name) in names.iter().enumerate() {
                let found = client.ask(&get(name, ""));
                assert_eq!(hash(&found.body), hash(&body(bytes + number)), "{name}");
            }
        }
        play.server.expect_no_connection();
        let after = loads();
        let [all, at_once] = [after[0] - before[0], after[1] - before[1]];
        assert!(all > 10.0 && at_once > all / 2.0, "{at_once} of {all}");
    }
}

#[test]
fn conditions_ranges_and_head_are_answered_from_the_disk() {
    let mut play = Play::begin();
    let all = body(120_000);
    play.keep("/a", &all);
    for (lines, expected, part) in [
        ("If-None-Match: \"e\"\r\n", 304, &all[..0]),
        (
            "Range: bytes=100000-100099\r\n",
            206,
            &all[100_000..100_100],
        ),
        ("Range: bytes=-5\r\n", 206, &all[119_995..]),
        ("Range: bytes=200000-\r\n", 416, &all[..0]),
    ] {
        play.again(true);
        let found = play.find("/a", lines);
        assert_eq!((found.status, &found.body[..]), (expected, part), "{lines}");
    }
    play.again(true);
    let mut client = play.carrick().connect();
    client.send(get("/a", "").replace("GET", "HEAD"));
    let found = client.read_response("HEAD");
    assert_eq!(found.field("content-length").as_deref(), Some("120000"));
    play.server.expect_no_connection();
}

#[test]
fn what_is_larger_than_memory_goes_to_the_disk_and_late_ones_read_along() {
    let mut play = Play::begin();
    let all = body(6_000_000);
    let sent = answer(&all);
    let mut first = play.carrick().connect();
    first.send(get("/a", ""));
    let mut upstream = play.server.accept();
    upstream.read_head();
    upstream.send(&sent[..3_000_000]);
    let mut late = play.carrick().connect();
    // The head arrives with the first bytes of the body.
    play.carrick()
        .wait_until_metric("carrick_cache_fills", &[], 1.0);
    late.send(get("/a", "Range: bytes=5000000-5000009\r\n"));
    let mut other = play.carrick().connect();
    other.send(get("/a", ""));
    play.server.expect_no_connection();
    upstream.send(&sent[3_000_000..]);
    assert_eq!(hash(&first.read_response("GET").body), hash(&all));
    assert_eq!(hash(&other.read_response("GET").body), hash(&all));
    assert_eq!(late.read_response("GET").body, all[5_000_000..5_000_010]);
    play.wait_for("writes_total", 1.0);
    assert!(play.carrick().status()["cache"]["bytes"].as_u64().unwrap() < 1 << 20);
    play.again(true);
    assert_eq!(hash(&play.find("/a", "").body), hash(&all));
    assert_eq!(play.find("/a", "Range: bytes=0-4\r\n").body, all[..5]);
}

#[test]
fn a_long_body_in_chunks_goes_there_too() {
    let mut play = Play::begin();
    let all = body(2_000_000);
    let mut sent = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n{FRESH}\r\n"
    )
    .into_bytes();
    for piece in all.chunks(70_000) {
        sent.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        sent.extend_from_slice(piece);
        sent.extend_from_slice(b"\r\n");
    }
    sent.extend_from_slice(b"0\r\n\r\n");
    let first = play.fetch("/a", sent);
    assert_eq!(hash(&first.body), hash(&all));
    play.wait_for("writes_total", 1.0);
    assert_eq!(hash(&play.find("/a", "").body), hash(&all));
    play.again(true);
    assert_eq!(hash(&play.find("/a", "").body), hash(&all));
}

#[test]
fn purges_last() {
    let mut play = Play::begin();
    for name in ["/a", "/b", "/c"] {
        play.keep(name, &body(100));
    }
    // Also for what is not in memory.
    play.again(true);
    assert_eq!(play.purge(&["--url", "http://a.example/a"]), "purged: 1\n");
    play.again(true);
    play.fetch("/a", ok("Cache-Control: no-store\r\n", "new"));
    play.find("/b", "");
    assert_eq!(play.purge(&["--tag", "tag", "--outdate"]), "outdated: 2\n");
    play.again(true);
    for name in ["/b", "/c"] {
        let mut client = play.carrick().connect();
        client.send(get(name, ""));
        let mut upstream = play.server.accept();
        let asked = upstream.read_head().to_ascii_lowercase();
        assert!(asked.contains("if-none-match: \"e\""), "{asked}");
        upstream.send(format!(
            "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n{FRESH}\r\n"
        ));
        upstream.half_close();
        assert_eq!(client.read_response("GET").body, body(100));
    }
    assert_eq!(play.purge(&["--all"]), "purged: 2\n");
    assert_eq!(play.files().len(), 0);
}

#[test]
fn a_slow_reader_gets_all_of_a_file_that_was_removed() {
    let mut play = Play::begin();
    let all = body(4_000_000);
    play.fetch("/a", answer(&all));
    play.wait_for("writes_total", 1.0);
    play.again(true);
    let mut client = Peer::connect_with_buffers(play.carrick().listener(), 4096);
    client.send(get("/a", ""));
    let head = client.read_head();
    assert!(head.contains("200 OK"), "{head}");
    assert_eq!(play.purge(&["--all"]), "purged: 1\n");
    assert_eq!(play.files().len(), 0);
    assert_eq!(hash(&client.read_exact(all.len())), hash(&all));
}

#[test]
fn a_file_that_becomes_shorter_is_not_passed_for_whole() {
    let mut play = Play::begin();
    let all = body(4_000_000);
    play.fetch("/a", answer(&all));
    play.wait_for("writes_total", 1.0);
    play.again(true);
    let mut client = Peer::connect_with_buffers(play.carrick().listener(), 4096);
    client.send(get("/a", ""));
    client.read_head();
    let file = OpenOptions::new()
        .write(true)
        .open(&play.files()[0])
        .expect("the file");
    file.set_len(3_500_000).expect("truncated");
    let Ending::Reset(got) = client.read_ending() else {
        panic!("it looks complete");
    };
    assert!(
        got.len() < all.len() && all.starts_with(&got),
        "{}",
        got.len()
    );
    // The next client gets it from the server.
    let new = play.fetch("/a", answer(&all));
    assert_eq!(hash(&new.body), hash(&all));
}

#[test]
fn damage_is_found_before_the_first_byte() {
    let mut play = Play::begin();
    play.keep("/a", &body(100));
    play.keep("/b", &body(120_000));
    let mut carrick = play.carrick.take().expect("it runs");
    carrick.signal(Signal::KILL);
    carrick.wait();
    for file in play.files() {
        let mut bytes = std::fs::read(&file).expect("the file");
        *bytes.last_mut().expect("it has some") ^= 1;
        std::fs::write(&file, bytes).expect("it is written");
    }
    play.carrick = Some(Carrick::start(&play.place, &play.text));
    play.wait_for("indexed", 1.0);
    for name in ["/a", "/b"] {
        assert_eq!(play.fetch(name, ok(FRESH, "right")).text(), "right");
    }
    assert_eq!(
        play.carrick()
            .metric("carrick_cache_disk_errors_total", &["kind=\"damaged\""]),
        2.0
    );
}

#[test]
fn an_unusable_directory_is_reported() {
    let play = Play::begin();
    let place = Place::claim();
    let says = |disk: &Path| {
        let server = place.at(9);
        let text = switch_text(&[server]).replace(
            "upstream = \"u\"\n[upstream",
            "upstream = \"u\"\ncache = true\n[upstream",
        );
        let text = format!("[cache]\ndisk = {{ path = {disk:?}, size = \"64 MB\" }}\n{text}");
        let ended = Carrick::try_start(&place, &text).expect_err("it does not start");
        assert!(!ended.status.success());
        ended.standard_error
    };
    let in_use = says(&path(&play.place));
    assert!(in_use.contains("another carrick uses"), "{in_use}");
    let file = place.directory().join("file");
    std::fs::write(&file, "").expect("a file");
    let no_folder = says(&file);
    assert!(no_folder.contains("is not a directory"), "{no_folder}");
}

/// A 20 MB file system of its own, in a mount namespace that ends with carrick.
fn small_file_system() -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        "mkdir -p disk && mount -t tmpfs -o size=20m tmpfs disk && exec \"$0\" \"$@\"",
        PROGRAM,
    ]);
    command
}

#[test]
fn a_small_file_system_is_filled_up_to_its_reserve_and_what_is_old_makes_room() {
    let play = Play::begin_by(small_file_system());
    play.carrick()
        .standard_error()
        .wait_for("has 20 MB, of which 1 MB stay free: at most 19 MB can be used")
        .expect("that `size` does not fit is told");
    for number in 0..300 {
        let (name, all) = (format!("/{number}"), body(100_000 + number));
        assert_eq!(hash(&play.fetch(&name, answer(&all)).body), hash(&all));
        assert_eq!(hash(&play.find(&name, "").body), hash(&all));
        // As slowly as the disk accepts it, so that no object is dropped.
        play.wait_for("writes_total", (number + 1) as f64);
    }
    let disk = play.carrick().status()["cache"]["disk"].clone();
    assert!(disk["fault"].is_null(), "{disk}");
    let bytes = disk["bytes"].as_u64().unwrap();
    assert!((16_000_000..19 << 20).contains(&bytes), "{disk}");
}

/// Fills the disk, as another program; the file that has to be removed again.
fn filler(play: &Play) -> (String, std::fs::File) {
    let pid = play.carrick().pid().as_raw_nonzero();
    let disk = path(&play.place);
    let filler = format!("/proc/{pid}/root{}/filler", disk.display());
    let file = std::fs::File::create(&filler).expect("as root");
    (filler, file)
}

/// carrick learns of it when it has begun to store the response.
#[test]
fn a_disk_that_is_found_full_fails_no_request() {
    // More than may wait for the disk, and less.
    for bytes in [3_000_000, 300_000] {
        let play = Play::begin_by(small_file_system());
        let (_, mut file) = filler(&play);
        while std::io::Write::write_all(&mut file, &[1; 10_000]).is_ok() {}
        let all = body(bytes);
        let Play {
            server,
            carrick,
            place,
            ..
        } = play;
        let sent = answer(&all);
        let (go, waits) = mpsc::channel();
        let waits = Mutex::new(waits);
        let serving = server.serve(move |mut peer, number| {
            if number > 0 {
                return answer_requests(peer, |_| sent.clone());
            }
            peer.read_head();
            let (head, body) = sent.split_at(sent.len() - bytes);
            peer.send(head);
            waits.lock().unwrap().recv().unwrap();
            let _ = peer.try_send(body);
        });
        let carrick = carrick.expect("it runs");
        let ask = || carrick.connect().ask(&get("/long", ""));
        let is_right = |response: Response| {
            assert_eq!((response.status, hash(&response.body)), (200, hash(&all)));
        };
        std::thread::scope(|scope| {
            // The second one finds what the first one has begun to store.
            let first = scope.spawn(ask);
            carrick.wait_for_metric("carrick_cache_objects", &[], 1.0);
            let second = scope.spawn(ask);
            carrick.wait_for_metric("carrick_cache_find_seconds_count", &[], 2.0);
            go.send(()).unwrap();
            is_right(first.join().unwrap());
            is_right(second.join().unwrap());
        });
        is_right(ask());
        drop((carrick, serving, place));
    }
}

#[test]
fn a_full_disk_is_reported_and_fails_no_request() {
    let play = Play::begin_by(small_file_system());
    let fetch_twice = |number: usize| {
        let (name, all) = (format!("/{number}"), body(100_000 + number));
        assert_eq!(hash(&play.fetch(&name, answer(&all)).body), hash(&all));
        assert_eq!(hash(&play.find(&name, "").body), hash(&all));
        if number % 4 == 3 {
            play.wait_until_written();
        }
    };
    for number in 0..60 {
        fetch_twice(number);
    }
    let (filler, mut file) = filler(&play);
    let mut number = 60;
    let disk = wait_for("the fault", || {
        // Including the room that evicted objects free.
        while std::io::Write::write_all(&mut file, &[1; 10_000]).is_ok() {}
        fetch_twice(number);
        number += 1;
        let disk = play.carrick().status()["cache"]["disk"].clone();
        let fault = disk["fault"].as_str().unwrap_or_default();
        // By the room that is left, or by a write that had begun when it was taken.
        let words = ["the file system is full", "No space left on device"];
        words
            .iter()
            .any(|words| fault.contains(words))
            .then_some(disk)
    });
    assert!(disk["writes"].as_u64().unwrap() > 5, "{disk}");
    // Too long for memory, and the disk has no room: it is relayed without being stored.
    let all = body(3_000_000);
    assert_eq!(hash(&play.fetch("/long", answer(&all)).body), hash(&all));
    play.carrick()
        .standard_error()
        .wait_for("make room on the file system")
        .expect("a message");
    // Writing resumes when there is room.
    std::fs::remove_file(&filler).expect("it exists");
    drop(file);
    wait_until("room", || {
        fetch_twice(number);
        number += 1;
        play.carrick().status()["cache"]["disk"]["fault"].is_null()
    });
}
