//! Tests of plans: what is read, and how mistakes are explained.

use super::*;
use crate::load::plan::LoadPlan;

const TOML: &str = r#"
measured_seconds = 2
warm_up_seconds = 0.5
seed = 3
local_ports = [20000, 20999]
[route.forward]
proxy = "127.0.0.1:3128"
origin = "127.0.0.1:8080"
[arrival.closed]
clients = 20
[requests_per_connection.zipf]
alpha = 1.0
max = 100
[[class]]
name = "get"
body_bytes = 1024
[[class]]
name = "hit"
weight = 0.5
body_bytes = 1024
kind = { cacheable = { objects = 10 } }
"#;

fn parse(text: &str) -> Result<LoadPlan> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("plan.toml");
    std::fs::write(&file, text)?;
    read(&file)
}

#[test]
fn toml_and_json_are_the_same_plan() {
    let plan = parse(TOML).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plan.json");
    std::fs::write(&file, serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(read(&file).unwrap(), plan);
    assert!(plan.verify && plan.classes[0].path.is_none());
    let other = directory.path().join("plan.yaml");
    std::fs::write(&other, "").unwrap();
    assert!(format!("{:#}", read(&other).unwrap_err()).contains(".toml or .json"));
    assert!(format!("{:#}", read(Path::new("no/such.toml")).unwrap_err()).contains("no/such.toml"));
}

#[test]
fn mistakes_are_explained() {
    for (from, to, words) in [
        ("seed = 3", "seeds = 3", "seeds"),
        (
            "clients = 20",
            "clients = 0",
            "`arrival.closed.clients` is 0: it has to be 1 at least",
        ),
        (
            "clients = 20",
            "clients = 1\nthink_ms = -1",
            "`arrival.closed.think_ms` is -1",
        ),
        (
            "measured_seconds = 2",
            "measured_seconds = 0",
            "`measured_seconds` is 0: it has to be above 0",
        ),
        (
            "measured_seconds = 2",
            "measured_seconds = nan",
            "`measured_seconds` is NaN",
        ),
        (
            "[20000, 20999]",
            "[300, 200]",
            "`local_ports` is [300, 200]",
        ),
        ("127.0.0.1:8080", "a b", "`route.forward.origin` is `a b`"),
        ("alpha = 1.0", "alpha = -1.0", "zipf.alpha` is -1"),
        ("max = 100", "max = 0", "zipf.max` is 0"),
        (
            "objects = 10",
            "objects = 0",
            "class `hit`: `kind.cacheable.objects` is 0",
        ),
        ("weight = 0.5", "weight = -1", "class `hit`: `weight` is -1"),
        (
            "weight = 0.5",
            "abort_share = 1.5",
            "class `hit`: `abort_share` is 1.5: it has to be from 0 to 1",
        ),
        (
            "weight = 0.5",
            "extension = \"gif\"",
            "`extension` is `gif`: it has to begin with a point",
        ),
        (
            "weight = 0.5",
            "path = \"x\"",
            "`path` is `x`: it has to begin with /",
        ),
        (
            "weight = 0.5",
            "fields = [\"no colon\"]",
            "`fields` has `no colon`",
        ),
        (
            "weight = 0.5",
            "fields = [\"A: b\\r\\nC: d\"]",
            "`fields` has",
        ),
        ("clients = 20", "clients = 900000", "file descriptors"),
    ] {
        assert!(TOML.contains(from));
        let error = format!("{:#}", parse(&TOML.replace(from, to)).unwrap_err());
        assert!(error.contains(words), "{to}: {error}");
        assert!(error.contains("plan.toml"), "{error}");
    }
}

#[test]
fn the_plan_in_the_documentation_can_be_run() {
    let page = include_str!("../../../../../docs/lab/load.md");
    let (_, section) = page.split_once("## A plan").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let example: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .collect();
    let plan = parse(&example.join("\n")).unwrap();
    assert_eq!(plan.classes.len(), 3);
    assert_eq!(
        plan.requests_per_connection,
        RequestsPerConnection::Fixed(1)
    );
}
