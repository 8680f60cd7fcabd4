//! `/metrics` compared with a strict OpenMetrics parser, the declarations, and the documentation.
use super::*;
use crate::control::testing::{plan, state, upstream};
use crate::telemetry::metrics::Histogram;
use crate::telemetry::{METRICS, MetricDeclaration, MetricKind};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One parsed family.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    /// Sample name with labels as written, and value.
    samples: BTreeMap<String, f64>,
}

/// Parses OpenMetrics text 1.0 and panics on anything that a strict reader refuses.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let body = text
        .strip_suffix("# EOF\n")
        .expect("the text ends with # EOF");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut helped = BTreeSet::new();
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && !help.contains(['\\', '"']), "{line}");
            assert!(helped.insert(name.to_owned()), "two help texts: {line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a kind");
            assert!(helped.contains(name), "no help text before {line}");
            assert!(
                ["counter", "gauge", "histogram", "info"].contains(&kind),
                "{line}"
            );
            let family = Family {
                kind: kind.into(),
                samples: BTreeMap::new(),
            };
            assert!(
                families.insert(name.into(), family).is_none(),
                "a family in two pieces: {line}"
            );
            current = name.into();
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            let name = sample.split('{').next().unwrap();
            check_labels(&sample[name.len()..]);
            let family = families.get_mut(&current).expect("a family");
            let suffix = name
                .strip_prefix(&current)
                .unwrap_or_else(|| panic!("{line} does not belong to {current}"));
            let allowed: &[&str] = match &*family.kind {
                "counter" => &["_total"],
                "gauge" => &[""],
                "info" => &["_info"],
                _ => &["_bucket", "_sum", "_count"],
            };
            assert!(
                allowed.contains(&suffix),
                "{line} is not a sample of a {}",
                family.kind
            );
            let value: f64 = value
                .parse()
                .unwrap_or_else(|_| panic!("not a number: {line}"));
            assert!(value >= 0.0, "{line}");
            assert!(
                family.samples.insert(sample.into(), value).is_none(),
                "twice: {line}"
            );
        }
    }
    families
}

/// `{name="value",…}` or nothing; in values, `\\`, `\"` and `\n` are the only escapes.
fn check_labels(labels: &str) {
    let Some(mut rest) = labels.strip_prefix('{') else {
        assert!(labels.is_empty(), "{labels}");
        return;
    };
    let mut names = BTreeSet::new();
    loop {
        let (name, after) = rest
            .split_once("=\"")
            .unwrap_or_else(|| panic!("no label in {labels}"));
        assert!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{labels}"
        );
        assert!(names.insert(name), "label twice: {labels}");
        let mut characters = after.char_indices();
        let end = loop {
            match characters
                .next()
                .unwrap_or_else(|| panic!("no closing quote: {labels}"))
            {
                (_, '\\') => assert!(
                    matches!(characters.next(), Some((_, '\\' | '"' | 'n'))),
                    "{labels}"
                ),
                (index, '"') => break index,
                _ => {}
            }
        };
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    assert_eq!(rest, "}", "{labels}");
}

fn busy_state() -> Arc<ControlState> {
    let server = |port| std::net::SocketAddr::from(([10, 0, 0, 1], port));
    let mut odd = upstream("od\"d\\\n", &[server(1), server(1)], None);
    odd.servers.push(crate::config::plan::ServerPlan {
        address: crate::config::plan::ServerAddress::Name {
            host: "a.example".into(),
            port: 80,
        },
        weight: 1,
    });
    let upstreams = vec![
        Arc::new(upstream("images", &[server(80), server(81)], None)),
        Arc::new(odd),
    ];
    let state = state(plan(None, upstreams));
    for (index, worker) in state.workers.iter().enumerate() {
        let many = index as u64 + 1;
        worker.connections_accepted.add(10 * many);
        worker.connections_closed.add(many);
        worker.client_bytes_sent.add(1000 * many);
        worker.job(Job::Switch).requests.count(200);
        worker.job(Job::Switch).requests.count(418);
        worker
            .job(Job::Switch)
            .request_seconds
            .observe(Duration::from_millis(3 * many));
        worker.job(Job::Forward).requests.count(777);
        worker.job(Job::Tunnel).tunnels_opened.add(5);
        worker.refusals.count("repeated_content_length");
        worker.limits.reached(Limit::HeadTimeout);
        worker.limits.reached(Limit::LogQueue);
        worker.connect_seconds.observe(Duration::from_secs(100));
        worker.upstream_connections_opened.add(4);
        worker.upstream_connections_closed.add(1);
        worker.splice.pipes_refused.add(3);
        worker.splice.pipe_bytes.add(7);
        worker.dns_hits.add(6);
    }
    let running = state.running.load();
    running.upstreams[0].servers[1].requests.store(12, Relaxed);
    running.upstreams[0].servers[1].set_healthy(false);
    state.reloaded(Ok(()));
    state.reloaded(Err(crate::control::NotReloaded::Refused("no".into())));
    state.set_draining();
    Arc::clone(&state)
}

