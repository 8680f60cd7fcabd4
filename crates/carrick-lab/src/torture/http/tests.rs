//! The torture of HTTP notices harm: relays that do one thing wrong are found out, and one that does all well is not accused.

use std::collections::BTreeSet;
use std::net::TcpListener;

use super::Way;
use super::exchange::{Cut, Exchange, Framing, Kind};
use super::network::Wire;
use super::play::play;
use super::scenario::Scenario;
use super::tally::Tally;
use crate::torture::tests::relay::{Manner, Relay};

/// Requests are left alone, and heads of responses.
const BEFORE: [u64; 2] = [u64::MAX, 1_000];

/// Plays a scenario on loopback with a relay of this process.
fn played(mut scenario: Scenario, manner: Manner) -> Tally {
    scenario.conversations.truncate(40);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let relay = Relay::start_behind(manner, server, BEFORE);
    let runtime = crate::program::runtime().unwrap();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let patience = manner.patience();
        play(scenario, relay.address(), |_, _| None, listener, patience)
            .await
            .unwrap()
    })
}

/// One conversation of these exchanges.
fn conversation(exchanges: Vec<Exchange>) -> Scenario {
    let mut scenario = Scenario::plain(5, Way::Routed, 0);
    scenario.conversations[0].exchanges = exchanges;
    scenario
}

/// What is said of a relay that does one thing wrong.
fn complaints(exchanges: Vec<Exchange>, manner: Manner) -> String {
    let tally = played(conversation(exchanges), manner);
    assert!(tally.complaint_count > 0, "{tally:?}");
    tally.complaints.join("\n")
}

fn plain(number: usize, bytes: u64) -> Exchange {
    Exchange::plain((0, number), 77 + number as u64, bytes)
}

#[test]
fn an_honest_relay_is_not_accused() {
    for seed in [1, 2, 12] {
        let mut scenario = Scenario::draw(seed, Some(Way::Routed));
        // A relay of bytes passes on neither who asked for an end nor who did not.
        scenario.has_silent_closes = true;
        let tally = played(scenario, Manner::Honest);
        assert_eq!(tally.complaints, Vec::<String>::new(), "{tally:?}");
        assert!(tally.whole > 0 && tally.body_bytes > 0, "{tally:?}");
    }
}

#[test]
fn a_wrong_byte_is_noticed_in_each_framing() {
    let chunked = Framing::Chunked { has_trailer: true };
    for framing in [Framing::Length, chunked, Framing::UntilClose] {
        let exchange = Exchange {
            framing,
            ..plain(0, 50_000)
        };
        for manner in [
            Manner::ChangesAByte,
            Manner::DropsAByte,
            Manner::DoublesAPiece,
        ] {
            // What came twice may have come behind the body: it is no head then.
            let said = complaints(vec![exchange.clone(), plain(1, 1_000)], manner);
            assert!(
                said.contains("seed 5 routed: connection 0 request"),
                "{said}"
            );
            assert!(said.contains("byte") || said.contains("no head"), "{said}");
        }
    }
}

#[test]
fn a_body_that_lacks_its_end_is_noticed() {
    let until_close = Exchange {
        framing: Framing::UntilClose,
        ..plain(0, 50_000)
    };
    let said = complaints(vec![until_close], Manner::CutsTheTail);
    assert!(said.contains("49999 bytes instead of 50000"), "{said}");
    let closing = Exchange {
        origin_closes: true,
        ..plain(0, 50_000)
    };
    let said = complaints(vec![closing], Manner::CutsTheTail);
    assert!(said.contains("ended behind byte 49999 of 50000"), "{said}");
}

#[test]
fn a_cut_that_looks_whole_is_noticed() {
    let cut = Exchange {
        framing: Framing::UntilClose,
        origin_cut: Some(Cut {
            at: 20_000,
            is_reset: true,
        }),
        ..plain(0, 50_000)
    };
    let said = complaints(vec![cut.clone()], Manner::EndsAfterAReset);
    assert!(said.contains("it looks whole"), "{said}");
    let tally = played(conversation(vec![cut]), Manner::Honest);
    assert_eq!(
        (tally.complaint_count, tally.cut_by_origin),
        (0, 1),
        "{tally:?}"
    );
}

#[test]
fn an_end_that_became_a_reset_is_noticed() {
    let closing = Exchange {
        framing: Framing::UntilClose,
        ..plain(0, 50_000)
    };
    let said = complaints(vec![closing], Manner::ResetsAtTheEnd);
    assert!(
        said.contains("neither end cut it, but it broke behind byte"),
        "{said}"
    );
}

