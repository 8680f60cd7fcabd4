//! The kinds of values that keys have: what is read for them, and what the reference says of them.
use super::keys::{Form, NONE, Preset, REQUIRED};
use super::problem::Problems;
use super::reader::{Section, Whole};
use super::section::{Keys, Kind, Read, Written};
use super::setting::Setting;
use super::word::Word;
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;

/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);
/// A day.
pub const DAY: Duration = seconds(24 * 3600);
/// A year.
pub const YEAR: Duration = seconds(365 * 24 * 3600);
/// A kilobyte, as sizes count.
pub const KIB: u64 = 1024;
/// A megabyte.
pub const MIB: u64 = 1024 * KIB;

/// Longest lifetime that a configuration can give: a year of 365.25 days.
const LIFETIME_MAX: Duration = seconds(31_557_600);

/// So many seconds.
pub const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// So many milliseconds.
pub const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Strings, each with its place.
pub type Texts = Vec<Spanned<String>>;

/// Anything that only `read` knows.
pub const fn other<T>(what: &'static str, default: &'static str, read: Read<T>) -> Kind<T> {
    let form = Form::Other { what, default };
    Kind { form, read }
}

/// A string, or this one; only one that is given has a place.
pub const fn text(what: &'static str, default: &'static str) -> Kind<Spanned<String>> {
    let default = Preset::Value(default);
    let form = Form::Text { what, default };
    let read: Read<_> = |table, key, form, problems| match (table.text(key, problems), form) {
        (Setting::Given(text), _) => text,
        (
            _,
            Form::Text {
                default: Preset::Value(default),
                ..
            },
        ) => Spanned::new(0..0, default.to_owned()),
        _ => Spanned::new(0..0, String::new()),
    };
    Kind { form, read }
}

/// A string; else it is as `default` says.
pub const fn text_or(what: &'static str, default: &'static str) -> Kind<Setting<String>> {
    let default = Preset::Words(default);
    let form = Form::Text { what, default };
    let read: Read<_> = |table, key, _, problems| table.text(key, problems);
    Kind { form, read }
}

/// A string that must be given.
pub const fn required_text(what: &'static str) -> Kind<Setting<String>> {
    let form = Form::Text {
        what,
        default: Preset::Words(REQUIRED),
    };
    let read: Read<_> = |table, key, _, problems| {
        let text = table.text(key, problems);
        table.required(key, text, "", problems)
    };
    Kind { form, read }
}

/// One string, which could be thought to be a list of them.
pub const fn one_text(what: &'static str) -> Kind<Setting<String>> {
    let form = Form::Text {
        what,
        default: Preset::Words("any"),
    };
    let read: Read<_> = |table, key, _, problems| table.one_text(key, problems);
    Kind { form, read }
}

/// Strings; a single one stands for a list of one.
pub const fn texts(what: &'static str, default: &'static str) -> Kind<Setting<Texts>> {
    let form = Form::Texts { what, default };
    let read: Read<_> = |table, key, _, problems| table.texts(key, problems);
    Kind { form, read }
}

/// One of the type's words, or else the one that is named here.
pub const fn one_of<T: Word>(default: &'static str) -> Kind<T> {
    let form = Form::OneOf {
        words: T::WORDS,
        default,
    };
    let read: Read<T> = |table, key, form, problems| {
        let default = match form {
            Form::OneOf { default, .. } => T::meant_by(default),
            _ => None,
        };
        let word = table.word(key, problems);
        word.or(default.unwrap_or(T::VALUES[0]))
    };
    Kind { form, read }
}

/// One of the type's words; else it is as `default` says.
pub const fn one_of_or<T: Word>(default: &'static str) -> Kind<Setting<T>> {
    let form = Form::OneOf {
        words: T::WORDS,
        default,
    };
    let read: Read<_> = |table, key, _, problems| table.word(key, problems);
    Kind { form, read }
}

/// `true` or `false`.
pub const fn switch(default: bool) -> Kind<bool> {
    let form = Form::Switch {
        default: Preset::Value(default),
    };
    let read: Read<_> = |table, key, form, problems| {
        let is_on = matches!(
            form,
            Form::Switch {
                default: Preset::Value(true)
            }
        );
        table.boolean(key, problems).or(is_on)
    };
    Kind { form, read }
}

/// `true` or `false`; else it is as `default` says.
pub const fn switch_or(default: &'static str) -> Kind<Setting<bool>> {
    let form = Form::Switch {
        default: Preset::Words(default),
    };
    let read: Read<_> = |table, key, _, problems| table.boolean(key, problems);
    Kind { form, read }
}

