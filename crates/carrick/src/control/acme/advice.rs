//! When a certificate is renewed, by what the authority suggests, and when the authority is asked again (RFC 9773).
use super::renewal_info::{Answer, Kind, Silence, Suggestion};
use super::schedule::{self, Validity};
use super::storage::Certificate;
use std::time::{Duration, SystemTime};

/// The shortest time between two questions, whatever the authority says (RFC 9773 section 4.3.2).
pub const ASK_MIN: Duration = Duration::from_secs(60);

/// The longest one, but for a tenth that is added at random.
pub const ASK_MAX: Duration = Duration::from_secs(24 * 3600);

/// The one after an error that lasts, and where the authority names none (RFC 9773 section 4.3.3).
pub const ASK_USUAL: Duration = Duration::from_secs(6 * 3600);

/// How old a certificate is at least when it is renewed by a suggestion, whoever has ordered it.
pub const AGE_MIN: Duration = Duration::from_secs(60);

/// The shortest time between two renewals by suggestions, so that an authority that always suggests to renew at once issues
/// at most four certificates a day.
pub const REST_MIN: Duration = Duration::from_secs(6 * 3600);

/// Certificates with a shorter life are not asked about: [`REST_MIN`] and the times between questions are too long for them.
pub const LIFE_MIN: Duration = Duration::from_secs(24 * 3600);

/// What the authority has said about a certificate.
#[derive(Debug, Clone, Default)]
pub struct Advice {
    /// The last suggestion that could be followed.
    suggestion: Option<Suggestion>,
    /// How many questions since had no answer, or a useless one.
    unanswered: u32,
    /// Why there was none, as it was told last.
    told: Option<String>,
    /// When the authority is asked again; `None`: it has not been asked.
    ask_at: Option<SystemTime>,
    /// When a certificate was last renewed by a suggestion.
    pub(super) followed_at: Option<SystemTime>,
}

/// What there is to tell after a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The first suggestion, or the same as before.
    Nothing,
    /// Another suggestion than before, or one with an explanation.
    Changed,
    /// There is no suggestion, for another reason than before.
    Silent(String),
}

/// Whether the authority is asked about a certificate. Once it has expired, it is not (RFC 9773 section 4.3).
pub fn is_of_use(certificate: &Certificate, now: SystemTime) -> bool {
    let [from, until] = certificate.validity;
    let life = until.duration_since(from).unwrap_or_default();
    certificate.id.is_some() && life >= LIFE_MIN && now < until
}

impl Advice {
    /// For the certificate after this one. `followed`: a suggestion was the reason to renew, and when it was followed.
    pub fn of_next(&self, followed: Option<SystemTime>) -> Self {
        Self {
            followed_at: followed.or(self.followed_at),
            ..Self::default()
        }
    }

    /// Whether the authority has been asked.
    pub fn is_asked(&self) -> bool {
        self.ask_at.is_some()
    }

    /// The last suggestion that could be followed.
    pub fn suggestion(&self) -> Option<&Suggestion> {
        self.suggestion.as_ref()
    }

