//! Pages with embedded objects, and the 49 files of the satellite paper's Table A1.

use crate::content::framing::digits;
use crate::content::{Body, PIECE_BYTES_MAX};

use super::body_seed;

/// Most embedded objects of a page.
pub const EMBEDDED_MAX: u64 = 1000;
/// Longest page in bytes, with its objects.
pub const PAGE_BYTES_MAX: u64 = 64 << 20;

const BEGINNING: &str = "<!doctype html><title>carrick-lab</title>\n";
const PADDING_BEGINS: &str = "<!--";
const PADDING_ENDS: &str = "-->";

/// Embedded objects and bytes of each file of Table A1 (Satellite 2003, appendix), from file number 1 on. The bytes are
/// those of the page and its objects together; a kilobyte has 1,024 of them.
pub const TABLE_A1: [(u64, u64); 49] = [
    (0, 2560),
    (0, 10 << 10),
    (0, 11 << 10),
    (0, 16 << 10),
    (0, 20 << 10),
    (0, 21 << 10),
    (0, 28 << 10),
    (0, 37 << 10),
    (0, 40 << 10),
    (0, 42 << 10),
    (0, 53 << 10),
    (0, 65 << 10),
    (0, 77 << 10),
    (0, 80 << 10),
    (0, 93 << 10),
    (0, 120 << 10),
    (0, 152 << 10),
    (0, 160 << 10),
    (0, 168 << 10),
    (0, 180 << 10),
    (0, 240 << 10),
    (0, 320 << 10),
    (0, 480 << 10),
    (0, 560 << 10),
    (0, 640 << 10),
    (0, 720 << 10),
    (0, 810 << 10),
    (0, 900 << 10),
    (0, 1000 << 10),
    (2, 16 << 10),
    (4, 16 << 10),
    (9, 16 << 10),
    (11, 16 << 10),
    (15, 16 << 10),
    (18, 16 << 10),
    (2, 65 << 10),
    (3, 65 << 10),
    (4, 65 << 10),
    (7, 65 << 10),
    (9, 65 << 10),
    (11, 65 << 10),
    (18, 65 << 10),
    (19, 65 << 10),
    (23, 65 << 10),
    (2, 180 << 10),
    (5, 180 << 10),
    (16, 180 << 10),
    (21, 180 << 10),
    (23, 180 << 10),
];

/// A base page and the objects embedded in it, which share its bytes evenly; what is left over is the base page's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    path: String,
    embedded: u64,
    bytes: u64,
}

/// What a path of a page names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The base page.
    Base(Page),
    /// An embedded object; its bytes are those of its path.
    Object {
        /// Its length.
        bytes: u64,
    },
}

impl Page {
    /// `/page/EMBEDDED/BYTES`
    ///
    /// # Errors
    /// When there are too many objects or bytes, or too few bytes for the links to the objects.
    pub fn new(embedded: u64, bytes: u64) -> Result<Self, String> {
        if embedded > EMBEDDED_MAX || bytes > PAGE_BYTES_MAX {
            return Err(format!(
                "a page has at most {EMBEDDED_MAX} objects and {PAGE_BYTES_MAX} bytes"
            ));
        }
        let path = format!("/page/{embedded}/{bytes}");
        let page = Self {
            path,
            embedded,
            bytes,
        };
        let least = page.frame_bytes();
        if page.base_bytes() < least {
            return Err(format!(
                "a base page with {embedded} objects needs {least} bytes, and a share of {bytes} has {}",
                page.base_bytes()
            ));
        }
        Ok(page)
    }

    /// `/a1/NUMBER`: a file of [`TABLE_A1`], 1 to 49.
    #[must_use]
    pub fn of_table_a1(number: u64) -> Option<Self> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let &(embedded, bytes) = TABLE_A1.get(index)?;
        Some(Self {
            path: format!("/a1/{number}"),
            embedded,
            bytes,
        })
    }

    /// The base page's path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How many objects are embedded.
    #[must_use]
    pub fn embedded(&self) -> u64 {
        self.embedded
    }

    /// Path of an embedded object, counted from 1. Its bytes are `Body::of_seed(body_seed(path))`.
    #[must_use]
    pub fn object_path(&self, number: u64) -> String {
        format!("{}/{number}.gif", self.path)
    }

    /// Length of each embedded object in bytes.
    #[must_use]
    pub fn object_bytes(&self) -> u64 {
        self.bytes / (self.embedded + 1)
    }

    /// Length of the base page in bytes.
    #[must_use]
    pub fn base_bytes(&self) -> u64 {
        self.bytes - self.embedded * self.object_bytes()
    }

    /// The base page: HTML with an `img` for each object, and a comment of random letters that fills it up.
    #[must_use]
    pub fn base(&self) -> Vec<u8> {
        let bytes = usize::try_from(self.base_bytes()).unwrap_or(0);
        let mut text = String::with_capacity(bytes);
        text.push_str(BEGINNING);
        for number in 1..=self.embedded {
            text.push_str(&self.link(number));
        }
        text.push_str(PADDING_BEGINS);
        let mut page = text.into_bytes();
        let noise = Body::of_seed(body_seed(&self.path));
        let end = bytes.saturating_sub(PADDING_ENDS.len());
        while page.len() < end {
            let piece = noise.piece(page.len() as u64, (end - page.len()).min(PIECE_BYTES_MAX));
            page.extend(piece.iter().map(|byte| b'a' + byte % 26));
        }
        page.extend(PADDING_ENDS.as_bytes());
        page
    }

    fn link(&self, number: u64) -> String {
        format!("<img src=\"{}\">\n", self.object_path(number))
    }

    /// Length of a base page without anything that fills it up.
    fn frame_bytes(&self) -> u64 {
        let links: usize = (1..=self.embedded)
            .map(|number| self.link(number).len())
            .sum();
        (BEGINNING.len() + links + PADDING_BEGINS.len() + PADDING_ENDS.len()) as u64
    }
}

/// What a path below `/page/` or `/a1/` names; `None`: it is none of these.
///
/// # Errors
/// A sentence that says what would be right.
pub fn find(path: &str) -> Option<Result<Part, String>> {
    let (page, object) = if let Some(rest) = path.strip_prefix("/page/") {
        let mut parts = rest.splitn(3, '/');
        let numbers = parts
            .next()
            .and_then(digits)
            .zip(parts.next().and_then(digits));
        let Some((embedded, bytes)) = numbers else {
            return Some(Err("a page is /page/OBJECTS/BYTES".into()));
        };
        (Page::new(embedded, bytes), parts.next())
    } else {
        let (number, object) = split_once(path.strip_prefix("/a1/")?);
        let page = digits(number).and_then(Page::of_table_a1);
        (
            page.ok_or_else(|| "Table A1 has the files 1 to 49".into()),
            object,
        )
    };
    Some(page.and_then(|page| part(page, object)))
}

fn part(page: Page, object: Option<&str>) -> Result<Part, String> {
    let Some(object) = object else {
        return Ok(Part::Base(page));
    };
    let number = object.split_once('.').map_or(object, |(number, _)| number);
    match digits(number) {
        Some(number) if (1..=page.embedded).contains(&number) => Ok(Part::Object {
            bytes: page.object_bytes(),
        }),
        _ => Err(format!(
            "{} has the objects 1 to {}, such as {}",
            page.path,
            page.embedded,
            page.object_path(1)
        )),
    }
}

fn split_once(rest: &str) -> (&str, Option<&str>) {
    rest.split_once('/')
        .map_or((rest, None), |(first, later)| (first, Some(later)))
}

#[cfg(test)]
mod tests;
