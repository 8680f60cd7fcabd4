//! Tests of the two kinds of tables.

use super::*;

fn lines(lines: &[&[&str]]) -> Vec<Vec<String>> {
    let of = |line: &&[&str]| line.iter().map(|field| (*field).to_owned()).collect();
    lines.iter().map(of).collect()
}

#[test]
fn words_are_at_the_left_and_numbers_at_the_right() {
    let table = plain(&lines(&[&["class", "answers"], &["all", "7"]]), 1);
    assert_eq!(table, " class  answers\n all          7\n");
}

#[test]
fn markdown_has_a_line_below_the_head() {
    let table = markdown(&lines(&[&["relay", "lost"], &["carrick-copy", "0"]]));
    let expected = "| relay        | lost |\n|--------------|------|\n| carrick-copy | 0    |\n";
    assert_eq!(table, expected);
}
