//! What listeners and their routes are told of the rest of the file.
use super::acme;
use super::cache::Caching;
use super::link::Links;
use super::pace::Classes;
use super::tcp_profile::Profiles;
use super::upstream::Known;
use crate::config::plan::UpstreamPlan;
use carrick_splice::Choice;
use std::path::Path;
use std::time::Duration;

/// What holds for all listeners.
pub struct FileContext<'f> {
    /// The engine of `[splice]`.
    pub engine: Choice,
    /// What paths are relative to.
    pub directory: &'f Path,
    /// The upstreams, by name.
    pub known: &'f Known<'f>,
    /// Their plans, in the same order; `None`: it is wrong.
    pub upstreams: &'f [Option<UpstreamPlan>],
    /// What `[cache]` says.
    pub caching: &'f Caching,
    /// What `[pace]` says.
    pub classes: &'f Classes<'f>,
    /// What `[tcp_profile.NAME]` say.
    pub tcp_profiles: &'f Profiles<'f>,
    /// The links.
    pub links: &'f Links<'f>,
    /// `[acme]`; `None`: it is wrong.
    pub acme: Option<&'f acme::Settings>,
    /// The longest that a connection stands on which nothing is said.
    pub idle: Duration,
}
