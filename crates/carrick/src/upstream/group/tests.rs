//! Idle connections of an upstream across a reload.
use super::*;
use crate::config::plan::UpstreamPlan;
use crate::control::testing::upstream;
use std::net::TcpListener;
use tokio::net::TcpStream;

#[tokio::test(flavor = "current_thread")]
async fn connections_that_come_back_after_a_reload_are_closed_and_idle_ones_are_taken_over() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let connect = async || {
        let stream = TcpStream::connect(address).await.expect("a connection");
        Upstream::new(stream, address, 0)
    };
    let plan = Arc::new(upstream("u", &[address], None));
    let before = UpstreamState::for_plan(&[Arc::clone(&plan)], &[]);
    let after = UpstreamState::for_plan(&[plan], &before);
    let now = Instant::now();
    let old = Group::new(Arc::clone(&before[0]), 1, None);
    old.put_idle(0, connect().await, now);
    let new = Group::new(Arc::clone(&after[0]), 1, Some(&old));
    old.retire();
    assert_eq!([old.idle_count(), new.idle_count()], [0, 1]);
    old.put_idle(0, connect().await, now);
    assert_eq!([old.idle_count(), new.idle_count()], [0, 1]);
}

#[test]
fn a_reload_changes_after_how_many_failures_a_server_is_left_alone() {
    let addresses = ["192.0.2.1:80", "192.0.2.2:80"].map(|text| text.parse().expect("an address"));
    let now = Instant::now();
    let mut groups: Vec<Group> = Vec::new();
    for (failures_max, rests) in [(3, false), (2, true), (0, false)] {
        let plan = UpstreamPlan {
            failures_max,
            ..upstream("u", &addresses, None)
        };
        let before = groups.last();
        let known: Vec<_> = before
            .map(|group| Arc::clone(&group.state))
            .into_iter()
            .collect();
        let states = UpstreamState::for_plan(&[Arc::new(plan)], &known);
        let group = Group::new(Arc::clone(&states[0]), 1, before);
        group.failed(0, now);
        let picked = [group.pick(None, &[], now), group.pick(None, &[], now)];
        assert_eq!(!picked.contains(&Some(0)), rests, "{failures_max}");
        groups.push(group);
    }
}

/// When the server is up again, it may know nothing of them: each would cost a request.
#[tokio::test(flavor = "current_thread")]
async fn no_connection_to_a_server_that_is_down_is_kept() {
    let (group, upstream, _listener) = group_with_connection().await;
    let now = Instant::now();
    group.put_idle(0, upstream, now);
    let close_stale = || group.close_stale(now, Duration::from_secs(60));
    close_stale();
    assert_eq!(group.idle_count(), 1);
    group.state.servers[0].set_healthy(false);
    close_stale();
    assert_eq!(group.idle_count(), 0);
}

#[tokio::test(flavor = "current_thread")]
async fn connections_to_an_address_that_a_name_has_no_longer_are_not_kept() {
    let now = Instant::now();
    let other = IpAddr::from([192, 0, 2, 1]);
    let (group, upstream, _listener) = group_with_connection().await;
    let own = upstream.address.ip();
    group.put_idle(0, upstream, now);
    // Not known, and one of several.
    for addresses in [None, Some(Arc::from([other, own]))] {
        group.now_at(0, addresses);
        assert_eq!(group.idle_count(), 1);
    }
    let upstream = group.take_idle(0).expect("a connection");
    group.now_at(0, Some(Arc::from([other])));
    group.put_idle(0, upstream, now);
    assert_eq!(group.idle_count(), 0, "it was in use meanwhile");
    // A client that keeps its connection leaves it, and has the name looked up until then.
    let is_in_use = |after| {
        let second = Duration::from_secs(1);
        group.is_in_use(0, now + after * second, 60 * second)
    };
    assert!(!is_in_use(0));
    assert!(!group.may_stay(0, own, now) && group.may_stay(0, other, now));
    assert_eq!([0, 59, 60].map(is_in_use), [true, true, false]);
}

async fn group_with_connection() -> (Group, Upstream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let states = UpstreamState::for_plan(&[Arc::new(upstream("u", &[address], None))], &[]);
    let group = Group::new(Arc::clone(&states[0]), 1, None);
    (group, Upstream::new(stream, address, 0), listener)
}
