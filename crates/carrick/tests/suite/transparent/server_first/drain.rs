//! Deferred SYNs when a drain begins.
use super::*;
use rustix::process::Signal;

#[test]
fn a_client_that_is_held_when_a_drain_begins_gets_to_its_server() {
    let Some(bed) = Bed::build() else { return };
    let timeouts = "[timeouts]\nconnect = \"10m\"\ndrain = \"10m\"\n";
    let mut carrick = bed.carrick(&(timeouts.to_owned() + SPLIT));
    // Another client keeps the drain from its end.
    let listener = listen(&bed, at(SERVERS[0], 2525));
    let other = connect(&bed, at(SERVERS[0], 2525), PATIENCE).expect("a server");
    let served = accept(&listener);
    silence(&bed, 80);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| connect(&bed, at(SERVERS[0], 80), PATIENCE));
        wait_for_syns(&carrick, &bed, 2.0);
        carrick.signal(Signal::TERM);
        carrick.said.wait_for("draining").expect("a message");
        end_silence(&bed);
        client.join().expect("a client").expect("a connection");
    });
    drop((other, served));
    carrick.wait();
}
