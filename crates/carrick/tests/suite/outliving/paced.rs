//! Paced tunnels, and carricks that die or hang: pacing ends when no process grants bytes.
use super::bed::inside;
use crate::support::metrics::sum;
use crate::support::random::{Random, hash};
use crate::support::wait_until;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::Shutdown;

/// Two and a half minutes' worth of data.
const LIMITED: &str = "[pace]\ndefault = \"all\"\n[pace.classes.all]\nceiling = \"20 KB\"\n";
const BYTES: usize = 3 << 20;

#[test]
fn a_tunnel_is_no_longer_paced_when_its_carrick_is_killed_or_hangs() {
    inside(|bed| {
        for signal in [Signal::KILL, Signal::STOP] {
            let carrick = bed.start(0, LIMITED);
            let held = || {
                let metrics = bed.page(&carrick, "/metrics");
                sum(&metrics, "carrick_pace_kernel_holds_total", &[])
            };
            let [mut client, mut server] = bed.kernel_tunnel(&carrick);
            let body = Random::new(11).bytes(BYTES);
            let expected = hash(&body);
            let before = held();
            let sending = std::thread::spawn(move || {
                server.write_all(&body).expect("sent");
                server.shutdown(Shutdown::Write).expect("ended");
                server
            });
            let receiving = std::thread::spawn(move || {
                let mut came = vec![0; BYTES];
                client.read_exact(&mut came).expect("received");
                (hash(&came), client)
            });
            wait_until("the kernel to hold it back", || held() > before);
            assert!(!receiving.is_finished(), "{signal:?}: there is no rate");
            carrick.signal(signal);
            let (came, client) = receiving.join().expect("a thread");
            assert!(came == expected, "{signal:?}");
            drop((sending.join().expect("a thread"), client));
            carrick.kill();
        }
    });
}
