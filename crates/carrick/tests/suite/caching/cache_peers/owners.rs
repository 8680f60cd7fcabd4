//! Which cache peer is asked, and that peers do not ask in circles.
use super::{MISS, cache_peers, fetch, fetch_with, forward, origin, wait_for_answers};
use crate::support::carrick::{FORWARD_TEXT, switch_text};
use crate::support::place::FORWARD_PORT;
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, wait_until};
use carrick_logic::cache::CachePeers;

#[test]
fn only_the_owner_is_asked() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let all: Vec<_> = (0..2)
        .map(|_| {
            Server::listen(&far)
                .serve(|peer, _| answer_requests(peer, |_| MISS.as_bytes().to_vec()))
        })
        .collect();
    let members = [all[0].address(), near.at(FORWARD_PORT), all[1].address()];
    let own = format!(", self = \"{}\"", members[1]);
    let carrick = forward(&near, &cache_peers(&members, &own));
    let names = members.map(|member| member.to_string());
    let owners = CachePeers::new(names.iter().map(String::as_bytes), Some(1));
    let mut expected = [0.0; 3];
    for number in 0..60 {
        let path = format!("/{number}");
        assert_eq!(fetch(&carrick, origin.address(), &path).text(), path);
        let url = format!("http://{}{path}", origin.address());
        expected[owners.owner(url.as_bytes(), |_| true).unwrap_or(1)] += 1.0;
    }
    wait_for_answers(&carrick, "miss", expected[0] + expected[2]);
    for place in [0, 2] {
        let label = format!("peer=\"{}\"", names[place]);
        let asked = carrick.metric("carrick_cache_peer_answers_total", &[&label]);
        assert_eq!(asked, expected[place], "{names:?}");
        assert!(asked > 5.0, "{expected:?}");
    }
    assert!(expected[1] > 5.0, "{expected:?}");
}

#[test]
fn two_that_ask_each_other_do_not_ask_in_a_circle() {
    let (left, right, far) = (Place::claim(), Place::claim(), Place::claim());
    let origin = origin(&far);
    // Each believes that the other one owns everything.
    let one = forward(&left, &cache_peers(&[right.at(FORWARD_PORT)], ""));
    let two = forward(&right, &cache_peers(&[left.at(FORWARD_PORT)], ""));
    for (number, (first, second)) in [(&one, &two), (&two, &one)].into_iter().enumerate() {
        let path = format!("/{number}");
        assert_eq!(fetch(first, origin.address(), &path).text(), path);
        assert_eq!(fetch(second, origin.address(), &path).text(), path);
    }
    for carrick in [&one, &two] {
        wait_for_answers(carrick, "miss", 1.0);
        wait_for_answers(carrick, "hit", 1.0);
    }
    let asked: f64 = [&one, &two]
        .map(|carrick| {
            let label = ["result=\"miss\""];
            carrick.wait_for_metric("carrick_cache_requests_total", &label, 1.0)
        })
        .iter()
        .sum();
    assert_eq!(asked, 2.0);
}

#[test]
fn three_with_the_same_list_share_what_they_have() {
    let places: [Place; 3] = std::array::from_fn(|_| Place::claim());
    let origin = origin(&places[0]);
    let members: Vec<_> = places.iter().map(|place| place.at(FORWARD_PORT)).collect();
    let carricks: Vec<Carrick> = places
        .iter()
        .zip(&members)
        .map(|(place, own)| {
            let own = format!(", self = \"{own}\"");
            forward(place, &cache_peers(&members, &own))
        })
        .collect();
    // The owner stores it first; then no member needs the origin.
    let names: Vec<String> = members.iter().map(ToString::to_string).collect();
    let owners = CachePeers::new(names.iter().map(String::as_bytes), None);
    for number in 0..12 {
        let path = format!("/{number}");
        let url = format!("http://{}{path}", origin.address());
        let owner = owners.owner(url.as_bytes(), |_| true).unwrap();
        fetch(&carricks[owner], origin.address(), &path);
        for carrick in &carricks {
            assert_eq!(fetch(carrick, origin.address(), &path).text(), path);
        }
    }
    let misses = || -> f64 {
        carricks
            .iter()
            .map(|carrick| carrick.metric("carrick_cache_requests_total", &["result=\"miss\""]))
            .sum()
    };
    wait_until("the misses to be counted", || misses() >= 12.0);
    assert_eq!(misses(), 12.0);
    for carrick in &carricks {
        assert_eq!(super::answers(carrick, "miss"), 0.0);
    }
}

#[test]
fn a_reload_changes_who_is_asked() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let cache_peer =
        Server::listen(&far).serve(|peer, _| answer_requests(peer, |_| MISS.as_bytes().to_vec()));
    let carrick = forward(&near, "");
    fetch(&carrick, origin.address(), "/a");
    assert_eq!(cache_peer.accepted(), 0);
    let text = format!(
        "[cache]\n{}\n{FORWARD_TEXT}",
        cache_peers(&[cache_peer.address()], "")
    );
    carrick.reload(&near, &text);
    carrick.wait_for_metric("carrick_cache_peer_up", &[], 1.0);
    fetch(&carrick, origin.address(), "/b");
    wait_for_answers(&carrick, "miss", 1.0);
    // `only-if-cached` returns only what is stored here.
    let lines = "Cache-Control: only-if-cached\r\n";
    assert_eq!(
        fetch_with(&carrick, origin.address(), "/c", lines).status,
        504
    );
    assert_eq!(super::answers(&carrick, "miss"), 1.0);
}

#[test]
fn switches_can_be_cache_peers_too() {
    let (near, far) = (Place::claim(), Place::claim());
    let origin = origin(&far);
    let text = |cache: &str| {
        let switch = switch_text(&[origin.address()]);
        let cached = switch.replace(
            "upstream = \"u\"\n[upstream",
            "upstream = \"u\"\ncache = true\n[upstream",
        );
        format!("[cache]\n{cache}\n{cached}")
    };
    let other = Carrick::start(&far, &text(""));
    let carrick = Carrick::start(&near, &text(&cache_peers(&[other.listener()], "")));
    let ask = "GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
    assert_eq!(other.connect().ask(ask).text(), "/a");
    let found = carrick.connect().ask(ask);
    assert_eq!((found.status, found.text().as_str()), (200, "/a"));
    wait_for_answers(&carrick, "hit", 1.0);
    assert_eq!(origin.accepted(), 1);
}
