//! The keys of links: connections that are kept to a carrick at their other end.
use super::{Form, Key, NONE, REQUIRED, Table};

/// `link` of a listener.
pub(super) const OF_LISTENER: Key = Key {
    name: "link",
    form: Form::Text {
        what: "a name",
        default: NONE,
    },
    about: "The `[link.NAME]` that what goes to its original destination goes through, but for what has `split = \"never\"`. Only for `tunnel` and `split`",
};

/// `link` of a route.
pub(super) const OF_ROUTE: Key = Key {
    name: "link",
    form: Form::Text {
        what: "a name",
        default: "that of the listener, if the route leads to the original destination",
    },
    about: "The `[link.NAME]` that the route's connections go through: the carrick at its other end connects to the server; `\"\"`: none. Only for `tunnel` and `split`",
};

/// `[link.NAME]`
pub static LINK: Table = Table {
    title: "[link.NAME]",
    keys: &[
        Key {
            name: "peer",
            form: Form::Text {
                what: "`host:port`",
                default: REQUIRED,
            },
            about: "The carrick at the other end: a listener with `mode = \"link\"`",
        },
        Key {
            name: "connections",
            form: Form::Number {
                min: 0,
                max: 10_000,
                default: 16,
            },
            about: "Idle connections to it that are kept, per worker; 0: each carries one connection, and is closed",
        },
        Key {
            name: "ahead",
            form: Form::Number {
                min: 0,
                max: 10_000,
                default: 4,
            },
            about: "Of these, those that are opened before they are needed, per worker",
        },
        Key {
            name: "profile",
            form: Form::Text {
                what: "a name",
                default: NONE,
            },
            about: "The `[leg.NAME]` that connections to it have",
        },
        Key {
            name: "fallback",
            form: Form::OneOf {
                words: &["refuse", "direct"],
                default: "refuse",
            },
            about: "While there is no connection to it: `refuse`, clients are reset; `direct`, carrick connects to the servers itself",
        },
    ],
};
