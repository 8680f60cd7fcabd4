//! The bytes written to a terminal, and which characters its locale can show.
use super::*;

/// Set for the process that is to panic.
const PANICS: &str = "CARRICK_TEST_PANICS_ON_TERMINAL";

#[test]
fn a_panic_gives_the_terminal_back_before_it_says_anything() {
    const WORDS: &str = "something is wrong";
    if std::env::var_os(PANICS).is_some() {
        let _terminal = Terminal::take().unwrap();
        panic!("{WORDS}");
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let program = std::env::current_exe().unwrap();
    // script(1) makes a terminal.
    let command = format!("{} --exact {name} --nocapture; stty -a", program.display());
    let output = std::process::Command::new("script")
        .args(["--quiet", "--command", &command, "/dev/null"])
        .env(PANICS, "yes")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let (before, after) = text
        .split_once("\u{1b}[?1049l")
        .unwrap_or_else(|| panic!("{text:?}"));
    assert!(
        before.contains("\u{1b}[?1049h") && !before.contains(WORDS),
        "{text:?}"
    );
    assert!(
        after.contains(WORDS) && !after.contains("\u{1b}[?1049"),
        "{text:?}"
    );
    let has_mode = |mode| after.split_whitespace().any(|word| word == mode);
    assert!(has_mode("icanon") && has_mode("echo"), "{after}");
}

fn page_of(styles: &[(Style, &str)]) -> Vec<Line> {
    let line = |(style, text): &(Style, &str)| Line {
        style: *style,
        text: (*text).to_owned(),
    };
    styles.iter().map(line).collect()
}

fn text_of(page: &[Line], width: usize, height: usize, has_colours: bool) -> String {
    let room = Room {
        width,
        height,
        tunnels_max: 0,
    };
    String::from_utf8(drawn(page, room, has_colours).unwrap()).unwrap()
}

const ALL: [(Style, &str); 4] = [
    (Style::Plain, "plain"),
    (Style::Heading, "heading"),
    (Style::Alarm, "alarm"),
    (Style::Faint, "faint"),
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
    let text = text_of(&page_of(&[(Style::Plain, "1234")]), 4, 1, false);
    assert!(
        !text.contains(TO_END) && !text.contains("\u{1b}[J"),
        "{text:?}"
    );
    let text = text_of(&page_of(&[(Style::Plain, "123")]), 4, 2, false);
    assert!(
        text.contains(TO_END) && text.contains("\u{1b}[2;1H\u{1b}[J"),
        "{text:?}"
    );
    // Lines beyond the room would scroll the screen.
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
