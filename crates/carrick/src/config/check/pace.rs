//! Checks `[pace]`, and which class a listener or a route has. Whether classes go together is the splice service's to say.
use super::named::{Named, Words};
use crate::config::file::{self, PaceClass, PolicyName, WrongPolicy};
use crate::config::plan::PacePlan;
use crate::config::problem::Problems;
use crate::config::section::{Keys, Written};
use crate::config::setting::Setting;
use crate::config::values;
use carrick_splice::{ClassSettings, NetworkRate, PaceError, Pacing, Policy};
use toml::Spanned;

/// Said in place of a class's name where one is taken away.
const NOBODY: &str = "none";

const WORDS: Words = Words {
    what: "class",
    table: "pace.classes",
    wanted: "",
    unused: "nothing is paced by the class",
    use_it: "name it as `default` of [pace], or as `pace` of a listener or a route, or remove it",
};

/// The classes, and which of them are used.
pub struct Classes<'f> {
    named: Named<'f>,
    default: Option<usize>,
}

/// Checks the classes; the plan's are in the order of the file.
pub fn check<'f>(
    written: &'f Written<file::Pace>,
    problems: &mut Problems,
) -> (Classes<'f>, PacePlan) {
    let settings: Vec<ClassSettings> = written
        .classes
        .iter()
        .map(|class| settings(class, problems))
        .collect();
    check_together(written, &settings, problems);
    let mut classes = Classes {
        named: named(written),
        default: None,
    };
    for class in &written.classes {
        if let Some(parent) = class.parent.given() {
            // If there is none, the splice service says so.
            classes.named.find_quietly(parent.get_ref());
        }
    }
    classes.default = classes.of(&written.default, None, problems);
    let plan = PacePlan {
        interval: written.interval,
        classes: settings,
    };
    (classes, plan)
}

impl Classes<'_> {
    /// The class of a listener that says `written`.
    pub fn of_listener(&self, written: &Setting<String>, problems: &mut Problems) -> Option<usize> {
        self.of(written, self.default, problems)
    }

    /// The class of what says `written`, and else has `inherited`; it is used from now on.
    pub fn of(
        &self,
        written: &Setting<String>,
        inherited: Option<usize>,
        problems: &mut Problems,
    ) -> Option<usize> {
        let name = match written {
            Setting::Absent => return inherited,
            Setting::Wrong => return None,
            Setting::Given(name) if name.get_ref().is_empty() => return None,
            Setting::Given(name) => name,
        };
        self.named.find(name, problems)
    }

    /// Warns of classes that nothing names.
    pub fn report_unused(&self, problems: &mut Problems) {
        self.named.report_unused(problems);
    }
}

fn named(written: &file::Pace) -> Named<'_> {
    Named::new(WORDS, written.classes.iter().map(|class| &class.name))
}

fn name_of(class: &Written<PaceClass>) -> &str {
    class.name.get_ref()
}

/// A class by itself. What is wrong in it is as if it were not said.
fn settings(written: &Written<PaceClass>, problems: &mut Problems) -> ClassSettings {
    check_name(&written.name, problems);
    let ceiling = given(&written.network_ceiling);
    if written.network_ceiling.is_absent() {
        let prefixes = ["network_prefix_v4", "network_prefix_v6"];
        let idle = (written.keys_given.iter()).filter(|(key, _)| prefixes.contains(key));
        for (key, span) in idle {
            problems
                .note(
                    span.clone(),
                    format!("`{key}` has no effect without `network_ceiling`"),
                )
                .help("`network_ceiling` is what each network of clients never exceeds");
        }
    }
    ClassSettings {
        policy: policy(written, problems),
        rate: given(&written.rate),
        ceiling: given(&written.ceiling),
        network: ceiling.map(|ceiling| NetworkRate {
            ceiling,
            prefix_v4: written.network_prefix_v4,
            prefix_v6: written.network_prefix_v6,
        }),
        splice: given(&written.splice_ceiling),
        parent: written
            .parent
            .given()
            .map(|parent| parent.get_ref().clone()),
        priority: written.priority,
        weight: written.weight,
        hold_max: written.hold_max,
        ..ClassSettings::new(written.name.get_ref().clone())
    }
}

