//! Tests of reading what h2load says.

use super::*;

const SAID: &str = "starting benchmark...
finished in 2.00s, 45678.50 req/s, 49.10MB/s
requests: 91357 total, 92357 started, 91357 done, 91350 succeeded, 7 failed, 7 errored, 0 timeout
status codes: 91350 2xx, 0 3xx, 3 4xx, 4 5xx
traffic: 98.21MB (102983102) total, 1.05MB (1100000) headers (space savings 94.00%), 90.00MB (94371840) data
                     min         max         mean         sd        +/- sd
time for request:      735us     20.17ms      2.18ms      1.02ms    90.12%
time for connect:     3.12ms      9.80ms      5.00ms      2.00ms    60.00%
";

#[test]
fn a_report_is_read() {
    let measured = parse(SAID, 2).unwrap();
    assert_eq!((measured.requests, measured.bytes), (91_350, 102_983_102));
    assert_eq!((measured.errors.read, measured.errors.status), (7, 7));
    assert!((measured.latency_us.p50 - 2180.0).abs() < 0.1);
    assert!((measured.latency_us.max - 20_170.0).abs() < 0.1);
}

#[test]
fn what_is_no_report_is_not_read() {
    assert!(parse("h2load: unrecognized option", 2).is_none());
    assert!(parse(&SAID.replace("2.18ms", "-"), 2).is_none());
}
