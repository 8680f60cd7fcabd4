//! The example `splice_cost`: each engine goes through its cycles, and every message arrives.

use crate::support::{on_worker, socket_service};

#[allow(dead_code, reason = "its main function is not called here")]
#[path = "../../examples/splice_cost.rs"]
mod example;

#[test]
fn each_engine_is_set_up_and_taken_down_again_and_again() {
    for engine in ["copy", "pipe", "socket", "packet", "responses"] {
        if engine == "socket" && !socket_service().is_loaded() {
            continue;
        }
        if ["packet", "responses"].contains(&engine) && !carrick_test::is_root() {
            continue;
        }
        let words = ["50", engine].map(str::to_owned);
        on_worker(async { example::run(&words).await.unwrap() });
    }
}

#[test]
fn mistakes_are_reported() {
    for (words, part) in [
        (["ten", "copy", "idle"], "invalid digit"),
        (["10", "fast", "idle"], "unknown engine `fast`"),
        (["10", "copy", "busy"], "idle, message or greeting"),
    ] {
        let error = on_worker(async { example::run(&words.map(str::to_owned)).await }).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
