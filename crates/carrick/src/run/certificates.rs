//! Certificates whose files are replaced come into force without a reload.
use super::log_problems;
use crate::config::plan::Plan;
use crate::config::tls::{FromFiles, Tls, has_errors};
use crate::context::live::Orders;
use std::fmt::Display;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(2);

/// Looks at the files from time to time.
pub(super) struct Certificates(Interval);

impl Certificates {
    pub(super) fn new() -> Self {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self(ticks)
    }

    /// Waits, and follows the files of the plan in force; forever without TLS. Cancel-safe.
    pub(super) async fn due(&mut self, orders: &watch::Sender<Orders>) {
        let has_tls = |plan: &Plan| {
            let to_clients = plan.listeners.iter().any(|listener| listener.tls.is_some());
            to_clients || plan.server_tls().next().is_some()
        };
        if !has_tls(&orders.borrow().live.plan) {
            return std::future::pending().await;
        }
        self.0.tick().await;
        follow(&orders.borrow().live.plan);
    }
}

fn follow(plan: &Plan) {
    for listener in &plan.listeners {
        if let Some(tls) = &listener.tls {
            follow_one(&listener.address, tls);
        }
    }
    for tls in plan.server_tls() {
        follow_one(&tls.owner, &tls.files);
    }
}

fn follow_one<S: FromFiles>(whose: &dyn Display, tls: &Tls<S>) {
    let (is_new, found) = match tls.follow_files() {
        None => return,
        Some(Ok(found)) => (!has_errors(&found), found),
        Some(Err(errors)) => (false, errors),
    };
    let problems: Vec<_> = found.into_iter().map(|(_, problem)| problem).collect();
    log_problems(&problems);
    match is_new {
        true => tracing::info!("{whose}: new certificates are in force"),
        false => tracing::error!("{whose}: the previous certificates stay in force"),
    }
}
