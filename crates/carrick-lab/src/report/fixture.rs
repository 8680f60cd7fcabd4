//! Made-up results for tests: every kind of figure, and everything that goes wrong in one.

use std::collections::BTreeMap;

use crate::experiment::figure::{
    Against, Axis, Check, Comparison, Figure, FigureKind, Published, PublishedPoint, Test,
};
use crate::experiment::results::{Cell, ExperimentResults, Scale};
use crate::experiment::value::Value;

pub(crate) fn axis(name: &str, label: &str, unit: &str, divide_by: f64) -> Axis {
    Axis {
        name: name.into(),
        label: label.into(),
        unit: unit.into(),
        divide_by,
        log: false,
    }
}

/// Per-request CPU over the size of the body.
pub(crate) fn figure(id: &str) -> Figure {
    Figure {
        id: id.into(),
        number: id.replace("figure-", "Figure "),
        title: "CPU of the proxy per request".into(),
        kind: FigureKind::Lines,
        workload: "sizes".into(),
        only: BTreeMap::new(),
        x: axis("body_bytes", "Size of the body", "KB", 1024.0),
        y: axis("cpu_us_per_request", "CPU per request", "µs", 1.0),
        columns: Vec::new(),
        series: Vec::new(),
        lines_by: None,
        against: None,
        published: Published::default(),
        checks: Vec::new(),
    }
}

pub(crate) fn parameters(pairs: &[(&str, f64)]) -> BTreeMap<String, Value> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).into(), Value::Number(*value)))
        .collect()
}

pub(crate) fn cell(
    workload: &str,
    series: &str,
    pairs: &[(&str, f64)],
    metric: &str,
    samples: &[f64],
) -> Cell {
    Cell {
        workload: workload.into(),
        series: series.into(),
        parameters: parameters(pairs),
        samples: samples
            .iter()
            .map(|value| BTreeMap::from([(metric.into(), *value)]))
            .collect(),
        waiting_for: None,
        failure: None,
    }
}

pub(crate) fn waiting(workload: &str, series: &str, pairs: &[(&str, f64)], what: &str) -> Cell {
    Cell {
        waiting_for: Some(what.into()),
        ..cell(workload, series, pairs, "", &[])
    }
}

pub(crate) fn failed(workload: &str, series: &str, pairs: &[(&str, f64)], why: &str) -> Cell {
    Cell {
        failure: Some(why.into()),
        ..cell(workload, series, pairs, "", &[])
    }
}

pub(crate) fn point(line: &str, x: f64, y: f64) -> PublishedPoint {
    PublishedPoint {
        line: line.into(),
        metric: None,
        x: Value::Number(x),
        y,
    }
}

pub(crate) fn check(test: Test) -> Check {
    Check {
        test,
        agree: "It is so here too, as it should be.".into(),
        differ: "Not so here, for a reason.".into(),
    }
}

pub(crate) fn results(cells: Vec<Cell>, figures: Vec<Figure>) -> ExperimentResults {
    ExperimentResults {
        name: "rosu-2002".into(),
        title: "The benefits of TCP splice for a web proxy".into(),
        paper: "M. Rosu, D. Rosu: An Evaluation of TCP Splice Benefits in Web Proxy Servers, WWW 2002".into(),
        about: "Clients open a connection for each request through the proxy.\n\nThe size of the body is varied.".into(),
        scale: Scale::Quick,
        selection: None,
        command: "carrick-lab run rosu-2002 --quick".into(),
        started_unix_seconds: 1_700_000_000,
        took_seconds: 312.4,
        seed: 42,
        congestion_control: "cubic".into(),
        machine: crate::testbed::machine::Machine {
            kernel: "6.18.0".into(),
            processor: "Some Processor 3.0 GHz".into(),
            cores: 2,
            memory_kib: 8 << 20,
            load_at_start: "0.05".into(),
            mitigations: vec!["spectre_v2: Retpolines".into()],
        },
        versions: BTreeMap::from([("carrick".into(), "0.1.0".into()), ("haproxy".into(), "2.6.12".into())]),
        meter: "busy time of the proxy's core; a spinner of 20 % was metered as 20.1 %".into(),
        ended_early: None,
        notes: Vec::new(),
        workloads: Vec::new(),
        cells,
        figures,
        series_labels: BTreeMap::from([
            ("carrick-copy".into(), "carrick copy".into()),
            ("carrick-pipe".into(), "carrick pipe".into()),
            ("carrick-socket".into(), "carrick socket".into()),
            ("haproxy".into(), "HAProxy".into()),
        ]),
    }
}

