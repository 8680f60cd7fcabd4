//! Tests of reading memory.

use super::*;

const ROLLUP: &str = "55d0-7fff ---p 00000000 00:00 0 [rollup]\nRss:  100 kB\nPss:  60 kB\nPss_Dirty: 7 kB\n\
Shared_Clean: 1 kB\nPrivate_Clean:  20 kB\nPrivate_Dirty:  30 kB\n";

#[test]
fn a_rollup_is_read_in_bytes() {
    let memory = parse_rollup(ROLLUP).unwrap();
    assert_eq!(
        (memory.rss, memory.pss, memory.private),
        (102_400, 61_440, 51_200)
    );
    assert!(parse_rollup("Rss: 1 kB\n").is_none());
}

#[test]
fn growth_is_divided_and_what_anybody_has_to_keep_is_taken_off() {
    let pss = |pss| Memory {
        pss,
        ..Memory::default()
    };
    let mut run = MemoryRun {
        connections: 10,
        before: pss(1000),
        after: pss(6000),
        ..MemoryRun::default()
    };
    assert_eq!(run.bytes_each(), 500.0);
    run.content_bytes = 2000;
    assert_eq!(run.bytes_each(), 300.0);
    assert_eq!(
        run.metrics(),
        [(String::from("process_bytes_each"), 300.0)].into()
    );
}

#[test]
fn of_the_kernels_growth_what_client_and_server_have_is_taken_off() {
    let memory = |slab_bytes, socket_bytes| KernelMemory {
        slab_bytes,
        socket_bytes,
    };
    let growth = KernelGrowth {
        without: memory(20_000, 0),
        with: memory(50_000, 4_000),
    };
    assert_eq!(growth.bytes_each(10), (3_000.0, 400.0));
    assert_eq!(memory(9, 8).since(&memory(10, 5)), memory(-1, 3));
}
