//! Which kernels are trusted.

use super::kernel::{judge, upstream_release};

#[test]
fn kernels_that_lose_bytes_are_refused_by_name() {
    for release in [
        "5.15.0-91-generic",
        "6.1.0-13-amd64",
        "6.1.141",
        "6.2.9",
        "6.6.90",
        "6.12.34-1-lts",
        "6.13.7",
        "6.14-rc3",
        "6.15.9",
    ] {
        let reason = judge(release).unwrap_err();
        assert!(reason.contains(release), "{reason}");
        assert!(reason.contains("repaired in"), "{reason}");
    }
    assert!(judge("a kernel").unwrap_err().contains("not understood"));
}

#[test]
fn repaired_kernels_are_trusted() {
    for release in [
        "6.1.142",
        "6.1.170-amd64",
        "6.12.35",
        "6.12.40+deb13-amd64",
        "6.16-rc1",
        "6.16.0",
        "6.18.44-fc-v595",
        "7.0.1",
    ] {
        assert_eq!(judge(release), Ok(()), "{release}");
    }
}

#[test]
fn distributions_that_keep_the_first_number_of_a_series_are_known() {
    let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-11-02)";
    let others = "#1 SMP Tue Nov 3 10:00:00 UTC 2026";
    for (release, version, signature, expected) in [
        ("6.1.0-50-cloud-amd64", debian, None, Ok(())),
        ("6.1.0-50-cloud-amd64", others, None, Err(())),
        ("6.12.95", others, None, Ok(())),
        (
            "6.12.0-31-generic",
            others,
            Some("Ubuntu 6.12.0-31.31-generic 6.12.36\n"),
            Ok(()),
        ),
        (
            "6.12.0-31-generic",
            others,
            Some("Ubuntu 6.12.0-31.31-generic 6.12.30\n"),
            Err(()),
        ),
    ] {
        let release = upstream_release(release, version, signature);
        assert_eq!(judge(release).map_err(drop), expected, "{release}");
    }
}
