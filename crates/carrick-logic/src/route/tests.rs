//! Conditions applied to parsed requests.
use super::{Conditions, CookieRule, pick_request};
use crate::access::NamePattern;
use crate::http1::{HeadLimits, Progress, RequestHead};

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 65536,
    fields_max: 100,
};

pub(super) fn parsed(text: &str) -> RequestHead {
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

pub(super) fn host(pattern: &str) -> Option<NamePattern> {
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

pub(super) fn header(name: &str, value: &str) -> Option<(String, String)> {
    Some((name.to_owned(), value.to_owned()))
}

pub(super) fn with_path(path: &str) -> Conditions {
    Conditions {
        path: Some(path.to_owned()),
        ..Conditions::default()
    }
}

pub(super) fn with_extension(extensions: &[&str]) -> Conditions {
    Conditions {
        extension: strings(extensions),
        ..Conditions::default()
    }
}

pub(super) fn with_method(methods: &[&str]) -> Conditions {
    Conditions {
        method: strings(methods),
        ..Conditions::default()
    }
}

pub(super) fn with_cgi(cgi: bool) -> Conditions {
    Conditions {
        cgi: Some(cgi),
        ..Conditions::default()
    }
}

pub(super) fn with_cookie(name: &str, present: bool) -> Conditions {
    Conditions {
        cookie: cookie(name, present),
        ..Conditions::default()
    }
}

pub(super) fn with_sni(pattern: &str) -> Conditions {
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
        ("purge", false),
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
        sni: None,
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
    assert!(!matches(
        &route,
        "GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n"
    ));
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
        let taken = tunnels.iter().position(|route| route.match_tunnel(name));
        assert_eq!(taken, Some(expected));
    }
}
