//! Small whole responses that carrick sends in its own name.
use super::{Method, Version};

/// A response with a short text as its body.
#[derive(Debug, Clone, Copy)]
pub struct ErrorResponse<'a> {
    /// The status code; its usual phrase goes with it.
    pub status: u16,
    /// What is wrong and what would be right, for a person to read; one line.
    pub detail: &'a str,
    /// Whether the body is that text alone, for programs; else the status is before it.
    pub is_bare: bool,
    /// The request's method: the answer to HEAD has no body. [`Method::Other`] if it is not known.
    pub method: Method,
    /// The client's version: when kept, an HTTP/1.0 connection gets `Connection: keep-alive`.
    pub client_version: Version,
    /// Whether the client's connection stays open; else `Connection: close` is added.
    pub keep_alive: bool,
    /// The value of `Date` (RFC 9110 section 6.6.1), if the caller has a clock.
    pub date: Option<&'a str>,
    /// More fields, such as `Proxy-Authenticate`; control bytes in them are replaced by spaces.
    pub extra_fields: &'a [(&'a str, &'a str)],
}

/// Appends a whole response, `Content-Length` and body included.
pub fn write_error_response(out: &mut Vec<u8>, response: &ErrorResponse<'_>) {
    let phrase = reason_phrase(response.status);
    let mut put = |parts: &[&str]| {
        parts
            .iter()
            .for_each(|part| out.extend_from_slice(part.as_bytes()))
    };
    let status = response.status.clamp(100, 999).to_string();
    put(&["HTTP/1.1 ", &status, " ", phrase, "\r\n"]);
    if let Some(date) = response.date {
        put(&["Date: ", &without_control(date), "\r\n"]);
    }
    for (name, value) in response.extra_fields {
        put(&[name, ": ", &without_control(value), "\r\n"]);
    }
    let detail = without_control(response.detail);
    let body = match response.is_bare {
        true => detail,
        false => format!("{status} {phrase}\n{detail}\n"),
    };
    put(&[
        "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n",
    ]);
    put(&["Content-Length: ", &body.len().to_string(), "\r\n"]);
    match (response.keep_alive, response.client_version) {
        (false, _) => put(&["Connection: close\r\n"]),
        (true, Version::Http10) => put(&["Connection: keep-alive\r\n"]),
        (true, Version::Http11) => {}
    }
    put(&["\r\n"]);
    if response.method != Method::Head {
        put(&[&body]);
    }
}

fn without_control(text: &str) -> String {
    text.chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// The phrase of a status code in the IANA registry; for an unknown one that of its class.
#[must_use]
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => class_phrase(status),
    }
}

fn class_phrase(status: u16) -> &'static str {
    match status / 100 {
        1 => "Informational",
        2 => "Success",
        3 => "Redirection",
        4 => "Client Error",
        _ => "Server Error",
    }
}

#[cfg(test)]
mod tests;
