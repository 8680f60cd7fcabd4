//! Tables that replace each other, and reports on requests.
use super::*;
use std::time::Duration;

/// `None` without root.
fn classifier() -> Option<Classifier> {
    if !carrick_test::is_root() {
        return None;
    }
    Some(Classifier::load().unwrap())
}

fn everything(upstream: u32) -> Route {
    Route {
        upstream,
        in_kernel: true,
        ..Route::default()
    }
}

fn telling_each(sample_every: u32) -> Settings {
    Settings {
        sample_every,
        ..Settings::default()
    }
}

const REQUEST: &[u8] = b"GET /a/b.html?c=d HTTP/1.1\r\nHost: www.example.org:8080\r\n\r\n";

#[test]
fn a_table_is_replaced_as_a_whole_and_the_old_generation_has_none() {
    let Some(classifier) = classifier() else {
        return;
    };
    let tables = classifier.tables();
    let up = Verdict::Up(UpToProcess::Table);
    let says = |place, generation| classifier.classify(place, generation, REQUEST).unwrap();
    assert_eq!(says(5, 1), up);
    let first = RequestTable::new(&[everything(7)], Settings::default());
    let first = tables.install(5, &first).unwrap();
    let expected = |upstream| Verdict::Route {
        route: 0,
        upstream,
        path_bytes: 9,
        host_bytes: 15,
    };
    assert_eq!(says(5, first), expected(7));
    assert_eq!(says(5, first + 1), up);
    assert_eq!(says(4, first), up);
    let second = RequestTable::new(&[everything(8)], Settings::default());
    let second = tables.install(5, &second).unwrap();
    assert_eq!(says(5, first), up);
    assert_eq!(says(5, second), expected(8));
    tables.remove(5).unwrap();
    assert_eq!(says(5, second), up);
    tables.remove(5).unwrap();
    let table = RequestTable::new(&[], Settings::default());
    assert_eq!(
        tables.install(TABLES_MAX, &table),
        Err(RequestsError::Place(TABLES_MAX))
    );
}

#[test]
fn an_event_describes_the_request() {
    let Some(classifier) = classifier() else {
        return;
    };
    let routes = [
        Route {
            path: Some("/x".into()),
            ..everything(1)
        },
        everything(2),
    ];
    let table = RequestTable::new(&routes, telling_each(1));
    let generation = classifier.tables().install(9, &table).unwrap();
    let mut events = classifier.events().unwrap();
    classifier
        .classify_and_tell(9, generation, REQUEST, 77)
        .unwrap();
    let long = format!("HEAD /{} HTTP/1.1\r\nHost: a\r\n\r\n", "b".repeat(200));
    classifier
        .classify_and_tell(9, generation, long.as_bytes(), 78)
        .unwrap();
    let mut told = events.take().unwrap();
    assert!(told.iter().all(|event| event.time > Duration::ZERO));
    assert!(told[0].time <= told[1].time);
    told.iter_mut()
        .for_each(|event| event.time = Duration::ZERO);
    let first = RequestEvent {
        time: Duration::ZERO,
        name: 0,
        place: 77,
        sent_bytes: 0,
        end_before: 0,
        status_before: None,
        table: 9,
        generation,
        route: 1,
        method: "GET",
        head_bytes: REQUEST.len(),
        target: b"/a/b.html?c=d".to_vec(),
        is_target_cut: false,
        host: b"www.example.org".to_vec(),
        stands_for: 1,
    };
    let second = RequestEvent {
        place: 78,
        method: "HEAD",
        head_bytes: long.len(),
        target: long.as_bytes()[5..][..128].to_vec(),
        is_target_cut: true,
        host: b"a".to_vec(),
        ..first.clone()
    };
    assert_eq!(told, [first, second]);
    assert_eq!(events.take().unwrap(), []);
}

#[test]
fn every_nth_request_is_reported_and_all_are_counted() {
    let Some(classifier) = classifier() else {
        return;
    };
    let mut events = classifier.events().unwrap();
    for (sample_every, told) in [(0, 0), (1, 200), (10, 20)] {
        let table = RequestTable::new(&[everything(1)], telling_each(sample_every));
        let generation = classifier.tables().install(0, &table).unwrap();
        let before = classifier.counts().unwrap();
        for _ in 0..200 {
            classifier
                .classify_and_tell(0, generation, REQUEST, 0)
                .unwrap();
        }
        let after = classifier.counts().unwrap();
        assert_eq!(after.classified - before.classified, 200);
        let events = events.take().unwrap();
        // Each CPU counts to ten separately.
        let cpus = libbpf_rs::num_possible_cpus().unwrap();
        assert!(
            events.len().abs_diff(told) <= cpus,
            "{} of {told}",
            events.len()
        );
        assert_eq!(after.events - before.events, events.len() as u64);
        assert!(events.iter().all(|event| event.stands_for == sample_every));
    }
}

