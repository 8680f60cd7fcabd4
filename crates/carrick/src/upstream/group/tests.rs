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

#[tokio::test(flavor = "current_thread")]
async fn idle_connections_of_a_server_that_is_down_are_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let states = UpstreamState::for_plan(&[Arc::new(upstream("u", &[address], None))], &[]);
    let group = Group::new(Arc::clone(&states[0]), 1, None);
    let now = Instant::now();
    let stream = TcpStream::connect(address).await.expect("a connection");
    group.put_idle(0, Upstream::new(stream, address, 0), now);
    for (is_healthy, left) in [(true, 1), (false, 0)] {
        states[0].servers[0]
            .healthy
            .store(is_healthy, Ordering::Relaxed);
        group.close_stale(now, std::time::Duration::from_secs(60));
        assert_eq!(group.idle_count(), left);
    }
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
