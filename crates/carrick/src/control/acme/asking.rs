//! Asks the authority when certificates are to be renewed: rounds of questions, one at a time.
use super::advice::News;
use super::https::Https;
use super::name::Name;
use super::renewal_info::{self, Kind, QUESTIONS_MAX, Question, Round, Silence, Suggestion};
use super::{LOOK_EVERY, Orders, random};
use std::time::{Duration, SystemTime};
use tokio::task::JoinError;
use tokio::time::Instant;

impl Orders {
    /// Starts a round of questions about the certificates for which it is time; when it will be for others.
    pub(super) fn start_asking(&mut self, now: SystemTime) -> SystemTime {
        let mut wake = now + LOOK_EVERY;
        let questions = match self.asking.is_empty() {
            true => self.questions(now, &mut wake),
            false => Vec::new(),
        };
        if !questions.is_empty() {
            let work = self.work.clone();
            self.asking.spawn(async move {
                match Https::new(&work.plan, work.resolver, work.mark) {
                    Ok(https) => renewal_info::ask(&https, &work.plan.directory, questions).await,
                    Err(why) => Round::without_answers(Silence::new(Kind::Lasting, why)),
                }
            });
        }
        wake
    }

    fn questions(&mut self, now: SystemTime, wake: &mut SystemTime) -> Vec<Question> {
        let mut questions = Vec::new();
        let pause = self.paused_until.saturating_duration_since(Instant::now());
        for (text, name) in &mut self.names {
            let Some(time) = name.asked_at(now) else {
                continue;
            };
            let time = match pause {
                Duration::ZERO => time,
                pause => time.max(now + pause),
            };
            if time > now {
                *wake = time.min(*wake);
            } else if questions.len() < QUESTIONS_MAX {
                // Another process may have renewed it.
                let kept = self.work.storage.certificate(text);
                if kept.is_some() && !name.has(kept.as_ref()) {
                    let found = Name::read(text, &self.work.storage, Some(&*name));
                    *name = found;
                }
                let id = name.certificate.as_ref().and_then(|one| one.id.clone());
                questions.extend(id.map(|id| Question {
                    name: text.clone(),
                    id,
                }));
            }
        }
        questions
    }

    /// Takes what the authority says about renewals.
    pub(super) fn heard(&mut self, round: Round) {
        let now = SystemTime::now();
        if round.answers.iter().any(|(_, answer)| answer.is_ok()) {
            self.silence = None;
        }
        for (question, answer) in round.answers {
            let text = &question.name;
            let Some(name) = self.names.get_mut(text) else {
                continue;
            };
            let certificate = name.certificate.as_ref();
            let Some(certificate) = certificate.filter(|one| one.id.as_ref() == Some(&question.id))
            else {
                continue;
            };
            match (name.advice).hear(now, certificate.validity, answer, random()) {
                News::Nothing => {}
                News::Changed => tell_suggestion(text, name.advice.suggestion()),
                News::Silent(why) => tracing::warn!(
                    "{text}: no suggestion from {directory} when to renew the certificate: {why}; carrick decides by its age",
                    directory = self.work.plan.directory
                ),
            }
        }
        if let Some(silence) = round.general {
            self.heard_nothing(now, &silence);
        }
    }

    /// Takes it that the authority suggests nothing for any name.
    fn heard_nothing(&mut self, now: SystemTime, silence: &Silence) {
        for name in self.names.values_mut() {
            if name.asked_at(now).is_some_and(|time| time <= now) {
                name.advice.hear_nothing(now, silence, random());
            }
        }
        if self.silence.replace(silence.kind) == Some(silence.kind) {
            return;
        }
        let (directory, why) = (&self.work.plan.directory, &silence.why);
        match silence.kind {
            Kind::NotOffered => tracing::info!(
                "{directory} does not suggest when to renew certificates ({why}); carrick decides by their age"
            ),
            _ => tracing::warn!(
                "no suggestion from {directory} when to renew certificates: {why}; carrick decides by their age, and asks again"
            ),
        }
    }
}

fn tell_suggestion(name: &str, suggestion: Option<&Suggestion>) {
    let Some(Suggestion {
        window,
        explanation,
    }) = suggestion
    else {
        return;
    };
    // Authorities may name any year.
    let [start, end] = window.map(|time| jiff::Timestamp::try_from(time).unwrap_or_default());
    let see = explanation.as_ref().map(|url| format!(": see {url}"));
    tracing::info!(
        "{name}: the authority suggests to renew the certificate between {start} and {end}{}",
        see.unwrap_or_default()
    );
}

