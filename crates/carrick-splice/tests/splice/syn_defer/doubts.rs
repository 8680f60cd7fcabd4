//! SYNs that pass instead of being deferred: the reader hangs, they are not understood, the process has ended; and invalid ones.

use super::*;

#[test]
fn while_the_reader_hangs_syns_pass_and_what_it_decides_later_is_too_late() {
    let Some(bed) = bed() else {
        return;
    };
    let (to_router, orders) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let settings = Settings {
        unattended: UNATTENDED,
        ..settings()
    };
    let deferring = defer_by(&bed, settings, async move |syn_defer, mut reader| {
        let deferred = next(&mut reader).await;
        tell.send(()).unwrap();
        // It hangs: nothing else runs in this thread.
        orders.recv().unwrap();
        (deferred.refuse().unwrap(), syn_defer.counts().unwrap())
    });
    let client = bed.on(Host::Client, || {
        TcpStream::connect_timeout(&address(FAMILIES[0].server, 80), HANG).map(drop)
    });
    let listener = bed.at(Host::Server, || listen(address(FAMILIES[0].server, 80)));
    told.recv_timeout(HANG).unwrap();
    // The client's retransmission after a second may still be dropped, the next one is not.
    client.join().unwrap().unwrap();
    drop(listener);
    connects(&bed, FAMILIES[1]);
    to_router.send(()).unwrap();
    let (is_refused, counts) = deferring.join().unwrap();
    assert!(!is_refused, "the client has its connection");
    assert_eq!(counts.deferred, 1, "{counts:?}");
    assert!(counts.unattended >= 2, "{counts:?}");
}

#[test]
fn what_was_deferred_passes_when_the_process_is_gone() {
    let Some(bed) = bed() else {
        return;
    };
    let deferring = defer(&bed, async |_, mut reader| {
        // As if it were killed, without a decision.
        std::mem::forget(next(&mut reader).await);
    });
    connects(&bed, FAMILIES[0]);
    deferring.join().unwrap();
}

#[test]
fn a_syn_without_a_socket_passes_if_only_those_with_one_are_deferred() {
    let Some(bed) = bed() else {
        return;
    };
    let settings = Settings {
        assigned_only: true,
        ..settings()
    };
    let (to_router, orders) = mpsc::channel::<()>();
    let deferring = defer_by(&bed, settings, async move |syn_defer, mut reader| {
        while orders.try_recv().is_err() {
            let deferred = tokio::time::timeout(SHORT / 10, reader.next()).await;
            assert!(deferred.is_err(), "nothing is deferred");
        }
        syn_defer.counts().unwrap()
    });
    for family in FAMILIES {
        connects(&bed, family);
    }
    to_router.send(()).unwrap();
    let counts = deferring.join().unwrap();
    assert_eq!((counts.deferred, counts.unattended), (0, 0), "{counts:?}");
}

#[test]
fn what_is_not_understood_passes() {
    let Some(bed) = bed() else {
        return;
    };
    let (to_router, orders) = mpsc::channel::<()>();
    let deferring = defer(&bed, async move |syn_defer, mut reader| {
        while orders.try_recv().is_err() {
            assert!(
                tokio::time::timeout(SHORT / 10, reader.next())
                    .await
                    .is_err(),
                "nothing of this is deferred"
            );
        }
        syn_defer.counts().unwrap()
    });
    for (host, device) in [
        (Host::Client, "c"),
        (Host::Middle, "rc"),
        (Host::Middle, "rs"),
        (Host::Server, "s"),
    ] {
        bed.ip(host, &format!("link set {device} mtu 2000"));
    }
    let tap = bed.at(Host::Server, || Tap::open("s"));
    for family in FAMILIES {
        send(&bed, &family, &by_hand(&family, 4000, 1, &[7; 1700]));
        tap.next(HANG, goes_to_80).expect("a long one");
    }
    // With destination options (RFC 8200 section 4.6), six bytes of padding.
    let plain = by_hand(&FAMILIES[1], 4001, 1, &[]);
    let mut extended = plain[..40].to_vec();
    extended[5] += 8;
    extended[6] = 60;
    extended.extend_from_slice(&[6, 0, 1, 4, 0, 0, 0, 0]);
    extended.extend_from_slice(&plain[40..]);
    send(&bed, &FAMILIES[1], &extended);
    let is_extended = |packet: &[u8]| packet[0] >> 4 == 6 && packet[6] == 60;
    tap.next(HANG, is_extended).expect("with extension headers");
    to_router.send(()).unwrap();
    let counts = deferring.join().unwrap();
    assert_eq!(
        (counts.deferred, counts.not_understood),
        (0, 3),
        "{counts:?}"
    );
}

#[test]
fn a_syn_with_a_wrong_checksum_goes_nowhere() {
    let Some(bed) = bed() else {
        return;
    };
    let deferring = defer(&bed, async |_, mut reader| {
        let deferred = next(&mut reader).await;
        assert_eq!(deferred.client().port(), 4001);
    });
    let family = FAMILIES[0];
    let mut wrong = by_hand(&family, 4000, 1, &[]);
    wrong[20 + 14] ^= 1;
    send(&bed, &family, &wrong);
    send(&bed, &family, &by_hand(&family, 4001, 1, &[]));
    deferring.join().unwrap();
}

#[test]
fn checksums_that_are_left_to_the_interface_are_made() {
    let Some(bed) = bed() else {
        return;
    };
    bed.offload(true);
    let deferring = defer(&bed, async |_, mut reader| {
        for _ in FAMILIES {
            assert!(next(&mut reader).await.release().unwrap());
            assert!(next(&mut reader).await.refuse().unwrap());
        }
    });
    for family in FAMILIES {
        connects(&bed, family);
        let refused = bed.at(Host::Client, move || {
            TcpStream::connect_timeout(&address(family.server, 80), HANG)
        });
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    deferring.join().unwrap();
}
