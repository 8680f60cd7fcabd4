//! What programs call their versions.

use std::fs;
use std::path::Path;

/// The first line that has a version's number, or else the first line.
pub(super) fn version_line(program: &Path, flag: &str) -> String {
    let Ok(output) = std::process::Command::new(program).arg(flag).output() else {
        return String::from("unknown");
    };
    let said = if output.stdout.is_empty() {
        output.stderr
    } else {
        output.stdout
    };
    let said = String::from_utf8_lossy(&said);
    let line = said
        .lines()
        .find(|line| {
            line.split_once(" version")
                .is_some_and(|(_, rest)| rest.contains(|letter: char| letter.is_ascii_digit()))
        })
        .or_else(|| said.lines().next());
    line.unwrap_or("unknown").trim().to_owned()
}

/// Of a program that does not print its version: what follows these letters in its file, from a digit on.
pub(super) fn version_inside(program: &Path, before: &str) -> String {
    let bytes = fs::read(program).unwrap_or_default();
    let version = String::from_utf8_lossy(&bytes)
        .split(before)
        .skip(1)
        .find_map(|rest| {
            let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
            rest.starts_with(|letter: char| letter.is_ascii_digit())
                .then(|| format!("{before}{}", &rest[..end]))
        });
    version.unwrap_or_else(|| String::from("unknown"))
}
