//! Tests of the addresses.

use super::*;

#[test]
fn everybody_is_inside_the_own_subnet_and_no_other() {
    for layout in [Layout::Direct, Layout::Routed, Layout::Gateway] {
        let addresses = Addresses::of(layout);
        assert!(addresses.client_subnet.contains(addresses.client));
        assert!(addresses.server_subnet.contains(addresses.server));
        assert!(addresses.proxy_subnet.contains(addresses.proxy));
        assert!(!addresses.client_subnet.contains(addresses.server));
        assert_ne!(addresses.client, addresses.proxy);
        assert_ne!(addresses.server, addresses.proxy_to_server);
    }
    let routed = Addresses::of(Layout::Routed);
    assert_ne!(routed.proxy_subnet, routed.client_subnet);
    assert_eq!(routed.proxy, routed.proxy_to_server);
    assert_eq!(routed.proxy_for(Job::Switch).to_string(), "10.77.3.2:8080");
}
