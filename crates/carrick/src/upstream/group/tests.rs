//! Idle connections of an upstream across a reload.
use super::*;
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
