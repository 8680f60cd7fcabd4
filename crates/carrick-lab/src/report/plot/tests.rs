//! Golden pictures. After a change that is meant, `CARRICK_LAB_BLESS=1 cargo test -p carrick-lab report::plot` writes them anew:
//! look at each of them in a browser, in light and dark, before it is committed.

use std::path::Path;

use super::*;

/// Compares with the picture that was approved, or approves this one.
fn golden(name: &str, picture: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/report/plot/golden")
        .join(format!("{name}.svg"));
    roxmltree::Document::parse(picture)
        .unwrap_or_else(|error| panic!("{name} is not well-formed: {error}"));
    for broken in ["NaN", "inf", "\"-"] {
        assert!(!picture.contains(broken), "{name} has {broken} in it");
    }
    if std::env::var_os("CARRICK_LAB_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, picture).unwrap();
        return;
    }
    let approved = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; CARRICK_LAB_BLESS=1 writes it", path.display())
    });
    let differs = approved
        .lines()
        .zip(picture.lines())
        .find(|(old, new)| old != new);
    assert!(
        approved == picture,
        "{name} is drawn differently now, first in\n  {:?}\nIf that is meant, CARRICK_LAB_BLESS=1 writes it anew; then look at it",
        differs.unwrap_or(("", "one is longer than the other"))
    );
}

fn heading() -> Heading {
    Heading {
        title: "Figure 4: CPU < memory".into(),
        subtitle: "made up, for a test".into(),
    }
}

fn line(label: &str, number: usize, dots: &[(f64, f64, Option<f64>)]) -> Line {
    Line {
        label: label.into(),
        colour: number,
        shape: number,
        is_published: false,
        dots: dots
            .iter()
            .map(|(x, y, half_width)| Dot {
                x: *x,
                y: *y,
                half_width: *half_width,
                tip: format!("{label}: {y}"),
                is_after_gap: false,
            })
            .collect(),
    }
}

fn chart(lines: Vec<Line>) -> Chart {
    Chart {
        heading: heading(),
        x: Horizontal {
            label: "Size of the body, KB".into(),
            is_log: false,
            words: Vec::new(),
        },
        y: Vertical {
            label: "CPU per request, µs".into(),
            is_log: false,
        },
        panels: vec![Panel {
            title: String::new(),
            has_own_scale: false,
            lines,
        }],
    }
}

fn two_lines() -> Vec<Line> {
    vec![
        line(
            "copy",
            0,
            &[
                (1.0, 30.0, Some(2.0)),
                (10.0, 42.0, Some(3.0)),
                (100.0, 90.0, Some(9.0)),
            ],
        ),
        line(
            "pipe",
            1,
            &[(1.0, 34.0, None), (10.0, 40.0, None), (100.0, 70.0, None)],
        ),
    ]
}

#[test]
fn lines_with_error_bars() {
    golden("lines", &chart(two_lines()).to_svg(Look::ALONE));
}

#[test]
fn lines_on_a_telephone() {
    golden("slim", &chart(two_lines()).to_svg(Look::SLIM));
}

#[test]
fn published_points_are_hollow() {
    let mut lines = two_lines();
    lines.push(Line {
        is_published: true,
        ..line(
            "paper: socket level",
            0,
            &[(1.0, 20.0, None), (100.0, 60.0, None)],
        )
    });
    let picture = chart(lines).to_svg(Look::WIDE);
    assert_eq!(
        picture.matches("class=\"published\"").count(),
        3,
        "two points and the legend"
    );
    golden("published", &picture);
}

#[test]
fn a_gap_is_not_bridged() {
    let mut lines = two_lines();
    lines[0].dots[2].is_after_gap = true;
    let picture = chart(lines).to_svg(Look::WIDE);
    let path = picture
        .lines()
        .find(|text| text.contains("class=\"line s0\""))
        .unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
}

#[test]
fn logarithmic_axes_with_zero() {
    let mut chart = chart(vec![line(
        "copy",
        0,
        &[
            (0.0, 0.0, None),
            (1.0, 5.0, Some(4.0)),
            (100.0, 1000.0, Some(2000.0)),
            (10_000.0, 1e6, None),
        ],
    )]);
    (chart.x.is_log, chart.y.is_log) = (true, true);
    golden("log", &chart.to_svg(Look::WIDE));
}

