//! The store and its second level: what is brought up from the disk, and what goes there at once.
use super::Store;
use super::body::{Body, Place, State};
use super::object::Object;
use crate::cache::disk::{Disk, Entry, Loaded, LoadedBody};
use crate::cache::index::Item;
use crate::cache::key::Key;
use carrick_logic::cache::{Fields, UnixTime};
use std::sync::Arc;

impl Store {
    /// The second level, if there is one.
    #[must_use]
    pub fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.as_ref()
    }

    /// Brings the object for a request with these fields into memory, if it is on the disk. `false`: there is none, and nothing
    /// was waited for. Else [`find`](Self::find) may find it now. It waits for the disk; dropped, it does no harm.
    pub async fn bring(&self, key: Key<'_>, request: Fields<'_>) -> bool {
        let found = self
            .disk
            .as_ref()
            .and_then(|disk| Some((disk, disk.find(key, request)?)));
        let Some((disk, entry)) = found else {
            return false;
        };
        if let Some((loaded, lead)) = disk.load(&entry).await {
            self.put_loaded(disk, &entry, loaded);
            // Those who wait find it.
            drop(lead);
        }
        true
    }

    /// Whether what was found can be sent. If somebody has removed or changed its file, it is taken out of memory: [`bring`](Self::bring)
    /// looks at it anew.
    #[must_use]
    pub fn stands(&self, object: &Arc<Object>, now: UnixTime) -> bool {
        let stands = object.body().stands(now);
        if !stands {
            self.take_out(object);
        }
        stands
    }

    /// What was evicted from the disk goes from memory, too, if its bytes are nowhere else: an open file keeps its room.
    pub(super) fn close_evicted(&self, disk: &Disk) {
        for entry in disk.left_open() {
            let variants = self.variants(entry.key());
            let is_its = |object: &&Arc<Object>| {
                let kept = object.body().kept();
                object.body().is_file()
                    && kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &entry))
            };
            if let Some(object) = variants.iter().find(is_its) {
                self.take_out(object);
            }
        }
    }

    /// What is on the disk and not in memory, in no order.
    pub fn only_on_disk(&self) -> impl Iterator<Item = Arc<Entry>> {
        let entries = self.disk.iter().flat_map(|disk| disk.entries());
        entries.filter(|entry| !self.has(entry))
    }

    /// Whether this object is in memory, and no other one has taken its place.
    pub(super) fn is_still(&self, object: &Arc<Object>) -> bool {
        let variants = self.index.lock(object.key().hash()).find(object.key());
        let mut objects = variants.iter().flatten();
        objects.any(|held| Arc::ptr_eq(held, object))
    }

    /// An object has come whole. As long as the disk is not full, it goes there at once; afterwards, when it is asked for again.
    pub(super) fn offer_new(&self, object: &Arc<Object>) {
        if let Some(disk) = &self.disk
            && disk.is_roomy()
        {
            disk.offer(object, || self.is_current(object));
            self.close_evicted(disk);
        }
    }

    /// Whether this object is in memory, or another one with the same body.
    pub(in crate::cache) fn is_current(&self, object: &Object) -> bool {
        let variants = self.index.lock(object.key().hash()).find(object.key());
        let mut bodies = variants.iter().flatten().map(|held| held.body());
        bodies.any(|body| Arc::ptr_eq(body, object.body()))
    }

    /// A body that goes to the disk has ended. If nothing is kept of it there, it is not kept here.
    pub(in crate::cache) fn end_stream(
        &self,
        body: &Arc<Body>,
        bytes: u64,
        state: State,
        is_kept: bool,
    ) {
        let object = body.publish(bytes, state);
        self.memory.fill_ends(state == State::Whole);
        let Some(object) = object else { return };
        if state != State::Whole {
            self.remove(&object);
        } else if is_kept {
            self.note_open(&object);
        } else {
            self.take_out(&object);
        }
    }

    /// Puts what was loaded into memory. It must not come there if it was purged, replaced or changed meanwhile: who does that looks at
    /// the disk first and at memory afterwards, and here it is the other way round.
    pub(in crate::cache) fn put_loaded(
        &self,
        disk: &Disk,
        entry: &Arc<Entry>,
        loaded: Loaded,
    ) -> Option<Arc<Object>> {
        let (bytes, charge, place) = match loaded.body {
            LoadedBody::Heap(bytes) => (bytes.len() as u64, bytes.len() as u64, Place::Heap(bytes)),
            LoadedBody::File(file, bytes) => (bytes, 0, Place::File(Arc::new(file))),
        };
        self.take(charge).ok()?;
        let body = Arc::new(Body::loaded(
            Arc::clone(self.memory()),
            bytes,
            charge,
            place,
        ));
        body.mark_stored();
        body.set_kept(&None, entry);
        let (key, variant) = (entry.key(), entry.variant());
        let object = self
            .make(
                key,
                variant,
                loaded.meta,
                (&loaded.fields, loaded.origin),
                &body,
            )
            .ok()?;
        let put = {
            // Under the lock that is needed to take it out again: nobody sees it who has seen the other end of what was done.
            let mut shard = self.index.lock(key.hash());
            let is_right = entry.is_kept() && entry.version() == loaded.version;
            is_right.then(|| shard.put_new(&object)).flatten()
        };
        let is_put = put.is_some();
        for left in put.into_iter().flatten().flatten() {
            self.let_go(left);
        }
        if !is_put {
            self.let_go(object);
            return None;
        }
        if body.is_file() {
            self.note_open(&object);
        }
        disk.count_load();
        Some(object)
    }

    /// Objects with open files are bounded apart.
    fn note_open(&self, object: &Arc<Object>) {
        let Some(disk) = &self.disk else { return };
        if let Some(closed) = disk.note_open(object) {
            self.take_out(&closed);
        }
        self.close_evicted(disk);
    }

    /// As eviction does.
    #[cfg(test)]
    pub(in crate::cache) fn forget(&self, object: &Arc<Object>) {
        self.take_out(object);
    }
}
