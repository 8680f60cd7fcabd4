//! `Cache-Status` (RFC 9211): what the cache did with a request, for debugging.
use super::lookup::{Lookup, Miss, Revalidate};
use super::structured;

/// Why a request went to the origin (section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each is the token of that name in RFC 9211 section 2.2"
)]
pub enum Forward {
    Bypass,
    Method,
    UriMiss,
    VaryMiss,
    Miss,
    Request,
    Stale,
    Partial,
}

impl Forward {
    fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// One member of the field; `hit` and `forward` exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheStatus<'a> {
    /// The request was answered without the origin.
    pub hit: bool,
    /// It was not, and why.
    pub forward: Option<Forward>,
    /// The origin's status, if it is another one than the client gets.
    pub forward_status: Option<u16>,
    /// Remaining lifetime in seconds; negative when stale.
    pub ttl_s: Option<i64>,
    /// The response is stored.
    pub stored: bool,
    /// The request waited for another one's answer.
    pub collapsed: bool,
    /// The key, if it is to be shown.
    pub key: Option<&'a [u8]>,
    /// A word more, such as [`NotStored::label`](super::NotStored::label).
    pub detail: Option<&'a str>,
}

impl CacheStatus<'_> {
    /// What can be said when the decision has been made. `stored`, `collapsed` and the origin's status are known later.
    #[must_use]
    pub fn of(lookup: Lookup) -> Self {
        let hit = |ttl_s, detail| Self {
            hit: true,
            ttl_s: Some(ttl_s),
            detail,
            ..Self::default()
        };
        let forward = |forward, detail| Self {
            forward: Some(forward),
            detail: Some(detail),
            ..Self::default()
        };
        match lookup {
            Lookup::Fresh(reuse) => hit(reuse.ttl_s, None),
            Lookup::StaleWhileRevalidate(reuse) => hit(reuse.ttl_s, Some("stale-while-revalidate")),
            Lookup::Stale(reuse) => hit(reuse.ttl_s, Some("max-stale")),
            Lookup::Revalidate(why @ (Revalidate::Expired | Revalidate::ResponseNoCache)) => {
                forward(Forward::Stale, why.label())
            }
            Lookup::Revalidate(why) => forward(Forward::Request, why.label()),
            Lookup::Miss(why) => forward(
                match why {
                    Miss::Uri => Forward::UriMiss,
                    Miss::Vary => Forward::VaryMiss,
                    Miss::Part => Forward::Partial,
                    Miss::Method => Forward::Method,
                    Miss::Condition | Miss::Body => Forward::Bypass,
                },
                why.label(),
            ),
            Lookup::GatewayTimeout => Self {
                detail: Some("only-if-cached"),
                ..Self::default()
            },
        }
    }

    /// Appends the member as a structured field item (section 2), without the field's name. `cache` is the name of this
    /// cache. To be appended behind the members of caches nearer to the origin.
    pub fn write(&self, out: &mut Vec<u8>, cache: &[u8]) {
        structured::write_token_or_string(out, cache);
        let mut put = |text: std::fmt::Arguments<'_>| {
            // Writing to a Vec does not fail.
            let _ = std::io::Write::write_fmt(out, text);
        };
        if self.hit {
            put(format_args!("; hit"));
        } else if let Some(forward) = self.forward {
            put(format_args!("; fwd={}", forward.token()));
            if let Some(status) = self.forward_status {
                put(format_args!("; fwd-status={status}"));
            }
        }
        if let Some(ttl_s) = self.ttl_s {
            put(format_args!("; ttl={ttl_s}"));
        }
        // Only with `fwd` do these mean anything (sections 2.5 and 2.6).
        if !self.hit && self.forward.is_some() {
            for (is_said, name) in [(self.stored, "stored"), (self.collapsed, "collapsed")] {
                if is_said {
                    put(format_args!("; {name}"));
                }
            }
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b"; key=");
            structured::write_string(out, key);
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b"; detail=");
            structured::write_token_or_string(out, detail.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheStatus, Forward};
    use crate::cache::{Lookup, Miss, Reuse, Revalidate};

    fn written(status: CacheStatus<'_>, name: &str) -> String {
        let mut out = Vec::new();
        status.write(&mut out, name.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rfc_9211_2_members() {
        let reuse = Reuse {
            age_s: 5,
            ttl_s: 376,
        };
        let stale = Reuse {
            age_s: 500,
            ttl_s: -412,
        };
        for (lookup, expected) in [
            (Lookup::Fresh(reuse), "carrick; hit; ttl=376"),
            (
                Lookup::StaleWhileRevalidate(stale),
                "carrick; hit; ttl=-412; detail=stale-while-revalidate",
            ),
            (
                Lookup::Stale(stale),
                "carrick; hit; ttl=-412; detail=max-stale",
            ),
            (
                Lookup::Revalidate(Revalidate::Expired),
                "carrick; fwd=stale; detail=expired",
            ),
            (
                Lookup::Revalidate(Revalidate::RequestNoCache),
                "carrick; fwd=request; detail=request_no_cache",
            ),
            (Lookup::Miss(Miss::Uri), "carrick; fwd=uri-miss; detail=uri"),
            (
                Lookup::Miss(Miss::Vary),
                "carrick; fwd=vary-miss; detail=vary",
            ),
            (
                Lookup::Miss(Miss::Part),
                "carrick; fwd=partial; detail=part",
            ),
            (
                Lookup::Miss(Miss::Method),
                "carrick; fwd=method; detail=method",
            ),
            (
                Lookup::Miss(Miss::Condition),
                "carrick; fwd=bypass; detail=condition",
            ),
            (Lookup::GatewayTimeout, "carrick; detail=only-if-cached"),
        ] {
            assert_eq!(written(CacheStatus::of(lookup), "carrick"), expected);
        }
        let forwarded = CacheStatus {
            forward: Some(Forward::Stale),
            forward_status: Some(304),
            ttl_s: Some(60),
            stored: true,
            collapsed: true,
            key: Some(b"http://h/\"\xff"),
            detail: Some("two words"),
            ..CacheStatus::default()
        };
        let expected = r#""carrick on h"; fwd=stale; fwd-status=304; ttl=60; stored; collapsed; key="http://h/\"?"; detail="two words""#;
        assert_eq!(written(forwarded, "carrick on h"), expected);
        let hit = CacheStatus {
            hit: true,
            stored: true,
            collapsed: true,
            ..CacheStatus::default()
        };
        assert_eq!(written(hit, "1"), "\"1\"; hit");
    }
}
