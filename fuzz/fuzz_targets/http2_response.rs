//! Runs `checks::http2_response` on whatever the fuzzer makes up.
#![no_main]

#[path = "../../crates/carrick-logic/tests/suite/checks/mod.rs"]
#[allow(dead_code, reason = "each target uses one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::http2_response(bytes));
