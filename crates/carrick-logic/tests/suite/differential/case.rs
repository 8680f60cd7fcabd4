//! Random exchanges: a request, its response, a later request, and the origin's response to that.
use carrick_logic::cache::{Fields, Request, UnixTime};
use carrick_logic::http1::Method;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::time::{Duration, SystemTime};

/// Arrival of the first response.
pub const NOW: UnixTime = UnixTime(1_700_000_000);

/// Field lines, each name once.
#[derive(Debug, Clone, Default)]
pub struct Lines(pub Vec<(&'static str, String)>);

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub lines: Lines,
}

/// A response.
#[derive(Debug, Clone)]
pub struct Answered {
    pub status: u16,
    pub lines: Lines,
}

/// A whole exchange.
#[derive(Debug, Clone)]
pub struct Case {
    pub first: Asked,
    pub answer: Answered,
    /// Seconds from the first response to the second request.
    pub later_s: u32,
    pub second: Asked,
    /// The origin's response to the second request, if it is asked: a 304.
    pub update: Answered,
}

impl Lines {
    /// The value of a line.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(known, _)| *known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The argument of a directive with exactly this name; empty if it has none.
    pub fn directive(&self, name: &str) -> Option<&str> {
        self.directives()
            .into_iter()
            .find(|(known, _)| *known == name)
            .map(|(_, argument)| argument)
    }

    /// Names and arguments of all directives.
    pub fn directives(&self) -> Vec<(&str, &str)> {
        let list = self.get("cache-control").unwrap_or_default().split(", ");
        list.filter(|directive| !directive.is_empty())
            .map(|directive| directive.split_once('=').unwrap_or((directive, "")))
            .collect()
    }

    /// The form that carrick reads.
    pub fn text(&self) -> String {
        let lines = self.0.iter();
        lines
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect()
    }

    /// The form that the other implementation reads.
    pub fn map(&self) -> HeaderMap {
        let lines = self.0.iter();
        lines
            .map(|(name, value)| {
                let value = HeaderValue::from_str(value).unwrap();
                (HeaderName::from_static(name), value)
            })
            .collect()
    }

    /// Without one of them.
    pub fn without(&self, name: &str) -> Self {
        let mut lines = self.clone();
        lines.0.retain(|(known, _)| *known != name);
        lines
    }
}

impl Asked {
    /// The form that the other implementation reads.
    pub fn request(&self) -> http::Request<()> {
        let method = match self.method {
            Method::Head => http::Method::HEAD,
            Method::Post => http::Method::POST,
            _ => http::Method::GET,
        };
        let mut request = http::Request::builder()
            .method(method)
            .uri("http://h/x")
            .body(())
            .unwrap();
        *request.headers_mut() = self.lines.map();
        request
    }
}

impl Answered {
    /// The form that the other implementation reads.
    pub fn response(&self) -> http::Response<()> {
        let mut response = http::Response::builder()
            .status(self.status)
            .body(())
            .unwrap();
        *response.headers_mut() = self.lines.map();
        response
    }
}

/// A request as carrick reads it, from its text.
pub fn read(method: Method, text: &str) -> Request<'_> {
    Request::read(method, Fields::of_text(text.as_bytes()))
}

/// A moment in the other implementation's form.
pub fn system_time(time: UnixTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(time.0)
}

/// A moment near the first response, in the usual date format.
fn date(offsets: &'static [i64]) -> impl Strategy<Value = String> {
    select(offsets).prop_map(|offset| {
        let time = UnixTime(NOW.0.checked_add_signed(offset).unwrap());
        httpdate::fmt_http_date(system_time(time))
    })
}

/// The same, possibly in an obsolete date format.
fn any_date(offsets: &'static [i64]) -> impl Strategy<Value = String> {
    (date(offsets), prop::bool::weighted(0.03)).prop_map(|(text, is_old)| match is_old {
        // Sun, 06 Nov 1994 08:49:37 GMT as Sun Nov  6 08:49:37 1994.
        true => format!(
            "{} {} {:>2} {} {}",
            &text[..3],
            &text[8..11],
            text[5..7].trim_start_matches('0'),
            &text[17..25],
            &text[12..16]
        ),
        false => text,
    })
}

fn optional(
    likely: f64,
    value: impl Strategy<Value = String>,
) -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(likely, value)
}

const SECONDS: [&str; 8] = ["0", "1", "5", "10", "60", "100", "100000", "99999999999"];

/// A list of directives, in which `#` is a number of seconds.
fn directives(of: &'static [&'static str], most: usize) -> impl Strategy<Value = Option<String>> {
    let one = (select(of), select(SECONDS.as_slice()))
        .prop_map(|(directive, seconds)| directive.replace('#', seconds));
    vec(one, 0..=most).prop_map(|list| (!list.is_empty()).then(|| list.join(", ")))
}

