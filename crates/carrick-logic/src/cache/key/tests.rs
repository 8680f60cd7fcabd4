//! Keys: the same for the same resource, different for all others.
use super::{
    GUARDED_FIELDS, KeyQuery, KeyRules, NoKey, NotFilled, Realm, changed_uri, may_fill, target_uri,
    write_key, write_key_prefix,
};
use crate::cache::{Fields, Uri};
use crate::http1::{
    Forwarded, HeadLimits, NamedIn, Progress, RequestHead, RequestRewrite, StatedIn, TargetForm,
    write_request,
};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 4096,
    fields_max: 100,
};

fn parse(text: &str) -> RequestHead {
    let mut head = RequestHead::new();
    assert_eq!(head.parse(text.as_bytes(), &LIMITS), Ok(Progress::Complete));
    head
}

/// The key of a request for `target` with these lines, for the upstream `u`.
fn key(target: &str, lines: &str, rules: &KeyRules) -> Result<String, NoKey> {
    let text = format!("GET {target} HTTP/1.1\r\n{lines}\r\n");
    let head = parse(&text);
    let uri = target_uri(&head, text.as_bytes())?;
    let fields = Fields::of_request(&head, text.as_bytes());
    let mut out = Vec::new();
    write_key(&mut out, Realm::Upstream("u"), &uri, fields, rules);
    Ok(String::from_utf8(out).unwrap())
}

fn plain(target: &str, host: &str) -> String {
    key(target, &format!("Host: {host}\r\n"), &KeyRules::default()).unwrap()
}

fn with_query(target: &str, query: KeyQuery) -> String {
    let rules = KeyRules {
        query,
        ..KeyRules::default()
    };
    key(target, "Host: h\r\n", &rules).unwrap()
}

fn these(target: &str, names: &[&str]) -> String {
    let names = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    with_query(target, KeyQuery::These(names))
}

#[test]
fn a_key_is_realm_and_url() {
    assert_eq!(plain("/a?b=c", "h"), "upstream=1:u http://h:80/a?b=c");
    let mut out = Vec::new();
    let uri = Uri {
        scheme: b"http",
        host: b"h",
        port: 8080,
        path_and_query: b"",
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 3128));
    write_key_prefix(&mut out, Realm::Listener(address), &uri);
    assert_eq!(out, b"listener=127.0.0.1:3128 http://h:8080");
}

#[test]
fn rfc_3986_6_2_scheme_host_and_port_have_one_form() {
    let usual = plain("/x", "example.org");
    for (target, host) in [
        ("/x", "EXAMPLE.org"),
        ("/x", "example.org:80"),
        ("/x", "example.org."),
        ("http://example.org/x", "example.org"),
        ("HTTP://Example.Org:80/x", "example.org"),
    ] {
        assert_eq!(plain(target, host), usual, "{target} {host}");
    }
    for host in ["example.org:8080", "example.com", "www.example.org"] {
        assert_ne!(plain("/x", host), usual, "{host}");
    }
    let address = plain("/x", "[2001:db8::1]");
    assert_eq!(address, "upstream=1:u http://[2001:db8::1]:80/x");
    assert_eq!(plain("/x", "[2001:DB8:0:0::0:1]:80"), address);
    assert_eq!(plain("http://h", "h"), plain("/", "h"));
    assert_eq!(plain("http://h?q", "h"), plain("/?q", "h"));
}

#[test]
fn path_and_query_are_as_they_were_sent() {
    let targets = [
        "/a", "/A", "/a/", "//a", "/%61", "/%7e", "/%7E", "/~", "/a?", "/a?b", "/a?b&c", "/a?c&b",
        "/a%2fb", "/a/b", "/a;b", "/%2e/a", "/a\\b",
    ];
    for (index, one) in targets.iter().enumerate() {
        for other in &targets[index + 1..] {
            assert_ne!(plain(one, "h"), plain(other, "h"), "{one} {other}");
        }
    }
}

