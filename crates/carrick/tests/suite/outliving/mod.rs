//! Tunnels of the engine `packet` that outlive their carrick, and the carricks that look after them.
mod bed;

use crate::support::carrick::PROGRAM;
use crate::support::{PATIENCE, wait_for};
use bed::{Host, assert_reset, exchange, inside, say, words};
use rustix::process::Signal;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Of one exchange each way: 4 MB.
const PIECES: usize = 256;
const TUNNELS: u64 = 20;

#[test]
fn twenty_tunnels_go_on_when_carrick_is_killed_in_mid_transfer() {
    inside(
        "twenty_tunnels_go_on_when_carrick_is_killed_in_mid_transfer",
        |bed| {
            let listener = bed.listen();
            let first = bed.start(0, "");
            let mut tunnels: Vec<_> = (0..TUNNELS).map(|_| bed.tunnel(&listener)).collect();
            bed.wait_for_kernel(&first, &mut tunnels);
            let words = words(TUNNELS as usize, PIECES);
            let gate = Arc::default();
            let exchanges: Vec<_> = (0..)
                .zip(tunnels)
                .map(|(number, ends)| exchange(ends, number, &words, (PIECES, &gate)))
                .collect();
            std::thread::sleep(Duration::from_millis(500));
            first.kill();
            std::thread::sleep(Duration::from_millis(300));
            assert!(
                exchanges
                    .iter()
                    .all(|exchange| exchange.try_recv().is_err()),
                "they are in the midst of it"
            );
            let second = bed.start(0, "");
            let told = bed.tunnels(&second);
            assert_eq!(told["outliving"]["adopted"], TUNNELS, "{told}");
            assert_eq!(told["outliving"]["not_adopted"], serde_json::json!([]));
            let one = &told["outliving"]["list"][0];
            assert_eq!(one["listener"], "10.80.1.1:8080");
            assert_eq!(one["server"], "10.80.2.2:8000");
            let bytes = |told: &serde_json::Value| {
                let one = &told["outliving"]["list"][0];
                one["client_to_upstream"]["bytes"]
                    .as_u64()
                    .expect("a number")
            };
            let before = bytes(&told);
            assert!(before > 10_000, "{before} bytes before it was adopted");
            gate.store(true, SeqCst);
            bed.wait_until(&second, "more bytes", |told| {
                told["outliving"]["adopted"] != TUNNELS || bytes(told) > before
            });
            // New ones go beside them.
            let mut newer = bed.tunnel(&listener);
            bed.wait_for_kernel(&second, std::slice::from_mut(&mut newer));
            for (number, exchange) in exchanges.iter().enumerate() {
                assert_eq!(exchange.recv(), Ok(true), "tunnel {number}");
            }
            say(&mut newer, 0, b"and on");
            let told = bed.wait_until(&second, "their end", |told| {
                told["outliving"]["closed"] == TUNNELS
            });
            assert_eq!(told["outliving"]["adopted"], 0);
            let metrics = bed.page(&second, "/metrics");
            for line in [
                "carrick_tunnels_adopted_total 20",
                "carrick_adopted_tunnels_open 0",
                "carrick_adopted_tunnels_ended_total{result=\"closed\"} 20",
            ] {
                assert!(metrics.contains(line), "{line} in {metrics}");
            }
            let sent: u64 = metrics
                .lines()
                .find_map(|line| {
                    line.strip_prefix("carrick_client_bytes_total{direction=\"received\"} ")
                })
                .expect("the metric")
                .parse()
                .expect("a number");
            assert!(sent > TUNNELS * (PIECES as u64) * 1024, "{sent}");
        },
    );
}

#[test]
fn what_the_process_relayed_itself_ends_with_it() {
    inside("what_the_process_relayed_itself_ends_with_it", |bed| {
        // Unlike connections.
        let set = ["sysctl", "-qw", "net.ipv4.tcp_timestamps=0"];
        assert!(
            bed.command(Host::Server, &set)
                .status()
                .expect("sysctl")
                .success()
        );
        let listener = bed.listen();
        let carrick = bed.start(0, "");
        let mut ends = bed.tunnel(&listener);
        let told = bed.tunnels(&carrick);
        assert_eq!(told["tunnels"]["packet"], 0, "{told}");
        carrick.kill();
        for end in &mut ends {
            let read = end.read(&mut [0; 8]);
            assert!(!matches!(read, Ok(1..)), "{read:?}");
        }
        let carrick = bed.start(0, "");
        assert_eq!(bed.tunnels(&carrick)["outliving"]["adopted"], 0);
    });
}

