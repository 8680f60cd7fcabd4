//! Tags by which groups of responses are purged: `Surrogate-Key` (divided by spaces) and `Cache-Tag` (by commas).
use super::fields::Fields;
use crate::http1::syntax;

/// Most tags of one response; those beyond are left out.
pub const TAGS_MAX: usize = 128;

/// The longest tag; longer ones are left out.
pub const TAG_BYTES_MAX: usize = 1024;

/// The tags of a response, in order and without repetition. Case matters.
#[must_use]
pub fn tags(fields: Fields<'_>) -> Vec<&[u8]> {
    let spaced = fields
        .values(b"surrogate-key")
        .flat_map(|value| value.split(|byte| matches!(byte, b' ' | b'\t')));
    let listed = fields.values(b"cache-tag").flat_map(syntax::elements);
    let mut tags: Vec<&[u8]> = Vec::new();
    for tag in spaced
        .chain(listed)
        .filter(|tag| !tag.is_empty() && tag.len() <= TAG_BYTES_MAX)
    {
        if tags.len() == TAGS_MAX {
            break;
        }
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}

#[cfg(test)]
mod tests {
    use super::{TAG_BYTES_MAX, TAGS_MAX, tags};
    use crate::cache::Fields;

    #[test]
    fn both_spellings_of_tags() {
        let text = "Surrogate-Key: one two\tthree  one\r\nCache-Tag: four, five five,,Two\r\nsurrogate-key: six\r\n";
        let found: Vec<_> = tags(Fields::of_text(text.as_bytes()))
            .into_iter()
            .map(|tag| std::str::from_utf8(tag).unwrap())
            .collect();
        assert_eq!(
            found,
            ["one", "two", "three", "six", "four", "five five", "Two"]
        );
        assert!(tags(Fields::of_text(b"Date: x\r\n")).is_empty());
    }

    #[test]
    fn limits_of_tags() {
        let many: String = (0..TAGS_MAX + 9)
            .map(|number| format!(" t{number}"))
            .collect();
        assert_eq!(
            tags(Fields::of_text(
                format!("Surrogate-Key:{many}\r\n").as_bytes()
            ))
            .len(),
            TAGS_MAX
        );
        let long = "x".repeat(TAG_BYTES_MAX + 1);
        assert_eq!(
            tags(Fields::of_text(
                format!("Cache-Tag: {long}, y\r\n").as_bytes()
            )),
            [b"y"]
        );
    }
}
