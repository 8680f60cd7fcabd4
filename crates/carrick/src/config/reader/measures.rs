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

/// A type of whole numbers.
pub trait Whole: Copy + TryFrom<u64> + 'static {
    /// The largest.
    const MOST: u64;
    /// The same.
    const MAX: Self;
}

macro_rules! whole {
    ($($type:ty),+) => { $(
        impl Whole for $type {
            const MOST: u64 = Self::MAX as u64;
            const MAX: Self = Self::MAX;
        }
    )+ };
}
whole!(u8, u32, u64, usize);

impl Section<'_> {
    /// A whole number within the limits of the form.
    pub fn number<T: Whole>(&self, key: &str, form: Form, problems: &mut Problems) -> Setting<T> {
        let Form::Number { min, max, .. } = form else {
            return Setting::Absent;
        };
        let number = self.read(key, problems, "a whole number", integer);
        let (min, max) = (i128::from(min), i128::from(max));
        let number = within(number, key, &min, &max, ToString::to_string, problems);
        number.map(|number| narrow(u64::try_from(number).unwrap_or(0)))
    }

    /// Bytes within the limits of the form.
    pub fn size<T: Whole>(&self, key: &str, form: Form, problems: &mut Problems) -> Setting<T> {
        let Form::Size { min, max, .. } = form else {
            return Setting::Absent;
        };
        let form = ("a size", "a size, such as \"64 KB\"");
        let size = self.bytes_within(key, form, values::size, min..=max, problems);
        size.map(narrow)
    }

    /// Bytes per second within the limits of the form.
    pub fn rate(&self, key: &str, form: Form, problems: &mut Problems) -> Setting<u64> {
        let Form::Rate { min, max, .. } = form else {
            return Setting::Absent;
        };
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

    /// A time within the limits of the form.
    pub fn time(&self, key: &str, form: Form, problems: &mut Problems) -> Setting<Duration> {
        let Form::Time { min, max, .. } = form else {
            return Setting::Absent;
        };
        let time = match self.value(key).map(|value| (value, value.get_ref())) {
            Some((value, DeValue::Integer(number))) => {
                problems
                    .error(value.span(), format!("`{key}` needs a unit"))
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

/// A number that its limits keep within the type.
fn narrow<T: Whole>(number: u64) -> T {
    T::try_from(number).unwrap_or(T::MAX)
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
            problems
                .error(given.span(), format!("`{key}` is too small"))
                .label(format!("at least {}", show(min)));
            Setting::Wrong
        }
        Setting::Given(given) if given.get_ref() > max => {
            problems
                .error(given.span(), format!("`{key}` is too large"))
                .label(format!("at most {}", show(max)));
            Setting::Wrong
        }
        other => other,
    }
}
