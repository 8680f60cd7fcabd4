//! What is wrong with a configuration, where, and what would be right; and how that is shown.
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// A mistake that carrick can run with; `carrick check --strict` fails.
    Warning,
    /// carrick cannot run with it.
    Error,
}

/// A file that problems are about.
#[derive(Debug)]
pub struct Source {
    /// Its path, as the user gave it.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether lines of it may be shown; not those of a password file.
    pub is_secret: bool,
}

/// A piece of a file.
#[derive(Debug, Clone)]
pub struct Place {
    /// The file.
    pub source: Arc<Source>,
    /// Bytes of its text.
    pub span: Range<usize>,
}

/// One problem.
#[derive(Debug, Clone)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// Where; `None` if it is nowhere in a file.
    pub place: Option<Place>,
    /// What to say about the place; may be empty.
    pub label: String,
    /// Other pieces of the same file that it has to do with, and what to say about them.
    pub context: Vec<(Range<usize>, String)>,
    /// What would be right.
    pub help: Option<String>,
}

impl Problem {
    /// A problem that is nowhere in a file.
    #[must_use]
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            severity,
            message: message.into(),
            place: None,
            label: String::new(),
            context: Vec::new(),
            help: None,
        }
    }

    /// Says where it is.
    pub fn at(&mut self, source: &Arc<Source>, span: Range<usize>) -> &mut Self {
        self.place = Some(Place {
            source: Arc::clone(source),
            span,
        });
        self
    }

    /// Writes something below the place.
    pub fn label(&mut self, label: impl Into<String>) -> &mut Self {
        self.label = label.into();
        self
    }

    /// Points to another piece of the same file.
    pub fn with(&mut self, span: Range<usize>, label: impl Into<String>) -> &mut Self {
        self.context.push((span, label.into()));
        self
    }

    /// Says what would be right.
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Line and column (in characters) of the place, from 1.
    #[must_use]
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        let place = self.place.as_ref()?;
        Some(line_and_column(&place.source.text, place.span.start))
    }
}

impl fmt::Display for Problem {
    /// One line: `FILE:LINE:COLUMN: message; help`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(place), Some((line, column))) = (&self.place, self.line_and_column()) {
            write!(out, "{}:{line}:{column}: ", place.source.name)?;
        }
        write!(out, "{}", self.message)?;
        match &self.help {
            Some(help) => write!(out, "; {help}"),
            None => Ok(()),
        }
    }
}

/// The worst of some problems.
#[must_use]
pub fn worst(problems: &[Problem]) -> Option<Severity> {
    problems.iter().map(|problem| problem.severity).max()
}

/// Shows problems for people: each with its file, line, the offending text, and what would be right.
#[must_use]
pub fn render(problems: &[Problem], is_coloured: bool) -> String {
    let renderer = if is_coloured {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut text = String::new();
    for problem in problems {
        text.push_str(&renderer.render(&[group(problem)]));
        text.push_str("\n\n");
    }
    text
}

fn group(problem: &Problem) -> Group<'_> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let mut group = Group::with_title(level.primary_title(problem.message.as_str()));
    if let Some(place) = &problem.place {
        if place.source.is_secret {
            let (line, column) = line_and_column(&place.source.text, place.span.start);
            group = group.element(
                Origin::path(place.source.name.as_str())
                    .line(line)
                    .char_column(column),
            );
        } else {
            let text = place.source.text.as_str();
            let primary = annotation(AnnotationKind::Primary, text, &place.span, &problem.label);
            let context = (problem.context.iter())
                .map(|(span, label)| annotation(AnnotationKind::Context, text, span, label));
            group = group.element(
                Snippet::source(text)
                    .path(place.source.name.as_str())
                    .annotation(primary)
                    .annotations(context),
            );
        }
    }
    match &problem.help {
        Some(help) => group.element(Level::HELP.message(help.as_str())),
        None => group,
    }
}

fn annotation<'a>(
    kind: AnnotationKind,
    text: &str,
    span: &Range<usize>,
    label: &'a str,
) -> Annotation<'a> {
    let start = span.start.min(text.len());
    let annotation = kind.span(start..span.end.clamp(start, text.len()));
    if label.is_empty() {
        annotation
    } else {
        annotation.label(label)
    }
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

/// Gathers problems with one file.
#[derive(Debug)]
pub struct Problems {
    source: Arc<Source>,
    found: Vec<Problem>,
}

impl Problems {
    /// None yet.
    #[must_use]
    pub fn new(source: Arc<Source>) -> Self {
        Self {
            source,
            found: Vec::new(),
        }
    }

    /// Adds an error.
    pub fn error(&mut self, span: Range<usize>, message: impl Into<String>) -> &mut Problem {
        self.add(Severity::Error, span, message.into())
    }

    /// Adds a warning.
    pub fn warning(&mut self, span: Range<usize>, message: impl Into<String>) -> &mut Problem {
        self.add(Severity::Warning, span, message.into())
    }

    /// Adds a note.
    pub fn note(&mut self, span: Range<usize>, message: impl Into<String>) -> &mut Problem {
        self.add(Severity::Note, span, message.into())
    }

    /// Adds a problem with another file; that with the file as a whole is shown where this one names it.
    pub fn add_of_file(&mut self, mut problem: Problem, named: Range<usize>) {
        if problem.place.is_none() {
            problem.at(&self.source, named);
        }
        self.found.push(problem);
    }

    /// How many errors there are among them.
    #[must_use]
    pub fn count_errors(&self) -> usize {
        self.found
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .count()
    }

    /// All of them, in the order of the file; those of other files behind.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<Problem> {
        let source = Arc::clone(&self.source);
        self.found.sort_by_key(|problem| match &problem.place {
            Some(place) if Arc::ptr_eq(&place.source, &source) => (false, place.span.start),
            Some(place) => (true, place.span.start),
            None => (true, usize::MAX),
        });
        self.found
    }

    fn add(&mut self, severity: Severity, span: Range<usize>, message: String) -> &mut Problem {
        let mut problem = Problem::new(severity, message);
        problem.at(&self.source, span);
        self.found.push(problem);
        let last = self.found.len() - 1;
        &mut self.found[last]
    }
}
