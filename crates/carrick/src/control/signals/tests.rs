//! Signals that this process sends to itself.
use super::*;
use rustix::process::{Signal, getpid, kill_process};

#[tokio::test]
async fn each_signal_is_its_order() {
    let mut signals = Signals::catch().unwrap();
    let table = [
        (Signal::TERM, SignalOrder::Drain),
        (Signal::INT, SignalOrder::Drain),
        (Signal::HUP, SignalOrder::Reload),
        (Signal::USR1, SignalOrder::ReopenLogs),
    ];
    for (signal, order) in table {
        kill_process(getpid(), signal).unwrap();
        assert_eq!(signals.next().await, order, "{signal:?}");
    }
}
