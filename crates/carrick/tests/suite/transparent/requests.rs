//! Destinations of intercepted requests: their original one, or that of a route.
use super::bed::inside;
use super::*;
use crate::outliving::bed::on;
use crate::support::Peer;
use carrick_test::EndInTime;

#[test]
fn requests_go_where_they_wanted_to_or_where_routes_say_in_both_families() {
    let Some(bed) = Bed::build() else { return };
    let images = IMAGES.replace("10.2.0.3:80", "images.test:80");
    // A name with both families, so that IPv6 clients are served over IPv6 as well.
    let text = SWITCH.to_owned() + &images.replace("images.test", "10.2.0.3");
    let carrick = bed.carrick(&text);
    for server in ["10.2.0.2", "[fd00:2::2]"] {
        let bare = server.trim_matches(['[', ']']);
        let said = bed.curl(&format!("http://{server}/page?x=1"));
        assert!(said.contains(&format!("server={bare} ")), "{said}");
        assert!(
            said.contains(VIA) && said.contains("request=GET /page?x=1 "),
            "{said}"
        );
        // An original destination learns nothing about the client.
        assert!(said.contains("forwarded= "), "{said}");
        let picture = bed.curl(&format!("http://{server}/images/a.png"));
        assert!(
            picture.contains("server=10.2.0.3 ") && picture.contains(VIA),
            "{picture}"
        );
        assert!(picture.contains(&format!("host={server} ")), "{picture}");
    }
    let log = carrick.access_log(4);
    let texts = |key: &str| -> Vec<&str> {
        log.iter()
            .map(|line| line[key].as_str().unwrap_or("-"))
            .collect()
    };
    let mut destinations = texts("destination");
    destinations.sort_unstable();
    assert_eq!(
        destinations,
        [
            "10.2.0.2:80",
            "10.2.0.2:80",
            "[fd00:2::2]:80",
            "[fd00:2::2]:80"
        ]
    );
    let mut upstreams = texts("upstream");
    upstreams.sort_unstable();
    assert_eq!(upstreams, ["-", "-", "images", "images"]);
    let count = carrick.metric(&bed, "carrick_intercepted_connections_total");
    assert!(count >= 4.0, "{count}");
}

#[test]
fn a_route_can_lead_to_the_original_destination_before_others_take_the_rest() {
    let Some(bed) = Bed::build() else { return };
    let routes = "[[listener.route]]\npath = \"/images/own/\"\nto = \"original\"\n";
    let _carrick = bed.carrick(&(SWITCH.to_owned() + routes + IMAGES));
    assert!(
        bed.curl("http://10.2.0.2/images/own/a")
            .contains("server=10.2.0.2 ")
    );
    assert!(
        bed.curl("http://10.2.0.2/images/a")
            .contains("server=10.2.0.3 ")
    );
}

#[test]
fn a_request_that_names_no_host_is_given_its_destination() {
    let Some(bed) = Bed::build() else { return };
    let _carrick = bed.carrick(SWITCH);
    let said = bed.curl("-0 -H Host: http://10.2.0.2/");
    assert!(
        said.contains("host=10.2.0.2 ") && said.contains("via=1.0 carrick "),
        "{said}"
    );
}

#[test]
fn a_forward_proxy_takes_requests_that_are_not_for_a_proxy_and_may_have_a_parent() {
    let Some(bed) = Bed::build() else { return };
    let forward = "parent = { proxy = \"10.2.0.3:8000\", for = \"*.example.org\" }\n";
    let text = SWITCH.replace("switch", "forward") + forward;
    let _carrick = bed.carrick(&text);
    let said = bed.curl("http://10.2.0.2/a");
    assert!(
        said.contains("server=10.2.0.2 ") && said.contains("request=GET /a "),
        "{said}"
    );
    assert!(said.contains(VIA), "{said}");
    let said = bed.curl("-H Host:a.example.org http://10.2.0.2/a");
    assert!(
        said.contains("server=10.2.0.3 ") && said.contains("request=GET http://a.example.org/a "),
        "{said}"
    );
}

