//! The keys of `[[listener]]` and what is in it.
use super::{ENGINES, Form, Key, NONE, REQUIRED, Table, cache, legs, link, pace, split};

/// `[[listener]]`
pub static LISTENER: Table = Table {
    title: "[[listener]]",
    keys: &[
        Key {
            name: "listen",
            form: Form::Text {
                what: "an address and port",
                default: REQUIRED,
            },
            about: "What is bound, such as `\"0.0.0.0:8080\"`, `\"[::]:8080\"` (IPv4, too) or `\"127.0.0.1:3128\"`",
        },
        Key {
            name: "mode",
            form: Form::OneOf {
                words: &["forward", "switch", "tunnel", "split", "link"],
                default: REQUIRED,
            },
            about: "The job: forward proxy, layer-7 switch, TCP relay, splitter of TCP connections, or the far end of a `[link.NAME]`",
        },
        Key {
            name: "proxy_protocol",
            form: Form::Switch { default: false },
            about: "Connections must begin with a PROXY v1 or v2 header, and the client's address is taken from it; whoever can connect can claim any address, so let only your balancers in",
        },
        Key {
            name: "transparent",
            form: Form::Other {
                what: "`true` or `false`",
                default: "`false`; split: `true`",
            },
            about: "Clients do not know of the proxy: their connections to others, as `intercept` says, come in here, and go to their original destination unless a route says otherwise. Wants CAP_NET_ADMIN",
        },
        Key {
            name: "intercept",
            form: Form::Other {
                what: "`{ ports, … }`",
                default: "required with `transparent`",
            },
            about: "What is intercepted. Only with `transparent`",
        },
        Key {
            name: "keep_client_address",
            form: Form::Other {
                what: "`true` or `false`",
                default: "`false`; split, if it is transparent: `true`",
            },
            about: "Servers see the client's address, not carrick's; their answers must pass this machine. Only with `transparent`, and for `link`. Wants CAP_NET_RAW, and keeps it",
        },
        split::HANDSHAKE,
        split::SPLIT,
        split::CONTROL_GROUP,
        Key {
            name: "engine",
            form: Form::OneOf {
                words: ENGINES,
                default: "that of [splice]",
            },
            about: "Overrides `[splice]` for this listener",
        },
        Key {
            name: "allow",
            form: Form::Texts {
                what: "networks or addresses",
                default: "all",
            },
            about: "Clients that may use the listener; a forward proxy beyond loopback needs this or `users`, a `link` needs it in any case",
        },
        Key {
            name: "forwarded",
            form: Form::OneOf {
                words: &["x-forwarded", "forwarded", "off", "unchanged"],
                default: "switch: x-forwarded; forward, and with `transparent`: unchanged",
            },
            about: "What the upstream is told about the client: `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded` (RFC 7239); `off` removes all of them, `unchanged` adds nothing, and passes on what clients sent, or with `trusted_proxies` what these sent. Not for `tunnel` and `split`",
        },
        Key {
            name: "trusted_proxies",
            form: Form::Texts {
                what: "networks or addresses",
                default: NONE,
            },
            about: "Proxies before this one that are believed what they say of clients: their `Forwarded`, `X-Forwarded-…`, `X-Real-IP` and the like are kept and extended, and the client's address for `allow`, `connections_per_client`, `hash_on`, pacing and the access log is the last one in `trusted_field` that is none of these proxies. Such fields of all others are removed. Only for `forward` and `switch`",
        },
        Key {
            name: "trusted_field",
            form: Form::OneOf {
                words: &["x-forwarded-for", "forwarded"],
                default: "forwarded with `forwarded = \"forwarded\"`, else x-forwarded-for",
            },
            about: "The field in which `trusted_proxies` name the client. Where it is there, what they pass on in the other form is removed",
        },
        Key {
            name: "underscores",
            form: Form::OneOf {
                words: &["drop", "refuse", "pass"],
                default: "drop",
            },
            about: "Request headers whose names have `_`, or anything else but letters, digits and hyphens, which CGI and its like take for other headers (`X_Forwarded_For`): `drop` takes them out, as nginx does, `refuse` answers 400, `pass` lets them through. Trailers likewise. Not for `tunnel` and `split`",
        },
        Key {
            name: "via",
            form: Form::Text {
                what: "a name",
                default: "\"carrick\"",
            },
            about: "The name in `Via` (RFC 9110 section 7.6.3); `\"\"`: no `Via`, and what servers of upstreams and parents get has a mark in `CDN-Loop` instead. Not for `tunnel` and `split`",
        },
        Key {
            name: "route",
            form: Form::Other {
                what: "`[[listener.route]]`",
                default: "required, but not with `transparent`",
            },
            about: "Where requests go. Only for `switch`, `tunnel` and `split`",
        },
        Key {
            name: "connect_ports",
            form: Form::Other {
                what: "a list of ports, `\"all\"` or `\"none\"`",
                default: "[443]",
            },
            about: "Ports that `CONNECT` may name. Only for `forward`",
        },
        Key {
            name: "deny_to",
            form: Form::Texts {
                what: "networks, addresses, name patterns or `\"inner\"`",
                default: "forward on loopback: none; else `\"inner\"`, the list of inner networks",
            },
            about: "Destinations that are refused; addresses are checked after name resolution. Only for `forward`, for `link`, and with `transparent`: there for what goes to its original destination",
        },
        Key {
            name: "users",
            form: Form::Text {
                what: "a path",
                default: "no authentication",
            },
            about: "An htpasswd file: basic authentication against it. Only for `forward`",
        },
        Key {
            name: "parent",
            form: Form::Other {
                what: "`{ proxy, for }`",
                default: NONE,
            },
            about: "Another proxy that requests go through. Only for `forward`",
        },
        link::OF_LISTENER,
        legs::OF_LISTENER,
        pace::OF_LISTENER,
        cache::USE,
        cache::DEFAULT_TTL,
        cache::KEY,
        cache::BYPASS,
        cache::PREFETCH,
    ],
};

