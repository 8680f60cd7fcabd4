//! Things that are kept for reuse: as many as were needed lately.
use std::cell::{Cell, RefCell};

/// Most that are kept: a few clients of HTTP/2 have as many requests under way.
const KEPT_MAX: usize = 1024;

/// What is taken and given back.
#[derive(Debug)]
pub struct Spares<T> {
    kept: RefCell<Vec<T>>,
    /// The fewest that were kept since [`tidy`](Self::tidy).
    unused_min: Cell<usize>,
}

impl<T> Default for Spares<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Spares<T> {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            kept: RefCell::new(Vec::new()),
            unused_min: Cell::new(0),
        }
    }

    /// Takes the one that was given last.
    pub fn take(&self) -> Option<T> {
        let mut kept = self.kept.borrow_mut();
        let spare = kept.pop();
        self.unused_min.set(self.unused_min.get().min(kept.len()));
        spare
    }

    /// Keeps one, if there is room.
    pub fn give(&self, spare: T) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(spare);
        }
    }

    /// Drops those that nobody has needed since the last call. To be called now and then.
    pub fn tidy(&self) {
        let mut kept = self.kept.borrow_mut();
        let needed = kept.len() - self.unused_min.get().min(kept.len());
        kept.truncate(needed);
        self.unused_min.set(needed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_kept_as_were_needed_lately() {
        let spares = Spares::new();
        let kept = || spares.kept.borrow().len();
        assert_eq!(spares.take(), None);
        (0..3).for_each(|spare| spares.give(spare));
        spares.tidy();
        assert_eq!(kept(), 3, "all were needed");
        assert_eq!(spares.take(), Some(2));
        spares.give(2);
        spares.tidy();
        assert_eq!(kept(), 1);
        spares.tidy();
        assert_eq!(kept(), 0);
    }
}
