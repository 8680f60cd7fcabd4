//! Modules of a crate import each other in one direction only, and the program's layers are those of the map.
use super::{assert_none, root, written};
use std::collections::{BTreeMap, BTreeSet};

/// The parts of `carrick-splice` that know HTTP; the last one is a model of the classifier for tests.
const KNOWS_HTTP: [&str; 3] = ["bpf/http/", "src/engine/tc/http", "bpf/tc/model.bpf.c"];

/// Syntax without which HTTP cannot be read or written.
const SYNTAX: [&str; 8] = [
    "HTTP/",
    "\\r",
    "CRLF",
    "ontent-",
    "ONTENT_",
    "\"GET",
    "REQUEST_GET",
    "'H', 'T'",
];

/// Modules of a crate by their paths, and the modules that each of them names.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Sibling modules: which names which.
type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_two_modules_import_each_other() {
    let mut complaints = Vec::new();
    for crate_name in [
        "carrick",
        "carrick-lab",
        "carrick-logic",
        "carrick-packet-rules",
        "carrick-splice",
    ] {
        for (parent, edges) in siblings(&imports(crate_name)) {
            for circle in circles(&edges) {
                complaints.push(format!("{crate_name} {parent}: a circle of {circle:?}"));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn lower_layers_never_name_higher_ones() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let section = map
        .split("\n### ")
        .find(|section| section.starts_with("carrick:"))
        .expect("the program's section");
    let layers: Vec<&str> = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert!(layers.len() > 10, "{layers:?}");
    let height = |module: &str| layers.iter().position(|layer| *layer == module);
    let mut complaints = Vec::new();
    for (module, named) in siblings(&imports("carrick")).remove("").unwrap_or_default() {
        for below in named {
            match (height(&module), height(&below)) {
                (Some(above), Some(below)) if above < below => {}
                (Some(_), Some(_)) => {
                    complaints.push(format!("`{module}` names `{below}`, which is above it"));
                }
                _ => complaints.push(format!("`{module}` or `{below}` is not on the map")),
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn only_one_part_of_the_splice_service_knows_http() {
    let mut complaints = Vec::new();
    let mut looked_at = 0;
    for file in written() {
        let Some(name) = file.name.strip_prefix("crates/carrick-splice/") else {
            continue;
        };
        let is_looked_at = ["src/", "bpf/"]
            .iter()
            .any(|folder| name.starts_with(folder))
            && !KNOWS_HTTP.iter().any(|place| name.starts_with(place))
            && !name.contains("/tests");
        if is_looked_at && matches!(file.extension(), "rs" | "c" | "h") {
            looked_at += 1;
            let text = program(&without_block_comments(&file.text));
            let found = SYNTAX.iter().filter(|word| text.contains(**word));
            complaints.extend(found.map(|word| format!("{}: {word}", file.name)));
        }
    }
    assert!(looked_at > 100, "only {looked_at} files were found");
    assert_none(&complaints);
}

#[test]
fn circles_are_found() {
    let edges = |pairs: &[(&str, &str)]| {
        let mut edges = Edges::new();
        for (from, to) in pairs {
            (edges.entry((*from).to_owned()).or_default()).insert((*to).to_owned());
        }
        edges
    };
    assert!(circles(&edges(&[("a", "b"), ("b", "c"), ("a", "c")])).is_empty());
    let two = circles(&edges(&[
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("d", "a"),
        ("e", "f"),
        ("f", "e"),
    ]));
    let expected = [vec!["a", "b", "c"], vec!["e", "f"]];
    assert_eq!(two, expected);
    let paths = paths("use crate::{a::b, c};\nuse super::{d::{self, E}, f};\nlet x = self::g::H;");
    assert_eq!(
        paths,
        [
            "crate::a::b",
            "crate::c",
            "super::d::self",
            "super::d::E",
            "super::f",
            "self::g::H"
        ]
    );
}

/// The modules that each module of a crate names, without tests.
fn imports(crate_name: &str) -> Imports {
    let prefix = format!("crates/{crate_name}/src/");
    let files: Vec<(Vec<String>, String)> = written()
        .into_iter()
        .filter_map(|file| {
            let name = file.name.strip_prefix(&prefix)?.strip_suffix(".rs")?;
            let mut module: Vec<String> = name.split('/').map(str::to_owned).collect();
            if matches!(module.last()?.as_str(), "mod" | "lib" | "main") {
                module.pop();
            }
            let is_test = (module.iter()).any(|part| matches!(part.as_str(), "tests" | "testing"));
            (!is_test).then_some((module, file.text))
        })
        .collect();
    let known: BTreeSet<Vec<String>> = files.iter().map(|(module, _)| module.clone()).collect();
    let named = files.into_iter().map(|(module, text)| {
        let all = paths(&program(&text));
        let resolved = all.iter().map(|path| resolve(path, &module, &known));
        (module.clone(), resolved.collect())
    });
    named.collect()
}

/// A file's text without comments and without its test modules.
fn program(text: &str) -> String {
    let mut is_test = false;
    let mut program = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        is_test |= line == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.ends_with('{'));
        if !is_test {
            program += line.split("//").next().unwrap_or_default();
            program.push('\n');
        }
        is_test &= line != "}";
    }
    program
}

/// Without C block comments.
fn without_block_comments(text: &str) -> String {
    let mut pieces = text.split("/*");
    let mut rest = pieces.next().unwrap_or_default().to_owned();
    rest.extend(pieces.map(|piece| piece.split_once("*/").map_or("", |(_, rest)| rest)));
    rest
}

/// Paths that begin with `crate`, `super` or `self`, with groups expanded.
fn paths(text: &str) -> Vec<String> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..) {
        let next = ["crate::", "super::", "self::"].iter();
        let Some(start) = next.filter_map(|word| rest.find(word)).min() else {
            break;
        };
        let begins = start == 0
            || !rest
                .as_bytes()
                .get(start - 1)
                .is_some_and(|byte| is_word(*byte) || *byte == b':');
        let path = rest.get(start..).unwrap_or_default();
        let mut depth = 0;
        let length = path
            .bytes()
            .position(|byte| {
                match byte {
                    b'{' => depth += 1,
                    b'}' if depth > 0 => depth -= 1,
                    _ => {}
                }
                depth == 0 && byte != b'}' && byte != b':' && !is_word(byte)
            })
            .unwrap_or(path.len());
        if begins {
            let whole: String = path
                .get(..length)
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            expand("", &whole, &mut found);
        }
        at += start + length.max(1);
    }
    found
}

/// Expands the groups of a path.
fn expand(prefix: &str, path: &str, found: &mut Vec<String>) {
    let Some((before, group)) = path.split_once('{') else {
        if !path.is_empty() {
            found.push(format!("{prefix}{path}"));
        }
        return;
    };
    let group = group.strip_suffix('}').unwrap_or(group);
    let prefix = format!("{prefix}{before}");
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                expand(&prefix, group.get(start..at).unwrap_or_default(), found);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, group.get(start..).unwrap_or_default(), found);
}

/// The module that a path in `module` resolves to.
fn resolve(path: &str, module: &[String], known: &BTreeSet<Vec<String>>) -> Vec<String> {
    let mut absolute = module.to_vec();
    for part in path.split("::") {
        match part {
            "crate" => absolute.clear(),
            "super" => drop(absolute.pop()),
            "self" => {}
            part => absolute.push(part.to_owned()),
        }
    }
    while !absolute.is_empty() && !known.contains(&absolute) {
        absolute.pop();
    }
    absolute
}

/// For each module, which of its children name which others.
fn siblings(imports: &Imports) -> BTreeMap<String, Edges> {
    let mut siblings: BTreeMap<String, Edges> = BTreeMap::new();
    for (module, named) in imports {
        for other in named {
            let common = module
                .iter()
                .zip(other)
                .take_while(|(one, other)| one == other)
                .count();
            if let (Some(from), Some(to)) = (module.get(common), other.get(common)) {
                let parent = module.get(..common).unwrap_or_default().join("::");
                let edges = siblings.entry(parent).or_default();
                edges.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    siblings
}

/// Groups of modules that can all reach each other.
fn circles(edges: &Edges) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<&String> = edges.get(from).into_iter().flatten().collect();
        while let Some(module) = waiting.pop() {
            if seen.insert(module) {
                waiting.extend(edges.get(module).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        edges.keys().map(|module| (module, reach(module))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for (module, to) in &reached {
        let is_back = |other: &&&String| {
            reached
                .get(*other)
                .is_some_and(|back| back.contains(module))
        };
        let circle: Vec<String> = to
            .iter()
            .filter(is_back)
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}
