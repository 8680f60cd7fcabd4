//! What a request and a response say that matters to a cache, each read once.
use super::content_range::ContentRange;
use super::directives::{RequestDirectives, ResponseDirectives};
use super::etag::ETag;
use super::fields::{Elements, Fields, delta_seconds};
use super::{Policy, UnixTime};
use crate::http1::{BodyLength, Method, RequestHead, ResponseHead};

/// A request, read for the cache.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Its method.
    pub method: Method,
    /// All its fields.
    pub fields: Fields<'a>,
    /// `Cache-Control`, or `Pragma`.
    pub directives: RequestDirectives,
    /// `Authorization` is there.
    pub has_authorization: bool,
    /// `If-None-Match` is there.
    pub has_if_none_match: bool,
    /// `If-Match` or `If-Unmodified-Since` is there: conditions that only an origin can judge.
    pub has_origin_condition: bool,
    /// It has a body. RFC 9110 section 9.3.1: what it means is unknown, and it is in no key.
    pub has_body: bool,
    /// The value of `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// The value of `Range`; of a repeated one nothing, which asks for the whole.
    pub range: Option<&'a [u8]>,
    /// The value of `If-Range`.
    pub if_range: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Reads a parsed head, with the buffer that it was parsed from.
    #[must_use]
    pub fn of_head(head: &'a RequestHead, bytes: &'a [u8]) -> Self {
        let has_body = head.body != BodyLength::None;
        Self {
            has_body,
            ..Self::read(head.method, Fields::of_request(head, bytes))
        }
    }

    /// Reads the `fields` of a request without a body, in one pass.
    #[must_use]
    pub fn read(method: Method, fields: Fields<'a>) -> Self {
        let mut request = Self {
            method,
            fields,
            directives: RequestDirectives::default(),
            has_authorization: false,
            has_if_none_match: false,
            has_origin_condition: false,
            has_body: false,
            if_modified_since: None,
            range: None,
            if_range: None,
        };
        let mut has_cache_control = false;
        let mut pragma_no_cache = false;
        let mut ranges = 0;
        for (name, value) in fields {
            let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
            match name.len() {
                5 if is(b"range") => {
                    ranges += 1;
                    request.range = Some(value);
                }
                6 if is(b"pragma") => {
                    pragma_no_cache |= Elements::of(value)
                        .any(|element| element.eq_ignore_ascii_case(b"no-cache"));
                }
                8 if is(b"if-match") => request.has_origin_condition = true,
                8 if is(b"if-range") => request.if_range = Some(value),
                13 if is(b"cache-control") => {
                    has_cache_control = true;
                    request.directives.add(value);
                }
                13 if is(b"authorization") => request.has_authorization = true,
                13 if is(b"if-none-match") => request.has_if_none_match = true,
                17 if is(b"if-modified-since") => request.if_modified_since = Some(value),
                19 if is(b"if-unmodified-since") => request.has_origin_condition = true,
                _ => {}
            }
        }
        if ranges > 1 {
            request.range = None;
        }
        // RFC 9111 section 5.4: Pragma counts for clients that do not know Cache-Control.
        request.directives.no_cache |= pragma_no_cache && !has_cache_control;
        request
    }
}

/// When a response expires, as `Expires` says it (RFC 9111 section 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expires {
    /// There is no such field.
    Absent,
    /// It is no date, such as `0` or `-1`: expired.
    Invalid,
    /// Its first line.
    At(UnixTime),
}

