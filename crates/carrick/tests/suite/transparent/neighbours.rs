//! Coexistence on one machine: a second carrick, and foreign rules.
use super::bed::{inside, lines};
use super::privileges::nobody;
use super::*;
use crate::outliving::bed::on;
use crate::support::carrick::PROGRAM;
use crate::support::output::Output;
use crate::support::{wait_for, wait_until};
use rustix::process::{Pid, Signal, Uid, kill_process};
use rustix::thread::set_thread_res_uid;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// Another one, for other ports.
fn second() -> String {
    SWITCH
        .replace("8080", "8090")
        .replace("ports = [80]", "ports = [8000]")
        .replace("[[listener]]", "[[listener]]\nvia_name = \"second\"")
}

/// Does this while the supervisor stands still: `ip` lists rules and then removes one after the other, which the supervisor may have replaced
/// meanwhile.
fn while_stopped(bed: &Bed, act: impl FnOnce()) {
    // A child that has not executed its program yet looks like another one.
    let supervisor = wait_for("the only supervisor", || match bed.supervisors()[..] {
        [supervisor] => Some(supervisor),
        _ => None,
    });
    kill_process(supervisor, Signal::STOP).expect("it runs");
    let stat = format!("/proc/{}/stat", supervisor.as_raw_nonzero());
    wait_until("the supervisor to stand still", || {
        let stat = std::fs::read_to_string(&stat).expect("its state");
        let state = stat.rsplit_once(") ").map(|(_, state)| state);
        state.is_some_and(|state| state.starts_with('T'))
    });
    act();
    kill_process(supervisor, Signal::CONT).expect("it runs");
}

#[test]
fn two_carricks_live_side_by_side() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let keep = "keep_client_address = true\n";
    let first = bed.carrick(&(SWITCH.to_owned() + keep));
    let with_first = bed.rules();
    let other = bed.carrick(&(second() + keep));
    for _ in 0..2 {
        let said = bed.curl("http://10.2.0.2/");
        assert!(
            said.contains(VIA) && said.contains("client=10.1.0.2 "),
            "{said}"
        );
        let said = bed.curl("http://10.2.0.2:8000/");
        assert!(
            said.contains("via=1.1 second ") && said.contains("client=10.1.0.2 "),
            "{said}"
        );
    }
    other.stop();
    assert_eq!(bed.rules(), with_first);
    let other = bed.carrick(&(second() + keep));
    first.stop();
    assert!(bed.curl("http://10.2.0.2/").contains("via= "));
    let said = bed.curl("http://10.2.0.2:8000/");
    assert!(
        said.contains("via=1.1 second ") && said.contains("client=10.1.0.2 "),
        "{said}"
    );
    other.stop();
    assert_eq!(bed.rules(), before);
}

#[test]
fn two_carricks_do_not_take_each_others_port_or_table() {
    let Some(bed) = Bed::build() else { return };
    let first = bed.carrick(&SWITCH.replace("[::]", "10.1.0.1"));
    let rules = bed.rules();
    for (text, part) in [
        (
            SWITCH.replace("[::]", "10.2.0.1"),
            "another carrick has rules for a transparent listener on port 8080",
        ),
        (
            second().replace("intercept = {", "intercept = { table = 108080,"),
            "another carrick has rules with the routing table 108080",
        ),
        (
            second().replace("intercept = {", "intercept = { mark = 108080,"),
            "another carrick has rules with the mark 108080",
        ),
    ] {
        let said = bed.try_carrick(&[PROGRAM], &text).err().expect("no start");
        assert!(said.contains(part), "{part:?} is missing in {said}");
        assert_eq!(bed.rules(), rules);
    }
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    drop(first);
}

#[test]
fn what_any_user_has_claimed_is_refused_with_the_name_of_user_and_process() {
    let Some(bed) = Bed::build() else { return };
    let claim = |port| {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        let name = format!("\0carrick-transparent-port-{port}");
        socket.bind(&SockAddr::unix(name)?)?;
        io::Result::Ok(socket)
    };
    // The thread's user, and no other's.
    let (stranger, _silent) = on(&bed.router, || {
        let uid = Uid::from_raw(nobody());
        set_thread_res_uid(uid, uid, uid).expect("a user");
        let stranger = claim(8080).expect("a name");
        // Nobody accepts those that ask who it is.
        stranger.listen(1000).expect("a name");
        (stranger, claim(8090).expect("a name"))
    });
    let process = format!("process {} of user nobody", std::process::id());
    let said = bed.try_carrick(&[PROGRAM], SWITCH).err().expect("no start");
    let part = format!("on port 8080: choose another port, or stop it. It is claimed by {process}");
    assert!(said.contains(&part), "{said}");
    let said = bed.try_carrick(&[PROGRAM], &second());
    let said = said.err().expect("no start");
    assert!(
        said.contains("another program has the socket @carrick-transparent-port-8090"),
        "{said}"
    );
    let table =
        "add table inet carrick-8080 { comment \"made by carrick for a transparent listener\"; }";
    bed.router.run("nft", &[table]).expect("nft");
    let (code, said) = bed.command(&["clean"]);
    let part = format!("carrick: nft table inet carrick-8080 (claimed by {process}");
    assert!(code == Some(0) && said.contains(&part), "{said}");
    drop(stranger);
    // A process that another test has just forked may have the socket until it runs its program.
    wait_until("the end of the claim", || {
        let (code, said) = bed.command(&["clean"]);
        assert_eq!(code, Some(0), "{said}");
        said.contains("removed")
    });
}

