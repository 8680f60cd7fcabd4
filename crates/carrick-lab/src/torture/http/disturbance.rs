//! What befalls carrick in the middle of a run: it is stopped for moments, as by a busy machine, and told to read its configuration again.

use std::convert::Infallible;
use std::time::Duration;

use rustix::process::Signal;

use crate::load::chance::Chance;
use crate::testbed::service::Service;

/// Most milliseconds between two stops, and of one. A packet crosses the test bed in a hundredth of one.
const BETWEEN_MS: f64 = 30.0;
const STOPPED_MS: f64 = 12.0;
/// Of so many stops, one is followed by a reload.
const STOPS_FOR_A_RELOAD: u64 = 150;

/// Goes on until it is dropped; then carrick may be stopped.
pub async fn disturb(carrick: &Service, seed: u64) -> Infallible {
    let mut chance = Chance::new(seed, 2);
    loop {
        // Short ones are the most: what goes wrong, goes wrong within microseconds.
        let between = BETWEEN_MS * chance.share().powi(2);
        tokio::time::sleep(Duration::from_secs_f64(between / 1e3)).await;
        carrick.signal(Signal::STOP);
        let stopped = STOPPED_MS * chance.share().powi(3);
        tokio::time::sleep(Duration::from_secs_f64(stopped / 1e3)).await;
        carrick.signal(Signal::CONT);
        if chance.below(STOPS_FOR_A_RELOAD) == 0 {
            carrick.signal(Signal::HUP);
        }
    }
}
