//! The log from worker to file: expected lines, hostile bytes, full queues.
mod formats;
mod writing;

use super::*;

fn record() -> Record<'static> {
    Record {
        client: IpAddr::from([192, 0, 2, 7]),
        client_port: 51234,
        user: Some("anna"),
        method: b"GET",
        target: b"/images/a.png?x=1",
        version: "HTTP/1.1",
        status: 200,
        bytes_received: 0,
        bytes_sent: 65536,
        referer: b"http://www.example.org/",
        user_agent: b"curl/8.5.0",
        job: Job::Switch,
        upstream: Some("images"),
        server: Some(SocketAddr::from(([10, 0, 0, 11], 80))),
        tls: None,
        destination: None,
        engine: Some("pipe"),
        connect: Some(Duration::from_micros(213)),
        first_byte: Some(Duration::from_micros(1_502)),
        total: Duration::from_micros(61_002_030),
        reused: false,
        server_version: None,
        cache: None,
        paths: None,
        ended: "complete",
    }
}
