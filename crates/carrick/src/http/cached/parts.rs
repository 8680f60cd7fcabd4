//! Answers that have a part of what there is, and those that broke off: what is asked for besides, and how parts are put together (RFC 9111
//! sections 3.3 and 3.4).
use crate::cache::Cache;
use crate::cache::flights::Lead;
use crate::cache::key::Key;
use crate::cache::memory::{Body, BodyWriter, NotTaken, Object, PIECES_MAX, Part, Piece, Store};
use crate::cache::purges::PurgeEpoch;
use crate::net::scratch::Scratch;
use carrick_logic::cache::{
    ContentRange, Fields, Meta, Policy, Request, Reuse, Stored, UnixTime, Variant, has_all,
    is_same_version, missing, truncated,
};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How often parts are joined again when another request has changed what they are added to.
const TRIES_MAX: usize = 4;

/// How much of two parts is compared at once.
const COMPARED_BYTES: usize = 64 << 10;

/// A stored object as the policy sees it.
pub(super) fn stored_of(object: &Object) -> Stored<'_> {
    Stored {
        meta: object.meta(),
        fields: object.fields(),
    }
}

/// What is stored, as it is sent at this moment.
pub fn reuse_of(object: &Object, now: UnixTime) -> Reuse {
    Reuse {
        age_s: object.meta().age_s(now),
        ttl_s: object.meta().ttl_s(now),
    }
}

/// Whether this would be found instead of what is fresh, though it is an error that only the configuration keeps. Of
/// any variant: one without `Vary` would be found in place of all of them.
pub(super) fn hides_fresh(store: &Store, key: Key<'_>, error: &Meta) -> bool {
    let leaves_alone =
        |stored: &Arc<Object>| error.leaves_alone(&stored.meta(), error.response_time);
    error.is_error_by_configuration() && store.variants(key).iter().any(leaves_alone)
}

/// Whether what is stored has all that an answer to `request` needs.
pub(super) fn answers(
    request: &Request<'_>,
    object: &Object,
    now: UnixTime,
    policy: &Policy,
) -> bool {
    object.part().is_none() || has_all(request, &stored_of(object), &object.extents(), now, policy)
}

/// What is stored in parts, and what of it is asked for in the place of what the client asks for.
pub struct Completion {
    pub(super) object: Arc<Object>,
    pub(super) missing: Range<u64>,
}

impl Completion {
    /// For the request in `scratch`; `None`: it is passed on as it is.
    pub(super) fn of(
        store: &Store,
        scratch: &Scratch,
        object: &Arc<Object>,
        now: UnixTime,
        policy: &Policy,
    ) -> Option<Self> {
        let request = Request::of_head(&scratch.request_head, &scratch.request);
        let held = object.extents();
        let missing = missing(&request, &stored_of(object), &held, now, policy)?;
        let held_bytes: u64 = held
            .held()
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        let missing_bytes = match missing.end {
            u64::MAX => 0,
            end => end - missing.start,
        };
        // What would be refused then is not worth a request of its own.
        let has_room = object.pieces().len() < PIECES_MAX
            && store.takes(held_bytes.saturating_add(missing_bytes));
        has_room.then(|| Self {
            object: Arc::clone(object),
            missing,
        })
    }
}

/// What becomes of a body on its way into the store when it has come, or has broken off.
pub struct PendingBody {
    cache: Arc<Cache>,
    /// Which purges it comes after.
    asked: PurgeEpoch,
    /// The offset of its first byte.
    start: u64,
    /// How long the whole is.
    total_bytes: Option<u64>,
    is_part: bool,
    /// Others wait for what is put together.
    lead: Option<Lead>,
}

/// Keeps the beginning of an answer of unknown length that broke off, if it can be told from other versions.
pub(super) async fn keep_beginning(cache: Arc<Cache>, asked: PurgeEpoch, part: Part<'_>) {
    let received_bytes = part.body.progress().bytes;
    if truncated(&part.meta, received_bytes, None).is_some() {
        PendingBody::part(&cache, asked, (0, None)).grow(part).await;
    }
}

impl PendingBody {
    /// Of a whole answer, which can be found already.
    pub(super) fn whole(cache: &Arc<Cache>, asked: PurgeEpoch, length: u64) -> Self {
        Self {
            cache: Arc::clone(cache),
            asked,
            start: 0,
            total_bytes: Some(length),
            is_part: false,
            lead: None,
        }
    }

    /// Of a part that begins at `start`, which is stored when it has come.
    pub(super) fn part(
        cache: &Arc<Cache>,
        asked: PurgeEpoch,
        (start, total_bytes): (u64, Option<u64>),
    ) -> Self {
        Self {
            cache: Arc::clone(cache),
            asked,
            start,
            total_bytes,
            is_part: true,
            lead: None,
        }
    }

