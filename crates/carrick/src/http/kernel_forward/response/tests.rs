//! What is made of a response of which only the beginning, the end and the length were seen.
use super::*;
use crate::context::kernel_forward::KnownHead;
use crate::context::kernel_forward::PastResponses;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 8192,
    fields_max: 100,
};

fn known(head: &str, method: Method) -> Option<KnownHead> {
    read_head(head.as_bytes(), method, &LIMITS)
}

#[test]
fn the_final_head_is_found_behind_interim_ones() {
    let (interim, whole) = (
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    );
    let length = |text: &str| text.len() as u64;
    for (text, wanted) in [
        (String::new(), None),
        (whole[..20].to_owned(), None),
        (interim.to_owned(), Some((length(interim), 103, true))),
        // What follows is not known.
        (
            [interim, &whole[..20]].concat(),
            Some((length(interim), 103, true)),
        ),
        (whole.to_owned(), Some((length(whole), 200, false))),
        (
            [interim, interim, whole, "hello"].concat(),
            Some((2 * length(interim) + length(whole), 200, false)),
        ),
    ] {
        let found = known(&text, Method::Get);
        let found = found.map(|known| (known.head_bytes, known.status, known.is_interim));
        assert_eq!(found, wanted, "{text:?}");
    }
}

#[test]
fn the_status_is_known_where_the_head_is_not() {
    for (text, wanted) in [
        ("", None),
        ("HTTP/1.1 20", None),
        ("HTTP/1.1 200", Some(200)),
        ("HTTP/1.0 404 Not Found\r\nA: ", Some(404)),
        ("HTTP/1.1 101 Switching Protocols\r\nA: ", Some(101)),
        ("HTTP/1.1 103 Early Hints\r\nA: ", None),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", None),
        ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 503 X", Some(503)),
        ("HTTP/1.1 xyz OK\r\n", None),
        ("garbage, and more of it", None),
    ] {
        assert_eq!(read_status(text.as_bytes()), wanted, "{text:?}");
    }
}

#[test]
fn a_response_is_whole_by_its_length_or_by_its_last_chunk() {
    let whole = |is_exact| ResponseState::Whole { is_exact };
    let (get, head) = (Method::Get, Method::Head);
    // Its fields, bytes behind the head, the last of them, and what that is.
    for (method, fields, bytes, tail, wanted) in [
        (get, "Content-Length: 5", 0, "", ResponseState::Partial),
        (get, "Content-Length: 5", 4, "hell", ResponseState::Partial),
        (get, "Content-Length: 5", 5, "hello", whole(true)),
        (get, "Content-Length: 5", 6, "ello!", ResponseState::TooLong),
        (head, "Content-Length: 5", 0, "", whole(true)),
        (
            head,
            "Content-Length: 5",
            5,
            "hello",
            ResponseState::TooLong,
        ),
        // Nobody else may have the connection.
        (
            get,
            "Content-Length: 5\r\nConnection: close",
            5,
            "hello",
            whole(false),
        ),
        (
            get,
            "Transfer-Encoding: chunked",
            0,
            "",
            ResponseState::Partial,
        ),
        (
            get,
            "Transfer-Encoding: chunked",
            9,
            "hello",
            ResponseState::Partial,
        ),
        (
            get,
            "Transfer-Encoding: chunked",
            5,
            "0\r\n\r\n",
            whole(false),
        ),
        // The end of trailers, or a chunk that ends with an empty line.
        (
            get,
            "Transfer-Encoding: chunked",
            9,
            "x\r\n\r\n",
            ResponseState::Unknown,
        ),
        (
            get,
            "Transfer-Encoding: chunked",
            9,
            "",
            ResponseState::Unknown,
        ),
        (get, "Server: s", 5, "hello", ResponseState::Partial),
    ] {
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        let known = known(&text, method).expect("a head");
        let state = |is_trusted| known.state(text.len() as u64 + bytes, is_trusted, || tail.into());
        assert_eq!(state(true), wanted, "{fields} {bytes} {tail:?}");
        // Behind a response that may not have been whole, none is certain.
        let untrusted = match wanted {
            ResponseState::Whole { .. } => whole(false),
            state => state,
        };
        assert_eq!(state(false), untrusted, "{fields} {bytes} {tail:?}");
    }
}

