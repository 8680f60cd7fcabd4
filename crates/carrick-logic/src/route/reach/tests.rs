//! `carrick check`'s statements about routes: it never claims "never" wrongly.
use super::{Conditions, CookieRule, is_unreachable};
use crate::access::NamePattern;
use crate::http1::RequestHead;
use crate::route::tests::{
    header, host, parsed, with_cgi, with_cookie, with_extension, with_method, with_path, with_sni,
};
use proptest::prelude::*;
use std::sync::LazyLock;

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
    // No request has this path, but a tunnel has no path.
    assert!(!is_unreachable(&[&with_cgi(true)], &with_path("x")));
}

#[test]
fn conditions_that_never_match_are_reported() {
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

/// Conditions and requests from the same few words, so that they often match.
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
    // Most conditions are omitted, or hardly any route would cover another.
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

/// All combinations of some targets, methods, hosts and fields.
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
