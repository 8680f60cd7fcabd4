//! Tests of reading and checking plans.

use super::*;

const OFFERED: &str = "reno bbr cubic\n";

#[test]
fn what_is_left_out_is_as_the_kernel_has_it() {
    let plan = TestbedPlan::parse("layout = \"routed\"\noffloads = false\n[server]\nsack = false")
        .unwrap();
    assert_eq!(plan.layout, Layout::Routed);
    assert!(!plan.offloads && !plan.server.sack && plan.server.timestamps && plan.client.sack);
    assert_eq!((plan.congestion.as_str(), plan.mtu), ("cubic", 1500));
    plan.check_against(OFFERED).unwrap();
    let again = TestbedPlan::parse(&toml::to_string(&plan).unwrap()).unwrap();
    assert_eq!(again, plan);
}

#[test]
fn mistakes_are_named_with_their_key() {
    for (text, part) in [
        ("congestion = \"vegas\"", "only reno, bbr, cubic"),
        ("mtu = 100", "mtu: 100"),
        ("proxy_core_share = 0.05", "0.05 is not within 0.1 to 1"),
        ("proxy_core_share = nan", "proxy_core_share: NaN"),
        (
            "[client]\nreceive_buffer = [9, 8, 10]",
            "client.receive_buffer: [9, 8, 10]",
        ),
        ("[proxy]\nsend_buffer = [0, 8, 10]", "proxy.send_buffer"),
        (
            "[server]\nsend_buffer = [1, 8, 99999999999]",
            "server.send_buffer",
        ),
        (
            "[server]\ninitial_congestion_window = 0",
            "server.initial_congestion_window: 0",
        ),
    ] {
        let error = TestbedPlan::parse(text)
            .unwrap()
            .check_against(OFFERED)
            .unwrap_err();
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    for (text, part) in [
        ("[client]\nsacks = true", "`sacks`"),
        ("layout = \"ring\"", "`ring`"),
    ] {
        let error = TestbedPlan::parse(text).unwrap_err();
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
}

#[test]
fn options_become_parameters_and_metrics() {
    let options = TcpOptions {
        sack: false,
        receive_buffer: Some([4096, 65_536, 65_536]),
        initial_congestion_window: Some(44),
        ..TcpOptions::default()
    };
    let parameters = options.parameters();
    assert!(parameters.contains(&("net/ipv4/tcp_sack", String::from("0"))));
    assert!(parameters.contains(&("net/ipv4/tcp_rmem", String::from("4096 65536 65536"))));
    assert_eq!(parameters.len(), 4);
    assert_eq!(
        options.route_metrics("reno", true),
        "congctl reno initcwnd 44"
    );
    let old = TcpOptions {
        congestion: Some(String::from("rfc2581")),
        ..TcpOptions::default()
    };
    let own = congestion::kernel_name("rfc2581");
    assert_eq!(old.route_metrics("cubic", true), format!("congctl {own}"));
    assert_eq!(old.route_metrics("cubic", false), "congctl reno");
}
