//! Tests of the whole page: well-formed, complete, safe, and without anything from elsewhere.

use std::collections::BTreeSet;

use roxmltree::{Document, ParsingOptions};

use super::*;
use crate::report::fixture;

fn page() -> String {
    let mut other = fixture::results(fixture::three_sizes(), vec![fixture::figure("figure-1")]);
    other.name = "peers".into();
    other.title = "Carrick and its peers".into();
    other.paper = String::new();
    other.seed = 7;
    render(
        &[fixture::everything(), other],
        &["rosu-2002".into(), "peers".into()],
    )
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(page, options).expect("the page is well-formed")
}

#[test]
fn it_refers_to_nothing_outside() {
    let page = page();
    let document = parsed(&page);
    let (mut links, mut ids) = (Vec::new(), BTreeSet::new());
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        for forbidden in [
            "script", "link", "img", "iframe", "object", "embed", "base", "image", "use",
        ] {
            assert_ne!(name, forbidden);
        }
        for attribute in node.attributes() {
            assert!(
                !attribute.name().starts_with("on"),
                "{} in <{name}>",
                attribute.name()
            );
            assert_ne!(attribute.name(), "src");
            match attribute.name() {
                "href" => links.push(attribute.value().to_owned()),
                "id" => assert!(
                    ids.insert(attribute.value().to_owned()),
                    "#{} is there twice",
                    attribute.value()
                ),
                _ => {}
            }
        }
        if name == "style" {
            let style = node.text().unwrap_or_default();
            assert!(!style.contains("url(") && !style.contains("@import"));
        }
    }
    assert!(links.len() > 20);
    for link in links {
        if let Some(anchor) = link.strip_prefix('#') {
            assert!(ids.contains(anchor), "{link} leads nowhere");
        } else {
            assert!(
                link.starts_with("data:text/csv")
                    || link.starts_with("data:application/json")
                    || link.starts_with("data/"),
                "{link}"
            );
        }
    }
}

#[test]
fn text_is_never_markup() {
    let mut results = fixture::everything();
    let evil = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>\u{0}";
    results.title = evil.into();
    results.paper = evil.into();
    results.about = evil.into();
    results.command = evil.into();
    results.meter = evil.into();
    results.congestion_control = evil.into();
    results.notes = vec![evil.into()];
    results.ended_early = Some(evil.into());
    results.machine.processor = evil.into();
    results.versions.insert(evil.into(), evil.into());
    results
        .series_labels
        .insert("carrick-copy".into(), evil.into());
    for cell in &mut results.cells {
        cell.failure = Some(evil.into());
        if cell.series == "nginx" {
            cell.series = evil.into();
        }
        if cell.waiting_for.is_some() {
            cell.waiting_for = Some(evil.into());
        }
    }
    for figure in &mut results.figures {
        figure.id = format!("{evil}{}", figure.id);
        figure.number = evil.into();
        figure.title = evil.into();
        figure.x.label = evil.into();
        figure.y.unit = evil.into();
        figure.published.claims.push(evil.into());
        for point in &mut figure.published.points {
            point.line = evil.into();
        }
        for check in &mut figure.checks {
            check.agree = evil.into();
            check.differ = evil.into();
        }
    }
    let page = render(&[results], &["x".into()]);
    let document = parsed(&page);
    assert!(
        !document
            .descendants()
            .any(|node| ["script", "img"].contains(&node.tag_name().name()))
    );
    assert!(!page.contains("<script") && !page.contains("<img"));
}

#[test]
fn everything_a_reader_needs_is_there() {
    let page = page();
    for part in [
        "a look, not a result",
        "Ended early",
        "the disk was full",
        "waiting for the socket engine",
        "partly measured",
        "carrick-lab run rosu-2002 --quick",
        "2023-11-14 22:13 UTC",
        "5 min 12 s",
        "cubic",
        "WWW 2002",
        "nginx, 20 clients at 50 KB: failed",
        "Agrees.",
        "Differs.",
        "Waits.",
        "carrick socket waits for the socket engine",
        "paper: application-level",
        "The paper says",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert_eq!(
        page.matches("Some Processor").count(),
        1,
        "what is the same for all is said once"
    );
    assert_eq!(
        page.matches("<dt>Seed</dt>").count(),
        2,
        "what differs is said for each"
    );
}

#[test]
fn a_full_and_quiet_run_has_no_warnings() {
    let mut results = fixture::results(fixture::three_sizes(), vec![fixture::figure("figure-1")]);
    results.scale = Scale::Full;
    assert!(!render(&[results], &["a".into()]).contains("class=\"warning\""));
}

#[test]
fn backticks_are_code_and_nothing_else_is() {
    let shown = |text| prose(text).into_string();
    assert_eq!(
        shown("the engine `copy` & <b>"),
        "the engine <code>copy</code> &amp; &lt;b&gt;"
    );
    assert_eq!(shown("one ` alone"), "one ` alone");
    assert_eq!(shown("`<i>`"), "<code>&lt;i&gt;</code>");
}

#[test]
fn the_paper_s_places_are_among_ours_in_order() {
    let mut figure = fixture::figure("table-4");
    figure.kind = crate::experiment::figure::FigureKind::Table;
    figure.published.points = vec![
        fixture::point("Squid", 5120.0, 61.0),
        fixture::point("Squid", 10_240.0, 62.0),
    ];
    let results = fixture::results(fixture::three_sizes(), vec![figure]);
    let page = render(&[results], &["a".into()]);
    let rows: Vec<usize> = [
        "<th scope=\"row\">1</th>",
        "<th scope=\"row\">5</th>",
        "<th scope=\"row\">10</th>",
        "<th scope=\"row\">100</th>",
    ]
    .iter()
    .map(|row| page.find(row).unwrap_or_else(|| panic!("{row} is missing")))
    .collect();
    assert!(rows.is_sorted(), "{rows:?}");
}
