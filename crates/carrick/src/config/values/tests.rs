//! Values that are right, and values that are nearly right and must be refused with good advice.
use super::*;

#[test]
fn sizes_are_binary() {
    let cases = [
        ("0", 0),
        ("4096", 4096),
        ("64 KB", 65_536),
        ("64KB", 65_536),
        ("64 kb", 65_536),
        ("64k", 65_536),
        ("512 KiB", 524_288),
        ("1 MB", 1_048_576),
        ("1.5 MB", 1_572_864),
        ("2 GB", 2 << 30),
    ];
    for (text, bytes) in cases {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for text in ["", "KB", "-1", "64 KX", "99999999999999999999", "64 Kbit"] {
        assert!(size(text).is_err(), "{text}");
    }
}

#[test]
fn rates_are_sizes_with_or_without_their_time() {
    for (text, bytes) in [
        ("10 MB", 10 << 20),
        ("10 MB/s", 10 << 20),
        ("10MB/s", 10 << 20),
        (" 10 MB /s ", 10 << 20),
        ("64k/s", 65_536),
        ("64 kb", 65_536),
        ("512 KiB/s", 524_288),
        ("1.5 MB/s", 1_572_864),
        ("4096/s", 4096),
        ("4096 B/s", 4096),
        ("4096", 4096),
    ] {
        assert_eq!(rate(text), Ok(bytes), "{text}");
    }
    for (text, help) in [
        ("10 Mbit/s", "write \"1250000/s\""),
        ("10mbit", "write \"1250000/s\""),
        ("1.5 Gbps", "write \"187500000/s\""),
        ("64 kbits/sec", "write \"8000/s\""),
        ("800 bit/s", "write \"100/s\""),
        ("10 Mb/s", "\"10 MB/s\" for bytes"),
        ("64 kb/s", "\"64 KB/s\" for bytes"),
        ("10 MB/sec", "write \"10 MB/s\""),
        ("10 MB/min", "for each second"),
        ("10 MB/s/s", "for each second"),
        ("Mbit/s", "write a number"),
        ("10 MX/s", "write a number"),
        ("-1 MB/s", "write a number"),
        ("/s", "write a number"),
        ("", "write a number"),
        ("10 \u{e4}/s", "write a number"),
        ("\u{e4}bit", "write a number"),
    ] {
        let why = rate(text).expect_err(text);
        assert!(why.contains(help), "{text}: {why}");
    }
}

#[test]
fn times_have_units() {
    let cases = [
        ("500ms", 500),
        ("10s", 10_000),
        ("1m30s", 90_000),
        ("1m 30s", 90_000),
        ("1h", 3_600_000),
        ("0s", 0),
    ];
    for (text, milliseconds) in cases {
        assert_eq!(
            time(text),
            Ok(Duration::from_millis(milliseconds)),
            "{text}"
        );
    }
    for text in ["", "10", "10 parsecs", "-1s", "s", "99999999999999999999s"] {
        assert!(time(text).is_err(), "{text}");
    }
}

#[test]
fn what_is_shown_can_be_read_again() {
    for bytes in [0, 1, 1023, 1024, 1025, 65_536, 1 << 20, 3 << 30] {
        assert_eq!(size(show_size(bytes).trim_matches('"')), Ok(bytes));
    }
    for milliseconds in [0, 1, 999, 1000, 90_000, 3_600_000, 86_400_000] {
        let shown = Duration::from_millis(milliseconds);
        assert_eq!(time(show_time(shown).trim_matches('"')), Ok(shown));
    }
}

#[test]
fn listen_addresses() {
    for text in [
        "0.0.0.0:8080",
        "127.0.0.1:0",
        "[::]:8080",
        "[2001:db8::1]:65535",
    ] {
        assert_eq!(
            listen_address(text).map(|address| address.to_string()),
            Ok(text.to_owned())
        );
    }
    let advice = [
        ("8080", "\"0.0.0.0:8080\""),
        (":8080", "\"127.0.0.1:8080\""),
        ("127.0.0.1", "\"127.0.0.1:8080\""),
        ("localhost:3128", "\"127.0.0.1:3128\""),
        ("*:80", "\"0.0.0.0:80\""),
        ("::1", "\"[::1]:8080\""),
        ("2001:db8::1:80", "\"[2001:db8::1]:80\""),
        ("127.0.0.1:65536", "\"127.0.0.1:3128\""),
        ("example.org:80", "an address and a port"),
        ("", "an address and a port"),
    ];
    for (text, part) in advice {
        let help = listen_address(text).expect_err(text);
        assert!(help.contains(part), "{text}: {help}");
    }
}

#[test]
fn server_addresses() {
    let name = |host: &str, port| ServerAddress::Name {
        host: host.to_owned(),
        port,
    };
    let ip = |text: &str| ServerAddress::Ip(text.parse().expect("an address"));
    let cases = [
        ("10.0.0.1:81", ip("10.0.0.1:81")),
        ("10.0.0.1", ip("10.0.0.1:80")),
        ("[2001:db8::1]:81", ip("[2001:db8::1]:81")),
        ("[2001:db8::1]", ip("[2001:db8::1]:80")),
        ("Origin.Example.ORG.:81", name("origin.example.org", 81)),
        ("app_1", name("app_1", 80)),
        ("3com.example:1", name("3com.example", 1)),
    ];
    for (text, address) in cases {
        assert_eq!(server_address(text, Some(80)), Ok(address), "{text}");
    }
    let advice = [
        ("", "missing"),
        (":80", "missing"),
        ("http://a.example:81/x", "\"a.example:81\""),
        ("a.example:80/", "\"a.example:80\""),
        ("2001:db8::1", "\"[2001:db8::1]:80\""),
        ("fe80::abcd", "\"[fe80::abcd]:80\""),
        ("a.example:0", "1 to 65535"),
        ("a.example:65536", "1 to 65535"),
        ("a.example:http", "1 to 65535"),
        ("[10.0.0.1]:80", "not an IPv6 address"),
        ("[::1:80", "IPv6"),
        ("10.0.0.256:80", "0 to 255"),
        ("1.2.3:80", "0 to 255"),
        ("a..example:80", "neither"),
        ("-a.example:80", "neither"),
        ("a b:80", "neither"),
        ("bücher.example:80", "xn--"),
        ("a.example:80:81", "neither"),
    ];
    for (text, part) in advice {
        let help = server_address(text, Some(80)).expect_err(text);
        assert!(help.contains(part), "{text}: {help}");
    }
    assert!(server_address("10.0.0.1", None).is_err());
    assert!(server_address(&format!("{}:80", "a".repeat(64)), None).is_err());
    assert!(server_address(&format!("{}:80", "a.".repeat(128)), None).is_err());
}

#[test]
fn networks() {
    for (text, network) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("192.0.2.7", "192.0.2.7/32"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("::1", "::1/128"),
        ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ("::/0", "::/0"),
    ] {
        assert_eq!(
            super::network(text).map(|network| network.to_string()),
            Ok(network.to_owned())
        );
    }
    assert!(
        super::network("10.0.0.1/8")
            .expect_err("host bits")
            .contains("\"10.0.0.0/8\"")
    );
    for text in ["010.0.0.0/8", "10.0.00.0/8", "10.0.0.0/08", "010.0.0.1"] {
        let help = super::network(text).expect_err(text);
        assert!(help.contains("octal"), "{text}: {help}");
    }
    for text in [
        "::ffff:010.0.0.0/104",
        "10.0.0.0/33",
        "10.0.0/8",
        "a.example",
        "",
        "10.0.0.0/8,10.1.0.0/16",
    ] {
        assert!(super::network(text).is_err(), "{text}");
    }
}

#[test]
fn names_and_networks_are_told_apart() {
    for text in ["10.0.0.0/8", "::1", "169.254.169.254", "10"] {
        assert!(looks_like_network(text), "{text}");
    }
    for text in ["*.corp.example", "a.example", "*", "dead.beef"] {
        assert!(!looks_like_network(text), "{text}");
    }
}
