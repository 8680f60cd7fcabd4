//! Replays the seeds of the fuzz targets, so that what was found once stays found.
use crate::checks;
use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 12, "{target} has too few seeds");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        // The file's name, printed before a possible failure.
        println!("{}", file.display());
        check(&bytes);
        for cut in 0..bytes.len() {
            check(&bytes[..cut]);
        }
    }
}

#[test]
fn request_head() {
    replay("request_head", checks::request_head);
}

#[test]
fn response_head() {
    replay("response_head", checks::response_head);
}

#[test]
fn chunked() {
    replay("chunked", checks::chunked);
}

#[test]
fn rewrite_request() {
    replay("rewrite_request", checks::rewrite_request);
}

#[test]
fn rewrite_response() {
    replay("rewrite_response", checks::rewrite_response);
}

#[test]
fn client_hello() {
    replay("client_hello", checks::client_hello);
}

#[test]
fn proxy_protocol() {
    replay("proxy_protocol", checks::proxy_protocol);
}

#[test]
fn http2_request() {
    replay("http2_request", checks::http2_request);
}

#[test]
fn http2_response() {
    replay("http2_response", checks::http2_response);
}

#[test]
fn cache() {
    replay("cache", checks::cache);
}
