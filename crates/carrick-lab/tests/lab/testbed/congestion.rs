//! The laboratory's own congestion controls in a test bed: they are at work, and gone when their process is.

use carrick_lab::testbed::congestion::{NAMES, kernel_name};

use super::*;

fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

/// The congestion window in what `ss` says, in segments.
fn window(said: &str) -> u64 {
    let word = said.split(' ').find_map(|word| word.strip_prefix("cwnd:"));
    word.unwrap().parse().unwrap()
}

/// Sends from the server to the client; the server's window behind it, and ACKs that came. `None`: a time-out made it small, as where a
/// receiver loses its processor for long.
fn window_and_acks(name: &str) -> Option<(u64, u64)> {
    let bed = build(Layout::Direct, |plan| {
        plan.server.congestion = Some(name.to_owned());
    });
    assert_eq!(bed.without_congestion(), None);
    let addresses = bed.addresses();
    let before = TcpCounters::read(&bed.server).unwrap();
    let (mut near, mut far) = connect(&bed.client, &bed.server, addresses.origin_http());
    let said = details(&bed.server);
    let own = kernel_name(name);
    assert!(said.split(' ').any(|word| word == own), "{said}");
    assert!(!details(&bed.client).contains(&own), "only the server's");
    transfer(far.try_clone().unwrap(), near.try_clone().unwrap());
    // A byte back and forth: all ACKs have come.
    near.write_all(b"x").unwrap();
    far.read_exact(&mut [0]).unwrap();
    let counters = TcpCounters::read(&bed.server).unwrap().since(&before);
    let found = (window(&details(&bed.server)), counters.acks_in());
    (counters.timeouts == 0).then_some(found)
}

#[test]
fn an_ack_adds_one_segment_to_the_window_or_two() {
    skip_unless!();
    const FIRST_WINDOW: u64 = 10;
    for (name, segments) in NAMES.into_iter().zip([1, 2]) {
        let (window, acks) = carrick_test::wait_for("no time-out", || window_and_acks(name));
        assert!(
            (FIRST_WINDOW + 1..=FIRST_WINDOW + segments * acks).contains(&window),
            "{name}: {window} segments behind {acks} ACKs"
        );
    }
}

#[test]
fn they_are_gone_with_their_process_also_when_it_is_killed() {
    skip_unless!();
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("plan.toml");
    fs::write(&plan, "server = { congestion = \"rfc2581\" }\n").unwrap();
    let mut child = Command::new(LAB)
        .args(["testbed", "--plan", plan.to_str().unwrap()])
        .args(["--", "sh", "-c", "echo ready; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut ready)
        .unwrap();
    let own = format!("rfc2581_{:07}", child.id());
    assert!(available().contains(&own));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("its end", || !available().contains(&own));
    // The next one removes what was left: the namespaces.
    drop(build(Layout::Direct, |_| {}));
    assert_eq!(left_behind(child.id()), Vec::<PathBuf>::new());
}
