//! Tests of which orders the thread gets, without a thread.
use super::*;
use crate::cache::ledger::Limits;
use crate::cache::memory::Store;
use crate::config::plan::ServerAddress;
use carrick_logic::cache::{LifetimeFrom, Meta, Validator, Variant};

fn shared(orders_max: usize) -> (Arc<Shared>, mpsc::Receiver<Order>) {
    let (orders, received) = mpsc::channel(orders_max);
    let shared = Shared {
        plan: SharedPlan {
            servers: vec![ServerAddress::Ip(([127, 0, 0, 1], 1).into())],
            cluster: false,
            prefix: "p".to_owned(),
            timeout: Duration::from_millis(20),
            object_bytes_max: 48 << 20,
            user: None,
            password: None,
        },
        orders,
        state: Arc::new(SharedState::new(Arc::default())),
    };
    (Arc::new(shared), received)
}

const KEY: &[u8] = b"listener=127.0.0.1:3128 http://h:80/a";
const NOW: UnixTime = UnixTime(1_800_000_000);

fn meta(lifetime_s: u32) -> Meta {
    Meta {
        status: 200,
        response_time: NOW,
        initial_age_s: 0,
        lifetime_s,
        lifetime_from: LifetimeFrom::MaxAge,
        date: NOW,
        last_modified: None,
        validator: Validator::None,
        always_validate: false,
        client_may_take_stale: true,
        stale_while_revalidate_s: 0,
        stale_if_error_s: 0,
        immutable: false,
        no_transform: false,
        part: None,
    }
}

/// An object with a body of this length.
fn object(bytes: usize, lifetime_s: u32, variant: &Variant) -> Arc<Object> {
    let store = Arc::new(Store::new(Limits {
        bytes: 512 << 20,
        objects: 10,
        object_bytes_max: 64 << 20,
    }));
    let mut writer = store.fill(Some(bytes as u64)).expect("room");
    writer.append(&vec![b'x'; bytes]).expect("room");
    let body = Arc::clone(writer.body());
    assert!(writer.finish());
    store
        .put(
            store.key(KEY),
            variant,
            meta(lifetime_s),
            b"A: b\r\n",
            &body,
        )
        .expect("room")
}

fn ticket(shared: &Arc<Shared>) -> Ticket {
    Ticket {
        shared: Arc::clone(shared),
        names: Names::new("p", KEY, Some(3128)),
        generation: 7,
    }
}

#[test]
fn what_is_written_can_be_read_by_others() {
    let (shared, mut orders) = shared(4);
    let ticket = ticket(&shared);
    ticket.keep(&object(100, 60, &Variant::default()), NOW.plus(10));
    let Ok(Order::Put { fields, ttl_s, .. }) = orders.try_recv() else {
        panic!("it is written")
    };
    assert_eq!((fields.len(), ttl_s), (1, 50));
    let Some(Recorded::Response(record)) = ticket.read(&fields[0].1) else {
        panic!("it is a record")
    };
    assert_eq!(
        (record.body.len(), record.head),
        (100, b"A: b\r\n".as_slice())
    );
    // For a response that varies, two fields are written.
    let variant = Variant::from_parts(b"accept", b"\x01a\0");
    ticket.keep(&object(100, 60, &variant), NOW);
    let Ok(Order::Put { fields, .. }) = orders.try_recv() else {
        panic!("it is written")
    };
    assert_eq!(ticket.read(&fields[0].1), Some(Recorded::Varies(b"accept")));
    assert_eq!(fields[1].0, ticket.names.variant(&variant));
}

#[test]
fn what_is_too_much_for_the_queue_is_not_written() {
    let (shared, mut orders) = shared(4);
    let ticket = ticket(&shared);
    let large = object(40 << 20, 60, &Variant::default());
    ticket.keep(&large, NOW);
    ticket.keep(&large, NOW);
    assert_eq!(
        shared.state.counted(SharedCacheEvent::Dropped),
        1,
        "64 MB are the most"
    );
    assert!(orders.try_recv().is_ok() && orders.try_recv().is_err());
    let (shared, _orders) = self::shared(2);
    let ticket = self::ticket(&shared);
    let small = object(1, 60, &Variant::default());
    for _ in 0..5 {
        ticket.keep(&small, NOW);
    }
    assert_eq!(shared.state.counted(SharedCacheEvent::Dropped), 3);
    assert_eq!(shared.state.queued_bytes.load(Relaxed), 2);
}

#[test]
fn what_is_of_no_use_is_not_written() {
    let (shared, mut orders) = shared(4);
    let ticket = ticket(&shared);
    ticket.keep(&object(1, 60, &Variant::default()), NOW.plus(60));
    ticket.keep(&object(49 << 20, 60, &Variant::default()), NOW);
    assert!(orders.try_recv().is_err());
    assert_eq!(shared.state.queued_bytes.load(Relaxed), 0);
    let stale = Meta {
        stale_if_error_s: 600,
        ..meta(60)
    };
    assert_eq!(lasts_s(&stale, NOW.plus(100)), 560);
    let always = Meta {
        always_validate: true,
        ..stale
    };
    assert_eq!(lasts_s(&always, NOW), 0);
}

#[test]
fn a_deletion_that_failed_is_owed_until_it_is_done() {
    let owed = Owed::default();
    let key = |number: usize| Some(format!("p:{number}").into_boxed_str());
    owed.add(key(1));
    owed.add(key(2));
    let first = owed.first().expect("it is owed");
    assert_eq!(first.key, key(1));
    // It fails once more while it is made good.
    owed.add(key(1));
    owed.done(&first);
    let again = owed.first().expect("it is owed");
    assert!(again.key == first.key && again != first);
    owed.done(&again);
    assert_eq!(owed.first().expect("it is owed").key, key(2));
    // 1024 URLs are the most.
    for number in 0..=1024 {
        owed.add(key(number));
    }
    let everything = owed.first().expect("it is owed");
    assert_eq!(everything.key, None);
    owed.done(&everything);
    assert_eq!(owed.first(), None);
}

#[test]
fn only_where_a_deletion_finds_no_place_in_the_queue_is_everything_deleted() {
    let (shared, _orders) = shared(1);
    let names = Names::new("p", KEY, None);
    shared.forget(&names);
    assert_eq!(shared.state.owed.first(), None);
    shared.forget(&names);
    assert_eq!(shared.state.owed.first().expect("it is owed").key, None);
}

#[tokio::test]
async fn who_does_not_answer_is_asked_once() {
    let (shared, mut orders) = shared(4);
    let names = || Names::new("p", KEY, None);
    let before = Instant::now();
    assert!(shared.find(names()).await.is_none());
    assert!(!shared.state.lock().passive.is_up(before));
    // The pause is made too long for this test to reach its end.
    let much_later = before + Duration::from_secs(24 * 3600);
    shared.state.lock().passive.failed(much_later);
    assert!(shared.find(names()).await.is_none());
    assert!(orders.try_recv().is_ok() && orders.try_recv().is_err());
    assert_eq!(shared.state.counted(SharedCacheEvent::Failed), 1);
    assert!(shared.state.is_left_out());
}