#[test]
fn a_response_is_partial_until_the_client_has_all_of_it_and_its_head_is_looked_for_until_it_is_found()
 {
    let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let head_bytes = text.len() as u64;
    let mut pending = Pending::new(RequestLog::begin(), Method::Get, true);
    // Bytes that were sent and acknowledged; the kernel's note of the first packet.
    for (sent_bytes, acked_bytes, noted, wanted) in [
        (0, 0, "", ResponseState::NotBegun),
        (head_bytes, 0, "", ResponseState::Partial),
        (head_bytes, head_bytes, "", ResponseState::Unknown),
        (head_bytes, head_bytes, text, ResponseState::Partial),
        // It is known by now.
        (head_bytes + 5, head_bytes, "", ResponseState::Partial),
        (
            head_bytes + 5,
            head_bytes + 5,
            "",
            ResponseState::Whole { is_exact: true },
        ),
    ] {
        let progress = ResponseProgress {
            sent_bytes,
            acked_bytes,
        };
        let state = pending.state(progress, &LIMITS, || noted.into(), Vec::new, None);
        assert_eq!(state, wanted, "{progress:?} {noted:?}");
    }
}

#[test]
fn of_a_long_head_the_kernel_knows_what_follows() {
    let beginning = "HTTP/1.1 200 OK\r\nLink: <a";
    let early = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let progress = ResponseProgress {
        sent_bytes: 2000,
        acked_bytes: 2000,
    };
    for noted in [beginning, early] {
        for (has_whole, wanted) in [
            (None, ResponseState::Unknown),
            (Some(false), ResponseState::Partial),
            (Some(true), ResponseState::Whole { is_exact: false }),
        ] {
            let mut pending = Pending::new(RequestLog::begin(), Method::Get, true);
            let state = pending.state(progress, &LIMITS, || noted.into(), Vec::new, has_whole);
            assert_eq!(state, wanted, "{noted:?} {has_whole:?}");
            // Then anything may follow on it.
            assert_eq!(
                PastResponses::CLEAN.is_certain(Some(&pending)),
                has_whole.is_some()
            );
        }
    }
}

#[test]
fn what_is_known_of_the_last_response_stays_until_the_next_one_is_over() {
    let head = |text: &str| Pending {
        known: known(&format!("HTTP/1.1 {text}\r\n\r\n"), Method::Get),
        ..Pending::new(RequestLog::begin(), Method::Get, true)
    };
    let with_length = "200 OK\r\nContent-Length: 5";
    let chunked = "200 OK\r\nTransfer-Encoding: chunked";
    let closing = "200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close";
    let mut past = PastResponses::CLEAN;
    // Whether its end is certain while it is under way; afterwards; and whether the client's connection ends with it.
    for (text, is_exact, wanted) in [
        (Some(with_length), true, [true, true, false]),
        (None, true, [true, true, false]),
        (Some(chunked), false, [false, false, false]),
        (None, false, [false, false, false]),
        (Some("204 No Content"), true, [true, true, false]),
        (Some("103 Early Hints"), false, [false, false, false]),
        (Some(closing), false, [true, false, true]),
    ] {
        let response = text.map(head);
        let is_certain = past.is_certain(response.as_ref());
        past.add(response.as_ref(), is_exact);
        assert_eq!(past.is_exact, is_exact, "{text:?}");
        let found = [is_certain, past.is_certain(None), past.is_closing];
        assert_eq!(found, wanted, "{text:?}");
    }
}
