//! The jobs of listeners.
use crate::config::plan::Mode;

/// A listener's job, as metrics and the access log name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Forward proxy.
    Forward,
    /// Layer-7 switch.
    Switch,
    /// TCP relay.
    Tunnel,
    /// Splitter.
    Split,
    /// The far end of a link.
    Link,
}

impl Job {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Forward,
        Self::Switch,
        Self::Tunnel,
        Self::Split,
        Self::Link,
    ];

    /// Its name, as in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Switch => "switch",
            Self::Tunnel => "tunnel",
            Self::Split => "split",
            Self::Link => "link",
        }
    }
}

impl From<&Mode> for Job {
    fn from(mode: &Mode) -> Self {
        match mode {
            Mode::Forward(_) => Self::Forward,
            Mode::Switch(_) => Self::Switch,
            Mode::Tunnel(_) => Self::Tunnel,
            Mode::Split(_) => Self::Split,
            Mode::Link(_) => Self::Link,
        }
    }
}