#[test]
fn a_strict_reader_takes_it_and_the_numbers_are_right() {
    let text = exposition(&busy_state(), Format::OpenMetrics).unwrap();
    let families = parse(&text);
    let value = |family: &str, sample: &str| {
        let samples = &families
            .get(family)
            .unwrap_or_else(|| panic!("no {family} in\n{text}"))
            .samples;
        *samples
            .get(sample)
            .unwrap_or_else(|| panic!("no {sample} in {samples:#?}"))
    };
    let expected = [
        ("carrick_draining", "carrick_draining", 1.0),
        (
            "carrick_reloads",
            "carrick_reloads_total{result=\"ok\"}",
            1.0,
        ),
        (
            "carrick_reloads",
            "carrick_reloads_total{result=\"failed\"}",
            1.0,
        ),
        (
            "carrick_engine_usable",
            "carrick_engine_usable{engine=\"copy\"}",
            1.0,
        ),
        (
            "carrick_engine_usable",
            "carrick_engine_usable{engine=\"pipe\"}",
            0.0,
        ),
        (
            "carrick_engine_reason",
            "carrick_engine_reason{engine=\"pipe\",reason=\"splice(2) is forbidden here\"}",
            1.0,
        ),
        (
            "carrick_requests",
            "carrick_requests_total{mode=\"switch\",status=\"200\"}",
            2.0,
        ),
        (
            "carrick_requests",
            "carrick_requests_total{mode=\"switch\",status=\"418\"}",
            2.0,
        ),
        (
            "carrick_requests",
            "carrick_requests_total{mode=\"forward\",status=\"other\"}",
            2.0,
        ),
        (
            "carrick_requests",
            "carrick_requests_total{mode=\"forward\",status=\"502\"}",
            0.0,
        ),
        (
            "carrick_tunnels_open",
            "carrick_tunnels_open{mode=\"tunnel\"}",
            10.0,
        ),
        (
            "carrick_client_connections",
            "carrick_client_connections_total",
            30.0,
        ),
        (
            "carrick_client_connections_open",
            "carrick_client_connections_open{worker=\"0\"}",
            9.0,
        ),
        (
            "carrick_client_connections_open",
            "carrick_client_connections_open{worker=\"1\"}",
            18.0,
        ),
        (
            "carrick_client_bytes",
            "carrick_client_bytes_total{direction=\"sent\"}",
            3000.0,
        ),
        (
            "carrick_upstream_connections_open",
            "carrick_upstream_connections_open",
            6.0,
        ),
        (
            "carrick_refusals",
            "carrick_refusals_total{reason=\"repeated_content_length\"}",
            2.0,
        ),
        (
            "carrick_limit",
            "carrick_limit{limit=\"connections\"}",
            1000.0,
        ),
        (
            "carrick_limit_reached",
            "carrick_limit_reached_total{limit=\"head_timeout\"}",
            2.0,
        ),
        (
            "carrick_limit_reached",
            "carrick_limit_reached_total{limit=\"pipes\"}",
            6.0,
        ),
        (
            "carrick_log_lines_dropped",
            "carrick_log_lines_dropped_total{reason=\"queue\"}",
            2.0,
        ),
        (
            "carrick_splice_bytes",
            "carrick_splice_bytes_total{engine=\"pipe\"}",
            14.0,
        ),
        (
            "carrick_dns_cache_hits",
            "carrick_dns_cache_hits_total{cache=\"worker\"}",
            12.0,
        ),
        (
            "carrick_server_requests",
            "carrick_server_requests_total{upstream=\"images\",server=\"10.0.0.1:81\"}",
            12.0,
        ),
        (
            "carrick_server_up",
            "carrick_server_up{upstream=\"images\",server=\"10.0.0.1:81\"}",
            0.0,
        ),
        (
            "carrick_server_up",
            "carrick_server_up{upstream=\"od\\\"d\\\\\\n\",server=\"a.example:80\"}",
            1.0,
        ),
        (
            "carrick_connect_seconds",
            "carrick_connect_seconds_bucket{le=\"60.0\"}",
            0.0,
        ),
        (
            "carrick_connect_seconds",
            "carrick_connect_seconds_bucket{le=\"+Inf\"}",
            2.0,
        ),
        (
            "carrick_request_seconds",
            "carrick_request_seconds_bucket{le=\"0.005\",mode=\"switch\"}",
            1.0,
        ),
    ];
    for (family, sample, number) in expected {
        assert!(
            (value(family, sample) - number).abs() < 1e-9,
            "{sample}: {}",
            value(family, sample)
        );
    }
}

