//! What carrick's metrics say about engines.

use super::*;

const METRICS: &str = "HTTP/1.0 200 OK\r\n\r\n# HELP carrick_splice_bytes Bytes moved, by engine.\n\
    carrick_splice_bytes_total{engine=\"copy\"} 1234\n\
    carrick_splice_bytes_total{engine=\"socket\"} 98765432109\n\
    carrick_splices_total{engine=\"pipe\"} 7\n";

#[test]
fn the_bytes_of_an_engine_are_found() {
    assert_eq!(moved_bytes(METRICS, "copy"), Some(1234.0));
    assert_eq!(moved_bytes(METRICS, "socket"), Some(98_765_432_109.0));
    assert_eq!(moved_bytes(METRICS, "pipe"), None);
    assert_eq!(all_moved_bytes(METRICS), 98_765_433_343.0);
}

#[test]
fn engines_that_carry_everything_need_not_be_asked() {
    assert!(!must_be_shown("copy") && !must_be_shown("pipe") && !must_be_shown("auto"));
    assert!(must_be_shown("socket") && must_be_shown("packet"));
}