#[test]
fn what_names_no_resource_has_no_key() {
    for (text, why) in [
        ("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", NoKey::NoResource),
        (
            "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n",
            NoKey::NoResource,
        ),
        ("GET /x HTTP/1.0\r\n\r\n", NoKey::NoHost),
        ("GET /x HTTP/1.0\r\nHost:\r\n\r\n", NoKey::NoHost),
        (
            "GET /a/../b HTTP/1.1\r\nHost: h\r\n\r\n",
            NoKey::DotSegments,
        ),
        ("GET /./b HTTP/1.1\r\nHost: h\r\n\r\n", NoKey::DotSegments),
        (
            "GET http://h/.. HTTP/1.1\r\nHost: h\r\n\r\n",
            NoKey::DotSegments,
        ),
    ] {
        let head = parse(text);
        assert_eq!(target_uri(&head, text.as_bytes()), Err(why), "{text}");
        let changed = changed_uri(&head, text.as_bytes()).err();
        let is_for_none = (why != NoKey::DotSegments).then_some(why);
        assert_eq!(changed, is_for_none, "{text}");
    }
    for target in ["/a..b/c", "/...", "/x?/../y", "/.well-known/x"] {
        assert!(
            key(target, "Host: h\r\n", &KeyRules::default()).is_ok(),
            "{target}"
        );
    }
}

/// The key has the target's host, and so does the forwarded request: a differing `Host` reaches neither.
#[test]
fn rfc_9112_3_2_2_a_host_that_disagrees_with_the_target_is_nowhere() {
    assert_eq!(
        plain("http://good/x", "evil"),
        plain("http://good/x", "good")
    );
    let text = "GET http://good/x HTTP/1.1\r\nHost: evil\r\n\r\n";
    let head = parse(text);
    let how = RequestRewrite {
        form: TargetForm::Origin,
        default_host: "",
        name: "",
        named_in: NamedIn::Nothing,
        mark: None,
        client: IpAddr::V4(Ipv4Addr::LOCALHOST),
        forwarded: Forwarded::XForwarded,
        stated_in: StatedIn::default(),
        pass_proxy_authorization: false,
        pass_upgrade: false,
        pass_te_trailers: false,
        drop_expect: false,
        omitted: &[],
        added: &[],
    };
    let mut sent = Vec::new();
    write_request(&mut sent, text.as_bytes(), &head, &how);
    let sent = String::from_utf8(sent).unwrap();
    assert!(
        sent.starts_with("GET /x HTTP/1.1\r\nHost: good\r\n"),
        "{sent}"
    );
    assert!(!sent.contains("evil"), "{sent}");
    let twice = "GET /x HTTP/1.1\r\nHost: good\r\nHost: evil\r\n\r\n";
    assert!(RequestHead::new().parse(twice.as_bytes(), &LIMITS).is_err());
}

#[test]
fn the_same_url_is_something_else_to_other_realms() {
    let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
    let realms = [
        Realm::Upstream("u"),
        Realm::Upstream("u http://h:80/x"),
        Realm::Upstream("192.0.2.1:80"),
        Realm::Listener(address(80)),
        Realm::Listener(address(81)),
        Realm::Original(address(80)),
    ];
    let keys: Vec<Vec<u8>> = realms
        .iter()
        .map(|realm| {
            let uri = Uri {
                scheme: b"http",
                host: b"h",
                port: 80,
                path_and_query: b"/x",
            };
            let mut out = Vec::new();
            write_key(
                &mut out,
                *realm,
                &uri,
                Fields::of_text(b""),
                &KeyRules::default(),
            );
            out
        })
        .collect();
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[index + 1..].contains(key), "{:?}", realms[index]);
    }
}

