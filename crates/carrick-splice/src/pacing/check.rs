//! Checks the classes of a configuration.

use super::block::CLASSES;
use super::class::{ClassSettings, HOLD_MAX, PaceError, Policy, RATE_MAX, RATE_MIN};
use std::time::Duration;

/// The most levels of classes.
const DEPTH_MAX: usize = 3;

const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(60);
const TARGET_MIN: Duration = Duration::from_micros(100);
const TARGET_MAX: Duration = Duration::from_secs(10);
const HOLD_MIN: Duration = Duration::from_millis(1);

/// Whether these classes are valid, with estimates every `interval`.
pub(super) fn classes(classes: &[ClassSettings], interval: Duration) -> Result<(), PaceError> {
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        return Err(PaceError {
            class: None,
            why: format!(
                "the interval is {interval:?}; it can be {INTERVAL_MIN:?} to {INTERVAL_MAX:?}"
            ),
        });
    }
    if classes.len() > CLASSES {
        return Err(PaceError {
            class: None,
            why: format!("{} classes; there can be {CLASSES}", classes.len()),
        });
    }
    for (place, class) in classes.iter().enumerate() {
        if class.name.is_empty() {
            return Err(PaceError::of(&class.name, "a class needs a name"));
        }
        if classes[..place]
            .iter()
            .any(|other| other.name == class.name)
        {
            return Err(PaceError::of(&class.name, "there are two of this name"));
        }
        alone(class)?;
        among(class, classes)?;
    }
    Ok(())
}

/// Checks a class by itself.
fn alone(class: &ClassSettings) -> Result<(), PaceError> {
    let wrong = |why: String| Err(PaceError::of(&class.name, why));
    let rates = [
        ("rate", class.rate),
        ("ceiling", class.ceiling),
        ("network", class.network.map(|network| network.ceiling)),
        ("splice", class.splice),
    ];
    for (name, rate) in rates {
        if let Some(rate) = rate.filter(|rate| !(RATE_MIN..=RATE_MAX).contains(rate)) {
            return wrong(format!(
                "{name} is {rate} bytes per second; it can be {RATE_MIN} to {RATE_MAX} (less would stop a transfer)"
            ));
        }
    }
    if let (Some(rate), Some(ceiling)) = (class.rate, class.ceiling)
        && rate > ceiling
    {
        return wrong(format!("rate ({rate}) is more than ceiling ({ceiling})"));
    }
    if class.rate.is_some() && class.parent.is_none() {
        return wrong(
            "rate is what a class has for itself of its parent's; without a parent, ceiling is what bounds it".into(),
        );
    }
    if let Some(network) = class.network
        && (network.prefix_v4 > 32 || network.prefix_v6 > 128)
    {
        return wrong(
            "a network has at most 32 bits of an IPv4 address, and 128 of an IPv6 address".into(),
        );
    }
    if !(HOLD_MIN..=HOLD_MAX).contains(&class.hold_max) {
        return wrong(format!(
            "hold_max is {:?}; it can be {HOLD_MIN:?} to {HOLD_MAX:?}",
            class.hold_max
        ));
    }
    match class.policy {
        Policy::Deadline { target } if !(TARGET_MIN..=TARGET_MAX).contains(&target) => wrong(
            format!("target is {target:?}; it can be {TARGET_MIN:?} to {TARGET_MAX:?}"),
        ),
        _ => Ok(()),
    }
}

/// Checks a class's references.
fn among(class: &ClassSettings, classes: &[ClassSettings]) -> Result<(), PaceError> {
    let find = |name: &str| classes.iter().find(|class| class.name == name);
    let (mut above, mut depth) = (class, 1);
    while let Some(parent) = &above.parent {
        let Some(parent) = find(parent) else {
            return Err(PaceError::of(
                &above.name,
                format!("its parent {parent:?} is no class"),
            ));
        };
        depth += 1;
        if depth > DEPTH_MAX {
            return Err(PaceError::of(
                &class.name,
                format!("more than {DEPTH_MAX} classes are above each other, or in a circle"),
            ));
        }
        above = parent;
    }
    let children = classes
        .iter()
        .filter(|child| child.parent.as_deref() == Some(&*class.name));
    let promised: u64 = children.filter_map(|child| child.rate).sum();
    match class.ceiling.or(class.rate) {
        Some(ceiling) if promised > ceiling => Err(PaceError::of(
            &class.name,
            format!(
                "its classes have rates of {promised} bytes per second together, more than its own {ceiling}"
            ),
        )),
        _ => Ok(()),
    }
}