    /// Whether it is stored only when it has come.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// Whether what it is the body of was purged since it was asked for.
    pub(super) fn is_purged(&self, object: &Object) -> bool {
        self.cache.purges.since(self.asked, object).is_some()
    }

    /// Has the requests that wait for the answer wait for its end.
    pub(super) fn take_lead(&mut self, lead: Option<Lead>) {
        self.lead = lead;
    }

    /// The body of `object`, or of its newest part, has come.
    pub async fn end(self, object: &Object) {
        let mut pieces = object.pieces().iter();
        let newest = pieces.find(|piece| self.is_part && piece.start == self.start);
        if let Some(piece) = newest {
            self.grow(self.addition(object, &piece.body)).await;
        }
        if let Some(lead) = self.lead {
            lead.end();
        }
    }

    /// It broke off: what has come is kept if it can be told from other versions.
    pub async fn cut(self, writer: BodyWriter, object: &Object) {
        let received_bytes = writer.written_bytes();
        let announced_bytes = self.total_bytes.filter(|_| !self.is_part);
        // Of a part only its beginning is a part, too.
        let meta = match object.part() {
            Some(part) if self.is_part => Meta {
                part: Some(Box::new(ContentRange {
                    start: self.start,
                    end: self.start.saturating_add(received_bytes),
                    ..part
                })),
                ..object.meta()
            },
            _ => object.meta(),
        };
        if truncated(&meta, received_bytes, announced_bytes).is_some() {
            self.grow(self.addition(object, &writer.cut())).await;
        }
    }

    fn addition<'a>(&self, like: &'a Object, body: &'a Arc<Body>) -> Part<'a> {
        Part {
            key: like.key(),
            variant: like.variant(),
            meta: like.meta(),
            head: like.head(),
            origin: like.origin(),
            start: self.start,
            total_bytes: self.total_bytes,
            body,
        }
    }

    /// Stores a part, together with what is stored of the same version.
    async fn grow(&self, mut part: Part<'_>) {
        let store = &self.cache.store;
        for _ in 0..TRIES_MAX {
            let current = stored_like(&self.cache, part.key.bytes(), part.variant);
            let held = current.as_ref().filter(|held| is_of(held, &part));
            if let Some(other) = &current
                && (held.is_none() && other.meta().date > part.meta.date
                    || held.is_some() && other.part().is_none())
            {
                // There is something newer, or all of it.
                return;
            }
            if let Some(held) = held
                && !agree(held.pieces(), part.body, part.start).await
            {
                // What has the same strong validator is not the same: neither can be trusted.
                store.remove(held);
                return;
            }
            let known = held.and_then(|held| held.total_bytes());
            part.total_bytes = part.total_bytes.or(known);
            let Ok(assembled) = store.assemble(held, &part) else {
                return;
            };
            match store.put_parts(held, &assembled) {
                Ok(()) => {
                    self.cache.catch_up(self.asked, &assembled);
                    return;
                }
                Err(NotTaken::Gone) => {}
                Err(_) => return,
            }
        }
    }
}

/// Whether a part is one of what is stored.
fn is_of(held: &Object, part: &Part<'_>) -> bool {
    let new = Stored {
        meta: part.meta.clone(),
        fields: Fields::of_text(part.head),
    };
    let same_length = match (held.total_bytes(), part.total_bytes) {
        (Some(held), Some(new)) => held == new,
        _ => true,
    };
    same_length && is_same_version(&stored_of(held), &new)
}

/// What is stored for the same requests.
pub(super) fn stored_like(cache: &Cache, key: &[u8], variant: &Variant) -> Option<Arc<Object>> {
    let variants = cache.store.variants(cache.store.key(key));
    variants
        .into_iter()
        .find(|object| object.variant() == variant)
}

/// Whether the bytes that `held` and `body`, the first of which is at `start`, have both are the same.
async fn agree(held: &[Piece], body: &Body, start: u64) -> bool {
    let new = start..start.saturating_add(body.progress().bytes);
    let mut buffers = [Vec::new(), Vec::new()];
    for piece in held {
        let mut at = piece.range.start.max(new.start);
        let end = piece.range.end.min(new.end);
        while at < end {
            let bytes =
                usize::try_from(end - at).map_or(COMPARED_BYTES, |left| left.min(COMPARED_BYTES));
            for buffer in &mut buffers {
                buffer.resize(bytes, 0);
            }
            let [one, other] = &mut buffers;
            let read = |body: &Body, buffer: &mut [u8], from| -> io::Result<bool> {
                Ok(body.read_at(buffer, from)? == buffer.len())
            };
            if !matches!(read(&piece.body, one, at - piece.start), Ok(true))
                || !matches!(read(body, other, at - start), Ok(true))
                || one != other
            {
                return false;
            }
            at += bytes as u64;
            // It may be much, and others are to get their turn.
            tokio::task::yield_now().await;
        }
    }
    true
}