#[test]
fn chosen_parameters_count_in_any_order_and_others_do_not() {
    let usual = these("/x?a=1&b=2", &["a", "b"]);
    for target in ["/x?b=2&a=1", "/x?utm_source=y&a=1&b=2", "/x?&a=1&&b=2&"] {
        assert_eq!(these(target, &["a", "b"]), usual, "{target}");
    }
    for target in [
        "/x",
        "/x?a=1",
        "/x?a=2&b=1",
        "/x?a=1&b=2&b=3",
        "/x?a=1&b",
        "/x?a=1&b=",
        "/x?a=1%26b&b=2",
    ] {
        assert_ne!(these(target, &["a", "b"]), usual, "{target}");
    }
    // The order of one parameter's values may matter.
    assert_ne!(these("/x?a=1&a=2", &["a"]), these("/x?a=2&a=1", &["a"]));
    assert_ne!(these("/x?a", &["a"]), these("/x?a=", &["a"]));
}

/// Parameters that a server could take for a chosen one, though they look different, stay in the key.
#[test]
fn a_query_that_parsers_read_differently_is_in_the_key_as_a_whole() {
    let usual = these("/x?a=1", &["a"]);
    for target in [
        "/x?a=1&utm=2;a=evil",
        "/x?a=1&%61=evil",
        "/x?a=1&A=evil",
        "/x?a=1&a[]=evil",
        "/x?a=1&a%00=evil",
        "/x?a=1&+a=evil",
    ] {
        assert_ne!(these(target, &["a"]), usual, "{target}");
        assert!(these(target, &["a"]).ends_with(&target[2..]), "{target}");
    }
    assert_ne!(
        these("/x?a_b=1&a.b=evil", &["a_b"]),
        these("/x?a_b=1", &["a_b"])
    );
}

#[test]
fn rules_for_the_query_do_not_share_keys() {
    assert_eq!(
        with_query("/x?a", KeyQuery::None),
        with_query("/x", KeyQuery::None)
    );
    let keys = [
        with_query("/x", KeyQuery::All),
        with_query("/x", KeyQuery::None),
        these("/x", &["a"]),
        these("/x", &["b"]),
        these("/x", &["a", "b"]),
        these("/x?a", &["a", "b"]),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[index + 1..].contains(key), "{key}");
    }
}

#[test]
fn only_named_headers_are_in_the_key() {
    let rules = KeyRules {
        headers: vec![b"x-tenant".to_vec(), b"x-b".to_vec()],
        ..KeyRules::default()
    };
    let key = |lines: &str| key("/x", &format!("Host: h\r\n{lines}"), &rules).unwrap();
    let usual = key("X-Tenant: one\r\n");
    for lines in [
        "x-tenant: one\r\nCookie: c=1\r\nX-Forwarded-Host: evil\r\nUser-Agent: y\r\n",
        "Accept: */*\r\nX-TENANT:   one  \r\n",
    ] {
        assert_eq!(key(lines), usual, "{lines}");
    }
    for lines in [
        "",
        "X-Tenant:\r\n",
        "X-Tenant: One\r\n",
        "X-Tenant: one\r\nX-Tenant: one\r\n",
        "X-B: one\r\n",
        "X-Tenant: one\r\nX-B:\r\n",
        "X-Tenant: one3:x-b\r\n",
    ] {
        assert_ne!(key(lines), usual, "{lines}");
    }
    assert_ne!(
        key("X-Tenant: ab\r\nX-Tenant: c\r\n"),
        key("X-Tenant: a\r\nX-Tenant: bc\r\n")
    );
}