#[test]
fn a_reset_reaches_the_other_end_and_ends_an_adopted_tunnel() {
    inside(
        "a_reset_reaches_the_other_end_and_ends_an_adopted_tunnel",
        |bed| {
            let listener = bed.listen();
            let first = bed.start(0, "");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&first, std::slice::from_mut(&mut ends));
            first.kill();
            say(&mut ends, 0, b"alone");
            let second = bed.start(0, "");
            let [client, mut server] = ends;
            socket2::SockRef::from(&client)
                .set_linger(Some(Duration::ZERO))
                .expect("set");
            drop(client);
            assert!(server.read(&mut [0; 8]).is_err());
            bed.wait_until(&second, "its end", |told| told["outliving"]["reset"] == 1);
            // What the peers may send again is answered for a minute. Then the programs go.
            assert_eq!(bed.generations().len(), 2);
            let deadline = Instant::now() + Duration::from_secs(60) + PATIENCE;
            while bed.generations().len() > 1 {
                assert!(Instant::now() < deadline, "{:?}", bed.generations());
                std::thread::sleep(Duration::from_secs(1));
            }
        },
    );
}

#[test]
fn an_adopted_tunnel_that_is_idle_is_ended_and_its_programs_go() {
    inside(
        "an_adopted_tunnel_that_is_idle_is_ended_and_its_programs_go",
        |bed| {
            bed.forget_orphans();
            let listener = bed.listen();
            let first = bed.start(0, "");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&first, std::slice::from_mut(&mut ends));
            first.kill();
            let second = bed.start(0, "[timeouts]\ntunnel_idle = \"1s\"");
            assert_eq!(bed.generations().len(), 2);
            bed.wait_until(&second, "its end", |told| told["outliving"]["idle"] == 1);
            assert_reset(&mut ends);
            assert_eq!(bed.generations().len(), 1);
            // Nothing is left of the second one, either.
            second.stop();
            assert_eq!(bed.generations().len(), 0);
            let shown = bed.command(Host::Proxy, &["bpftool", "net"]).output();
            if let Ok(shown) = shown {
                let text = String::from_utf8_lossy(&shown.stdout).into_owned();
                assert!(!text.contains("carrick"), "{text}");
            }
        },
    );
}

#[test]
fn an_upgrade_goes_beside_the_old_one_and_takes_over_when_that_has_ended() {
    inside(
        "an_upgrade_goes_beside_the_old_one_and_takes_over_when_that_has_ended",
        |bed| {
            let listener = bed.listen();
            let old = bed.start(0, "[timeouts]\ndrain = \"1m\"");
            let mut tunnels: Vec<_> = (0..4).map(|_| bed.tunnel(&listener)).collect();
            bed.wait_for_kernel(&old, &mut tunnels);
            let mut idle = tunnels.pop().expect("four");
            let words = words(tunnels.len(), PIECES);
            let gate = Arc::default();
            let busy: Vec<_> = (0..)
                .zip(tunnels)
                .map(|(number, ends)| exchange(ends, number, &words, (PIECES, &gate)))
                .collect();
            // It lets go of the listener at once, and of its tunnels in the end.
            old.signal(Signal::TERM);
            wait_for("the listener", || {
                let is_free = || TcpListener::bind("10.80.1.1:8080").is_ok();
                let is_free = bed.on(Host::Proxy, is_free).join().expect("an answer");
                is_free.then_some(())
            });
            // By then it has no privileges, and may not even see the folder.
            let pins = bed.pins();
            let process = format!(
                "[process]\nuser = \"nobody\"\npins = \"{}\"",
                pins.display()
            );
            let new = bed.start(1, &process);
            assert_eq!(bed.tunnels(&new)["outliving"]["adopted"], 0);
            // A second signal ends the drain.
            old.signal(Signal::TERM);
            let said = old.wait();
            assert!(said.contains("tunnels go on in the kernel"), "{said}");
            bed.wait_until(&new, "the old ones", |told| {
                told["outliving"]["adopted_total"] == 4
            });
            gate.store(true, SeqCst);
            for exchange in &busy {
                assert_eq!(exchange.recv(), Ok(true));
            }
            say(&mut idle, 1, b"still here");
            say(&mut idle, 0, b"me too");
            // The next one gets them from this one, too.
            new.stop();
            let third = bed.start(2, "");
            assert_eq!(bed.tunnels(&third)["outliving"]["adopted"], 1);
            say(&mut idle, 1, b"and again");
        },
    );
}

