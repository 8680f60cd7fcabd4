//! What an HTTP cache that many share may store, when it may send it, and when it has to ask (RFC 9111, and RFC 5861,
//! 8246, 9211, 9213).
//!
//! A request goes through here in this order. [`Request::of_head`]; the store's own variants through [`select`];
//! [`look_up`]. If something stored is sent, [`plan_answer`] and [`write_answer_fields`]. If the origin is asked,
//! [`write_conditions`], and of its answer [`Response::of_head`], [`after_validation`], then [`freshen`] or
//! [`decide_storing`], and [`invalidates`]. If it fails, [`stale_on_error`].
//!
//! Nothing here keeps anything: the store and the relay do what is decided. Every enum says what to do and why;
//! `label`s are for metrics, the log and `Cache-Status`.

mod answer;
mod cache_peers;
mod cache_status;
mod content_range;
mod directives;
mod etag;
mod extents;
mod fields;
mod freshen;
mod invalidation;
mod key;
mod lookup;
mod message;
mod meta;
mod multipart;
mod packed;
mod parts;
mod policy;
mod quick_abort;
mod ranges;
mod record;
mod storing;
mod structured;
mod tags;
#[cfg(test)]
mod test_heads;
#[cfg(test)]
mod tests;
mod time;
mod uri;
mod validation;
mod vary;

pub use answer::{Answer, belongs_in_304, plan_answer, write_answer_fields};
pub use cache_peers::{CachePeers, shared_part};
pub use cache_status::{CacheStatus, Forward};
pub use content_range::ContentRange;
pub use directives::{RequestDirectives, ResponseDirectives, Scope};
pub use etag::ETag;
pub use extents::{EXTENTS_MAX, Extents, truncated, write_range_conditions};
pub use fields::{Fields, Lines};
pub use freshen::{Freshened, HeadEffect, freshen, head_effect, may_combine};
pub use invalidation::{invalidated, invalidates};
pub use key::{
    KeyQuery, KeyRules, NoKey, NotFilled, Realm, changed_uri, may_fill, target_uri, write_key,
    write_key_prefix,
};
pub use lookup::{
    Found, Lookup, Miss, Reuse, Revalidate, is_origin_failure, look_up, stale_on_error,
};
pub use message::{Expires, Request, Response, Times};
pub use meta::{LifetimeFrom, Meta, Validator};
pub use multipart::{Multipart, Part, multipart};
pub use packed::PackedMeta;
pub use parts::{has_all, is_same_version, missing};
pub use policy::Policy;
pub use quick_abort::QuickAbort;
pub use ranges::{Ranges, if_range_holds, resolve};
pub use record::{Record, Recorded, read_record, write_varies};
pub use storing::{NotStored, Storing, decide_storing, withheld_fields, write_stored_fields};
pub use tags::{TAG_BYTES_MAX, TAGS_MAX, tags};
pub use time::{SECONDS_MAX, UnixTime};
pub use uri::Uri;
pub use validation::{
    CONDITION_FIELDS, Conditions, Stored, Validated, after_validation, client_has_it,
    is_freshened_by, write_conditions,
};
pub use vary::{Variant, VariantMatcher, select};
