//! Packet rules by hand, as root, until Ctrl-C; what the rule has taken is printed every second:
//!
//!     packet_rules eth0 drop 192.0.2.0/24                    # drops what comes from there
//!     packet_rules eth0 redirect 10.0.0.0/8 80 3128          # what clients there ask of port 80 of this host, port 3128 answers
//!     packet_rules eth0 redirect 10.0.0.0/8 80 3128 7        # the same, whatever host they ask
//!
//! The last one sets the firewall mark 7, by which routing has to take such packets for local ones:
//!
//!     ip rule add fwmark 7 lookup 100 && ip route add local default dev lo table 100
//!
//! and the socket that listens on port 3128 needs `IP_TRANSPARENT`. Both ways its address is the one that the client asked.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it says there what is counted"
)]

use carrick_packet_rules::{Action, Direction, Match, PacketRules, Protocol, Redirect, Rule};
use std::error::Error;
use std::time::Duration;

const USAGE: &str = "usage: packet_rules INTERFACE drop PREFIX\n       packet_rules INTERFACE redirect PREFIX PORT LOCAL_PORT [MARK]";

/// The interface and the rule that the words ask for.
pub fn parse(words: &[&str]) -> Result<(String, Rule), Box<dyn Error>> {
    let (interface, prefix, ports, action) = match *words {
        [interface, "drop", prefix] => (interface, prefix, None, Action::Drop),
        [interface, "redirect", prefix, port, local, ref mark @ ..] if mark.len() < 2 => {
            let port: u16 = port.parse()?;
            let redirect = Redirect {
                port: local.parse()?,
                mark: mark.first().map(|mark| mark.parse()).transpose()?,
            };
            (interface, prefix, Some(port), Action::Redirect(redirect))
        }
        _ => return Err(USAGE.into()),
    };
    let packets = Match {
        direction: Some(Direction::Ingress),
        // All that can be redirected; what is dropped may be UDP as well.
        protocol: ports.map(|_| Protocol::Tcp),
        source: Some(prefix.parse()?),
        destination_ports: ports.map_or(0..=u16::MAX, |port| port..=port),
        ..Match::default()
    };
    let rule = Rule {
        name: words[1..].join(" "),
        packets,
        action,
    };
    Ok((interface.into(), rule))
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    if let Err(error) = run().await {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (interface, rule) = parse(&words)?;
    let rules = PacketRules::attach(&[rule], &[interface])?;
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            _ = second.tick() => for (rule, count) in rules.rules().iter().zip(rules.counts()?) {
                println!("{}: {} packets, {} bytes, {} failed", rule.name, count.packets, count.bytes, count.failed);
            },
            // When the rules are dropped, the programs are taken from the interface.
            ended = tokio::signal::ctrl_c() => return Ok(ended?),
        }
    }
}
