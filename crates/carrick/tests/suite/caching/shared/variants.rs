//! Responses that vary.
use super::{Play, is_from_second_level, origin, server};
use crate::caching::status;

#[test]
fn each_variant_is_found_by_matching_requests() {
    let (server, far) = server();
    let origin = origin(
        &far,
        "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n",
    );
    let (one, two) = (Play::begin(server.address()), Play::begin(server.address()));
    // Variants are distinguished by a hash of 64 values that depends on the URL: choose a URL whose three variants do not collide.
    let mut written = 0;
    let path = ["/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h"]
        .into_iter()
        .find(|path| {
            for language in ["de", "en", "fr"] {
                let lines = format!("Accept-Language: {language}\r\n");
                one.fetch_with(origin.address(), path, &lines);
                written += 1;
                one.wait_until_written(written);
            }
            (server.keys().iter()).any(|key| server.ask(&["HLEN", key]) == "4")
        })
        .expect("a URL without collisions");
    for language in ["en", "fr", "de"] {
        let lines = format!("Accept-Language: {language}\r\n");
        let found = two.fetch_with(origin.address(), path, &lines);
        assert_eq!(found.text(), format!("{path} {language}"));
        assert!(is_from_second_level(&found), "{}", found.head);
    }
    let other = two.fetch_with(origin.address(), path, "Accept-Language: it\r\n");
    assert_eq!(other.text(), format!("{path} it"));
    assert!(status(&other).contains("fwd=vary-miss"), "{}", other.head);
    let none = two.fetch(origin.address(), path);
    assert_eq!(none.text(), format!("{path} "));
    assert_eq!((two.asked("hit"), two.asked("miss")), (3.0, 2.0));
    // All of them are fields of one key, beside that of the generation.
    assert_eq!(server.keys().len(), 1 + written as usize / 3);
}

#[test]
fn what_varied_and_does_so_no_more_is_found() {
    let (server, far) = server();
    let varying = origin(
        &far,
        "Cache-Control: max-age=1, stale-if-error=60\r\nVary: Accept-Language\r\n",
    );
    let one = Play::begin(server.address());
    one.fetch_with(varying.address(), "/a", "Accept-Language: de\r\n");
    one.wait_until_written(1);
    let address = varying.address();
    drop(varying);
    let plain = crate::support::Server::listen_at(address).serve(|peer, _| {
        crate::support::server::answer_requests(peer, |_| {
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 3\r\n\r\nall".to_vec()
        });
    });
    let (two, three) = (Play::begin(server.address()), Play::begin(server.address()));
    let reload = "Accept-Language: de\r\nCache-Control: no-cache\r\n";
    assert_eq!(two.fetch_with(plain.address(), "/a", reload).text(), "all");
    two.wait_until_written(1);
    let found = three.fetch_with(plain.address(), "/a", "Accept-Language: it\r\n");
    assert_eq!(found.text(), "all");
    assert!(is_from_second_level(&found), "{}", found.head);
}
