//! Frames together, and turns of those that wait for room.
use super::super::super::testing::{End, pair};
use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn connection() -> (Rc<Http2Connection>, Rc<End>) {
    let address = |port| ([127, 0, 0, 1], port).into();
    let [here, there] = pair([address(1), address(2)]);
    let connection = Http2Connection::new(Transport::Memory(here), || {});
    (Rc::new(connection), there)
}

/// What the other end can read now.
fn heard(there: &End) -> usize {
    let mut bytes = Vec::with_capacity(64 * 1024);
    there.read_now(&mut bytes).unwrap_or(0)
}

fn write(connection: &Http2Connection, pieces: &[&[u8]]) -> usize {
    let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut cx = Context::from_waker(Waker::noop());
    match connection.poll_write(&pieces, &mut cx) {
        Poll::Ready(Ok(count)) => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_go_out_together_when_the_task_waits() {
    let (connection, there) = connection();
    assert_eq!(write(&connection, &[b"head", b"body"]), 8);
    assert_eq!(write(&connection, &[&[0; 1000]]), 1000);
    assert_eq!(heard(&there), 0);
    let mut cx = Context::from_waker(Waker::noop());
    connection.send_written(&mut cx).unwrap();
    assert_eq!(heard(&there), 1008);
    assert_eq!(connection.gathered.borrow().capacity(), 0);
}

#[test]
fn what_fills_a_record_does_not_wait() {
    let (connection, there) = connection();
    assert_eq!(write(&connection, &[b"head"]), 4);
    let content = vec![0; GATHERED_BYTES_MAX];
    assert_eq!(write(&connection, &[b"frame", &content]), 5 + content.len());
    assert_eq!(heard(&there), 9 + content.len());
}

#[test]
fn nothing_gathered_is_lost_at_the_end() {
    let (connection, there) = connection();
    assert_eq!(write(&connection, &[b"last words"]), 10);
    connection.finish();
    assert_eq!(heard(&there), 10);
}

#[test]
fn bytes_by_themselves_fill_the_queue_before_they_fill_the_memory() {
    let (connection, _there) = connection();
    let mut pieces = Vec::new();
    while connection.room() > 0 {
        pieces.push(connection.piece(vec![0]));
    }
    assert!(pieces.len() < 1000, "{}", pieces.len());
    pieces.clear();
    // Those without content are counted as well.
    let end = connection.piece(Vec::new());
    assert!(connection.room() < QUEUED_BYTES_MAX);
    drop(end);
    assert_eq!(connection.room(), QUEUED_BYTES_MAX);
}

#[test]
fn room_for_one_wakes_one_and_room_for_all_wakes_all() {
    let (connection, _there) = connection();
    let mut pieces: Vec<_> = (0..3)
        .map(|_| connection.piece(b"piece".to_vec()))
        .collect();
    let woken: Vec<_> = (0..5).map(|_| Arc::<Woken>::default()).collect();
    for one in &woken {
        connection.wait(&Context::from_waker(&Arc::clone(one).into()));
    }
    let counts = || -> Vec<_> {
        let counts = woken.iter().map(|one| one.0.load(Ordering::Relaxed));
        counts.collect()
    };
    pieces.pop();
    assert_eq!(counts(), [1, 0, 0, 0, 0]);
    pieces.pop();
    assert_eq!(counts(), [1, 1, 0, 0, 0]);
    pieces.pop();
    assert_eq!(counts(), [1, 1, 1, 1, 1]);
}
