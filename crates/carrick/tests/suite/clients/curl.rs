//! curl and wget.
use super::site::{Site, make_certificate};
use super::tool::{Tool, has_all};
use super::{count, expect_lines};
use crate::support::server::answer_requests;
use crate::support::{Carrick, Place, Server, carrick, random};
use std::process::{Command, Stdio};

/// curl through a proxy, without its own configuration.
fn curl(place: &Place, carrick: &Carrick) -> Tool {
    Tool::new("curl", place)
        .words("--disable --silent --show-error --fail --max-time 600 --noproxy")
        .word("")
        .words(&format!("--proxy http://{}", carrick.forward_address()))
}

#[test]
fn curl_gets_files_by_http_and_by_https() {
    let place = Place::claim();
    let Some(site) = Site::start(&place).filter(|_| has_all(&["curl"])) else {
        return;
    };
    let large = random::Random::new(1).bytes(3_000_000);
    site.put("large", &large);
    site.put("small", "hello");
    let carrick = Carrick::forward(&place);
    let urls = [site.http("/large"), site.https("/large")];
    for url in &urls {
        // Two on one connection.
        curl(&place, &carrick)
            .words("--cacert ca.pem --output got --output small")
            .words(&format!("{url} {}", url.replace("large", "small")))
            .expect();
        let got = std::fs::read(place.directory().join("got")).expect("a file");
        assert_eq!(random::hash(&got), random::hash(&large), "{url}");
        let small = std::fs::read_to_string(place.directory().join("small")).expect("a file");
        assert_eq!(small, "hello");
    }
    // And a tunnel for plain HTTP.
    let text = curl(&place, &carrick)
        .words("--proxytunnel")
        .word(site.http("/small"))
        .expect();
    assert_eq!(text, "hello");
    let lines = expect_lines(&carrick, 4);
    assert_eq!(count(&lines, "GET", &site.http("/large")), 1);
    assert_eq!(count(&lines, "GET", &site.http("/small")), 1);
    assert_eq!(
        count(&lines, "CONNECT", &site.https_address().to_string()),
        1
    );
    assert_eq!(count(&lines, "CONNECT", ""), 2);
    // The tunnels' lines may come in either order.
    let mut tunnels = lines.iter().filter(|line| line.text("method") == "CONNECT");
    assert!(tunnels.any(|line| line.number("sent") > 3_000_000));
}

#[test]
fn curl_asks_in_all_ways_that_it_has() {
    let place = Place::claim();
    let Some(site) = Site::start(&place).filter(|_| has_all(&["curl"])) else {
        return;
    };
    site.put("file", "0123456789");
    let carrick = Carrick::forward(&place);
    let file = site.http("/file");
    let curl = |words: &str| curl(&place, &carrick).words(words).word(&file).expect();
    let head = curl("--head").to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-length: 10\r\n"), "{head}");
    assert_eq!(curl("--range 3-5"), "345");
    let multiple = curl("--include --range 0-1,8-9");
    assert!(multiple.contains("206 Partial Content") && multiple.contains("multipart/byteranges"));
    assert_eq!(curl("--http1.0"), "0123456789");
    let old = curl("--http1.0 --include");
    assert!(old.starts_with("HTTP/1."), "{old}");
    assert_eq!(
        curl("--http1.0 --header Connection:keep-alive"),
        "0123456789"
    );
    let validated = curl("--include --header If-None-Match:*");
    assert!(validated.starts_with("HTTP/1.1 304 "), "{validated}");
    assert_eq!(expect_lines(&carrick, 7).len(), 7);
}

#[test]
fn curl_uploads_with_a_length_in_chunks_and_after_100_continue() {
    let place = Place::claim();
    let Some(site) = Site::start(&place).filter(|_| has_all(&["curl"])) else {
        return;
    };
    let carrick = Carrick::forward(&place);
    let content = random::Random::new(2).bytes(2_000_000);
    std::fs::write(place.directory().join("content"), &content).expect("a file");
    let ways = [
        ("length", "--header Expect:"),
        (
            "chunked",
            "--header Transfer-Encoding:chunked --header Expect:",
        ),
        (
            "continue",
            "--header Expect:100-continue --expect100-timeout 60",
        ),
        (
            "both",
            "--header Transfer-Encoding:chunked --header Expect:100-continue --expect100-timeout 60",
        ),
    ];
    for (name, words) in ways {
        for url in [
            site.http(&format!("/{name}")),
            site.https(&format!("/{name}-tls")),
        ] {
            curl(&place, &carrick)
                .words("--cacert ca.pem --upload-file content --http1.1")
                .words(words)
                .word(&url)
                .expect();
        }
        for file in [name.to_owned(), format!("{name}-tls")] {
            let came = std::fs::read(site.directory().join(&file)).expect("an upload");
            assert_eq!(random::hash(&came), random::hash(&content), "{file}");
        }
    }
    let lines = expect_lines(&carrick, 8);
    let put = lines.iter().filter(|line| line.text("method") == "PUT");
    assert!(put.clone().all(|line| line.number("received") >= 2_000_000));
    assert_eq!((put.count(), count(&lines, "CONNECT", "")), (4, 4));
}

