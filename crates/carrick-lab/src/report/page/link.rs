//! Data inside the page, to be saved by a link: works without the files beside it.

use std::fmt::Write as _;

use maud::{Markup, html};

/// A link that saves `text` as a file.
pub(super) fn save(label: &str, file: &str, media_type: &str, text: &str) -> Markup {
    let data = format!("data:{media_type};charset=utf-8,{}", percent_encoded(text));
    html! {
        a download=(file) href=(data) { (label) }
    }
}

/// As in RFC 3986; letters that are harmless in an attribute and in a URI stay, so that it stays small.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~,:;!*()/$@+=".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}
