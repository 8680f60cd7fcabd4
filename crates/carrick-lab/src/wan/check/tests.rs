//! What a specification may say, and what is said about mistakes.

use super::*;

#[test]
fn a_whole_specification_is_read() {
    let spec = parse(
        "seed = 7\n[[rule]]\nfrom = \"10.0.1.0/24\"\nto = \"10.0.2.0/24\"\nfrom_ports = [10001, 16000]\nfor_each_port = true\n\
         delay_ms = 50\njitter_ms = 1.5\nrate_kbit = 28\nqueue_packets = 20\nloss = 0.001\nloss_after_loss = 0.4\nreorder = 0.01\nduplicate = 0\n\
         [[rule]]\ndelay_ms = 90\n",
    )
    .unwrap();
    assert_eq!((spec.seed, spec.rules.len()), (7, 2));
    let first = &spec.rules[0];
    assert_eq!(first.from_ports, Some([10_001, 16_000]));
    assert!(first.for_each_port);
    assert_eq!(first.path.delay_ms, 50.0);
    assert_eq!(first.path.rate_kbit, Some(28.0));
    assert_eq!(first.path.loss_after_loss, Some(0.4));
    assert_eq!(spec.rules[1].path.delay_ms, 90.0);
    assert_eq!(parse("").unwrap(), WanSpec::default());
}

#[test]
fn mistakes_name_the_rule_the_key_the_value_and_what_would_be_right() {
    for (rule, parts) in [
        ("loss = 1.5", ["rule 2: loss = 1.5", "from 0 to 1"]),
        ("loss = -0.1", ["rule 2: loss = -0.1", "from 0 to 1"]),
        ("loss = nan", ["rule 2: loss = NaN", "from 0 to 1"]),
        (
            "loss_after_loss = 40",
            ["loss_after_loss = 40", "from 0 to 1"],
        ),
        ("reorder = 2", ["reorder = 2", "from 0 to 1"]),
        ("duplicate = -1", ["duplicate = -1", "from 0 to 1"]),
        ("delay_ms = -3", ["delay_ms = -3", "from 0 to"]),
        ("delay_ms = inf", ["delay_ms = inf", "from 0 to"]),
        (
            "jitter_ms = 3",
            ["jitter_ms = 3 is more than delay_ms = 0", "at most 0"],
        ),
        ("rate_kbit = 0", ["rate_kbit = 0", "leave it out"]),
        (
            "queue_packets = 1000001",
            ["queue_packets = 1000001", "at most 1000000"],
        ),
        ("from_ports = [9, 7]", ["from_ports = [9, 7]", "[7, 9]"]),
        ("to_ports = [9, 7]", ["to_ports = [9, 7]", "[7, 9]"]),
        (
            "for_each_port = true",
            ["for_each_port", "give from_ports or to_ports"],
        ),
        (
            "from = \"10.0.0.0/8\"\nto = \"fd00::/8\"",
            ["never match", "both IPv6"],
        ),
        (
            "from = \"10.0.0.1/8\"",
            [
                "rule 2: from",
                "`10.0.0.1/8` has address bits behind its prefix",
            ],
        ),
        ("delay = 3", ["rule 2: delay = 3", "unknown field `delay`"]),
        (
            "queue_packets = -1",
            ["rule 2: queue_packets = -1", "expected usize"],
        ),
        (
            "to_ports = [7, 70000]",
            ["rule 2: to_ports = [7, 70000]", "expected u16"],
        ),
        ("to_ports = [7]", ["rule 2: to_ports = [7]", "length 2"]),
        ("loss = \"1 %\"", ["rule 2: loss = \"1 %\"", "f64"]),
        (
            "for_each_port = 1",
            ["rule 2: for_each_port = 1", "boolean"],
        ),
    ] {
        let said = parse(&format!("[[rule]]\n[[rule]]\n{rule}\n")).unwrap_err();
        for part in parts {
            assert!(
                said.contains(part),
                "{rule}: {part:?} is missing in {said:?}"
            );
        }
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let said = parse("[[rule]]\nloss = 3\n[[rule]]\nloss = 4\nrate_kbit = -1\n").unwrap_err();
    assert_eq!(said.lines().count(), 3, "{said}");
}

#[test]
fn what_is_no_toml_is_shown_with_its_place() {
    let said = parse("seed = 1\n[[rule]\n").unwrap_err();
    assert!(said.contains("line 2"), "{said}");
    let said = parse("speed = 1\n").unwrap_err();
    assert!(said.contains("unknown field `speed`"), "{said}");
}
