//! `keep_client_address`: servers see the client.
use super::*;

const KEEP: &str = "keep_client_address = true\n";

#[test]
fn servers_see_the_clients_address_in_both_families() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(&(SWITCH.to_owned() + KEEP + IMAGES));
    for (words, client) in [
        ("http://10.2.0.2/", "10.1.0.2"),
        ("http://10.2.0.2/images/", "10.1.0.2"),
        ("--interface 10.1.0.3 http://10.2.0.2/", "10.1.0.3"),
        ("http://[fd00:2::2]/", "fd00:1::2"),
        ("--interface fd00:1::3 http://[fd00:2::2]/", "fd00:1::3"),
    ] {
        let said = bed.curl(words);
        assert!(
            said.contains(VIA) && said.contains(&format!("client={client} ")),
            "{said}"
        );
    }
    // A body of more than one segment in each direction.
    let slow = bed.curl("http://10.2.0.2/slow");
    assert_eq!(slow.len(), super::bed::SLOW_BYTES);
    // A server of the other family cannot be reached from the client's address, and the client is told so.
    let said = bed.curl("-i http://[fd00:2::2]/images/");
    assert!(
        said.starts_with("HTTP/1.1 502 ") && said.contains("of the other family"),
        "{said}"
    );
    let banner = carrick.said.text();
    assert!(banner.contains("with the client's address"), "{banner}");
}

#[test]
fn a_connection_that_is_kept_is_for_the_client_whose_address_it_has() {
    let Some(bed) = Bed::build() else { return };
    let text = SWITCH.to_owned() + KEEP + IMAGES;
    // One worker has all idle connections.
    let carrick = bed.carrick(&text);
    for _ in 0..10 {
        for client in ["10.1.0.2", "10.1.0.3"] {
            for path in ["", "images/"] {
                let url = format!("http://10.2.0.2/{path}");
                let said = bed.curl(&format!("--interface {client} {url} {url}"));
                let right = said.matches(&format!("client={client} ")).count();
                assert_eq!(right, 2, "{said}");
            }
        }
    }
    let reused = carrick.metric(&bed, "carrick_upstream_connections_reused_total");
    assert!(
        reused >= 40.0,
        "each second request goes over the first one's connection: {reused}"
    );
}

#[test]
fn without_it_servers_see_carrick() {
    let Some(bed) = Bed::build() else { return };
    let _carrick = bed.carrick(SWITCH);
    assert!(bed.curl("http://10.2.0.2/").contains("client=10.2.0.1 "));
    assert!(
        bed.curl("http://[fd00:2::2]/")
            .contains("client=fd00:2::1 ")
    );
}

#[test]
fn servers_see_it_by_tls_and_http2_too() {
    let Some(bed) = Bed::build() else { return };
    for (port, keys, version) in [
        (443, "", "HTTP/1.1"),
        (8443, "http2 = true\n", "HTTP/2.0"),
        (8443, "http2 = \"auto\"\n", "HTTP/2.0"),
    ] {
        let images = IMAGES.replace("10.2.0.3:80", &format!("10.2.0.3:{port}"));
        let tls = "tls = { insecure = true }\n";
        let _carrick = bed.carrick(&format!("{SWITCH}{KEEP}{images}{tls}{keys}"));
        for client in ["10.1.0.2", "10.1.0.3"] {
            let url = "http://10.2.0.2/images/";
            let said = bed.curl(&format!("--interface {client} {url} {url}"));
            let who = said.matches(&format!("client={client} ")).count();
            let how = said
                .matches(&format!("request=GET /images/ {version}"))
                .count();
            assert_eq!((who, how), (2, 2), "{port}: {said}");
        }
    }
}
