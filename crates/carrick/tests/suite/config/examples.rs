//! Every file in `config/` is valid, and the built-in plan is the one that its file describes.
use super::{examples, shown};
use carrick::config;
use carrick::config::plan::Plan;
use carrick::config::problem::{Severity, render};

#[test]
fn every_shipped_file_is_right() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(examples()).expect("the directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        match config::load(Some(&path)) {
            Ok(loaded) => {
                let is_fine = loaded
                    .problems
                    .iter()
                    .all(|problem| problem.severity == Severity::Note);
                assert!(is_fine, "{}", render(&loaded.problems, false));
            }
            Err(rejected) => panic!("{}", render(&rejected.problems, false)),
        }
        names.push(
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned(),
        );
    }
    names.sort();
    assert_eq!(
        names,
        [
            "built-in",
            "complete",
            "forward",
            "https",
            "paced",
            "site",
            "splitter",
            "splitter-far",
            "switch",
            "transparent",
            "tunnel"
        ]
    );
}

#[test]
fn the_built_in_plan_is_that_of_its_file() {
    let loaded = config::load(Some(&examples().join("built-in.toml"))).expect("a right file");
    assert_eq!(shown(&loaded), format!("{:#?}", Plan::built_in()));
    let without_file = config::load(None).expect("no file is needed");
    assert_eq!(shown(&without_file), shown(&loaded));
}
