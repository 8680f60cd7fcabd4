//! What programs and process say of HTTP by a number.

/// The methods that the kernel judges, in the order of `enum request_method`.
pub(super) const METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "DELETE"];

/// A status as the kernel notes it; `None`: it is not known.
pub(super) fn status_of(number: u32) -> Option<u16> {
    let status = u16::try_from(number).ok();
    status.filter(|status| (100..1000).contains(status))
}
