//! Tests of the flags: the plans that they stand for, and mistakes.

use clap::Parser;

use super::*;
use crate::load::check::check;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    load: Load,
}

fn planned(line: &str) -> Result<LoadPlan> {
    let words = std::iter::once("load").chain(line.split_whitespace());
    let plan = plan(&Program::try_parse_from(words)?.load)?;
    check(&plan)?;
    Ok(plan)
}

#[test]
fn flags_are_plans() {
    let plan = planned("http://127.0.0.1:8080/b/1024.gif --clients 3 --connections-close").unwrap();
    assert_eq!(
        plan.arrival,
        Arrival::Closed {
            clients: 3,
            think_ms: 0.0
        }
    );
    assert_eq!(
        plan.requests_per_connection,
        RequestsPerConnection::Fixed(1)
    );
    let class = &plan.classes[0];
    assert_eq!(
        (class.body_bytes, class.extension.as_str(), &class.path),
        (1024, ".gif", &None)
    );
    let plan =
        planned("http://127.0.0.1/b/10?seed=4 --proxy 127.0.0.1:3128 --rate 50 --tls").unwrap();
    assert!(matches!(plan.route, Route::Forward { ref origin, .. } if origin == "127.0.0.1"));
    assert_eq!(
        plan.classes[0].kind,
        Kind::Tls {
            abbreviated_share: 0.6
        }
    );
    assert_eq!(
        plan.arrival,
        Arrival::Open {
            rate: 50.0,
            clients_max: 1000
        }
    );
    assert_eq!(
        (plan.classes[0].path.as_deref(), plan.classes[0].body_bytes),
        (Some("/b/10?seed=4"), 10)
    );
}

#[test]
fn pages_batches_and_literal_paths() {
    let plan = planned("http://[::1]:81 --path /f --no-verify --batch 4 --tls=0.5").unwrap();
    assert!(matches!(
        plan.arrival,
        Arrival::Batches {
            clients: 16,
            batch: 4,
            ..
        }
    ));
    assert_eq!(
        (plan.classes[0].path.as_deref(), plan.classes[0].body_bytes),
        (Some("/f"), 0)
    );
    assert_eq!(
        plan.classes[0].kind,
        Kind::Tls {
            abbreviated_share: 0.5
        }
    );
    let plan =
        planned("http://127.0.0.1:81/b/10 --page-objects 4 --page-parallel 2 --page-persistent")
            .unwrap();
    assert!(matches!(
        plan.arrival,
        Arrival::Pages {
            embedded: 4,
            parallel: 2,
            persistent: true,
            ..
        }
    ));
}

#[test]
fn mistakes_are_explained() {
    for (line, words) in [
        ("", "required"),
        ("ftp://x", "http://ADDRESS:PORT/b/BYTES"),
        ("http:///b/1", "names no address"),
        ("http://127.0.0.1:1/file", "--no-verify"),
        ("http://127.0.0.1:1/b/1 --abort-share 2", "from 0 to 1"),
        ("http://127.0.0.1:1/b/1 --clients 0", "1 at least"),
        ("http://127.0.0.1:1/b/1 --local-ports 9-1", "10000-20000"),
        ("http://127.0.0.1:1/b/1 --confidence 99", "90 or 95"),
        (
            "http://127.0.0.1:1/b/1 --rate 1 --batch 2",
            "cannot be used with",
        ),
        ("--plan x.toml --clients 3", "cannot be used with"),
        ("http://127.0.0.1:port/b/1", "ADDRESS:PORT is right"),
    ] {
        let error = format!("{:#}", planned(line).unwrap_err());
        assert!(error.contains(words), "{line}: {error}");
    }
}
