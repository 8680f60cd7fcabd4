//! Tests of the elements.

use super::*;

#[test]
fn nothing_in_a_text_is_markup() {
    assert_eq!(
        escape("<b onclick=\"x\">&'\u{0}\u{1b}\n"),
        "&lt;b onclick=&quot;x&quot;&gt;&amp;&#39;\n"
    );
}

#[test]
fn text_is_broken_at_spaces() {
    assert_eq!(wrap("one two three", 60.0), ["one two", "three"]);
    assert_eq!(wrap("unbreakable", 10.0), ["unbreakable"]);
    assert_eq!(wrap("", 10.0), Vec::<String>::new());
}