#[test]
fn unread_events_are_lost_and_counted() {
    let Some(classifier) = classifier() else {
        return;
    };
    let table = RequestTable::new(&[everything(1)], telling_each(1));
    let generation = classifier.tables().install(0, &table).unwrap();
    for _ in 0..1000 {
        let verdict = classifier
            .classify_and_tell(0, generation, REQUEST, 0)
            .unwrap();
        assert!(matches!(verdict, Verdict::Route { .. }));
    }
    let counts = classifier.counts().unwrap();
    assert_eq!(counts.classified, 1000);
    assert!(counts.events_lost > 0 && counts.events > 0, "{counts:?}");
    assert_eq!(counts.events + counts.events_lost, 1000);
    let events = classifier.events().unwrap().take().unwrap();
    assert_eq!(events.len() as u64, counts.events);
}

#[tokio::test]
async fn a_ring_that_is_half_full_notifies_its_reader() {
    let Some(classifier) = classifier() else {
        return;
    };
    let table = RequestTable::new(&[everything(1)], telling_each(1));
    let generation = classifier.tables().install(0, &table).unwrap();
    let mut events = classifier.events().unwrap();
    let notifications = events.notifications().unwrap();
    for _ in 0..2 {
        // More than there is room for.
        for _ in 0..300 {
            classifier
                .classify_and_tell(0, generation, REQUEST, 0)
                .unwrap();
        }
        notifications.readable().await.unwrap().clear_ready();
        assert!((124..300).contains(&events.take().unwrap().len()));
    }
}

#[test]
fn what_is_up_to_the_process_is_counted_by_its_reason() {
    let Some(classifier) = classifier() else {
        return;
    };
    let table = RequestTable::new(&[everything(1)], Settings::default());
    let generation = classifier.tables().install(0, &table).unwrap();
    for request in [
        &b"POST / HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        b"PUT / HTTP/1.1\r\nHost: ab\r\n\r\n",
    ] {
        classifier.classify(0, generation, request).unwrap();
    }
    let counts = classifier.counts().unwrap();
    let expected = UpToProcess::ALL.map(|why| if why == UpToProcess::Method { 2 } else { 0 });
    assert_eq!(counts.up, expected);
}

#[test]
fn what_is_no_event_is_not_read() {
    assert_eq!(RequestEvent::decode(&[]), None);
    assert_eq!(RequestEvent::decode(&[0; 100]), None);
    let mut bytes = vec![0; 1000];
    assert!(RequestEvent::decode(&bytes).is_some());
    bytes[..232].fill(0xff);
    assert_eq!(RequestEvent::decode(&bytes), None, "an unknown method");
}

#[test]
fn numbers_are_those_of_the_kernel() {
    use skeleton::types::{request_event, request_table};
    let shared = include_str!("../../../../bpf/http/tables.h");
    let defined = |name: &str, number: usize| {
        let line = format!("#define {name} {number}\n");
        assert!(shared.contains(&line), "{line}");
    };
    defined("REQUEST_HEAD_MAX", HEAD_BYTES_MAX);
    defined("REQUEST_ROUTES_MAX", ROUTES_MAX);
    defined("REQUEST_TEXTS_MAX", TEXTS_MAX);
    defined("REQUEST_TEXT_MAX", TEXT_BYTES_MAX);
    defined("REQUEST_COOKIES_MAX", COOKIES_MAX);
    defined("REQUEST_COOKIE_MAX", COOKIE_BYTES_MAX);
    defined("REQUEST_TABLES_MAX", TABLES_MAX as usize);
    // No gaps, since they are written and read field by field.
    assert_eq!(
        std::mem::size_of::<request_event>(),
        4 * 8 + 6 * 4 + 3 * 2 + 2 + 128 + 64
    );
    let numbers = 20 + ROUTES_MAX;
    let cookies = COOKIES_MAX * (2 * 4 * 8 + 16);
    let texts = TEXTS_MAX * (3 * 8 * 8 + 16);
    assert_eq!(
        std::mem::size_of::<request_table>(),
        4 * numbers + cookies + texts
    );
}