/// What is listed, and is gone when carrick asks for it, or removes it.
#[test]
fn what_another_carrick_removes_meanwhile_is_no_obstacle() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let tools = tempfile::tempdir().expect("a directory");
    let here = tools.path().display();
    for (tool, first) in [
        (
            "nft",
            format!(
                "[ \"$*\" = 'list tables inet' ] && mkdir {here}/tables 2>/dev/null && echo 'table inet carrick-9'"
            ),
        ),
        (
            "ip",
            format!(
                "[ \"$*\" = '-4 -N -d -j rule show' ] && mkdir {here}/listed 2>/dev/null &&
                 exec echo '[{{\"priority\":9,\"fwmark\":\"0x9\",\"protocol\":\"196\"}}]'"
            ),
        ),
    ] {
        let found = carrick_lab::command::find(tool).expect("it exists");
        let script = format!("#!/bin/sh\n{first}\nexec {} \"$@\"\n", found.display());
        let path = tools.path().join(tool);
        std::fs::write(&path, script).expect("a script");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("permissions");
    }
    let path = format!("PATH={here}:{}", std::env::var("PATH").expect("it"));
    let carrick = bed
        .try_carrick(&["env", &path, PROGRAM], SWITCH)
        .unwrap_or_else(|said| panic!("{said}"));
    assert!(tools.path().join("listed").exists());
    let said = carrick.stop();
    assert!(!said.contains("ERROR"), "{said}");
    assert_eq!(bed.rules(), before);
}

#[test]
fn the_next_process_waits_for_the_rules_of_a_draining_one() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let long = format!("{SWITCH}[timeouts]\ndrain = \"10m\"\n");
    let mut old = bed.carrick(&long);
    // It reads nothing more once its buffers are full.
    let words = ["curl", "-sS", "--limit-rate", "1", "http://10.2.0.2/slow"];
    let mut download = inside(&bed.client, &words)
        .stdout(Stdio::null())
        .spawn()
        .expect("curl");
    wait_until("a request under way", || {
        let open = old.metric(&bed, "carrick_upstream_connections_opened_total");
        open > 0.5
    });
    old.signal(Signal::TERM);
    old.said.wait_for("draining").expect("a message");
    let file = bed.write(
        "next.toml",
        &format!("[admin]\nlisten = \"127.0.0.1:3129\"\n{long}"),
    );
    let mut new = inside(
        &bed.router,
        &[PROGRAM, "run", "-c", &file.display().to_string()],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .expect("carrick");
    let said = Output::collect(new.stderr.take().expect("a pipe"));
    said.wait_for("waiting for its end").expect("a message");
    assert!(old.metric(&bed, "carrick_draining") > 0.5);
    download.kill().expect("it downloads");
    download.wait().expect("its end");
    old.wait();
    said.wait_for("is ready").expect("a start");
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    kill_process(Pid::from_child(&new), Signal::TERM).expect("it runs");
    assert!(new.wait().expect("its end").success());
    assert_eq!(bed.rules(), before);
}

