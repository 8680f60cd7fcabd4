//! The WAN emulator between real namespaces: needs root; what arrives is compared with what was asked and counted.
#![expect(
    clippy::unwrap_used,
    reason = "in a test, a panic is the report of the failure"
)]

#[path = "wan/bed.rs"]
mod bed;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

use bed::{Arrival, Bed, Emulator, Place};

use super::{LAB, can_run};

const FROM_CLIENT: &str = "from = \"10.79.1.0/24\"";

/// `hits` of `trials` with probability `p` are within five standard deviations.
#[track_caller]
fn assert_binomial(hits: u64, trials: u64, p: f64) {
    let deviation = (trials as f64 * p * (1.0 - p)).sqrt();
    let expected = trials as f64 * p;
    assert!(
        (hits as f64 - expected).abs() <= 5.0 * deviation,
        "{hits} of {trials}, expected {expected:.0} within 5 x {deviation:.1}"
    );
}

#[test]
fn packets_take_the_delay_and_the_first_ones_are_not_lost() {
    skip_unless!();
    let bed = Bed::new();
    let wan = bed.emulate(
        "[[rule]]\nfrom = \"10.79.1.0/24\"\ndelay_ms = 30\n[[rule]]\nfrom = \"fd79:1::/64\"\ndelay_ms = 60\n",
    );
    for (place, delay_ms) in [(Place::ServerIpv4, 30), (Place::ServerIpv6, 60)] {
        let sent = bed.send_udp(&wan, place, 50, 40, Duration::from_millis(2));
        assert_eq!(sent.arrivals.len(), 50, "{place:?}");
        let delay = Duration::from_millis(delay_ms);
        assert!(sent.delays().all(|took| took >= delay), "nothing is early");
        assert!(sent.is_in_order());
    }
    // The way back has no rule.
    let back = bed.send_udp(&wan, Place::ClientIpv4, 50, 40, Duration::from_millis(2));
    assert_eq!(back.arrivals.len(), 50);
    let counts = wan.stop();
    assert_eq!((counts.rules[0].packets, counts.rules[1].packets), (50, 50));
    // 28 bytes of headers, and 48.
    assert_eq!(
        (counts.rules[0].bytes, counts.rules[1].bytes),
        (50 * 68, 50 * 88)
    );
    assert_eq!((counts.refused, counts.overruns, counts.joined), (0, 0, 0));
    assert!(counts.unmatched >= 50);
}

