//! Objects found in pages, in whatever pieces, and the requests for them.
use super::{
    Coding, Decoder, Embedded, FoundObjects, Hosts, Object, ObjectKind, page_url, write_request,
};
use crate::http1::{HeadLimits, Progress, RequestHead};
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;
use std::io::Write;
use url::Url;

fn page() -> Url {
    Url::parse("http://h.example/a/page?x=1").unwrap()
}

fn in_pieces(html: &[u8], hosts: Hosts, pieces: &[usize]) -> FoundObjects {
    let mut embedded = Embedded::new(page(), hosts);
    let mut all = FoundObjects::default();
    let mut add = |found: FoundObjects| {
        all.objects.extend(found.objects);
        all.foreign += found.foreign;
    };
    let mut rest = html;
    for bytes in pieces.iter().copied().cycle() {
        let (piece, after) = rest.split_at(bytes.clamp(1, rest.len().max(1)).min(rest.len()));
        add(embedded.take(piece));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    add(embedded.end());
    all
}

fn urls(html: &str) -> Vec<String> {
    let found = in_pieces(html.as_bytes(), Hosts::Same, &[html.len()]);
    let path = |object: &Object| object.url.as_str().replace("http://h.example", "");
    found.objects.iter().map(path).collect()
}

const PAGE: &str = "<!DOCTYPE html><html><head><title><img src=title></title><base href=/b/><base href=/c/>\
<link rel='alternate stylesheet' href=no><LINK REL=\"shortcut ICON\" HREF=icon><link rel=stylesheet href='s.css?a=1&amp;b=2'>\
<link rel=preload as=style href=p.css><link rel=modulepreload href=m.js><link rel=canonical href=no><link rel=dns-prefetch href=no>\
<script>var a = '<img src=no>';</script><script src=one.js></script><style>@import 'no'; <img src=no></style>\
<!-- <img src=no> --></head><body><img src=a.png srcset='a2.png 2x, a1.png 1x'><img srcset='w1 100w, w2 200w'>\
<img src=lazy loading=lazy><noscript><img src=no></noscript><template><template><img src=no></template><img src=no></template>\
<picture><source srcset='s1, s2 2x'></picture><video poster=v.jpg><source src=v.mp4></video><input type=text src=no>\
<input type=image src=i.png><a href=no>x</a><iframe src=no></iframe><img src=data:image/png;base64,AA><img src=a.png#f>\
<img src='  /x y  '><img\nsrc\n=\nz></body>";

const WITHIN: [&str; 14] = [
    "/b/icon",
    "/b/s.css?a=1&b=2",
    "/b/p.css",
    "/b/m.js",
    "/b/one.js",
    "/b/a.png",
    "/b/a1.png",
    "/b/w1",
    "/b/s1",
    "/b/v.jpg",
    "/b/v.mp4",
    "/b/i.png",
    "/x%20y",
    "/b/z",
];

#[test]
fn what_a_browser_asks_for_is_found() {
    assert_eq!(urls(PAGE), WITHIN);
    let found = in_pieces(PAGE.as_bytes(), Hosts::Same, &[100]);
    assert_eq!(found.foreign, 0);
    let kinds = |kind| found.objects.iter().filter(|one| one.kind == kind).count();
    assert_eq!(
        [
            ObjectKind::Style,
            ObjectKind::Script,
            ObjectKind::Image,
            ObjectKind::Other
        ]
        .map(kinds),
        [2, 2, 9, 1]
    );
}

#[test]
fn other_hosts_and_ways_are_left() {
    let html = "<img src=//other.example/x><img src=https://h.example/x><img src=http://h.example:81/x><img src=http://u:p@h.example/x>\
        <img src=ftp://h.example/x><img src=http://other.example:8080/x><img src='http://[::1'><img src=http://h.example:80/x>\
        <img src=page?x=1><img src=\"\"><img>";
    let found = |hosts| {
        let found = in_pieces(html.as_bytes(), hosts, &[html.len()]);
        let urls: Vec<_> = found
            .objects
            .iter()
            .map(|one| one.url.to_string())
            .collect();
        (urls, found.foreign)
    };
    let own = "http://h.example/x".to_owned();
    assert_eq!(found(Hosts::Same), (vec![own.clone()], 8));
    let other = "http://other.example/x".to_owned();
    assert_eq!(found(Hosts::Any), (vec![other, own], 7));
}

#[test]
fn a_base_of_another_host_makes_all_references_foreign() {
    assert!(urls("<base href=http://other.example/><img src=x>").is_empty());
    assert_eq!(urls("<base href='http://['><base><img src=x>"), ["/a/x"]);
}

#[test]
fn what_has_no_end_costs_no_more_than_a_few_times_its_length() {
    // A quadratic reader would need minutes for these.
    let attributes: String = (0..40_000).map(|n| format!(" a{n}=>")).collect();
    let pages = [
        format!("<img {attributes}"),
        format!("<img {attributes}>"),
        "<".repeat(300_000),
        "<!--".to_owned() + &"-> >".repeat(80_000),
        "<script>".to_owned() + &"</scrip>".repeat(40_000),
        "<template>".repeat(30_000),
        "<img src='".to_owned() + &"x>".repeat(150_000),
        "<base href=x/>".to_owned() + &"<img src=../../>".repeat(20_000),
        "&#x;&amp".repeat(40_000) + "<img src='" + &"&amp;".repeat(60_000) + "'>",
    ];
    for page in pages {
        let found = in_pieces(page.as_bytes(), Hosts::Any, &[1460]);
        assert!(found.objects.len() <= 2, "{found:?}");
    }
}

#[test]
fn a_page_of_nothing_but_objects_is_read_to_a_limit() {
    let html: String = (0..5000).map(|n| format!("<img src=/{n}>")).collect();
    assert_eq!(urls(&html).len(), super::NAMES_MAX);
    let html = "<img src=/a>".repeat(super::REFERENCES_MAX) + "<img src=/b>";
    assert_eq!(urls(&html).len(), 1);
}

#[test]
fn long_urls_are_not_kept() {
    let long = "x".repeat(100_000);
    let names: String = (0..1000).map(|n| format!("<img src={n}>")).collect();
    for html in [
        format!("<base href=/{long}/>{names}"),
        format!("<img src=/{long}><img src=/?{long}>"),
    ] {
        let mut embedded = Embedded::new(page(), Hosts::Any);
        let found = embedded.take(html.as_bytes());
        assert_eq!(found.objects, []);
        let kept: usize = embedded.names.iter().map(String::len).sum();
        assert_eq!(kept, 0, "of {} bytes", html.len());
    }
    let found = Embedded::new(page(), Hosts::Any).take(format!("<img src=/{long}>").as_bytes());
    assert_eq!(found.foreign, 1);
}

#[test]
fn text_that_is_not_closed_hides_what_follows_and_nothing_before() {
    assert_eq!(
        urls("<img src=x><script src=y>var a; <img src=no>"),
        ["/a/x", "/a/y"]
    );
    assert_eq!(urls("<img src=x><!-- <img src=no>"), ["/a/x"]);
    assert_eq!(urls("<img src=x><img src=no"), ["/a/x"]);
    assert_eq!(
        urls("<textarea><img src=no></textarea><img src=x>"),
        ["/a/x"]
    );
}

proptest! {
    #[test]
    fn how_a_page_is_cut_changes_nothing(pieces in prop::collection::vec(1_usize..400, 1..20)) {
        prop_assert_eq!(
            in_pieces(PAGE.as_bytes(), Hosts::Same, &pieces),
            in_pieces(PAGE.as_bytes(), Hosts::Same, &[PAGE.len()])
        );
    }

    #[test]
    fn whatever_comes_is_read(
        words in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "img ", "src=", "'", "\"", "/", "</", "script", "!--", "-->", "x", "&amp;", "&#0;", "base href=", "template", "=",
            "<img src=x>", "\0", "\u{fffd}", "srcset=", ",", " 2x", "[", "http://", "title>", "<![CDATA[", "]]>",
        ]), 0..80),
        junk in prop::collection::vec(any::<u8>(), 0..40),
        pieces in prop::collection::vec(1_usize..30, 1..8),
    ) {
        let html = [words.concat().as_bytes(), &junk].concat();
        let whole = in_pieces(&html, Hosts::Any, &[html.len().max(1)]);
        prop_assert_eq!(in_pieces(&html, Hosts::Any, &pieces), whole);
    }

    #[test]
    fn coded_junk_is_read(junk in prop::collection::vec(any::<u8>(), 0..300)) {
        for coding in [Coding::Gzip, Coding::Deflate] {
            let mut decoder = Decoder::new(coding, 1000);
            let mut bytes = 0;
            decoder.take(&junk, |piece| bytes += piece.len());
            prop_assert!(bytes <= 1000);
        }
    }
}