#[test]
fn rules_of_others_are_left_as_they_are() {
    let Some(bed) = Bed::build() else { return };
    let foreign = "table inet mine {\n  comment \"ours\"\n  chain prerouting {\n    type filter hook prerouting priority mangle - 5; policy accept;\n    tcp dport 80 counter meta mark set 7\n  }\n}\ntable ip carrick-8080 {\n}\n";
    let file = bed.write("foreign.nft", foreign);
    bed.router
        .run("nft", &["-f", &file.display().to_string()])
        .expect("nft");
    lines(
        &bed.router,
        &[
            "rule add fwmark 9 lookup 79",
            "route add local default dev lo table 79",
        ],
    );
    // The counter changes; everything else must stay.
    let without_counts = || {
        let rules = bed.rules();
        let lines = rules
            .lines()
            .map(|line| line.split("counter").next().unwrap_or_default().to_owned());
        lines.collect::<Vec<_>>()
    };
    let before = without_counts();
    let carrick = bed.carrick(SWITCH);
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    for line in &before {
        assert!(without_counts().contains(line), "{line}");
    }
    carrick.stop();
    assert_eq!(without_counts(), before);
    assert_eq!(bed.command(&["clean"]).0, Some(0));
    assert_eq!(without_counts(), before);
    // carrick does not take over foreign rules with its names and numbers.
    bed.router
        .run("nft", &["add", "table", "inet", "carrick-8080"])
        .expect("nft");
    let before = without_counts();
    let said = bed.try_carrick(&[PROGRAM], SWITCH).err().expect("no start");
    assert!(
        said.contains("another program has made the nft table inet carrick-8080"),
        "{said}"
    );
    let mark = SWITCH
        .replace("8080", "8090")
        .replace("intercept = {", "intercept = { mark = 9,");
    let said = bed.try_carrick(&[PROGRAM], &mark).err().expect("no start");
    assert!(
        said.contains("another program has a rule for the mark 9 "),
        "{said}"
    );
    let table = SWITCH
        .replace("8080", "8090")
        .replace("intercept = {", "intercept = { table = 79,");
    let wrong = bed.try_carrick(&[PROGRAM], &table).err().expect("no start");
    assert!(wrong.contains("at least 256"), "{wrong}");
    lines(&bed.router, &["route add local default dev lo table 790"]);
    let said = bed
        .try_carrick(&[PROGRAM], &table.replace("79,", "790,"))
        .err()
        .expect("no start");
    assert!(
        said.contains("another program has routes in the routing table 790"),
        "{said}"
    );
    lines(&bed.router, &["route del local default dev lo table 790"]);
    assert_eq!(
        bed.command(&["clean"]),
        (Some(0), "nothing was left over\n".to_owned())
    );
    assert_eq!(without_counts(), before);
}

/// A firewall that is loaded, systemd-networkd that starts, a VPN that comes up.
#[test]
fn what_others_remove_or_precede_is_made_again() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let carrick = bed.carrick(SWITCH);
    let during = bed.rules();
    for commands in [
        &["nft flush ruleset"][..],
        &[
            "ip -4 rule flush protocol 196",
            "ip -6 rule flush protocol 196",
        ],
        &[
            "ip -4 route flush table 108080",
            "ip -6 route flush table 108080",
        ],
    ] {
        while_stopped(&bed, || {
            for command in commands {
                let (tool, arguments) = command.split_once(' ').expect("a tool");
                let arguments: Vec<&str> = arguments.split(' ').collect();
                bed.router.run(tool, &arguments).expect(tool);
            }
        });
        wait_until(commands[0], || bed.rules() == during);
        for url in ["http://10.2.0.2/", "http://[fd00:2::2]/"] {
            assert!(bed.curl(url).contains(VIA), "{commands:?}");
        }
    }
    for family in ["-4", "-6"] {
        let vpn = [family, "rule", "add", "priority", "100", "lookup", "main"];
        bed.router.run("ip", &vpn).expect("ip");
    }
    let numbers = |family| {
        let text = bed.router.run("ip", &[family, "rule"]).expect("rules");
        let lines = text.lines().filter(|line| line.contains("0x1a630"));
        let number = |line: &str| {
            line.split(':')
                .next()
                .and_then(|number| number.parse().ok())
        };
        lines.filter_map(number).collect::<Vec<u32>>()
    };
    for family in ["-4", "-6"] {
        wait_until("the first place", || numbers(family) == [97, 98, 99]);
        let vpn = [family, "rule", "del", "priority", "100", "lookup", "main"];
        bed.router.run("ip", &vpn).expect("ip");
    }
    // Not so far before the others that there will be no room some day.
    wait_until("the first numbers", || bed.rules() == during);
    // A firewall has saved carrick's table, of another day.
    let saved = bed.router.run("nft", &["list", "ruleset"]).expect("nft");
    let saved = saved.replace("tcp dport 80 ", "tcp dport 81 ");
    let file = bed.write("saved.nft", &format!("flush ruleset\n{saved}"));
    let load = ["-f", &file.display().to_string()];
    bed.router.run("nft", &load).expect("nft");
    wait_until("today's table", || bed.rules() == during);
    for url in ["http://10.2.0.2/", "http://[fd00:2::2]/"] {
        assert!(bed.curl(url).contains(VIA), "{url}");
    }
    // No time to make it again.
    bed.router.run("nft", &["flush", "ruleset"]).expect("nft");
    let said = carrick.stop();
    assert!(!said.contains("ERROR"), "{said}");
    assert!(said.contains("the nft table inet carrick-8080: made again"));
    assert_eq!(bed.rules(), before);
}