#[test]
fn curl_proves_who_it_is_or_is_refused() {
    let place = Place::claim();
    let Some(site) = Site::start(&place).filter(|_| has_all(&["curl"])) else {
        return;
    };
    site.put("file", "for users");
    // SHA-crypt by the system's own tool.
    let hash = Tool::new("openssl", &place)
        .words("passwd -6 -salt pepper s3cret:with:colons")
        .expect();
    place.write("users", &format!("anna:{hash}"));
    let carrick = Carrick::start(
        &place,
        &format!("{}users = \"users\"\n", carrick::FORWARD_TEXT),
    );
    for url in [site.http("/file"), site.https("/file")] {
        let ask = |user: &[&str]| {
            let tool = curl(&place, &carrick)
                .words("--cacert ca.pem --write-out %{http_connect}/%{http_code}");
            user.iter()
                .fold(tool, |tool, word| tool.word(word))
                .word(&url)
                .run()
        };
        let right = ask(&["--proxy-user", "anna:s3cret:with:colons"]);
        assert!(right.status.success(), "{right:?}");
        assert!(right.out.starts_with("for users"), "{right:?}");
        for wrong in [
            &["--proxy-user", "anna:wrong"][..],
            &["--proxy-user", "otto:s3cret:with:colons"],
            &[],
        ] {
            let refused = ask(wrong);
            assert!(!refused.status.success(), "{refused:?}");
            assert!(refused.out.contains("407"), "{refused:?}");
            assert!(!refused.out.contains("for users"), "{refused:?}");
        }
    }
    let lines = carrick.access_log(8);
    let users: Vec<&str> = lines
        .iter()
        .filter(|line| line.status() == 200)
        .map(|line| line.text("user"))
        .collect();
    assert_eq!(users, ["anna", "anna"]);
    assert_eq!(lines.iter().filter(|line| line.status() == 407).count(), 6);
}

#[test]
fn curl_reaches_ipv6_and_names() {
    if !has_all(&["curl"]) {
        return;
    }
    let place = Place::claim();
    let carrick = Carrick::forward(&place);
    let serve = |server: Server| {
        server.serve(|peer, _| {
            answer_requests(peer, |_| {
                b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere".to_vec()
            });
        })
    };
    let by_name = serve(Server::listen_at(([127, 0, 0, 1], 0).into()));
    let name = format!("http://localhost:{}/", by_name.address().port());
    assert_eq!(curl(&place, &carrick).word(&name).expect(), "here");
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        carrick_test::lacks!("there is no IPv6 here");
        return;
    }
    let by_ipv6 = serve(Server::listen_at("[::1]:0".parse().expect("an address")));
    let url = format!("http://{}/", by_ipv6.address());
    assert_eq!(curl(&place, &carrick).word(&url).expect(), "here");
    let tunnelled = curl(&place, &carrick)
        .word("--proxytunnel")
        .word(&url)
        .expect();
    assert_eq!(tunnelled, "here");
    let lines = expect_lines(&carrick, 3);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.text("server").starts_with("[::1]"))
            .count(),
        2
    );
}

#[test]
fn wget_gets_files_by_http_and_by_https() {
    let place = Place::claim();
    let Some(site) = Site::start(&place).filter(|_| has_all(&["wget"])) else {
        return;
    };
    site.put(
        "index.html",
        "<a href=\"one.html\">1</a> <a href=\"two.html\">2</a>",
    );
    site.put("one.html", "one");
    site.put("two.html", "two");
    let carrick = Carrick::forward(&place);
    let proxy = format!("http://{}", carrick.forward_address());
    for (folder, url) in [("plain", site.http("/")), ("tls", site.https("/"))] {
        Tool::new("wget", &place)
            .words("--no-config --no-verbose --tries=1 --timeout=60 --recursive --no-directories --ca-certificate=ca.pem")
            .words(&format!("--directory-prefix={folder} {url}"))
            .env("http_proxy", &proxy)
            .env("https_proxy", &proxy)
            .expect();
        for name in ["one", "two"] {
            let path = place.directory().join(folder).join(format!("{name}.html"));
            assert_eq!(std::fs::read_to_string(path).expect("a file"), name);
        }
    }
    // wget also requests robots.txt, which does not exist.
    let lines = carrick.access_log(5);
    assert_eq!(count(&lines, "GET", ".html"), 2);
    assert!(count(&lines, "CONNECT", &site.https_address().to_string()) >= 1);
}

#[test]
fn curl_and_openssl_speak_tls_of_each_version_through_a_tunnel_by_name() {
    if !has_all(&["curl", "openssl"]) {
        return;
    }
    let place = Place::claim();
    make_certificate(&place);
    let address = place.at(18_643);
    let server = Command::new("openssl")
        .args([
            "s_server",
            "-www",
            "-cert",
            "server.pem",
            "-key",
            "server.key",
            "-accept",
        ])
        .arg(address.to_string())
        .current_dir(place.directory())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    let _server = carrick_test::Killed(server);
    crate::support::wait_for("openssl", || std::net::TcpStream::connect(address).ok());
    let text = carrick::tunnel_text(&[address]).replace(
        "[[listener.route]]",
        "[[listener.route]]\nsni = \"localhost\"",
    );
    let carrick = Carrick::start(&place, &text);
    let port = carrick.tunnel_address().port();
    for version in ["--tlsv1.2 --tls-max 1.2", "--tlsv1.3"] {
        let page = Tool::new("curl", &place)
            .words(
                "--disable --silent --show-error --fail --max-time 600 --noproxy * --cacert ca.pem",
            )
            .words(&format!(
                "{version} --connect-to localhost:{port}:{}",
                carrick.tunnel_address()
            ))
            .word(format!("https://localhost:{port}/"))
            .expect();
        assert!(page.contains("Ciphers supported"), "{page}");
    }
    let lines = carrick.access_log(2);
    for line in &lines {
        assert_eq!(
            (
                line.text("method"),
                line.text("target"),
                line.text("version")
            ),
            ("TUNNEL", "localhost", "TLS")
        );
        assert!(
            line.number("sent") > 1000 && line.status() == 200,
            "{line:?}"
        );
    }
}
