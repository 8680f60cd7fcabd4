//! The keys of splitters, and of how transparent connections begin.
use super::{Form, Key};

/// `handshake` of a listener.
pub(super) const HANDSHAKE: Key = Key {
    name: "handshake",
    form: Form::OneOf {
        words: &["server-first", "at-once"],
        default: "split, if it is transparent and no route has `sni` or `upstream`, and nothing a `link`: server-first; else at-once",
    },
    about: "When the client's SYN is answered: `server-first`, when the server has accepted, so that a client whose server refuses is refused as well; `at-once`, when it comes, which saves a round trip. Only for `tunnel` and `split`, with `transparent`",
};

/// `split` of a listener.
pub(super) const SPLIT: Key = Key {
    name: "split",
    form: Form::OneOf {
        words: WORDS,
        default: "adaptive",
    },
    about: "Whether connections are split: `adaptive`, where that is quicker, as it is learned for each pair of networks; `always`; `never`: both halves are joined, and the packet engine forwards their packets. Only for `split`",
};

/// `control_group` of a listener.
pub(super) const CONTROL_GROUP: Key = Key {
    name: "control_group",
    form: Form::Number {
        min: 0,
        max: 100,
        default: 0,
    },
    about: "Per cent of connections that are joined end to end although they would be split, to measure against them what splitting gains. Only for `split`",
};

/// `split` of a route.
pub(super) const OF_ROUTE: Key = Key {
    name: "split",
    form: Form::OneOf {
        words: WORDS,
        default: "that of the listener",
    },
    about: "Overrides the listener's `split` for this route",
};

/// The words of `split`.
const WORDS: &[&str] = &["adaptive", "always", "never"];