/// `intercept = { … }`
pub static INTERCEPT: Table = Table {
    title: "intercept = { }",
    keys: &[
        Key {
            name: "ports",
            form: Form::Other {
                what: "a list of ports and of ranges such as `\"1000-2000\"`; or `\"all\"`",
                default: REQUIRED,
            },
            about: "Ports of the servers that clients connect to; the listener's own is none of `\"all\"`",
        },
        Key {
            name: "except_ports",
            form: Form::Other {
                what: "a list of ports and ranges",
                default: NONE,
            },
            about: "Of `ports`, those that are left alone",
        },
        Key {
            name: "interfaces",
            form: Form::Texts {
                what: "names; `eth*` is all that begin so",
                default: "all",
            },
            about: "Where the clients' packets come in",
        },
        Key {
            name: "from",
            form: Form::Texts {
                what: "networks or addresses",
                default: "all",
            },
            about: "Clients; others are not intercepted, and routed as if there were no proxy",
        },
        Key {
            name: "to",
            form: Form::Texts {
                what: "networks or addresses",
                default: "all but this machine's own",
            },
            about: "Destinations that are intercepted",
        },
        Key {
            name: "except",
            form: Form::Texts {
                what: "networks or addresses",
                default: NONE,
            },
            about: "Addresses that are left alone, as clients and as destinations",
        },
        Key {
            name: "local",
            form: Form::Switch { default: false },
            about: "Connections of this machine's own programs are intercepted as well, but carrick's are not; `interfaces` and `from` do not matter to them. Wants CAP_NET_RAW, and keeps it",
        },
        Key {
            name: "mark",
            form: Form::Other {
                what: "number, 1 to 4294967295",
                default: "100000 and the listener's port",
            },
            about: "The mark of intercepted packets in this machine, which no other program may use",
        },
        Key {
            name: "table",
            form: Form::Other {
                what: "number, 256 to 4294967295",
                default: "100000 and the listener's port",
            },
            about: "The routing table that such packets are looked up in, which no other program may use",
        },
    ],
};