#[test]
fn the_receiver_misses_what_was_lost_and_a_seed_repeats_it() {
    skip_unless!();
    let bed = Bed::new();
    const PACKETS: u64 = 20_000;
    let mut runs = Vec::new();
    for seed in [5, 5, 6] {
        let wan = bed.emulate(&format!(
            "seed = {seed}\n[[rule]]\n{FROM_CLIENT}\nloss = 0.02\nloss_after_loss = 0.4\n"
        ));
        let sent = bed.send_udp(
            &wan,
            Place::ServerIpv4,
            PACKETS,
            64,
            Duration::from_micros(20),
        );
        let counts = wan.stop();
        assert_eq!(counts.overruns, 0);
        let rule = counts.rules[0];
        assert_eq!(rule.packets, PACKETS);

        let mut arrived = vec![false; PACKETS as usize];
        for Arrival { number, .. } in &sent.arrivals {
            arrived[*number as usize] = true;
        }
        let (mut first, mut next) = (0, 0);
        for (index, is_here) in arrived.iter().enumerate() {
            if !is_here && index > 0 && !arrived[index - 1] {
                next += 1;
            } else if !is_here {
                first += 1;
            }
        }
        assert_eq!((rule.lost_first, rule.lost_next), (first, next));
        let lost = first + next;
        assert_binomial(first, PACKETS - lost, 0.02);
        assert_binomial(next, lost, 0.4);
        runs.push(arrived);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[test]
fn the_rate_is_not_exceeded_and_a_full_queue_drops() {
    skip_unless!();
    let bed = Bed::new();
    const PACKET_BYTES: u64 = 1_028;
    for (queue, is_long) in [(400, true), (20, false)] {
        let wan = bed.emulate(&format!(
            "[[rule]]\n{FROM_CLIENT}\nrate_kbit = 2000\nqueue_packets = {queue}\n"
        ));
        let sent = bed.send_udp(&wan, Place::ServerIpv4, 300, 1_000, Duration::ZERO);
        let rule = wan.stop().rules[0];
        let arrived = sent.arrivals.len() as u64;
        assert_eq!(arrived + rule.dropped, 300);
        if is_long {
            assert_eq!(rule.dropped, 0);
        } else {
            // The line takes 4 ms for each, and keeps 21. A sender that is interrupted gets more through.
            assert!(arrived >= 21 && rule.dropped > 0, "{arrived}");
        }
        let least = Duration::from_nanos(arrived * PACKET_BYTES * 8 * 1_000_000 / 2_000);
        let took = sent.arrivals.last().unwrap().at - sent.left[0];
        assert!(
            took >= least,
            "{arrived} packets in {took:?}, not before {least:?}"
        );
        assert!(sent.is_in_order());
    }
}

#[test]
fn each_port_has_a_rate_of_its_own() {
    skip_unless!();
    let bed = Bed::new();
    let wan = bed.emulate(
        "[[rule]]\nto_ports = [9000, 9099]\nfor_each_port = true\nrate_kbit = 8\nqueue_packets = 0\n",
    );
    // The first of two packets passes at each port, since the other ports' lines are others. It takes a second, and the
    // second packet is dropped, unless the sender is interrupted for that long.
    bed.send_to_ports(9_000, 50, 972);
    let rule = wan.wait_for_packets(100).rules[0];
    assert_eq!(rule.packets, 100);
    assert!((1..=50).contains(&rule.dropped), "{}", rule.dropped);
}

#[test]
fn the_receiver_sees_copies_and_who_overtook() {
    skip_unless!();
    let bed = Bed::new();
    let wan = bed.emulate(&format!(
        "[[rule]]\n{FROM_CLIENT}\ndelay_ms = 20\nduplicate = 0.1\n[[rule]]\nfrom = \"fd79:1::/64\"\ndelay_ms = 20\nreorder = 0.05\n"
    ));
    let pace = Duration::from_micros(50);
    let doubled = bed.send_udp(&wan, Place::ServerIpv4, 5_000, 64, pace);
    let mixed = bed.send_udp(&wan, Place::ServerIpv6, 5_000, 64, pace);
    let counts = wan.stop();

    let copies = doubled.arrivals.len() as u64 - 5_000;
    assert_eq!(counts.rules[0].duplicated, copies);
    assert_binomial(copies, 5_000, 0.1);
    assert!(doubled.is_in_order());

    // Who overtook has somebody behind that was sent before.
    let mut least_behind = u64::MAX;
    let mut overtook = 0;
    for arrival in mixed.arrivals.iter().rev() {
        overtook += u64::from(arrival.number > least_behind);
        least_behind = least_behind.min(arrival.number);
    }
    assert_eq!(mixed.arrivals.len(), 5_000);
    assert_eq!(counts.rules[1].reordered, overtook);
    assert_binomial(overtook, 5_000, 0.05);
}

/// Sends `bytes` from the server to the client by TCP; says whether they arrived as they were sent.
fn carries_tcp(bed: &Bed, bytes: usize) -> bool {
    let content: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
    // Whoever waits for longer waits for a retransmission, in the test of ACKs that are filtered.
    let patience = Some(Duration::from_secs(50));
    let listener = bed.inside(&bed.server, || carrick_test::listen("10.79.2.2:0"));
    let address = listener.local_addr().unwrap();
    let connected = bed.inside(&bed.client, || TcpStream::connect(address));
    let Ok(mut stream) = connected else {
        return false;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4];
            stream.set_write_timeout(patience).unwrap();
            stream.set_read_timeout(patience).unwrap();
            // The client says what is missing.
            if stream.read_exact(&mut request).is_ok()
                && stream.write_all(&content).is_ok()
                && stream.shutdown(Shutdown::Write).is_ok()
            {
                let _ = stream.read(&mut request);
            }
        });
        let mut arrived = Vec::new();
        stream.set_read_timeout(patience).unwrap();
        stream.write_all(b"send").unwrap();
        let is_intact = stream.read_to_end(&mut arrived).is_ok() && arrived == content;
        // The server waits for it; an end that was lost comes again.
        let _ = stream.shutdown(Shutdown::Both);
        is_intact
    })
}

#[test]
fn tcp_arrives_intact_with_offloads_and_without_with_loss() {
    skip_unless!("ethtool");
    let bed = Bed::new();
    // As veth is by default: packets of 64 KB with checksums that nobody has computed.
    let wan = bed.emulate("[[rule]]\nto = \"10.79.1.0/24\"\ndelay_ms = 1\n");
    assert!(carries_tcp(&bed, 20_000_000));
    let counts = wan.stop();
    let packets = counts.rules[0].packets;
    assert!(packets < 10_000, "{packets} packets: were they joined?");
    assert!(counts.rules[0].bytes > 20_000_000);
    assert_eq!((counts.refused, counts.joined), (0, 0));

    let lossy = format!(
        "[[rule]]\nfrom = \"10.79.2.0/24\"\ndelay_ms = 2\nloss = 0.01\nloss_after_loss = 0.4\nreorder = 0.01\nduplicate = 0.01\n[[rule]]\n{FROM_CLIENT}\nloss = 0.01\n"
    );
    bed.offloads_off();
    let wan = bed.emulate(&lossy);
    assert!(carries_tcp(&bed, 2_000_000));
    let counts = wan.stop();
    assert_eq!((counts.refused, counts.joined), (0, 0));
    assert!(counts.rules[0].packets > 1_300, "one for each segment");
    assert!(counts.rules[0].lost_first > 0 && counts.rules[0].duplicated > 0);
}

