//! The cache's metrics; zeros without a cache.
use super::writer::Writer;
use crate::cache::peers::PeerAnswer;
use crate::cache::shared::SharedCacheEvent;
use crate::telemetry::declarations as declared;
use crate::telemetry::metrics::{CacheResult, PrefetchResult};
use std::fmt;

impl Writer<'_, '_> {
    pub(super) fn cache(&mut self) -> fmt::Result {
        let state = self.state;
        let requests = CacheResult::ALL.map(|result| {
            let sum = state.sum(|worker| worker.cache.requests(result).get());
            ([("result", result.name())], sum)
        });
        self.counters(&declared::CACHE_REQUESTS, requests)?;
        self.counter(&declared::CACHE_WAITED, |worker| &worker.cache.waited)?;
        self.counter(&declared::CACHE_BYTES_SAVED, |worker| {
            &worker.cache.bytes_saved
        })?;
        let stored = state.sum(|worker| worker.cache.stored.get());
        let not_stored = state.sum(|worker| worker.cache.not_stored.get());
        self.counters(
            &declared::CACHE_ANSWERS,
            [
                ([("result", "stored")], stored),
                ([("result", "not_stored")], not_stored),
            ],
        )?;
        self.counter(&declared::CACHE_INVALIDATED, |worker| {
            &worker.cache.invalidated
        })?;
        self.counter(&declared::CACHE_REFRESHES, |worker| &worker.cache.refreshes)?;
        self.counter(&declared::CACHE_GIVEN_UP, |worker| {
            &worker.cache.fills_given_up
        })?;
        self.counter(&declared::CACHE_PREFETCH_PAGES, |worker| {
            &worker.cache.pages
        })?;
        let prefetches = PrefetchResult::ALL.map(|what| {
            let sum = state.sum(|worker| worker.cache.prefetches(what).get());
            ([("result", what.name())], sum)
        });
        self.counters(&declared::CACHE_PREFETCHES, prefetches)?;
        self.histogram(&declared::CACHE_FIND_SECONDS, |worker| {
            &worker.cache.find_seconds
        })?;
        self.histogram(&declared::CACHE_FIRST_BYTE_SECONDS, |worker| {
            &worker.cache.first_byte_seconds
        })?;
        let cache = state.cache.as_ref();
        let stats = cache.map(|cache| cache.store.stats()).unwrap_or_default();
        self.gauge(&declared::CACHE_OBJECTS, stats.objects)?;
        self.gauges(
            &declared::CACHE_BYTES,
            [
                ([("kind", "stored")], stats.bytes),
                ([("kind", "held_by_readers")], stats.bytes_held_by_readers),
            ],
        )?;
        self.gauge(&declared::CACHE_FILLS, stats.fills)?;
        self.counters(
            &declared::CACHE_EVICTIONS,
            [
                ([("queue", "small")], stats.evicted_small),
                ([("queue", "main")], stats.evicted_main),
            ],
        )?;
        self.cache_disk()?;
        self.cache_peers()?;
        self.shared()
    }

    fn cache_disk(&mut self) -> fmt::Result {
        let disk = (self.state.cache.as_ref()).and_then(|cache| cache.store.disk());
        let stats = disk.map(|disk| disk.stats()).unwrap_or_default();
        self.gauge(&declared::CACHE_DISK_OBJECTS, stats.objects)?;
        self.gauges(
            &declared::CACHE_DISK_BYTES,
            [
                ([("kind", "stored")], stats.bytes),
                ([("kind", "waiting")], stats.write_queue_bytes),
            ],
        )?;
        self.gauge(&declared::CACHE_DISK_INDEXED, u64::from(stats.is_indexed))?;
        self.histogram(&declared::CACHE_DISK_SECONDS, |worker| {
            &worker.cache.disk_seconds
        })?;
        for (metric, count) in [
            (&declared::CACHE_DISK_LOADS, stats.loads),
            (&declared::CACHE_DISK_LOADS_AT_ONCE, stats.loads_at_once),
            (&declared::CACHE_DISK_WRITES, stats.writes),
            (&declared::CACHE_DISK_WRITTEN, stats.written_bytes),
            (&declared::CACHE_DISK_REFUSED, stats.refused),
        ] {
            self.total(metric, count)?;
        }
        self.counters(
            &declared::CACHE_DISK_EVICTIONS,
            [
                ([("queue", "small")], stats.evicted_small),
                ([("queue", "main")], stats.evicted_main),
            ],
        )?;
        self.counters(
            &declared::CACHE_DISK_ERRORS,
            [
                ([("kind", "read")], stats.read_errors),
                ([("kind", "write")], stats.write_errors),
                ([("kind", "damaged")], stats.damaged),
            ],
        )
    }

    fn shared(&mut self) -> fmt::Result {
        let cache = self.state.cache.as_ref();
        let shared = cache.and_then(|cache| cache.shared.load_full());
        let state = shared.as_ref().map(|shared| shared.state());
        let count = |event: SharedCacheEvent| {
            let counted = state.map_or(0, |state| state.counted(event));
            ([("result", event.name())], counted)
        };
        let requests = [
            SharedCacheEvent::Hit,
            SharedCacheEvent::Miss,
            SharedCacheEvent::Garbage,
            SharedCacheEvent::Failed,
        ];
        self.counters(&declared::SHARED_REQUESTS, requests.map(count))?;
        let writes = [
            SharedCacheEvent::Written,
            SharedCacheEvent::Dropped,
            SharedCacheEvent::NotWritten,
        ];
        self.counters(&declared::SHARED_WRITES, writes.map(count))?;
        let is_up = state.is_some_and(|state| !state.is_left_out());
        self.gauge(&declared::SHARED_UP, u64::from(is_up))
    }

    fn cache_peers(&mut self) -> fmt::Result {
        let cache = self.state.cache.as_ref();
        let cache_peers = cache.and_then(|cache| cache.cache_peers.load_full());
        let others = || {
            cache_peers
                .iter()
                .flat_map(|cache_peers| cache_peers.others())
        };
        let answers = others().flat_map(|cache_peer| {
            PeerAnswer::ALL.map(|answer| {
                let labels = [("peer", &*cache_peer.label), ("result", answer.name())];
                (labels, cache_peer.answers(answer))
            })
        });
        self.counters(&declared::CACHE_PEER_ANSWERS, answers)?;
        let up = others().map(|cache_peer| {
            let labels = [("peer", &*cache_peer.label)];
            (labels, u64::from(!cache_peer.is_left_out()))
        });
        self.gauges(&declared::CACHE_PEER_UP, up)
    }
}
