//! The client closes while a local copy is made, at any moment and in any way, with every engine: the copy is complete,
//! and the sender's connection is at the end of the body.

use crate::support::*;
use crate::torture_unsplicing::seeds;
use carrick_splice::{Choice, End, Ended, LocalCopy, Order, Side};
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Ways for the client to leave.
async fn leave(mut receiver: TcpStream, manner: usize, cut: usize) {
    receive(&mut receiver, cut).await;
    match manner {
        0 => reset(receiver),
        1 => drop(receiver),
        2 => {
            tokio::time::sleep(Duration::from_millis(2)).await;
            reset(receiver);
        }
        _ => {
            // It closes its side, and breaks then.
            let _ = receiver.shutdown().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            reset(receiver);
        }
    }
}

async fn abort(seed: u64, choice: Choice, aborted: &mut u64) {
    let what = format!("{choice:?}, seed {seed}");
    let mut random = Random::new(seed);
    let mut sockets = match seed % 3 {
        0 => Sockets::tiny().await,
        1 => Sockets::to_a_tiny_receiver().await,
        _ => Sockets::new().await,
    };
    let length = 1 + random.magnitude(400_000);
    let cut = random.below(length);
    let sent = [&sample(seed, length)[..], b"next"].concat();
    let mut named = tempfile::tempfile().unwrap();
    let file = named.try_clone().unwrap();
    let mut copied = Vec::new();
    let mut copy = |bytes: &[u8]| copied.extend_from_slice(bytes);
    let to_file = random.below(2) == 0;
    let splicer = splicer();
    let order = Order {
        choice,
        local_copy: if to_file {
            LocalCopy::File(file.as_fd())
        } else {
            LocalCopy::To(&mut copy)
        },
        keep_reading_bytes_max: u64::MAX,
        ..Order::new(End::AfterBytes(length as u64))
    };
    let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
    let manner = random.below(4);
    let (outcome, (), ()) = tokio::join!(
        transfer.run(),
        leave(sockets.receiver, manner, cut),
        send_in_pieces(&mut sockets.sender, &sent, &mut random)
    );
    match outcome {
        // The last bytes were in flight when the client left.
        Ok(ended) => assert_eq!(ended, Ended::Bytes, "{what}"),
        Err(fault) => {
            assert_eq!(fault.side, Side::To, "{fault:?}, {what}");
            *aborted += 1;
        }
    }
    let hand_over = transfer.unsplice().await;
    assert!(hand_over.copy_complete, "{hand_over:?}, {what}");
    assert_eq!(hand_over.copied_bytes, length as u64, "{what}");
    if to_file {
        named.rewind().unwrap();
        named.read_to_end(&mut copied).unwrap();
    }
    assert_same(&copied, &sent[..length], &what);
    assert_eq!(receive(&mut sockets.from, 4).await, b"next", "{what}");
}

#[test]
fn the_copy_is_whole_however_the_client_goes() {
    for choice in EXCHANGE_CHOICES {
        let mut aborted = 0;
        for seed in 0..seeds() {
            on_worker(abort(seed, choice, &mut aborted));
        }
        assert!(
            aborted > seeds() / 4,
            "{choice:?}: only {aborted} clients went too early: this test shows too little"
        );
    }
}

/// The copy may occupy the sender's connection only within its limit.
async fn abort_with_a_limit(seed: u64, choice: Choice) {
    let what = format!("{choice:?}, seed {seed}");
    let mut random = Random::new(seed);
    let mut sockets = Sockets::to_a_tiny_receiver().await;
    let length = 100_000 + random.below(300_000);
    let sent = sample(seed, length);
    let allowed = random.magnitude(length);
    let mut copied = Vec::new();
    let mut copy = |bytes: &[u8]| copied.extend_from_slice(bytes);
    let splicer = splicer();
    let order = Order {
        choice,
        local_copy: LocalCopy::To(&mut copy),
        keep_reading_bytes_max: allowed as u64,
        ..Order::new(End::AfterBytes(length as u64))
    };
    let mut transfer = splicer.transfer(&sockets.from, &sockets.to, order);
    let cut = random.below(30_000);
    let gone = async { tokio::join!(transfer.run(), leave(sockets.receiver, 0, cut)).0 };
    let send = async {
        sockets.sender.write_all(&sent).await.unwrap();
        std::future::pending::<()>().await;
    };
    let outcome = tokio::select! {
        outcome = gone => outcome,
        // Unread data stays in the sockets.
        () = send => unreachable!("it waits for ever"),
    };
    let hand_over = transfer.unsplice().await;
    assert_eq!(outcome.expect_err(&what).side, Side::To);
    assert_eq!(hand_over.copied_bytes, copied.len() as u64, "{what}");
    assert_eq!(hand_over.copy_complete, copied.len() == length, "{what}");
    assert_same(&copied, &sent[..copied.len()], &what);
    assert!(copied.len() >= cut, "{what}");
}

#[test]
fn a_copy_with_a_limit_is_a_beginning_of_the_body() {
    for choice in EXCHANGE_CHOICES {
        for seed in 0..seeds() {
            on_worker(abort_with_a_limit(seed, choice));
        }
    }
}
