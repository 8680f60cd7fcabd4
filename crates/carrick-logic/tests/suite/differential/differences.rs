//! Where the two differ, and why.

/// A class of differences. `docs/internals/cache-policy.md` refers to this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// RFC 9111 section 3: the other stores any answer to HEAD.
    AnswerToHead,
    /// RFC 9110 section 9.3.3: the other does not ask for `Content-Location`.
    AnswerToPost,
    /// RFC 9111 section 3: any final status with a lifetime. The other has a list of statuses.
    OtherStatus,
    /// RFC 9111 sections 5.2.2.4 and 5.2.2.7: the other does not read the names of fields.
    NamedFields,
    /// RFC 9111 section 5.2.2.3: the other does not know `must-understand`.
    MustUnderstand,
    /// Stricter here: not stored. The other stores it, but has it validated unless it is `public` or `immutable`.
    SetCookie,
    /// RFC 9111 section 4.1: what matches no request is not stored here.
    VaryEverything,
    /// What can never be used is not stored here.
    Useless,
    /// RFC 9111 section 5.2: names of directives are in letters of either case.
    Letters,
    /// RFC 9111 section 4.2.1: of a directive that is repeated, the first. The other takes what differs for `must-revalidate`.
    Repeated,
    /// RFC 9111 section 4.2.3: the other does not look at `Date` for the age.
    ApparentAge,
    /// RFC 9111 section 5.2.2.8: only what is stale is validated. The other validates always.
    ProxyRevalidate,
    /// RFC 9111 section 5.4: `Pragma` means nothing in responses. The other takes it for `no-cache`.
    PragmaOfResponse,
    /// RFC 8246: `immutable` gives no lifetime.
    ImmutableLifetime,
    /// RFC 9111 section 4.2.2: here at most a day is guessed.
    LongGuess,
    /// RFC 9110 section 5.6.7: the other does not read the obsolete forms of dates.
    ObsoleteDate,
    /// RFC 9111 section 4.2.1: a directive without its number is stale. The other passes over it.
    NumberMissing,
    /// RFC 9111 section 1.2.2: here 2^31 seconds are the most.
    LargeNumber,
    /// RFC 9111 section 4: HEAD is answered from what is stored for GET. Not by the other.
    HeadFromGet,
    /// RFC 5861 section 3: the other does not know `stale-while-revalidate`.
    StaleWhileRevalidate,
    /// RFC 8246 section 2: `max-age` of a request does not make what is immutable be validated. The other does not know that.
    Immutable,
    /// RFC 9111 section 5.4: `Pragma` counts only without `Cache-Control`. With the other always.
    PragmaBesideDirectives,
    /// RFC 9111 section 4.1: values that mean the same are the same. The other compares bytes.
    NormalValues,
    /// RFC 9111 section 5.2.1.2: up to and with so many seconds. The other: fewer.
    MaxStaleItself,
    /// RFC 9111 section 4.2.4: what `no-cache` or `s-maxage` forbids to send stale. The other heeds only `must-revalidate`.
    StaleForbidden,
    /// RFC 9111 section 5.2.1.3: `min-fresh=0` asks for what is fresh, also beside `max-stale`. It asks for nothing there.
    MinFreshZero,
    /// RFC 9111 section 4.2.1: a number of a request that is none is read strictly here. The other passes over it.
    NoNumber,
    /// RFC 9111 section 4.3.1: only the stored date is asked about here. The other leaves the client's.
    ClientsDate,
    /// RFC 9111 section 4.3.1: without a stored tag the whole is asked for here. The other leaves the client's tags.
    ClientsTags,
    /// RFC 9111 section 4.3.4: here a 304 without validators is about the only response that was asked about.
    NoValidator,
    /// RFC 9111 section 4.3.4: here a tag that is new belongs to the response with the same `Last-Modified`.
    NewTag,
    /// RFC 9111 section 3.2: an update also adds fields. The other only replaces.
    AddedFields,
    /// RFC 9111 section 4.2.3: the age is that of the update. The other keeps the old one where the update says nothing.
    AgeOfUpdate,
}

/// All of them. A class of which nothing is ever seen excuses nothing and is to be taken out.
pub const ALL: [Difference; 33] = {
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
        AddedFields,
        AgeOfUpdate,
    ]
};