/// A value that goes up and down a little, the same each time.
pub(crate) fn spread(value: f64, count: u32) -> Vec<f64> {
    (0..count)
        .map(|index| value * (1.0 + 0.04 * (f64::from(index * 7 + 3) * 1.7).sin()))
        .collect()
}

const SIZES: [f64; 6] = [1.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// Three sizes, two series that were measured, one that waits.
pub(crate) fn three_sizes() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (size, copy, pipe) in [
        (1024.0, 30.0, 34.0),
        (10_240.0, 42.0, 40.0),
        (102_400.0, 90.0, 70.0),
    ] {
        let at = [("body_bytes", size)];
        cells.push(cell(
            "sizes",
            "carrick-copy",
            &at,
            "cpu_us_per_request",
            &[copy - 1.0, copy, copy + 1.0],
        ));
        cells.push(cell(
            "sizes",
            "carrick-pipe",
            &at,
            "cpu_us_per_request",
            &[pipe - 2.0, pipe, pipe + 2.0],
        ));
        cells.push(waiting("sizes", "carrick-socket", &at, "the socket engine"));
    }
    cells
}

/// As much as a real experiment has, and worse.
pub(crate) fn everything() -> ExperimentResults {
    let mut cells = Vec::new();
    let series = [
        ("carrick-copy", 30.0, 1.1),
        ("carrick-pipe", 33.0, 0.55),
        ("haproxy", 44.0, 1.0),
        ("nginx", 50.0, 1.6),
    ];
    for size in SIZES {
        for (name, fixed, slope) in series {
            for clients in [10.0, 20.0, 40.0, 80.0, 160.0] {
                let at = [("body_bytes", size * 1024.0), ("clients", clients)];
                let mean = fixed + slope * size - clients * 0.04;
                let mut whole = cell("sizes", name, &at, "cpu_us_per_request", &spread(mean, 5));
                for (index, sample) in whole.samples.iter_mut().enumerate() {
                    let noise = spread(1.0, 5)[index];
                    sample.insert("requests_per_second".into(), 1e6 / mean * noise);
                    sample.insert("loss_percent".into(), 0.0);
                    sample.insert(
                        "latency_mean_ms".into(),
                        (size * clients / 10.0 - 20.0) * noise,
                    );
                    sample.insert("steady".into(), 1000.0 + 0.02 * noise + size / 1e4);
                }
                if (name, size, clients) == ("nginx", 50.0, 20.0) {
                    whole.samples.clear();
                    whole.failure =
                        Some("nginx ended in the middle: <signal 9> & \"quotes\"".into());
                }
                cells.push(whole);
            }
        }
        for clients in [10.0, 20.0, 40.0, 80.0, 160.0] {
            let at = [("body_bytes", size * 1024.0), ("clients", clients)];
            cells.push(waiting("sizes", "carrick-socket", &at, "the socket engine"));
        }
    }
    for (index, rtt) in [0.0, 1.0, 10.0, 100.0, 1000.0].into_iter().enumerate() {
        let value = 10_f64.powi(i32::try_from(index).unwrap_or(0) * 2) - 1.0;
        cells.push(cell(
            "wide",
            "carrick-copy",
            &[("round_trip_ms", rtt)],
            "time_ms",
            &spread(value, 3),
        ));
        cells.push(cell(
            "wide",
            "haproxy",
            &[("round_trip_ms", rtt)],
            "time_ms",
            &spread(value * 3.0, 2),
        ));
    }
    for (index, name) in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]
        .iter()
        .enumerate()
    {
        for x in [1.0, 2.0, 3.0] {
            let mean = x * (1.0 + f64::from(u32::try_from(index).unwrap_or(0)));
            cells.push(cell(
                "many",
                name,
                &[("step", x)],
                "value",
                &spread(mean, 2),
            ));
        }
    }
    cells.push(cell(
        "single",
        "carrick-copy",
        &[("step", 7.0)],
        "value",
        &[3.5],
    ));
    let mut results = results(cells, figures());
    results.notes = vec!["<script>alert(1)</script> is only text here".into()];
    results.ended_early = Some("the disk was full".into());
    results
}

