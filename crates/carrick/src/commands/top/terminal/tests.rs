//! What is written to a terminal, and what its locale can show.
use super::*;

fn page_of(looks: &[(Look, &str)]) -> Vec<Line> {
    let line = |(look, text): &(Look, &str)| Line {
        look: *look,
        text: (*text).to_owned(),
    };
    looks.iter().map(line).collect()
}

fn text_of(page: &[Line], width: usize, height: usize, has_colours: bool) -> String {
    let room = Room {
        width,
        height,
        tunnels_max: 0,
    };
    String::from_utf8(drawn(page, room, has_colours).unwrap()).unwrap()
}

const ALL: [(Look, &str); 4] = [
    (Look::Plain, "plain"),
    (Look::Heading, "heading"),
    (Look::Alarm, "alarm"),
    (Look::Faint, "faint"),
];

#[test]
fn without_colours_none_is_set() {
    let page = page_of(&ALL);
    for has_colours in [true, false] {
        let text = text_of(&page, 80, 24, has_colours);
        // SGR 38: a colour.
        assert_eq!(text.contains("\u{1b}[38;"), has_colours, "{text:?}");
        assert!(ALL.iter().all(|(_, line)| text.contains(line)), "{text:?}");
    }
}

#[test]
fn a_full_line_keeps_its_last_column_and_the_rest_is_cleared() {
    const TO_END: &str = "\u{1b}[K";
    let text = text_of(&page_of(&[(Look::Plain, "1234")]), 4, 1, false);
    assert!(
        !text.contains(TO_END) && !text.contains("\u{1b}[J"),
        "{text:?}"
    );
    let text = text_of(&page_of(&[(Look::Plain, "123")]), 4, 2, false);
    assert!(
        text.contains(TO_END) && text.contains("\u{1b}[2;1H\u{1b}[J"),
        "{text:?}"
    );
    // Lines beyond the room would move what is there.
    assert!(!text_of(&page_of(&ALL), 80, 2, false).contains("alarm"));
}

#[test]
fn the_locale_is_that_of_posix() {
    let table: [(&[(&str, &str)], bool); 7] = [
        (&[], false),
        (&[("LANG", "C")], false),
        (&[("LANG", "en_US.UTF-8")], true),
        (&[("LANG", "de_DE.utf8")], true),
        (&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")], false),
        (
            &[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")],
            true,
        ),
        (&[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")], false),
    ];
    for (set, is_there) in table {
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(is_utf8(variable), is_there, "{set:?}");
    }
}
