//! The adaptive splitter: what it measures of a long link and of a short one, how it reports that, and the control group.
use super::*;
use crate::support::carrick::PROGRAM;
use crate::transparent::bed::{inside, lines};
use carrick_lab::testbed::name::RunName;
use carrick_lab::testbed::namespace::Namespace;
use carrick_logic::split::{Purpose, is_chosen};
use carrick_test::Killed;
use serde_json::Value;
use std::net::Shutdown;
use std::process::Stdio;
use std::time::Duration;

/// A second client, 10.3.0.2, behind a long line to the router's eth3.
struct Far {
    client: Namespace,
    line: Namespace,
    emulator: Option<Killed>,
}

impl Far {
    /// With this one-way delay.
    fn build(bed: &Bed, delay_ms: u32) -> Self {
        let run = RunName::of_this_process().expect("a name");
        let mut far = Self {
            client: Namespace::named(&run, "far"),
            line: Namespace::named(&run, "line"),
            emulator: None,
        };
        far.client.create().expect("a namespace");
        far.line.create().expect("a namespace");
        far.client.join("eth0", &far.line, "near").expect("a link");
        bed.router.join("eth3", &far.line, "far").expect("a link");
        lines(
            &far.client,
            &[
                "address add 10.3.0.2/24 dev eth0",
                "link set eth0 up",
                "route add default via 10.3.0.1",
            ],
        );
        lines(
            &bed.router,
            &[
                "address add 10.4.0.1/24 dev eth3",
                "link set eth3 up",
                // A large initial window, as a profile would set it.
                "route add 10.3.0.0/24 via 10.4.0.2 initcwnd 45",
            ],
        );
        lines(
            &far.line,
            &[
                "address add 10.3.0.1/24 dev near",
                "address add 10.4.0.2/24 dev far",
                "link set near up",
                "link set far up",
                "route add default via 10.4.0.1",
            ],
        );
        let rule =
            |way: &str| format!("[[rule]]\n{way} = \"10.3.0.0/24\"\ndelay_ms = {delay_ms}\n");
        let file = bed.write("line.toml", &(rule("from") + &rule("to")));
        let file = file.display().to_string();
        let mut command = inside(&far.line, &[PROGRAM, "lab", "wan", "--config", &file]);
        let mut emulator = command.stdout(Stdio::piped()).spawn().expect("a line");
        let mut ready = [0; 5];
        let output = emulator.stdout.as_mut().expect("a pipe");
        output.read_exact(&mut ready).expect("the line is ready");
        assert_eq!(&ready, b"ready");
        far.emulator = Some(Killed(emulator));
        far
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.emulator = None;
        self.client.remove();
        self.line.remove();
    }
}

