//! Tests of what is read and written, and of the page in a browser.

use std::process::Command;

use super::*;

fn save(directory: &Path, results: &ExperimentResults) {
    fs::create_dir_all(directory).unwrap();
    fs::write(
        directory.join(RESULTS),
        serde_json::to_string(results).unwrap(),
    )
    .unwrap();
}

#[test]
fn results_are_read_from_the_directory_and_from_those_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut results = fixture::everything();
    save(&directory.path().join("b"), &results);
    results.name = "own".into();
    save(directory.path(), &results);
    results.name = "other".into();
    save(&directory.path().join("a"), &results);
    fs::create_dir(directory.path().join("empty")).unwrap();
    let loaded = load(directory.path()).unwrap();
    let names: Vec<&str> = loaded.iter().map(|results| results.name.as_str()).collect();
    assert_eq!(names, ["own", "other", "rosu-2002"]);
    assert_eq!(loaded[1], results, "nothing is lost on the way");
}

#[test]
fn what_cannot_be_read_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let complaint = || format!("{:#}", load(directory.path()).unwrap_err());
    assert!(complaint().contains("carrick-lab run"), "{}", complaint());
    let below = directory.path().join("x");
    fs::create_dir(&below).unwrap();
    let file = below.join(RESULTS);
    for (text, part) in [
        ("{\"name\": \"a", "cut off"),
        ("{\"name\": \"a\"}", "another version"),
        ("{\"settings\": {}, \"runs\": []}", "another version"),
    ] {
        fs::write(&file, text).unwrap();
        let part = if part == "another version" {
            "of this version"
        } else {
            part
        };
        assert!(complaint().contains(part), "{}", complaint());
        assert!(complaint().contains(&file.display().to_string()));
    }
    let missing = load(&directory.path().join("missing")).unwrap_err();
    assert!(format!("{missing:#}").contains("missing"));
}

#[test]
fn page_data_and_figures_are_written() {
    let directory = tempfile::tempdir().unwrap();
    let results = fixture::everything();
    let page = write(directory.path(), &[results.clone(), results.clone()]).unwrap();
    assert_eq!(page, directory.path().join("report.html"));
    for name in ["rosu-2002", "rosu-2002-2"] {
        let json = fs::read_to_string(directory.path().join(format!("data/{name}.json"))).unwrap();
        assert_eq!(
            serde_json::from_str::<ExperimentResults>(&json).unwrap(),
            results
        );
        let csv = fs::read_to_string(directory.path().join(format!("data/{name}.csv"))).unwrap();
        let lines: usize = results
            .cells
            .iter()
            .map(|cell| cell.samples.len().max(1))
            .sum();
        assert_eq!(csv.lines().count(), lines + 1);
        let figures = results
            .figures
            .iter()
            .filter(|figure| figure.id != "table-4");
        for figure in figures {
            let path = directory
                .path()
                .join(format!("figures/{name}-{}.svg", figure.id));
            let picture = fs::read_to_string(&path).unwrap();
            roxmltree::Document::parse(&picture).unwrap();
            assert!(picture.contains("prefers-color-scheme:dark"));
        }
    }
    let leftovers = walk(directory.path())
        .into_iter()
        .filter(|path| path.ends_with(".partial"));
    assert_eq!(leftovers.count(), 0);
    assert!(write(directory.path(), &[]).is_err());
}

fn walk(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_name_does_not_lead_out_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let mut results = fixture::everything();
    results.name = "../../x".into();
    results.figures[0].id = "/../y".into();
    write(&inside, &[results]).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn where_nothing_can_be_written_it_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = write(&file, &[fixture::everything()]).unwrap_err();
    assert!(format!("{error:#}").contains(&file.display().to_string()));
}

/// To look at the page: `CARRICK_LAB_LOOK=DIR cargo test -p carrick-lab report::tests::a_browser` leaves it in DIR, drawn from
/// the results that are there, or from made-up ones.
#[test]
fn a_browser_opens_the_page_without_complaint() {
    let temporary = tempfile::tempdir().unwrap();
    let wanted = std::env::var_os("CARRICK_LAB_LOOK").map(PathBuf::from);
    let directory = wanted.as_deref().unwrap_or(temporary.path());
    let results = load(directory).unwrap_or_else(|_| vec![fixture::everything()]);
    let page = write(directory, &results).unwrap();
    let profile = temporary.path().join("profile");
    let browser = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .output();
    let Ok(output) = browser else {
        carrick_test::skip!("no chromium to open the page with");
        return;
    };
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    assert!(!complaints.contains("CONSOLE"), "{complaints}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("section class=\"figure\""));
}
