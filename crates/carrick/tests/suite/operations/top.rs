//! `carrick top`: its report on a busy tunnel, as plain text and on a terminal, and the state of the terminal
//! afterwards.
use crate::support::carrick::{PROGRAM, tunnel_text};
use crate::support::output::Output as Said;
use crate::support::{Carrick, Peer, Place, Server, wait_for, wait_until};
use carrick_test::EndInTime as _;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes sent to the client at a time.
const PIECE: usize = 64 * 1024;

/// A paced tunnel that sends bytes to the client until this is dropped.
struct Busy {
    carrick: Carrick,
    client: String,
    is_over: Arc<AtomicBool>,
    peers: Vec<JoinHandle<()>>,
    _server: Server,
}

impl Busy {
    fn start(place: &Place) -> Self {
        let server = Server::listen(place);
        let text = tunnel_text(&[server.address()])
            + "[pace]\ndefault = \"lines\"\n[pace.classes.lines]\nceiling = \"100 MB/s\"\n";
        let carrick = Carrick::start(place, &text);
        let mut client = carrick.connect_tunnel();
        client.send("begin");
        let mut upstream = server.accept();
        upstream.expect("begin");
        let is_over = Arc::new(AtomicBool::new(false));
        let address = client.local_address().to_string();
        let over = Arc::clone(&is_over);
        // It sends a piece when the previous one was requested: nothing is in flight when it ends.
        let sending = std::thread::spawn(move || {
            while !over.load(Relaxed) {
                upstream.send(vec![7; PIECE]);
                upstream.expect("more");
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let reading = std::thread::spawn(move || read(client));
        Self {
            carrick,
            client: address,
            is_over,
            peers: vec![sending, reading],
            _server: server,
        }
    }

    fn admin(&self) -> String {
        self.carrick.admin().to_string()
    }
}

fn read(client: Peer) {
    let mut stream = client.into_stream();
    let mut piece = vec![0; PIECE];
    // The server's end ends the test.
    while stream.read_exact(&mut piece).is_ok() {
        if stream.write_all(b"more").is_err() {
            return;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for peer in self.peers.drain(..) {
            let ended = peer.join();
            assert!(std::thread::panicking() || ended.is_ok(), "{ended:?}");
        }
    }
}

fn top(arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .arg("top")
        .args(arguments)
        .output()
        .expect("carrick")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("ASCII")
}

/// The words of the line with this prefix.
fn words<'t>(text: &'t str, beginning: &str) -> Vec<&'t str> {
    let line = text.lines().find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("no {beginning}: {text}"));
    line.split_whitespace().collect()
}

/// Parses a displayed number of bytes.
fn bytes(shown: &str) -> f64 {
    let units = ["K", "M", "G"];
    let unit = units.iter().position(|unit| shown.ends_with(unit));
    let number: f64 = shown
        .trim_end_matches(char::is_alphabetic)
        .parse()
        .expect(shown);
    number * unit.map_or(1.0, |unit| 1024_f64.powi(unit as i32 + 1))
}

#[test]
fn a_report_tells_what_a_tunnel_moves() {
    let place = Place::claim();
    let busy = Busy::start(&place);
    // On a busy machine, nothing may move for half a second.
    let text = wait_for("a report of what moves", || {
        let text = said(&top(&["--once", "-i", "0.5", "--admin", &busy.admin()]));
        let moved = [(&busy.client[..], 5), ("all ", 1), ("lines ", 3)];
        let has_moved = moved.map(|(line, word)| bytes(words(&text, line)[word]) > 0.0);
        (has_moved == [true; 3]).then_some(text)
    });
    assert!(text.is_ascii() && !text.contains('\u{1b}'), "{text}");
    let tunnel = words(&text, &busy.client);
    // Client, server, engine, age, up, down, bytes, class, target.
    assert!(["copy", "pipe", "socket"].contains(&tunnel[2]), "{text}");
    let (up, down) = (bytes(tunnel[4]), bytes(tunnel[5]));
    assert!(up < down, "{text}");
    assert!(bytes(tunnel[6]) >= PIECE as f64, "{text}");
    assert_eq!(tunnel[7], "lines", "{text}");
    assert_eq!(words(&text, "lines ")[4], "1", "{text}");
    assert!(
        words(&text, "clients ").starts_with(&["clients", "1", "open,"]),
        "{text}"
    );
    assert_eq!(words(&text, "worker").len(), 9, "{text}");

    // Without a terminal the output is plain text; with a number, that many reports.
    let text = said(&top(&["-n", "2", "-i", "100ms", "--admin", &busy.admin()]));
    assert_eq!(text.matches(" pid ").count(), 2, "{text}");
    assert_eq!(text.matches("\n\n").count(), 1, "{text}");
}

#[test]
fn an_unreachable_admin_is_an_error() {
    let place = Place::claim();
    let output = top(&["--once", "--admin", &format!("{}:1", place.ip())]);
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(why.contains("is carrick running"), "{why}");
    assert!(output.stdout.is_empty());
    assert_eq!(top(&["--interval", "0"]).status.code(), Some(2));
}

#[test]
fn reports_go_on_when_carrick_is_gone_and_say_so() {
    let place = Place::claim();
    let server = Server::listen(&place);
    // Again where carrick's end takes longer than all reports.
    let code = wait_for("a report without carrick", || {
        let carrick = Carrick::tunnel(&place, &[server.address()]);
        let mut child = Command::new(PROGRAM)
            .args([
                "top",
                "-n",
                "20",
                "-i",
                "0.1",
                "--admin",
                &carrick.admin().to_string(),
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("carrick");
        let out = Said::collect(child.stdout.take().expect("a pipe"));
        let error = Said::collect(child.stderr.take().expect("a pipe"));
        out.wait_for(" pid ").expect("a report");
        carrick.stop();
        let code = child.wait_in_time().expect("its end").code();
        out.wait_for_end();
        let said = error.wait_for_end();
        said.contains("cannot ask admin").then_some(code)
    });
    assert_eq!(code, Some(1));
}

/// `carrick top` in a shell on its own terminal, and the terminal's state afterwards.
struct OnTerminal {
    child: Child,
    screen: Said,
    pid_file: std::path::PathBuf,
}

const TAKEN: &str = "\u{1b}[?1049h";
const GIVEN_BACK: &str = "\u{1b}[?1049l";

impl OnTerminal {
    fn start(place: &Place, admin: &str) -> Self {
        let pid_file = place.directory().join("top.pid");
        // script(1) is part of every Debian; it creates the terminal.
        let command = format!(
            "stty rows 24 cols 80; sh -c 'echo $$ > {}; exec {PROGRAM} top -i 0.1 --admin {admin}'; echo CODE $?; stty -a",
            pid_file.display()
        );
        let mut child = Command::new("script")
            .args(["--quiet", "--command", &command, "/dev/null"])
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("script(1)");
        let screen = Said::collect_as_it_comes(child.stdout.take().expect("a pipe"));
        screen.wait_for(TAKEN).expect("a terminal");
        screen.wait_for("tunnels in the kernel").expect("a page");
        Self {
            child,
            screen,
            pid_file,
        }
    }

    fn type_in(&mut self, keys: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(keys.as_bytes()).expect("a key");
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = std::fs::read_to_string(&self.pid_file).expect("its number");
        let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number"));
        rustix::process::kill_process(pid.expect("a process"), signal).expect("it exists");
    }

    /// Waits for its exit, after which the terminal must be as before; returns its exit code.
    fn ended(mut self) -> String {
        self.child.wait().expect("its end");
        let text = self.screen.wait_for_end();
        let (_, after) = text
            .rsplit_once(GIVEN_BACK)
            .unwrap_or_else(|| panic!("{text:?}"));
        assert!(text.contains("\u{1b}[?25h"), "no cursor: {text:?}");
        for mode in ["icanon", "echo", "isig", "opost"] {
            let is_set = after
                .split_whitespace()
                .any(|word| word.trim_end_matches(';') == mode);
            assert!(is_set, "{mode} is not set: {after}");
        }
        let code = after.split_once("CODE ").expect("a code").1;
        code.lines().next().unwrap_or_default().trim().to_owned()
    }
}

#[test]
fn a_key_ends_it_and_the_terminal_is_as_before() {
    let place = Place::claim();
    let busy = Busy::start(&place);
    let mut terminal = OnTerminal::start(&place, &busy.admin());
    terminal.screen.wait_for(&busy.client).expect("the tunnel");
    terminal.type_in("d");
    terminal
        .screen
        .wait_for("sorted by down")
        .expect("another order");
    terminal.type_in("h");
    terminal.screen.wait_for("carrick top: keys").expect("help");
    terminal.type_in(" q");
    assert_eq!(terminal.ended(), "0");
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_as_before() {
    let place = Place::claim();
    let busy = Busy::start(&place);
    let terminal = OnTerminal::start(&place, &busy.admin());
    terminal.signal(rustix::process::Signal::TERM);
    assert_eq!(terminal.ended(), "143");
}

#[test]
fn a_carrick_that_goes_away_and_comes_back_is_shown() {
    let place = Place::claim();
    let server = Server::listen(&place);
    let carrick = Carrick::tunnel(&place, &[server.address()]);
    let mut terminal = OnTerminal::start(&place, &carrick.admin().to_string());
    carrick.stop();
    terminal
        .screen
        .wait_for("carrick does not answer, asking again")
        .expect("a message");
    let again = Carrick::tunnel(&place, &[server.address()]);
    let pid = format!("pid {}", again.pid().as_raw_nonzero());
    wait_until("the new one", || terminal.screen.text().contains(&pid));
    terminal.type_in("q");
    assert_eq!(terminal.ended(), "0");
}
