//! Mistakes in pacing.
use super::Mistake;
use super::Severity::{Error, Note, Warning};

pub const MISTAKES: &[Mistake] = &[
    // Values
    (
        "§pace = \"c\"\n[pace.classes.c]\npolicy = \"conservativ\"",
        Error,
        "\"conservativ\"",
        "`policy` cannot be",
        "did you mean \"conservative\"?",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\nceiling = \"10 Mbit/s\"",
        Error,
        "\"10 Mbit/s\"",
        "not a rate",
        "write \"1250000/s\"",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\nceiling = 999",
        Error,
        "999",
        "too small",
        "",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\nsplice_ceiling = 100000000001",
        Error,
        "100000000001",
        "too large",
        "",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\nnetwork_ceiling = \"1 MB\"\nnetwork_prefix_v4 = 33",
        Error,
        "33",
        "too large",
        "",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\nhold_max = \"11s\"",
        Error,
        "\"11s\"",
        "too large",
        "",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\npriority = 256",
        Error,
        "256",
        "too large",
        "",
    ),
    (
        "§[pace]\ninterval = \"10ms\"",
        Error,
        "\"10ms\"",
        "too small",
        "",
    ),
    (
        "§[pace.classes.c]\nrat = 1",
        Error,
        "rat",
        "not a key of [pace.classes.NAME]",
        "did you mean `rate`?",
    ),
    (
        "§[pace]\nclasses = 1",
        Error,
        "1",
        "group of tables",
        "[pace.classes.NAME]",
    ),
    // Names
    (
        "§[pace]\ndefault = \"slow\"\n[pace.classes.c]\n[pace.classes.slwo]\nparent = \"c\"",
        Error,
        "\"slow\"",
        "there is no class \"slow\"",
        "did you mean \"slwo\"?",
    ),
    (
        "§pace = \"c\"",
        Error,
        "\"c\"",
        "there is no class \"c\"",
        "add [pace.classes.c]",
    ),
    (
        "%pace = \"c\"",
        Error,
        "\"c\"",
        "there is no class \"c\"",
        "add [pace.classes.c]",
    ),
    ("&pace = 7", Error, "7", "`pace` must be a string", ""),
    (
        "§pace = \"a b\"\n[pace.classes.\"a b\"]",
        Error,
        "\"a b\"",
        "not a name for a class",
        "up to 64 letters",
    ),
    (
        "§pace = \"none\"\n[pace.classes.none]",
        Error,
        "none",
        "no class can have this name",
        "another name",
    ),
    (
        "§[pace.classes.c]",
        Warning,
        "c",
        "nothing is paced by the class \"c\"",
        "name it as `default`",
    ),
    // Policies
    (
        "§pace = \"c\"\n[pace.classes.c]\npolicy = \"deadline\"",
        Error,
        "\"deadline\"",
        "needs a `target`",
        "add `target",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\npolicy = \"proportional\"\ntarget = \"2ms\"",
        Error,
        "\"2ms\"",
        "the policy \"proportional\" has no `target`",
        "policy = \"deadline\"",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\ntarget = \"2ms\"",
        Error,
        "\"2ms\"",
        "the policy \"immediate\" has no `target`",
        "policy = \"deadline\"",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\npolicy = \"deadline\"\ntarget = \"50us\"",
        Error,
        "\"50us\"",
        "too small",
        "",
    ),
    // Contradictions
    (
        "§pace = \"c\"\n[pace.classes.c]\nnetwork_prefix_v6 = 48",
        Note,
        "network_prefix_v6",
        "no effect without `network_ceiling`",
        "each network of clients",
    ),
    (
        "§pace = \"d\"\n[pace.classes.c]\n[pace.classes.d]\nparent = \"c\"\nrate = \"20 MB\"\nceiling = \"10 MB\"",
        Error,
        "rate",
        "rate (20971520) is more than ceiling (10485760)",
        "lower `rate`, or raise `ceiling`",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\nrate = \"20 MB\"",
        Error,
        "rate",
        "rate is what a class has for itself of its parent's",
        "without a parent, ceiling is what bounds it",
    ),
    (
        "§pace = \"abc\"\n[pace.classes.abc]\nparent = \"abd\"\n",
        Error,
        "parent",
        "its parent \"abd\" is no class",
        "did you mean \"abc\"?",
    ),
    (
        "§pace = \"c\"\n[pace.classes.c]\nparent = \"d\"\n[pace.classes.d]\nparent = \"c\"",
        Error,
        "c",
        "in a circle",
        "`parent` names the class above",
    ),
    (
        "§pace = \"a\"\n[pace.classes.a]\nparent = \"b\"\n[pace.classes.b]\nparent = \"c\"\n[pace.classes.c]\nparent = \"d\"\n[pace.classes.d]",
        Error,
        "a",
        "more than 3 classes are above each other",
        "",
    ),
    (
        "§pace = \"a\"\n[pace.classes.up]\nceiling = \"1 MB\"\n[pace.classes.a]\nparent = \"up\"\nrate = \"600 KB\"\n[pace.classes.b]\nparent = \"up\"\nrate = \"600 KB\"\n[[listener]]\nlisten = \"127.0.0.1:1\"\nmode = \"forward\"\npace = \"b\"",
        Error,
        "up",
        "more than its own 1048576",
        "at most its `ceiling` together",
    ),
];

#[test]
fn each_class_that_is_wrong_is_named_and_none_because_of_another() {
    let text = super::expand(
        "§pace = \"d\"\n[pace.classes.a]\nparent = \"b\"\n[pace.classes.b]\nparent = \"a\"\n[pace.classes.c]\nrate = \"1 MB\"\n[pace.classes.d]\nparent = \"c\"\nrate = \"2 MB\"\nceiling = \"1 MB\"\n[pace.classes.e]\nparent = \"f\"",
    );
    let errors: Vec<String> = super::problems(&text)
        .iter()
        .filter(|problem| problem.severity == Error)
        .map(ToString::to_string)
        .collect();
    let begin = [
        "test.toml:5:15: more than 3",
        "test.toml:10:1: rate is what",
        "test.toml:13:1: rate (2097152)",
        "test.toml:16:1: its parent \"f\"",
    ];
    assert_eq!(errors.len(), begin.len(), "{errors:#?}");
    for (error, begin) in errors.iter().zip(begin) {
        assert!(error.starts_with(begin), "{error} is not {begin}");
    }
}

#[test]
fn more_classes_than_there_can_be_are_refused() {
    let of = |count: usize| {
        let mut text = super::expand("§[pace]\ndefault = \"c0\"\n");
        for number in 0..count {
            text += &format!("[pace.classes.c{number}]\n");
        }
        super::problems(&text)
    };
    assert!(of(64).iter().all(|problem| problem.severity < Error));
    let found = of(65);
    let error = found.iter().find(|problem| problem.severity == Error);
    let error = error.expect("an error");
    assert_eq!(error.line_and_column(), Some((70, 15)), "{error}");
    assert_eq!(error.message, "65 classes");
    assert_eq!(error.help.as_deref(), Some("there can be 64"));
}
