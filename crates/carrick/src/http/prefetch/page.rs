//! A page whose objects are fetched: who asked for it, what waits, and what of its limits is left.
use crate::config::plan::{PrefetchPlan, RouteCache};
use crate::context::request_context::RequestContext;
use crate::http::own_fields::is_known;
use crate::net::scratch::Scratch;
use crate::telemetry::metrics::PrefetchResult;
use carrick_logic::cache::Fields;
use carrick_logic::embedded::{FoundObjects, Object, page_url, write_request};
use carrick_logic::http1::{BodyLength, Method, RequestHead};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use url::Url;

/// Fetches an object of a page into the store.
pub type Fetch = fn(Prefetch, Object);

/// A page whose objects are fetched.
pub struct Page {
    /// In whose name.
    pub(super) context: RequestContext,
    route: Arc<RouteCache>,
    pub(super) plan: PrefetchPlan,
    fetch: Fetch,
    /// The head of the request for it.
    request: Vec<u8>,
    request_head: RequestHead,
    pub(super) url: Url,
    waiting: RefCell<VecDeque<Object>>,
    /// How many more objects are taken from it.
    left_objects: Cell<usize>,
    /// How many more bytes of their bodies are fetched.
    left_bytes: Cell<u64>,
    under_way: Cell<usize>,
    is_aborted: Cell<bool>,
}

impl Page {
    /// The page that the request in `scratch` asks for; `None`: its objects are not fetched.
    pub(super) fn of(
        context: &RequestContext,
        scratch: &Scratch,
        route: &Arc<RouteCache>,
        fetch: Fetch,
    ) -> Option<Self> {
        let plan = route.prefetch.as_ref()?;
        let (head, bytes) = (&scratch.request_head, scratch.request.as_slice());
        let is_plain = head.method == Method::Get && head.body == BodyLength::None;
        // What a page embeds for an authenticated user is for that user alone, too.
        let is_personal = Fields::of_request(head, bytes).has(b"authorization")
            || is_known(context, scratch, &route.key.headers);
        if !is_plain || is_personal {
            return None;
        }
        Some(Self {
            context: context.clone(),
            route: Arc::clone(route),
            plan: plan.clone(),
            fetch,
            request: bytes.get(..head.head_bytes)?.to_vec(),
            request_head: head.clone(),
            url: page_url(head, bytes)?,
            waiting: RefCell::default(),
            left_objects: Cell::new(plan.objects),
            left_bytes: Cell::new(plan.page_bytes_max),
            under_way: Cell::new(0),
            is_aborted: Cell::new(false),
        })
    }

    /// Fetches what was found, or puts it behind what is being fetched.
    pub(super) fn add(self: &Rc<Self>, found: FoundObjects) {
        if self.is_aborted.get() {
            return;
        }
        self.count(PrefetchResult::Foreign, found.foreign);
        let room = found.objects.len().min(self.left_objects.get());
        self.left_objects.set(self.left_objects.get() - room);
        self.count(PrefetchResult::TooMany, found.objects.len() - room);
        let objects = found.objects.into_iter().take(room);
        self.waiting.borrow_mut().extend(objects);
        self.go_on();
    }

    /// Whether nothing more is taken from it.
    pub(super) fn is_over(&self) -> bool {
        self.is_aborted.get() || self.left_objects.get() == 0
    }

    /// Its client has gone, and has no use for what is not requested yet.
    pub fn abort(&self) {
        self.is_aborted.set(true);
        let waiting = self.waiting.take();
        self.count(PrefetchResult::Aborted, waiting.len());
    }

    /// Begins with as many as there may be at a time.
    fn go_on(self: &Rc<Self>) {
        let worker = &self.context.worker;
        if worker.sessions.is_draining() {
            self.abort();
        }
        while self.under_way.get() < self.plan.at_once {
            let Some(object) = self.waiting.borrow_mut().pop_front() else {
                return;
            };
            if worker.store.prefetches.get() >= self.plan.worker_at_once {
                self.count(PrefetchResult::TooMany, 1);
                continue;
            }
            (self.fetch)(Prefetch::begin(self), object);
        }
    }

    /// One more, or one less, is under way.
    fn is_under_way(&self, word: bool) {
        for count in [&self.under_way, &self.context.worker.store.prefetches] {
            count.set(if word {
                count.get() + 1
            } else {
                count.get().saturating_sub(1)
            });
        }
    }

    /// Takes bytes from those that are left for its objects; whether there were enough.
    fn spend(&self, bytes: u64) -> bool {
        let left = self.left_bytes.get().checked_sub(bytes);
        self.left_bytes.set(left.unwrap_or(self.left_bytes.get()));
        left.is_some()
    }

    /// Writes the request for one of its objects.
    fn write_request(&self, out: &mut Vec<u8>, object: &Object) {
        let request = (&self.request_head, self.request.as_slice());
        write_request(out, object, &self.url, request, &self.route.key.headers);
    }

    /// Counts what became of some of its objects.
    fn count(&self, what: PrefetchResult, objects: usize) {
        let metrics = &self.context.metrics().cache;
        metrics.prefetches(what).add(objects as u64);
    }
}

/// An object on its way into the store. Dropped, it makes room for the page's next one.
pub struct Prefetch {
    page: Rc<Page>,
    /// Bytes of its body, as far as they are known.
    bytes: u64,
    ended: PrefetchResult,
}

impl Prefetch {
    fn begin(page: &Rc<Page>) -> Self {
        page.is_under_way(true);
        Self {
            page: Rc::clone(page),
            bytes: 0,
            ended: PrefetchResult::Failed,
        }
    }

    /// In whose name it is asked for.
    pub fn context(&self) -> &RequestContext {
        &self.page.context
    }

    /// Writes the request for it.
    pub fn write_request(&self, out: &mut Vec<u8>, object: &Object) {
        self.page.write_request(out, object);
    }

    /// It is asked for.
    pub fn begins(&self) {
        self.page.count(PrefetchResult::Asked, 1);
    }

    /// Counts bytes of its body that come; whether they are within the limits.
    pub fn takes(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let is_within = self.bytes <= self.page.plan.object_bytes_max && self.page.spend(bytes);
        if !is_within {
            self.ended = PrefetchResult::TooLarge;
        }
        is_within
    }

    /// This is what became of it.
    pub fn ends(mut self, how: PrefetchResult) {
        self.ended = how;
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        self.page.count(self.ended, 1);
        self.page.is_under_way(false);
        self.page.go_on();
    }
}
