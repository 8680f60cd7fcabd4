//! The release of the running kernel.

/// Whether the running kernel is of an older series.
pub(crate) fn is_before(series: (u32, u32)) -> bool {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    parse(&release).is_some_and(|(major, minor, _)| (major, minor) < series)
}

/// The numbers of a release such as `6.1.0-13-amd64` or `6.16-rc1`.
pub(crate) fn parse(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release
        .split(|character: char| !character.is_ascii_digit())
        .map(|digits| digits.parse().ok());
    let (major, minor) = (numbers.next()??, numbers.next()??);
    // "6.16-rc1" has no third number.
    let patch = release
        .split('.')
        .nth(2)
        .and_then(|rest| {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest[..end].parse().ok()
        })
        .unwrap_or(0);
    Some((major, minor, patch))
}
