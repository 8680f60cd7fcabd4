//! Tests of the store as a whole, and what they share.
mod bounds;
mod control;
mod finding;
mod hit_ratio;
mod model;
mod parts;
mod queues;
mod threads;
mod wire;
mod workload;

use super::{BodyWriter, Found, NotTaken, Object, Store};
use crate::cache::ledger::Limits;
use crate::cache::purge::{Pattern, Purge};
use carrick_logic::cache::{Fields, Meta, UnixTime, Variant};
use std::sync::Arc;

/// A megabyte, a thousand objects.
const SMALL: Limits = Limits {
    bytes: 1 << 20,
    objects: 1000,
    object_bytes_max: 1 << 20,
};

pub(super) fn store(limits: Limits) -> Arc<Store> {
    Arc::new(Store::new(limits))
}

/// The decisions for a response of this date.
pub(in crate::cache) fn meta(date: u64) -> Meta {
    Meta {
        response_time: UnixTime(date),
        date: UnixTime(date),
        ..workload::META
    }
}

pub(in crate::cache) fn nothing() -> Fields<'static> {
    Fields::of_text(b"")
}

/// Bytes that depend on offset and seed, so that those of another body differ.
pub(in crate::cache) fn content(seed: u64, from: u64, bytes: usize) -> Vec<u8> {
    (from..from + bytes as u64)
        .map(|place| {
            let mixed = (place / 8 + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(seed.wrapping_mul(0xd6e8_feb8_6659_fd93));
            ((mixed ^ (mixed >> 29)) >> (8 * (place % 8))) as u8
        })
        .collect()
}

/// A body that is whole.
fn filled(store: &Arc<Store>, seed: u64, bytes: usize) -> Result<Arc<super::Body>, NotTaken> {
    let mut writer = store.fill(Some(bytes as u64))?;
    writer.append(&content(seed, 0, bytes)).unwrap();
    let body = Arc::clone(writer.body());
    assert!(writer.finish());
    Ok(body)
}

/// Stores `bytes` under `name`, without a variant.
pub(super) fn put(
    store: &Arc<Store>,
    name: &str,
    seed: u64,
    bytes: usize,
) -> Result<Arc<Object>, NotTaken> {
    let body = filled(store, seed, bytes)?;
    put_body(store, name, &body)
}

fn put_body(
    store: &Arc<Store>,
    name: &str,
    body: &Arc<super::Body>,
) -> Result<Arc<Object>, NotTaken> {
    let key = store.key(name.as_bytes());
    store.put(key, &Variant::default(), meta(1000), b"A: b\r\n", body)
}

/// A body that is begun, and its stored object.
fn begun(store: &Arc<Store>, name: &str, bytes: Option<u64>) -> (BodyWriter, Arc<Object>) {
    let writer = store.fill(bytes).unwrap();
    let object = put_body(store, name, writer.body()).unwrap();
    (writer, object)
}

pub(super) fn get(store: &Store, name: &str) -> Option<Arc<Object>> {
    match store.find(store.key(name.as_bytes()), nothing()) {
        Found::Object(object) => Some(object),
        Found::Nothing => None,
        Found::OtherVariant => panic!("no variants are stored"),
    }
}

/// The whole of a body.
pub(in crate::cache) fn read(object: &Arc<Object>) -> Vec<u8> {
    let mut bytes = vec![0; object.progress().bytes as usize];
    assert_eq!(object.body().read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Checks that nothing is counted any more.
fn assert_nothing_leaks(store: &Store) {
    let stats = store.stats();
    assert_eq!(
        (stats.objects, stats.bytes, stats.bytes_held_by_readers),
        (0, 0, 0)
    );
    assert_eq!(stats.fills, 0);
}