const OF_RESPONSES: [&str; 25] = [
    "max-age=#",
    "max-age=#",
    "max-age=#",
    "max-age=#",
    "max-age=#",
    "s-maxage=#",
    "s-maxage=#",
    "public",
    "public",
    "private",
    "private=\"x-part\"",
    "no-cache",
    "no-cache=\"x-part\"",
    "no-store",
    "must-revalidate",
    "proxy-revalidate",
    "must-understand",
    "immutable",
    "stale-while-revalidate=#",
    "stale-if-error=#",
    "max-age=\"60\"",
    "max-age=-1",
    "max-age",
    "No-Store",
    "unknown=\"a\"",
];

const OF_REQUESTS: [&str; 12] = [
    "no-cache",
    "no-store",
    "max-age=#",
    "max-age=#",
    "min-fresh=#",
    "max-stale",
    "max-stale=#",
    "max-stale=#",
    "only-if-cached",
    "max-age=x",
    "max-stale=x",
    "No-Cache",
];

const TAGS: [&str; 4] = ["\"a\"", "W/\"a\"", "\"b\"", "W/\"b\""];

/// The lines that are present.
fn lines(all: Vec<(&'static str, Option<String>)>) -> Lines {
    let there = all.into_iter();
    Lines(
        there
            .filter_map(|(name, value)| Some((name, value?)))
            .collect(),
    )
}

fn request(later: bool) -> impl Strategy<Value = Lines> {
    let conditional = if later { 0.2 } else { 0.01 };
    (
        directives(&OF_REQUESTS, if later { 2 } else { 1 }),
        optional(0.05, Just("no-cache".to_owned())),
        optional(0.1, Just("Basic YTpi".to_owned())),
        optional(
            0.5,
            select(&["en", "de", "EN;q=1.0"][..]).prop_map(str::to_owned),
        ),
        optional(conditional, select(TAGS.as_slice()).prop_map(str::to_owned)),
        optional(conditional, date(&[-100, -10])),
    )
        .prop_map(|(control, pragma, user, language, tag, since)| {
            lines(vec![
                ("cache-control", control),
                ("pragma", pragma),
                ("authorization", user),
                ("accept-language", language),
                ("if-none-match", tag),
                ("if-modified-since", since),
            ])
        })
}

/// The lines of a response that arrived this many seconds after the first.
fn answer() -> impl Strategy<Value = Lines> {
    let about_time = (
        directives(&OF_RESPONSES, 3),
        optional(0.7, any_date(&[-100, -10, 0, 0, 0, 5])),
        optional(
            0.3,
            prop_oneof![4 => any_date(&[-10, 0, 5, 60, 1000]), 1 => Just("0".to_owned())],
        ),
        optional(0.4, date(&[-10_000_000, -1_000_000, -2000, -100, 0, 10])),
        optional(
            0.15,
            select(&["0", "3", "50", "x"][..]).prop_map(str::to_owned),
        ),
    );
    let others = (
        optional(0.4, select(TAGS.as_slice()).prop_map(str::to_owned)),
        optional(
            0.2,
            select(&["accept-language", "*"][..]).prop_map(str::to_owned),
        ),
        optional(0.05, Just("a=b".to_owned())),
        optional(0.05, Just("no-cache".to_owned())),
        optional(0.3, select(&["1", "2"][..]).prop_map(str::to_owned)),
    );
    (about_time, others).prop_map(
        |((control, date, expires, modified, age), (tag, vary, cookie, pragma, part))| {
            lines(vec![
                ("cache-control", control),
                ("date", date),
                ("expires", expires),
                ("last-modified", modified),
                ("age", age),
                ("etag", tag),
                ("vary", vary),
                ("set-cookie", cookie),
                ("pragma", pragma),
                ("x-part", part),
            ])
        },
    )
}

/// Any exchange.
pub fn case() -> impl Strategy<Value = Case> {
    let method = |others: Method| {
        prop::bool::weighted(0.08).prop_map(move |other| if other { others } else { Method::Get })
    };
    let statuses: &[u16] = &[
        200, 200, 200, 200, 203, 204, 300, 301, 302, 307, 308, 403, 404, 405, 410, 500, 501, 503,
    ];
    let first_method = prop_oneof![9 => method(Method::Post), 1 => method(Method::Head)];
    let later = prop_oneof![
        4 => 0..130_u32,
        2 => select(&[1, 5, 6, 10, 15, 60, 65][..]),
        1 => 0..200_000_u32
    ];
    (
        (first_method, request(false)),
        (select(statuses), answer()),
        later,
        (method(Method::Head), request(true)),
        answer(),
    )
        .prop_map(|(first, answered, later_s, second, update)| Case {
            first: Asked {
                method: first.0,
                lines: first.1,
            },
            answer: Answered {
                status: answered.0,
                lines: answered.1,
            },
            later_s,
            second: Asked {
                method: second.0,
                lines: second.1,
            },
            update: Answered {
                status: 304,
                lines: update,
            },
        })
}
