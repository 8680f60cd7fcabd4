//! Whether a response that is being stored is fetched to its end when no client waits for it any more.

/// What is left to configuration. A response is fetched on if either rule allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuickAbort {
    /// Most bytes that are still fetched, of whatever length the whole is. Default 1 MiB.
    pub left_bytes_max: u64,
    /// The share of the whole, in percent, from which on it is fetched to its end. 0 is always; at 100 the share does not
    /// count. Default 90.
    pub percent_min: u8,
}

impl Default for QuickAbort {
    fn default() -> Self {
        Self {
            left_bytes_max: 1 << 20,
            percent_min: 90,
        }
    }
}

impl QuickAbort {
    /// Most bytes of a body that are still fetched once its last client has gone; 0: it is given up. `have` bytes have
    /// come, of `total` if its length is known.
    #[must_use]
    pub fn bytes_to_fetch(&self, have: u64, total: Option<u64>) -> u64 {
        let Some(total) = total else {
            return match self.percent_min {
                0 => u64::MAX,
                _ => self.left_bytes_max,
            };
        };
        let left = total.saturating_sub(have);
        // In 128 bits no length is too long.
        let has_share = u128::from(have) * 100 >= u128::from(total) * u128::from(self.percent_min);
        if left <= self.left_bytes_max || has_share {
            left
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::QuickAbort;

    const RULE: QuickAbort = QuickAbort {
        left_bytes_max: 100,
        percent_min: 90,
    };

    #[test]
    fn few_bytes_left_or_most_of_it_there_are_fetched() {
        for (have, total, left) in [
            (0, Some(100), 100),
            (0, Some(101), 0),
            (899, Some(1000), 0),
            (900, Some(1000), 100),
            (8_999, Some(10_000), 0),
            (9_000, Some(10_000), 1_000),
            (10_000, Some(10_000), 0),
            (10_001, Some(10_000), 0),
            (0, Some(0), 0),
            (0, Some(u64::MAX), 0),
            (u64::MAX - 100, Some(u64::MAX), 100),
            (5_000, None, 100),
        ] {
            assert_eq!(
                RULE.bytes_to_fetch(have, total),
                left,
                "{have} of {total:?}"
            );
        }
    }

    #[test]
    fn zero_percent_is_always_and_a_hundred_is_never() {
        let always = QuickAbort {
            left_bytes_max: 0,
            percent_min: 0,
        };
        assert_eq!(always.bytes_to_fetch(0, Some(u64::MAX)), u64::MAX);
        assert_eq!(always.bytes_to_fetch(7, None), u64::MAX);
        let never = QuickAbort {
            left_bytes_max: 0,
            percent_min: 100,
        };
        assert_eq!(never.bytes_to_fetch(999_999, Some(1_000_000)), 0);
        assert_eq!(never.bytes_to_fetch(7, None), 0);
    }
}