#[test]
fn codings_are_taken_off_in_pieces_of_any_length() {
    let text = PAGE.repeat(6).into_bytes();
    let level = Compression::default;
    let mut gzip = GzEncoder::new(Vec::new(), level());
    let mut zlib = ZlibEncoder::new(Vec::new(), level());
    let mut raw = DeflateEncoder::new(Vec::new(), level());
    for encoder in [&mut gzip as &mut dyn Write, &mut zlib, &mut raw] {
        encoder.write_all(&text).unwrap();
    }
    let coded = [
        (Coding::Identity, text.clone()),
        (Coding::Gzip, gzip.finish().unwrap()),
        (Coding::Deflate, zlib.finish().unwrap()),
        (Coding::Deflate, raw.finish().unwrap()),
    ];
    for (coding, coded) in coded {
        for piece_bytes in [1, 7, 1000, 100_000] {
            let (mut decoder, mut out) = (Decoder::new(coding, 5000), Vec::new());
            for piece in coded.chunks(piece_bytes) {
                decoder.take(piece, |bytes| out.extend_from_slice(bytes));
            }
            assert!(decoder.is_over(), "{coding:?} {piece_bytes}: {decoder:?}");
            assert_eq!(out, text[..5000], "{coding:?} {piece_bytes}");
        }
    }
}

