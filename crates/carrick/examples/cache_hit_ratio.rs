//! How many requests the cache's store answers, beside LRU, on models of requests.
//!
//! `cargo run --release -p carrick --example cache_hit_ratio [-- SEED]`
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

#[path = "../src/cache/memory/tests/workload.rs"]
mod workload;

use carrick::cache::ledger::Limits;
use carrick::cache::memory::{Found, OVERHEAD_BYTES, Store};
use carrick_logic::cache::{Fields, Variant};
use std::sync::Arc;
use workload::{Cache, Lru, META, Workload, object_bytes, ratios};

/// Objects that popularity is spread over.
const OBJECTS: usize = 100_000;

/// Requests of each model.
const REQUESTS: usize = 1_000_000;

/// What the name of an object takes.
const KEY_BYTES: u64 = 8;

/// The store, asked as a relay asks it. What cannot be stored is a miss.
struct Stored {
    store: Arc<Store>,
    zeros: Vec<u8>,
}

impl Cache for Stored {
    fn ask(&mut self, object: u64, bytes: u64) -> bool {
        let name = object.to_be_bytes();
        let key = self.store.key(&name);
        if let Found::Object(_) = self.store.find(key, Fields::of_text(b"")) {
            return true;
        }
        let Ok(mut writer) = self.store.fill(Some(bytes)) else {
            return false;
        };
        let body = Arc::clone(writer.body());
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        if writer
            .append(&self.zeros[..length.min(self.zeros.len())])
            .is_ok()
            && writer.finish()
        {
            let _ = self.store.put(key, &Variant::default(), META, b"", &body);
        }
        false
    }
}

fn main() {
    let seed = std::env::args()
        .nth(1)
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(1);
    println!("{REQUESTS} requests, {OBJECTS} objects, seed {seed}; hits in percent\n");
    println!("| requests | room for | LRU | store | LRU, bytes | store, bytes |");
    println!("|---|---|---|---|---|---|");
    for workload in Workload::ALL {
        let requests = workload.requests(OBJECTS, REQUESTS, seed);
        for percent in [1, 10] {
            let objects = OBJECTS as u64 * percent / 100;
            let room = format!("{percent} %, all alike");
            row(workload, &room, objects * 100, objects, &requests, |_| 100);
        }
        let bytes = 64 << 20;
        row(
            workload,
            "64 MB, 200 B to 200 KB",
            bytes,
            0,
            &requests,
            object_bytes,
        );
    }
}

/// A row of the table. `objects` is for how many the bytes besides their bodies are added to the room.
fn row(
    workload: Workload,
    room: &str,
    body_bytes: u64,
    objects: u64,
    requests: &[u64],
    bytes_of: impl Fn(u64) -> u64,
) {
    let bytes = body_bytes + objects * (KEY_BYTES + OVERHEAD_BYTES);
    let mut lru = Lru::new(bytes, KEY_BYTES + OVERHEAD_BYTES);
    let mut store = Stored {
        store: Arc::new(Store::new(Limits {
            bytes,
            objects: u64::MAX,
            object_bytes_max: bytes,
        })),
        zeros: vec![0; 1 << 20],
    };
    let (lru_hits, lru_bytes) = ratios(&mut lru, requests, &bytes_of);
    let (store_hits, store_bytes) = ratios(&mut store, requests, &bytes_of);
    println!(
        "| {} | {room} | {lru_hits:.1} | {store_hits:.1} | {lru_bytes:.1} | {store_bytes:.1} |",
        workload.name()
    );
}