/// A round of questions that panics has failed like others.
pub(super) fn unexpected(error: JoinError) -> Round {
    tracing::error!("questions about renewals failed unexpectedly: {error}; please report it");
    Round::without_answers(Silence::new(Kind::Lasting, "an unexpected failure"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::acme::identifier::CertificateId;
    use crate::control::acme::renewal_info::Answer;
    use crate::control::acme::schedule::WAIT_FIRST;
    use crate::control::acme::{advice, testing};
    use rcgen::{Certificate, KeyPair};

    fn keep(orders: &Orders, (certificate, key): &(Certificate, KeyPair)) {
        let pem = certificate.pem() + &key.serialize_pem();
        orders
            .work
            .storage
            .keep_certificate("a.example", &pem)
            .unwrap();
    }

    /// One answer for `a.example`: a window that starts and ends so many hours from now.
    fn round(id: CertificateId, start: i64, end: i64) -> Round {
        let hour = |number: i64| {
            let now = jiff::Timestamp::now();
            SystemTime::from(now + jiff::SignedDuration::from_hours(number))
        };
        let suggestion = Suggestion {
            window: [hour(start), hour(end)],
            explanation: None,
        };
        let question = Question {
            name: "a.example".to_owned(),
            id,
        };
        let wait = None;
        Round {
            answers: vec![(question, Ok(Answer { suggestion, wait }))],
            general: None,
        }
    }

    fn name(orders: &Orders) -> &Name {
        &orders.names["a.example"]
    }

    fn id(orders: &Orders) -> CertificateId {
        let certificate = name(orders).certificate.as_ref();
        certificate.unwrap().id.clone().unwrap()
    }

    #[tokio::test]
    async fn an_order_waits_for_the_first_answer_about_its_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let mut orders = testing::orders(folder.path());
        keep(&orders, &testing::issued());
        orders.read();
        // Two thirds of its life are over.
        let later = SystemTime::UNIX_EPOCH + Duration::from_secs(2000 * 365 * 24 * 3600);
        assert!(name(&orders).due(later) < later);
        orders.start_due(later);
        assert!(orders.under_way.is_empty() && name(&orders).task.is_none());
        let silence = Silence::new(Kind::Temporary, "no");
        orders.heard_nothing(later, &silence);
        orders.start_due(later);
        assert!(name(&orders).task.is_some());
        // Nobody is asked about a certificate that is being replaced.
        assert_eq!(name(&orders).asked_at(later + 2 * advice::ASK_MAX), None);
    }

    #[tokio::test]
    async fn a_certificate_is_asked_about_once_and_again_when_it_is_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut orders = testing::orders(folder.path());
        orders.read();
        let now = SystemTime::now();
        assert!(orders.questions(now, &mut (now + LOOK_EVERY)).is_empty());
        keep(&orders, &testing::issued());
        orders.read();
        let wake = orders.start_asking(now);
        assert_eq!((wake, orders.asking.len()), (now + LOOK_EVERY, 1));
        orders.start_asking(now);
        assert_eq!(orders.asking.len(), 1);
        orders.asking.abort_all();
        while orders.asking.join_next().await.is_some() {}

        orders.heard(round(id(&orders), 24, 25));
        let due = name(&orders).due(now);
        assert!(due > now + Duration::from_secs(23 * 3600));
        let asked_at = name(&orders).asked_at(now).unwrap();
        assert!(asked_at >= now + advice::ASK_USUAL);
        assert!(orders.questions(now, &mut (now + LOOK_EVERY)).is_empty());
        // A reload changes nothing.
        orders.read();
        assert_eq!(name(&orders).due(now), due);
        assert_eq!(name(&orders).asked_at(now), Some(asked_at));
        let wake = &mut (asked_at + LOOK_EVERY);
        orders.questions(asked_at - Duration::from_secs(1), wake);
        assert_eq!(*wake, asked_at);
        assert_eq!(orders.questions(asked_at, wake).len(), 1);
        // The authority is left alone.
        orders.paused_until = Instant::now() + WAIT_FIRST;
        assert!(orders.questions(asked_at, wake).is_empty());
    }

    #[tokio::test]
    async fn an_answer_about_another_certificate_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut orders = testing::orders(folder.path());
        keep(&orders, &testing::issued());
        orders.read();
        let before = id(&orders);
        orders.heard(round(before.clone(), 24, 25));
        assert!(name(&orders).advice.is_asked());
        let advice = &mut orders.names.get_mut("a.example").unwrap().advice;
        advice.followed_at = Some(SystemTime::now());
        // Another process renews it, which is noticed before a question.
        keep(&orders, &testing::issued());
        let now = name(&orders).asked_at(SystemTime::now()).unwrap();
        let questions = orders.questions(now, &mut (now + LOOK_EVERY));
        assert_eq!(questions.len(), 1);
        assert!(questions[0].id == id(&orders) && questions[0].id != before);
        // The rest after one's own goes on.
        assert!(name(&orders).advice.followed_at.is_some());
        orders.heard(round(before, 24, 25));
        assert!(!name(&orders).advice.is_asked());
    }

    #[tokio::test]
    async fn what_concerns_all_names_is_for_those_whose_time_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut orders = testing::orders(folder.path());
        keep(&orders, &testing::issued());
        orders.read();
        let now = SystemTime::now();
        orders.heard(Round::without_answers(Silence::new(Kind::NotOffered, "no")));
        assert_eq!(orders.silence, Some(Kind::NotOffered));
        let asked_at = name(&orders).asked_at(now).unwrap();
        assert!(asked_at >= now + advice::ASK_MAX);
        orders.heard_nothing(now, &Silence::new(Kind::Temporary, "no"));
        assert_eq!(name(&orders).asked_at(now), Some(asked_at));
        orders.heard(round(id(&orders), 24, 25));
        assert_eq!(orders.silence, None);
    }
}