/// A response, read for the cache.
#[derive(Debug, Clone)]
pub struct Response<'a> {
    /// Its status.
    pub status: u16,
    /// All its fields.
    pub fields: Fields<'a>,
    /// `Cache-Control`, or a targeted field.
    pub directives: ResponseDirectives,
    /// `Age` of the first line, if it is a number (RFC 9111 section 5.1).
    pub age_s: Option<u32>,
    /// `Date`, if it is a date.
    pub date: Option<UnixTime>,
    /// `Expires`.
    pub expires: Expires,
    /// `Last-Modified`, if it is a date.
    pub last_modified: Option<UnixTime>,
    /// `ETag`, if it is one.
    pub etag: Option<ETag<'a>>,
    /// `Content-Range`, if it names a range of a representation whose length is known or not.
    pub content_range: Option<ContentRange>,
    /// `Content-Length`, if it is a number.
    pub content_length: Option<u64>,
    /// `Set-Cookie` is there.
    pub has_set_cookie: bool,
    /// `Vary` has the member `*`.
    pub varies_on_everything: bool,
    /// `Pragma: no-cache` without any `Cache-Control`.
    pub pragma_no_cache: bool,
}

impl<'a> Response<'a> {
    /// Reads a parsed head as [`read`](Self::read) does, with the buffer that it was parsed from.
    #[must_use]
    pub fn of_head(
        head: &'a ResponseHead,
        bytes: &'a [u8],
        now: UnixTime,
        policy: &Policy,
    ) -> Self {
        Self::read(head.status, Fields::of_response(head, bytes), now, policy)
    }

    /// Reads `fields`. `now` is when the response came; it decides what years of two digits mean.
    #[must_use]
    pub fn read(status: u16, fields: Fields<'a>, now: UnixTime, policy: &Policy) -> Self {
        let mut response = Self {
            status,
            fields,
            directives: ResponseDirectives::read(fields, &policy.targeted),
            age_s: None,
            date: None,
            expires: Expires::Absent,
            last_modified: None,
            etag: None,
            content_range: None,
            content_length: None,
            has_set_cookie: false,
            varies_on_everything: false,
            pragma_no_cache: false,
        };
        let mut has_cache_control = false;
        let (mut has_age, mut ranges, mut etags) = (false, 0, 0);
        for (name, value) in fields {
            let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
            match name.len() {
                3 if is(b"age") && !has_age => {
                    has_age = true;
                    // Section 5.1: of a list the first member, if it is a number.
                    response.age_s = value
                        .split(|&byte| byte == b',')
                        .next()
                        .map(crate::http1::syntax::trim)
                        .and_then(delta_seconds);
                }
                4 if is(b"date") && response.date.is_none() => {
                    response.date = UnixTime::parse_http_date(value, now)
                }
                4 if is(b"etag") => {
                    etags += 1;
                    response.etag = ETag::parse(value);
                }
                4 if is(b"vary") => {
                    response.varies_on_everything |=
                        Elements::of(value).any(|member| member == b"*")
                }
                6 if is(b"pragma") => {
                    response.pragma_no_cache |= Elements::of(value)
                        .any(|element| element.eq_ignore_ascii_case(b"no-cache"));
                }
                7 if is(b"expires") && response.expires == Expires::Absent => {
                    response.expires =
                        UnixTime::parse_http_date(value, now).map_or(Expires::Invalid, Expires::At);
                }
                10 if is(b"set-cookie") => response.has_set_cookie = true,
                13 if is(b"cache-control") => has_cache_control = true,
                13 if is(b"last-modified") && response.last_modified.is_none() => {
                    response.last_modified = UnixTime::parse_http_date(value, now);
                }
                13 if is(b"content-range") => {
                    ranges += 1;
                    response.content_range = ContentRange::parse(value);
                }
                14 if is(b"content-length") => {
                    response.content_length = crate::http1::syntax::decimal(value)
                }
                _ => {}
            }
        }
        if ranges > 1 {
            response.content_range = None;
        }
        if etags > 1 {
            response.etag = None;
        }
        response.pragma_no_cache &= !has_cache_control;
        response
    }

    /// When the response was made, as far as can be known (RFC 9110 section 6.6.1): without a valid `Date`, when it
    /// came.
    #[must_use]
    pub fn made_at(&self, times: Times) -> UnixTime {
        self.date.unwrap_or(times.response)
    }
}

/// When a response was asked for, and when its head came (RFC 9111 section 4.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// `request_time`: when the request that brought the response was sent.
    pub request: UnixTime,
    /// `response_time`: when the response's head had come.
    pub response: UnixTime,
}
