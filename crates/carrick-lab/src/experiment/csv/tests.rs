//! Tests of the comma-separated values.

use super::*;
use crate::report::fixture;

#[test]
fn every_sample_has_a_line_and_so_has_what_is_missing() {
    let at = [("clients", 5.0)];
    let cells = [
        fixture::cell("w", "a", &at, "time_ms", &[1.5, 2.0]),
        fixture::waiting("w", "b", &[], "the cache, and \"more\""),
    ];
    let text = of(&cells.iter().collect::<Vec<_>>());
    assert_eq!(
        text,
        "workload,series,clients,sample,time_ms,waiting_for,failure\r\n\
         w,a,5,1,1.5,,\r\nw,a,5,2,2,,\r\nw,b,,,,\"the cache, and \"\"more\"\"\",\r\n"
    );
}
