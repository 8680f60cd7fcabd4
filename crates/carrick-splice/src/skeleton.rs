//! The modules that libbpf-cargo generates from the BPF programs.

/// The module `skeleton`, which libbpf-cargo generates from a BPF program: its maps, programs and types.
#[doc(hidden)]
#[macro_export]
macro_rules! skeleton {
    ($file:literal) => {
        #[expect(
            unsafe_code,
            missing_docs,
            clippy::all,
            clippy::undocumented_unsafe_blocks,
            clippy::unwrap_used,
            clippy::expect_used,
            clippy::panic,
            reason = "generated"
        )]
        #[allow(
            dead_code,
            unused_imports,
            non_camel_case_types,
            non_snake_case,
            rust_2018_idioms,
            unfulfilled_lint_expectations,
            reason = "generated; what is in it changes with the generator"
        )]
        mod skeleton {
            include!(concat!(env!("OUT_DIR"), "/", $file));
        }
    };
}
