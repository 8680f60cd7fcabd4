//! Every condition of a route.
use crate::support::carrick::upstream_text;
use crate::support::place::LISTENER_PORT;
use crate::support::server::{Serving, answer_requests};
use crate::support::{Carrick, Place, Server};

/// A server that answers with `name`.
fn named(place: &Place, name: &'static str) -> Serving {
    Server::listen(place).serve(move |peer, _| {
        answer_requests(peer, |head| {
            let body = if head.starts_with("HEAD ") { "" } else { name };
            format!(
                "HTTP/1.1 200 OK\r\nX-Name: {name}\r\nContent-Length: {}\r\n\r\n{body}",
                name.len()
            )
            .into_bytes()
        });
    })
}

/// The routes of the configuration in the project's first issue, word for word.
const ROUTES: &str = r#"
  [[listener.route]]                 # first match wins; every condition given must hold; none matches all
  host = "*.example.org"
  path = "/images/"                  # prefix
  extension = ["gif", "jpg", "png"]
  cookie = "!session"                # absent ("session": present)
  header = { name = "x-beta", value = "1" }
  method = ["GET", "HEAD"]
  upstream = "images"
  engine = "pipe"                    # overrides [splice]

  [[listener.route]]
  cgi = true                         # a path with /cgi-bin/ or a query string
  upstream = "dynamic"

  [[listener.route]]
  upstream = "pages"
"#;

#[test]
fn each_condition_of_a_route_must_hold_and_the_first_match_wins() {
    let place = Place::claim();
    let servings = [
        named(&place, "images"),
        named(&place, "dynamic"),
        named(&place, "pages"),
    ];
    let [images, dynamic, pages] = servings.each_ref().map(Serving::address);
    let carrick = Carrick::start(
        &place,
        &format!(
            "[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n{ROUTES}\n{}{}{}",
            upstream_text("images", &[images]),
            upstream_text("dynamic", &[dynamic]),
            upstream_text("pages", &[pages]),
        ),
    );
    let mut client = carrick.connect();
    let mut whom = |method: &str, target: &str, host: &str, fields: &str| {
        let response = client.ask(&format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"
        ));
        assert_eq!(response.status, 200);
        response.field("x-name").unwrap_or_default()
    };
    let beta = "X-Beta: 1\r\n";
    let rows: &[(&str, &str, &str, &str, &str)] = &[
        ("images", "GET", "/images/a.gif", "www.example.org", beta),
        (
            "images",
            "HEAD",
            "/images/b/c.JPG",
            "a.b.example.org:8080",
            beta,
        ),
        (
            "images",
            "GET",
            "/images/a.png",
            "WWW.EXAMPLE.ORG",
            "x-BETA:   1 \r\nCookie: other=session\r\n",
        ),
        (
            "images",
            "GET",
            "http://www.example.org/images/a.gif",
            "evil.example",
            beta,
        ),
        ("images", "GET", "/images/../a.gif", "www.example.org", beta),
        // Violates one condition after the other.
        ("pages", "GET", "/images/a.gif", "example.org", beta),
        (
            "pages",
            "GET",
            "/images/a.gif",
            "www.example.org.evil.example",
            beta,
        ),
        (
            "pages",
            "GET",
            "http://evil.example/images/a.gif",
            "www.example.org",
            beta,
        ),
        ("pages", "GET", "/image/a.gif", "www.example.org", beta),
        ("pages", "GET", "/Images/a.gif", "www.example.org", beta),
        ("pages", "GET", "/images/a.html", "www.example.org", beta),
        ("pages", "GET", "/images/gif", "www.example.org", beta),
        ("pages", "GET", "/images/a.gif/", "www.example.org", beta),
        (
            "pages",
            "GET",
            "/images/a.gif",
            "www.example.org",
            "X-Beta: 1\r\nCookie: a=b; session=1\r\n",
        ),
        (
            "pages",
            "GET",
            "/images/a.gif",
            "www.example.org",
            "X-Beta: 1\r\nCookie: a=b\r\nCookie: session=\r\n",
        ),
        (
            "pages",
            "GET",
            "/images/a.gif",
            "www.example.org",
            "X-Beta: 2\r\n",
        ),
        (
            "pages",
            "GET",
            "/images/a.gif",
            "www.example.org",
            "X-Beta: 11\r\n",
        ),
        ("pages", "GET", "/images/a.gif", "www.example.org", ""),
        ("pages", "DELETE", "/images/a.gif", "www.example.org", beta),
        ("pages", "OPTIONS", "/images/a.gif", "www.example.org", beta),
        // The first route takes precedence over the second, whose only condition also holds.
        ("images", "GET", "/images/a.gif?x", "www.example.org", beta),
        ("dynamic", "GET", "/images/a.gif?x", "www.example.org", ""),
        ("dynamic", "GET", "/cgi-bin/x", "a", ""),
        ("dynamic", "GET", "/a/cgi-bin/x.gif", "a", ""),
        ("dynamic", "GET", "/?", "a", ""),
        ("dynamic", "GET", "http://a?q", "a", ""),
        ("pages", "GET", "/cgi-bin", "a", ""),
        ("pages", "GET", "/", "a", ""),
        ("pages", "OPTIONS", "*", "a", ""),
        ("pages", "BREW", "/coffee", "a", ""),
    ];
    for (expected, method, target, host, fields) in rows {
        assert_eq!(
            whom(method, target, host, fields),
            *expected,
            "{method} {target} {host} {fields:?}"
        );
    }
    let lines = carrick.access_log(rows.len());
    for (line, row) in lines.iter().zip(rows) {
        assert_eq!(
            (
                line.text("upstream"),
                line.text("method"),
                line.text("target")
            ),
            (row.0, row.1, row.2)
        );
    }
}