/// A whole number.
pub const fn number<T: Whole>(limits: RangeInclusive<u64>, default: u64) -> Kind<T> {
    let default = Preset::Value(default);
    Kind {
        form: number_form::<T>("number", limits, default),
        read: |table, key, form, problems| {
            let default = match form {
                Form::Number {
                    default: Preset::Value(default),
                    ..
                } => default,
                _ => 0,
            };
            let default = T::try_from(default).unwrap_or(T::MAX);
            table.number(key, form, problems).or(default)
        },
    }
}

/// A whole number, of what `what` says; else it is as `default` says.
pub const fn number_or<T: Whole>(
    what: &'static str,
    limits: RangeInclusive<u64>,
    default: &'static str,
) -> Kind<Setting<T>> {
    Kind {
        form: number_form::<T>(what, limits, Preset::Words(default)),
        read: |table, key, form, problems| table.number(key, form, problems),
    }
}

/// A whole number that must be given.
pub const fn required_number<T: Whole>(limits: RangeInclusive<u64>) -> Kind<Setting<T>> {
    Kind {
        form: number_form::<T>("number", limits, Preset::Words(REQUIRED)),
        read: |table, key, form, problems| {
            let number = table.number(key, form, problems);
            table.required(key, number, "", problems)
        },
    }
}

const fn number_form<T: Whole>(
    what: &'static str,
    limits: RangeInclusive<u64>,
    default: Preset<u64>,
) -> Form {
    let (min, max) = (*limits.start(), *limits.end());
    assert!(max <= T::MOST, "the type does not hold the largest number");
    Form::Number {
        what,
        min,
        max,
        default,
    }
}

/// Bytes.
pub const fn size<T: Whole>(limits: RangeInclusive<u64>, default: u64) -> Kind<T> {
    let default = Preset::Value(default);
    Kind {
        form: size_form::<T>(limits, default),
        read: |table, key, form, problems| {
            let default = match form {
                Form::Size {
                    default: Preset::Value(default),
                    ..
                } => default,
                _ => 0,
            };
            let default = T::try_from(default).unwrap_or(T::MAX);
            table.size(key, form, problems).or(default)
        },
    }
}

/// Bytes; else it is as `default` says.
pub const fn size_or<T: Whole>(
    limits: RangeInclusive<u64>,
    default: &'static str,
) -> Kind<Setting<T>> {
    Kind {
        form: size_form::<T>(limits, Preset::Words(default)),
        read: |table, key, form, problems| table.size(key, form, problems),
    }
}

/// Of the disk's bytes the file must say how many.
pub const fn required_disk_size(limits: RangeInclusive<u64>) -> Kind<Setting<u64>> {
    const HELP: &str = "say how much of the disk may be used, such as `size = \"100 GB\"`";
    Kind {
        form: size_form::<u64>(limits, Preset::Words(REQUIRED)),
        read: |table, key, form, problems| {
            let size = table.size(key, form, problems);
            table.required(key, size, HELP, problems)
        },
    }
}

const fn size_form<T: Whole>(limits: RangeInclusive<u64>, default: Preset<u64>) -> Form {
    let (min, max) = (*limits.start(), *limits.end());
    assert!(max <= T::MOST, "the type does not hold the largest size");
    Form::Size { min, max, default }
}

/// Bytes per second.
pub const fn rate(limits: RangeInclusive<u64>) -> Kind<Setting<u64>> {
    Kind {
        form: Form::Rate {
            min: *limits.start(),
            max: *limits.end(),
            default: NONE,
        },
        read: |table, key, form, problems| table.rate(key, form, problems),
    }
}

/// A time.
pub const fn time(limits: RangeInclusive<Duration>, default: Duration) -> Kind<Duration> {
    Kind {
        form: time_form(limits, Preset::Value(default)),
        read: |table, key, form, problems| table.time(key, form, problems).or(default_time(form)),
    }
}

/// A time; else it is as `default` says.
pub const fn time_or(
    limits: RangeInclusive<Duration>,
    default: &'static str,
) -> Kind<Setting<Duration>> {
    Kind {
        form: time_form(limits, Preset::Words(default)),
        read: |table, key, form, problems| table.time(key, form, problems),
    }
}

