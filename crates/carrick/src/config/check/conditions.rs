//! Checks the conditions that routes and `cache_bypass` have.
use crate::config::file;
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::values;
use carrick_logic::access::NamePattern;
use carrick_logic::route::{Conditions, CookieRule};
use std::ops::Range;

/// The conditions of one of `cache_bypass`; `None` if one of them is wrong.
pub fn bypass(written: &Written<file::Bypass>, problems: &mut Problems) -> Option<Conditions> {
    let errors_before = problems.count_errors();
    let conditions = Conditions {
        host: pattern(&written.host, problems),
        path: path(&written.path, problems),
        extension: extensions(&written.extension, problems),
        cookie: cookie(&written.cookie, problems),
        header: header(&written.header, problems),
        cgi: written.cgi.given().map(|cgi| *cgi.get_ref()),
        ..Conditions::default()
    };
    (problems.count_errors() == errors_before).then_some(conditions)
}

/// A name pattern; `None`: there is none, or it is wrong.
pub fn pattern(written: &Setting<String>, problems: &mut Problems) -> Option<NamePattern> {
    match written.refine("a name pattern", problems, |text| NamePattern::parse(text)) {
        Setting::Given(pattern) => Some(pattern.into_inner()),
        Setting::Absent | Setting::Wrong => None,
    }
}

/// The beginning of a path, as far as there is one.
pub fn path(written: &Setting<String>, problems: &mut Problems) -> Option<String> {
    let path = written.given()?;
    let text = path.get_ref();
    if let Some(pattern) = text.strip_prefix(['~', '^', '=', '*', '\\', '(']) {
        problems
            .error(
                path.span(),
                "this is a pattern of another program; `path` is the beginning of a path",
            )
            .help(beginning(pattern));
    } else if !text.starts_with('/') {
        problems
            .error(path.span(), "a path begins with \"/\"")
            .help(format!("write \"/{text}\""));
    } else if let Some(strange) = text.chars().find(|letter| "*\\^|".contains(*letter)) {
        problems
            .warning(
                path.span(),
                format!("\"{strange}\" stands for itself here, not for anything else"),
            )
            .help(beginning(text));
    }
    Some(text.clone())
}

/// What to write in place of a pattern: as much of it as is the same for all paths that it was meant for.
fn beginning(pattern: &str) -> String {
    const EXTENSION: &str = "`extension = [\"gif\", \"jpg\"]` is for the ends of names";
    let is_mark = |letter: char| "~*^= ".contains(letter);
    let bare = pattern.trim_start_matches(is_mark);
    let is_special = |letter: char| "*+?()[]{}|\\^$".contains(letter);
    let end = bare.find(is_special).unwrap_or(bare.len());
    // Before a quantifier stands what it repeats: `/x/.*` begins with `/x/`.
    let literal = bare[..end].trim_end_matches('.');
    if literal.starts_with('/') && literal.len() > 1 {
        format!("write \"{literal}\" for every path that begins so, letter by letter; {EXTENSION}")
    } else {
        format!("write \"/images/\" for every path that begins so, letter by letter; {EXTENSION}")
    }
}

/// What follows the last dot, in small letters.
pub fn extensions(
    written: &Setting<Vec<toml::Spanned<String>>>,
    problems: &mut Problems,
) -> Vec<String> {
    let Some(list) = written.given() else {
        return Vec::new();
    };
    if list.get_ref().is_empty() {
        report_empty_list(list.span(), "extension", problems);
    }
    for extension in list.get_ref() {
        let text = extension.get_ref();
        let bare = text.trim_start_matches(['*', '.']);
        if bare.len() < text.len() {
            problems
                .error(extension.span(), "an extension is written without its dot")
                .help(format!("write \"{bare}\""));
        } else if text.is_empty() || text.contains(['/', '.', '?', '#']) {
            problems
                .error(extension.span(), "this is not an extension")
                .help("it is what follows the last dot of a file's name, such as \"jpg\"");
        }
    }
    list.get_ref()
        .iter()
        .map(|extension| extension.get_ref().to_ascii_lowercase())
        .collect()
}

/// A cookie that is there or not.
pub fn cookie(written: &Setting<String>, problems: &mut Problems) -> Option<CookieRule> {
    let cookie = written.given()?;
    let (name, present) = match cookie.get_ref().strip_prefix('!') {
        Some(name) => (name, false),
        None => (cookie.get_ref().as_str(), true),
    };
    if !values::is_token(name) {
        problems
            .error(cookie.span(), "this is not a cookie's name")
            .help("write the name for a cookie that must be there, \"!name\" for one that must not; values are not compared");
    }
    Some(CookieRule {
        name: name.to_owned(),
        present,
    })
}

/// A header, its name in small letters, and its value.
pub fn header(
    written: &Setting<Written<file::Header>>,
    problems: &mut Problems,
) -> Option<(String, String)> {
    let header = written.given()?.get_ref();
    let (name, value) = (header.field.given()?, header.text.given()?);
    if !values::is_token(name.get_ref()) {
        problems
            .error(name.span(), "this is not a header's name")
            .help("write it without the colon, such as \"x-beta\"");
    }
    if !values::is_field_value(value.get_ref()) {
        problems
            .error(value.span(), "no header can have this value")
            .help("values have no spaces around them and no control characters");
    }
    Some((name.get_ref().to_ascii_lowercase(), value.get_ref().clone()))
}

/// Methods, as they are written.
pub fn methods(
    written: &Setting<Vec<toml::Spanned<String>>>,
    problems: &mut Problems,
) -> Vec<String> {
    const USUAL: [&str; 8] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH",
    ];
    let Some(list) = written.given() else {
        return Vec::new();
    };
    if list.get_ref().is_empty() {
        report_empty_list(list.span(), "method", problems);
    }
    for method in list.get_ref() {
        let upper = method.get_ref().to_ascii_uppercase();
        if !values::is_token(method.get_ref()) {
            problems
                .error(method.span(), "this is not a method")
                .help("it is one word, such as \"GET\"");
        } else if upper != *method.get_ref() && USUAL.contains(&upper.as_str()) {
            problems
                .warning(
                    method.span(),
                    "methods are compared exactly, and this one is written otherwise",
                )
                .help(format!("write \"{upper}\""));
        }
    }
    list.get_ref()
        .iter()
        .map(|method| method.get_ref().clone())
        .collect()
}

fn report_empty_list(span: Range<usize>, key: &str, problems: &mut Problems) {
    problems
        .error(
            span,
            format!("an empty `{key}` list could mean all or none"),
        )
        .help(format!("leave `{key}` out for all"));
}
