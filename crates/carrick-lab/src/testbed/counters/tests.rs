//! Tests of reading the counters, with what a kernel 6.18 shows.

use super::*;

const SNMP: &str = "\
Ip: Forwarding DefaultTTL InReceives
Ip: 1 64 6226
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 123 84 0 25 0 6226 4097 70 2 31 0
Udp: InDatagrams NoPorts
Udp: 5 6
";

const NETSTAT: &str = "\
TcpExt: ListenDrops TCPPureAcks TCPHPAcks TCPFastRetrans TCPTimeouts TCPLossProbes TCPBacklogCoalesce TCPSynRetrans TCPOrigDataSent
TcpExt: 1 350 277 4 41 7 25 10 1412
IpExt: InNoRoutes
IpExt: 0
";

#[test]
fn counters_are_found_by_name() {
    let counters = TcpCounters::parse(SNMP, NETSTAT).unwrap();
    assert_eq!((counters.opened, counters.accepted), (123, 84));
    assert_eq!((counters.segments_in, counters.segments_out), (6226, 4097));
    assert_eq!(
        (counters.retransmitted, counters.retransmitted_opening),
        (70, 10)
    );
    assert_eq!((counters.timeouts, counters.data_out), (41, 1412));
    assert_eq!(
        (
            counters.listen_drops,
            counters.errors_in,
            counters.merged_in
        ),
        (1, 2, 25)
    );
}

#[test]
fn ratios_are_those_of_the_paper() {
    let counters = TcpCounters::parse(SNMP, NETSTAT).unwrap();
    let data_per_ack = counters.data_per_ack().unwrap();
    assert!((data_per_ack - (1412.0 + 60.0) / (350.0 + 277.0 + 25.0)).abs() < 1e-9);
    let timeouts = counters.timeouts_per_1000_packets().unwrap();
    assert!((timeouts - 41_000.0 / 4167.0).abs() < 1e-9);
    let nothing = counters.since(&counters);
    assert_eq!(nothing, TcpCounters::default());
    assert_eq!(nothing.data_per_ack(), None);
    assert_eq!(nothing.timeouts_per_1000_packets(), None);
}

#[test]
fn a_counter_that_is_missing_is_named() {
    let error = TcpCounters::parse(SNMP, &NETSTAT.replace("TCPHPAcks", "TCPOther")).unwrap_err();
    assert!(error.to_string().contains("TCPHPAcks"), "{error}");
}
