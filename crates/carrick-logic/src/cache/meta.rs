//! What is kept of a stored response besides its head and body, and how old and how fresh it is (RFC 9111 section 4.2).
use super::directives::Scope;
use super::message::{Expires, Response, Times};
use super::{ContentRange, Policy, UnixTime};

/// Where a lifetime comes from, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LifetimeFrom {
    /// `s-maxage`.
    SMaxage,
    /// `max-age`.
    MaxAge,
    /// `Expires`.
    Expires,
    /// The time since `Last-Modified` (section 4.2.2).
    Heuristic,
    /// [`Policy::default_ttl_s`] or [`Policy::negative_ttl_s`].
    Configuration,
    /// Nothing: it is stale from the beginning.
    Nothing,
}

impl LifetimeFrom {
    /// The origin named the lifetime.
    #[must_use]
    pub fn is_explicit(self) -> bool {
        matches!(self, Self::SMaxage | Self::MaxAge | Self::Expires)
    }
}

/// How a response can be validated (RFC 9110 section 8.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validator {
    /// `ETag`, strong.
    StrongTag,
    /// `ETag`, weak.
    WeakTag,
    /// Only `Last-Modified`, at least one second before `Date` (RFC 9110 section 8.8.2.2): strong.
    StrongDate,
    /// Only `Last-Modified`.
    WeakDate,
    /// Not at all.
    None,
}

/// The decisions that were made when a response was stored; plain numbers, for memory and disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The response's status.
    pub status: u16,
    /// When it came.
    pub response_time: UnixTime,
    /// How old it was then: `corrected_initial_age` (section 4.2.3).
    pub initial_age_s: u32,
    /// `freshness_lifetime` (section 4.2.1).
    pub lifetime_s: u32,
    /// Where the lifetime comes from.
    pub lifetime_from: LifetimeFrom,
    /// When it was made: `Date`, else when it came.
    pub date: UnixTime,
    /// `Last-Modified`.
    pub last_modified: Option<UnixTime>,
    /// How it can be validated.
    pub validator: Validator,
    /// `no-cache`: never sent without asking the origin.
    pub always_validate: bool,
    /// A client's own wish can make it be sent stale; `must-revalidate`, `proxy-revalidate`, `s-maxage` and `no-cache`
    /// forbid it (section 4.2.4).
    pub client_may_take_stale: bool,
    /// How long after its lifetime it may be sent while it is fetched anew (RFC 5861 section 3).
    pub stale_while_revalidate_s: u32,
    /// How long after its lifetime it may be sent when the origin fails (RFC 5861 section 4).
    pub stale_if_error_s: u32,
    /// `immutable` (RFC 8246).
    pub immutable: bool,
    /// `no-transform`: the body's coding must not be changed.
    pub no_transform: bool,
    /// Which bytes a 206 has; `None` for a whole representation.
    pub part: Option<Box<ContentRange>>,
}

impl Meta {
    /// Makes the decisions for a response, whether or not it may be stored.
    #[must_use]
    pub fn of(response: &Response<'_>, times: Times, policy: &Policy) -> Self {
        let directives = &response.directives;
        let (lifetime_s, lifetime_from) = lifetime(response, times, policy);
        let always_validate = directives.no_cache == Scope::Response;
        let forbids_stale =
            directives.must_revalidate || directives.proxy_revalidate || always_validate;
        // Section 5.2.2.10: s-maxage means proxy-revalidate, too. An origin that names a time for stale use beside it
        // has said otherwise.
        let client_may_take_stale = !forbids_stale && directives.s_maxage_s.is_none();
        let stale = |named: Option<u32>, configured: u32| match named {
            _ if forbids_stale => 0,
            Some(named) => named,
            None if client_may_take_stale => configured,
            None => 0,
        };
        Self {
            status: response.status,
            response_time: times.response,
            initial_age_s: initial_age(response, times),
            lifetime_s,
            lifetime_from,
            date: response.made_at(times),
            last_modified: response.last_modified,
            validator: validator(response),
            always_validate,
            client_may_take_stale,
            stale_while_revalidate_s: stale(
                directives.stale_while_revalidate_s,
                policy.stale_while_revalidate_s,
            ),
            stale_if_error_s: stale(directives.stale_if_error_s, policy.stale_if_error_s),
            immutable: directives.immutable,
            no_transform: directives.no_transform,
            part: if response.status == 206 {
                response.content_range.map(Box::new)
            } else {
                None
            },
        }
    }

    /// Which bytes of the representation it has, if it is a part.
    #[must_use]
    pub fn part(&self) -> Option<ContentRange> {
        self.part.as_deref().copied()
    }

    /// `current_age` (section 4.2.3) in seconds: the value of the `Age` field at `now`. Never less than at an earlier
    /// `now`.
    #[must_use]
    pub fn age_s(&self, now: UnixTime) -> u32 {
        let resident_s = now.since(self.response_time);
        self.initial_age_s
            .saturating_add(resident_s)
            .min(super::SECONDS_MAX)
    }

    /// Seconds that it will be fresh from `now`; negative since it has been stale.
    #[must_use]
    pub fn ttl_s(&self, now: UnixTime) -> i64 {
        i64::from(self.lifetime_s) - i64::from(self.age_s(now))
    }

    /// `response_is_fresh` (section 4.2).
    #[must_use]
    pub fn is_fresh(&self, now: UnixTime) -> bool {
        self.ttl_s(now) > 0
    }

