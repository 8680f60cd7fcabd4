//! Tests of the mistakes that an experiment's file can have: each is told with its line and what would be right.

use super::*;

const RIGHT: &str = r#"name = "x"
title = "x"
about = "x"

[wan.near]
rule = [{ from = "$client", to = "$proxy", delay_ms = 1 }]

[series.carrick-copy]
label = "copy"
[series.routed]
label = "none"

[[workload]]
id = "gets"
about = "x"
job = "forward"
wan = "near"
series = ["carrick-copy", "routed"]
parameters.size = { values = [1, 2] }
load = { arrival = { closed = { clients = 1 } }, class = [{ name = "a", body_bytes = "$size" }] }
quick = { samples = 1, measured_seconds = 1 }
full = { samples = 1, measured_seconds = 1 }

[[figure]]
id = "figure-1"
number = "Figure 1"
title = "x"
workload = "gets"
x = { name = "size", label = "Size" }
y = { name = "latency_mean_ms", label = "Latency" }
series = ["carrick-copy"]
against = { series = "routed", how = "saving" }
"#;

#[test]
fn an_experiment_that_fits_together_is_read() {
    let experiment = parse(RIGHT, "x.toml").unwrap();
    assert_eq!(experiment.workload("gets").unwrap().series.len(), 2);
    assert_eq!(experiment.labels()["routed"], "none");
}

#[test]
fn mistakes_are_told_with_their_line() {
    for (right, wrong, parts) in [
        (
            "title = \"x\"\nabout",
            "titel = \"x\"\nabout",
            &["x.toml:2:", "unknown field `titel`"][..],
        ),
        (
            "name = \"x\"",
            "name = \"a b\"",
            &["x.toml:1:", "letters, digits and `-`"],
        ),
        ("name = \"x\"", "name = ", &["x.toml:1:"]),
        (
            "[series.routed]",
            "[series.rooted]",
            &["x.toml:10:", "no peer `rooted`", "routed, carrick-auto"],
        ),
        (
            "series = [\"carrick-copy\", \"routed\"]",
            "series = [\"carrick-copy\", \"squid\"]",
            &["x.toml:14:", "no series `squid`", "carrick-copy, routed"],
        ),
        (
            "wan = \"near\"",
            "wan = \"far\"",
            &["x.toml:14:", "no network `far`", "near"],
        ),
        (
            "\"$size\"",
            "\"$sise\"",
            &["x.toml:14:", "no parameter `sise`", "size"],
        ),
        (
            "clients = 1",
            "client = 1",
            &["x.toml:14:", "unknown field `client`"],
        ),
        (
            "values = [1, 2]",
            "values = []",
            &["x.toml:14:", "has no values"],
        ),
        (
            "job = \"forward\"",
            "job = \"forward\"\ntestbed.layout = \"star\"",
            &["x.toml:14:", "testbed", "`star`", "`routed`"],
        ),
        (
            "workload = \"gets\"",
            "workload = \"posts\"",
            &["x.toml:25:", "no workload `posts`", "gets"],
        ),
        (
            "name = \"size\"",
            "name = \"bytes\"",
            &["x.toml:25:", "no parameter `bytes`", "size"],
        ),
        (
            "latency_mean_ms",
            "latency_ms",
            &["x.toml:25:", "no metric `latency_ms`", "latency_mean_ms"],
        ),
        (
            "[\"carrick-copy\"]\nagainst",
            "[\"haproxy\"]\nagainst",
            &["x.toml:25:", "no series `haproxy`"],
        ),
        (
            "how = \"saving\"",
            "how = \"savings\"",
            &["x.toml:32:", "unknown variant `savings`", "saving"],
        ),
        (
            "how = \"saving\" }",
            "how = \"saving\" }\ncheck = [{ test = \"rises\", off = \"x\", agree = \"\", differ = \"\" }]",
            &["x.toml:33:"],
        ),
        (
            "number = \"Figure 1\"",
            "number = \"Figure 1\"\nwhere = { size = 3 }",
            &["x.toml:25:", "`size` is never 3"],
        ),
    ] {
        let text = RIGHT.replacen(right, wrong, 1);
        assert_ne!(text, RIGHT, "{right}");
        let said = format!("{:#}", parse(&text, "x.toml").unwrap_err());
        for part in parts {
            assert!(said.contains(part), "{wrong}: {part} is missing in\n{said}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let said = format!("{:#}", load(Path::new("no/such.toml")).unwrap_err());
    assert!(
        said.contains("cannot read the experiment no/such.toml"),
        "{said}"
    );
}
