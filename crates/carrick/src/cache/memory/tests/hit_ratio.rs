//! Eviction keeps objects that are requested again, better than LRU does.
use super::super::{OVERHEAD_BYTES, Store};
use super::workload::{Cache, Lru, Workload, object_bytes, ratios};
use super::*;

/// Bytes of an object's key.
const KEY_BYTES: u64 = 8;

impl Cache for Arc<Store> {
    fn ask(&mut self, object: u64, bytes: u64) -> bool {
        let name = object.to_be_bytes();
        let key = self.key(&name);
        if let Found::Object(_) = self.find(key, nothing()) {
            return true;
        }
        let mut writer = self.fill(Some(bytes)).unwrap();
        writer.append(&vec![0; bytes as usize]).unwrap();
        let body = Arc::clone(writer.body());
        assert!(writer.finish());
        self.put(key, &Variant::default(), meta(1000), b"", &body)
            .unwrap();
        false
    }
}

/// Hit ratios of LRU and of the store, which have room for so many objects of 100 bytes.
fn compare(workload: Workload, objects: u64) -> (f64, f64) {
    let requests = workload.requests(20_000, 200_000, 1);
    let bytes = objects * (100 + KEY_BYTES + OVERHEAD_BYTES);
    let mut lru = Lru::new(bytes, KEY_BYTES + OVERHEAD_BYTES);
    let mut store = store(Limits {
        bytes,
        objects: u64::MAX,
        object_bytes_max: 1000,
    });
    let (of_lru, _) = ratios(&mut lru, &requests, |_| 100);
    let (of_store, _) = ratios(&mut store, &requests, |_| 100);
    (of_lru, of_store)
}

#[test]
fn scans_do_not_sweep_out_what_is_popular() {
    for workload in [Workload::Scans, Workload::OneHits] {
        let (of_lru, of_store) = compare(workload, 2000);
        assert!(
            of_store > of_lru + 3.0,
            "{} {of_lru} {of_store}",
            workload.name()
        );
    }
}

#[test]
fn nowhere_is_it_much_worse_than_lru() {
    for workload in Workload::ALL {
        let (of_lru, of_store) = compare(workload, 500);
        assert!(
            of_store > of_lru - 1.0,
            "{} {of_lru} {of_store}",
            workload.name()
        );
    }
}

#[test]
fn by_bytes_it_holds_up_too() {
    let requests = Workload::Scans.requests(2000, 40_000, 1);
    let bytes = 8 << 20;
    let mut lru = Lru::new(bytes, KEY_BYTES + OVERHEAD_BYTES);
    let mut store = store(Limits {
        bytes,
        objects: u64::MAX,
        object_bytes_max: bytes,
    });
    let (of_lru, bytes_of_lru) = ratios(&mut lru, &requests, object_bytes);
    let (of_store, bytes_of_store) = ratios(&mut store, &requests, object_bytes);
    assert!(of_store > of_lru, "{of_lru} {of_store}");
    assert!(
        bytes_of_store > bytes_of_lru,
        "{bytes_of_lru} {bytes_of_store}"
    );
}
