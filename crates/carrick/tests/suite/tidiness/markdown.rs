//! The part of Markdown that the documents use: links, headings, code.

/// A fenced block of code.
pub struct Block {
    /// The word after the fence, such as `toml`.
    pub language: String,
    /// The line of the fence, from 1.
    pub line: usize,
    pub text: String,
}

/// A line of a document, by kind.
enum Line<'t> {
    Prose(&'t str),
    Code(&'t str),
    Fence(&'t str),
}

/// Separates code from prose: fenced blocks, and blocks indented by four spaces after an empty line.
fn lines(text: &str) -> impl Iterator<Item = (usize, Line<'_>)> {
    let (mut is_fenced, mut may_indent, mut is_list) = (false, true, false);
    text.lines().enumerate().map(move |(index, line)| {
        let kind = if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            Line::Fence(line.trim_start().trim_start_matches('`'))
        } else if is_fenced || (line.starts_with("    ") && may_indent && !is_list) {
            Line::Code(line)
        } else {
            may_indent = line.trim().is_empty() || line.starts_with("<!--");
            let begins_item =
                line.starts_with("- ") || line.starts_with(|first: char| first.is_ascii_digit());
            is_list = begins_item || (is_list && (may_indent || line.starts_with(' ')));
            Line::Prose(line)
        };
        (index + 1, kind)
    })
}

/// The fenced blocks.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (line, kind) in lines(text) {
        match kind {
            Line::Fence(language) => {
                is_open = !is_open;
                if is_open {
                    blocks.push(Block {
                        language: language.trim().to_owned(),
                        line,
                        text: String::new(),
                    });
                }
            }
            Line::Code(code) if is_open => {
                if let Some(block) = blocks.last_mut() {
                    block.text += code;
                    block.text.push('\n');
                }
            }
            Line::Code(_) | Line::Prose(_) => {}
        }
    }
    blocks
}

/// Every line of code, and every span of it in prose, with its line number.
pub fn code(text: &str) -> Vec<(usize, String)> {
    let mut code = Vec::new();
    for (number, kind) in lines(text) {
        match kind {
            Line::Code(line) => code.push((number, line.trim().to_owned())),
            Line::Prose(line) => {
                let spans = line.split('`').skip(1).step_by(2);
                code.extend(spans.map(|span| (number, span.to_owned())));
            }
            Line::Fence(_) => {}
        }
    }
    code
}

/// The targets of links in prose, with their line numbers.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, kind) in lines(text) {
        let Line::Prose(line) = kind else { continue };
        for rest in line.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                links.push((number, target.to_owned()));
            }
        }
    }
    links
}

/// The anchors of the headings, as forges generate them.
pub fn anchors(text: &str) -> Vec<String> {
    let headings = lines(text).filter_map(|(_, kind)| match kind {
        Line::Prose(line) if line.starts_with('#') => {
            Some(line.trim_start_matches('#').trim().to_lowercase())
        }
        _ => None,
    });
    headings
        .map(|heading| {
            let kept = heading
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
            kept.map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

#[test]
fn code_and_links_are_found() {
    let text = "# A `b` c\n\nSee [x](y.md#z), and `carrick run`.\n\n    make test\n\n- item\n\n    of the item\n\n```toml\na = 1\n```\n";
    assert_eq!(anchors(text), ["a-b-c"]);
    assert_eq!(links(text), [(3, "y.md#z".to_owned())]);
    let code: Vec<String> = code(text).into_iter().map(|(_, code)| code).collect();
    assert_eq!(code, ["b", "carrick run", "make test", "a = 1"]);
    let blocks = blocks(text);
    assert_eq!(
        (
            blocks.len(),
            blocks[0].language.as_str(),
            blocks[0].text.as_str()
        ),
        (1, "toml", "a = 1\n")
    );
}
