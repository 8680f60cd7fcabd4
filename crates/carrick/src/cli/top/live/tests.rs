//! The effect of keys and samples on the screen, without a terminal.
use super::super::rates::tests::{snapshot, status};
use super::*;
use serde_json::json;

fn order() -> Order {
    Order {
        address: "127.0.0.1:3129".parse().unwrap(),
        interval: Duration::from_secs(1),
        sort: Sort::Rate,
        is_utf8: false,
        since: Instant::now(),
    }
}

fn screen(order: &Order) -> Screen<'_> {
    Screen {
        order,
        sort: order.sort,
        last: Some(snapshot(1, status(json!({})), json!({}), json!({}))),
        rates: None,
        trouble: None,
        shows_help: false,
        is_paused: Arc::default(),
    }
}

fn press(screen: &mut Screen<'_>, key: char) -> KeyAction {
    screen.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))
}

#[test]
fn keys_do_what_the_help_says() {
    let order = order();
    let mut screen = screen(&order);
    for (key, sort) in [
        ('u', Sort::Up),
        ('d', Sort::Down),
        ('b', Sort::Bytes),
        ('a', Sort::Age),
        ('c', Sort::Client),
        ('r', Sort::Rate),
        ('s', Sort::Up),
        ('x', Sort::Up),
    ] {
        assert_eq!(press(&mut screen, key), KeyAction::Nothing);
        assert_eq!(screen.sort, sort, "{key}");
    }
    press(&mut screen, 'p');
    assert!(screen.view().is_paused);
    press(&mut screen, ' ');
    assert!(!screen.view().is_paused);
    assert_eq!(press(&mut screen, 'q'), KeyAction::End);
    let escape = KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(screen.key(escape), KeyAction::End);
    for (key, action) in [
        ('c', KeyAction::End),
        ('z', KeyAction::Suspend),
        ('l', KeyAction::Anew),
    ] {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
        assert_eq!(screen.key(key), action);
    }
    assert_eq!(screen.sort, Sort::Up);
}

#[test]
fn any_key_leaves_the_help_and_does_nothing_else() {
    let order = order();
    let mut screen = screen(&order);
    press(&mut screen, 'h');
    assert!(screen.shows_help);
    assert_eq!(press(&mut screen, 'q'), KeyAction::Nothing);
    assert!(!screen.shows_help);
    press(&mut screen, '?');
    let end = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.key(end), KeyAction::End);
}

#[test]
fn every_order_comes_by_and_by() {
    let mut sort = Sort::Rate;
    let mut seen = Vec::new();
    for _ in 0..6 {
        assert!(!seen.contains(&sort), "{seen:?}");
        seen.push(sort);
        sort = next(sort);
    }
    assert_eq!(sort, Sort::Rate);
}

#[test]
fn a_carrick_that_disappears_and_returns_is_shown() {
    let order = order();
    let mut screen = screen(&order);
    let page =
        |pid: u32, second| snapshot(second, status(json!({ "pid": pid })), json!({}), json!({}));
    screen.sampled(Ok(page(7, 2)));
    assert!(screen.rates.is_some() && screen.trouble.is_none());
    screen.sampled(Err(Failed::Because("refused".to_owned())));
    assert_eq!(screen.trouble.as_deref(), Some("refused"));
    assert!(screen.rates.is_some(), "the last rates are gone");
    // Another process: its counters start anew.
    screen.sampled(Ok(page(8, 3)));
    assert!(screen.rates.is_none() && screen.trouble.is_none());
    screen.sampled(Ok(page(8, 4)));
    assert_eq!(screen.rates.as_ref().unwrap().about.pid, 8);
}
