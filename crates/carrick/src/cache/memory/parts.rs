//! Responses that are stored in parts (RFC 9111 sections 3.3 and 3.4): objects whose bodies are made of others.
use super::object::{Body, BodyPlace, BodyState, Object, PIECE_BYTES, Piece, joined};
use super::{NotTaken, Store};
use crate::cache::index::count;
use crate::cache::key::Key;
use carrick_logic::cache::{ContentRange, Extents, Meta, Variant};
use std::net::IpAddr;
use std::sync::Arc;

/// Pieces of one stored response, at most.
pub const PIECES_MAX: usize = 256;

/// A part of a response.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    /// The key of the response.
    pub key: Key<'a>,
    /// The requests that it answers.
    pub variant: &'a Variant,
    /// The decisions. Status and range are made from the stored pieces.
    pub meta: Meta,
    /// The field lines.
    pub head: &'a [u8],
    /// The address of the server that sent it, if a rule about addresses applies to it.
    pub origin: Option<IpAddr>,
    /// The offset of its first byte.
    pub start: u64,
    /// The length of the whole, if that is known.
    pub total_bytes: Option<u64>,
    /// Its bytes.
    pub body: &'a Arc<Body>,
}

impl Object {
    /// Which bytes of the representation are there, or will come.
    #[must_use]
    pub fn extents(&self) -> Extents {
        let Some(part) = self.part() else {
            return Extents::whole(self.body_bytes().unwrap_or_default());
        };
        extents(self.pieces(), part.total_bytes)
    }

    /// The length of the whole representation, if that is known.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        match self.part() {
            Some(part) => part.total_bytes,
            None => self.body_bytes(),
        }
    }

    fn body_bytes(&self) -> Option<u64> {
        match self.apart() {
            Some(body) => body.total_bytes(),
            None => Some(self.progress().bytes),
        }
    }
}

fn extents(pieces: &[Piece], total_bytes: Option<u64>) -> Extents {
    let mut each = pieces.iter().map(|piece| ContentRange {
        start: piece.range.start,
        end: piece.range.end,
        total_bytes,
    });
    let mut extents = each.next().map(Extents::part).unwrap_or_default();
    for part in each {
        let _is_added = extents.add(part);
        debug_assert!(_is_added, "it was checked before it was stored");
    }
    extents
}

impl Store {
    /// Whether a response of so many bytes may be stored.
    #[must_use]
    pub fn takes(&self, bytes: u64) -> bool {
        bytes <= self.memory.ledger.object_bytes_max()
    }

    /// Makes an object of the bytes of `held`, if there is one, and those of `part`, which may still be filled. It is not found before
    /// it is [stored](Self::put_parts).
    ///
    /// # Errors
    /// [`NotTaken::TooLarge`], also for too many pieces; [`NotTaken::Full`]; [`NotTaken::Body`] if `held` is not made of parts, has all
    /// bytes of `part`, or contradicts it.
    pub fn assemble(
        &self,
        held: Option<&Arc<Object>>,
        part: &Part<'_>,
    ) -> Result<Arc<Object>, NotTaken> {
        let bytes = part
            .body
            .total_bytes()
            .unwrap_or(part.body.progress().bytes);
        let new = Piece {
            range: part.start..part.start.saturating_add(bytes),
            start: part.start,
            body: Arc::clone(part.body),
        };
        let held = held.map_or(&[][..], |held| held.pieces());
        let pieces = joined(held, new).ok_or(NotTaken::Body)?;
        let meta = meta_of(part, &pieces)?;
        let sum: u64 = pieces
            .iter()
            .map(|piece| piece.range.end - piece.range.start)
            .sum();
        if pieces.len() > PIECES_MAX || !self.takes(sum) {
            return Err(NotTaken::TooLarge);
        }
        let head = (part.head, part.origin);
        let charge = Object::charge_of(part.key, part.variant, head, None);
        let of_pieces = PIECE_BYTES * pieces.len() as u64;
        self.take(charge + of_pieces)?;
        let body = Arc::new(Body::of_pieces(Arc::clone(&self.memory), pieces));
        Object::new(
            part.key,
            part.variant,
            meta,
            head,
            (BodyPlace::Apart(body), b""),
        )
        .map(Arc::new)
        .ok_or_else(|| {
            self.memory.ledger.give_back(charge);
            NotTaken::TooLarge
        })
    }