/// Rules of which one has the first place, and no room for others before it.
#[test]
fn what_cannot_be_made_again_is_said_and_tried_again() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let carrick = bed.carrick(SWITCH);
    let during = bed.rules();
    lines(&bed.router, &["rule add priority 2 lookup main"]);
    let said = carrick.said.wait_for("trying again every ten seconds");
    let said = said.expect("a message");
    assert!(
        said.contains("do not fit before the rule with priority 2 of `ip -4 rule`"),
        "{said}"
    );
    // The rest is made again.
    bed.router.run("nft", &["flush", "ruleset"]).expect("nft");
    wait_until("the table", || {
        let tables = bed.router.run("nft", &["list", "tables"]);
        tables.expect("nft").contains("carrick-8080")
    });
    while_stopped(&bed, || {
        lines(&bed.router, &["rule del priority 2 lookup main"]);
        let flush = ["-4", "rule", "flush", "protocol", "196"];
        bed.router.run("ip", &flush).expect("ip");
    });
    wait_until("all", || bed.rules() == during);
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    let said = carrick.stop();
    assert_eq!(said.matches("do not fit").count(), 1, "{said}");
    assert_eq!(bed.rules(), before);
}

#[test]
fn a_router_that_masquerades_is_no_obstacle() {
    let Some(bed) = Bed::build() else { return };
    let nat = "table inet nat {\n  chain postrouting {\n    type nat hook postrouting priority srcnat; policy accept;\n    oifname \"eth2\" masquerade\n  }\n}\n";
    let file = bed.write("nat.nft", nat);
    if let Err(error) = bed.router.run("nft", &["-f", &file.display().to_string()]) {
        carrick_test::lacks!("the kernel has no NAT: {error}");
        return;
    }
    for keep in [false, true] {
        let text = format!("{SWITCH}keep_client_address = {keep}\n");
        let carrick = bed.carrick(&text);
        for (url, client) in [
            ("http://10.2.0.2/", "10.2.0.1"),
            ("http://[fd00:2::2]/", "fd00:2::1"),
        ] {
            let said = bed.curl(url);
            assert!(
                said.contains(VIA) && said.contains(&format!("client={client} ")),
                "{keep}: {said}"
            );
        }
        assert_eq!(
            bed.curl("http://10.2.0.2/slow").len(),
            super::bed::SLOW_BYTES
        );
        carrick.stop();
    }
}

#[test]
fn a_firewall_lets_in_what_has_the_mark() {
    let Some(bed) = Bed::build() else { return };
    let filter = "table inet filter {\n  chain input {\n    type filter hook input priority filter; policy drop;\n    iifname \"lo\" accept\n    meta l4proto { icmp, ipv6-icmp } accept\n  }\n  chain forward {\n    type filter hook forward priority filter; policy drop;\n  }\n}\n";
    let file = bed.write("filter.nft", filter);
    bed.router
        .run("nft", &["-f", &file.display().to_string()])
        .expect("nft");
    let _carrick = bed.carrick(&(SWITCH.to_owned() + "keep_client_address = true\n"));
    let words = "--connect-timeout 1 http://10.2.0.2/";
    bed.try_curl(words).expect_err("the firewall drops it");
    // As in docs/modes/transparent.md.
    let insert = "insert rule inet filter input meta mark 108080 accept";
    bed.router
        .run("nft", &insert.split(' ').collect::<Vec<_>>())
        .expect("nft");
    let said = bed.curl("http://10.2.0.2/");
    assert!(
        said.contains(VIA) && said.contains("client=10.1.0.2 "),
        "{said}"
    );
}

#[test]
fn a_strict_check_of_return_paths_is_no_obstacle() {
    let Some(bed) = Bed::build() else { return };
    for interface in ["all", "default", "eth1", "eth2", "lo"] {
        let parameter = format!("net/ipv4/conf/{interface}/rp_filter");
        bed.router
            .set_parameter(&parameter, "1")
            .expect("a setting");
    }
    for keep in [false, true] {
        let carrick = bed.carrick(&format!("{SWITCH}keep_client_address = {keep}\n"));
        let said = bed.curl("http://10.2.0.2/");
        assert!(said.contains(VIA), "{keep}: {said}");
        carrick.stop();
    }
    // With the first, which WireGuard tunnels ask for, the check considers the mark; with the second, answers have it.
    for parameter in [
        "net/ipv4/conf/all/src_valid_mark",
        "net/ipv4/tcp_fwmark_accept",
    ] {
        bed.router.set_parameter(parameter, "1").expect("a setting");
    }
    for keep in [false, true] {
        let carrick = bed.carrick(&format!("{SWITCH}keep_client_address = {keep}\n"));
        for server in ["10.2.0.2", "[fd00:2::2]"] {
            let said = bed.curl(&format!("http://{server}/"));
            assert!(said.contains(VIA), "{keep}: {said}");
        }
        carrick.stop();
    }
}
