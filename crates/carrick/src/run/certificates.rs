//! Certificates whose files are replaced come into force without a reload.
use super::log_problems;
use crate::config::plan::{Plan, Tls};
use crate::context::live::Orders;
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
        let has_tls = |plan: &Plan| plan.listeners.iter().any(|listener| listener.tls.is_some());
        if !has_tls(&orders.borrow().live.plan) {
            return std::future::pending().await;
        }
        self.0.tick().await;
        follow(&orders.borrow().live.plan);
    }
}

fn follow(plan: &Plan) {
    for listener in &plan.listeners {
        let address = listener.address;
        let (found, is_new) = match listener.tls.as_ref().and_then(Tls::follow_files) {
            None => continue,
            Some(Ok(warnings)) => (warnings, true),
            Some(Err(errors)) => (errors, false),
        };
        let problems: Vec<_> = found.into_iter().map(|(_, problem)| problem).collect();
        log_problems(&problems);
        match is_new {
            true => tracing::info!("{address}: new certificates are in force"),
            false => tracing::error!("{address}: the previous certificates stay in force"),
        }
    }
}
