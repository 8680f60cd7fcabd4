//! The report: one self-contained page with the figures, the papers' beside ours, and the raw data.
