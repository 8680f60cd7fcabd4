//! Conditions against requests as they are parsed, and what `carrick check` may say about routes.
use super::{Conditions, CookieRule, is_unreachable, pick_request, pick_tunnel};
use crate::access::NamePattern;
use crate::http1::{HeadLimits, Progress, RequestHead};
use proptest::prelude::*;
use std::sync::LazyLock;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 65536,
    fields_max: 100,
};

fn parsed(text: &str) -> RequestHead {
    let mut head = RequestHead::new();
    assert_eq!(
        head.parse(text.as_bytes(), &LIMITS),
        Ok(Progress::Complete),
        "{text:?}"
    );
    head
}

fn matches(route: &Conditions, text: &str) -> bool {
    route.match_request(text.as_bytes(), &parsed(text))
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: www.example.org\r\n\r\n")
}

fn get_with(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: www.example.org\r\n{fields}\r\n")
}

fn host(pattern: &str) -> Option<NamePattern> {
    Some(NamePattern::parse(pattern).unwrap())
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn cookie(name: &str, present: bool) -> Option<CookieRule> {
    Some(CookieRule {
        name: name.to_owned(),
        present,
    })
}

fn header(name: &str, value: &str) -> Option<(String, String)> {
    Some((name.to_owned(), value.to_owned()))
}

fn with_path(path: &str) -> Conditions {
    Conditions {
        path: Some(path.to_owned()),
        ..Conditions::default()
    }
}

fn with_extension(extensions: &[&str]) -> Conditions {
    Conditions {
        extension: strings(extensions),
        ..Conditions::default()
    }
}

fn with_method(methods: &[&str]) -> Conditions {
    Conditions {
        method: strings(methods),
        ..Conditions::default()
    }
}

fn with_cgi(cgi: bool) -> Conditions {
    Conditions {
        cgi: Some(cgi),
        ..Conditions::default()
    }
}

fn with_cookie(name: &str, present: bool) -> Conditions {
    Conditions {
        cookie: cookie(name, present),
        ..Conditions::default()
    }
}

fn with_sni(pattern: &str) -> Conditions {
    Conditions {
        sni: host(pattern),
        ..Conditions::default()
    }
}

#[track_caller]
fn assert_targets(route: &Conditions, matching: &[&str], others: &[&str]) {
    for target in matching {
        assert!(matches(route, &get(target)), "{target}");
    }
    for target in others {
        assert!(!matches(route, &get(target)), "{target}");
    }
}

#[test]
fn without_conditions_everything_matches() {
    for text in [
        get("/"),
        get("http://a/"),
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.0\r\n\r\n".to_owned(),
    ] {
        assert!(matches(&Conditions::default(), &text), "{text:?}");
    }
    assert!(Conditions::default().match_tunnel(None));
    assert!(Conditions::default().match_tunnel(Some(b"a")));
}

#[test]
fn hosts_come_from_the_target_or_the_host_field() {
    let route = Conditions {
        host: host("*.example.org"),
        ..Conditions::default()
    };
    for (text, expected) in [
        ("GET / HTTP/1.1\r\nHost: WWW.Example.ORG\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a.b.example.org:8080\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", false),
        (
            "GET / HTTP/1.1\r\nHost: www.example.org.example\r\n\r\n",
            false,
        ),
        (
            "GET http://www.example.org/ HTTP/1.1\r\nHost: www.example.org\r\n\r\n",
            true,
        ),
        ("GET / HTTP/1.0\r\n\r\n", false),
    ] {
        assert_eq!(matches(&route, text), expected, "{text:?}");
    }
    let any = Conditions {
        host: host("*"),
        ..Conditions::default()
    };
    assert!(matches(&any, "GET / HTTP/1.0\r\n\r\n"));
    let address = Conditions {
        host: host("2001:db8::1"),
        ..Conditions::default()
    };
    assert!(matches(
        &address,
        "GET / HTTP/1.1\r\nHost: [2001:DB8::1]:80\r\n\r\n"
    ));
}

#[test]
fn paths_are_compared_as_they_were_sent() {
    assert_targets(
        &with_path("/images/"),
        &[
            "/images/",
            "/images/a.gif",
            "/images/../secret",
            "/images/?q",
            "http://www.example.org/images/x",
        ],
        &[
            "/",
            "/images",
            "/Images/a",
            "/%69mages/a",
            "//images/a",
            "/x/../images/a",
            "/./images/a",
            "/?/images/",
            "http://www.example.org",
        ],
    );
    assert_targets(
        &with_path("/"),
        &[
            "/",
            "/a",
            "http://www.example.org",
            "http://www.example.org?q",
            "/?",
        ],
        &[],
    );
    assert!(!matches(
        &with_path("/"),
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"
    ));
    assert_targets(&with_path("/a%20b"), &["/a%20b", "/a%20bc"], &["/a+b"]);
}

#[test]
fn extensions_are_those_of_the_last_segment() {
    assert_targets(
        &with_extension(&["gif", "JPG"]),
        &[
            "/a.gif",
            "/a.GIF",
            "/x/y/a.b.jpg",
            "/a.gif?x=y.png",
            "/a.gif;v=1",
            "/a.gif;b.png",
            "/.gif",
            "/a..gif",
            "/x;y/a.gif",
        ],
        &[
            "/",
            "/gif",
            "/a.gifs",
            "/a.gif/",
            "/a.gif/b",
            "/a.png?b.gif",
            "/a;b.gif",
            "/a.",
            "/a.%67if",
            "/a.gif%20",
            "/agif",
            "http://www.example.org",
        ],
    );
    assert_targets(
        &with_extension(&["tar.gz"]),
        &["/a.tar.gz", "/a.TAR.gz"],
        &["/a.gz", "/atar.gz", "/tar.gz"],
    );
    assert_targets(&with_extension(&["gz"]), &["/a.tar.gz", "/a.gz"], &[]);
    assert_targets(&with_extension(&[""]), &[], &["/a.", "/", "/a"]);
}

#[test]
fn cgi_is_a_path_or_a_query() {
    let cgi = [
        "/cgi-bin/x",
        "/a/cgi-bin/",
        "/?",
        "/?q=1",
        "/a?b",
        "http://www.example.org?q",
    ];
    let others = [
        "/",
        "/cgi-bin",
        "/CGI-BIN/x",
        "/a/xcgi-bin/",
        "/a.cgi",
        "http://www.example.org",
    ];
    assert_targets(&with_cgi(true), &cgi, &others);
    assert_targets(&with_cgi(false), &others, &cgi);
}

#[test]
fn cookies_are_there_or_not() {
    for (fields, expected) in [
        ("", false),
        ("Cookie: session=1\r\n", true),
        ("cookie: a=b; session=; c=d\r\n", true),
        ("Cookie: a=b\r\nCookie: session=1\r\n", true),
        ("Cookie: Session=1\r\n", false),
        ("Cookie: mysession=1\r\n", false),
        ("Cookie: session2=1\r\n", false),
        ("Cookie: a=session=1\r\n", false),
        ("X-Cookie: session=1\r\n", false),
    ] {
        assert_eq!(
            matches(&with_cookie("session", true), &get_with(fields)),
            expected,
            "{fields:?}"
        );
        assert_eq!(
            matches(&with_cookie("session", false), &get_with(fields)),
            !expected,
            "{fields:?}"
        );
    }
}

#[test]
fn headers_are_equal_in_any_of_their_lines() {
    let route = Conditions {
        header: header("x-beta", "1"),
        ..Conditions::default()
    };
    for (fields, expected) in [
        ("", false),
        ("X-Beta: 1\r\n", true),
        ("x-beta:   1 \r\n", true),
        ("X-Beta: 0\r\nX-BETA: 1\r\n", true),
        ("X-Beta: 10\r\n", false),
        ("X-Beta: 0, 1\r\n", false),
        ("X-Beta:\r\n", false),
        ("X-Betas: 1\r\n", false),
        ("X: x-beta: 1\r\n", false),
    ] {
        assert_eq!(matches(&route, &get_with(fields)), expected, "{fields:?}");
    }
    let empty = Conditions {
        header: header("x-beta", ""),
        ..Conditions::default()
    };
    assert!(matches(&empty, &get_with("X-Beta: \r\n")));
    assert!(!matches(&empty, &get_with("")));
    let case = Conditions {
        header: header("x-beta", "Yes"),
        ..Conditions::default()
    };
    assert!(!matches(&case, &get_with("X-Beta: yes\r\n")));
}

#[test]
fn methods_are_compared_exactly() {
    let route = with_method(&["GET", "PURGE"]);
    for (method, expected) in [
        ("GET", true),
        ("PURGE", true),
        ("HEAD", false),
        ("get", false),
        ("GETS", false),
    ] {
        assert_eq!(
            matches(&route, &format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n")),
            expected,
            "{method}"
        );
    }
}

#[test]
fn every_condition_must_hold() {
    let all = Conditions {
        host: host("*.example.org"),
        path: Some("/images/".to_owned()),
        extension: strings(&["gif"]),
        cookie: cookie("session", false),
        header: header("x-beta", "1"),
        method: strings(&["GET", "HEAD"]),
        cgi: Some(false),
        // Not looked at in requests.
        sni: host("other.example"),
    };
    let right = "GET /images/a.gif HTTP/1.1\r\nHost: www.example.org\r\nX-Beta: 1\r\n\r\n";
    assert!(matches(&all, right));
    for (from, to) in [
        ("www.example.org", "example.org"),
        ("/images/", "/image/"),
        (".gif", ".png"),
        ("X-Beta: 1", "X-Beta: 1\r\nCookie: session=1"),
        ("X-Beta: 1", "X-Beta: 2"),
        ("GET", "POST"),
        (".gif", ".gif?"),
    ] {
        assert!(!matches(&all, &right.replace(from, to)), "{to}");
    }
}

#[test]
fn tunnels_are_matched_by_server_name() {
    let route = with_sni("*.example.org");
    assert!(route.match_tunnel(Some(b"a.example.org")));
    assert!(!route.match_tunnel(Some(b"example.org")));
    assert!(!route.match_tunnel(None));
    assert!(with_sni("*").match_tunnel(Some(b"a")));
    assert!(!with_sni("*").match_tunnel(None), "it asks for some name");
}

#[test]
fn the_first_route_is_taken() {
    let routes = [
        with_path("/images/"),
        with_cgi(true),
        Conditions::default(),
        with_path("/"),
    ];
    for (target, expected) in [("/images/a?b", 0), ("/a?b", 1), ("/a", 2)] {
        let text = get(target);
        assert_eq!(
            pick_request(routes.iter(), text.as_bytes(), &parsed(&text)),
            Some(expected),
            "{target}"
        );
    }
    let text = get("/a");
    assert_eq!(
        pick_request(routes[..2].iter(), text.as_bytes(), &parsed(&text)),
        None
    );
    let tunnels = [with_sni("a.example"), with_sni("*"), Conditions::default()];
    for (name, expected) in [
        (Some(b"a.example".as_slice()), 0),
        (Some(b"b.example"), 1),
        (None, 2),
    ] {
        assert_eq!(pick_tunnel(tunnels.iter(), name), Some(expected));
    }
}

#[test]
fn covered_routes_are_found() {
    let method_and_path = Conditions {
        path: Some("/a".to_owned()),
        ..with_method(&["GET"])
    };
    let header_1 = Conditions {
        header: header("X-Beta", "1"),
        ..Conditions::default()
    };
    let header_2 = Conditions {
        header: header("x-beta", "1"),
        cgi: Some(true),
        ..Conditions::default()
    };
    let host_any = Conditions {
        host: host("*"),
        ..Conditions::default()
    };
    let host_narrow = Conditions {
        host: host("a.b.example"),
        ..Conditions::default()
    };
    let host_wide = Conditions {
        host: host("*.example"),
        ..Conditions::default()
    };
    let rows = [
        (Conditions::default(), Conditions::default()),
        (Conditions::default(), method_and_path.clone()),
        (Conditions::default(), with_sni("a")),
        (host_any.clone(), Conditions::default()),
        (host_wide.clone(), host_narrow.clone()),
        (with_path("/images"), with_path("/images/")),
        (with_path(""), Conditions::default()),
        (with_path("/"), with_extension(&["gif"])),
        (with_path("/"), with_cgi(true)),
        (with_path("/"), with_method(&["GET", "POST"])),
        (with_path("/a"), method_and_path.clone()),
        (with_method(&["HEAD", "GET"]), with_method(&["GET"])),
        (
            with_extension(&["GIF", "gz"]),
            with_extension(&["gif", "tar.gz"]),
        ),
        (with_cgi(true), with_path("/cgi-bin/x")),
        (with_cookie("a", false), with_cookie("a", false)),
        (header_1.clone(), header_2.clone()),
        (with_sni("*"), with_sni("a.b")),
    ];
    for (earlier, later) in &rows {
        assert!(earlier.covers(later), "{earlier:?} {later:?}");
        assert!(is_unreachable(&[earlier], later), "{earlier:?} {later:?}");
    }
    let rows = [
        (method_and_path, Conditions::default()),
        (host_narrow, host_wide),
        (with_path("/images/"), with_path("/images")),
        (with_path("/"), Conditions::default()),
        (with_path("/"), with_method(&["OPTIONS"])),
        (with_path("/"), with_cgi(false)),
        (with_method(&["GET"]), with_method(&["GET", "HEAD"])),
        (with_extension(&["tar.gz"]), with_extension(&["gz"])),
        (with_extension(&["gif"]), with_path("/a.gif")),
        (with_cgi(true), with_cgi(false)),
        (with_cgi(false), with_path("/")),
        (with_cookie("a", true), with_cookie("a", false)),
        (with_cookie("a", true), with_cookie("A", true)),
        (header_2, header_1),
        (with_sni("*"), Conditions::default()),
    ];
    for (earlier, later) in &rows {
        assert!(!earlier.covers(later), "{earlier:?} {later:?}");
        assert!(!is_unreachable(&[earlier], later), "{earlier:?} {later:?}");
    }
}

#[test]
fn several_routes_cover_one_together() {
    let [get, head] = [with_method(&["GET"]), with_method(&["HEAD"])];
    let both = with_method(&["GET", "HEAD"]);
    assert!(is_unreachable(&[&get, &head], &both));
    assert!(!is_unreachable(&[&get], &both));
    let [session, none] = [with_cookie("s", true), with_cookie("s", false)];
    assert!(is_unreachable(&[&session, &none], &Conditions::default()));
    assert!(is_unreachable(&[&session, &none], &both));
    assert!(!is_unreachable(
        &[&session, &with_cookie("t", false)],
        &Conditions::default()
    ));
    assert!(!is_unreachable(
        &[&session, &session],
        &Conditions::default()
    ));
    assert!(is_unreachable(
        &[&with_cgi(true), &with_cgi(false)],
        &Conditions::default()
    ));
    assert!(is_unreachable(
        &[&with_cgi(true), &none, &session],
        &Conditions::default()
    ));
    let images = [with_extension(&["gif"]), with_extension(&["png"])];
    assert!(is_unreachable(
        &[&images[0], &images[1]],
        &with_extension(&["png", "gif"])
    ));
    let [cgi_session, cgi_none] = [&session, &none].map(|route| Conditions {
        cgi: Some(true),
        ..route.clone()
    });
    assert!(is_unreachable(
        &[&cgi_session, &cgi_none, &with_cgi(false)],
        &Conditions::default()
    ));
    assert!(!is_unreachable(
        &[&cgi_session, &with_cgi(false)],
        &Conditions::default()
    ));
    assert!(!is_unreachable(&[], &Conditions::default()));
}

#[test]
fn what_can_never_match_is_told() {
    let rows = [
        (with_path("images/"), "\"/images/\""),
        (with_path("/a?b"), "cgi = true"),
        (with_path("/a b"), "%20"),
        (with_path("/a\r\n"), "control"),
        (
            Conditions {
                cgi: Some(false),
                ..with_path("/x/cgi-bin/y")
            },
            "cgi = false",
        ),
        (with_extension(&[""]), "without the dot"),
        (with_extension(&["a/b", "c;d"]), "\"a/b\""),
        (with_method(&["CONNECT"]), "forward"),
        (with_method(&["CONNECT", "G T"]), "forward"),
        (with_method(&[""]), "GET"),
        (
            Conditions {
                header: header("x-beta:", "1"),
                ..Conditions::default()
            },
            "colon",
        ),
        (
            Conditions {
                header: header("", "1"),
                ..Conditions::default()
            },
            "named",
        ),
        (
            Conditions {
                header: header("x-beta", " 1"),
                ..Conditions::default()
            },
            "spaces",
        ),
        (
            Conditions {
                header: header("x-beta", "1\n"),
                ..Conditions::default()
            },
            "control",
        ),
        (with_cookie("a=b", true), "\"a=b\""),
        (with_cookie("a;", true), "\"a;\""),
    ];
    for (route, part) in rows {
        let reason = route.never_matches();
        assert!(
            reason.as_ref().is_some_and(|reason| reason.contains(part)),
            "{route:?}: {reason:?}"
        );
    }
    let fine = [
        Conditions::default(),
        with_path(""),
        with_path("/a%20b"),
        with_extension(&["", "gif"]),
        with_method(&["CONNECT", "GET"]),
        with_method(&["get"]),
        Conditions {
            cgi: Some(false),
            ..with_path("/cgi-bin")
        },
        Conditions {
            header: header("X-Beta", ""),
            ..Conditions::default()
        },
        with_cookie("a=b", false),
    ];
    for route in fine {
        assert_eq!(route.never_matches(), None, "{route:?}");
    }
}

/// Conditions and requests from the same few words, so that they often meet.
fn some_conditions() -> impl Strategy<Value = Conditions> {
    let host = prop::option::of(prop_oneof!["(\\*\\.|\\.)?(a\\.)?b", Just("*".to_owned())]);
    let path = prop::option::of(prop_oneof![
        "/?(x/|cgi-bin/){0,2}(y\\.gif)?\\??",
        Just(String::new())
    ]);
    let extension = prop::collection::vec(
        prop_oneof![
            "gif|GIF|b.gif|gz|png",
            Just("a/".to_owned()),
            Just(String::new())
        ],
        0..3,
    );
    let cookie = prop::option::of(
        ("s|t|s=", any::<bool>()).prop_map(|(name, present)| CookieRule { name, present }),
    );
    let header =
        prop::option::of(("x-a|X-A|x-b|x:", "1|2| 1").prop_map(|(name, value)| (name, value)));
    let method = prop::collection::vec("GET|HEAD|OPTIONS|CONNECT|G T", 0..3);
    let cgi = prop::option::of(any::<bool>());
    let sni = prop::option::of(prop_oneof!["(\\*\\.|\\.)?(a\\.)?b", Just("*".to_owned())]);
    // Most conditions are left out, or hardly any route would cover another.
    let kept = prop::collection::vec(prop::bool::weighted(0.3), 8);
    (
        host, path, extension, cookie, header, method, cgi, sni, kept,
    )
        .prop_map(
            |(host, path, extension, cookie, header, method, cgi, sni, kept)| {
                let pattern = |text: String| NamePattern::parse(&text).unwrap();
                Conditions {
                    host: host.filter(|_| kept[0]).map(pattern),
                    path: path.filter(|_| kept[1]),
                    extension: if kept[2] { extension } else { Vec::new() },
                    cookie: cookie.filter(|_| kept[3]),
                    header: header.filter(|_| kept[4]),
                    method: if kept[5] { method } else { Vec::new() },
                    cgi: cgi.filter(|_| kept[6]),
                    sni: sni.filter(|_| kept[7]).map(pattern),
                }
            },
        )
}

/// Every mix of some targets, methods, hosts and fields.
static REQUESTS: LazyLock<Vec<(String, RequestHead)>> = LazyLock::new(|| {
    let targets = [
        "/",
        "/?",
        "/x/",
        "/x/y.gif",
        "/x/y.gif?q",
        "/y.b.gif",
        "/y.GIF;p",
        "/a.gz?",
        "/cgi-bin/",
        "/cgi-bin/y.gif",
        "/x/cgi-bin/?q",
        "/y.",
        "http://b",
        "http://b?q",
        "http://a.b/x/x/y.gif",
        "*",
    ];
    let cookies = [
        "",
        "Cookie: s=1\r\n",
        "Cookie: t=2; u=\r\n",
        "Cookie: s=1; t=\r\n",
    ];
    let others = ["", "X-A: 1\r\n", "x-a: 2\r\nX-A: 1\r\n", "X-B: 1\r\n"];
    let mut requests = Vec::new();
    for (target, method) in targets
        .iter()
        .flat_map(|target| ["GET", "HEAD", "OPTIONS"].map(|method| (target, method)))
    {
        for host in ["b", "a.b", "c.a.b", "c"] {
            for (cookie, other) in cookies
                .iter()
                .flat_map(|cookie| others.map(|other| (cookie, other)))
            {
                let of_target = target
                    .strip_prefix("http://")
                    .and_then(|rest| rest.split(['/', '?']).next());
                let host = of_target.unwrap_or(host);
                let text =
                    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{cookie}{other}\r\n");
                if *target != "*" || method == "OPTIONS" {
                    let head = parsed(&text);
                    requests.push((text, head));
                }
            }
        }
    }
    requests
});

/// The requests that `route` matches and none of `others` does.
fn only_matched_by<'r>(
    route: &'r Conditions,
    others: &'r [Conditions],
) -> impl Iterator<Item = &'r str> {
    let is_matched = |route: &Conditions, (text, head): &(String, RequestHead)| {
        route.match_request(text.as_bytes(), head)
    };
    let all = REQUESTS.iter();
    let matched = all.filter(move |request| {
        is_matched(route, request) && !others.iter().any(|other| is_matched(other, request))
    });
    matched.map(|(text, _)| text.as_str())
}