#[test]
fn silence_is_noticed() {
    let said = complaints(vec![plain(0, 50_000)], Manner::FallsSilent);
    assert!(
        said.contains("nothing came any more") || said.contains("timed out"),
        "{said}"
    );
    let said = complaints(vec![plain(0, 50_000)], Manner::ClosesAtOnce);
    assert!(
        said.contains("no response") || said.contains("cannot be sent"),
        "{said}"
    );
}

#[test]
fn a_connection_that_is_held_for_a_client_that_has_gone_is_noticed() {
    let abandoned = Exchange {
        client_cut: Some(Cut {
            at: 0,
            is_reset: true,
        }),
        ..plain(0, 30_000_000)
    };
    let said = complaints(vec![abandoned], Manner::FallsSilent);
    assert!(said.contains("the origin"), "{said}");
}

#[test]
fn a_seed_decides_everything() {
    for seed in 0..50 {
        let (first, again) = (Scenario::draw(seed, None), Scenario::draw(seed, None));
        assert_eq!(format!("{first:?}"), format!("{again:?}"));
        let other = Scenario::draw(seed + 1, None);
        assert_ne!(
            format!("{:?}", first.conversations),
            format!("{:?}", other.conversations)
        );
    }
}

#[test]
fn seeds_reach_all_that_was_asked_for() {
    let (mut kinds, mut ways) = (BTreeSet::new(), BTreeSet::new());
    let (mut clients_most, mut largest, mut loss_most, mut times) = (0, 0, 0.0_f64, [0; 12]);
    for seed in 0..1_500 {
        let scenario = Scenario::draw(seed, None);
        ways.insert(scenario.way);
        clients_most = clients_most.max(scenario.conversations.len());
        assert!((1..=256).contains(&scenario.conversations.len()));
        if let Wire::Emulated(legs) = &scenario.network.wire {
            for leg in [&legs.client, &legs.origin] {
                loss_most = loss_most.max(leg.away.loss).max(leg.towards.loss);
            }
        }
        for conversation in &scenario.conversations {
            let last = conversation.exchanges.len() - 1;
            for (number, exchange) in conversation.exchanges.iter().enumerate() {
                assert!(number == last || !exchange.is_last(), "{exchange:?}");
                assert!((1_000..=100_000_000).contains(&exchange.object_bytes));
                kinds.insert((exchange.method(), exchange.status()));
                largest = largest.max(exchange.object_bytes);
                let is_chunked = matches!(exchange.framing, Framing::Chunked { .. });
                let happened = [
                    exchange.is_pipelined,
                    exchange.is_split,
                    exchange.client_closes,
                    exchange.origin_closes,
                    exchange.closes_silently,
                    exchange.has_interim,
                    exchange.padding_bytes > 0,
                    exchange.origin_rest.is_some() && exchange.client_rest.is_some(),
                    exchange.origin_cut.is_some(),
                    exchange.client_cut.is_some(),
                    is_chunked,
                    exchange.framing == Framing::UntilClose,
                ];
                for (count, has) in times.iter_mut().zip(happened) {
                    *count += u32::from(has);
                }
            }
        }
    }
    // GET with 200, 204, 206 and 304; HEAD; POST.
    assert_eq!((kinds.len(), ways.len()), (6, Way::DRAWN.len()));
    assert!(
        clients_most > 200 && largest == 100_000_000,
        "{clients_most} {largest}"
    );
    assert!(loss_most > 0.045 && loss_most <= 0.05, "{loss_most}");
    assert!(times.iter().all(|count| *count > 50), "{times:?}");
}

#[test]
fn heads_say_what_their_exchange_is() {
    let exchange = Exchange {
        kind: Kind::Range { from: 10 },
        ..plain(3, 2_000)
    };
    assert_eq!(
        exchange.request_head(),
        "GET /torture/0/3 HTTP/1.1\r\nHost: origin.test\r\nUser-Agent: torture\r\nRange: bytes=10-\r\n\r\n"
    );
    let text = exchange.response_head();
    let (bytes, head) = super::decode::Head::parse(text.as_bytes())
        .unwrap()
        .unwrap();
    assert_eq!(
        (bytes, head.status, head.fields.length),
        (text.len(), 206, Some(1_990))
    );
    assert_eq!(head.content_range.as_deref(), Some("bytes 10-1999/2000"));
    let twice = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n";
    assert!(super::decode::Head::parse(twice.as_bytes()).is_err());
    assert_eq!(super::decode::Head::parse(&text.as_bytes()[..40]), Ok(None));
}
