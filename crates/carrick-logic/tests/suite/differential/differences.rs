//! Known differences between the two implementations, and their reasons.

/// A class of differences. `docs/internals/cache-policy.md` refers to this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// RFC 9111 section 3: the other stores any response to HEAD.
    AnswerToHead,
    /// RFC 9110 section 9.3.3: the other does not require `Content-Location`.
    AnswerToPost,
    /// RFC 9111 section 3: any final status with a lifetime. The other has a list of statuses.
    OtherStatus,
    /// RFC 9111 sections 5.2.2.4 and 5.2.2.7: the other ignores the names of fields.
    NamedFields,
    /// RFC 9111 section 5.2.2.3: the other does not know `must-understand`.
    MustUnderstand,
    /// Stricter here: not stored. The other stores it, but has it validated unless it is `public` or `immutable`.
    SetCookie,
    /// RFC 9111 section 4.1: responses that match no request are not stored here.
    VaryEverything,
    /// Responses that can never be used are not stored here.
    Useless,
    /// RFC 9111 section 5.2: names of directives are case-insensitive.
    Letters,
    /// RFC 9111 section 4.2.1: the first of repeated directives counts. The other treats differing ones like `must-revalidate`.
    Repeated,
    /// RFC 9111 section 4.2.3: the other ignores `Date` for the age.
    ApparentAge,
    /// RFC 9111 section 5.2.2.8: only stale responses are validated. The other always validates.
    ProxyRevalidate,
    /// RFC 9111 section 5.4: `Pragma` has no meaning in responses. The other treats it as `no-cache`.
    PragmaOfResponse,
    /// RFC 8246: `immutable` gives no lifetime.
    ImmutableLifetime,
    /// RFC 9111 section 4.2.2: here a heuristic lifetime is at most a day.
    LongGuess,
    /// RFC 9110 section 5.6.7: the other does not read the obsolete forms of dates.
    ObsoleteDate,
    /// RFC 9111 section 4.2.1: a directive without its number means stale. The other ignores it.
    NumberMissing,
    /// RFC 9111 section 1.2.2: here the maximum is 2^31 seconds.
    LargeNumber,
    /// RFC 9111 section 4: HEAD is answered from a stored GET; not by the other.
    HeadFromGet,
    /// RFC 5861 section 3: the other does not know `stale-while-revalidate`.
    StaleWhileRevalidate,
    /// RFC 8246 section 2: `max-age` in a request does not cause validation of an immutable response. The other does not know that.
    Immutable,
    /// RFC 9111 section 5.4: `Pragma` counts only without `Cache-Control`; in the other, always.
    PragmaBesideDirectives,
    /// RFC 9111 section 4.1: values with the same meaning are equal. The other compares bytes.
    NormalValues,
    /// RFC 9111 section 5.2.1.2: up to and including this many seconds; in the other, fewer.
    MaxStaleItself,
    /// RFC 9111 section 4.2.4: `no-cache` and `s-maxage` forbid sending a stale response. The other obeys only `must-revalidate`.
    StaleForbidden,
    /// RFC 9111 section 5.2.1.3: `min-fresh=0` requires a fresh response, even with `max-stale`; in the other, it has no effect.
    MinFreshZero,
    /// RFC 9111 section 4.2.1: an invalid number in a request is read strictly here. The other ignores it.
    NoNumber,
    /// RFC 9111 section 4.3.1: only the stored date is sent as a condition here. The other keeps the client's.
    ClientsDate,
    /// RFC 9111 section 4.3.1: without a stored tag the request is unconditional here. The other keeps the client's tags.
    ClientsTags,
    /// RFC 9111 section 4.3.4: here a 304 without validators refers to the only response in question.
    NoValidator,
    /// RFC 9111 section 4.3.4: here a new tag belongs to the response with the same `Last-Modified`.
    NewTag,
    /// Here a weak tag stays if the update has the strong one: it was compared weakly, and the bytes may be others.
    WeakTag,
    /// RFC 9111 section 3.2: an update also adds fields. The other only replaces.
    AddedFields,
    /// RFC 9111 section 4.2.3: the age is that of the update. The other keeps the old one if the update has none.
    AgeOfUpdate,
}

/// All of them. Remove a class that never occurs: it excuses nothing.
pub const ALL: [Difference; 34] = {
    use Difference::*;
    [
        AnswerToHead,
        AnswerToPost,
        OtherStatus,
        NamedFields,
        MustUnderstand,
        SetCookie,
        VaryEverything,
        Useless,
        Letters,
        Repeated,
        ApparentAge,
        ProxyRevalidate,
        PragmaOfResponse,
        ImmutableLifetime,
        LongGuess,
        ObsoleteDate,
        NumberMissing,
        LargeNumber,
        HeadFromGet,
        StaleWhileRevalidate,
        Immutable,
        PragmaBesideDirectives,
        NormalValues,
        MaxStaleItself,
        StaleForbidden,
        MinFreshZero,
        NoNumber,
        ClientsDate,
        ClientsTags,
        NoValidator,
        NewTag,
        WeakTag,
        AddedFields,
        AgeOfUpdate,
    ]
};