#[test]
fn what_servers_may_heed_and_no_key_has_is_not_filled() {
    let uri = Uri {
        scheme: b"http",
        host: b"h",
        port: 80,
        path_and_query: b"/",
    };
    let fill = |lines: &str, headers: &[&str]| {
        let headers = headers.iter().map(|name| name.as_bytes().to_vec());
        let rules = KeyRules {
            headers: headers.collect(),
            ..KeyRules::default()
        };
        may_fill(&uri, b"h", Fields::of_text(lines.as_bytes()), &rules)
    };
    let guarded = GUARDED_FIELDS.iter().map(|name| name.to_vec());
    let more = [
        "x-forwarded",
        "x-forwarded-host",
        "x-forwarded-path",
        "x-forwarded-port",
        "x-forwarded-prefix",
        "x-forwarded-proto",
        "x-forwarded-scheme",
        "x-forwarded-ssl",
        "x-forwarded-uri",
    ];
    let more = more.iter().map(|name| name.as_bytes().to_vec());
    for name in guarded.chain(more) {
        let name = String::from_utf8(name).unwrap();
        assert_eq!(name, name.to_ascii_lowercase());
        let odd = name.replace('-', "_");
        for written in [
            name.to_ascii_uppercase(),
            odd.clone(),
            odd.replace('_', "."),
        ] {
            let line = format!("{written}: evil\r\n");
            assert_eq!(fill(&line, &[]), Err(NotFilled::GuardedField), "{line}");
        }
        let line = format!("{name}: evil\r\n");
        assert_eq!(fill(&line, &["x-other", &name]), Ok(()), "{name}");
        if odd != name {
            // It is not this one that is in the key.
            let line = format!("{odd}: evil\r\n");
            assert_eq!(fill(&line, &[&name]), Err(NotFilled::GuardedField));
        }
    }
    for lines in [
        "X-Forwarded-For: 192.0.2.1\r\nCookie: x\r\n",
        "X_Forwarded_For: 192.0.2.1\r\n",
        "X-Real-IP: 192.0.2.1\r\nX-Request-ID: 1\r\nX: y\r\n",
    ] {
        assert_eq!(fill(lines, &[]), Ok(()), "{lines}");
    }
}

/// The key has one form of host and port, and servers get what was written.
#[test]
fn a_host_in_another_form_than_the_keys_is_not_filled() {
    for (target, host, is_usual) in [
        ("/", "h.example", true),
        ("/", "h.example:8080", true),
        ("/", "h.example:443", true),
        ("/", "h.example:", true),
        ("/", "192.0.2.1", true),
        ("/", "[2001:db8::1]", true),
        ("/", "[2001:db8::1]:8080", true),
        ("http://h.example/", "H.example:80", true),
        ("/", "H.example", false),
        ("/", "h.example.", false),
        ("/", "h.example:80", false),
        ("/", "[2001:DB8::1]", false),
        ("/", "[2001:db8:0::1]", false),
        ("/", "[2001:db8::1]:80", false),
        ("http://h.example:80/", "h.example", false),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let head = parse(&text);
        let bytes = text.as_bytes();
        let filled = may_fill(
            &target_uri(&head, bytes).unwrap(),
            head.host_and_port.of(bytes),
            Fields::of_request(&head, bytes),
            &KeyRules::default(),
        );
        let expected = if is_usual {
            Ok(())
        } else {
            Err(NotFilled::HostForm)
        };
        assert_eq!(filled, expected, "{text}");
    }
}

/// Fields named by `Connection` are not forwarded: the server would answer without the value that the key has.
#[test]
fn rfc_9110_7_6_1_a_field_that_is_taken_away_on_the_way_is_not_filled() {
    let fill = |lines: &str| {
        let uri = Uri {
            scheme: b"http",
            host: b"h",
            port: 80,
            path_and_query: b"/",
        };
        may_fill(
            &uri,
            b"h",
            Fields::of_text(lines.as_bytes()),
            &KeyRules::default(),
        )
    };
    for lines in [
        "X-Tenant: a\r\nConnection: x-tenant\r\n",
        "Connection: keep-alive, Cookie\r\nCookie: c=1\r\n",
        "Connection: close\r\nConnection: ,X-Tenant ,\r\nX-Tenant: a\r\n",
    ] {
        assert_eq!(fill(lines), Err(NotFilled::FieldForOneHop), "{lines}");
    }
    for lines in [
        "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n",
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n",
        "Connection: TE\r\nTE: trailers\r\n",
        "Connection: x-tenant\r\n",
    ] {
        assert_eq!(fill(lines), Ok(()), "{lines}");
    }
}

/// Everything that the key must distinguish, from small alphabets so that equal values are frequent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    realm: String,
    host: String,
    port: u16,
    path: String,
    query: Option<Vec<(String, Option<String>)>>,
    headers: Vec<(bool, String)>,
}

