//! What is read from ss(8).

use super::*;

#[test]
fn memory_of_sockets_is_summed_over_what_holds_bytes() {
    let text = "ESTAB 0 0 10.77.1.1:8443 10.77.1.2:40000\n\t skmem:(r1000,rb131072,t5,tb87040,f96,w2304,o0,bl10,d7)\n\
                LISTEN 0 4096 10.77.1.1:8443 0.0.0.0:*\n\t skmem:(r0,rb131072,t0,tb16384,f4096,w0,o0,bl0,d0)\n";
    assert_eq!(socket_bytes(text), 1000 + 96 + 2304 + 10 + 4096);
    assert_eq!(socket_bytes(""), 0);
    let below_nothing = "skmem:(r4096,rb1,t0,tb1,f4294966296,w0,o0,bl0,d0)";
    assert_eq!(socket_bytes(below_nothing), 4096 - 1000);
}
