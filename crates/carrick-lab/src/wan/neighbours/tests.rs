//! Questions, answers, and packets that wait, in virtual time.

use super::*;

const MAC: Mac = [2, 0, 0, 0, 0, 1];

fn address() -> IpAddr {
    "10.0.2.2".parse().unwrap()
}

#[test]
fn the_first_packets_wait_for_the_answer() {
    let mut neighbours = Neighbours::new();
    let number = neighbours.number(1, address()).unwrap();
    assert_eq!(neighbours.number(1, address()), Some(number));
    assert_eq!(neighbours.next_ns(), None);
    for packet in 0..3 {
        assert_eq!(neighbours.mac(number, 10), None);
        assert_eq!(neighbours.wait(number, packet), Ok(()));
    }
    assert_eq!(neighbours.next_ns(), Some(10));
    assert_eq!(neighbours.questions(10), (vec![(1, address())], vec![]));
    assert_eq!(neighbours.questions(11), (vec![], vec![]), "asked once");
    // Another device's neighbour of the same address is somebody else.
    assert!(neighbours.learn(0, address(), MAC, 12).is_empty());
    assert_eq!(neighbours.learn(1, address(), MAC, 12), vec![0, 1, 2]);
    assert_eq!(neighbours.mac(number, 13), Some(MAC));
    assert_eq!(neighbours.next_ns(), None);
}

#[test]
fn who_does_not_answer_is_asked_again_and_then_given_up() {
    let mut neighbours = Neighbours::new();
    let number = neighbours.number(0, address()).unwrap();
    assert_eq!(neighbours.mac(number, 0), None);
    neighbours.wait(number, 'a').unwrap();
    let mut questions = 0;
    while let Some(now_ns) = neighbours.next_ns() {
        let (asked, lost) = neighbours.questions(now_ns);
        questions += asked.len() as u32;
        assert_eq!(lost.len(), usize::from(asked.is_empty()));
    }
    assert_eq!(questions, QUESTIONS_MAX);
    // The next packet begins anew.
    assert_eq!(neighbours.mac(number, 9_000_000_000), None);
    assert_eq!(neighbours.next_ns(), Some(9_000_000_000));
}

#[test]
fn not_everybody_may_wait() {
    let mut neighbours = Neighbours::new();
    let number = neighbours.number(0, address()).unwrap();
    for packet in 0..WAITING_MAX {
        neighbours.wait(number, packet).unwrap();
    }
    assert_eq!(neighbours.wait(number, 7), Err(7));
}

#[test]
fn an_old_address_is_used_while_it_is_asked_for_again() {
    let mut neighbours: Neighbours<()> = Neighbours::new();
    let number = neighbours.number(0, address()).unwrap();
    neighbours.learn(0, address(), MAC, 5);
    assert_eq!(neighbours.mac(number, CONFIRM_AFTER_NS), Some(MAC));
    assert_eq!(neighbours.next_ns(), None);
    assert_eq!(neighbours.mac(number, CONFIRM_AFTER_NS + 5), Some(MAC));
    assert_eq!(neighbours.next_ns(), Some(CONFIRM_AFTER_NS + 5));
    let other = [2, 0, 0, 0, 0, 9];
    neighbours.learn(0, address(), other, CONFIRM_AFTER_NS + 6);
    assert_eq!(neighbours.mac(number, CONFIRM_AFTER_NS + 7), Some(other));
    assert_eq!(neighbours.next_ns(), None);
}

#[test]
fn groups_and_nobody_are_not_learned() {
    let mut neighbours: Neighbours<()> = Neighbours::new();
    let number = neighbours.number(0, address()).unwrap();
    neighbours.learn(0, address(), [0xff; 6], 1);
    neighbours.learn(0, address(), [0; 6], 1);
    assert_eq!(neighbours.mac(number, 2), None);
}