    /// When the authority is asked. A time further away than any wait was set by a clock that was ahead, and does not
    /// count.
    pub fn ask_at(&self, now: SystemTime) -> SystemTime {
        let time = self.ask_at.filter(|time| *time <= now + 2 * ASK_MAX);
        time.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Takes the answer to a question about a certificate of this validity. `chance`, from 0 to 1, is for the time of the
    /// next question.
    pub fn hear(
        &mut self,
        now: SystemTime,
        validity: Validity,
        answer: Result<Answer, Silence>,
        chance: f64,
    ) -> News {
        let answer = answer.and_then(|answer| match nonsense(&answer.suggestion, validity) {
            Some(why) => Err(Silence {
                wait: answer.wait,
                ..Silence::new(Kind::Lasting, why)
            }),
            None => Ok(answer),
        });
        let Answer { suggestion, wait } = match answer {
            Ok(answer) => answer,
            Err(silence) => {
                self.hear_nothing(now, &silence, chance);
                return match self.told.replace(silence.why.clone()) {
                    Some(before) if before == silence.why => News::Nothing,
                    _ => News::Silent(silence.why),
                };
            }
        };
        let before = self.suggestion.replace(suggestion.clone());
        (self.unanswered, self.told) = (0, None);
        self.ask_after(now, wait.unwrap_or(ASK_USUAL), chance);
        let is_new = match before {
            Some(before) => before != suggestion,
            None => suggestion.explanation.is_some(),
        };
        match is_new {
            true => News::Changed,
            false => News::Nothing,
        }
    }

    /// Takes it that there is no answer.
    pub fn hear_nothing(&mut self, now: SystemTime, silence: &Silence, chance: f64) {
        self.unanswered = self.unanswered.saturating_add(1);
        let wait = match silence.kind {
            Kind::NotOffered => ASK_MAX,
            Kind::Temporary => schedule::wait(self.unanswered, None, 0.5).min(ASK_USUAL),
            Kind::Lasting => ASK_USUAL,
        };
        self.ask_after(now, wait.max(silence.wait.unwrap_or_default()), chance);
    }

    fn ask_after(&mut self, now: SystemTime, wait: Duration, chance: f64) {
        let wait = wait.clamp(ASK_MIN, ASK_MAX);
        self.ask_at = Some(now + wait.mul_f64(1.0 + 0.1 * chance));
    }

    /// When the certificate is renewed: at a time within the suggested window, which `chance`, from 0 to 1, chooses; or, as
    /// long as there is no suggestion, by [`schedule::renewal`]. While the authority does not answer any more, at the
    /// earlier one of both.
    pub fn renewal(&self, certificate: &Certificate, chance: f64, now: SystemTime) -> SystemTime {
        let usual = schedule::renewal(certificate.validity, chance);
        let Some(suggestion) = &self.suggestion else {
            return usual;
        };
        let [start, end] = suggestion.window;
        let length = end.duration_since(start).unwrap_or_default();
        let chosen = start + length.mul_f64(chance);
        let aged = certificate.kept_at + AGE_MIN;
        let rested = self.followed_at.map(|time| time + REST_MIN);
        // What is further in the future was written by a clock that was ahead.
        let earliest = [Some(aged), rested].into_iter().flatten();
        let earliest = earliest.filter(|time| *time <= now + ASK_MAX).max();
        let chosen = earliest.map_or(chosen, |time| chosen.max(time.min(usual)));
        match self.unanswered {
            0 => chosen,
            _ => chosen.min(usual),
        }
    }
}

/// Why a suggestion cannot be followed.
fn nonsense(suggestion: &Suggestion, [_, until]: Validity) -> Option<String> {
    let [start, end] = suggestion.window;
    if end <= start {
        return Some("the suggested window ends before it starts".to_owned());
    }
    (end > until).then(|| "the suggested window ends after the certificate".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::acme::identifier::identifier;
    use crate::control::acme::testing::issued;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn day(number: u32) -> SystemTime {
        SystemTime::UNIX_EPOCH + number * DAY
    }

    /// Valid from day 0 to day 90, so that it is usually renewed between day 57 and day 60.
    fn certificate() -> Certificate {
        Certificate {
            validity: [day(0), day(90)],
            id: identifier(issued().0.der()),
            kept_at: day(0),
        }
    }

    fn suggestion(start: SystemTime, end: SystemTime) -> Result<Answer, Silence> {
        Ok(Answer {
            suggestion: Suggestion {
                window: [start, end],
                explanation: None,
            },
            wait: None,
        })
    }

    fn explained(start: u32, end: u32) -> Result<Answer, Silence> {
        suggestion(day(start), day(end)).map(|mut answer| {
            answer.suggestion.explanation = Some("https://ca.example/why".to_owned());
            answer
        })
    }

    fn silence(kind: Kind) -> Silence {
        Silence::new(kind, "no")
    }

    /// Takes an answer on day 1.
    fn hear(advice: &mut Advice, answer: Result<Answer, Silence>) -> News {
        advice.hear(day(1), certificate().validity, answer, 0.0)
    }

    fn heard(answer: Result<Answer, Silence>) -> Advice {
        let mut advice = Advice::default();
        hear(&mut advice, answer);
        advice
    }

    #[test]
    fn a_time_within_the_window_is_chosen() {
        let certificate = certificate();
        let advice = heard(suggestion(day(70), day(80)));
        for (chance, expected) in [(0.0, day(70)), (0.5, day(75)), (1.0, day(80))] {
            assert_eq!(advice.renewal(&certificate, chance, day(1)), expected);
        }
        // As it is without a suggestion.
        let advice = Advice::default();
        assert_eq!(advice.renewal(&certificate, 0.0, day(1)), day(60));
    }

    #[test]
    fn a_window_in_the_past_renews_at_once_but_few_times_a_day() {
        let mut certificate = certificate();
        let advice = heard(suggestion(SystemTime::UNIX_EPOCH - 9 * DAY, day(0)));
        let now = day(9);
        assert!(advice.renewal(&certificate, 0.0, now) <= now);
        certificate.kept_at = now;
        assert_eq!(advice.renewal(&certificate, 0.0, now), now + AGE_MIN);
        let mut next = advice.of_next(Some(now)).of_next(None);
        assert!(!next.is_asked() && next.suggestion().is_none());
        hear(
            &mut next,
            suggestion(SystemTime::UNIX_EPOCH - 9 * DAY, day(0)),
        );
        assert_eq!(next.renewal(&certificate, 0.0, now), now + REST_MIN);
        // The file was copied: the usual time stays.
        certificate.kept_at = day(60);
        assert_eq!(advice.renewal(&certificate, 0.0, day(60)), day(60));
        // The clock was ahead.
        certificate.kept_at = day(30);
        assert!(advice.renewal(&certificate, 0.0, now) <= now);
    }

    #[test]
    fn nonsense_is_ignored_and_said_once() {
        for (start, end) in [(70, 69), (70, 70), (80, 91), (91, 92)] {
            let mut advice = Advice::default();
            let nonsense = || suggestion(day(start), day(end));
            assert!(matches!(
                hear(&mut advice, nonsense()),
                News::Silent(why) if why.starts_with("the suggested window ends")
            ));
            assert_eq!(hear(&mut advice, nonsense()), News::Nothing);
            assert_eq!(advice.renewal(&certificate(), 0.0, day(1)), day(60));
            assert_eq!(advice.ask_at(day(1)), day(1) + ASK_USUAL);
        }
    }

    #[test]
    fn while_there_is_no_answer_the_earlier_time_counts() {
        for (start, expected) in [(70, 60), (50, 50)] {
            let mut advice = heard(suggestion(day(start), day(start + 1)));
            let renewal = |advice: &Advice| advice.renewal(&certificate(), 0.0, day(1));
            assert_eq!(renewal(&advice), day(start));
            assert!(matches!(
                hear(&mut advice, Err(silence(Kind::Lasting))),
                News::Silent(_)
            ));
            assert_eq!(renewal(&advice), day(expected));
            hear(&mut advice, suggestion(day(start), day(start + 1)));
            assert_eq!(renewal(&advice), day(start));
        }
    }

    #[test]
    fn what_is_new_is_told_once() {
        let mut advice = Advice::default();
        for (answer, news) in [
            (suggestion(day(70), day(71)), News::Nothing),
            (suggestion(day(70), day(71)), News::Nothing),
            (suggestion(day(60), day(61)), News::Changed),
            (explained(60, 61), News::Changed),
            (explained(60, 61), News::Nothing),
        ] {
            assert_eq!(hear(&mut advice, answer), news);
        }
        assert_eq!(
            hear(&mut Advice::default(), explained(60, 61)),
            News::Changed
        );
    }

    #[test]
    fn a_reason_is_told_again_after_an_answer_or_another_reason() {
        let mut advice = Advice::default();
        advice.hear_nothing(day(1), &silence(Kind::Temporary), 0.0);
        let told = |advice: &mut Advice, why: &str| {
            let silence = Silence::new(Kind::Lasting, why);
            matches!(hear(advice, Err(silence)), News::Silent(_))
        };
        assert!(told(&mut advice, "no") && !told(&mut advice, "no"));
        assert!(told(&mut advice, "never") && told(&mut advice, "no"));
        hear(&mut advice, suggestion(day(70), day(71)));
        assert!(told(&mut advice, "no"));
    }

    #[test]
    fn questions_are_between_a_minute_and_a_day_apart() {
        let mut advice = Advice::default();
        assert!(!advice.is_asked() && advice.ask_at(day(1)) <= day(1));
        for (wait, expected) in [
            (Some(Duration::ZERO), ASK_MIN),
            (Some(2 * ASK_MIN), 2 * ASK_MIN),
            (Some(9 * ASK_MAX), ASK_MAX),
            (None, ASK_USUAL),
        ] {
            let answer = suggestion(day(70), day(71)).map(|answer| Answer { wait, ..answer });
            for (chance, expected) in [(0.0, expected), (1.0, expected.mul_f64(1.1))] {
                advice.hear(day(1), certificate().validity, answer.clone(), chance);
                assert_eq!(advice.ask_at(day(1)), day(1) + expected);
            }
        }
        assert!(advice.is_asked());
        // A clock that was ahead.
        assert!(advice.ask_at(SystemTime::UNIX_EPOCH - 9 * DAY) <= SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn an_authority_that_does_not_answer_is_asked_ever_later() {
        let waits = |kind| {
            let mut advice = Advice::default();
            [1, 2, 3, 4, 5, 6, 7].map(|_| {
                advice.hear_nothing(day(1), &silence(kind), 0.0);
                let wait = advice.ask_at(day(1)).duration_since(day(1));
                wait.unwrap().as_secs() / 60
            })
        };
        assert_eq!(waits(Kind::Temporary), [1, 4, 16, 64, 256, 360, 360]);
        assert_eq!(waits(Kind::Lasting), [360; 7]);
        assert_eq!(waits(Kind::NotOffered), [1440; 7]);
        let mut advice = Advice::default();
        let asked = Silence {
            wait: Some(DAY / 2),
            ..silence(Kind::Temporary)
        };
        advice.hear_nothing(day(1), &asked, 0.0);
        assert_eq!(advice.ask_at(day(1)), day(1) + DAY / 2);
    }

    #[test]
    fn no_question_is_about_certificates_that_have_expired_or_live_for_hours() {
        let mut certificate = certificate();
        assert!(is_of_use(&certificate, day(89)));
        assert!(!is_of_use(&certificate, day(90)));
        certificate.validity = [day(0), day(1) - Duration::from_secs(1)];
        assert!(!is_of_use(&certificate, day(0)));
        certificate = self::certificate();
        certificate.id = None;
        assert!(!is_of_use(&certificate, day(1)));
    }
}