/// Answers each number, in eight digits, with this many bytes, until the client closes.
fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut number = [0; 8];
                while stream.read_exact(&mut number).is_ok() {
                    let text = std::str::from_utf8(&number).expect("digits");
                    let bytes = vec![b'x'; text.parse().expect("a number")];
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Requests between pauses: a connection is joined while idle, and on a busy machine the next request often comes too early.
const REST_AFTER: usize = 5;
const REST: Duration = Duration::from_millis(20);

/// A connection that requests objects one after another, with pauses; returns its source address.
fn fetch(client: &Namespace, server: &str, objects: usize, bytes: usize) -> SocketAddr {
    let address: SocketAddr = server.parse().expect("an address");
    let connect = || Ok(TcpStream::connect_timeout(&address, PATIENCE)?);
    let mut stream = client.inside(connect).expect("a connection");
    stream.set_nodelay(true).expect("an option");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    for number in 1..=objects {
        stream
            .write_all(format!("{bytes:08}").as_bytes())
            .expect("a request");
        let mut body = vec![0; bytes];
        stream.read_exact(&mut body).expect("an answer");
        assert!(body.iter().all(|byte| *byte == b'x'));
        if number.is_multiple_of(REST_AFTER) {
            std::thread::sleep(REST);
        }
    }
    let own = stream.local_addr().expect("an address");
    stream.shutdown(Shutdown::Write).expect("the end");
    let _ = stream.read(&mut [0]);
    own
}

/// A connection whose only request carries the FIN: it is never idle, so it cannot be joined.
fn fetch_and_end(client: &Namespace, server: &str, bytes: usize) {
    let address: SocketAddr = server.parse().expect("an address");
    let connect = || Ok(TcpStream::connect_timeout(&address, PATIENCE)?);
    let mut stream = client.inside(connect).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    SockRef::from(&stream)
        .set_tcp_cork(true)
        .expect("an option");
    stream
        .write_all(format!("{bytes:08}").as_bytes())
        .expect("a request");
    stream.shutdown(Shutdown::Write).expect("the end");
    let mut body = Vec::new();
    stream.read_to_end(&mut body).expect("an answer");
    assert_eq!(body.len(), bytes);
}

fn page(bed: &Bed, path: &str) -> Value {
    let url = format!("http://127.0.0.1:3129{path}");
    let text = bed.router.run("curl", &["-sS", &url]).expect("a page");
    serde_json::from_str(&text).expect("JSON")
}

/// Number of connections on a page of pairs.
fn connections(page: &Value) -> u64 {
    let pairs = page["pairs"].as_array().expect("a list");
    (pairs.iter())
        .map(|pair| pair["connections"].as_u64().expect("a number"))
        .sum()
}

/// Waits until this number of connections has been recorded.
fn learned(bed: &Bed, count: u64) -> Value {
    wait_for("recorded connections", || {
        Some(page(bed, "/paths")).filter(|page| connections(page) >= count)
    })
}

fn pair_of(page: &Value, client: &str) -> Value {
    let pairs = page["pairs"].as_array().expect("a list");
    let pair = pairs.iter().find(|pair| pair["client"] == client);
    pair.unwrap_or_else(|| panic!("{page}")).clone()
}

const ADAPTIVE: &str = "[[listener]]
listen = \"[::]:3130\"
mode = \"split\"
handshake = \"at-once\"
split = \"adaptive\"
intercept = { ports = [9000], interfaces = [\"eth1\", \"eth3\"] }
control_group = 0
";

/// Twenty connections over a long link and twenty over a short one. `None` if carrick excluded a pair meanwhile: that
/// is correct on a machine so busy that connections end before they are joined, and makes the numbers meaningless.
fn taught(bed: &Bed, far: &Far, carrick: &Running) -> Option<Value> {
    for _ in 0..20 {
        fetch(&far.client, "10.2.0.2:9000", 2, 50_000);
        // So long that most of it is forwarded as packets.
        fetch(&bed.client, "10.2.0.2:9000", 30, 5_000);
    }
    let left_out = || carrick.metric(bed, LEFT_OUT) > 0.0;
    wait_for("recorded connections", || {
        let page = page(bed, "/paths");
        if left_out() {
            eprintln!("a pair was excluded: {page}");
            return Some(None);
        }
        (connections(&page) >= 40).then_some(Some(page))
    })
}

#[test]
fn a_long_link_is_split_a_short_one_is_joined_and_both_are_shown() {
    const TIMES: usize = 5;
    for time in 1..=TIMES {
        let Some(bed) = Bed::build() else { return };
        let far = Far::build(&bed, 30);
        serve(listen(&bed, "10.2.0.2:9000"));
        let carrick = bed.carrick(ADAPTIVE);
        // The message before the first result.
        let (code, text) = bed.command(&["status", "paths", "--admin", "127.0.0.1:3129"]);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("No splitter has seen"), "{text}");
        if let Some(shown) = taught(&bed, &far, &carrick) {
            // What a busy machine measures is its own delay, not the links'.
            if is_as_the_links_are(&shown) {
                return expect_both(&bed, carrick, &shown);
            }
            eprintln!("not as the links are: {shown}");
        }
        assert!(time < TIMES, "nothing was learned in {TIMES} tries");
    }
}

/// Whether the long link is split with a gain, and the short one joined.
fn is_as_the_links_are(shown: &Value) -> bool {
    let (long, short) = (pair_of(shown, "10.3.0.0/24"), pair_of(shown, "10.1.0.0/24"));
    long["decision"] == "split"
        && long["server_leg"]["rtt_ms"].as_f64() < Some(20.0)
        && long["gos_believed"].as_f64() > Some(0.2)
        && short["decision"] == "join"
        && short["joined"].as_u64() > Some(5)
}

/// Checks the report after [`taught`].
fn expect_both(bed: &Bed, carrick: Running, shown: &Value) {
    let long = pair_of(shown, "10.3.0.0/24");
    assert!(
        long["client_leg"]["rtt_min_ms"].as_f64() > Some(59.0),
        "{long}"
    );
    let status = page(bed, "/status");
    let split = &status["split"];
    assert_eq!(split["pairs"], 2, "{split}");
    let decisions: u64 = (split["decisions"].as_object().expect("counts").values())
        .map(|count| count.as_u64().expect("a number"))
        .sum();
    assert_eq!(decisions, 40, "{split}");
    let ends = split["connections"].as_object().expect("counts");
    assert_eq!(
        carrick.metric(bed, "carrick_split_connections_total{was=\"joined\"}"),
        ends["joined"].as_f64().expect("a number")
    );

    let (code, text) = bed.command(&["status", "paths", "--admin", "127.0.0.1:3129"]);
    assert_eq!(code, Some(0), "{text}");
    let line = |client: &str| text.lines().find(|line| line.starts_with(client));
    assert!(
        line("10.3.0.0/24").is_some_and(|line| line.contains(" split ")),
        "{text}"
    );
    assert!(
        line("10.1.0.0/24").is_some_and(|line| line.contains(" join ")),
        "{text}"
    );
    let (_, json) = bed.command(&["status", "paths", "--json", "--admin", "127.0.0.1:3129"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["pairs_known"], 2, "{json}");

    // A reload keeps the path history.
    carrick.reload(&ADAPTIVE.replace("= 0", "= 1"), "reloaded");
    assert_eq!(
        pair_of(&page(bed, "/paths"), "10.3.0.0/24")["connections"],
        long["connections"]
    );
    // Another process starts without history.
    carrick.kill();
    wait_until("the supervisor to remove the rules", || {
        bed.supervisors().is_empty()
    });
    let _carrick = bed.carrick(&ADAPTIVE.replace("]:3130", "]:8130"));
    // The bed gives each carrick the next port.
    let (_, json) = bed.command(&["status", "paths", "--json", "--admin", "127.0.0.1:3130"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["pairs_known"], 0, "{json}");
}

#[test]
fn the_control_group_is_chosen_by_addresses() {
    let Some(bed) = Bed::build() else { return };
    serve(listen(&bed, "10.2.0.2:9000"));
    let text = ADAPTIVE
        .replace("\"adaptive\"", "\"always\"")
        .replace("= 0", "= 20")
        .replace(", \"eth3\"", "");
    let _carrick = bed.carrick(&text);
    let server = "10.2.0.2:9000".parse().expect("an address");
    let clients: Vec<SocketAddr> = (0..60)
        .map(|_| fetch(&bed.client, "10.2.0.2:9000", 20, 5_000))
        .collect();
    let is_control = |client: &&SocketAddr| is_chosen(**client, server, Purpose::Control, 0.2);
    let expected = clients.iter().filter(is_control).count() as u64;
    assert!((3..=25).contains(&expected), "{expected}");
    learned(&bed, 60);
    let split = page(&bed, "/status")["split"].clone();
    assert_eq!(split["decisions"]["control"], expected, "{split}");
    assert_eq!(split["decisions"]["configured"], 60 - expected, "{split}");
    // No other connection is joined, and these are.
    let joined = split["connections"]["joined"].as_u64().expect("a number");
    let mixed = split["connections"]["mixed"].as_u64().expect("a number");
    assert!(joined + mixed <= expected, "{split}");
    assert!(joined + mixed > 0, "{split}");
}

const LEFT_OUT: &str = "carrick_split_pairs_left_out_total";

/// Short connections by which a pair is left out, if it may be.
const SHORT_MAX: u64 = 100;

#[test]
fn a_pair_that_ends_before_it_is_joined_passes_by() {
    let Some(bed) = Bed::build() else { return };
    serve(listen(&bed, "10.2.0.2:9000"));
    let text = ADAPTIVE.replace(", \"eth3\"", "");
    let carrick = bed.carrick(&text);
    let left_out = || carrick.metric(&bed, LEFT_OUT);
    let mut count = 0;
    while left_out() == 0.0 {
        fetch_and_end(&bed.client, "10.2.0.2:9000", 5_000);
        count += 1;
        assert!(count < SHORT_MAX, "{}", page(&bed, "/status")["split"]);
    }
    // It is not excluded before it was measured.
    assert!(count > 8, "{count}");
    wait_until("a connection that bypasses carrick", || {
        let before = intercepted(&bed, &carrick);
        fetch_and_end(&bed.client, "10.2.0.2:9000", 5_000);
        intercepted(&bed, &carrick) == before
    });
    let pair = pair_of(&page(&bed, "/paths"), "10.1.0.0/24");
    assert_eq!(pair["decision"], "leave-out", "{pair}");
    // A reload may bring rules that the pair would not meet.
    carrick.reload(&text, "configuration reloaded");
    wait_until("a connection that carrick has again", || {
        let before = intercepted(&bed, &carrick);
        fetch_and_end(&bed.client, "10.2.0.2:9000", 5_000);
        intercepted(&bed, &carrick) > before
    });
}

#[test]
fn a_pair_of_which_a_server_is_denied_does_not_pass_by() {
    let Some(bed) = Bed::build() else { return };
    serve(listen(&bed, "10.2.0.2:9000"));
    let denied = listen(&bed, "10.2.0.3:9000");
    let rules = "deny_to = [\"inner\", \"10.2.0.3\"]\n";
    let carrick = bed.carrick(&(ADAPTIVE.replace(", \"eth3\"", "") + rules));
    for _ in 0..SHORT_MAX {
        fetch_and_end(&bed.client, "10.2.0.2:9000", 5_000);
    }
    assert_eq!(carrick.metric(&bed, LEFT_OUT), 0.0);
    learned(&bed, SHORT_MAX);
    let is_refused = match connect(&bed, "10.2.0.3:9000") {
        Ok(mut client) => is_reset(&mut client),
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(is_refused);
    denied.set_nonblocking(true).expect("an option");
    let nobody = denied.accept().expect_err("nobody came");
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
}
