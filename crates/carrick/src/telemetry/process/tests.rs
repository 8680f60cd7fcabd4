//! Reads of `/proc`, from samples and from this process.
use super::*;

#[test]
fn odd_program_names_do_not_confuse_the_processor_time() {
    let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 4 0 100 1 2 3";
    assert_eq!(cpu_seconds(stat), Some(3.0));
    assert_eq!(cpu_seconds("42 (cut short) S 1"), None);
    assert_eq!(cpu_seconds(""), None);
}

#[test]
fn resident_memory_is_read_in_kib() {
    assert_eq!(
        resident_bytes("Name:\tcarrick\nVmRSS:\t    2048 kB\nRssAnon:\t1 kB\n"),
        Some(2048 * 1024)
    );
    assert_eq!(resident_bytes("Name:\tcarrick\n"), None);
}

#[test]
fn this_process_has_plausible_values() {
    let before = Process::read();
    assert!(before.resident_bytes.unwrap() > 100_000);
    assert!(before.max_fds.unwrap() >= before.open_fds.unwrap());
    let files: Vec<_> = (0..50)
        .map(|_| fs::File::open("/dev/null").unwrap())
        .collect();
    let after = Process::read();
    assert!(
        after.open_fds.unwrap() >= before.open_fds.unwrap() + 40,
        "{before:?} {after:?}"
    );
    assert!(after.cpu_seconds.unwrap() >= before.cpu_seconds.unwrap());
    drop(files);
}
