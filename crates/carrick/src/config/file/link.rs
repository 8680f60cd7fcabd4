//! `[link.NAME]`: connections that are kept to a carrick at their other end.
use crate::config::keys::NONE;
use crate::config::kinds::{number, one_of, required_text, text_or};
use crate::config::section::section;
use crate::config::setting::Setting;
use crate::config::word::words;

section! {
    /// `[link.NAME]`
    #[derive(Debug)]
    pub struct Link = "[link.NAME]" {
        /// The carrick at the other end: a listener with `mode = "link"`
        peer: Setting<String> = required_text("`host:port`"),
        /// Idle connections to it that are kept, per worker; 0: each carries one connection, and is closed
        connections: usize = number(0..=10_000, 16),
        /// How many of these are opened in advance, per worker
        preconnect: usize = number(0..=10_000, 4),
        /// The `[tcp_profile.NAME]` that connections to it have
        profile: Setting<String> = text_or("a name", NONE),
        /// While there is no connection to it: `refuse`, clients are reset; `direct`, carrick connects to the servers
        /// itself
        fallback: Fallback = one_of("refuse"),
    }
}

/// What is done with clients while there is no connection over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// They are refused.
    Refuse,
    /// carrick connects to their servers itself.
    Direct,
}

words!(Fallback { "refuse" => Refuse, "direct" => Direct });
