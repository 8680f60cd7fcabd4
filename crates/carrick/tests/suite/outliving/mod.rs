//! Tunnels of the engine `packet` that outlive their carrick, and the carricks that adopt them.
pub mod bed;
mod chosen;
mod ends;
mod paced;
mod segments;
mod tracked;

use crate::support::carrick::PROGRAM;
use crate::support::wait_until;
use crate::transparent::bed::inside as command_in;
use bed::{Bed, Exchanges, PIECES, PROXY, SERVER, assert_reset, inside, on, own_ends, say};
use carrick_lab::command::run;
use rustix::process::Signal;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

const TUNNELS: u64 = 20;

#[test]
fn twenty_tunnels_go_on_when_carrick_is_killed_in_mid_transfer() {
    inside(|bed| {
        let first = bed.start(0, "");
        let mut tunnels: Vec<_> = (0..TUNNELS).map(|_| bed.tunnel()).collect();
        bed.wait_for_kernel(&first, &mut tunnels);
        let exchanges = Exchanges::begin(tunnels);
        exchanges.wait_for_more();
        first.kill();
        exchanges.wait_for_more();
        assert!(exchanges.are_under_way());
        let second = bed.start(0, "");
        let told = bed.tunnels(&second);
        assert_eq!(told["outliving"]["adopted"], TUNNELS, "{told}");
        assert_eq!(told["outliving"]["not_adopted"], serde_json::json!([]));
        let one = &told["outliving"]["list"][0];
        assert_eq!(
            (&one["listener"], &one["server"]),
            (&PROXY.into(), &SERVER.into())
        );
        let bytes = |told: &serde_json::Value| {
            let one = &told["outliving"]["list"][0];
            one["client_to_upstream"]["bytes"]
                .as_u64()
                .expect("a number")
        };
        let before = bytes(&told);
        assert!(before > 10_000, "{before} bytes before it was adopted");
        exchanges.go_on();
        bed.wait_until(&second, "more bytes", |told| {
            told["outliving"]["adopted"] != TUNNELS || bytes(told) > before
        });
        // New ones coexist with them.
        let mut newer = bed.kernel_tunnel(&second);
        exchanges.assert_whole();
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
    });
}

