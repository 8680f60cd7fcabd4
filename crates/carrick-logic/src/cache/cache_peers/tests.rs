//! Owners of keys.
use super::{CachePeers, shared_part};
use proptest::prelude::*;

fn names(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("10.0.{}.{}:3128", number / 250, number % 250))
        .collect()
}

fn cache_peers(names: &[String], own: Option<usize>) -> CachePeers {
    CachePeers::new(names.iter().map(String::as_bytes), own)
}

fn keys(count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|number| format!("http://h{}.example:80/{number}", number % 97).into_bytes())
}

#[test]
fn each_member_owns_its_share() {
    for count in [2, 3, 5, 16] {
        let all = cache_peers(&names(count), None);
        let mut owned = vec![0_usize; count];
        for key in keys(20_000) {
            owned[all.owner(&key, |_| true).unwrap()] += 1;
        }
        let share = 20_000 / count;
        for number in &owned {
            assert!(
                number.abs_diff(share) < share / 5,
                "{count} members: {owned:?}"
            );
        }
    }
}

#[test]
fn a_non_member_asks_a_member_for_every_key() {
    let all = cache_peers(&names(3), None);
    assert!(keys(100).all(|key| all.owner(&key, |_| true).is_some()));
    assert_eq!(cache_peers(&[], None).owner(b"key", |_| true), None);
    assert_eq!(all.owner(b"key", |_| false), None);
}

#[test]
fn the_shared_part_is_behind_the_realm() {
    for (key, shared) in [
        ("listener=127.0.0.1:3128 http://h:80/a?b", "http://h:80/a?b"),
        (
            "upstream=1:u http://h:80/ http://x\n1:x1:y",
            "http://h:80/ http://x\n1:x1:y",
        ),
        (
            "upstream=5: http https://h:443/ http://x\n1:x1:y",
            "https://h:443/ http://x\n1:x1:y",
        ),
        ("other", "other"),
    ] {
        assert_eq!(shared_part(key.as_bytes()), shared.as_bytes());
    }
}

proptest! {
    /// All members, with the names in any order, agree on the owner of a key.
    #[test]
    fn all_members_agree(count in 1..12_usize, turn in any::<prop::sample::Index>(), key in any::<[u8; 8]>()) {
        let names = names(count);
        let mut turned = names.clone();
        turned.rotate_left(turn.index(count));
        let owner = &names[cache_peers(&names, None).owner(&key, |_| true).unwrap()];
        prop_assert_eq!(owner, &turned[cache_peers(&turned, None).owner(&key, |_| true).unwrap()]);
        for (place, name) in names.iter().enumerate() {
            let asked = cache_peers(&names, Some(place)).owner(&key, |_| true);
            if name == owner {
                prop_assert_eq!(asked, None, "the owner asks no peer");
            } else {
                prop_assert_eq!(asked.map(|place| &names[place]), Some(owner));
            }
        }
    }

    /// When a member leaves or is skipped, only its own keys move; when it returns, they return to it.
    #[test]
    fn only_the_keys_of_a_leaving_member_move(count in 2..12_usize, gone in any::<prop::sample::Index>(), key in any::<[u8; 8]>()) {
        let names = names(count);
        let gone = gone.index(count);
        let all = cache_peers(&names, None);
        let before = all.owner(&key, |_| true).unwrap();
        let without = all.owner(&key, |place| place != gone).unwrap();
        prop_assert_ne!(without, gone);
        if before != gone {
            prop_assert_eq!(before, without);
        }
        let mut fewer = names.clone();
        fewer.remove(gone);
        let left = cache_peers(&fewer, None).owner(&key, |_| true).unwrap();
        prop_assert_eq!(&fewer[left], &names[without], "skipping a member equals removing it");
    }
}
