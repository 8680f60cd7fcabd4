//! The line format of the supervisor: it reads what carrick writes, and nothing else.
use super::*;
use std::process::{Command, Stdio};

fn request() -> ExclusionRequest {
    ExclusionRequest {
        port: 3130,
        pair: Pair {
            client: "10.1.0.0/24".parse().unwrap(),
            server: "192.0.2.0/24".parse().unwrap(),
        },
        seconds: 60,
    }
}

#[test]
fn what_is_written_is_read() {
    let six = Pair {
        client: "2001:db8:1234::/48".parse().unwrap(),
        server: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127"
            .parse()
            .unwrap(),
    };
    for request in [
        request(),
        ExclusionRequest {
            seconds: 0,
            ..request()
        },
        ExclusionRequest {
            pair: six,
            port: u16::MAX,
            seconds: SECONDS_MAX,
        },
    ] {
        let line = request.to_string();
        assert!(line.len() < LINE_BYTES_MAX);
        assert_eq!(ExclusionRequest::parse(&line), Some(request));
    }
}

#[test]
fn nothing_else_is_read() {
    for line in [
        "",
        "leave-out",
        "leave-out 3130 10.1.0.0/24 192.0.2.0/24",
        "leave-out 3130 10.1.0.0/24 192.0.2.0/24 60 60",
        "leave-out 3130 10.1.0.0/24  192.0.2.0/24 60",
        "leave-out 3130 10.1.0.0/24 192.0.2.0/24 60 ",
        "leave-out 03130 10.1.0.0/24 192.0.2.0/24 60",
        "leave-out 3130 10.1.0.1/24 192.0.2.0/24 60",
        "leave-out 3130 10.1.0.0/24 2001:db8::/48 60",
        "leave-out 3130 10.1.0.0/24 192.0.2.0/24 86401",
        "leave-out 3130 10.1.0.0/24 192.0.2.0/24 -1",
        "leave-out 3130 10.1.0.0/24 192.0.2.0/33 60",
        "leave-out 70000 10.1.0.0/24 192.0.2.0/24 60",
        "leave-out 3130 10.1.0.0/24}; flush ruleset; { 192.0.2.0/24 60",
        "flush ruleset",
    ] {
        assert_eq!(ExclusionRequest::parse(line), None, "{line}");
    }
}

#[test]
fn a_full_pipe_does_not_block_and_a_closed_one_is_an_error() {
    let mut sleeper = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let line = SupervisorPipe::new(sleeper.stdin.take().unwrap()).unwrap();
    let ask = || line.leave_out(3130, request().pair, Duration::from_secs(1));
    let refused = (0..1_000_000).find_map(|_| ask().err()).unwrap();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(ask().unwrap_err().kind(), io::ErrorKind::NotConnected);
    line.close();
    assert_eq!(ask().unwrap_err().kind(), io::ErrorKind::NotConnected);
    let too_long = line.leave_out(3130, request().pair, Duration::from_secs(SECONDS_MAX + 1));
    assert_eq!(too_long.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}
