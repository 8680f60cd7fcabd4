//! Tests of reading `ss`.

use super::*;

#[test]
fn every_connection_must_use_it() {
    let cubic = "0 0 10.77.1.2:1 10.77.1.1:2 \n\t ts sack cubic wscale:7,7 rto:200\n";
    let bbr = "0 0 10.77.1.2:1 10.77.1.1:2 \n\t ts sack bbr wscale:7,7 rto:200\n";
    assert!(check(cubic).is_ok());
    assert!(check(bbr).is_err());
    assert!(check(&format!("{cubic}{bbr}")).is_err());
    assert!(check("").is_err());
}
