//! Changes to a class's settings, in the syntax of the configuration.
use crate::config::file::{
    PREFIX_V4_DEFAULT, PREFIX_V6_DEFAULT, PaceClass, PolicyName, WrongPolicy, policy,
};
use crate::config::section::Keys;
use crate::config::word::Word;
use crate::config::{nearest, values};
use carrick_splice::{ClassSettings, NetworkRate, Policy, Weight};
use std::time::Duration;

/// The value that clears a setting.
const NONE: &str = "none";

/// Applies the given keys and values, in the syntax of the configuration or `none`. Values that only the splice service
/// can refuse are not detected here.
///
/// # Errors
/// The message says what is wrong and what is accepted. The class may have changed in part.
pub(super) fn change(class: &mut ClassSettings, wanted: &[(String, String)]) -> Result<(), String> {
    if wanted.is_empty() {
        return Err(format!(
            "nothing to change; write key=value, with a key of {}",
            keys()
        ));
    }
    let (mut word, mut target) = (None, None);
    let (mut network, mut prefix_v4, mut prefix_v6) = (None, None, None);
    for (place, (key, value)) in wanted.iter().enumerate() {
        if wanted.iter().take(place).any(|(other, _)| other == key) {
            return Err(format!("`{key}` is given twice; give it once"));
        }
        match key.as_str() {
            "policy" => word = Some(value.as_str()),
            "target" => target = Some(time(key, value)?),
            "rate" => class.rate = rate(key, value)?,
            "ceiling" => class.ceiling = rate(key, value)?,
            "network_ceiling" => network = Some(rate(key, value)?),
            "network_prefix_v4" => prefix_v4 = Some(number(key, value, 32)?),
            "network_prefix_v6" => prefix_v6 = Some(number(key, value, 128)?),
            "splice_ceiling" => class.splice = rate(key, value)?,
            "parent" => class.parent = Some(value.clone()).filter(|value| value != NONE),
            "priority" => class.priority = number(key, value, u8::MAX)?,
            "weight" => {
                class.weight =
                    Weight::meant_by(value).ok_or_else(|| not_of(key, value, Weight::WORDS))?;
            }
            "hold_max" => class.hold_max = time(key, value)?,
            _ => return Err(unknown(key)),
        }
    }
    if word.is_some() || target.is_some() {
        class.policy = changed_policy(class.policy, word, target)?;
    }
    let before = class.network;
    class.network = match network {
        Some(ceiling) => ceiling,
        None => before.map(|network| network.ceiling),
    }
    .map(|ceiling| NetworkRate {
        ceiling,
        prefix_v4: (prefix_v4.or(before.map(|before| before.prefix_v4)))
            .unwrap_or(PREFIX_V4_DEFAULT),
        prefix_v6: (prefix_v6.or(before.map(|before| before.prefix_v6)))
            .unwrap_or(PREFIX_V6_DEFAULT),
    });
    if class.network.is_none() && (prefix_v4.is_some() || prefix_v6.is_some()) {
        return Err(
            "a network prefix requires a ceiling; add one, such as network_ceiling=10MB".to_owned(),
        );
    }
    Ok(())
}

fn changed_policy(
    before: Policy,
    word: Option<&str>,
    target: Option<Duration>,
) -> Result<Policy, String> {
    let word = word.unwrap_or(before.name());
    let kept = match before {
        Policy::Deadline { target } if word == before.name() => Some(target),
        _ => None,
    };
    let name =
        PolicyName::meant_by(word).ok_or_else(|| not_of("policy", word, PolicyName::WORDS))?;
    policy(name, target.or(kept)).map_err(|wrong| match wrong {
        WrongPolicy::NoTarget => {
            "the policy \"deadline\" requires a target; add one, such as target=2ms".to_owned()
        }
        WrongPolicy::Target(policy) => format!(
            "the policy \"{}\" has no target; add policy=deadline, or remove the target",
            policy.name()
        ),
    })
}

fn rate(key: &str, value: &str) -> Result<Option<u64>, String> {
    if value == NONE {
        return Ok(None);
    }
    values::rate(value)
        .map(Some)
        .map_err(|help| format!("`{key}` cannot be {value:?}; {help}, or none"))
}

fn time(key: &str, value: &str) -> Result<Duration, String> {
    values::time(value).map_err(|help| format!("`{key}` cannot be {value:?}; {help}"))
}

fn number(key: &str, value: &str, max: u8) -> Result<u8, String> {
    let number = value.parse().ok().filter(|number| *number <= max);
    number.ok_or_else(|| format!("`{key}` cannot be {value:?}; it is a number from 0 to {max}"))
}

fn not_of(key: &str, value: &str, words: &[&str]) -> String {
    format!(
        "`{key}` cannot be {value:?}; it can be {}",
        words.join(", ")
    )
}

fn unknown(key: &str) -> String {
    let names: Vec<&str> = PaceClass::TABLE.keys.iter().map(|key| key.name).collect();
    match nearest(key, &names) {
        Some(near) => format!("{key:?} is not a setting of a class; did you mean `{near}`?"),
        None => format!(
            "{key:?} is not a setting of a class; the settings are {}",
            keys()
        ),
    }
}

fn keys() -> String {
    let names: Vec<&str> = PaceClass::TABLE.keys.iter().map(|key| key.name).collect();
    names.join(", ")
}
