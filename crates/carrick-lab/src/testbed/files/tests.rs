//! Tests of what is said when a file cannot be written.

use super::*;

#[test]
fn a_full_file_system_is_told_from_other_reasons() {
    // The device that is always full (full(4)).
    let error = write(Path::new("/dev/full"), "x").unwrap_err();
    let said = format!("{error:#}");
    assert!(
        said.contains("/dev/full") && said.contains("is full (df /dev)"),
        "{said}"
    );
    let error = write(Path::new("/no/such/folder/file"), "x").unwrap_err();
    let said = format!("{error:#}");
    assert!(
        said.contains("No such file") && !said.contains("is full"),
        "{said}"
    );
}
