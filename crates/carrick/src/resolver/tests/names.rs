//! Names: which need no name server, which use search domains, their normal form, and which are invalid.
use super::super::name_servers::{NameServers, resolv_conf};
use super::*;

#[tokio::test]
async fn the_hosts_file_comes_first_and_stands_for_both_families() {
    let server = NameServer::start(both).await;
    let hosts = "192.0.2.50 web printer.example.org # a comment\n2001:db8::50 web\n\nnonsense\n";
    let name_servers = NameServers::new(&server.options())
        .unwrap()
        .with(hosts, &["example.org."]);
    let found = name_servers.look_up("web").await;
    assert_eq!(
        &*found.addresses.unwrap(),
        addresses(&["192.0.2.50", "2001:db8::50"])
    );
    assert_eq!(found.keep, Duration::from_secs(5));
    let found = name_servers.look_up("printer.example.org").await;
    assert_eq!(&*found.addresses.unwrap(), addresses(&["192.0.2.50"]));
    // By the search domain, still without a question to a server.
    assert_eq!(
        &*name_servers.look_up("printer").await.addresses.unwrap(),
        addresses(&["192.0.2.50"])
    );
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn names_of_one_label_are_searched_for_and_others_are_not() {
    let behaviour: Behaviour = |name, kind| match (name, kind) {
        ("web.b.example.", RecordType::A) => Reply::Addresses(60, vec!["192.0.2.2"]),
        ("web.b.example.", _) => Reply::Nothing(60),
        // Another host, whose address must not be mixed in.
        ("web.", RecordType::AAAA) => Reply::Addresses(60, vec!["2001:db8::66"]),
        ("broken.a.example.", _) => Reply::Fails,
        ("bare.", RecordType::A) => Reply::Addresses(60, vec!["192.0.2.3"]),
        _ => Reply::NoSuchName(60),
    };
    let server = NameServer::start(behaviour).await;
    let name_servers = NameServers::new(&server.options())
        .unwrap()
        .with("", &["a.example.", "b.example."]);
    assert_eq!(
        &*name_servers.look_up("web").await.addresses.unwrap(),
        addresses(&["192.0.2.2"])
    );
    assert_eq!(
        &*name_servers.look_up("bare").await.addresses.unwrap(),
        addresses(&["192.0.2.3"])
    );
    assert_eq!(
        name_servers.look_up("nowhere").await.addresses,
        Err(ResolveError::NoSuchName)
    );
    assert_eq!(
        name_servers.look_up("broken").await.addresses,
        Err(ResolveError::ServerFailure)
    );
    server.forget();
    assert_eq!(
        name_servers.look_up("web.b").await.addresses,
        Err(ResolveError::NoSuchName)
    );
    assert!(
        server.asked().iter().all(|(name, _)| name == "web.b."),
        "{:?}",
        server.asked()
    );
}

#[test]
fn names_that_clients_give_are_absolute() {
    let client = NamedBy::Client(IpAddr::from([192, 0, 2, 9]));
    for (host, name) in [
        ("wiki", "wiki."),
        ("WIKI.", "wiki."),
        ("wiki.corp.example", "wiki.corp.example"),
        ("wiki.corp.example.", "wiki.corp.example"),
    ] {
        let parsed = Host::parse(host, client);
        assert_eq!(parsed, Ok(Host::Name(name.into())), "{host}");
    }
}

#[tokio::test]
async fn a_final_dot_keeps_search_domains_away() {
    let behaviour: Behaviour = |name, kind| match name {
        "wiki.corp.example." => both(name, kind),
        _ => Reply::NoSuchName(60),
    };
    let server = NameServer::start(behaviour).await;
    let name_servers = NameServers::new(&server.options())
        .unwrap()
        .with("", &["corp.example."]);
    assert!(name_servers.look_up("wiki").await.addresses.is_ok());
    server.forget();
    assert_eq!(
        name_servers.look_up("wiki.").await.addresses,
        Err(ResolveError::NoSuchName)
    );
    assert!(server.asked().iter().all(|(name, _)| name == "wiki."));
}

#[test]
fn an_odd_search_domain_leaves_the_rest_of_the_file_in_force() {
    let text = "nameserver 127.0.0.2\nsearch a_b.c -x foo..bar corp.example # and more\n";
    let (config, _) = resolv_conf(text).unwrap();
    let search: Vec<_> = config.search().iter().map(ToString::to_string).collect();
    assert_eq!(search, ["a_b.c", "corp.example"]);
    assert_eq!(config.name_servers()[0].ip.to_string(), "127.0.0.2");
    let (config, _) = resolv_conf("search -x\nnameserver 127.0.0.2\n").unwrap();
    assert!(config.search().is_empty());
    assert!(resolv_conf("search corp.example\n").is_err());
}

#[test]
fn hosts_that_need_no_look_up() {
    let table = [
        ("192.0.2.1", vec!["192.0.2.1"]),
        ("2001:db8::1", vec!["2001:db8::1"]),
        ("[2001:db8::1]", vec!["2001:db8::1"]),
        ("::ffff:10.0.0.1", vec!["::ffff:10.0.0.1"]),
        ("localhost", vec!["127.0.0.1", "::1"]),
        ("LOCALHOST.", vec!["127.0.0.1", "::1"]),
        ("a.b.localhost", vec!["127.0.0.1", "::1"]),
    ];
    for (host, expected) in table {
        assert_eq!(
            Host::parse(host, NamedBy::Configuration),
            Ok(Host::Addresses(addresses(&expected).into())),
            "{host}"
        );
    }
}

#[test]
fn names_take_their_normal_form() {
    for (host, name) in [
        ("www.example.org", "www.example.org"),
        ("WWW.Example.ORG.", "www.example.org"),
        ("web", "web"),
        ("web.", "web."),
        ("_dmarc.example.org", "_dmarc.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("1.example", "1.example"),
        ("0xg.0xyz", "0xg.0xyz"),
        ("notlocalhost", "notlocalhost"),
        ("localhost.example.org", "localhost.example.org"),
    ] {
        let parsed = Host::parse(host, NamedBy::Configuration);
        assert_eq!(parsed, Ok(Host::Name(name.into())), "{host}");
    }
}

#[test]
fn what_is_no_host_name() {
    let long_label = format!("{}.example", "a".repeat(64));
    let long_name = vec!["a".repeat(60); 5].join(".");
    let table = [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a..",
        "a b",
        "a\0b",
        "a\r\nb",
        "bücher.example",
        "a/b",
        "a:80",
        "a@b",
        "*.example.org",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "10.0.0.256",
        "1.2.3.4.5",
        "1.2.3.0x",
        "example.123",
        "[::1",
        "::1]",
        "[example.org]",
        "fe80::1%eth0",
        "%2e",
        &long_label,
        &long_name,
    ];
    for host in table {
        let parsed = Host::parse(host, NamedBy::Configuration);
        assert_eq!(parsed, Err(ResolveError::Invalid), "{host:?}");
    }
    let longest = format!("{}.example", "a".repeat(63));
    assert!(Host::parse(&longest, NamedBy::Configuration).is_ok());
}