#[test]
fn only_what_is_named_is_intercepted() {
    let Some(bed) = Bed::build() else { return };
    let intercept = "intercept = { ports = [80], interfaces = [\"eth*\"], from = \"10.1.0.2\", to = \"10.2.0.0/24\", except = \"10.2.0.3\" }";
    let text = SWITCH.replace(
        "intercept = { ports = [80], interfaces = [\"eth1\"] }",
        intercept,
    );
    assert!(text.contains(intercept));
    let _carrick = bed.carrick(&text);
    assert!(bed.curl("http://10.2.0.2/").contains(VIA));
    for (why, words) in [
        ("another client", "--interface 10.1.0.3 http://10.2.0.2/"),
        ("an exception", "http://10.2.0.3/"),
        ("another port", "http://10.2.0.2:8000/"),
        (
            "another family, as `from` names none of it",
            "http://[fd00:2::2]/",
        ),
    ] {
        let said = bed.curl(words);
        assert!(said.contains("via= "), "{why}: {said}");
    }
    // Nothing listens on the router's own port 80.
    let refused = bed.try_curl("http://10.1.0.1/").expect_err("no listener");
    assert!(refused.contains("exit status: 7"), "{refused}");
}

#[test]
fn what_is_under_way_is_finished_when_carrick_ends() {
    let Some(bed) = Bed::build() else { return };
    let before = bed.rules();
    let listener = SWITCH.replace("transparent", "via = \"both\"\ntransparent");
    let images = IMAGES.replace("10.2.0.3:80", "10.2.0.3:8002");
    let text = format!("{listener}{images}[timeouts]\ndrain = \"10m\"\n");
    let mut carrick = bed.carrick(&text);
    let server = on(&bed.server, || carrick_test::listen("10.2.0.3:8002"));
    let download = inside(
        &bed.client,
        &["curl", "-sS", "-D", "-", "http://10.2.0.2/images/"],
    )
    .stdout(std::process::Stdio::piped())
    .spawn()
    .expect("curl");
    let mut upstream = Peer::new(server.accept().expect("a request").0);
    upstream.read_head();
    upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n");
    upstream.send([b'x'; 5000]);
    carrick.signal(rustix::process::Signal::TERM);
    // New clients find no listener, and are routed as if there had never been one.
    crate::support::wait_until("a client that is let through", || {
        bed.try_curl("http://10.2.0.3/")
            .is_ok_and(|said| said.contains("via= "))
    });
    assert_ne!(bed.rules(), before, "the rules are there until the end");
    upstream.send([b'x'; 5000]);
    let output = download.wait_with_output_in_time().expect("a download");
    let body = output.stdout.iter().filter(|byte| **byte == b'x').count();
    assert!(output.status.success(), "{}", output.status);
    assert!(body >= 10_000, "{body}");
    let head = String::from_utf8_lossy(&output.stdout[..300]).into_owned();
    assert!(head.contains("Via: 1.1 carrick"), "{head}");
    carrick.wait();
    assert_eq!(bed.rules(), before);
}

#[test]
fn an_upstream_gets_the_original_destination_by_the_proxy_protocol() {
    let Some(bed) = Bed::build() else { return };
    let images = IMAGES.replace("10.2.0.3:80", "10.2.0.3:8002") + "send_proxy_protocol = \"v1\"\n";
    let _carrick = bed.carrick(&(SWITCH.to_owned() + &images));
    let heard = bed.server.inside(|| {
        let listener = carrick_test::listen("10.2.0.3:8002");
        let curl = inside(&bed.client, &["curl", "-sS", "http://10.2.0.2/images/"])
            .stdout(std::process::Stdio::null())
            .spawn();
        let (mut upstream, _) = listener.accept()?;
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&upstream), &mut line)?;
        std::io::Write::write_all(&mut upstream, b"HTTP/1.1 204 No Content\r\n\r\n")?;
        curl?.wait_in_time()?;
        Ok(line)
    });
    let heard = heard.expect("a PROXY header");
    assert!(
        heard.starts_with("PROXY TCP4 10.1.0.2 10.2.0.2 "),
        "{heard}"
    );
    assert!(heard.ends_with(" 80\r\n"), "{heard}");
}