prop_compose! {
    fn asked()(
        realm in "[u: /]{0,3}",
        host in "[ab.]{1,3}",
        port in prop_oneof![Just(80), Just(8), Just(1)],
        path in "/[a/:]{0,3}",
        query in prop::option::of(prop::collection::vec(("[abc]", prop::option::of("[1=:!a]{0,2}")), 0..4)),
        headers in prop::collection::vec((any::<bool>(), "[1:\t\nxa]{0,4}"), 0..4),
    ) -> Asked {
        Asked { realm, host, port, path, query, headers }
    }
}

impl Asked {
    fn query_text(&self) -> String {
        let Some(pairs) = &self.query else {
            return String::new();
        };
        let pieces: Vec<String> = pairs
            .iter()
            .map(|(name, value)| match value {
                Some(value) => format!("{name}={value}"),
                None => name.clone(),
            })
            .collect();
        format!("?{}", pieces.join("&"))
    }

    /// The parts that identify the resource under `rules`, in a separate representation.
    fn meaning(&self, rules: &KeyRules) -> impl PartialEq + std::fmt::Debug + use<> {
        let host = self.host.strip_suffix('.').unwrap_or(&self.host).to_owned();
        let query = match &rules.query {
            KeyQuery::All => vec![(self.query_text(), None)],
            KeyQuery::None => Vec::new(),
            KeyQuery::These(_) => {
                let mut pairs = self.query.clone().unwrap_or_default();
                pairs.retain(|(name, _)| name != "c");
                pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
                pairs
            }
        };
        let values = |is_first: bool| -> Vec<String> {
            let headers = self.headers.iter().filter(|(first, _)| *first == is_first);
            headers.map(|(_, value)| value.clone()).collect()
        };
        let path = self.path.clone();
        (
            self.realm.clone(),
            host,
            self.port,
            path,
            query,
            values(true),
            values(false),
        )
    }

    fn key(&self, rules: &KeyRules) -> Vec<u8> {
        let path_and_query = format!("{}{}", self.path, self.query_text());
        let uri = Uri {
            scheme: b"http",
            host: self.host.as_bytes(),
            port: self.port,
            path_and_query: path_and_query.as_bytes(),
        };
        // Values with line ends cannot come from a head; the key's lengths protect against them anyway, so they are tested separately here.
        let text: String = self
            .headers
            .iter()
            .map(|(first, value)| {
                let name = if *first { "x" } else { "y" };
                format!("{name}: {}\r\n", value.replace('\n', "\u{1}"))
            })
            .collect();
        let mut out = Vec::new();
        write_key(
            &mut out,
            Realm::Upstream(&self.realm),
            &uri,
            Fields::of_text(text.as_bytes()),
            rules,
        );
        out
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn keys_are_the_same_if_and_only_if_the_same_is_asked_for(
        one in asked(),
        other in asked(),
        parts in any::<[bool; 6]>(),
        rule in 0..3,
        has_headers in any::<bool>(),
    ) {
        let rules = KeyRules {
            query: match rule {
                0 => KeyQuery::All,
                1 => KeyQuery::None,
                _ => KeyQuery::These(vec![b"a".to_vec(), b"b".to_vec()]),
            },
            headers: if has_headers { vec![b"x".to_vec(), b"y".to_vec()] } else { Vec::new() },
        };
        // Requests differ in some parts only; two independent ones would hardly ever be equal.
        let pick = |index: usize| if parts[index] { &one } else { &other };
        let mut mixed = Asked {
            realm: pick(0).realm.clone(),
            host: pick(1).host.clone(),
            port: pick(2).port,
            path: pick(3).path.clone(),
            query: pick(4).query.clone(),
            headers: pick(5).headers.clone(),
        };
        let mut one = one;
        for asked in [&mut one, &mut mixed] {
            for (_, value) in &mut asked.headers {
                *value = value.trim().to_owned();
            }
            if !has_headers {
                asked.headers.clear();
            }
        }
        prop_assert_eq!(
            one.key(&rules) == mixed.key(&rules),
            one.meaning(&rules) == mixed.meaning(&rules)
        );
    }
}
