//! Returns memory to the system after many sessions have ended; the allocator would keep it.

/// Minimum number of ended sessions to make it worthwhile: a few megabytes.
const SESSIONS_MIN: usize = 1000;

/// The peak number of sessions, streams of HTTP/2 included, since it last fell.
#[derive(Debug, Default)]
pub struct SessionPeak {
    sessions_max: usize,
}

impl SessionPeak {
    /// Whether at least half of the peak number of sessions since the last time have ended, and they were many.
    pub fn has_fallen(&mut self, sessions: usize) -> bool {
        self.sessions_max = self.sessions_max.max(sessions);
        let has_fallen =
            sessions <= self.sessions_max / 2 && self.sessions_max - sessions >= SESSIONS_MIN;
        if has_fallen {
            self.sessions_max = sessions;
        }
        has_fallen
    }
}

/// Returns unused pages of the allocator to the system: malloc_trim(3). Takes a few milliseconds.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    #[expect(unsafe_code, reason = "no library has this call")]
    // SAFETY: the function takes a number, and may be called by any thread at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_when_many_have_gone() {
        let mut peak = SessionPeak::default();
        assert!(!peak.has_fallen(5000));
        assert!(!peak.has_fallen(2501));
        assert!(peak.has_fallen(2500));
        assert!(!peak.has_fallen(2500));
        assert!(peak.has_fallen(1000));
        assert!(peak.has_fallen(0));
        assert!(!peak.has_fallen(0));
    }

    #[test]
    fn few_are_not_worth_while() {
        let mut peak = SessionPeak::default();
        assert!(!peak.has_fallen(999));
        assert!(!peak.has_fallen(0));
    }
}
