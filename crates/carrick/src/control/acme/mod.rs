//! Orders certificates by ACME, and renews them.
//!
//! A name's failures are kept in the storage before an attempt is made, so that no restart, crash or second process makes
//! attempts come faster than `schedule::wait` says.
mod https;
mod order;
mod schedule;
mod storage;

pub use storage::{check, make};

use super::state::{CertificateStatus, Certificates, ControlState, Running};
use crate::config::plan::{AcmePlan, ChallengeKind};
use crate::resolver::Resolver;
use https::Https;
use order::Failure;
use schedule::Validity;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use storage::{Failures, Storage};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

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
    changed: Arc<Notify>,
    task: Option<AbortHandle>,
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
        let plan = running.plan.acme.clone();
        let changed = Arc::new(Notify::new());
        let task = plan.as_ref().map(|acme| {
            let work = Work {
                plan: Arc::clone(acme),
                storage: Storage::of(acme),
                resolver: resolver.clone(),
                mark: running.plan.own_mark(),
            };
            let orders = Orders::new(work, Arc::clone(state), Arc::clone(&changed));
            tokio::spawn(orders.run()).abort_handle()
        });
        if plan.is_none() {
            state.change_certificates(Certificates::clear);
        }
        Self {
            plan,
            changed,
            task,
        }
    }

    /// Follows a reload. An order of a plan that has not changed goes on.
    pub fn follow(&mut self, running: &Running, resolver: &Resolver, state: &Arc<ControlState>) {
        if self.plan == running.plan.acme {
            self.changed.notify_one();
        } else {
            *self = Self::start(running, resolver, state);
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
}

/// How an attempt ended.
enum Ended {
    /// Another process is at it.
    Locked,
    /// There was nothing to do any more, or not yet.
    Idle,
    /// There is a new certificate.
    Issued,
    /// There is none; whether it is no use to try for other names.
    Failed(bool),
}

/// A name whose certificate is ordered.
struct Name {
    validity: Option<Validity>,
    failures: Failures,
    /// For the time of the renewal, from 0 to 1.
    chance: f64,
    /// Not before; another process is at it, say.
    later: Option<SystemTime>,
    is_under_way: bool,
}

impl Name {
    fn read(name: &str, storage: &Storage) -> Self {
        Self {
            validity: storage.certificate(name),
            failures: storage.failures(name),
            chance: random(),
            later: None,
            is_under_way: false,
        }
    }

    /// When the certificate is ordered.
    fn next(&self) -> SystemTime {
        let due = self.validity.map_or(SystemTime::UNIX_EPOCH, |validity| {
            schedule::renewal(validity, self.chance)
        });
        due.max(self.failures.not_before())
    }
}

struct Orders {
    work: Work,
    state: Arc<ControlState>,
    changed: Arc<Notify>,
    names: BTreeMap<String, Name>,
    /// Until then the authority is left alone.
    paused_until: SystemTime,
    under_way: JoinSet<(String, Ended)>,
}

impl Orders {
    fn new(work: Work, state: Arc<ControlState>, changed: Arc<Notify>) -> Self {
        Self {
            work,
            state,
            changed,
            names: BTreeMap::new(),
            paused_until: SystemTime::UNIX_EPOCH,
            under_way: JoinSet::new(),
        }
    }

    async fn run(mut self) {
        self.read();
        loop {
            let now = SystemTime::now();
            let wake = self.start_due(now);
            self.publish();
            let wait = wake.duration_since(now).unwrap_or_default().min(LOOK_EVERY);
            tokio::select! {
                Some(ended) = self.under_way.join_next() => match ended {
                    Ok((name, ended)) => self.ended(&name, &ended),
                    Err(error) => tracing::error!("an order failed unexpectedly: {error}; please report it"),
                },
                () = tokio::time::sleep(wait) => {}
                () = self.changed.notified() => self.read(),
            }
        }
    }

    /// Reads what is kept.
    fn read(&mut self) {
        for name in &self.work.plan.names {
            let known = self.names.get(name);
            if !known.is_some_and(|known| known.is_under_way) {
                let read = Name::read(name, &self.work.storage);
                self.names.insert(name.clone(), read);
            }
        }
    }

    /// Starts what is due; when something will be.
    fn start_due(&mut self, now: SystemTime) -> SystemTime {
        let mut wake = now + LOOK_EVERY;
        for (text, name) in &mut self.names {
            if name.is_under_way {
                continue;
            }
            let next = name.next().max(self.paused_until);
            let next = next.max(name.later.unwrap_or(SystemTime::UNIX_EPOCH));
            if next > now {
                wake = wake.min(next);
            } else if self.under_way.len() < ORDERS_MAX {
                name.is_under_way = true;
                let (work, text) = (self.work.clone(), text.clone());
                let state = Arc::clone(&self.state);
                let chance = name.chance;
                self.under_way.spawn(async move {
                    let ended = Box::pin(attempt(&work, &text, chance, &state)).await;
                    (text, ended)
                });
            }
        }
        wake
    }

    fn ended(&mut self, text: &str, ended: &Ended) {
        if let Ended::Locked = ended {
            // What the other process has written so far says nothing yet.
            if let Some(name) = self.names.get_mut(text) {
                name.is_under_way = false;
                name.later = SystemTime::now().checked_add(OTHERS_EVERY);
            }
            return;
        }
        let name = Name::read(text, &self.work.storage);
        match ended {
            Ended::Locked | Ended::Idle => {}
            Ended::Issued => self.put_into_force(text),
            Ended::Failed(is_general) => {
                if *is_general {
                    // Where the storage cannot be written, the name has no failures.
                    let soonest = SystemTime::now() + LOOK_EVERY;
                    self.paused_until = name.failures.not_before().max(soonest);
                }
            }
        }
        self.names.insert(text.to_owned(), name);
    }

    /// Workers have the new certificate at once; other processes follow its file.
    fn put_into_force(&self, name: &str) {
        for listener in &self.state.running.load().plan.listeners {
            let tls = listener.tls.as_ref();
            let own = tls.filter(|tls| tls.settings.acme_names().any(|own| own == name));
            if let Some(Err(faults)) = own.map(|tls| tls.follow_now()) {
                for (_, problem) in faults {
                    tracing::error!("{}: {problem}", listener.address);
                }
            }
        }
    }

    /// Tells admin.
    fn publish(&self) {
        let certificates = self.names.iter().map(|(text, name)| {
            let status = CertificateStatus {
                not_after: name.validity.map(|[_, until]| until),
                next: (!name.is_under_way).then(|| name.next()),
                failures: name.failures.failures,
                error: (name.failures.failures > 0).then(|| name.failures.error.clone()),
            };
            (text.clone(), status)
        });
        let certificates: Certificates = certificates.collect();
        self.state
            .change_certificates(|known| *known = certificates);
    }
}

/// Orders a certificate, unless that is not to be done any more.
async fn attempt(work: &Work, name: &str, chance: f64, state: &ControlState) -> Ended {
    let _lock = match work.storage.lock(name) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ended::Locked,
        Err(error) => {
            tracing::error!("{name}: cannot write to `storage` of [acme]: {error}");
            return Ended::Failed(true);
        }
    };
    // Another process may have been faster.
    let now = SystemTime::now();
    let mut known = Name::read(name, &work.storage);
    known.chance = chance;
    if known.next() > now {
        return Ended::Idle;
    }
    let Some(challenge) = schedule::challenge(&work.plan.challenges, known.failures.failures)
    else {
        return Ended::Failed(true);
    };
    let mut failures = Failures {
        failures: known.failures.failures.saturating_add(1),
        not_before: seconds(now + schedule::wait(known.failures.failures + 1, None, random())),
        error: "the order was interrupted".to_owned(),
    };
    if let Err(error) = work.storage.keep_failures(name, &failures) {
        tracing::error!("{name}: cannot write to `storage` of [acme]: {error}");
        return Ended::Failed(true);
    }
    let (result, asked_wait) = ask(work, name, challenge).await;
    let failure = match result {
        Ok(validity) => {
            work.storage.forget_failures(name);
            state.metrics.acme_issued.add(1);
            let until = humantime::format_rfc3339_seconds(validity[1]);
            tracing::info!("{name}: a new certificate, until {until}");
            return Ended::Issued;
        }
        Err(failure) => failure,
    };
    state.metrics.acme_failed.add(1);
    let wait = schedule::wait(failures.failures, asked_wait, random());
    failures.not_before = seconds(SystemTime::now() + wait);
    failures.error = failure.why;
    if let Err(error) = work.storage.keep_failures(name, &failures) {
        tracing::error!("{name}: cannot write to `storage` of [acme]: {error}");
    }
    tell(work, name, (&failures, wait), known.validity);
    Ended::Failed(failure.is_general)
}

/// The certificate's validity, once it is kept; and how long the authority asked to be left alone.
async fn ask(
    work: &Work,
    name: &str,
    challenge: ChallengeKind,
) -> (Result<Validity, Failure>, Option<Duration>) {
    let https = match Https::new(&work.plan, work.resolver.clone(), work.mark) {
        Ok(https) => https,
        Err(why) => return (Err(Failure::general(why)), None),
    };
    let order = order::order(&work.plan, &work.storage, &https, (name, challenge));
    let result = match tokio::time::timeout(ORDER_MAX, order).await {
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
) {
    let (directory, error) = (&work.plan.directory, &failures.error);
    let stays = match before {
        Some([_, until]) => {
            let until = humantime::format_rfc3339_seconds(until);
            format!("the certificate until {until} stays in force")
        }
        None => "clients that ask for it are refused".to_owned(),
    };
    let minutes = wait.as_secs().div_ceil(60);
    let file = work.storage.failures_path(name);
    tracing::error!(
        "{name}: no certificate from {directory}: {error}; {stays}; the next attempt is in {minutes} min, or after `carrick reload` if {} is removed",
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
