//! Fetching one object that a page embeds.
use super::page::Page;
use crate::context::request_log::RequestLog;
use crate::http::cached;
use crate::http::decide::{Decision, decide_for};
use crate::http::failure::Failure;
use crate::http::head;
use crate::http::relay::{Outcome, relay_for_cache};
use crate::telemetry::metrics::Ahead;
use crate::upstream::Unreachable;
use carrick_logic::embedded::Object;
use std::rc::Rc;

/// An object on its way into the store. Dropped, it makes room for the page's next one.
pub struct Fetching {
    page: Rc<Page>,
    /// Bytes of its body, as far as they are known.
    bytes: u64,
    ended: Ahead,
}

impl Fetching {
    pub(super) fn begin(page: &Rc<Page>) -> Self {
        page.is_under_way(true);
        Self {
            page: Rc::clone(page),
            bytes: 0,
            ended: Ahead::Failed,
        }
    }

    /// So many more bytes of its body come; whether that is within the limits.
    pub fn takes(&mut self, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let is_within = self.bytes <= self.page.plan.object_bytes_max && self.page.spend(bytes);
        if !is_within {
            self.ended = Ahead::TooLarge;
        }
        is_within
    }

    /// This is what became of it.
    pub fn ends(mut self, how: Ahead) {
        self.ended = how;
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.page.count(self.ended, 1);
        self.page.is_under_way(false);
        self.page.go_on();
    }
}

/// Asks for the object, if it is to be asked for.
pub(super) async fn fetch(fetching: Fetching, object: Object) {
    let page = Rc::clone(&fetching.page);
    let mut errand = page.client.errand();
    let mut scratch = errand.worker.scratch.take();
    page.write_request(&mut scratch.request, &object);
    if !head::read_again(&errand, &mut scratch) {
        return fetching.ends(Ahead::Denied);
    }
    let Decision::Relay(destination) = decide_for(&errand, &scratch) else {
        return fetching.ends(Ahead::Denied);
    };
    let mut asking = match cached::begin_ahead(&mut errand, &scratch, &destination).await {
        Ok(asking) => asking,
        Err(why) => return fetching.ends(why),
    };
    page.count(Ahead::Asked, 1);
    asking.fetch_ahead(fetching);
    let mut asking = Some(asking);
    let outcome = relay_for_cache(
        &mut errand,
        &mut scratch,
        &destination,
        &mut RequestLog::begin(),
        None,
        false,
        &mut asking,
    )
    .await;
    let is_denied = matches!(
        outcome,
        Outcome::Failed(Failure::Unreachable(Unreachable::Denied(_)))
    );
    if let Some(fetching) = asking.as_mut().and_then(|asking| asking.take_ahead())
        && is_denied
    {
        fetching.ends(Ahead::Denied);
    }
}
