//! `requests = "kernel"`: where it is possible, and the message where it is not.
use super::{parse, parse_right};
use carrick::config::plan::{Mode, Requests};
use carrick::config::problem::Severity;

/// A switch with one route, up to the route's keys; `«»` stands for additional keys of the listener.
fn switch(listener: &str, upstream: &str, route: &str) -> String {
    format!(
        "[upstream.u]\nservers = [\"10.0.0.1\"]\n{upstream}\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n{listener}\n\
         [[listener.route]]\n{route}\n"
    )
}

const PLAIN: &str = "forwarded = \"unchanged\"\nvia = \"\"";
const ROUTE: &str = "upstream = \"u\"\nengine = \"packet\"\nrequests = \"kernel\"";

#[test]
fn it_is_taken_from_the_route() {
    let loaded = parse_right(&switch(PLAIN, "", ROUTE));
    let Mode::Switch(routes) = &loaded.plan.listeners[0].mode else {
        panic!("a switch");
    };
    assert_eq!(routes[0].requests, Requests::Kernel);
    // It is the default of `auto`, where nothing keeps a route from it.
    for (listener, upstream, route, reason) in [
        ("", "", "", None),
        ("forwarded = \"forwarded\"", "", "path = \"/a\"", None),
        ("", "", "requests = \"process\"", Some("says so")),
        ("", "", "engine = \"packet\"", Some("is to be named")),
        (
            "",
            "",
            "responses = \"read\"",
            Some("does not see the response"),
        ),
        (
            "",
            "",
            "engine = \"pipe\"",
            Some("only on connections that the packet engine has"),
        ),
        ("via = \"both\"", "", "", Some("without `Via`")),
        (
            "",
            "balance = \"hash\"",
            "",
            Some("chosen by what each request says"),
        ),
        (
            "",
            "",
            "header = { name = \"a\", value = \"b\" }",
            Some("does not compare header values"),
        ),
    ] {
        let text = switch(listener, upstream, &format!("upstream = \"u\"\n{route}"));
        let loaded = parse_right(&text);
        let Mode::Switch(routes) = &loaded.plan.listeners[0].mode else {
            panic!("a switch");
        };
        assert_eq!(
            routes[0].requests == Requests::Kernel,
            reason.is_none(),
            "{text}"
        );
        let given = routes[0].not_in_kernel.as_deref();
        assert_eq!(given.is_some(), reason.is_some(), "{text}");
        assert!(
            given.is_none_or(|given| given.contains(reason.unwrap())),
            "{text}: {given:?}"
        );
    }
    let engine = format!("{PLAIN}\nengine = \"packet\"");
    let route = "upstream = \"u\"\nrequests = \"kernel\"";
    parse_right(&switch(&engine, "", route));
    parse_right(&switch("forwarded = \"off\"\nvia = \"\"", "", ROUTE));
    let by_client = "balance = \"hash\"\nhash_on = \"client\"";
    parse_right(&switch(PLAIN, by_client, ROUTE));
}

#[test]
fn what_a_table_has_comes_from_the_plan() {
    let loaded = parse_right(&switch(PLAIN, "", ROUTE));
    let table = |loaded: &carrick::config::Loaded| {
        let plan = &loaded.plan;
        carrick::config::in_kernel::table(&plan.listeners[0], plan, 1)
    };
    assert!(table(&loaded).is_some_and(|table| table.left_out().is_empty()));
    let loaded = parse_right(&switch("", "", "upstream = \"u\"\nrequests = \"process\""));
    assert!(table(&loaded).is_none(), "no route is the kernel's");
}

