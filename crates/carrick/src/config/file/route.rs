//! `[[listener.route]]`: where requests go.
use super::{CacheUse, Splitting};
use crate::config::kinds::{
    Texts, one_of_or, one_text, required_text, switch_or, table_or, text_or, texts,
};
use crate::config::section::{Written, section};
use crate::config::setting::Setting;
use crate::config::word::words;
use carrick_splice::Choice;

const SWITCH: &[&str] = &["switch"];
const BY_NAME: &[&str] = &["tunnel", "split", "switch"];

section! {
    /// `[[listener.route]]`
    #[derive(Debug)]
    pub struct Route = "[[listener.route]]" {
        /// The `[upstream.NAME]` that requests go to
        upstream: Setting<String> = text_or("a name", "required without `to`"),
        /// `original`: the address that the client connected to. Instead of `upstream`, only with `transparent`
        to: Setting<To> = one_of_or("the `upstream`"),
        /// Host name, without port; `*.example.org` is any depth below `example.org`, and `.example.org` also the name
        /// itself
        host in SWITCH: Setting<String> = one_text("a name pattern"),
        /// Prefix of the path, compared exactly
        path in SWITCH: Setting<String> = one_text("a path"),
        /// The text after the last dot of the last path segment: any of these; case does not matter
        extension in SWITCH: Setting<Texts> = texts("words", "any"),
        /// A cookie that must be present; with `!` before its name: one that must be absent
        cookie in SWITCH: Setting<String> = one_text("a name"),
        /// A header line with this name (case does not matter) and exactly this value
        header in SWITCH: Setting<Written<Header>> = table_or("any"),
        /// Any of these methods, in capital letters
        method in SWITCH: Setting<Texts> = texts("methods", "any"),
        /// `true`: a path with `/cgi-bin/`, or a query string; `false`: neither
        cgi in SWITCH: Setting<bool> = switch_or("either"),
        /// The server name in the TLS ClientHello, which is read and not terminated: the connection is passed on undecrypted.
        /// For `tunnel`, `split`, and `switch` with `tls`, as the route's only condition
        sni in BY_NAME: Setting<String> = one_text("a name pattern"),
        /// Overrides the listener's `engine` for this route
        engine: Setting<Choice> = one_of_or("that of the listener"),
        /// Where requests after the first ones of a connection are classified. `kernel`: plain ones that go where the last one went
        /// are forwarded without the process. Only for `switch`, with `engine = "auto"` or `"packet"`
        requests: Setting<Requests> = one_of_or("auto: kernel, where the route allows it; packet: process"),
        /// Whether the process reads responses' heads where the packet engine moves their bodies. `unread`: they pass
        /// unchanged. `read`: as with other engines; the kernel gets the rest of long bodies. Only for `switch`, with
        /// `engine = "auto"` or `"packet"`
        responses: Setting<Responses> = one_of_or("packet, and auto where the kernel classifies requests: unread"),
        /// The `[link.NAME]` that the route's connections go through: the carrick at its other end connects to the server;
        /// `""`: none. Only for `tunnel` and `split`
        link: Setting<String> =
            text_or("a name", "that of the listener, if the route leads to the original destination"),
        /// Overrides the listener's `split` for this route
        split: Setting<Splitting> = one_of_or("that of the listener"),
        /// Overrides the listener's `pace` for this route
        pace: Setting<String> = text_or("a class's name, or `\"\"` for none", "that of the listener");
        ..cache: CacheUse
    }
}

/// Where a route leads, if not to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// Where the client wanted to go.
    Original,
}

words!(To { "original" => Original });

/// Where requests after the first ones of a connection are classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requests {
    /// The process.
    Process,
    /// The kernel, if they are plain, lead to where the last one went, and this is the first route that takes them.
    Kernel,
}

words!(Requests { "process" => Process, "kernel" => Kernel });

/// Whether the process reads the heads of responses whose bodies the packet engine moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Responses {
    /// It does not: they go from the server to the client as they are.
    Unread,
    /// It does, as with other engines; the kernel gets the rest of long bodies.
    Read,
}

words!(Responses { "unread" => Unread, "read" => Read });

section! {
    /// `header = { … }`
    #[derive(Debug)]
    pub struct Header = "header = { }" {
        /// Compared without case
        field as "name": Setting<String> = required_text("a header's name"),
        /// Compared exactly
        text as "value": Setting<String> = required_text("any text"),
    }
}
