//! Orders certificates by ACME, and renews them when they are old or the authority suggests it.
//!
//! A name's failures are kept in the storage before an attempt is made, so that no restart, crash or second process makes
//! attempts come faster than `schedule::wait` says. An attempt that a reload ends is no failure: it takes that back, and the
//! next one comes a minute later.
mod advice;
mod asking;
mod https;
mod identifier;
mod name;
mod order;
mod renewal_info;
mod schedule;
mod storage;
#[cfg(test)]
mod testing;

pub use storage::{check, make};

use super::state::{CertificateStatus, Certificates, ControlState, Running};
use crate::config::plan::AcmePlan;
use crate::config::problem::Severity;
use crate::resolver::Resolver;
use https::Https;
use name::Name;
use order::{Failure, KnownAccount, Wanted};
use renewal_info::{Kind, Round};
use schedule::{ACCOUNT_WAIT_MAX, Validity, WAIT_FIRST, WAIT_MAX};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use storage::{Failures, Storage};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;

/// Most orders at a time.
const ORDERS_MAX: usize = 4;

/// For an order as a whole.
const ORDER_MAX: Duration = Duration::from_secs(300);

/// The longest time between two looks at what is due: clocks are set, and machines sleep.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How soon a name is looked at again that another process orders.
const OTHERS_EVERY: Duration = Duration::from_secs(2);

/// The task that orders certificates, until dropped.
#[derive(Debug)]
pub struct Acme {
    plan: Option<Arc<AcmePlan>>,
    mark: Option<u32>,
    changed: Arc<Notify>,
    replaced: watch::Sender<()>,
    task: Option<JoinHandle<()>>,
}

impl Drop for Acme {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Acme {
    /// Orders what the plan has. Must be called within a runtime.
    pub fn start(running: &Running, resolver: &Resolver, state: &Arc<ControlState>) -> Self {
        Self::start_after(None, running, resolver, state)
    }

    /// The same, once the task `before` has ended.
    fn start_after(
        before: Option<JoinHandle<()>>,
        running: &Running,
        resolver: &Resolver,
        state: &Arc<ControlState>,
    ) -> Self {
        let plan = running.plan.acme.clone();
        let mark = running.plan.own_mark();
        let changed = Arc::new(Notify::new());
        let (replaced, is_replaced) = watch::channel(());
        let task = plan.as_ref().map(|acme| {
            let work = Work {
                plan: Arc::clone(acme),
                storage: Storage::of(acme),
                resolver: resolver.clone(),
                mark,
                replaced: is_replaced,
            };
            let orders = Orders::new(work, Arc::clone(state), Arc::clone(&changed));
            tokio::spawn(async move {
                if let Some(before) = before {
                    let _ = before.await;
                }
                // Replaced meanwhile: there is nothing to take back.
                if !orders.work.replaced.has_changed().unwrap_or(true) {
                    orders.run().await;
                }
            })
        });
        if plan.is_none() {
            state.change_certificates(Certificates::clear);
        }
        Self {
            plan,
            mark,
            changed,
            replaced,
            task,
        }
    }

    /// Follows a reload. An order of a plan that has not changed goes on.
    pub fn follow(&mut self, running: &Running, resolver: &Resolver, state: &Arc<ControlState>) {
        if self.plan == running.plan.acme && self.mark == running.plan.own_mark() {
            self.changed.notify_one();
        } else {
            // Fails if there is no task.
            let _ = self.replaced.send(());
            *self = Self::start_after(self.task.take(), running, resolver, state);
        }
    }
}

/// What an order needs.
#[derive(Debug, Clone)]
struct Work {
    plan: Arc<AcmePlan>,
    storage: Storage,
    resolver: Resolver,
    mark: Option<u32>,
    /// Changes when a reload has other orders made instead.
    replaced: watch::Receiver<()>,
}

/// How an attempt ended.
#[derive(Debug)]
enum Ended {
    /// Another process is at it.
    Locked,
    /// There was nothing to do any more, or not yet; or a reload has ended it.
    Idle,
    /// There is a new certificate.
    Issued,
    /// There is none. If it is no use to try for other names: for how long.
    Failed(Option<Duration>),
}

struct Orders {
    work: Work,
    state: Arc<ControlState>,
    changed: Arc<Notify>,
    names: BTreeMap<String, Name>,
    /// Until then the authority is left alone.
    paused_until: Instant,
    under_way: JoinSet<(String, Ended)>,
    /// The round of questions about renewals that is under way, at most one.
    asking: JoinSet<Round>,
    /// What was said last about an authority that suggests nothing for any name.
    silence: Option<Kind>,
}

impl Orders {
    fn new(work: Work, state: Arc<ControlState>, changed: Arc<Notify>) -> Self {
        Self {
            work,
            state,
            changed,
            names: BTreeMap::new(),
            paused_until: Instant::now(),
            under_way: JoinSet::new(),
            asking: JoinSet::new(),
            silence: None,
        }
    }

