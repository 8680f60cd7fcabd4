//! A far end that keeps the client's address, on a real router.
use super::LINK_PORT;
use crate::support::carrick::PROGRAM;
use crate::support::output::Output;
use crate::transparent::bed::{Bed, inside};
use carrick_test::Killed;
use std::process::Stdio;

/// The near end, with the client.
struct Near {
    _child: Killed,
    _said: Output,
}

impl Near {
    fn start(bed: &Bed, server: &str) -> Self {
        let text = format!(
            "[admin]\nlisten = \"\"\n[log]\naccess = \"\"\n[link.sky]\npeer = \"10.1.0.1:{LINK_PORT}\"\n[[listener]]\nlisten = \"[::]:8443\"\nmode = \"tunnel\"\n[[listener.route]]\nupstream = \"u\"\nlink = \"sky\"\n[upstream.u]\nservers = \"{server}\"\n"
        );
        let file = bed.write("near.toml", &text);
        let file = file.display().to_string();
        let mut child = inside(&bed.client, &[PROGRAM, "run", "-c", &file])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("carrick");
        let said = Output::collect(child.stderr.take().expect("a pipe"));
        said.wait_for("is ready")
            .unwrap_or_else(|said| panic!("{said}"));
        Self {
            _child: Killed(child),
            _said: said,
        }
    }
}

#[test]
fn servers_see_the_clients_address_if_the_far_end_keeps_it() {
    let Some(bed) = Bed::build() else {
        return;
    };
    let before = bed.rules();
    let far = |keeps: bool| {
        format!(
            "[process]\nuser = \"nobody\"\n[[listener]]\nlisten = \"10.1.0.1:{LINK_PORT}\"\nmode = \"link\"\nallow = \"10.1.0.0/24\"\nkeep_client_address = {keeps}\n"
        )
    };
    bed.open_to_all_users();
    for (server, listener, [client, router]) in [
        ("10.2.0.2:80", "10.1.0.2", ["10.1.0.3", "10.2.0.1"]),
        ("[fd00:2::2]:80", "[fd00:1::2]", ["fd00:1::3", "fd00:2::1"]),
    ] {
        let _near = Near::start(&bed, server);
        for (keeps, seen) in [(true, client), (false, router)] {
            let carrick = bed.carrick(&far(keeps));
            let words = format!(
                "--interface {client} --retry 5 --retry-all-errors http://{listener}:8443/x"
            );
            for _ in 0..3 {
                let answer = bed.curl(&words);
                assert!(
                    answer.contains(&format!("client={seen} ")),
                    "{keeps}: {answer}"
                );
            }
            let line = &carrick.access_log(3)[0];
            assert_eq!(line["client"], client, "the log always has the client");
            carrick.stop();
        }
    }
    assert_eq!(bed.rules(), before, "all rules are removed");
}
