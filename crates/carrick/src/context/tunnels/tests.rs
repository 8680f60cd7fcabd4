//! Who is in the list, and for how long.
use super::*;
use crate::telemetry::tunnels::tests::about;

#[test]
fn labels_are_never_used_twice() {
    let lists = [TunnelList::default(), TunnelList::default()];
    let mut labels: Vec<u64> = (0..1000)
        .flat_map(|_| [0, 1].map(|worker| lists[worker].label(worker)))
        .collect();
    assert!(!labels.contains(&0), "0 is nobody's");
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), 2000);
}

#[test]
fn a_tunnel_is_listed_while_it_stands_and_its_place_is_used_again() {
    let list = Rc::new(TunnelList::default());
    let metrics = Arc::new(WorkerMetrics::default());
    let labels = || {
        let tunnels = metrics.tunnels.iter();
        let mut labels: Vec<u64> = tunnels.map(|tunnel| tunnel.about.label).collect();
        labels.sort_unstable();
        labels
    };
    let begin = || Listed::new(&list, &metrics, about(list.label(0)));
    let (one, two, three) = (begin(), begin(), begin());
    assert_eq!(labels(), [1, 2, 3]);
    drop(two);
    assert_eq!(labels(), [1, 3]);
    let four = begin();
    assert_eq!((four.place, labels()), (1, vec![1, 3, 4]));
    drop((one, three, four));
    assert!(labels().is_empty());
}

#[test]
fn more_than_can_be_listed_are_left_out() {
    let list = Rc::new(TunnelList::default());
    let metrics = Arc::new(WorkerMetrics::default());
    *list.places.borrow_mut() = (0..LISTED_MAX).map(|place| (place, ())).collect();
    let beyond = Listed::new(&list, &metrics, about(1));
    assert_eq!(beyond.place, LISTED_MAX);
    assert_eq!(metrics.tunnels.iter().count(), 0);
    drop(beyond);
    assert_eq!(list.places.borrow().len(), LISTED_MAX);
}
