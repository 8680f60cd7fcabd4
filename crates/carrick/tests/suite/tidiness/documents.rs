//! Documents: links lead somewhere, every page is reachable, and the map names every crate and module.
use super::markdown::{anchors, links};
use super::{assert_none, documents, root};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// A link's target, relative to the root; `None` if it is not a file of the repository.
fn target(document: &str, link: &str) -> Option<(String, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| {
        (path, Some(anchor.to_owned()))
    });
    if path.is_empty() {
        return Some((document.to_owned(), anchor));
    }
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let mut whole = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    Some((whole.to_string_lossy().into_owned(), anchor))
}

#[test]
fn every_link_leads_somewhere() {
    let mut complaints = Vec::new();
    for document in documents() {
        for (line, link) in links(&document.text) {
            let Some((path, anchor)) = target(&document.name, &link) else {
                continue;
            };
            let place = root().join(&path);
            if !place.exists() {
                complaints.push(format!("{}:{line}: {link} leads nowhere", document.name));
            } else if let Some(anchor) = anchor {
                let text = std::fs::read_to_string(&place).unwrap_or_default();
                if !anchors(&text).contains(&anchor) {
                    complaints.push(format!(
                        "{}:{line}: {path} has no heading #{anchor}",
                        document.name
                    ));
                }
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn every_page_can_be_reached_from_the_readme() {
    let documents = documents();
    let mut reached = BTreeSet::from(["README.md".to_owned()]);
    let mut waiting = vec!["README.md".to_owned()];
    while let Some(name) = waiting.pop() {
        let Some(document) = documents.iter().find(|document| document.name == name) else {
            continue;
        };
        for (_, link) in links(&document.text) {
            if let Some((path, _)) = target(&name, &link)
                && reached.insert(path.clone())
            {
                waiting.push(path);
            }
        }
    }
    let lost = documents
        .iter()
        .filter(|document| !reached.contains(&document.name));
    assert_none(
        &lost
            .map(|document| format!("{}: no page leads to it", document.name))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn the_map_names_every_crate_and_module() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut complaints = Vec::new();
    for crate_name in entries(&root().join("crates")) {
        if !map.contains(&format!("[{crate_name}](crates/{crate_name})")) {
            complaints.push(format!(
                "ARCHITECTURE.md: does not name the crate {crate_name}"
            ));
        }
        let section = map
            .split("\n### ")
            .find(|section| section.starts_with(&format!("{crate_name}:")));
        let Some(section) = section else {
            complaints.push(format!("ARCHITECTURE.md: has no section on {crate_name}"));
            continue;
        };
        for entry in entries(&root().join("crates").join(&crate_name).join("src")) {
            let module = entry.strip_suffix(".rs").unwrap_or(&entry);
            if module.ends_with(".md") {
                continue;
            }
            let names = [
                format!("`{module}`"),
                format!("`{module}/`"),
                format!("/{module}`"),
                format!("/{module}/`"),
            ];
            if !matches!(module, "lib" | "main" | "bin")
                && !names.iter().any(|name| section.contains(name))
            {
                complaints.push(format!(
                    "ARCHITECTURE.md: the section on {crate_name} does not name `{module}`"
                ));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn the_map_names_only_what_is_there() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let mut complaints = Vec::new();
    for (line, code) in super::markdown::code(&map) {
        let is_path = code.ends_with(".rs") || (code.ends_with('/') && !code.contains(' '));
        let folders = [
            "",
            "crates/",
            "crates/carrick/",
            "crates/carrick/src/",
            "crates/carrick-lab/src/",
            "crates/carrick-splice/src/",
        ];
        if is_path
            && !folders
                .iter()
                .any(|folder| root().join(folder).join(&code).exists())
        {
            complaints.push(format!("ARCHITECTURE.md:{line}: there is no {code}"));
        }
    }
    assert_none(&complaints);
}

/// Each invariant names a test, or a module of tests.
#[test]
fn tests_of_invariants_exist() {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the map");
    let (_, invariants) = map.split_once("\n## Invariants\n").expect("invariants");
    let sources: Vec<_> = (super::written().into_iter())
        .filter(|file| file.name.starts_with("crates/") && file.extension() == "rs")
        .collect();
    let mut complaints = Vec::new();
    let mut count = 0;
    for (_, code) in super::markdown::code(invariants) {
        let Some((_, name)) = code.rsplit_once("::") else {
            continue;
        };
        count += 1;
        let (test, file) = (format!("#[test]\nfn {name}("), format!("/{name}.rs"));
        let is_there = |source: &super::Written| {
            let has_tests = source.text.contains("#[test]") || source.text.contains("mod tests;");
            source.text.contains(&test)
                || source.text.contains(&format!("    fn {name}("))
                || source.name.ends_with(&file) && has_tests
        };
        if !sources.iter().any(is_there) {
            complaints.push(format!("ARCHITECTURE.md: there is no test {code}"));
        }
    }
    assert!(count > 5, "only {count} tests are named");
    assert_none(&complaints);
}

fn entries(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}
