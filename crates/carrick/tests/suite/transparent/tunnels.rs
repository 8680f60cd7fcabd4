//! Tunnels: by server name, or to the original destination.
use super::*;

const TUNNEL: &str = "[[listener]]\nlisten = \"[::]:8443\"\nmode = \"tunnel\"\ntransparent = true\nintercept = { ports = [443], interfaces = [\"eth1\"] }\n";

#[test]
fn tls_goes_by_name_and_what_no_route_names_goes_where_it_wanted_to() {
    let Some(bed) = Bed::build() else { return };
    let routes = "[[listener.route]]\nsni = \"a.example\"\nupstream = \"a\"\n[upstream.a]\nservers = [\"10.2.0.3:443\"]\n";
    let carrick = bed.carrick(&(TUNNEL.to_owned() + "deny_to = \"bad.example\"\n" + routes));
    let named = |name: &str, server: &str| {
        let said = bed.try_curl(&format!("--resolve {name}:443:{server} https://{name}/"));
        said.map(|said| {
            said.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        })
    };
    for (name, server, expected) in [
        ("a.example", "10.2.0.2", "server=10.2.0.3 client=10.2.0.1"),
        ("b.example", "10.2.0.2", "server=10.2.0.2 client=10.2.0.1"),
        (
            "a.example",
            "[fd00:2::2]",
            "server=10.2.0.3 client=10.2.0.1",
        ),
        (
            "b.example",
            "[fd00:2::2]",
            "server=fd00:2::2 client=fd00:2::1",
        ),
    ] {
        assert_eq!(
            named(name, server).as_deref(),
            Ok(expected),
            "{name} {server}"
        );
    }
    named("bad.example", "10.2.0.2").expect_err("a name that is denied");
    let log = carrick.access_log(5);
    let of = |name: &str| log.iter().filter(|line| line["target"] == name).count();
    assert_eq!(
        (of("a.example"), of("b.example"), of("bad.example")),
        (2, 2, 1)
    );
    let denied = log
        .iter()
        .find(|line| line["target"] == "bad.example")
        .expect("a line");
    assert_eq!(
        (&denied["status"], &denied["destination"]),
        (&403.into(), &"10.2.0.2:443".into())
    );
}

#[test]
fn names_are_denied_where_no_route_has_one() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(&(TUNNEL.to_owned() + "deny_to = \"bad.example\"\n"));
    let ask = |name: &str| bed.try_curl(&format!("--resolve {name}:443:10.2.0.2 https://{name}/"));
    ask("good.example").expect("an answer");
    ask("bad.example").expect_err("a name that is denied");
    let log = carrick.access_log(2);
    let denied = log.iter().find(|line| line["target"] == "bad.example");
    assert_eq!(denied.expect("a line")["status"], 403, "{log:?}");
}

#[test]
fn a_tunnel_needs_no_routes_and_can_keep_the_clients_address() {
    let Some(bed) = Bed::build() else { return };
    let text = TUNNEL.replace("[443]", "[80]") + "keep_client_address = true\n";
    let carrick = bed.carrick(&text);
    let said = bed.curl("http://10.2.0.2/a");
    assert!(said.contains("server=10.2.0.2 client=10.1.0.2 "), "{said}");
    let said = bed.curl("http://[fd00:2::2]/a");
    assert!(
        said.contains("server=fd00:2::2 client=fd00:1::2 "),
        "{said}"
    );
    let log = carrick.access_log(2);
    assert!(
        log.iter().any(|line| line["target"] == "10.2.0.2:80"),
        "{log:?}"
    );
    // A client of the listener itself is rejected.
    bed.try_curl("http://10.1.0.1:8443/")
        .expect_err("no server");
    let last = carrick.access_log(3).pop().expect("a line");
    assert_eq!(
        (&last["status"], &last["ended"]),
        (&403.into(), &"not_intercepted".into())
    );
}