const SERVER_NAMES: [Option<&[u8]>; 5] =
    [None, Some(b"b"), Some(b"a.b"), Some(b"c.a.b"), Some(b"c")];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn covering_is_never_claimed_falsely(earlier in some_conditions(), later in some_conditions()) {
        prop_assert!(earlier.covers(&earlier));
        if earlier.covers(&later) {
            let earlier = [earlier];
            prop_assert_eq!(only_matched_by(&later, &earlier).next(), None);
            for name in SERVER_NAMES {
                prop_assert!(!later.match_tunnel(name) || earlier[0].match_tunnel(name), "{:?}", name);
            }
        }
    }

    #[test]
    fn unreachable_routes_are_never_reached(earlier in prop::collection::vec(some_conditions(), 0..6), later in some_conditions()) {
        let routes: Vec<_> = earlier.iter().collect();
        if is_unreachable(&routes, &later) {
            prop_assert_eq!(only_matched_by(&later, &earlier).next(), None);
            for name in SERVER_NAMES {
                prop_assert!(!later.match_tunnel(name) || earlier.iter().any(|route| route.match_tunnel(name)), "{:?}", name);
            }
        }
    }

    #[test]
    fn what_never_matches_matches_nothing(route in some_conditions()) {
        if route.never_matches().is_some() {
            prop_assert_eq!(only_matched_by(&route, &[]).next(), None);
        }
    }
}
