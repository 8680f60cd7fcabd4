//! Enums whose values have names.

/// Declares an enum whose values have names, such as labels of metrics: with a list of all of them, `ALL`, and a function
/// that gives the name of one.
///
/// ```
/// carrick_logic::named! {
///     /// What came of it.
///     pub enum Outcome with label {
///         /// Something.
///         Good = "good",
///         /// Nothing.
///         NotGood = "not_good",
///     }
/// }
/// assert_eq!(Outcome::ALL.map(Outcome::label), ["good", "not_good"]);
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $visibility:vis enum $kind:ident with $function:ident {
            $($(#[$detail:meta])* $value:ident = $name:expr),+ $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $kind {
            $($(#[$detail])* $value),+
        }

        impl $kind {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// A short stable word for metrics and the log.
            #[must_use]
            pub const fn $function(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }
        }
    };
}
