//! How large connections are: the classes by which gains are shown and learned, and a count of each, which fades.

crate::named! {
    /// A class of connections by the bytes that went the way on which more went. The bounds are those between which the paper's Figure 4
    /// rises, peaks and falls.
    #[derive(PartialOrd, Ord)]
    pub enum SizeClass with name {
        /// Less than 1 KB: hardly more than a round trip. It takes part in decisions.
        Tiny = "0-1KB",
        /// From 1 KB, less than 10 KB.
        To10Kb = "1-10KB",
        /// Less than 60 KB.
        To60Kb = "10-60KB",
        /// Less than 120 KB.
        To120Kb = "60-120KB",
        /// Less than 500 KB.
        To500Kb = "120-500KB",
        /// More.
        Over500Kb = "500KB-",
    }
}

impl SizeClass {
    /// That of so many bytes.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        match bytes {
            0..1_000 => Self::Tiny,
            1_000..10_000 => Self::To10Kb,
            10_000..60_000 => Self::To60Kb,
            60_000..120_000 => Self::To120Kb,
            120_000..500_000 => Self::To500Kb,
            500_000.. => Self::Over500Kb,
        }
    }
}

/// Each connection moves its class's means by such a part.
const MEAN_GAIN: f64 = 1.0 / 16.0;

/// Connections of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Class {
    /// How many count.
    count: f64,
    /// The mean of the logarithms of their bytes.
    logarithm: f64,
    /// The mean of their turns; 0: not counted.
    turns: f64,
}

/// How many connections had which size, lately, and in how many turns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sizes([Class; SizeClass::ALL.len()]);

impl Sizes {
    /// Adds a connection of this many bytes and turns; 0 turns: not counted.
    pub(super) fn learn(&mut self, bytes: u64, turns: u32, fading: f64) {
        for class in &mut self.0 {
            class.count *= fading;
        }
        let Some(class) = self.0.get_mut(SizeClass::of(bytes) as usize) else {
            return;
        };
        let logarithm = (bytes.max(1) as f64).ln();
        if class.count == 0.0 {
            class.logarithm = logarithm;
        }
        class.count += 1.0;
        class.logarithm += MEAN_GAIN * (logarithm - class.logarithm);
        if turns > 0 {
            let turns = f64::from(turns);
            if class.turns == 0.0 {
                class.turns = turns;
            }
            class.turns += MEAN_GAIN * (turns - class.turns);
        }
    }

    /// For each class the share of the connections, and the bytes of a turn of one that stands for them; all shares are 0 if there are none.
    pub(super) fn classes(&self) -> [(f64, u64); SizeClass::ALL.len()] {
        let count: f64 = self.0.iter().map(|class| class.count).sum();
        self.0.map(|class| {
            if class.count <= 0.0 {
                return (0.0, 0);
            }
            let bytes = class.logarithm.exp() / class.turns.max(1.0);
            (class.count / count, bytes as u64)
        })
    }
}
