//! The relay's process stands still for a while: bytes, ends and resets arrive meanwhile.

use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::{Scale, any_piece, each, magnitude, resets, segments};
use crate::testbed::namespace::Namespace;
use crate::torture::stage::Stage;

/// Most bytes of a direction.
const BYTES_MAX: u64 = 16 << 20;
/// How long connections are at work before the relay is stopped.
const BEFORE: Duration = Duration::from_millis(60);

/// Connections of three kinds, opened before: with many bytes, with few that end while the relay stands still, and such that
/// are reset then. Played several times.
pub async fn stop_and_go(stage: &Rc<Stage>, scale: Scale) {
    let still = scale.of(Duration::from_millis(400), Duration::from_secs(1));
    for _ in 0..scale.of(1, 4) {
        let stop = async {
            sleep(BEFORE).await;
            signal_all(stage.processes(), Signal::STOP);
            sleep(still).await;
            signal_all(stage.processes(), Signal::CONT);
        };
        let play = each(
            stage,
            scale.of(24, 48),
            48,
            move |stage, number| async move {
                let Some(mut pair) = stage.pair().await else {
                    return;
                };
                let chance = &mut pair.chance;
                let moment = BEFORE.mul_f64(chance.share()) + still.mul_f64(chance.share() / 2.0);
                match number % 3 {
                    0 => {
                        let bytes = [magnitude(chance, BYTES_MAX), magnitude(chance, BYTES_MAX)];
                        let pieces = [any_piece(chance).max(1000), any_piece(chance).max(1000)];
                        segments::converse(&stage, &pair, bytes, pieces).await;
                    }
                    1 => {
                        let bytes = [magnitude(chance, 100_000), magnitude(chance, 100_000)];
                        sleep(moment).await;
                        segments::converse(&stage, &pair, bytes, [1000, 1000]).await;
                    }
                    _ => resets::one(&stage, pair, moment).await,
                }
            },
        );
        tokio::join!(stop, play);
    }
}

/// Sends a signal to every process of the relay, if it has any.
fn signal_all(processes: Option<&Namespace>, signal: Signal) {
    let pids = processes.map(Namespace::processes);
    for pid in pids.and_then(Result::ok).unwrap_or_default() {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = kill_process(pid, signal);
        }
    }
}
