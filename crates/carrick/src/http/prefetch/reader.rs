//! Reading pages beside their way to a client: it never waits for this.
use super::page::{Fetch, Page};
use crate::cache::memory::{BodyState, Object};
use crate::config::plan::RouteCache;
use crate::context::destination::{Destination, NextHop};
use crate::context::request_context::RequestContext;
use crate::net::scratch::Scratch;
use carrick_logic::cache::{Fields, UnixTime};
use carrick_logic::embedded::{Coding, Decoder, Embedded, Hosts};
use carrick_logic::http1::{Chunked, Piece};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How much is read at once, before other sessions get their turn.
const PIECE_BYTES: usize = 16 * 1024;

/// Copies a page that passes to its reader. Dropped before the page's end, it ends the prefetching of what the page embeds.
pub struct PageTap {
    page: Rc<Page>,
    /// To the reader: at most as many bytes as it reads.
    pieces: UnboundedSender<Vec<u8>>,
    left_bytes: usize,
    chunked: Chunked,
    is_whole: bool,
}

impl PageTap {
    /// For the answer whose head is in `scratch`, on its way from an origin to a client; `None`: it is no page whose objects are fetched.
    pub fn at_answer(
        context: &RequestContext,
        scratch: &Scratch,
        destination: &Destination,
        fetch: Fetch,
    ) -> Option<Box<Self>> {
        let route = destination.cache.as_ref()?;
        let page = Page::of(context, scratch, route, fetch)?;
        let head = &scratch.response_head;
        let coding = coding(head.status, Fields::of_response(head, &scratch.response))?;
        let (page, hosts) = (
            Rc::new(page),
            hosts(
                context.original.is_some(),
                route,
                Some(&destination.next_hop),
            ),
        );
        let (pieces, come) = unbounded_channel();
        let tap = Self {
            page: Rc::clone(&page),
            pieces,
            left_bytes: page.plan.look_bytes,
            chunked: Chunked::lenient(),
            is_whole: false,
        };
        let reading = Reading::begin(page, coding, hosts);
        tokio::task::spawn_local(reading.passing(come));
        Some(Box::new(tap))
    }

    /// How many more bytes the reader takes.
    pub fn wanted_bytes(&self) -> u64 {
        if self.pieces.is_closed() {
            0
        } else {
            self.left_bytes as u64
        }
    }