#[test]
fn what_comes_before_a_fault_in_the_coding_is_used() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(b"<img src=x>").unwrap();
    let mut coded = gzip.finish().unwrap();
    coded.extend_from_slice(b"junk that is no member");
    let (mut decoder, mut out) = (Decoder::new(Coding::Gzip, 5000), Vec::new());
    decoder.take(&coded, |bytes| out.extend_from_slice(bytes));
    assert_eq!(out, b"<img src=x>");
    assert!(decoder.is_over());
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..100 {
        gzip.write_all(&[b' '; 1 << 20]).unwrap();
    }
    let coded = gzip.finish().unwrap();
    let (mut decoder, mut bytes) = (Decoder::new(Coding::Gzip, 1 << 20), 0);
    decoder.take(&coded, |piece| bytes += piece.len());
    assert_eq!((bytes, decoder.is_over()), (1 << 20, true));
}

#[test]
fn codings_are_recognized_by_their_names() {
    let of = |value: &str| Coding::of(value.as_bytes());
    assert_eq!([of(""), of("identity")], [Some(Coding::Identity); 2]);
    assert_eq!([of("GZIP"), of(" x-gzip ")], [Some(Coding::Gzip); 2]);
    assert_eq!(of("deflate"), Some(Coding::Deflate));
    assert_eq!([of("br"), of("gzip, gzip"), of("zstd")], [None; 3]);
}

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 16 * 1024,
    fields_max: 100,
};

fn parsed(text: &str) -> RequestHead {
    let mut head = RequestHead::new();
    let result = head.parse(text.as_bytes(), &LIMITS);
    assert!(matches!(result, Ok(Progress::Complete)), "{result:?}");
    head
}

fn asked(request: &str, url: &str, kind: ObjectKind, in_key: &[&str]) -> String {
    let head = parsed(request);
    let page = page_url(&head, request.as_bytes()).unwrap();
    let object = Object {
        url: Url::parse(url).unwrap(),
        kind,
    };
    let in_key: Vec<_> = in_key.iter().map(|name| name.as_bytes().to_vec()).collect();
    let mut out = Vec::new();
    write_request(
        &mut out,
        &object,
        &page,
        (&head, request.as_bytes()),
        &in_key,
    );
    let out = String::from_utf8(out).unwrap();
    parsed(&out);
    out
}

const LINES: &str = "Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate\r\nAccept-Language: nl\r\nCookie: id=7\r\n\
Authorization: Basic x\r\nProxy-Authorization: Basic y\r\nUser-Agent: u\r\nX-Device: small\r\nCache-Control: no-cache\r\n\r\n";

#[test]
fn an_object_is_asked_for_as_a_browser_does_without_what_is_the_clients_own() {
    let request = format!("GET /a/page?x=1 HTTP/1.1\r\nHost: H.example\r\n{LINES}");
    assert_eq!(
        asked(
            &request,
            "http://h.example/s.css?q",
            ObjectKind::Style,
            &["x-device", "cookie"]
        ),
        "GET /s.css?q HTTP/1.1\r\nHost: h.example\r\nAccept: text/css,*/*;q=0.1\r\nAccept-Encoding: gzip, deflate\r\n\
         Accept-Language: nl\r\nUser-Agent: u\r\nX-Device: small\r\nReferer: http://h.example/a/page?x=1\r\n\r\n"
    );
    let request = format!("GET http://h.example:8080/ HTTP/1.1\r\nHost: h.example:8080\r\n{LINES}");
    assert_eq!(
        asked(&request, "http://other.example/i", ObjectKind::Image, &[]),
        "GET http://other.example/i HTTP/1.1\r\nHost: other.example\r\nAccept: text/html,*/*;q=0.8\r\n\
         Accept-Encoding: gzip, deflate\r\nAccept-Language: nl\r\nUser-Agent: u\r\nReferer: http://h.example:8080/\r\n\r\n"
    );
    assert_eq!(
        asked(
            "GET / HTTP/1.1\r\nHost: [::1]:81\r\n\r\n",
            "http://[::1]:81/i",
            ObjectKind::Script,
            &[]
        ),
        "GET /i HTTP/1.1\r\nHost: [::1]:81\r\nReferer: http://[::1]:81/\r\n\r\n"
    );
}
