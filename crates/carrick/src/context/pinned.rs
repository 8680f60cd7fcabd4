//! The server's connection that serves one client only.
use super::destination::NextHop;
use crate::upstream::checkout::Checkout;
use std::cell::Cell;
use std::fmt;

/// A connection that a client's credentials have authenticated as a whole, as NTLM and Negotiate do (RFC 4559 section 6): over it,
/// requests without credentials are that client's, too. There is none in a copy.
#[derive(Default)]
pub struct Pinned(Cell<Option<Box<(Checkout, NextHop)>>>);

impl Pinned {
    /// Keeps a connection that has come to rest. The one before is closed.
    pub fn put(&self, mut checkout: Checkout, next_hop: &NextHop) {
        checkout.rest();
        self.0.set(Some(Box::new((checkout, next_hop.clone()))));
    }

    /// Takes it if it `leads_there`, for a request to `next_hop`.
    pub fn take_if(
        &self,
        next_hop: &NextHop,
        leads_there: impl FnOnce(&Checkout, &NextHop) -> bool,
    ) -> Option<Box<Checkout>> {
        let kept = self.0.take()?;
        if !leads_there(&kept.0, &kept.1) {
            self.0.set(Some(kept));
            return None;
        }
        let (mut checkout, _) = *kept;
        checkout.resume(next_hop);
        Some(Box::new(checkout))
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_any(&self) -> bool {
        let kept = self.0.take();
        let is_any = kept.is_some();
        self.0.set(kept);
        is_any
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pinned").finish_non_exhaustive()
    }
}