    /// The moment at which it stops being fresh.
    #[must_use]
    pub fn fresh_until(&self) -> UnixTime {
        self.response_time
            .plus(self.lifetime_s.saturating_sub(self.initial_age_s))
    }

    /// Whether it is an error whose lifetime is only the configuration's.
    #[must_use]
    pub fn is_error_by_configuration(&self) -> bool {
        self.status >= 400 && self.lifetime_from == LifetimeFrom::Configuration
    }

    /// Whether it leaves what is stored under its key alone: it [is](Self::is_error_by_configuration) an error that the
    /// origin gave no lifetime, and the other response, which is no such error, could be sent at `now` without asking.
    #[must_use]
    pub fn leaves_alone(&self, stored: &Self, now: UnixTime) -> bool {
        self.is_error_by_configuration()
            && !stored.is_error_by_configuration()
            && stored.is_fresh(now)
            && !stored.always_validate
    }

    /// Whether the origin can be asked if it has changed.
    #[must_use]
    pub fn can_be_validated(&self) -> bool {
        self.validator != Validator::None
    }

    /// Whether two parts with this validator are of the same bytes (RFC 9111 section 3.4).
    #[must_use]
    pub fn has_strong_validator(&self) -> bool {
        matches!(self.validator, Validator::StrongTag | Validator::StrongDate)
    }

    /// Whether what another process has stored for the same requests is to be taken instead: if it was made later (RFC 9111
    /// section 4); or at the same time, and was validated since, unless this one was found [out of date](Self::outdated).
    #[must_use]
    pub fn gives_way_to(&self, other: &Self, now: UnixTime) -> bool {
        let is_outdated = self.lifetime_from == LifetimeFrom::Nothing;
        self.date < other.date || self.date == other.date && other.is_fresh(now) && !is_outdated
    }

    /// The same response, known to be out of date: a purge that leaves it to be validated.
    #[must_use]
    pub fn outdated(&self) -> Self {
        Self {
            lifetime_s: 0,
            lifetime_from: LifetimeFrom::Nothing,
            client_may_take_stale: false,
            stale_while_revalidate_s: 0,
            ..self.clone()
        }
    }
}

/// Section 4.2.3: what the last cache says and the time that passed since it was asked, or what the clocks say if that
/// is more.
fn initial_age(response: &Response<'_>, times: Times) -> u32 {
    let apparent_s = times.response.since(response.made_at(times));
    let response_delay_s = times.response.since(times.request);
    let corrected_s = response.age_s.unwrap_or(0).saturating_add(response_delay_s);
    apparent_s.max(corrected_s).min(super::SECONDS_MAX)
}

/// Section 4.2.1.
fn lifetime(response: &Response<'_>, times: Times, policy: &Policy) -> (u32, LifetimeFrom) {
    let directives = &response.directives;
    if let Some(seconds) = directives.s_maxage_s {
        return (seconds, LifetimeFrom::SMaxage);
    }
    if let Some(seconds) = directives.max_age_s {
        return (seconds, LifetimeFrom::MaxAge);
    }
    match response.expires {
        Expires::At(at) if !directives.targeted => {
            return (at.since(response.made_at(times)), LifetimeFrom::Expires);
        }
        Expires::Invalid if !directives.targeted => return (0, LifetimeFrom::Expires),
        _ => {}
    }
    lifetime_unless_named(response, times, policy)
}

/// Section 4.2.2. `Pragma: no-cache` is no word of the origin's on lifetime, but enough to guess none.
fn lifetime_unless_named(
    response: &Response<'_>,
    times: Times,
    policy: &Policy,
) -> (u32, LifetimeFrom) {
    let status = response.status;
    if is_failure(status) && policy.negative_ttl_s > 0 {
        return (policy.negative_ttl_s, LifetimeFrom::Configuration);
    }
    let may_guess = is_heuristically_cacheable(status) || response.directives.public;
    if !may_guess || response.pragma_no_cache {
        return (0, LifetimeFrom::Nothing);
    }
    let made_at = response.made_at(times);
    if let Some(modified) = response
        .last_modified
        .filter(|modified| *modified < made_at)
    {
        let seconds =
            u64::from(made_at.since(modified)) * u64::from(policy.heuristic_percent) / 100;
        let seconds = u32::try_from(seconds)
            .unwrap_or(super::SECONDS_MAX)
            .min(policy.heuristic_max_s);
        return (seconds, LifetimeFrom::Heuristic);
    }
    if policy.default_ttl_s > 0 && status < 400 {
        return (policy.default_ttl_s, LifetimeFrom::Configuration);
    }
    (0, LifetimeFrom::Nothing)
}

/// RFC 9110 section 15.1.
pub(super) fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(
        status,
        200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// What [`Policy::negative_ttl_s`] is about: not what a client could provoke for others, by a field or a query that no key has.
fn is_failure(status: u16) -> bool {
    matches!(status, 404 | 405 | 410 | 500 | 502..=504)
}

fn validator(response: &Response<'_>) -> Validator {
    match (response.etag, response.last_modified, response.date) {
        (Some(tag), _, _) if tag.weak => Validator::WeakTag,
        (Some(_), _, _) => Validator::StrongTag,
        (None, Some(modified), Some(date)) if modified < date => Validator::StrongDate,
        (None, Some(_), _) => Validator::WeakDate,
        (None, None, _) => Validator::None,
    }
}

#[cfg(test)]
mod tests;
