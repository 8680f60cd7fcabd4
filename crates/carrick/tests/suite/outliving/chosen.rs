//! Whether and when carrick chooses the engine `packet` by itself.
use super::bed::{Bed, inside, say};
use carrick_lab::testbed::namespace::Namespace;

/// A carrick whose tunnels have this engine, with these keys in `[process]`, and no obstacles.
fn configuration(engine: &str, packet: &str) -> String {
    format!("[splice]\nengine = \"{engine}\"\n[process]\npins = \"\"\npacket = \"{packet}\"\n")
}

/// Sets a kernel variable on a host.
fn set(namespace: &Namespace, what: &str) {
    namespace.run("sysctl", &["-qw", what]).expect("sysctl");
}

fn remove_obstacles(bed: &Bed) {
    for interface in ["all", "default", "pc", "ps"] {
        set(
            &bed.proxy,
            &format!("net.ipv4.conf.{interface}.rp_filter=0"),
        );
    }
}

#[test]
fn tunnels_with_auto_use_it_where_it_is_loaded_for_them() {
    inside(|bed| {
        remove_obstacles(bed);
        let carrick = bed.start(0, &configuration("auto", "auto"));
        let mut ends = bed.tunnel();
        bed.wait_for_kernel(&carrick, std::slice::from_mut(&mut ends));
        let metrics = bed.page(&carrick, "/metrics");
        let line = "carrick_splice_choices_total{reason=\"packet_pays\"} 1";
        assert!(metrics.contains(line), "{metrics}");
        say(&mut ends, 0, b"and on");
        drop(ends);
        carrick.stop();
    });
}

#[test]
fn obstacles_are_logged() {
    inside(|bed| {
        remove_obstacles(bed);
        set(&bed.proxy, "net.ipv4.conf.ps.rp_filter=1");
        let carrick = bed.start(0, &configuration("auto", "auto"));
        let wanted = "will not use \"packet\" for tunnels and bodies, because of rp_filter: strict (1) on ps";
        carrick.said.wait_for(wanted).expect("the obstacle");
        carrick.stop();
    });
}

#[test]
fn it_is_not_loaded_for_auto_or_at_all_unless_that_is_wanted() {
    inside(|bed| {
        remove_obstacles(bed);
        for (engine, packet, said) in [
            ("auto", "named", ""),
            ("packet", "off", "because [process] packet is \"off\""),
        ] {
            let carrick = bed.start(0, &configuration(engine, packet));
            let mut ends = bed.tunnel();
            for _ in 0..20 {
                say(&mut ends, 0, b"ping");
                say(&mut ends, 1, b"pong");
            }
            let metrics = bed.page(&carrick, "/metrics");
            let line = "carrick_engine_usable{engine=\"packet\"} 0";
            assert!(metrics.contains(line), "{metrics}");
            drop(ends);
            let all = carrick.stop();
            assert!(all.contains(said), "{all}");
            assert!(!all.contains("auto\" does not use it"), "{all}");
        }
    });
}

#[test]
fn without_privileges_auto_goes_without_it_and_says_so_once() {
    inside(|bed| {
        let file = bed.configuration(0, &configuration("auto", "auto"));
        let carrick = bed.start_by(
            0,
            &["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
            &file,
        );
        let said = carrick.stop();
        let told = said.matches("engine \"packet\" is not usable").count();
        assert_eq!(told, 1, "{said}");
        assert!(said.contains("\"auto\" does not use it"), "{said}");
    });
}

#[test]
fn why_a_tunnel_is_not_forwarded_stands_in_the_log_once() {
    inside(|bed| {
        set(&bed.server, "net.ipv4.tcp_timestamps=0");
        let file = bed.configuration(0, &configuration("packet", "named"));
        let carrick = bed.start_by(0, &["env", "CARRICK_LOG=carrick=debug"], &file);
        let mut ends = bed.tunnel();
        let wanted = "the kernel does not forward the packets of a tunnel: packet_timestamps";
        carrick.said.wait_for(wanted).expect("the reason");
        for _ in 0..20 {
            say(&mut ends, 0, b"ping");
            say(&mut ends, 1, b"pong");
        }
        drop(ends);
        let said = carrick.stop();
        assert_eq!(
            said.matches("does not forward the packets").count(),
            1,
            "{said}"
        );
        let line = said.lines().find(|line| line.contains(wanted));
        let line = line.expect("a line");
        for address in ["10.80.1.2:", "10.80.2.2:8000"] {
            assert!(line.contains(address), "{line}");
        }
    });
}