    /// Stores an [assembled](Self::assemble) object; it replaces `held`, from which it was assembled.
    ///
    /// # Errors
    /// Nothing is changed. [`NotTaken::Gone`]: `held` is not stored any more. [`NotTaken::Body`]: a piece is not whole, or belongs to
    /// another object by now.
    pub fn put_parts(
        &self,
        held: Option<&Arc<Object>>,
        assembled: &Arc<Object>,
    ) -> Result<(), NotTaken> {
        let before = held.map_or(&[][..], |held| held.pieces());
        let is_new = |piece: &&Piece| !before.iter().any(|old| Arc::ptr_eq(&old.body, &piece.body));
        let new: Vec<&Piece> = assembled.pieces().iter().filter(is_new).collect();
        let mut marked = Vec::with_capacity(new.len());
        let mut result = Ok(());
        for piece in new {
            result = self.mark(piece);
            if result.is_err() {
                break;
            }
            marked.push(piece);
        }
        result = result.and_then(|()| match held {
            Some(held) => self.replace_parts(held, assembled),
            None => self.insert_parts(assembled),
        });
        if result.is_err() {
            for piece in marked {
                piece.body.unmark_stored();
            }
        }
        result
    }

    /// Marks the body of a piece as the body of a stored object.
    fn mark(&self, piece: &Piece) -> Result<(), NotTaken> {
        let body = &piece.body;
        if body.progress().state != BodyState::Whole
            || !body.is_of(&self.memory)
            || !body.mark_stored()
        {
            return Err(NotTaken::Body);
        }
        let loose = body.loose_bytes();
        if let Err(error) = self.take(loose) {
            body.unmark_stored();
            return Err(error);
        }
        body.tighten(loose);
        Ok(())
    }

    fn replace_parts(&self, held: &Arc<Object>, assembled: &Arc<Object>) -> Result<(), NotTaken> {
        let hash = held.key().hash();
        let replaced = self.index.lock(hash).replace(held, assembled);
        let replaced = replaced.ok_or(NotTaken::Gone)?;
        replaced.loosen(false);
        // Pieces that the new one has as well stay as they are.
        if let Some(body) = replaced.apart() {
            body.loosen_itself();
        }
        let kept = assembled.pieces();
        for piece in replaced.pieces() {
            if !kept
                .iter()
                .any(|other| Arc::ptr_eq(&other.body, &piece.body))
            {
                piece.body.loosen();
            }
        }
        Ok(())
    }

    fn insert_parts(&self, assembled: &Arc<Object>) -> Result<(), NotTaken> {
        while !self.memory.ledger.try_take_object() {
            if !self.evict_one() {
                return Err(NotTaken::Full);
            }
        }
        let hash = assembled.key().hash();
        // As in `put_from`.
        if let Some(disk) = &self.disk {
            disk.supersede(assembled.key(), assembled.variant());
        }
        let [replaced, left] = self.index.lock(hash).put(Arc::clone(assembled));
        let counters = self.index.counters(hash);
        count(&counters.puts);
        if let Some(replaced) = replaced {
            count(&counters.replaced);
            self.let_go(replaced);
        }
        if let Some(left) = left {
            count(&counters.pushed_out);
            self.let_go(left);
        }
        Ok(())
    }
}

/// The decisions for a response of these pieces: a part from the first byte to the last, or the whole.
fn meta_of(part: &Part<'_>, pieces: &[Piece]) -> Result<Meta, NotTaken> {
    let mut held: Option<Extents> = None;
    for piece in pieces {
        let range = ContentRange {
            start: piece.range.start,
            end: piece.range.end,
            total_bytes: part.total_bytes,
        };
        let is_within = part.total_bytes.is_none_or(|total| range.end <= total);
        let is_added = match &mut held {
            None => {
                held = Some(Extents::part(range));
                true
            }
            Some(held) => held.add(range),
        };
        if !is_within || !is_added {
            return Err(NotTaken::Body);
        }
    }
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
        return Err(NotTaken::Body);
    };
    let is_whole = held.is_some_and(|held| held.is_whole());
    Ok(Meta {
        status: if is_whole { 200 } else { 206 },
        part: (!is_whole).then(|| {
            Box::new(ContentRange {
                start: first.range.start,
                end: last.range.end,
                total_bytes: part.total_bytes,
            })
        }),
        ..part.meta.clone()
    })
}
