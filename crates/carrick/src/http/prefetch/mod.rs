//! Objects that HTML pages embed, fetched into the cache while the page goes to its client: by the time that its browser has read the
//! page and asks for them, they have spared it the round trip to the origin (`prefetch`).
//!
//! | module | what it does |
//! |---|---|
//! | `reader` | reading pages on their way to a client, and those in the store |
//! | `page` | one page: what it embeds and is not fetched yet, within its limits |
//!
//! What is found in a page is decided by [`carrick_logic::embedded`]; [`super::background`] fetches it.
mod page;
mod reader;

pub use page::{Fetch, Page, Prefetch};
pub use reader::PageTap;