#[test]
fn an_ack_filter_thins_acks_out_and_nobody_waits_for_the_last_one() {
    skip_unless!("ethtool");
    let bed = Bed::new();
    bed.offloads_off();
    // Who misses an ACK waits for longer than this test.
    bed.set(&bed.server, "net/ipv4/tcp_early_retrans", "0");
    bed.ip(&[
        "-n",
        &bed.server,
        "route",
        "replace",
        "default",
        "via",
        "10.79.2.1",
        "rto_min",
        "60s",
    ]);
    for filter in ["", "ack_filter = 4\nack_hold_ms = 50\n"] {
        let wan = bed.emulate(&format!(
            "[[rule]]\n{FROM_CLIENT}\ndelay_ms = 5\n{filter}[[rule]]\nto = \"10.79.1.0/24\"\ndelay_ms = 5\n"
        ));
        assert!(carries_tcp(&bed, 1_000_000));
        // The second byte is sent when the first one is acknowledged (RFC 1122, section 4.2.3.4), by an ACK that no other follows.
        let listener = bed.inside(&bed.server, || carrick_test::listen("10.79.2.2:0"));
        let address = listener.local_addr().unwrap();
        let mut client = bed.inside(&bed.client, || TcpStream::connect(address).unwrap());
        let (mut server, _) = listener.accept().unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(50)))
            .unwrap();
        for byte in b"abc" {
            server.write_all(&[*byte]).unwrap();
        }
        let mut arrived = [0; 3];
        client.read_exact(&mut arrived).unwrap();
        assert_eq!(&arrived, b"abc");
        assert_eq!(wan.stop().rules[0].filtered > 0, !filter.is_empty());
    }
}

#[test]
fn signals_ask_for_counts_and_another_specification() {
    skip_unless!();
    let bed = Bed::new();
    let delayed = format!("[[rule]]\n{FROM_CLIENT}\ndelay_ms = 40\n");
    let mut wan = bed.emulate(&delayed);
    let least_ms = |wan: &Emulator| {
        let sent = bed.send_udp(wan, Place::ServerIpv4, 20, 40, Duration::from_millis(1));
        sent.delays().min().unwrap().as_millis()
    };
    assert!(least_ms(&wan) >= 40);
    assert_eq!(wan.counts_now().rules[0].packets, 20);
    assert_eq!(wan.counts_now().rules[0].packets, 20, "it goes on counting");

    wan.replace("[[rule]]\nloss = 7\n");
    wan.wait_for("keeps the old specification");
    assert!(least_ms(&wan) >= 40);
    assert_eq!(wan.counts_now().rules[0].packets, 40);

    wan.replace(&format!("[[rule]]\n{FROM_CLIENT}\ndelay_ms = 90\n"));
    wan.wait_for("follows");
    // It answers after it has followed.
    assert_eq!(wan.counts_now().rules[0].packets, 0);
    assert!(least_ms(&wan) >= 90);
    let counts = wan.stop();
    assert_eq!(counts.rules[0].packets, 20, "counts begin anew");
}

#[test]
fn what_cannot_be_emulated_is_refused_with_the_reason() {
    skip_unless!();
    let bed = Bed::new();
    let config = bed.write("refused.toml", "[[rule]]\ndelay_ms = 5\n");
    let config = config.to_str().unwrap();
    let refusal = |arguments: &[&str]| {
        let output = Command::new("ip")
            .args(["netns", "exec", &bed.router, LAB, "wan", "--config", config])
            .args(arguments)
            .output()
            .unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refusal(&["--device", "eth7"]);
    assert!(
        said.contains("no device eth7") && said.contains("r0, r1"),
        "{said}"
    );
    let said = refusal(&["--device", "lo"]);
    assert!(said.contains("lo has no Ethernet address"), "{said}");
    bed.ip(&["-n", &bed.router, "link", "set", "r1", "down"]);
    let said = refusal(&["--device", "r1"]);
    assert!(said.contains("ip link set r1 up"), "{said}");
    for path in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
        bed.set(&bed.router, path, "1");
        let said = refusal(&[]);
        assert!(said.contains(path) && said.contains("twice"), "{said}");
        bed.set(&bed.router, path, "0");
    }
}

#[test]
fn a_specification_is_checked_without_root_or_devices() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wan.toml");
    for (text, is_right, part) in [
        ("[[rule]]\nloss = 0.5\n", true, "rules: 1"),
        ("[[rule]]\nloss = 5\n", false, "rule 1: loss = 5"),
    ] {
        std::fs::write(&path, text).unwrap();
        let output = Command::new(LAB)
            .args(["wan", "--check", "--config"])
            .arg(&path)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.success(), is_right, "{said}");
        assert!(said.contains(part), "{said}");
    }
}