fn figures() -> Vec<Figure> {
    let forty = BTreeMap::from([("clients".to_owned(), Value::Number(40.0))]);
    let mut plain = Figure {
        only: forty.clone(),
        ..figure("figure-4")
    };
    plain.published.claims =
        vec!["Socket-level splice saves 0.2-3 % of the CPU for each request.".into()];
    plain.published.points = SIZES
        .iter()
        .map(|size| point("application-level", size * 1024.0, 55.0 + size))
        .collect();
    plain.checks = vec![
        check(Test::Rises {
            of: "carrick-copy".into(),
        }),
        check(Test::Below {
            of: "haproxy".into(),
            than: "carrick-copy".into(),
            share: 0.5,
        }),
        check(Test::Below {
            of: "carrick-socket".into(),
            than: "carrick-copy".into(),
            share: 0.9,
        }),
        check(Test::Within {
            of: "carrick-pipe".into(),
            min: 10.0,
            max: 120.0,
        }),
    ];
    let mut by = Figure {
        series: vec!["carrick-copy".into()],
        lines_by: Some("clients".into()),
        ..figure("figure-5")
    };
    by.x.log = true;
    by.published.points = SIZES
        .iter()
        .map(|size| point("1999's machine", size * 1024.0, 5500.0 + 90.0 * size))
        .collect();
    let panels = Figure {
        lines_by: Some("clients".into()),
        ..figure("figure-6")
    };
    let mut saving = Figure {
        only: forty.clone(),
        ..figure("figure-7")
    };
    saving.title = "Saving against application-level splice".into();
    saving.against = Some(Against {
        series: "carrick-copy".into(),
        how: Comparison::SavingPercent,
    });
    saving.y = axis("cpu_us_per_request", "Saving", "%", 1.0);
    let mut bars = Figure {
        kind: FigureKind::Bars,
        only: forty.clone(),
        ..figure("figure-8")
    };
    bars.published.points = vec![
        point("Squid", 1024.0, 61.0),
        point("Squid", 102_400.0, 140.0),
    ];
    let mut table = Figure {
        kind: FigureKind::Table,
        only: forty.clone(),
        ..figure("table-4")
    };
    table.number = "Table 4".into();
    table.columns = vec![axis("requests_per_second", "Requests", "/s", 1.0)];
    table.published.points = vec![point("Squid", 1024.0, 61.0)];
    let mut wide = Figure {
        workload: "wide".into(),
        ..figure("figure-9")
    };
    wide.title = "Times over seven powers of ten, and zero".into();
    wide.x = Axis {
        log: true,
        ..axis("round_trip_ms", "Round trip", "ms", 1.0)
    };
    wide.y = Axis {
        log: true,
        ..axis("time_ms", "Time until the last byte", "ms", 1.0)
    };
    let mut negative = Figure {
        only: forty.clone(),
        ..figure("figure-10")
    };
    negative.y = axis(
        "latency_mean_ms",
        "Difference of the mean latency",
        "ms",
        1.0,
    );
    let mut steady = Figure {
        only: forty.clone(),
        ..figure("figure-11")
    };
    steady.title = "Hardly any difference".into();
    steady.y = axis("steady", "Value", "", 1.0);
    let mut zero = Figure {
        only: forty.clone(),
        ..figure("figure-12")
    };
    zero.title = "All zero".into();
    zero.y = axis("loss_percent", "Loss", "%", 1.0);
    let mut many = Figure {
        workload: "many".into(),
        ..figure("figure-13")
    };
    many.title = "More lines than one plot holds".into();
    many.x = axis("step", "Step", "", 1.0);
    many.y = axis("value", "Value", "", 1.0);
    let single = Figure {
        workload: "single".into(),
        title: "One point".into(),
        ..Figure {
            id: "figure-14".into(),
            number: "Figure 14".into(),
            ..many.clone()
        }
    };
    let waits = Figure {
        series: vec!["carrick-socket".into()],
        only: forty,
        ..figure("figure-15")
    };
    let absent = Figure {
        workload: "ssl".into(),
        ..figure("figure-16")
    };
    vec![
        plain, by, panels, saving, bars, table, wide, negative, steady, zero, many, single, waits,
        absent,
    ]
}