#[test]
fn the_plain_format_has_the_same_samples_under_names_that_its_readers_know() {
    let state = busy_state();
    let samples = |text: &str| -> Vec<String> {
        let of_process = |line: &&str| line.contains("process_");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter(|line| !of_process(line))
            .map(ToOwned::to_owned)
            .collect()
    };
    let plain = exposition(&state, Format::Plain).unwrap();
    let open = exposition(&state, Format::OpenMetrics).unwrap();
    assert_eq!(samples(&plain), samples(&open));
    assert!(!plain.contains("# EOF"), "{plain}");
    for lines in [
        "# TYPE carrick_refusals_total counter\ncarrick_refusals_total{reason=",
        "# TYPE carrick_build_info gauge\ncarrick_build_info{version=",
        "# TYPE carrick_draining gauge\ncarrick_draining 1\n",
        "# TYPE carrick_connect_seconds histogram\ncarrick_connect_seconds_",
        "\ncarrick_engine_usable{engine=\"copy\"} 1\n",
    ] {
        assert!(plain.contains(lines), "{lines}\n{plain}");
    }
    // As readers of the format do: a sample belongs to the family that has its name, or its name without a histogram suffix.
    let mut family = (String::new(), String::new());
    for line in plain.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            family = (name.to_owned(), kind.to_owned());
        } else if !line.starts_with("# HELP ") {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffix = name
                .strip_prefix(&*family.0)
                .unwrap_or_else(|| panic!("{line}"));
            let allowed: &[&str] = match &*family.1 {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(allowed.contains(&suffix), "{line}");
        }
    }
}

#[test]
fn histograms_are_cumulative_and_end_with_their_count() {
    let families = parse(&exposition(&busy_state(), Format::OpenMetrics).unwrap());
    let samples = &families["carrick_request_seconds"].samples;
    let mut previous = 0.0;
    let bounds = Histogram::BOUNDS_US
        .iter()
        .map(|bound_us| format!("{:?}", *bound_us as f64 / 1e6));
    for bound in bounds.chain([String::from("+Inf")]) {
        let count =
            samples[&format!("carrick_request_seconds_bucket{{le=\"{bound}\",mode=\"switch\"}}")];
        assert!(count >= previous, "{bound}");
        previous = count;
    }
    assert!((previous - 2.0).abs() < 1e-9);
    assert!((samples["carrick_request_seconds_count{mode=\"switch\"}"] - 2.0).abs() < 1e-9);
    assert!((samples["carrick_request_seconds_sum{mode=\"switch\"}"] - 0.009).abs() < 1e-9);
}

#[test]
fn what_is_shown_is_what_is_declared() {
    let families = parse(&exposition(&busy_state(), Format::OpenMetrics).unwrap());
    let shown: BTreeMap<&str, &str> = families
        .iter()
        .map(|(name, family)| (&**name, &*family.kind))
        .collect();
    let kind = |kind| match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
        MetricKind::Info => "info",
    };
    let declared: BTreeMap<&str, &str> = METRICS
        .iter()
        .map(|metric| (metric.name, kind(metric.kind)))
        .collect();
    assert_eq!(declared.len(), METRICS.len(), "a name is declared twice");
    assert_eq!(shown, declared);
}

#[test]
fn an_idle_carrick_shows_zeros_rather_than_nothing() {
    let families = parse(&exposition(&state(plan(None, Vec::new())), Format::OpenMetrics).unwrap());
    for (name, family) in &families {
        let of_others = [
            "carrick_certificate_",
            "carrick_server_",
            "carrick_cache_peer_",
            "carrick_pace_",
            "carrick_split_gain",
        ];
        let may_be_empty =
            of_others.iter().any(|start| name.starts_with(start)) || name == "carrick_refusals";
        assert!(may_be_empty || !family.samples.is_empty(), "{name}");
    }
}

fn documentation() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_documentation_lists_the_metrics_as_they_are_declared() {
    let row = |metric: &MetricDeclaration| {
        format!(
            "| `{}` | {} | {} |",
            metric.sample_name(),
            format!("{:?}", metric.kind).to_lowercase(),
            metric.help
        )
    };
    let expected: Vec<String> = METRICS.iter().map(row).collect();
    let text = documentation();
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `carrick_") || line.starts_with("| `process_"))
        .collect();
    assert_eq!(
        found,
        expected,
        "docs/operations.md must have these rows:\n{}\n",
        expected.join("\n")
    );
}

#[test]
fn the_documentation_names_every_limit_reason_and_result() {
    let text = documentation();
    let limits = Limit::ALL.iter().map(|limit| limit.label());
    let elsewhere = ["pipes", "dns_cache", "dns_queue", "admin_connections"];
    let reasons = Reason::ALL.iter().map(|reason| reason.name());
    let results = LookupResult::ALL.iter().map(|result| result.label());
    for word in limits.chain(elsewhere).chain(reasons).chain(results) {
        assert!(
            text.contains(&format!("`{word}`")),
            "docs/operations.md does not document `{word}`"
        );
    }
}