#[test]
fn clean_removes_what_is_pinned_but_not_of_a_carrick_that_runs() {
    inside(
        "clean_removes_what_is_pinned_but_not_of_a_carrick_that_runs",
        |bed| {
            bed.forget_orphans();
            let listener = bed.listen();
            let carrick = bed.start(0, "");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&carrick, std::slice::from_mut(&mut ends));
            let file = bed.configuration(9, "");
            let clean = ["clean", "-c", &file.display().to_string()];
            let (is_fine, said) = bed.carrick(&clean);
            assert!(
                is_fine && said.contains("left alone, a running carrick has it"),
                "{said}"
            );
            say(&mut ends, 0, b"still here");
            let doctor = ["doctor", "-c", &file.display().to_string()];
            let (_, said) = bed.carrick(&doctor);
            let part = "1 tunnels that need no process; 4 programs at network interfaces; of a carrick that runs";
            assert!(said.contains(part), "{said}");
            carrick.kill();
            say(&mut ends, 0, b"even now");
            let (_, said) = bed.carrick(&doctor);
            let part = "1 tunnels that need no process; 4 programs at network interfaces; left by a carrick that is gone";
            assert!(said.contains(part), "{said}");
            // A file of somebody's.
            let others = bed.pins().join("others");
            std::fs::create_dir(&others).expect("a folder");
            let (is_fine, said) = bed.carrick(&clean);
            assert!(is_fine, "{said}");
            assert!(
                said.contains("1 spliced tunnels, 4 programs at network interfaces"),
                "{said}"
            );
            assert_eq!(bed.generations(), [others]);
            assert_reset(&mut ends);
            let (is_fine, said) = bed.carrick(&clean);
            assert!(is_fine && said.contains("nothing was left over"), "{said}");
        },
    );
}

#[test]
fn without_a_bpf_file_system_it_works_and_says_what_is_not_possible() {
    inside(
        "without_a_bpf_file_system_it_works_and_says_what_is_not_possible",
        |bed| {
            let elsewhere = bed.directory().join("pins");
            bed.forget_orphans();
            let listener = bed.listen();
            let carrick = bed.start(0, &format!("[process]\npins = \"{}\"", elsewhere.display()));
            let said = carrick
                .said
                .wait_for("end with carrick, because")
                .expect("a warning");
            assert!(said.contains("not on a BPF file system"), "{said}");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&carrick, std::slice::from_mut(&mut ends));
            let told = bed.tunnels(&carrick);
            assert_eq!(told["outliving"]["pins"], serde_json::Value::Null);
            let trouble = told["outliving"]["trouble"].as_str().expect("a reason");
            assert!(trouble.contains("not on a BPF file system"), "{trouble}");
            carrick.kill();
            assert_reset(&mut ends);
            assert!(!elsewhere.exists());
        },
    );
}

#[test]
fn pins_of_another_layout_go_on_unread_until_they_are_silent() {
    inside(
        "pins_of_another_layout_go_on_unread_until_they_are_silent",
        |bed| {
            let listener = bed.listen();
            let old = bed.start(0, "");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&old, std::slice::from_mut(&mut ends));
            old.kill();
            let own = bed.generations().pop().expect("one");
            let name = own
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let stem = name.rsplit_once('-').expect("three parts").0;
            let other = bed.pins().join(format!("{stem}-0badcafe"));
            std::fs::rename(&own, &other).expect("renamed");
            let new = bed.start(0, "[timeouts]\ntunnel_idle = \"8s\"");
            new.said
                .wait_for("tunnels of another version of carrick")
                .expect("a warning");
            let told = bed.tunnels(&new);
            assert_eq!(told["outliving"]["adopted"], 0);
            assert_eq!(
                told["outliving"]["not_adopted"].as_array().map(Vec::len),
                Some(1)
            );
            let mut newer = bed.tunnel(&listener);
            bed.wait_for_kernel(&new, std::slice::from_mut(&mut newer));
            for _ in 0..12 {
                std::thread::sleep(Duration::from_secs(1));
                say(&mut ends, 0, b"not silent");
                say(&mut newer, 1, b"nor this one");
            }
            assert!(other.exists());
            wait_for("the end of the silent one", || {
                say(&mut newer, 1, b"not silent");
                (!other.exists()).then_some(())
            });
            assert_reset(&mut ends);
            say(&mut newer, 0, b"still here");
        },
    );
}