/// `parent = { … }`
pub static PARENT: Table = Table {
    title: "parent = { }",
    keys: &[
        Key {
            name: "proxy",
            form: Form::Text {
                what: "`host:port`; port 3128 if left out",
                default: REQUIRED,
            },
            about: "The other proxy",
        },
        Key {
            name: "for",
            form: Form::Texts {
                what: "name patterns",
                default: "all",
            },
            about: "Destinations that go through it; the others are connected to directly",
        },
    ],
};

/// `[[listener.route]]`
pub static ROUTE: Table = Table {
    title: "[[listener.route]]",
    keys: &[
        Key {
            name: "upstream",
            form: Form::Text {
                what: "a name",
                default: "required without `to`",
            },
            about: "The `[upstream.NAME]` that requests go to",
        },
        Key {
            name: "to",
            form: Form::OneOf {
                words: &["original"],
                default: "the `upstream`",
            },
            about: "`original`: where the client wanted to go. In place of `upstream`, only with `transparent`",
        },
        Key {
            name: "host",
            form: Form::Text {
                what: "a name pattern",
                default: "any",
            },
            about: "Host name, without port; `*.example.org` is any depth below `example.org`, and `.example.org` also the name itself",
        },
        Key {
            name: "path",
            form: Form::Text {
                what: "a path",
                default: "any",
            },
            about: "Prefix of the path, compared exactly",
        },
        Key {
            name: "extension",
            form: Form::Texts {
                what: "words",
                default: "any",
            },
            about: "What follows the last dot of the last path segment: any of these, in small or capital letters",
        },
        Key {
            name: "cookie",
            form: Form::Text {
                what: "a name",
                default: "any",
            },
            about: "A cookie that must be there; with `!` before its name: that must not be there",
        },
        Key {
            name: "header",
            form: Form::Other {
                what: "`{ name, value }`",
                default: "any",
            },
            about: "A header line with this name (in small or capital letters) and exactly this value",
        },
        Key {
            name: "method",
            form: Form::Texts {
                what: "methods",
                default: "any",
            },
            about: "Any of these methods, in capital letters",
        },
        Key {
            name: "cgi",
            form: Form::Other {
                what: "`true` or `false`",
                default: "either",
            },
            about: "`true`: a path with `/cgi-bin/`, or a query string; `false`: neither",
        },
        Key {
            name: "sni",
            form: Form::Text {
                what: "a name pattern",
                default: "any",
            },
            about: "The server name in the TLS ClientHello, which is read and not terminated. Only for `tunnel` and `split`, which have no other condition",
        },
        Key {
            name: "engine",
            form: Form::OneOf {
                words: ENGINES,
                default: "that of the listener",
            },
            about: "Overrides the listener's `engine` for this route",
        },
        Key {
            name: "requests",
            form: Form::OneOf {
                words: &["process", "kernel"],
                default: "process",
            },
            about: "Who judges requests after the first one of a connection. `kernel`: plain ones that go where the last one went are forwarded without the process, as the client has sent them. Only for `switch`, with `engine = \"packet\"`, and with `forwarded` and `via` so that nothing is to be added",
        },
        Key {
            name: "responses",
            form: Form::OneOf {
                words: &["unread", "read"],
                default: "unread",
            },
            about: "Whether the process reads responses' heads where the packet engine moves their bodies. `unread`: nothing is done to them, as little as for a router. `read`: as with other engines; the kernel gets the rest of long bodies. Only for `switch`, with `engine = \"packet\"`",
        },
        link::OF_ROUTE,
        split::OF_ROUTE,
        pace::OF_ROUTE,
        cache::USE,
        cache::DEFAULT_TTL,
        cache::KEY,
        cache::BYPASS,
        cache::PREFETCH,
    ],
};

/// `header = { … }`
pub static HEADER: Table = Table {
    title: "header = { }",
    keys: &[
        Key {
            name: "name",
            form: Form::Text {
                what: "a header's name",
                default: REQUIRED,
            },
            about: "Compared without case",
        },
        Key {
            name: "value",
            form: Form::Text {
                what: "any text",
                default: REQUIRED,
            },
            about: "Compared exactly",
        },
    ],
};
