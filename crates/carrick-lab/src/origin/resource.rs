//! What a path and the wishes name: a body, a page, or an object of one.

use crate::content::framing::digits;
use crate::content::{Body, mix};

use super::page::{self, Part};
use super::request::{Head, Refusal};
use super::wishes::{BODY_BYTES_MAX, Wishes};
use super::{body_seed, fnv1a};

const HELP: &str = "carrick-lab origin. /b/BYTES: a body; /page/OBJECTS/BYTES: a page; /a1/NUMBER: a file of Table A1.\n";

/// Where the bytes of a body come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Pseudo-random, from a seed.
    Seeded(Body),
    /// A text or a page.
    Stored(Vec<u8>),
}

impl Source {
    /// Bytes from `offset` on, at least one; `offset` is below the body's length.
    #[must_use]
    pub fn piece(&self, offset: u64, bytes_max: usize) -> &[u8] {
        match self {
            Self::Seeded(body) => body.piece(offset, bytes_max),
            Self::Stored(bytes) => {
                let from =
                    usize::try_from(offset).map_or(bytes.len(), |from| from.min(bytes.len()));
                &bytes[from..bytes.len().min(from + bytes_max)]
            }
        }
    }
}

/// What a path is.
pub struct Resource {
    /// Its bytes.
    pub source: Source,
    /// Its length.
    pub bytes: u64,
    /// The seed that its validators are made of.
    pub seed: u64,
    /// Its media type, unless another is wished for.
    pub content_type: &'static str,
}

/// Finds what a request asks for.
///
/// # Errors
/// 404, with a sentence that says what there is.
pub fn find(request: &Head<'_>, wishes: &Wishes<'_>) -> Result<Resource, Refusal> {
    let seed = wishes.seed.unwrap_or_else(|| varied_seed(request, wishes));
    let seeded = |bytes| Resource {
        source: Source::Seeded(Body::of_seed(seed)),
        bytes,
        seed,
        content_type: "application/octet-stream",
    };
    if let Some(bytes) = wishes.length {
        return Ok(seeded(bytes));
    }
    if let Some(rest) = request.path.strip_prefix("/b/") {
        let number = rest.split(['/', '.']).next().and_then(digits);
        return match number.filter(|&bytes| bytes <= BODY_BYTES_MAX) {
            Some(bytes) => Ok(seeded(bytes)),
            None => Err(Refusal::new(
                404,
                "a body is /b/BYTES, with at most 2^50 bytes",
            )),
        };
    }
    match page::find(request.path) {
        Some(Ok(Part::Object { bytes })) => Ok(seeded(bytes)),
        Some(Ok(Part::Base(page))) => Ok(Resource {
            bytes: page.base_bytes(),
            source: Source::Stored(page.base()),
            seed: body_seed(request.path),
            content_type: "text/html",
        }),
        Some(Err(reason)) => Err(Refusal::new(404, reason)),
        None => Err(Refusal::new(
            404,
            format!(
                "{}: not here, and no length was asked for. {HELP}",
                request.path
            ),
        )),
    }
}

/// The seed of a body that depends on the fields that `Vary` names: `body_seed` of the path, then for each name
/// `mix(seed ^ fnv1a(value))`, with an empty value for a field that is not there. Several fields of a name: the first.
fn varied_seed(request: &Head<'_>, wishes: &Wishes<'_>) -> u64 {
    let seed = body_seed(request.path);
    wishes.vary.as_deref().map_or(seed, |names| {
        names.split(',').fold(seed, |seed, name| {
            let name = name.trim_ascii();
            let field = request
                .fields
                .iter()
                .find(|field| field.name.eq_ignore_ascii_case(name));
            mix(seed ^ fnv1a(field.map_or(&[], |field| field.value)))
        })
    })
}
