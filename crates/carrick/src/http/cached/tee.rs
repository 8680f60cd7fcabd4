//! Keeping a body of unknown length while it is passed on. Other clients get it when it is whole; one that becomes too large is dropped,
//! unnoticed by its client.
use super::parts::{hides_fresh, keep_beginning, stored_like};
use crate::cache::Cache;
use crate::cache::flights::Lead;
use crate::cache::memory::{BodyWriter, Part};
use crate::cache::purges::PurgeEpoch;
use crate::cache::shared::Ticket;
use carrick_logic::cache::{Meta, Variant};
use carrick_logic::http1::{Chunked, Piece};
use std::net::IpAddr;
use std::sync::Arc;

/// What has been kept so far, and what is to be stored with it.
pub struct Tee {
    cache: Arc<Cache>,
    key: Box<[u8]>,
    asked: PurgeEpoch,
    origin: Option<IpAddr>,
    variant: Variant,
    meta: Meta,
    head: Vec<u8>,
    writer: Option<BodyWriter>,
    /// Other requests wait for the whole.
    lead: Option<Lead>,
    ticket: Option<Ticket>,
    chunked: Chunked,
}

impl Tee {
    pub(super) fn new(
        cache: Arc<Cache>,
        (key, asked, origin): (Box<[u8]>, PurgeEpoch, Option<IpAddr>),
        (variant, meta, head): (Variant, Meta, Vec<u8>),
        writer: BodyWriter,
        (lead, ticket): (Option<Lead>, Option<Ticket>),
    ) -> Self {
        Self {
            cache,
            key,
            asked,
            origin,
            variant,
            meta,
            head,
            writer: Some(writer),
            lead,
            ticket,
            // For a client of HTTP/1.0 the framing is not tidied.
            chunked: Chunked::lenient(),
        }
    }

    /// Keeps bytes of the body.
    pub fn keep(&mut self, bytes: &[u8]) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        if writer.append(bytes).is_err() {
            self.let_go();
        }
    }

    /// Keeps the content of a piece of a chunked body, which was found to be right.
    pub fn keep_chunks(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.writer.is_some() {
            let used = match self.chunked.next(bytes) {
                Ok(Piece::Framing(count) | Piece::End(count)) => count,
                Ok(Piece::Data(count)) => {
                    self.keep(bytes.get(..count).unwrap_or_default());
                    count
                }
                // The relay accepted this framing; if it is not understood here, the body is not kept.
                Ok(Piece::NeedMore) | Err(_) => return self.let_go(),
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// Whether it is still of use to go on.
    pub fn is_kept(&self) -> bool {
        self.writer.is_some()
    }

    /// The body is whole: from now on others find it.
    pub fn end(mut self) {
        let store = &self.cache.store;
        let key = store.key(&self.key);
        // Its client has let it take its time.
        let newer = stored_like(&self.cache, &self.key, &self.variant).is_some_and(|stored| {
            let (stored, own) = (stored.meta(), &self.meta);
            stored.response_time > own.response_time && stored.date >= own.date
        });
        if newer || hides_fresh(store, key, &self.meta) {
            return self.let_go();
        }
        let Some(mut writer) = self.writer.take() else {
            return;
        };
        writer.announce_end();
        let response = (&self.variant, self.meta, self.head.as_slice());
        let stored = store.put_from(self.origin, key, response, writer.body());
        // If there is no room, nothing has happened.
        if writer.finish()
            && let Ok(object) = stored
            && !self.cache.catch_up(self.asked, &object)
            && let Some(ticket) = self.ticket
        {
            ticket.keep(&object, object.meta().response_time);
        }
        if let Some(lead) = self.lead {
            lead.end();
        }
    }

    /// The body broke off, or its client has gone.
    pub async fn cut(mut self) {
        let Some(writer) = self.writer.take() else {
            return;
        };
        let part = Part {
            key: self.cache.store.key(&self.key),
            variant: &self.variant,
            meta: self.meta,
            head: &self.head,
            origin: self.origin,
            start: 0,
            total_bytes: None,
            body: &writer.cut(),
        };
        keep_beginning(Arc::clone(&self.cache), self.asked, part).await;
    }

    /// It is not kept, and requests that wait for it go on.
    fn let_go(&mut self) {
        self.writer = None;
        if let Some(lead) = self.lead.take() {
            lead.end();
        }
    }
}
