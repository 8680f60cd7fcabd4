//! What `ip -j` writes, and the ways in it.

use super::*;

const ADDRESSES: &str = r#"[
{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP","LOWER_UP"],"mtu":65536,"link_type":"loopback","address":"00:00:00:00:00:00",
 "addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8}]},
{"ifindex":2,"link_index":2,"ifname":"r0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,"link_type":"ether","address":"02:00:00:00:00:0a",
 "addr_info":[{"family":"inet","local":"10.0.1.1","prefixlen":24},{"family":"inet6","local":"fd00:1::1","prefixlen":64}]},
{"ifindex":3,"ifname":"r1","flags":["BROADCAST"],"mtu":1500,"link_type":"ether","address":"02:00:00:00:00:0b",
 "addr_info":[{"family":"inet","local":"10.0.2.1","prefixlen":24}]}]"#;

const IPV4: &str = r#"[{"dst":"default","gateway":"10.0.2.254","dev":"r1","flags":[]},
{"dst":"10.0.1.0/24","dev":"r0","protocol":"kernel","scope":"link","prefsrc":"10.0.1.1","flags":[]},
{"dst":"10.0.2.0/24","dev":"r1","protocol":"kernel","scope":"link","flags":[]},
{"dst":"10.9.0.0/16","gateway":"10.0.1.7","dev":"r0","metric":20,"flags":[]},
{"dst":"10.9.0.0/16","gateway":"10.0.2.7","dev":"r1","metric":10,"flags":[]},
{"dst":"10.8.0.1","gateway":"10.0.1.8","dev":"r0","flags":[]},
{"type":"unreachable","dst":"10.7.0.0/16","flags":[]},
{"dst":"10.6.0.0/16","nexthops":[{"gateway":"10.0.1.6","dev":"r0","weight":1},{"gateway":"10.0.2.6","dev":"r1","weight":1}],"flags":[]},
{"dst":"10.5.0.0/16","dev":"other0","scope":"link","flags":[]}]"#;

const IPV6: &str = r#"[{"dst":"fd00:1::/64","dev":"r0","protocol":"kernel","metric":256,"flags":[]},
{"dst":"default","gateway":"fd00:1::9","dev":"r0","metric":1024,"flags":[]}]"#;

fn devices() -> Vec<Device> {
    read_devices(ADDRESSES).unwrap()
}

#[test]
fn devices_are_read() {
    let devices = devices();
    assert_eq!(devices[0].mac, None);
    assert_eq!(devices[1].mac, Some([2, 0, 0, 0, 0, 10]));
    assert_eq!((devices[1].index, devices[1].is_up), (2, true));
    assert!(!devices[2].is_up);
    let near = |text: &str| devices[1].is_near(text.parse().unwrap());
    assert!(near("10.0.1.200") && near("fd00:1::77"));
    assert!(!near("10.0.2.1") && !near("fd00:2::1"));
    let own = |text: &str| devices[1].own_address_for(text.parse().unwrap());
    assert_eq!(own("10.0.1.9"), "10.0.1.1".parse().ok());
    assert_eq!(own("192.0.2.1"), "10.0.1.1".parse().ok());
    assert_eq!(own("fd00:1::9"), "fd00:1::1".parse().ok());
    assert_eq!(devices[2].own_address_for("fd00::1".parse().unwrap()), None);
}

#[test]
fn the_longest_prefix_and_the_lowest_metric_decide() {
    let devices = devices();
    let routes = Routes::read(&devices, &devices[1..], IPV4, IPV6).unwrap();
    for (to, device, next) in [
        ("10.0.1.2", 0, "10.0.1.2"),
        ("10.0.2.2", 1, "10.0.2.2"),
        ("192.0.2.1", 1, "10.0.2.254"),
        ("10.9.3.3", 1, "10.0.2.7"),
        ("10.8.0.1", 0, "10.0.1.8"),
        ("10.6.0.1", 0, "10.0.1.6"),
        ("fd00:1::5", 0, "fd00:1::5"),
        ("2001:db8::1", 0, "fd00:1::9"),
    ] {
        let next = next.parse().unwrap();
        assert_eq!(
            routes.find(to.parse().unwrap()),
            Some(Hop { device, next }),
            "{to}"
        );
    }
    // A route that leads elsewhere is not ours to take, and not the default's either.
    for nowhere in ["10.5.0.1", "10.7.0.1"] {
        assert_eq!(routes.find(nowhere.parse().unwrap()), None, "{nowhere}");
    }
    for own in ["10.0.1.1", "10.0.2.1", "127.0.0.1", "fd00:1::1"] {
        assert!(routes.is_own(own.parse().unwrap()), "{own}");
    }
    assert!(!routes.is_own("10.0.1.2".parse().unwrap()));
}

#[test]
fn a_namespace_without_ipv6_has_no_routes_for_it() {
    let devices = devices();
    let routes = Routes::read(&devices, &devices[1..2], "[]", "").unwrap();
    assert_eq!(routes.find("10.0.1.2".parse().unwrap()), None);
}
