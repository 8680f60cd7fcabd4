//! What the file says for a key: nothing, something wrong, or a value with its place.
use super::problem::Problems;
use toml::Spanned;

/// What the file says for a key.
#[derive(Debug, Clone, Default)]
pub enum Setting<T> {
    /// Nothing.
    #[default]
    Absent,
    /// Something that cannot be used, and was reported.
    Wrong,
    /// This.
    Given(Spanned<T>),
}

impl<T> Setting<T> {
    /// The value, if there is one.
    pub fn given(&self) -> Option<&Spanned<T>> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Wrong => None,
        }
    }

    /// Whether the file says nothing.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether the file says something that cannot be used.
    pub fn is_wrong(&self) -> bool {
        matches!(self, Self::Wrong)
    }

    /// Converts the value and keeps where it stands in the file.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Setting<U> {
        match self {
            Self::Absent => Setting::Absent,
            Self::Wrong => Setting::Wrong,
            Self::Given(value) => {
                Setting::Given(Spanned::new(value.span(), make(value.into_inner())))
            }
        }
    }

    /// Reads the value further; a failure is an error whose text says what would be right.
    pub fn refine<U>(
        &self,
        what: &str,
        problems: &mut Problems,
        read: impl FnOnce(&T) -> Result<U, String>,
    ) -> Setting<U> {
        match self {
            Self::Absent => Setting::Absent,
            Self::Wrong => Setting::Wrong,
            Self::Given(value) => match read(value.get_ref()) {
                Ok(refined) => Setting::Given(Spanned::new(value.span(), refined)),
                Err(help) => {
                    problems
                        .error(value.span(), format!("this is not {what}"))
                        .help(help);
                    Setting::Wrong
                }
            },
        }
    }

    /// The value, or a default.
    pub fn or(self, default: T) -> T {
        match self {
            Self::Given(value) => value.into_inner(),
            Self::Absent | Self::Wrong => default,
        }
    }
}
