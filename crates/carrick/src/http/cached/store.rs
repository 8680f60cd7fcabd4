//! Storing an origin's answer: a whole one, a part that is added to others, or the fields of a validation.
use super::ask::Asking;
use super::parts::{PendingBody, answers, hides_fresh, stored_like, stored_of};
use super::tee::Tee;
use crate::cache::disk::fits_file;
use crate::cache::memory::{BodyWriter, NotTaken, Object, Part};
use crate::cache::purge::Purge;
use crate::net::scratch::Scratch;
use carrick_logic::cache::{
    Fields, Freshened, Meta, NotStored, Policy, Request, Response, Reuse, Storing, Times, Uri,
    Variant, decide_storing, freshen, may_combine, withheld_fields, write_stored_fields,
};
use carrick_logic::http1::{Method, ResponseBody};
use std::sync::Arc;

/// What is done with the answer whose head is in `scratch`.
pub enum Verdict {
    /// It is passed on, as if there were no cache.
    PassOn,
    /// It is passed on, and what passes is kept: its length is not known.
    Keep(Box<Tee>),
    /// It goes into the store, and the client reads it from there.
    Fill(BodyWriter, Arc<Object>, Box<PendingBody>),
    /// It is not wanted any further: the client gets what is stored.
    Use(Arc<Object>, Reuse),
    /// It is about nothing that anybody has: the origin is asked again, without conditions.
    AskAgain,
}

/// An answer, and the request that it answers.
pub(super) struct Exchange<'a> {
    pub(super) request: Request<'a>,
    pub(super) uri: Uri<'a>,
    pub(super) response: Response<'a>,
    pub(super) times: Times,
    /// `Vary` names a field that carrick writes itself.
    pub(super) varies_with_own: bool,
}

/// Stores the answer, if it may be stored.
///
/// # Errors
/// Why it was not stored, in one word.
pub(super) fn try_store(
    scratch: &Scratch,
    exchange: &Exchange<'_>,
    asking: &mut Asking,
) -> Result<Verdict, &'static str> {
    let Exchange {
        request,
        uri,
        response,
        times,
        varies_with_own,
    } = exchange;
    if let Some(why) = asking.not_filled {
        return Err(why.label());
    }
    let meta = match decide_storing(request, uri, response, *times, &asking.route.policy) {
        Storing::Yes(meta) => meta,
        Storing::No(why) => return Err(why.label()),
    };
    if hides_fresh(&asking.cache.store, asking.store_key(), &meta) {
        return Err(NotStored::StoredIsFresh.label());
    }
    if *varies_with_own {
        return Err(NotStored::VaryProxyField.label());
    }
    let variant = Variant::of(response.fields, request.fields)
        .ok_or_else(|| NotStored::VaryEverything.label())?;
    asking.own_lines = withheld_fields(response, &asking.route.policy);
    let mut head = Vec::with_capacity(scratch.response_head.head_bytes);
    write_stored_fields(&mut head, response);
    if !response.fields.has(b"date") {
        // RFC 9110 section 6.6.1: who stores a response without one adds when it came.
        head.extend_from_slice(b"Date: ");
        times.response.write_http_date(&mut head);
        head.extend_from_slice(b"\r\n");
    }
    let length = match scratch.response_head.body {
        // Its client gets it from the server, as the request that it has sent has it.
        _ if request.method == Method::Post => None,
        ResponseBody::Bytes(length) => Some(length),
        ResponseBody::None => Some(0),
        ResponseBody::Chunked | ResponseBody::UntilClose | ResponseBody::Tunnel => None,
    };
    if meta.status == 206 {
        return exchange.store_part(asking, length, (&variant, meta, head));
    }
    let cache = &asking.cache;
    let key = cache.store.key(&asking.key);
    let writer = (cache.store)
        .fill_for(length, fits_file(key, &variant, &head))
        .map_err(|why| why.label())?;
    let leads = asking.lead.is_some();
    let verdict = if let Some(length) = length {
        let object = (cache.store)
            .put_from(asking.origin, key, (&variant, meta, &head), writer.body())
            .map_err(|why| why.label())?;
        cache.catch_up(asking.asked, &object);
        let keep = PendingBody::whole(cache, asking.asked, length);
        Verdict::Fill(writer, object, Box::new(keep))
    } else {
        let tee = Tee::new(
            Arc::clone(cache),
            (asking.key.clone(), asking.asked, asking.origin),
            (variant, meta, head),
            writer,
            (asking.lead.take(), asking.ticket.take()),
        );
        Verdict::Keep(Box::new(tee))
    };
    // While another's answer is still under way, requests would wait for that in vain again.
    if leads || !cache.flights.has(&asking.key) {
        cache.passes.forget(key.hash());
    }
    Ok(verdict)
}

