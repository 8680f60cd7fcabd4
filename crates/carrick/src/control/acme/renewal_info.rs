//! Renewal information: asks the authority when certificates are to be renewed (RFC 9773).
use super::https::{self, Https};
use super::identifier::CertificateId;
use super::order::plain;
use http::StatusCode;
use serde::Deserialize;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout_at};

/// Most certificates that are asked about in a round.
pub const QUESTIONS_MAX: usize = 100;

/// For a round as a whole.
const ROUND_MAX: Duration = Duration::from_secs(300);

/// A certificate that is asked about.
#[derive(Debug, Clone)]
pub struct Question {
    /// The site's name.
    pub name: String,
    pub id: CertificateId,
}

/// When an authority suggests to renew a certificate (RFC 9773 section 4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// From when to when.
    pub window: [SystemTime; 2],
    /// The URL of a page that says why.
    pub explanation: Option<String>,
}

/// A suggestion, and after which time the authority is to be asked again (`Retry-After`), at most a day.
#[derive(Debug, Clone)]
pub struct Answer {
    pub suggestion: Suggestion,
    pub wait: Option<Duration>,
}

/// What kind of failure it is that there is no suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The authority has no renewal information.
    NotOffered,
    /// It cannot be reached, or is not well.
    Temporary,
    /// It answers otherwise than expected.
    Lasting,
}

/// Why there is no suggestion.
#[derive(Debug, Clone)]
pub struct Silence {
    pub kind: Kind,
    pub why: String,
    /// `Retry-After`, at most a day.
    pub wait: Option<Duration>,
}

impl Silence {
    pub fn new(kind: Kind, why: impl Into<String>) -> Self {
        Self {
            kind,
            why: why.into(),
            wait: None,
        }
    }

    /// A response that is no success.
    fn refusal(answer: &https::Answer) -> Self {
        let overloaded = answer.status == StatusCode::TOO_MANY_REQUESTS;
        let kind = match overloaded || answer.status.is_server_error() {
            true => Kind::Temporary,
            false => Kind::Lasting,
        };
        let problem: Problem = serde_json::from_slice(&answer.body).unwrap_or_default();
        let detail = problem.detail.map(|text| format!(": {}", plain(&text)));
        Self {
            kind,
            why: format!(
                "status {}{}",
                answer.status.as_u16(),
                detail.unwrap_or_default()
            ),
            wait: answer.wait,
        }
    }
}

/// What a round of questions brought.
#[derive(Debug, Default)]
pub struct Round {
    pub answers: Vec<(Question, Result<Answer, Silence>)>,
    /// Why no further question was asked, and none need be now.
    pub general: Option<Silence>,
}

impl Round {
    /// A round that ended before the first answer.
    pub fn without_answers(silence: Silence) -> Self {
        Self {
            answers: Vec::new(),
            general: Some(silence),
        }
    }
}

#[derive(Deserialize)]
struct Directory {
    #[serde(rename = "renewalInfo")]
    renewal_info: Option<String>,
}

