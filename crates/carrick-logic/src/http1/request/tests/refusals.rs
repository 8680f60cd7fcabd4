//! Refused requests, and the status that the client gets.
use super::*;

#[test]
fn request_lines_that_are_refused() {
    #[rustfmt::skip]
    let table: [(&[u8], u16, &str); 54] = [
        (b"\x16\x03\x01\x02\x00\x01", 400, "tls_on_plain_port"),
        (b"\r\nGET / HTTP/1.1\r\n", 400, "empty_lines"),
        (b"\nGET / HTTP/1.1\r\n", 400, "empty_lines"),
        (b" GET / HTTP/1.1\r\n", 400, "bad_method"),
        (b"\x00", 400, "bad_method"),
        (b"SSH-2.0-OpenSSH_9.6 (x\r\n", 400, "no_version"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", 400, "malformed_request_line"),
        (b"G<T / HTTP/1.1\r\n", 400, "bad_method"),
        (b"GET\t/ HTTP/1.1\r\n", 400, "bad_method"),
        (b"G\xc3\x89T / HTTP/1.1\r\n", 400, "bad_method"),
        (b"get / HTTP/1.1\r\n", 400, "method_case"),
        (b"Head / HTTP/1.1\r\n", 400, "method_case"),
        (b"GET\r\n", 400, "malformed_request_line"),
        (b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG", 501, "method_too_long"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "unsupported_version"),
        (b"GET / HTTP/2.0\r\n", 505, "unsupported_version"),
        (b"GET / HTTP/0.9\r\n", 505, "unsupported_version"),
        (b"GET /\r\n", 400, "no_version"),
        (b"GET / \r\n", 400, "malformed_request_line"),
        (b"GET / HTTP/1\r\n", 400, "malformed_request_line"),
        (b"GET / HTTP/1.10\r\n", 400, "malformed_request_line"),
        (b"GET / http/1.1\r\n", 400, "malformed_request_line"),
        (b"GET / HTTP/1.1 \r\n", 400, "malformed_request_line"),
        (b"GET / HTTP/1.x\r\n", 400, "malformed_request_line"),
        (b"GET  / HTTP/1.1\r\n", 400, "malformed_request_line"),
        (b"GET /  HTTP/1.1\r\n", 400, "malformed_request_line"),
        (b"GET /a b HTTP/1.1\r\n", 400, "malformed_request_line"),
        (b"GET / HTTP/1.1\n", 400, "bare_lf"),
        (b"GET / HTTP/1.1\r\r\n", 400, "malformed_request_line"),
        (b"GET /\r HTTP/1.1\r\n", 400, "bad_target_byte"),
        (b"GET /\t HTTP/1.1\r\n", 400, "bad_target_byte"),
        (b"GET /\x00 HTTP/1.1\r\n", 400, "bad_target_byte"),
        (b"GET /\x7f HTTP/1.1\r\n", 400, "bad_target_byte"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n", 400, "bad_target_byte"),
        (b"GET /a#b HTTP/1.1\r\n", 400, "fragment_in_target"),
        (b"GET * HTTP/1.1\r\n", 400, "asterisk_target"),
        (b"GET a HTTP/1.1\r\n", 400, "bad_target"),
        (b"GET example.org:80 HTTP/1.1\r\n", 400, "bad_target"),
        (b"GET http:/example.org HTTP/1.1\r\n", 400, "bad_target"),
        (b"GET 1ttp://example.org HTTP/1.1\r\n", 400, "bad_target"),
        (b"GET https://example.org/ HTTP/1.1\r\n", 400, "unsupported_scheme"),
        (b"GET ftp://example.org/ HTTP/1.1\r\n", 400, "unsupported_scheme"),
        (b"GET http:///path HTTP/1.1\r\n", 400, "bad_host"),
        (b"GET http://u@example.org/ HTTP/1.1\r\n", 400, "user_information"),
        (b"GET http://u:pw@example.org/ HTTP/1.1\r\n", 400, "user_information"),
        (b"GET http://u:pw@example.org:80/ HTTP/1.1\r\n", 400, "user_information"),
        (b"GET http://@example.org/ HTTP/1.1\r\n", 400, "user_information"),
        (b"CONNECT u:pw@example.org:443 HTTP/1.1\r\n", 400, "user_information"),
        (b"GET http://a.example\\@b.example/ HTTP/1.1\r\n", 400, "user_information"),
        (b"GET http://example.org:0/ HTTP/1.1\r\n", 400, "bad_port"),
        (b"CONNECT example.org HTTP/1.1\r\n", 400, "bad_connect_target"),
        (b"CONNECT /path HTTP/1.1\r\n", 400, "bad_connect_target"),
        (b"CONNECT http://example.org:443 HTTP/1.1\r\n", 400, "bad_connect_target"),
        (b"CONNECT example.org:65536 HTTP/1.1\r\n", 400, "bad_connect_target"),
    ];
    for (text, status, label) in table {
        assert_eq!(refused(text), (status, label), "{}", text.escape_ascii());
    }
}

#[test]
fn fields_that_are_refused() {
    #[rustfmt::skip]
    let table: [(&[u8], u16, &str); 60] = [
        (b"Host: a\nB: c\r\n", 400, "bare_lf"),
        (b"Host: a\r\n\nB: c\r\n", 400, "bare_lf"),
        (b"Host: a\rB: c\r\n", 400, "bare_cr"),
        (b"Host: a\r\nB: c\r\r\n", 400, "bare_cr"),
        (b"Host: a\r\nB : c\r\n", 400, "space_before_colon"),
        (b"Host: a\r\nContent-Length\t: 5\r\n", 400, "space_before_colon"),
        (b"Host: a\r\n: c\r\n", 400, "empty_field_name"),
        (b"Host: a\r\nB\r\n", 400, "missing_colon"),
        (b" Host: a\r\n", 400, "line_folding"),
        (b"Host: a\r\nB: c\r\n d\r\n", 400, "line_folding"),
        (b"Host: a\r\nB: c\r\n\t\r\n", 400, "line_folding"),
        (b"Host: a\r\nB(: c\r\n", 400, "bad_field_name"),
        (b"Host: a\r\nB\x00: c\r\n", 400, "bad_field_name"),
        (b"Host: a\r\nB\xc3\xa9: c\r\n", 400, "bad_field_name"),
        (b"Host: a\r\nB: \x00\r\n", 400, "control_byte"),
        (b"Host: a\r\nB: a\x0bb\r\n", 400, "control_byte"),
        (b"Host: a\r\nB: a\x7fb\r\n", 400, "control_byte"),
        (b"", 400, "no_host"),
        (b"X: y\r\n", 400, "no_host"),
        (b"Host: a\r\nHost: a\r\n", 400, "repeated_host"),
        (b"Host:\r\n", 400, "bad_host"),
        (b"Host: u@a\r\n", 400, "user_information"),
        (b"Host: a, b\r\n", 400, "bad_host"),
        (b"Host: a b\r\n", 400, "bad_host"),
        (b"Host: a/b\r\n", 400, "bad_host"),
        (b"Host: a%2eb\r\n", 400, "bad_host"),
        (b"Host: http://a\r\n", 400, "bad_port"),
        (b"Host: [::1\r\n", 400, "bad_host"),
        (b"Host: [::1]x\r\n", 400, "bad_host"),
        (b"Host: [fe80::1%25eth0]\r\n", 400, "bad_host"),
        (b"Host: ::1\r\n", 400, "bad_host"),
        (b"Host: :\r\n", 400, "bad_host"),
        (b"Host: a::\r\n", 400, "bad_port"),
        (b"Host: a:80:80\r\n", 400, "bad_port"),
        (b"Host: a:+80\r\n", 400, "bad_port"),
        (b"Host: a:080\r\n", 400, "bad_port"),
        (b"Host: a:99999\r\n", 400, "bad_port"),
        (b"Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400, "both_lengths"),
        (b"Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n", 400, "both_lengths"),
        (b"Host: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n", 400, "repeated_content_length"),
        (b"Host: a\r\nContent-Length: +5\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent-Length: -5\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent-Length: 5, 5\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent-Length: 5x\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent-Length: 0x5\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent-Length: 010\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent-Length:\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent-Length: 9223372036854775808\r\n", 400, "bad_content_length"),
        (b"Host: a\r\nContent_Length: 5\r\n", 400, "lookalike_field"),
        (b"Host: a\r\nTransfer_Encoding: chunked\r\n", 400, "lookalike_field"),
        (b"Host: a\r\nContent.Length: 5\r\n", 400, "lookalike_field"),
        (b"Host: a\r\ntransfer~encoding: chunked\r\n", 400, "lookalike_field"),
        (b"Host: a\r\nTransfer-Encoding: gzip\r\n", 501, "unknown_transfer_coding"),
        (b"Host: a\r\nTransfer-Encoding: gzip, chunked\r\n", 501, "unknown_transfer_coding"),
        (b"Host: a\r\nTransfer-Encoding: chunked, gzip\r\n", 400, "chunked_not_last"),
        (b"Host: a\r\nTransfer-Encoding: chunked, chunked\r\n", 400, "chunked_not_last"),
        (b"Host: a\r\nTransfer-Encoding: chunked,\r\n", 400, "bad_transfer_encoding"),
        (b"Host: a\r\nTransfer-Encoding:\r\n", 400, "bad_transfer_encoding"),
        (b"Host: a\r\nExpect: 200-ok\r\n", 417, "unknown_expectation"),
        (b"Host: a\r\nConnection: \"close\"\r\n", 400, "bad_connection"),
    ];
    for (fields, status, label) in table {
        let text = [b"GET / HTTP/1.1\r\n", fields, b"\r\n"].concat();
        assert_eq!(refused(&text), (status, label), "{}", fields.escape_ascii());
    }
}

#[test]
fn transfer_encoding_games_are_refused() {
    for value in [
        "xchunked",
        "chunked2",
        "identity",
        "chunked\u{b}",
        "\"chunked\"",
        "chunked;q=1",
        "chunked chunked",
    ] {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {value}\r\n\r\n");
        refused(text.as_bytes());
    }
    let twice = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(twice), (400, "repeated_transfer_encoding"));
    let after_unknown =
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n";
    assert_eq!(refused(after_unknown), (400, "repeated_transfer_encoding"));
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(old), (400, "chunked_http10"));
}

#[test]
fn bodies_of_connect_and_trace_are_refused() {
    for first in ["CONNECT a:443", "TRACE /"] {
        for length in ["Content-Length: 1", "Transfer-Encoding: chunked"] {
            let text = format!("{first} HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n");
            assert_eq!(
                refused(text.as_bytes()),
                (400, "unexpected_body"),
                "{text:?}"
            );
        }
        let empty = accepted(&format!(
            "{first} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(empty.body, BodyLength::None);
    }
}

/// Each field of a head is compared with every name in `Connection`.
#[test]
fn a_long_connection_is_refused() {
    let with = |values: &[&str]| {
        let lines = values
            .iter()
            .map(|value| format!("Connection: {value}\r\n"));
        let lines: String = lines.collect();
        format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")
    };
    let names = |count: usize| vec!["b"; count].join(",");
    accepted(&with(&[&names(64)]));
    accepted(&with(&[&names(32), &names(32)]));
    accepted(&with(&[&"b".repeat(4096)]));
    for values in [
        vec![names(65)],
        vec![names(64), String::new()],
        vec![",".repeat(64)],
        vec!["b".repeat(4097)],
        vec!["b".repeat(2048), "b".repeat(2049)],
    ] {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let text = with(&values);
        assert_eq!(
            refused(text.as_bytes()),
            (400, "long_connection"),
            "{text:?}"
        );
    }
}
