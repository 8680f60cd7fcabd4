//! Reads numbers, sizes and times, within their declared limits.
use super::{Section, wrong_kind};
use crate::config::keys::Form;
use crate::config::problem::Problems;
use crate::config::setting::Setting;
use crate::config::values;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeValue;

impl Section<'_> {
    /// A whole number within the declared limits, or the declared default.
    pub fn number(&self, key: &str, problems: &mut Problems) -> u64 {
        self.number_given(key, problems).or(match self.form(key) {
            Some(Form::Number { default, .. }) => *default,
            _ => 0,
        })
    }

    /// As `number`, without the default.
    pub fn number_given(&self, key: &str, problems: &mut Problems) -> Setting<u64> {
        let Some(Form::Number { min, max, .. }) = self.form(key) else {
            return Setting::Absent;
        };
        let number = self.read(key, problems, "a whole number", integer);
        within(
            number,
            key,
            &i128::from(*min),
            &i128::from(*max),
            ToString::to_string,
            problems,
        )
        .refine("a number", problems, |number| {
            u64::try_from(*number).map_err(|error| error.to_string())
        })
    }

    /// A whole number from `min` to `max`, for forms that do not say it.
    pub fn count_within(
        &self,
        key: &str,
        min: u32,
        max: u32,
        problems: &mut Problems,
    ) -> Setting<u32> {
        let number = self.read(key, problems, "a whole number", integer);
        let (min, max) = (i128::from(min), i128::from(max));
        within(number, key, &min, &max, ToString::to_string, problems).refine(
            "a number",
            problems,
            |number| u32::try_from(*number).map_err(|error| error.to_string()),
        )
    }

    /// Bytes within the declared limits, or the declared default.
    pub fn size(&self, key: &str, problems: &mut Problems) -> u64 {
        let Some(Form::Size { min, max, default }) = self.form(key) else {
            return 0;
        };
        self.size_within(key, *min, *max, problems).or(*default)
    }

    /// Bytes from `min` to `max`, for forms that do not say it.
    pub fn size_within(
        &self,
        key: &str,
        min: u64,
        max: u64,
        problems: &mut Problems,
    ) -> Setting<u64> {
        let form = ("a size", "a size, such as \"64 KB\"");
        self.bytes_within(key, form, values::size, min..=max, problems)
    }

    /// Bytes per second from `min` to `max`.
    pub fn rate_within(
        &self,
        key: &str,
        min: u64,
        max: u64,
        problems: &mut Problems,
    ) -> Setting<u64> {
        let form = ("a rate", "a rate, such as \"10 MB/s\"");
        self.bytes_within(key, form, values::rate, min..=max, problems)
    }

    /// What `form` names, and shows by an example.
    fn bytes_within(
        &self,
        key: &str,
        (form, example): (&str, &str),
        read: fn(&str) -> Result<u64, String>,
        limits: RangeInclusive<u64>,
        problems: &mut Problems,
    ) -> Setting<u64> {
        let size = match self.value(key).map(|value| (value, value.get_ref())) {
            None => Setting::Absent,
            Some((value, DeValue::Integer(_))) => {
                match integer(value.get_ref()).and_then(|bytes| u64::try_from(bytes).ok()) {
                    Some(bytes) => Setting::Given(Spanned::new(value.span(), bytes)),
                    None => wrong_kind(value, key, form, problems),
                }
            }
            Some((_, DeValue::String(_))) => {
                self.text(key, problems)
                    .refine(form, problems, |text| read(text))
            }
            Some((value, _)) => wrong_kind(value, key, example, problems),
        };
        let show = |bytes: &u64| values::show_size(*bytes);
        within(size, key, limits.start(), limits.end(), show, problems)
    }

    /// A time within the declared limits, or the declared default.
    pub fn time(&self, key: &str, problems: &mut Problems) -> Duration {
        let Some(Form::Time { min, max, default }) = self.form(key) else {
            return Duration::ZERO;
        };
        self.time_within(key, *min, *max, problems).or(*default)
    }

    /// A time from `min` to `max`, for forms that do not say it.
    pub fn time_within(
        &self,
        key: &str,
        min: Duration,
        max: Duration,
        problems: &mut Problems,
    ) -> Setting<Duration> {
        let time = match self.value(key).map(|value| (value, value.get_ref())) {
            Some((value, DeValue::Integer(number))) => {
                problems
                    .error(value.span(), format!("`{key}` needs a unit"), "")
                    .help(format!(
                        "write \"{number}s\" for seconds, \"{number}ms\" for milliseconds"
                    ));
                Setting::Wrong
            }
            _ => self
                .read(key, problems, "a time, such as \"10s\"", |value| {
                    value.as_str().map(ToOwned::to_owned)
                })
                .refine("a time", problems, |text: &String| values::time(text)),
        };
        let show = |time: &Duration| values::show_time(*time);
        within(time, key, &min, &max, show, problems)
    }
}

/// A whole number.
pub fn integer(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn within<T: PartialOrd>(
    value: Setting<T>,
    key: &str,
    min: &T,
    max: &T,
    show: impl Fn(&T) -> String,
    problems: &mut Problems,
) -> Setting<T> {
    match value {
        Setting::Given(given) if given.get_ref() < min => {
            problems.error(
                given.span(),
                format!("`{key}` is too small"),
                format!("at least {}", show(min)),
            );
            Setting::Wrong
        }
        Setting::Given(given) if given.get_ref() > max => {
            problems.error(
                given.span(),
                format!("`{key}` is too large"),
                format!("at most {}", show(max)),
            );
            Setting::Wrong
        }
        other => other,
    }
}