/// A time that must be given, in whole seconds.
pub const fn required_seconds(limits: RangeInclusive<Duration>) -> Kind<Setting<Duration>> {
    Kind {
        form: time_form(limits, Preset::Words(REQUIRED)),
        read: |table, key, form, problems| {
            let time = table.time(key, form, problems);
            let time = time.refine("a number of whole seconds", problems, |time| {
                if time.subsec_nanos() == 0 {
                    Ok(*time)
                } else {
                    Err("the kernel counts whole seconds here, such as \"1s\"".to_owned())
                }
            });
            table.required(key, time, "", problems)
        },
    }
}

/// Seconds for which something may be used.
pub const fn lifetime(default: Duration) -> Kind<u32> {
    Kind {
        form: time_form(Duration::ZERO..=LIFETIME_MAX, Preset::Value(default)),
        read: |table, key, form, problems| {
            let default = whole_seconds(default_time(form));
            seconds_of_life(table, key, form, problems).or(default)
        },
    }
}

/// The same; else it is as `default` says.
pub const fn lifetime_or(default: &'static str) -> Kind<Setting<u32>> {
    Kind {
        form: time_form(Duration::ZERO..=LIFETIME_MAX, Preset::Words(default)),
        read: seconds_of_life,
    }
}

/// Caches count whole seconds (RFC 9111 section 1.2.2).
fn seconds_of_life(
    table: &Section<'_>,
    key: &'static str,
    form: Form,
    problems: &mut Problems,
) -> Setting<u32> {
    let time = table.time(key, form, problems);
    time.refine("a lifetime", problems, |time| {
        if time.subsec_nanos() == 0 {
            Ok(whole_seconds(*time))
        } else {
            Err("lifetimes are whole seconds, such as \"1s\"".to_owned())
        }
    })
}

fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

const fn time_form(limits: RangeInclusive<Duration>, default: Preset<Duration>) -> Form {
    let (min, max) = (*limits.start(), *limits.end());
    Form::Time { min, max, default }
}

fn default_time(form: Form) -> Duration {
    match form {
        Form::Time {
            default: Preset::Value(default),
            ..
        } => default,
        _ => Duration::ZERO,
    }
}

/// A table; an absent one is an empty one.
pub const fn table<T: Keys>() -> Kind<Written<T>> {
    Kind {
        form: table_form::<T>("", "see there"),
        read: |table, key, _, problems| {
            let inner = table.table(key, T::TABLE, problems);
            let inner = inner.or(Section::empty(T::TABLE, table.span()));
            Written::of(&inner, problems)
        },
    }
}

/// A table that can be left out.
pub const fn table_or<T: Keys>(default: &'static str) -> Kind<Setting<Written<T>>> {
    Kind {
        form: table_form::<T>("", default),
        read: |table, key, _, problems| {
            let inner = table.table(key, T::TABLE, problems);
            inner.map(|inner| Written::of(&inner, problems))
        },
    }
}

/// Tables with names of the user's choice, in the order of the file.
pub const fn named_tables<T: Keys>(what: &'static str) -> Kind<Vec<Written<T>>> {
    Kind {
        form: table_form::<T>(what, NONE),
        read: |table, key, _, problems| {
            let tables = table.named_tables(key, T::TABLE, problems).into_iter();
            tables
                .map(|(name, inner)| Written::named(name, &inner, problems))
                .collect()
        },
    }
}

/// Tables of a list, as `[[key]]` makes them.
pub const fn tables<T: Keys>(what: &'static str, default: &'static str) -> Kind<Vec<Written<T>>> {
    Kind {
        form: table_form::<T>(what, default),
        read: |table, key, _, problems| {
            let tables = table.tables(key, T::TABLE, problems);
            let read = |inner| Written::of(inner, problems);
            tables.iter().map(read).collect()
        },
    }
}

/// Tables that stand as values; a single one stands for a list of one.
pub const fn table_list<T: Keys>(what: &'static str) -> Kind<Setting<Vec<Written<T>>>> {
    Kind {
        form: table_form::<T>(what, NONE),
        read: |table, key, _, problems| {
            let tables = table.table_list(key, T::TABLE, problems);
            tables.map(|tables| {
                let read = |inner| Written::of(inner, problems);
                tables.iter().map(read).collect()
            })
        },
    }
}

/// A table, or something else that only `read` knows.
pub const fn table_or_other<I: Keys, T>(
    what: &'static str,
    default: &'static str,
    read: Read<T>,
) -> Kind<T> {
    let form = table_form::<I>(what, default);
    Kind { form, read }
}

const fn table_form<T: Keys>(what: &'static str, default: &'static str) -> Form {
    Form::Table {
        table: T::TABLE,
        what,
        default,
    }
}
