//! The store and its disk: what is loaded from it, and what is written to it.
use super::Store;
use super::object::{Body, BodyState, Object, Storage};
use crate::cache::disk::{Disk, Entry, Loaded, LoadedBody};
use crate::cache::index::Item;
use crate::cache::key::Key;
use carrick_logic::cache::{Fields, UnixTime};
use std::sync::Arc;

impl Store {
    /// The disk, if there is one.
    #[must_use]
    pub fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.as_ref()
    }

    /// Loads the object for a request with these fields from the disk. `false`: the disk has none, and nothing was waited for. Else
    /// [`find`](Self::find) may find it now. Waits for the disk; dropping it does no harm.
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
            // Only now, so that those who wait find it.
            drop(lead);
        }
        true
    }

    /// Whether an object that was found can be sent. If another program has removed or changed its file, it is taken out of memory:
    /// [`bring`](Self::bring) then opens the file again.
    #[must_use]
    pub fn stands(&self, object: &Arc<Object>, now: UnixTime) -> bool {
        let stands = object.apart().is_none_or(|body| body.stands(now));
        if !stands {
            self.take_out(object);
        }
        stands
    }

    /// Objects on the disk that are not in memory, in no order.
    pub fn only_on_disk(&self) -> impl Iterator<Item = Arc<Entry>> {
        let entries = self.disk.iter().flat_map(|disk| disk.entries());
        entries.filter(|entry| !self.has(entry))
    }

    /// Whether the object of this entry is in memory.
    pub(super) fn has(&self, entry: &Arc<Entry>) -> bool {
        let objects = self.index.lock(entry.key().hash()).find(entry.key());
        (objects.iter().flatten()).any(|object| is_kept_as(object, entry))
    }

    /// An object was found: it is written to the disk, unless it is there.
    pub(super) fn offer_found(&self, object: &Arc<Object>) {
        if let Some(disk) = &self.disk {
            self.offer(disk, object, |found| Arc::ptr_eq(found, object));
            self.close_evicted(disk);
        }
    }

    /// An object is whole. It is written at once if the disk is far from full, else when it is found.
    pub(super) fn offer_new(&self, object: &Arc<Object>) {
        if let Some(disk) = &self.disk
            && disk.is_roomy()
        {
            self.offer(disk, object, |found| have_same_body(found, object));
            self.close_evicted(disk);
        }
    }

    /// Has an object written, unless the disk has it or cannot take it. `is_same` says whether an object in memory is still this one.
    fn offer(
        &self,
        disk: &Arc<Disk>,
        object: &Arc<Object>,
        is_same: impl Fn(&Arc<Object>) -> bool,
    ) {
        let Some(body) = object.apart() else { return };
        let before = body.kept();
        if let Some(entry) = &before
            && entry.is_kept()
        {
            return entry.note_hit();
        }
        let bytes = body.progress().bytes;
        if !body.is_whole() || body.is_file() {
            return;
        }
        let Some(entry) = disk.enter(&object.for_disk(bytes)) else {
            return;
        };
        // Another thread was first, or the object was purged before the purge could find the entry.
        if !body.set_kept(before.as_ref(), &entry) || !self.has_object(object.key(), is_same) {
            disk.remove(&entry);
            return;
        }
        let (writer, object, job_entry) =
            (Arc::clone(disk), Arc::clone(object), Arc::clone(&entry));
        let is_queued = disk.write_later(bytes, move || {
            let read = |buffer: &mut [u8], at| object.body().read_at(buffer, at);
            writer.write(&job_entry, &object.for_disk(bytes), read);
        });
        if !is_queued {
            disk.refuse(&entry);
        }
    }

    /// Whether this object is in memory, or another one with the same body.
    pub(super) fn is_current(&self, object: &Object) -> bool {
        self.has_object(object.key(), |found| have_same_body(found, object))
    }

    fn has_object(&self, key: Key<'_>, is_it: impl Fn(&Arc<Object>) -> bool) -> bool {
        let variants = self.index.lock(key.hash()).find(key);
        variants.iter().flatten().any(is_it)
    }

    /// Closes files of objects that the disk has evicted: an open file keeps its blocks.
    fn close_evicted(&self, disk: &Disk) {
        for entry in disk.left_open() {
            self.close(&entry);
        }
    }

    /// Takes the object whose body is the open file of this entry out of memory.
    fn close(&self, entry: &Arc<Entry>) {
        let variants = self.variants(entry.key());
        let is_its = |object: &&Arc<Object>| object.is_file() && is_kept_as(object, entry);
        if let Some(object) = variants.iter().find(is_its) {
            self.take_out(object);
        }
    }

    /// Ends a body that was written to the disk. If the disk does not keep it, its object is taken out of memory.
    pub(super) fn end_stream(&self, body: &Arc<Body>, bytes: u64, state: BodyState, is_kept: bool) {
        let object = body.publish(bytes, state);
        self.memory.fill_ends(state == BodyState::Whole);
        let Some(object) = object else { return };
        if state != BodyState::Whole {
            self.remove(&object);
        } else if is_kept {
            self.note_open(body);
        } else {
            self.take_out(&object);
        }
    }

    /// Puts a loaded object into memory, unless it was purged, replaced or changed meanwhile. Those change the disk first and memory
    /// afterwards; here the order is the reverse.
    pub(in crate::cache) fn put_loaded(
        &self,
        disk: &Disk,
        entry: &Arc<Entry>,
        loaded: Loaded,
    ) -> Option<Arc<Object>> {
        let (bytes, charge, storage) = match loaded.body {
            LoadedBody::Heap(bytes) => {
                let length = bytes.len() as u64;
                (length, length, Storage::Heap(bytes))
            }
            LoadedBody::File(file, bytes) => (bytes, 0, Storage::File(Arc::new(file))),
        };
        self.take_for_body(charge).ok()?;
        let memory = Arc::clone(self.memory());
        let body = Arc::new(Body::loaded(memory, bytes, charge, storage));
        body.mark_stored();
        body.set_kept(None, entry);
        let (key, variant) = (entry.key(), entry.variant());
        let head = (&*loaded.fields, loaded.origin);
        let object = self.make(key, variant, loaded.meta, head, &body).ok()?;
        let put = {
            // Under the lock that is needed to take it out again: a thread that finds it there sees the change of the disk here.
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
            self.note_open(&body);
        }
        disk.count_load();
        Some(object)
    }

    /// Counts a body that is an open file, and closes another one if there are too many.
    fn note_open(&self, body: &Arc<Body>) {
        let Some(disk) = &self.disk else { return };
        let closed = self.open_files.add(body);
        if let Some(entry) = closed.and_then(|closed| closed.kept()) {
            self.close(&entry);
        }
        self.close_evicted(disk);
    }

    /// Takes an object out of memory alone, as eviction does.
    #[cfg(test)]
    pub(in crate::cache) fn forget(&self, object: &Arc<Object>) {
        self.take_out(object);
    }

    #[cfg(test)]
    pub(in crate::cache) fn limit_open_files(&mut self, max: u64) {
        self.open_files.limit(max);
    }
}

fn is_kept_as(object: &Object, entry: &Arc<Entry>) -> bool {
    object.apart().is_some_and(|body| body.is_kept_as(entry))
}

fn have_same_body(one: &Object, other: &Object) -> bool {
    let [one, other] = [one.apart(), other.apart()];
    one.zip(other)
        .is_some_and(|(one, other)| Arc::ptr_eq(one, other))
}