    async fn run(mut self) {
        self.read();
        loop {
            let now = SystemTime::now();
            let wake = self.start_due(now).min(self.start_asking(now));
            self.publish();
            let wait = wake.duration_since(now).unwrap_or_default().min(LOOK_EVERY);
            tokio::select! {
                // First: what is published from then on is of the new plan.
                biased;
                Ok(()) = self.work.replaced.changed() => break,
                Some(ended) = self.under_way.join_next() => match ended {
                    Ok((name, ended)) => self.ended(&name, &ended),
                    Err(error) => self.crashed(&error),
                },
                Some(round) = self.asking.join_next() => self.heard(round.unwrap_or_else(asking::unexpected)),
                () = self.changed.notified() => {
                    self.paused_until = Instant::now();
                    self.read();
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
        // They give up, too.
        while self.under_way.join_next().await.is_some() {}
    }

    /// Reads what is kept.
    fn read(&mut self) {
        for name in &self.work.plan.names {
            let known = self.names.get(name);
            if known.is_none_or(|known| known.task.is_none()) {
                let read = Name::read(name, &self.work.storage, known);
                self.names.insert(name.clone(), read);
            }
        }
    }

    /// Starts what is due; when something will be.
    fn start_due(&mut self, now: SystemTime) -> SystemTime {
        let mut wake = now + LOOK_EVERY;
        for (text, name) in &mut self.names {
            // The end of the round of questions wakes, too.
            if name.task.is_some() || name.awaits_advice(now) {
                continue;
            }
            let next = name.next(now, self.paused_until);
            if next > now {
                wake = wake.min(next);
            } else if self.under_way.len() < ORDERS_MAX {
                let (work, text) = (self.work.clone(), text.clone());
                let state = Arc::clone(&self.state);
                let known = name.clone();
                let order = self.under_way.spawn(async move {
                    let ended = Box::pin(attempt(&work, &text, &known, &state)).await;
                    (text, ended)
                });
                name.task = Some(order.id());
            }
        }
        wake
    }

    fn ended(&mut self, text: &str, ended: &Ended) {
        if let Ended::Locked = ended {
            // What the other process has written so far says nothing yet.
            if let Some(name) = self.names.get_mut(text) {
                name.task = None;
                name.later = Some(Instant::now() + OTHERS_EVERY);
            }
            return;
        }
        let (before, now) = (self.names.get(text), SystemTime::now());
        let is_suggested = before.is_some_and(|before| before.is_due_by_suggestion(now));
        let mut name = Name::read(text, &self.work.storage, before);
        match ended {
            Ended::Locked | Ended::Idle => {}
            Ended::Issued => {
                if is_suggested {
                    name.advice = name.advice.of_next(Some(now));
                }
                self.put_into_force(text);
            }
            Ended::Failed(pause) => {
                // Where the storage cannot be written, the name has no failures.
                name.later = Some(Instant::now() + WAIT_FIRST);
                let until = Instant::now() + pause.unwrap_or_default();
                self.paused_until = self.paused_until.max(until);
            }
        }
        self.names.insert(text.to_owned(), name);
    }

    /// An order that panics has failed like others.
    fn crashed(&mut self, error: &JoinError) {
        tracing::error!("an order failed unexpectedly: {error}; please report it");
        self.state.metrics.acme_failed.add(1);
        let found = (self.names.iter()).find(|(_, name)| name.task == Some(error.id()));
        if let Some(text) = found.map(|(text, _)| text.clone()) {
            self.ended(&text, &Ended::Failed(None));
        }
    }

    /// Workers have the new certificate at once; other processes follow its file.
    fn put_into_force(&self, name: &str) {
        for listener in &self.state.running.load().plan.listeners {
            let tls = listener.tls.as_ref();
            let own = tls.filter(|tls| tls.settings.acme_names().any(|own| own == name));
            let Some(Ok(found) | Err(found)) = own.and_then(|tls| tls.follow_now()) else {
                continue;
            };
            let errors = found
                .iter()
                .filter(|(_, one)| one.severity == Severity::Error);
            for (_, problem) in errors {
                tracing::error!("{}: {problem}", listener.address);
            }
        }
    }

    /// Tells admin.
    fn publish(&self) {
        let now = SystemTime::now();
        let certificates = self.names.iter().map(|(text, name)| {
            let status = CertificateStatus {
                not_after: (name.certificate.as_ref()).map(|one| one.validity[1]),
                next: (name.task.is_none()).then(|| name.next(now, self.paused_until)),
                failures: name.failures.failures,
                error: Some(name.failures.error.clone()).filter(|error| !error.is_empty()),
            };
            (text.clone(), status)
        });
        let certificates: Certificates = certificates.collect();
        self.state
            .change_certificates(|known| *known = certificates);
    }
}

/// Orders a certificate, unless that is not to be done any more.
async fn attempt(work: &Work, name: &str, before: &Name, state: &ControlState) -> Ended {
    let unwritable = |error: &std::io::Error| {
        tracing::error!("{name}: cannot write to `storage` of [acme]: {error}");
        Ended::Failed(Some(WAIT_FIRST))
    };
    let _lock = match work.storage.lock(name) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ended::Locked,
        Err(error) => return unwritable(&error),
    };
    // Another process may have been faster.
    let now = SystemTime::now();
    let known = Name::read(name, &work.storage, Some(before));
    if known.due(now) > now {
        return Ended::Idle;
    }
    let account = match order::account(&work.storage) {
        Ok(None) => return Ended::Locked,
        Ok(Some(account)) => Ok(account),
        Err(failure) => Err(failure),
    };
    let mut number = known.failures.failures.saturating_add(1);
    let mut failures = Failures {
        failures: number,
        not_before: seconds(now + schedule::wait(number, None, random())),
        error: "the order was interrupted".to_owned(),
    };
    if let Err(error) = work.storage.keep_failures(name, &failures) {
        return unwritable(&error);
    }
    let mut replaced = work.replaced.clone();
    let (result, asked_wait) = tokio::select! {
        biased;
        Ok(()) = replaced.changed() => {
            take_back(work, name, &known.failures);
            return Ended::Idle;
        }
        answer = ask(work, (name, &known), account) => answer,
    };
    let (why, ended) = match result {
        Ok(validity) => {
            state.metrics.acme_issued.add(1);
            let [from, until] = validity.map(humantime::format_rfc3339_seconds);
            tracing::info!("{name}: a new certificate, until {until}");
            if schedule::renewal(validity, 1.0) > SystemTime::now() {
                work.storage.forget_failures(name);
                return Ended::Issued;
            }
            let why = format!(
                "the new certificate is to be renewed already, since it is valid from {from} until {until}; set this machine's clock, or have the authority issue certificates for longer"
            );
            (why, Ended::Issued)
        }
        Err(failure) => {
            state.metrics.acme_failed.add(1);
            // A short wait is about all of the account's orders, and nothing against this name.
            let is_short = asked_wait.is_some_and(|wait| wait <= ACCOUNT_WAIT_MAX);
            let is_limited = failure.is_limit && is_short;
            if is_limited {
                number = known.failures.failures;
            }
            let pause = WAIT_FIRST.max(asked_wait.unwrap_or_default());
            let pause = (failure.is_general || is_limited).then_some(pause.min(WAIT_MAX));
            (failure.why, Ended::Failed(pause))
        }
    };
    let wait = schedule::wait(number, asked_wait, random());
    failures.failures = number;
    failures.not_before = seconds(SystemTime::now() + wait);
    failures.error = why;
    if let Err(error) = work.storage.keep_failures(name, &failures) {
        tracing::error!("{name}: cannot write to `storage` of [acme]: {error}");
    }
    let validity = known.certificate.map(|one| one.validity);
    tell(work, name, (&failures, wait), validity, &ended);
    ended
}

/// Keeps what failed before an attempt instead of the attempt. The next one waits nevertheless: the authority may have counted
/// this one, and reloads may come fast.
fn take_back(work: &Work, name: &str, before: &Failures) {
    let wait = seconds(SystemTime::now() + WAIT_FIRST);
    let failures = Failures {
        not_before: before.not_before.max(wait),
        ..before.clone()
    };
    if let Err(error) = work.storage.keep_failures(name, &failures) {
        tracing::error!("{name}: cannot write to `storage` of [acme]: {error}");
    }
}

/// The certificate's validity, once it is kept; and how long the authority asked to be left alone.
async fn ask(
    work: &Work,
    (name, known): (&str, &Name),
    account: Result<KnownAccount, Failure>,
) -> (Result<Validity, Failure>, Option<Duration>) {
    let none = || Failure::general("there is no challenge that a listener can answer");
    let challenge = schedule::challenge(&work.plan.challenges, known.failures.failures);
    let challenge = challenge.ok_or_else(none);
    let https = Https::new(&work.plan, work.resolver.clone(), work.mark);
    let (account, challenge, https) = match (account, challenge, https) {
        (Ok(account), Ok(challenge), Ok(https)) => (account, challenge, https),
        (Err(failure), _, _) | (_, Err(failure), _) => return (Err(failure), None),
        (_, _, Err(why)) => return (Err(Failure::general(why)), None),
    };
    let wanted = Wanted {
        name,
        challenge,
        replaces: known.certificate.as_ref().and_then(|one| one.id.as_ref()),
    };
    let order = order::order(&work.plan, &work.storage, &https, wanted, account);
    let result = match tokio::time::timeout(ORDER_MAX, Box::pin(order)).await {
        Ok(Ok(pem)) => (work.storage.keep_certificate(name, &pem)).map_err(Failure::general),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::general("the order took too long")),
    };
    (result, https.asked_wait())
}

fn tell(
    work: &Work,
    name: &str,
    (failures, wait): (&Failures, Duration),
    before: Option<Validity>,
    ended: &Ended,
) {
    let (directory, error) = (&work.plan.directory, &failures.error);
    let what = match (ended, before) {
        (Ended::Issued, _) => error.clone(),
        (_, Some([_, until])) => {
            let until = humantime::format_rfc3339_seconds(until);
            format!(
                "no certificate from {directory}: {error}; the certificate until {until} stays in force"
            )
        }
        (_, None) => {
            format!("no certificate from {directory}: {error}; clients that ask for it are refused")
        }
    };
    let minutes = wait.as_secs().div_ceil(60);
    let file = work.storage.failures_path(name);
    tracing::error!(
        "{name}: {what}; the next attempt is in {minutes} min, or after `carrick reload` if {} is removed",
        file.display()
    );
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// From 0 to 1.
fn random() -> f64 {
    let mut bytes = [0; 4];
    // Without random numbers there is no TLS either.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_that_panics_is_tried_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let mut orders = testing::orders(folder.path());
        orders.read();
        let order = orders.under_way.spawn(async { panic!("on purpose") });
        orders.names.get_mut("a.example").unwrap().task = Some(order.id());
        let error = orders.under_way.join_next().await.unwrap().unwrap_err();
        orders.crashed(&error);
        assert_eq!(orders.state.metrics.acme_failed.get(), 1);
        // It is free again, but not at once.
        let now = SystemTime::now();
        let wake = orders.start_due(now);
        assert!(wake > now + WAIT_FIRST / 2);
        assert!(orders.names["a.example"].task.is_none());
    }

    #[tokio::test]
    async fn an_order_that_a_reload_ends_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let earlier = Failures {
            failures: 2,
            not_before: 7,
            error: "no".to_owned(),
        };
        for before in [Failures::default(), earlier] {
            let mut orders = testing::orders(folder.path());
            let (storage, state) = (orders.work.storage.clone(), Arc::clone(&orders.state));
            let (replaced, is_replaced) = watch::channel(());
            orders.work.replaced = is_replaced;
            let kept = match before.failures {
                0 => Ok(()),
                _ => storage.keep_failures("a.example", &before),
            };
            kept.unwrap();
            replaced.send(()).unwrap();
            // It begins, and finds that it is replaced.
            orders.run().await;
            let lock = folder.path().join("a.example.lock");
            std::fs::remove_file(lock).unwrap();
            let after = storage.failures("a.example");
            assert_eq!(
                (after.failures, &after.error),
                (before.failures, &before.error)
            );
            // The next one waits.
            assert!(after.not_before > seconds(SystemTime::now()) + 30);
            assert_eq!(state.metrics.acme_failed.get(), 0);
        }
    }
}