/// Listener, upstream and route; then part of the message, and of the advice.
const MISTAKES: &[(&str, &str, &str, &str, &str)] = &[
    (
        PLAIN,
        "",
        "upstream = \"u\"\nengine = \"packet\"\nrequests = \"kernel\"\nresponses = \"read\"",
        "does not see the response",
        "responses",
    ),
    (
        PLAIN,
        "",
        "upstream = \"u\"\nengine = \"copy\"\nrequests = \"kernel\"",
        "only on connections that the packet engine has",
        "engine = \"auto\"",
    ),
    ("via = \"both\"", "", ROUTE, "`Via`", "via = \"both\""),
    (
        PLAIN,
        "balance = \"hash\"",
        ROUTE,
        "chosen by what each request says",
        "hash_on = \"client\"",
    ),
    (
        PLAIN,
        "",
        "upstream = \"u\"\nengine = \"packet\"\nrequests = \"kernel\"\nheader = { name = \"a\", value = \"b\" }",
        "does not compare header values",
        "remove `requests`",
    ),
    (
        PLAIN,
        "",
        "upstream = \"u\"\nengine = \"packet\"\nrequests = \"kernel\"\npath = \"/a-path-with-more-than-sixty-four-bytes/a-path-with-more-than-sixty-four-bytes\"",
        "at most 64 bytes",
        "remove `requests`",
    ),
    (
        PLAIN,
        "keepalive = 0",
        ROUTE,
        "are not kept",
        "`keepalive = 0` from the upstream",
    ),
    (
        PLAIN,
        "send_proxy_protocol = true",
        ROUTE,
        "are not kept",
        "`send_proxy_protocol` from the upstream",
    ),
    (
        PLAIN,
        "http2 = true",
        ROUTE,
        "speaks HTTP/2 to the servers",
        "`http2` from the upstream",
    ),
    (
        "forwarded = \"off\"\nvia = \"\"\ntransparent = true\nintercept = { ports = [80] }",
        "",
        "to = \"original\"\nengine = \"packet\"\nrequests = \"kernel\"\n[[listener.route]]\nupstream = \"u\"",
        "original destination",
        "name an `upstream`",
    ),
];

#[test]
fn the_reason_is_reported_where_it_is_impossible() {
    for (listener, upstream, route, message, help) in MISTAKES {
        let text = switch(listener, upstream, route);
        let rejected = parse(&text).expect_err(&text);
        let errors = rejected.problems.iter();
        let errors: Vec<_> = errors
            .filter(|one| one.severity == Severity::Error)
            .collect();
        let [error] = errors[..] else {
            panic!("{rejected}\n{text}");
        };
        assert!(error.message.contains(message), "{rejected}");
        assert!(
            error
                .help
                .as_ref()
                .is_some_and(|given| given.contains(help)),
            "{error:?}"
        );
        let place = error.place.as_ref().expect("a place");
        assert_eq!(&text[place.span.clone()], "\"kernel\"");
    }
}

#[test]
fn a_tunnel_has_no_requests() {
    let text = "[upstream.u]\nservers = [\"10.0.0.1:443\"]\n[[listener]]\nlisten = \"127.0.0.1:8443\"\nmode = \"tunnel\"\n\
        [[listener.route]]\nupstream = \"u\"\nengine = \"packet\"\nrequests = \"kernel\"\n";
    let rejected = parse(text).expect_err("a tunnel");
    assert!(
        rejected
            .to_string()
            .contains("a tunnel does not read requests"),
        "{rejected}"
    );
}

#[test]
fn each_route_has_its_path_and_what_keeps_it_from_the_faster_one() {
    let listener = |address: &str| {
        format!(
            "[[listener]]\nlisten = \"{address}\"\nmode = \"switch\"\n[[listener.route]]\npath = \"/a\"\nheader = {{ name = \"a\", value = \"b\" }}\n\
             upstream = \"u\"\n[[listener.route]]\nupstream = \"u\"\n"
        )
    };
    let upstream = "[upstream.u]\nservers = [\"10.0.0.1\"]\n";
    let both = listener("127.0.0.1:80") + &listener("192.0.2.1:80") + upstream;
    let paths = |text: &str| carrick::config::summary::paths(&parse_right(text).plan);
    let [local, local_rest, outer, outer_rest] = &paths(&both)[..] else {
        panic!("four routes");
    };
    assert!(
        local.starts_with("127.0.0.1:80, route 1 to u: by the process"),
        "{local}"
    );
    assert!(
        local_rest.ends_with("clients come by loopback"),
        "{local_rest}"
    );
    assert!(outer.ends_with("does not compare header values"), "{outer}");
    assert_eq!(
        outer_rest,
        "192.0.2.1:80, route 2 to u: plain requests in the kernel, others by the process"
    );
    for (listener, upstream, wanted) in [
        (
            "",
            "keepalive = 0",
            "by the process: with `keepalive = 0`, ",
        ),
        (
            "",
            "send_proxy_protocol = true",
            "by the process: with `send_proxy_protocol`, ",
        ),
        (
            "",
            "http2 = true",
            "by the process: the process speaks HTTP/2 ",
        ),
        (
            "trusted_proxies = [\"192.0.2.7\"]",
            "",
            "plain requests in the kernel, others and those from `trusted_proxies` by the process",
        ),
    ] {
        let text = switch(listener, upstream, "upstream = \"u\"").replace("127.0.0.1", "192.0.2.1");
        let [path] = &paths(&text)[..] else {
            panic!("one route");
        };
        assert!(path.contains(wanted), "{wanted}: {path}");
    }
    let off = format!("[process]\npacket = \"off\"\n{both}");
    assert!(paths(&off)[3].contains("see `packet` in [process]"));
}
