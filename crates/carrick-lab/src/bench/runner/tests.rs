//! Tests of the judgement over a run.

use super::*;
use crate::bench::works::named;

#[test]
fn new_connections_must_be_new() {
    let close = named("switch-close-1k").unwrap();
    assert_eq!(connection_fault(&close, 1000, 1016), None);
    assert!(connection_fault(&close, 1000, 16).is_some_and(|fault| fault.contains("only 16")));
    let keep_alive = named("switch-1k").unwrap();
    assert_eq!(connection_fault(&keep_alive, 1000, 16), None);
}