#[test]
fn what_has_the_name_of_a_pin_and_is_none_is_left_alone() {
    inside(
        "what_has_the_name_of_a_pin_and_is_none_is_left_alone",
        |bed| {
            let listener = bed.listen();
            let old = bed.start(0, "");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&old, std::slice::from_mut(&mut ends));
            old.kill();
            // A map of another kind where one is expected.
            let own = bed.generations().pop().expect("one");
            std::fs::remove_file(own.join("flows")).expect("removed");
            std::fs::rename(own.join("pulse"), own.join("flows")).expect("renamed");
            let new = bed.start(0, "");
            let said = new
                .said
                .wait_for("is not the map that has this name")
                .expect("a warning");
            assert!(said.contains("not looked after"), "{said}");
            say(&mut ends, 0, b"still here");
            let mut newer = bed.tunnel(&listener);
            bed.wait_for_kernel(&new, std::slice::from_mut(&mut newer));
            say(&mut newer, 1, b"this one, too");
        },
    );
}

#[test]
fn a_port_that_an_adopted_tunnel_has_is_not_given_to_another_connection() {
    inside(
        "a_port_that_an_adopted_tunnel_has_is_not_given_to_another_connection",
        |bed| {
            bed.forget_orphans();
            let listener = bed.listen();
            let first = bed.start(0, "");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&first, std::slice::from_mut(&mut ends));
            let own = ends[1].peer_addr().expect("an address");
            let server = listener.local_addr().expect("an address");
            first.kill();
            let connect = move || {
                use socket2::{Domain, Socket, Type};
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
                socket.bind(&own.into())?;
                socket.connect_timeout(&server.into(), Duration::from_secs(2))?;
                Ok::<TcpStream, std::io::Error>(socket.into())
            };
            // Nobody looks after it: the port is free for the kernel, but its packets go nowhere.
            wait_for("the sockets to be gone", || {
                let outcome = bed.on(Host::Proxy, connect).join().expect("an outcome");
                let error = outcome.expect_err("it must not connect");
                (error.kind() == std::io::ErrorKind::TimedOut).then_some(())
            });
            say(&mut ends, 0, b"undisturbed");
            say(&mut ends, 1, b"so am I");
            // Looked after, the port is taken.
            let second = bed.start(0, "");
            bed.wait_until(&second, "it", |told| told["outliving"]["adopted"] == 1);
            wait_for("the port to be taken", || {
                let outcome = bed.on(Host::Proxy, connect).join().expect("an outcome");
                let error = outcome.expect_err("it must not connect");
                (error.kind() == std::io::ErrorKind::AddrInUse).then_some(())
            });
            say(&mut ends, 0, b"undisturbed");
        },
    );
}

#[test]
fn what_is_pinned_for_a_network_namespace_that_is_gone_is_removed_from_another() {
    inside(
        "what_is_pinned_for_a_network_namespace_that_is_gone_is_removed_from_another",
        |bed| {
            let listener = bed.listen();
            let carrick = bed.start(0, "");
            let mut ends = bed.tunnel(&listener);
            bed.wait_for_kernel(&carrick, std::slice::from_mut(&mut ends));
            let file = bed.configuration(9, "");
            let clean = [PROGRAM, "clean", "-c", &file.display().to_string()];
            let clean = || {
                let output = bed.command(Host::Client, &clean).output().expect("carrick");
                String::from_utf8_lossy(&output.stdout).into_owned()
            };
            carrick.kill();
            // Its interfaces are there yet.
            assert!(clean().contains("nothing was left over"));
            say(&mut ends, 0, b"untouched");
            bed.remove_interfaces();
            let said = clean();
            assert!(
                said.contains("of a network namespace that is gone"),
                "{said}"
            );
            assert_eq!(bed.generations().len(), 0);
        },
    );
}
