//! The jobs of listeners.
use crate::config::plan::Mode;

carrick_logic::named! {
    /// A listener's job, as metrics and the access log name it.
    pub enum Job with name {
        /// Forward proxy.
        Forward = "forward",
        /// Layer-7 switch.
        Switch = "switch",
        /// TCP relay.
        Tunnel = "tunnel",
        /// Splitter.
        Split = "split",
        /// The far end of a link.
        Link = "link",
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
