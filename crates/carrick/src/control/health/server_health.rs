//! Debounces check results: several in a row must agree before the state changes.

/// The state of a server according to its checks.
#[derive(Debug)]
pub(super) struct ServerHealth {
    is_healthy: bool,
    fall: u32,
    rise: u32,
    contradictions: u32,
}

impl ServerHealth {
    /// `fall` checks in a row must fail before the server is down, `rise` must succeed before it is up; 0 counts as 1.
    pub fn new(is_healthy: bool, fall: u32, rise: u32) -> Self {
        Self {
            is_healthy,
            fall: fall.max(1),
            rise: rise.max(1),
            contradictions: 0,
        }
    }

    /// Notes a check. Returns the new state if it changed.
    pub fn note(&mut self, is_good: bool) -> Option<bool> {
        if is_good == self.is_healthy {
            self.contradictions = 0;
            return None;
        }
        self.contradictions += 1;
        let needed = if self.is_healthy {
            self.fall
        } else {
            self.rise
        };
        if self.contradictions < needed {
            return None;
        }
        self.contradictions = 0;
        self.is_healthy = is_good;
        Some(is_good)
    }
}