impl Exchange<'_> {
    /// Brings the fields of what is stored up to date, unless the request may fill nothing; the object that has them, or why it is not
    /// stored any more.
    pub(super) fn freshen(
        &self,
        asking: &Asking,
        stored: &Arc<Object>,
    ) -> Result<Arc<Object>, &'static str> {
        let purged = asking.cache.purges.since(asking.asked, stored);
        if asking.not_filled.is_some() || purged == Some(Purge::Outdate) {
            return Ok(Arc::clone(stored));
        }
        let store = &asking.cache.store;
        let mut head = Vec::with_capacity(stored.head().len() + 128);
        let freshened = freshen(
            &mut head,
            &self.request,
            &self.uri,
            &stored_of(stored),
            &self.response,
            self.times,
            &asking.route.policy,
        );
        match freshened {
            // What varies with other fields from now on is stored for other requests than may have it.
            Freshened::Updated(_) if !self.varies_alike(&head, stored) => {
                store.remove(stored);
                Err(NotStored::VaryEverything.label())
            }
            Freshened::Updated(meta) => store
                .freshen(stored, meta, &head, asking.origin)
                .inspect(|object| {
                    asking.cache.catch_up(asking.asked, object);
                })
                .map_err(|why| why.label()),
            Freshened::Unchanged => Ok(Arc::clone(stored)),
            Freshened::Remove(why) => {
                store.remove(stored);
                Err(why.label())
            }
        }
    }

    /// Whether the new head of what is stored has the `Vary` that it is stored by.
    fn varies_alike(&self, head: &[u8], stored: &Object) -> bool {
        Variant::of(Fields::of_text(head), self.request.fields)
            .is_some_and(|variant| variant.names() == stored.variant().names())
    }

    /// Stores a 206: adds it to the stored parts of the same version, or replaces those of another.
    fn store_part(
        &self,
        asking: &mut Asking,
        length: Option<u64>,
        (variant, meta, head): (&Variant, Meta, Vec<u8>),
    ) -> Result<Verdict, &'static str> {
        let refused = NotStored::Part.label();
        let part = meta.part().ok_or(refused)?;
        if length != Some(part.bytes()) {
            return Err(refused);
        }
        let cache = Arc::clone(&asking.cache);
        let store = &cache.store;
        let key = store.key(&asking.key);
        let held = match &asking.completion {
            Some(completion) => Some(Arc::clone(&completion.object)),
            None => stored_like(&cache, &asking.key, variant),
        };
        let held = held.filter(|held| may_combine(&stored_of(held), &self.response, &meta));
        let (meta, head) = match &held {
            Some(held) if held.extents().has(&(part.start..part.end)) => {
                // All of it is there already, and has just been validated.
                let (meta, head) = self.joined_head(held, &asking.route.policy)?;
                if let Ok(object) = store.freshen(held, meta, &head, asking.origin) {
                    cache.catch_up(asking.asked, &object);
                }
                return Err(refused);
            }
            Some(held) => self.joined_head(held, &asking.route.policy)?,
            None => (meta, head),
        };
        let total_bytes = part
            .total_bytes
            .or(held.as_ref().and_then(|held| held.total_bytes()));
        // The disk does not keep parts.
        let writer = store.fill_for(length, false).map_err(NotTaken::label)?;
        let addition = Part {
            key,
            variant,
            meta,
            head: &head,
            origin: asking.origin,
            start: part.start,
            total_bytes,
            body: writer.body(),
        };
        let object = store
            .assemble(held.as_ref(), &addition)
            .map_err(NotTaken::label)?;
        let now = self.times.response;
        if !answers(&self.request, &object, now, &asking.route.policy) {
            return Err(refused);
        }
        let keep = PendingBody::part(&cache, asking.asked, (part.start, total_bytes));
        Ok(Verdict::Fill(writer, object, Box::new(keep)))
    }

    /// The fields of what is stored, with those of the new part (section 3.4).
    fn joined_head(&self, held: &Object, policy: &Policy) -> Result<(Meta, Vec<u8>), &'static str> {
        let mut head = Vec::with_capacity(held.head().len() + 64);
        let freshened = freshen(
            &mut head,
            &self.request,
            &self.uri,
            &stored_of(held),
            &self.response,
            self.times,
            policy,
        );
        match freshened {
            Freshened::Updated(_) if !self.varies_alike(&head, held) => {
                Err(NotStored::VaryEverything.label())
            }
            Freshened::Updated(meta) => Ok((meta, head)),
            Freshened::Unchanged => Err(NotStored::Authorization.label()),
            Freshened::Remove(why) => Err(why.label()),
        }
    }
}