/// RFC 7807.
#[derive(Deserialize, Default)]
struct Problem {
    detail: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewalInfo {
    suggested_window: SuggestedWindow,
    #[serde(rename = "explanationURL")]
    explanation_url: Option<String>,
}

#[derive(Deserialize)]
struct SuggestedWindow {
    start: String,
    end: String,
}

/// Asks the questions one after the other, within 5 minutes.
pub async fn ask(https: &Https, directory: &str, questions: Vec<Question>) -> Round {
    let deadline = Instant::now() + ROUND_MAX;
    let url = match resource(https, directory).await {
        Ok(url) => url,
        Err(silence) => return Round::without_answers(silence),
    };
    let mut round = Round::default();
    for question in questions {
        let url = format!("{}/{}", url.trim_end_matches('/'), question.id);
        let asked = timeout_at(deadline, suggestion(https, &url)).await;
        let slow = || Silence::new(Kind::Temporary, "the authority answers too slowly");
        match asked.unwrap_or_else(|_| Err(slow())) {
            Err(silence) if silence.kind == Kind::Temporary => {
                round.general = Some(silence);
                return round;
            }
            result => round.answers.push((question, result)),
        }
    }
    round
}

/// Where renewal information is.
async fn resource(https: &Https, directory: &str) -> Result<String, Silence> {
    let answer = success(https, directory).await?;
    let directory: Directory = serde_json::from_slice(&answer.body)
        .map_err(|error| Silence::new(Kind::Lasting, format!("the directory: {error}")))?;
    directory.renewal_info.ok_or_else(|| {
        Silence::new(
            Kind::NotOffered,
            "its directory does not name the resource `renewalInfo`",
        )
    })
}

async fn suggestion(https: &Https, url: &str) -> Result<Answer, Silence> {
    let answer = success(https, url).await?;
    match parse(&answer.body) {
        Ok(suggestion) => Ok(Answer {
            suggestion,
            wait: answer.wait,
        }),
        Err(why) => Err(Silence {
            wait: answer.wait,
            ..Silence::new(Kind::Lasting, why)
        }),
    }
}

async fn success(https: &Https, url: &str) -> Result<https::Answer, Silence> {
    let answer = https.get(url).await;
    let answer = answer.map_err(|why| Silence::new(Kind::Temporary, why))?;
    match answer.status {
        StatusCode::OK => Ok(answer),
        _ => Err(Silence::refusal(&answer)),
    }
}

/// Reads an object `RenewalInfo` (RFC 9773 section 4.2).
fn parse(body: &[u8]) -> Result<Suggestion, String> {
    let info: RenewalInfo = serde_json::from_slice(body)
        .map_err(|error| format!("what it answers is no renewal information: {error}"))?;
    let time = |text: &str| {
        let time: Result<jiff::Timestamp, _> = text.parse();
        let time =
            time.map_err(|error| format!("the suggested window: {}", plain(&error.to_string())));
        time.map(SystemTime::from)
    };
    let window = info.suggested_window;
    Ok(Suggestion {
        window: [time(&window.start)?, time(&window.end)?],
        explanation: info.explanation_url.as_deref().map(plain),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_window_is_read() {
        let of = |text: &str| parse(text.as_bytes());
        let time = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let suggestion = of(
            r#"{"suggestedWindow": {"start": "2025-01-02T04:00:00Z", "end": "2025-01-03T05:00:00+01:00"},
                "explanationURL": "https://acme.example.com/docs/ari"}"#,
        );
        let expected = Suggestion {
            window: [time(1_735_790_400), time(1_735_876_800)],
            explanation: Some("https://acme.example.com/docs/ari".to_owned()),
        };
        assert_eq!(suggestion, Ok(expected));
        let text = r#"{"suggestedWindow": {"start": "1969-12-31T23:59:59.5Z", "end": "2025-01-03T04:00:00Z"}}"#;
        assert_eq!(of(text).unwrap().explanation, None);
        for wrong in [
            "",
            "{}",
            r#"{"suggestedWindow": {"start": "2025-01-02T04:00:00Z"}}"#,
            r#"{"suggestedWindow": {"start": "soon", "end": "2025-01-03T04:00:00Z"}}"#,
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_authority_that_is_not_well_is_told_from_one_that_refuses() {
        let of = |status, body: &'static str| {
            Silence::refusal(&https::Answer {
                status: StatusCode::from_u16(status).unwrap(),
                wait: None,
                body: Bytes::from_static(body.as_bytes()),
            })
        };
        for (status, kind) in [
            (404, Kind::Lasting),
            (302, Kind::Lasting),
            (429, Kind::Temporary),
            (503, Kind::Temporary),
        ] {
            assert_eq!(of(status, "no").kind, kind, "{status}");
        }
        let problem = of(404, r#"{"detail": "unknown\nserial"}"#);
        assert_eq!(problem.why, "status 404: unknown serial");
    }
}
