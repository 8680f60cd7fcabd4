//! Tests of the readers of what namespaces show.

use super::*;

const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 16812 1
   1: 0100007F:0CF8 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 16813 1
";
const TCP6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue
   0: 00000000000000000000000000000000:20FB 00000000000000000000000000000000:0000 0A 00000000:00000000
";

#[test]
fn only_a_listening_socket_counts() {
    assert!(has_listener(TCP, 8080));
    assert!(!has_listener(TCP, 3320), "connected, not listening");
    assert!(!has_listener(TCP, 80));
    assert!(has_listener(TCP6, 8443));
}

#[test]
fn what_ip_says_is_explained() {
    let refused = explain(anyhow::anyhow!("mount: Operation not permitted"));
    assert!(refused.to_string().contains("CAP_SYS_ADMIN"), "{refused}");
    let used = explain(anyhow::anyhow!("cannot create: File exists"));
    assert!(used.to_string().contains("in use"), "{used}");
    assert_eq!(explain(anyhow::anyhow!("other")).to_string(), "other");
}