#[test]
fn a_listener_that_cannot_be_connected_to_serves_intercepted_clients() {
    let Some(bed) = Bed::build() else { return };
    for (listener, url, other) in [
        ("127.0.0.1", "http://10.2.0.2/", "http://[fd00:2::2]/"),
        ("[::1]", "http://[fd00:2::2]/", "http://10.2.0.2/"),
        ("10.2.0.1", "http://10.2.0.2/", "http://[fd00:2::2]/"),
    ] {
        let _carrick = bed.carrick(&SWITCH.replace("[::]", listener));
        let said = bed.curl(url);
        assert!(said.contains(VIA), "{listener}: {said}");
        // The other family is not intercepted.
        let said = bed.curl(other);
        assert!(said.contains("via= "), "{listener}: {said}");
    }
}

#[test]
fn the_shipped_example_does_what_it_says() {
    let Some(bed) = Bed::build() else { return };
    bed.open_to_all_users();
    let file =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/transparent.toml");
    let text = std::fs::read_to_string(file).expect("the example");
    // The bed has its own log.
    let is_of_log = |line: &&str| {
        !["[log]", "access =", "format ="]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let text: String = text
        .lines()
        .filter(is_of_log)
        .flat_map(|line| [line, "\n"])
        .collect();
    let carrick = bed.carrick(&text.replace("10.0.0.5:80", "10.2.0.3:80"));
    let said = bed.curl("http://10.2.0.2/page");
    assert!(
        said.contains("server=10.2.0.2 client=10.2.0.1 ") && said.contains(VIA),
        "{said}"
    );
    let said = bed.curl("http://10.2.0.2/a.png");
    assert!(said.contains("server=10.2.0.3 "), "{said}");
    let said = bed.curl("http://10.2.0.2/images/own/a.png");
    assert!(said.contains("server=10.2.0.2 "), "{said}");
    let said = bed.curl("-i -H Host:www.forbidden.example http://10.2.0.2/");
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    // The second listener keeps the client's address.
    let said = bed.curl("https://10.2.0.2/");
    assert!(said.contains("server=10.2.0.2 client=10.1.0.2 "), "{said}");
    bed.try_curl("--resolve www.forbidden.example:443:10.2.0.2 https://www.forbidden.example/")
        .expect_err("its name is denied");
    let said = carrick.stop();
    assert!(
        said.contains("as nobody, with CAP_NET_BIND_SERVICE, CAP_NET_RAW"),
        "{said}"
    );
}

/// Embedded objects are fetched from the page's original destination.
#[test]
fn what_pages_embed_comes_from_where_they_came_from() {
    let Some(bed) = Bed::build() else { return };
    let text = SWITCH.to_owned() + "cache = true\nprefetch = { hosts = \"any\" }\n[cache]\n";
    let carrick = bed.carrick(&text);
    for server in ["10.2.0.2", "[fd00:2::2]"] {
        bed.curl(&format!("http://{server}/embeds"));
    }
    let label = |result: &str| format!("carrick_cache_prefetches_total{{result=\"{result}\"}}");
    crate::support::wait_until("the objects", || {
        carrick.metric(&bed, &label("stored")) >= 4.0
    });
    // Only the client resolves another name's address.
    assert_eq!(carrick.metric(&bed, &label("foreign")), 2.0);
    for server in ["10.2.0.2", "[fd00:2::2]"] {
        let said = bed.curl(&format!("-i http://{server}/object/2"));
        let bare = server.trim_matches(['[', ']']);
        assert!(said.contains(&format!("object of {bare}")), "{said}");
        assert!(said.contains("carrick; hit"), "{said}");
    }
    assert_eq!(carrick.metric(&bed, &label("used")), 2.0);
}

#[test]
fn the_clients_connection_stays_when_the_server_closes() {
    let Some(bed) = Bed::build() else { return };
    for cache in ["", "cache = true\n[cache]\n"] {
        let carrick = bed.carrick(&(SWITCH.to_owned() + cache));
        let said = bed.curl(
            "-w %{num_connects} http://10.2.0.2/closes http://10.2.0.2/until-close http://10.2.0.2/closes http://10.2.0.2/until-close",
        );
        assert_eq!(said, "closes1until close0closes0until close0");
        drop(carrick);
    }
}