#[test]
fn what_the_process_relayed_itself_ends_with_it() {
    inside(|bed| {
        // Incompatible connections.
        bed.set(&bed.server, "tcp_timestamps", "0");
        let carrick = bed.start(0, "");
        let mut ends = bed.tunnel();
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
    inside(|bed| {
        bed.forget_orphans();
        let mut ends = bed.orphan();
        say(&mut ends, 0, b"alone");
        let own = own_ends(&ends);
        let second = bed.start(0, "");
        let [client, mut server] = ends;
        socket2::SockRef::from(&client)
            .set_linger(Some(Duration::ZERO))
            .expect("set");
        drop(client);
        assert!(server.read(&mut [0; 8]).is_err());
        bed.wait_until(&second, "its end", |told| told["outliving"]["reset"] == 1);
        // Retransmissions from the peers are answered for a minute (carrick-splice's `tc::tests::slots`); unless the next
        // carrick finds it ended.
        assert_eq!(bed.generations().len(), 2);
        wait_until("the sockets to be gone", || {
            on(&bed.proxy, || own.iter().all(|end| end.look().is_none()))
        });
        second.kill();
        let _third = bed.start(0, "");
        wait_until("their end", || bed.generations().len() == 1);
    });
}

#[test]
fn an_adopted_tunnel_that_is_idle_is_ended_and_its_programs_go() {
    inside(|bed| {
        bed.forget_orphans();
        let mut ends = bed.orphan();
        let own = bed.generations().pop().expect("one");
        // Opening a map by its pin gives no more access than the process has: read only.
        for map in ["flows", "splices"].map(|map| own.join(map)) {
            let mode = std::fs::metadata(&map).expect("a pin").permissions().mode();
            assert_eq!(mode & 0o777, 0o400, "{}", map.display());
        }
        // The tunnel may be idle for that long before the second one is ready.
        let second = bed.start(0, "[timeouts]\ntunnel_idle = \"1s\"");
        bed.wait_until(&second, "its end", |told| told["outliving"]["idle"] == 1);
        assert_reset(&mut ends);
        wait_until("its programs to go", || bed.generations().len() == 1);
        // The second one leaves nothing, either.
        second.stop();
        assert_eq!(bed.generations().len(), 0);
        let shown = command_in(&bed.proxy, &["bpftool", "net"]).output();
        if let Ok(shown) = shown {
            let text = String::from_utf8_lossy(&shown.stdout).into_owned();
            assert!(!text.contains("carrick"), "{text}");
        }
    });
}

#[test]
fn an_upgrade_goes_beside_the_old_one_and_takes_over_when_that_has_ended() {
    inside(|bed| {
        let log = bed.directory().join("access.log");
        let more = format!(
            "[timeouts]\ndrain = \"1m\"\n[log]\naccess = \"{}\"",
            log.display()
        );
        let old = bed.start(0, &more);
        let mut tunnels: Vec<_> = (0..4).map(|_| bed.tunnel()).collect();
        bed.wait_for_kernel(&old, &mut tunnels);
        let mut idle = tunnels.pop().expect("four");
        let busy = Exchanges::begin(tunnels);
        // It releases the listener at once, and its tunnels at its end.
        old.signal(Signal::TERM);
        wait_until("the listener", || {
            let is_free = || TcpListener::bind(PROXY).is_ok();
            on(&bed.proxy, is_free)
        });
        // By then it has no privileges, and may not even see the directory.
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
        assert!(said.contains("tunnels continue in the kernel"), "{said}");
        let lines = std::fs::read_to_string(&log).expect("an access log");
        assert_eq!(lines.matches(" ended=left").count(), 4, "{lines}");
        bed.wait_until(&new, "the old ones", |told| {
            told["outliving"]["adopted_total"] == 4
        });
        busy.go_on();
        busy.assert_whole();
        say(&mut idle, 1, b"still here");
        say(&mut idle, 0, b"me too");
        // The next one adopts them from this one, too.
        new.stop();
        let third = bed.start(2, "");
        assert_eq!(bed.tunnels(&third)["outliving"]["adopted"], 1);
        say(&mut idle, 1, b"and again");
    });
}

#[test]
fn clean_removes_what_is_pinned_but_not_of_a_carrick_that_runs() {
    inside(|bed| {
        bed.forget_orphans();
        let carrick = bed.start(0, "");
        let mut ends = bed.kernel_tunnel(&carrick);
        let file = bed.configuration(9, "");
        let clean = ["clean", "-c", &file.display().to_string()];
        let (is_fine, said) = bed.carrick(&clean);
        assert!(
            is_fine && said.contains("kept, in use by a running carrick"),
            "{said}"
        );
        say(&mut ends, 0, b"still here");
        let doctor = ["doctor", "-c", &file.display().to_string()];
        let (_, said) = bed.carrick(&doctor);
        let part = "1 tunnels that outlive the process; 4 programs at network interfaces; of a running carrick";
        assert!(said.contains(part), "{said}");
        carrick.kill();
        say(&mut ends, 0, b"even now");
        // The service's user has made it all.
        let pins = bed.pins().display().to_string();
        run("chown", &["-R", "65534", &pins]).expect("another owner");
        let around = format!("{pins}/..");
        let way = bed.directory().display().to_string();
        run("chmod", &["a+x", &around, &way]).expect("a way there");
        let (_, said) = bed.carrick(&doctor);
        let part = "1 tunnels that outlive the process; 4 programs at network interfaces; left by a carrick that has exited";
        assert!(said.contains(part), "{said}");
        // A foreign file.
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
    });
}

#[test]
fn without_a_bpf_file_system_it_works_and_says_what_is_not_possible() {
    inside(|bed| {
        let elsewhere = bed.directory().join("pins");
        bed.forget_orphans();
        let carrick = bed.start(0, &format!("[process]\npins = \"{}\"", elsewhere.display()));
        let said = carrick
            .said
            .wait_for("end with carrick, because")
            .expect("a warning");
        assert!(said.contains("not on a BPF file system"), "{said}");
        let mut ends = bed.kernel_tunnel(&carrick);
        let told = bed.tunnels(&carrick);
        assert_eq!(told["outliving"]["pins"], serde_json::Value::Null);
        let trouble = told["outliving"]["trouble"].as_str().expect("a reason");
        assert!(trouble.contains("not on a BPF file system"), "{trouble}");
        carrick.kill();
        assert_reset(&mut ends);
        assert!(!elsewhere.exists());
    });
}

/// Renames the only generation to that of a version with other maps.
fn of_another_layout(bed: &Bed) -> PathBuf {
    let own = bed.generations().pop().expect("one");
    let name = own
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let stem = name.rsplit_once('-').expect("three parts").0;
    let other = bed.pins().join(format!("{stem}-0badcafe"));
    std::fs::rename(&own, &other).expect("renamed");
    other
}

/// Users other than root cannot remove the names.
#[test]
fn pins_of_another_layout_without_tunnels_are_removed_at_the_next_start() {
    inside(|bed| {
        let pins = bed.pins();
        let process = format!(
            "[process]\nuser = \"nobody\"\npins = \"{}\"",
            pins.display()
        );
        // Its programs are detached at its end.
        bed.start(0, &process).stop();
        let ended = of_another_layout(bed);
        let next = bed.start(0, &process);
        assert!(!ended.exists());
        // It is silent for longer than this by the time the next one starts.
        next.kill();
        let silent = of_another_layout(bed);
        let last = bed.start(0, &format!("[timeouts]\ntunnel_idle = \"1ms\"\n{process}"));
        assert!(!silent.exists());
        let said = last.stop();
        assert!(!said.contains("was not taken over"), "{said}");
    });
}

#[test]
fn pins_of_another_layout_go_on_unread_until_they_are_silent() {
    inside(|bed| {
        let mut ends = bed.orphan();
        let other = of_another_layout(bed);
        let (silence, is_silent) = mpsc::channel::<()>();
        let talking = std::thread::spawn(move || {
            let pause = Duration::from_millis(100);
            while is_silent.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                say(&mut ends, 0, b"not silent");
            }
            ends
        });
        let new = bed.start(0, "[timeouts]\ntunnel_idle = \"15s\"");
        new.said
            .wait_for("tunnels of another version of carrick")
            .expect("a warning");
        let told = bed.tunnels(&new);
        assert_eq!(told["outliving"]["adopted"], 0);
        assert_eq!(
            told["outliving"]["not_adopted"].as_array().map(Vec::len),
            Some(1)
        );
        let mut newer = bed.kernel_tunnel(&new);
        for _ in 0..16 {
            std::thread::sleep(Duration::from_secs(1));
            say(&mut newer, 1, b"nor this one");
        }
        assert!(other.exists());
        drop(silence);
        let mut ends = talking.join().expect("an answer each time");
        wait_until("the end of the silent one", || {
            say(&mut newer, 1, b"not silent");
            !other.exists()
        });
        assert_reset(&mut ends);
        say(&mut newer, 0, b"still here");
    });
}

#[test]
fn what_has_the_name_of_a_pin_and_is_none_is_left_alone() {
    inside(|bed| {
        let mut ends = bed.orphan();
        // A map of another kind than expected.
        let own = bed.generations().pop().expect("one");
        std::fs::remove_file(own.join("flows")).expect("removed");
        std::fs::rename(own.join("splices"), own.join("flows")).expect("renamed");
        let new = bed.start(0, "");
        let said = new
            .said
            .wait_for("is not the map that has this name")
            .expect("a warning");
        assert!(said.contains("was not taken over"), "{said}");
        say(&mut ends, 0, b"still here");
        let mut newer = bed.kernel_tunnel(&new);
        say(&mut newer, 1, b"this one, too");
    });
}

#[test]
fn what_a_carrick_that_was_killed_at_its_start_has_pinned_is_removed() {
    inside(|bed| {
        bed.start(0, "").kill();
        let own = bed.generations().pop().expect("one");
        for unmade in ["command", "pulse"] {
            std::fs::remove_file(own.join(unmade)).expect("removed");
        }
        let next = bed.start(0, "");
        assert_eq!(bed.generations().len(), 1);
        let said = next.stop();
        assert!(!said.contains("was not taken over"), "{said}");
    });
}

#[test]
fn a_port_that_an_adopted_tunnel_has_is_not_given_to_another_connection() {
    inside(|bed| {
        bed.forget_orphans();
        let first = bed.start(0, "");
        let mut ends = bed.kernel_tunnel(&first);
        let own = ends[1].peer_addr().expect("an address");
        let server: SocketAddr = SERVER.parse().expect("an address");
        first.kill();
        let connect = move || {
            use socket2::{Domain, Socket, Type};
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&own.into())?;
            socket.connect_timeout(&server.into(), Duration::from_secs(2))?;
            Ok::<TcpStream, std::io::Error>(socket.into())
        };
        // No carrick tends it: the port is free for the kernel, but its packets are lost.
        wait_until("the sockets to be gone", || {
            let error = on(&bed.proxy, connect).expect_err("it must not connect");
            error.kind() == std::io::ErrorKind::TimedOut
        });
        say(&mut ends, 0, b"undisturbed");
        say(&mut ends, 1, b"so am I");
        // Once adopted, the port is taken.
        let second = bed.start(0, "");
        bed.wait_until(&second, "it", |told| told["outliving"]["adopted"] == 1);
        wait_until("the port to be taken", || {
            let error = on(&bed.proxy, connect).expect_err("it must not connect");
            error.kind() == std::io::ErrorKind::AddrInUse
        });
        say(&mut ends, 0, b"undisturbed");
    });
}

#[test]
fn what_is_pinned_for_a_network_namespace_that_is_gone_is_removed_from_another() {
    inside(|bed| {
        let carrick = bed.start(0, "");
        let mut ends = bed.kernel_tunnel(&carrick);
        let file = bed.configuration(9, "");
        let clean = [PROGRAM, "clean", "-c", &file.display().to_string()];
        let clean = || {
            let output = command_in(&bed.client, &clean).output().expect("carrick");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        carrick.kill();
        // Its interfaces still exist.
        assert!(clean().contains("nothing was left over"));
        say(&mut ends, 0, b"untouched");
        bed.remove_interfaces();
        let said = clean();
        assert!(
            said.contains("of a network namespace that is gone"),
            "{said}"
        );
        assert_eq!(bed.generations().len(), 0);
    });
}