#[test]
fn a_logarithmic_axis_cannot_show_negative_values_and_says_so() {
    let mut chart = chart(vec![line(
        "copy",
        0,
        &[(1.0, -5.0, None), (2.0, 20.0, None)],
    )]);
    chart.y.is_log = true;
    golden("negative", &chart.to_svg(Look::WIDE));
}

#[test]
fn words_along_the_axis_and_one_point() {
    let mut chart = chart(vec![line("copy", 0, &[(1.0, 7.0, None)])]);
    chart.x.words = vec![
        "one".into(),
        "persistent connections".into(),
        "three".into(),
    ];
    golden("words", &chart.to_svg(Look::WIDE));
}

#[test]
fn an_interval_that_is_too_wide_is_cut_off() {
    let picture = chart(vec![line(
        "copy",
        0,
        &[(1.0, 10.0, Some(900.0)), (2.0, 12.0, Some(1.0))],
    )])
    .to_svg(Look::WIDE);
    assert!(picture.contains(">20<") && !picture.contains(">900<"));
}

#[test]
fn panels_with_scales_of_their_own() {
    let mut chart = chart(two_lines());
    chart.panels[0].title = "Measured here".into();
    let paper = Line {
        is_published: true,
        ..line(
            "paper: 1999",
            0,
            &[(1.0, 2000.0, None), (100.0, 6000.0, None)],
        )
    };
    chart.panels.push(Panel {
        title: "The paper's".into(),
        has_own_scale: true,
        lines: vec![paper],
    });
    golden("panels", &chart.to_svg(Look::WIDE));
}

fn bars(values: [f64; 3]) -> Bars {
    let bar = |label: &str, colour, value| Bar {
        label: label.into(),
        colour,
        is_published: false,
        length: Length::Value(value, Some(2.0)),
    };
    let waits = Bar {
        length: Length::Nothing("waits for the socket engine".into()),
        ..bar("socket", 2, 0.0)
    };
    let paper = Bar {
        is_published: true,
        length: Length::Value(values[2], None),
        ..bar("paper: Squid", 0, 0.0)
    };
    Bars {
        heading: heading(),
        label: "CPU per request, µs".into(),
        is_log: false,
        has_own_scales: false,
        groups: vec![
            Group {
                title: "1 KB".into(),
                bars: vec![bar("copy", 0, values[0]), bar("pipe", 1, values[1]), waits],
            },
            Group {
                title: "a & b".into(),
                bars: vec![bar("copy", 0, values[1]), paper],
            },
        ],
    }
}

#[test]
fn bars_with_what_waits_and_what_was_published() {
    golden("bars", &bars([30.0, 45.5, 61.0]).to_svg(Look::WIDE));
}

#[test]
fn bars_below_zero() {
    golden(
        "bars-negative",
        &bars([-30.0, 45.5, 10.0]).to_svg(Look::SLIM),
    );
}

#[test]
fn nothing_measured_is_a_box() {
    golden(
        "empty",
        &empty(
            &heading(),
            "Nothing was measured: it waits for the socket engine.",
            Look::ALONE,
        ),
    );
}

#[test]
fn what_cannot_be_drawn_does_not_break_the_picture() {
    for values in [[0.0; 3], [f64::MAX; 3], [1e-300; 3]] {
        let picture = bars(values).to_svg(Look::WIDE);
        assert!(
            !picture.contains("NaN") && !picture.contains("inf"),
            "{values:?}"
        );
        let dots = values.map(|value| (1.0, value, Some(value)));
        for is_log in [false, true] {
            let mut chart = chart(vec![line("a", 0, &dots)]);
            (chart.x.is_log, chart.y.is_log) = (is_log, is_log);
            let picture = chart.to_svg(Look::WIDE);
            assert!(
                !picture.contains("NaN") && !picture.contains("inf"),
                "{values:?}"
            );
        }
    }
}
