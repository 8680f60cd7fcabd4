//! How a page is shown.
use super::{certificates, tables};
use crate::cli::admin::Failed;
use serde_json::json;

#[test]
fn pairs_and_gains_are_shown() {
    let leg = |rtt: f64| json!({"rtt_ms": rtt, "loss_percent": 0.25, "rate": 1_000_000});
    let page = json!({
        "pairs": [
            {"client": "10.0.0.0/24", "server": "198.51.100.0/24", "client_leg": leg(601.23), "server_leg": leg(20.0),
             "decision": "split", "because": "split connections were faster", "connections": 120,
             "gos": {"gos": 1.5, "low": 1.1, "high": 2.0}},
            {"client": "10.0.1.0/24", "server": "198.51.100.0/24",
             "client_leg": {"rtt_ms": null, "loss_percent": 0.0, "rate": null}, "server_leg": leg(1.0),
             "decision": "join", "because": "by its legs, splitting gains nothing", "connections": 1, "gos": null},
        ],
        "gain": [{"size": "10-60KB", "gos": -0.01, "low": -0.05, "high": 0.03, "split": 40.4, "joined": 12.0}],
    });
    let Ok(text) = tables(&page) else {
        panic!("no table");
    };
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[1][..5],
        ["10.0.0.0/24", "198.51.100.0/24", "601.2", "+", "20.0"]
    );
    assert_eq!(
        lines[1][11..].join(" "),
        "split +1.50 (+1.10, +2.00) 120 split connections were faster"
    );
    assert_eq!(lines[2][2..5], ["-", "+", "1.0"]);
    assert_eq!(
        lines[5],
        ["10-60KB", "-0.01", "(-0.05,", "+0.03)", "40", "12"]
    );
}

#[test]
fn a_page_without_pairs_says_so() {
    let text = tables(&json!({"pairs": [], "gain": []})).ok();
    assert_eq!(
        text.as_deref(),
        Some("No splitter has seen a connection end yet.\n")
    );
    assert!(matches!(tables(&json!({})), Err(Failed::Because(_))));
}

#[test]
fn certificates_are_shown_with_what_failed() {
    let page = json!({"certificates": [
        {"name": "a.example", "not_after": "2027-01-02T03:04:05Z", "next_order": "2026-12-03T03:04:05Z",
         "failures": 0, "error": null},
        {"name": "b.example", "not_after": null, "next_order": "2026-11-02T03:04:05Z", "failures": 2,
         "error": "the name has no address"},
        {"name": "c.example", "file": "/etc/c.pem", "not_after": "2027-01-02T03:04:05Z", "next_order": null,
         "failures": 0, "error": null},
    ]});
    let Ok(text) = certificates(&page) else {
        panic!("no table");
    };
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[1],
        [
            "a.example",
            "2027-01-02T03:04:05Z",
            "2026-12-03T03:04:05Z",
            "0"
        ]
    );
    assert_eq!(lines[2], ["b.example", "-", "2026-11-02T03:04:05Z", "2"]);
    assert_eq!(lines[3].join(" "), "the name has no address");
    assert_eq!(lines[4], ["c.example", "2027-01-02T03:04:05Z", "-", "0"]);
    assert_eq!(lines[5], ["/etc/c.pem"]);
    assert!(matches!(certificates(&json!({})), Err(Failed::Because(_))));
}