#[test]
fn a_cookie_may_be_demanded_and_cgi_forbidden() {
    let place = Place::claim();
    let servings = [
        named(&place, "member"),
        named(&place, "static"),
        named(&place, "rest"),
    ];
    let [member, fixed, rest] = servings.each_ref().map(Serving::address);
    let carrick = Carrick::start(
        &place,
        &format!(
            "[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n\
             [[listener.route]]\ncookie = \"session\"\nupstream = \"member\"\n\
             [[listener.route]]\ncgi = false\nupstream = \"static\"\n\
             [[listener.route]]\nupstream = \"rest\"\n{}{}{}",
            upstream_text("member", &[member]),
            upstream_text("static", &[fixed]),
            upstream_text("rest", &[rest]),
        ),
    );
    let mut client = carrick.connect();
    for (expected, target, fields) in [
        ("member", "/?x", "Cookie: session=1\r\n"),
        ("member", "/", "Cookie: a=b\r\nCookie: c=d;session=\r\n"),
        ("static", "/", "Cookie: Session=1\r\n"),
        ("static", "/", "Cookie: session\r\n"),
        ("rest", "/?x", "Cookie: xsession=1\r\n"),
        ("rest", "/cgi-bin/", ""),
    ] {
        let response = client.ask(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(response.text(), expected, "{target} {fields:?}");
    }
}

#[test]
fn without_a_matching_route_the_answer_is_404_and_the_connection_goes_on() {
    let place = Place::claim();
    let serving = named(&place, "only");
    let carrick = Carrick::start(
        &place,
        &format!(
            "[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n[[listener.route]]\nhost = \"a.example\"\nupstream = \"u\"\n{}",
            upstream_text("u", &[serving.address()])
        ),
    );
    let mut client = carrick.connect();
    for _ in 0..2 {
        let response = client.ask("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n");
        assert_eq!((response.status, response.field("connection")), (404, None));
        assert_eq!(
            client
                .ask("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
                .text(),
            "only"
        );
    }
    assert_eq!(
        client
            .ask("HEAD / HTTP/1.1\r\nHost: b.example\r\n\r\n")
            .status,
        404
    );
    assert_eq!(
        client
            .ask("GET / HTTP/1.1\r\nHost: A.Example.\r\n\r\n")
            .text(),
        "only"
    );
    // An unread body would be taken for the next request.
    let response = client.ask("POST / HTTP/1.1\r\nHost: b.example\r\nContent-Length: 40\r\n\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n.......");
    assert_eq!(
        (response.status, response.field("connection").as_deref()),
        (404, Some("close"))
    );
    client.expect_end();
    assert_eq!(
        carrick.metric("carrick_refusals_total", &["reason=\"no_route\""]),
        4.0
    );
}
