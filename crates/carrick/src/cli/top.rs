//! `carrick top`: shows the activity of a running carrick through admin, on a terminal or as plain text.
mod line;
mod live;
mod page;
mod rates;
mod snapshot;
mod table;
mod terminal;
mod text;

use super::admin::{Failed, address, finish};
use crate::cli::args::{FAILED, FINE, TopArgs};
use live::Order;
use page::{Room, View, page};
use rates::Rates;
use snapshot::Snapshot;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Instant;

/// The size of a plain-text report: unlimited width, limited number of tunnels.
const REPORT: Room = Room {
    width: usize::MAX,
    height: usize::MAX,
    tunnels_max: 50,
};

/// Watches a running carrick.
#[must_use]
pub fn run(arguments: &TopArgs) -> ExitCode {
    watch(arguments).unwrap_or_else(|failed| finish(Err(failed)))
}

fn watch(arguments: &TopArgs) -> Result<ExitCode, Failed> {
    let order = Order {
        address: address(&arguments.admin)?,
        interval: arguments.interval,
        sort: arguments.sort,
        is_utf8: terminal::is_utf8(|name| std::env::var(name).ok()),
        since: Instant::now(),
    };
    let first = Snapshot::ask(order.address, order.since)?;
    let reports = arguments.reports.or(arguments.once.then_some(1));
    if reports.is_none() && terminal::is_there() {
        return live::run(&order, first);
    }
    Ok(print(&order, first, reports.unwrap_or(u64::MAX)))
}

/// Prints reports in plain text, separated by empty lines: `reports` of them, or until standard output closes.
fn print(order: &Order, mut last: Snapshot, reports: u64) -> ExitCode {
    let mut code = FINE;
    for number in 0..reports {
        std::thread::sleep(order.interval);
        let text = match Snapshot::ask(order.address, order.since) {
            Ok(snapshot) => {
                code = FINE;
                let rates = Rates::between(&last, &snapshot);
                last = snapshot;
                report(order, rates.as_ref())
            }
            Err(Failed::Because(why)) => {
                code = FAILED;
                let _ = writeln!(anstream::stderr().lock(), "carrick: {why}");
                continue;
            }
            Err(Failed::Configuration) => continue,
        };
        let gap = if number > 0 { "\n" } else { "" };
        let mut out = io::stdout().lock();
        if write!(out, "{gap}{text}")
            .and_then(|()| out.flush())
            .is_err()
        {
            break;
        }
    }
    ExitCode::from(code)
}

fn report(order: &Order, rates: Option<&Rates>) -> String {
    let view = View {
        address: order.address,
        rates,
        trouble: None,
        is_paused: false,
        sort: order.sort,
        interval: order.interval,
        // The same output for scripts in every locale.
        is_utf8: false,
        has_keys: false,
    };
    let lines = page(&view, REPORT);
    lines.into_iter().map(|line| line.text + "\n").collect()
}
