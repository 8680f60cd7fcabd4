//! Tests of the laboratory's congestion controls: their names, and that the kernel takes them.

use super::*;

#[test]
fn names_are_of_this_process_and_fit_into_the_kernels() {
    for name in NAMES {
        let own = kernel_name(name);
        assert!(own.starts_with(name) && own.len() == 15, "{own}");
    }
    assert_eq!(kernel_name("cubic"), "cubic");
}

#[test]
fn a_name_is_written_over_the_compiled_one() {
    let mut bytes = b"\0\0\0rfc2581_0000000\0\0".to_vec();
    rename(&mut bytes, "rfc2581").unwrap();
    let own = kernel_name("rfc2581");
    assert_eq!(bytes, [b"\0\0\0", own.as_bytes(), b"\0\0"].concat());
    assert!(rename(&mut bytes, "rfc3465").is_err());
}

#[test]
fn the_kernel_has_them_once_they_are_loaded() {
    if !carrick_test::is_root() {
        return;
    }
    if let Err(error) = load() {
        carrick_test::lacks!("{error:#}");
        return;
    }
    load().unwrap();
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(path).unwrap();
    for name in NAMES {
        let own = kernel_name(name);
        assert!(
            available.split_whitespace().any(|known| known == own),
            "{available}"
        );
    }
}