fn given(rate: &Setting<u64>) -> Option<u64> {
    rate.given().map(|rate| *rate.get_ref())
}

/// Names become labels of metrics, and parts of the addresses at which admin changes classes.
fn check_name(name: &Spanned<String>, problems: &mut Problems) {
    if let Err(help) = values::plain_name(name.get_ref()) {
        problems
            .error(name.span(), "this is not a name for a class")
            .help(help);
    } else if name.get_ref() == NOBODY {
        problems
            .error(name.span(), "no class can have this name")
            .help("`none` is what `carrick pace` says for no class; choose another name");
    }
}

fn policy(written: &Written<PaceClass>, problems: &mut Problems) -> Policy {
    let name = match &written.policy {
        Setting::Given(name) => *name.get_ref(),
        Setting::Absent => PolicyName::Immediate,
        Setting::Wrong => return Policy::Immediate,
    };
    let target = written.target.given();
    match file::policy(name, target.map(|target| *target.get_ref())) {
        Ok(policy) => policy,
        Err(WrongPolicy::NoTarget) if written.target.is_absent() => {
            let place = written.policy.given().map(Spanned::span);
            problems
                .error(
                    place.unwrap_or(written.name.span()),
                    "the policy \"deadline\" needs a `target`",
                )
                .help("add `target = \"2ms\"`: within that, 99 of 100 cache hits are answered");
            Policy::Immediate
        }
        Err(WrongPolicy::Target(policy)) => {
            problems
                .error(
                    target.map_or(written.name.span(), Spanned::span),
                    format!("the policy \"{}\" has no `target`", policy.name()),
                )
                .help("remove it, or write `policy = \"deadline\"`");
            policy
        }
        // It was said when the file was read.
        Err(WrongPolicy::NoTarget) => Policy::Immediate,
    }
}

/// Has the splice service check them. It names one mistake at a time; a class that is wrong is then taken for one that asks for
/// nothing, so that the others are checked, too.
fn check_together(
    written: &Written<file::Pace>,
    settings: &[ClassSettings],
    problems: &mut Problems,
) {
    let mut checked = settings.to_vec();
    for _ in 0..=settings.len() {
        let Err(error) = Pacing::check(&checked, written.interval) else {
            return;
        };
        report(written, &error, problems);
        let wrong = checked
            .iter_mut()
            .find(|class| Some(&class.name) == error.class.as_ref());
        match wrong {
            Some(class) if *class != ClassSettings::new(class.name.clone()) => {
                *class = ClassSettings::new(class.name.clone());
            }
            // Nothing that one class says.
            _ => return,
        }
    }
}

/// Shows what the splice service has found at the key that it names, or else at the class.
fn report(written: &Written<file::Pace>, error: &PaceError, problems: &mut Problems) {
    let (what, advice) = error.why.split_once("; ").unwrap_or((&error.why, ""));
    let class = written
        .classes
        .iter()
        .find(|class| Some(class.name.get_ref()) == error.class.as_ref());
    let Some(class) = class else {
        let place = written
            .classes
            .last()
            .map_or(written.span.clone(), |class| class.name.span());
        problems.error(place, what).help(advice);
        return;
    };
    if values::plain_name(name_of(class)).is_err() {
        // It was said what is wrong with it.
        return;
    }
    let is_named = |key: &str| {
        let words = |character: char| !character.is_ascii_alphanumeric() && character != '_';
        what.split(words).any(|word| word == key)
    };
    let key = (PaceClass::TABLE.keys.iter())
        .filter(|key| is_named(key.name))
        .find_map(|key| class.keys_given.iter().find(|(name, _)| *name == key.name));
    let advice = match (advice, key) {
        ("", Some((name, _))) if *name == "parent" => {
            let parent = class.parent.given().map(Spanned::get_ref);
            named(written).meant(parent.map_or("", String::as_str))
        }
        ("", Some(_)) => "a class never exceeds its `ceiling`, and its `rate` is reserved for it; lower `rate`, or raise `ceiling`".to_owned(),
        ("", None) => "`parent` names the class above this one; the `rate`s of those below a class are at most its `ceiling` together".to_owned(),
        (advice, _) => advice.to_owned(),
    };
    let place = key.map_or(class.name.span(), |(_, span)| span.clone());
    problems.error(place, what).help(advice);
}