    /// The next bytes of the body.
    pub fn take(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..self.left_bytes).unwrap_or(bytes);
        self.left_bytes -= bytes.len();
        if !bytes.is_empty() {
            // The reader may have ended.
            let _ = self.pieces.send(bytes.to_vec());
        }
    }

    /// The next bytes of a chunked body, which were found to be right.
    pub fn take_chunks(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.wanted_bytes() > 0 {
            let used = match self.chunked.next(bytes) {
                Ok(Piece::Framing(count) | Piece::End(count)) => count,
                Ok(Piece::Data(count)) => {
                    self.take(bytes.get(..count).unwrap_or_default());
                    count
                }
                Ok(Piece::NeedMore) | Err(_) => {
                    self.left_bytes = 0;
                    return;
                }
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
    }

    /// The page has gone to its client.
    pub fn end(&mut self) {
        self.is_whole = true;
    }
}

impl Drop for PageTap {
    fn drop(&mut self) {
        if !self.is_whole {
            self.page.abort();
        }
    }
}

impl Page {
    /// The stored page that is being sent to a client; `None`: it is none, or what it embeds was fetched a moment ago.
    pub fn of_stored(
        context: &RequestContext,
        scratch: &Scratch,
        (object, route): (&Arc<Object>, &Arc<RouteCache>),
        now: UnixTime,
        fetch: Fetch,
    ) -> Option<Rc<Self>> {
        let cache = context.worker.store.cache.as_ref()?;
        // Asked first: it is so for nearly all that is stored.
        route.prefetch.as_ref()?;
        let coding = coding(200, object.fields())?;
        let hash = object.key().hash();
        if cache.pages.has(hash, now) {
            return None;
        }
        let page = Rc::new(Self::of(context, scratch, route, fetch)?);
        cache.pages.note(hash, now);
        let hosts = hosts(context.original.is_some(), route, None);
        let reading = Reading::begin(Rc::clone(&page), coding, hosts);
        tokio::task::spawn_local(reading.stored(Arc::clone(object)));
        Some(page)
    }
}

/// The content coding of an answer; `None`: it is no page, or not to be read.
fn coding(status: u16, fields: Fields<'_>) -> Option<Coding> {
    let kind = fields.first(b"content-type")?;
    let kind = kind.split(|byte| *byte == b';').next()?.trim_ascii();
    if status != 200 || !kind.eq_ignore_ascii_case(b"text/html") {
        return None;
    }
    let mut codings = fields.elements(b"content-encoding");
    let coding = Coding::of(codings.next().unwrap_or_default())?;
    codings.next().is_none().then_some(coding)
}

/// Whose objects are fetched. Of a client that was intercepted on its way to an origin it is not known which address it would find
/// for another name.
fn hosts(is_intercepted: bool, route: &RouteCache, next_hop: Option<&NextHop>) -> Hosts {
    let is_group = matches!(next_hop, Some(NextHop::Group { .. }));
    match &route.prefetch {
        Some(plan) if !is_intercepted || is_group => plan.hosts,
        _ => Hosts::Same,
    }
}

/// Reads a page.
struct Reading {
    page: Rc<Page>,
    decoder: Decoder,
    embedded: Embedded,
}

impl Reading {
    fn begin(page: Rc<Page>, coding: Coding, hosts: Hosts) -> Self {
        page.context.metrics().cache.pages.add(1);
        Self {
            decoder: Decoder::new(coding, page.plan.look_bytes),
            embedded: Embedded::new(page.url.clone(), hosts),
            page,
        }
    }

    /// Reads what passes.
    async fn passing(mut self, mut come: UnboundedReceiver<Vec<u8>>) {
        while let Some(piece) = come.recv().await {
            self.take(&piece).await;
            if self.is_over() {
                break;
            }
        }
        self.end();
    }

    /// Reads what is stored, also while it comes.
    async fn stored(mut self, object: Arc<Object>) {
        let mut reader = object.body().reader();
        let mut timer = crate::net::deadline::Timer::default();
        let idle = self.page.context.live.plan().timeouts.idle;
        let mut buffer = vec![0; PIECE_BYTES];
        let mut at = 0;
        while !self.is_over() {
            let more = poll_fn(|cx| reader.poll_more(cx, at));
            let Ok(progress) = timer.within(idle, more).await else {
                break;
            };
            if progress.bytes <= at {
                if progress.state == BodyState::Whole {
                    break;
                }
                return self.page.abort();
            }
            let bytes = (progress.bytes - at).min(PIECE_BYTES as u64);
            if let Some(fetched) = reader.body().fetch(at, bytes)
                && !matches!(timer.within(idle, fetched).await, Ok(Ok(true)))
            {
                break;
            }
            let room = usize::try_from(bytes).unwrap_or(PIECE_BYTES);
            let Ok(count @ 1..) = reader.body().read_at(&mut buffer[..room], at) else {
                break;
            };
            at += count as u64;
            let piece = std::mem::take(&mut buffer);
            self.take(piece.get(..count).unwrap_or_default()).await;
            buffer = piece;
        }
        self.end();
    }

    async fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_BYTES) {
            let (embedded, page) = (&mut self.embedded, &self.page);
            self.decoder
                .take(piece, |bytes| page.add(embedded.take(bytes)));
            tokio::task::yield_now().await;
        }
    }

    fn is_over(&self) -> bool {
        self.decoder.is_over() || self.embedded.is_full() || self.page.is_over()
    }

    fn end(self) {
        self.page.add(self.embedded.end());
    }
}
