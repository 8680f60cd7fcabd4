//! Colours and classes of the figures, for pictures that stand alone and for the page that holds them.

/// So many colours there are.
pub const COLOURS: usize = 8;

/// Colours with different lightness, so that they stay apart in grey; every line has a marker and dashes of its own, besides.
pub const LIGHT: &str = "--paper:#fff;--ink:#1c2430;--soft:#5c6675;--grid:#e3e7ec;\
--c0:#0b4f8a;--c1:#d9771e;--c2:#2f8f5b;--c3:#8e4a9e;--c4:#b03a3a;--c5:#1f9db3;--c6:#8f7d0c;--c7:#4a5563;";

/// The same on dark paper.
pub const DARK: &str = "--paper:#14181f;--ink:#e8ecf2;--soft:#9aa5b4;--grid:#2b323d;\
--c0:#6cb8f5;--c1:#f0a04b;--c2:#6cc893;--c3:#c792d8;--c4:#ff8a80;--c5:#5fd4e6;--c6:#d8c34a;--c7:#b4bdc9;";

/// What the classes of figures look like.
pub const CLASSES: &str = "\
svg text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}\
svg .paper{fill:var(--paper)}svg .title{font-size:16px;font-weight:650}svg .panel{font-weight:600}\
svg .soft{fill:var(--soft);font-size:11px}svg .grid{stroke:var(--grid)}svg .axis{stroke:var(--soft)}\
svg .line{fill:none;stroke-width:2;stroke-linejoin:round}svg .error{fill:none;stroke-width:1.3}\
svg .mark{stroke:var(--paper);stroke-width:1}svg .whisker{stroke:var(--ink);stroke-width:1.2;fill:none}\
svg .published-line{fill:none;stroke:var(--soft);stroke-width:1;stroke-dasharray:1 3}\
svg .published{fill:var(--paper);stroke:var(--soft);stroke-width:1.5}\
svg .published-bar{fill:none;stroke:var(--soft);stroke-width:1.3;stroke-dasharray:3 2}\
svg .box{fill:none;stroke:var(--soft);stroke-dasharray:5 4}\
svg .s0{stroke:var(--c0)}svg .s1{stroke:var(--c1)}svg .s2{stroke:var(--c2)}svg .s3{stroke:var(--c3)}\
svg .s4{stroke:var(--c4)}svg .s5{stroke:var(--c5)}svg .s6{stroke:var(--c6)}svg .s7{stroke:var(--c7)}\
svg .f0{fill:var(--c0)}svg .f1{fill:var(--c1)}svg .f2{fill:var(--c2)}svg .f3{fill:var(--c3)}\
svg .f4{fill:var(--c4)}svg .f5{fill:var(--c5)}svg .f6{fill:var(--c6)}svg .f7{fill:var(--c7)}";

/// The style sheet of a picture that stands alone.
#[must_use]
pub fn alone() -> String {
    format!("svg{{{LIGHT}}}@media(prefers-color-scheme:dark){{svg{{{DARK}}}}}{CLASSES}")
}
