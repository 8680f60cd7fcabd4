//! The example `body_cost`: bodies of each size arrive with each engine.

use crate::support::on_worker;

#[allow(dead_code, reason = "its main function is not called here")]
#[path = "../../examples/body_cost.rs"]
mod example;

#[test]
fn bodies_go_by_each_engine_again_and_again() {
    if !carrick_test::is_root() {
        return;
    }
    let words = ["5", "1,5000,300000"].map(str::to_owned);
    let rows = on_worker(async { example::run(&words).await.unwrap() });
    let sizes: Vec<usize> = rows.iter().map(|row| row.bytes).collect();
    assert_eq!(sizes, [1, 5000, 300_000]);
    for row in rows {
        assert!(row.us.iter().all(|us| *us > 0.0), "{:?}", row.us);
    }
}
