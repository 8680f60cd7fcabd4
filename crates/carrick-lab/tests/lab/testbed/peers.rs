//! The proxies that are compared start in both layouts and do their jobs.

use super::*;
use carrick_lab::command::find;

/// The body that the proxy called `name` brings.
fn get(name: &str, bed: &Testbed, to: SocketAddr, target: &str) -> Vec<u8> {
    let host = bed.addresses().origin_http();
    let mut stream = bed
        .client
        .inside(|| Ok(TcpStream::connect(to)?))
        .unwrap_or_else(|error| panic!("{name}, {to}: {error:#}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut response = Vec::new();
    let end = stream.read_to_end(&mut response);
    let bytes = response.len();
    assert!(end.is_ok(), "{name} {target}: {end:?} after {bytes} bytes");
    let text = String::from_utf8_lossy(&response[..response.len().min(300)]).into_owned();
    assert!(text.starts_with("HTTP/1.1 200"), "{name} {target}: {text}");
    let end = response
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    response.split_off(end + 4)
}

#[tokio::test(flavor = "current_thread")]
async fn every_proxy_that_is_here_does_its_jobs_in_the_direct_layout() {
    every_proxy_does_its_jobs(Layout::Direct).await;
}

#[tokio::test(flavor = "current_thread")]
async fn every_proxy_that_is_here_does_its_jobs_in_the_routed_layout() {
    every_proxy_does_its_jobs(Layout::Routed).await;
}

async fn every_proxy_does_its_jobs(layout: Layout) {
    skip_unless!("nginx", "curl", "haproxy", "squid", "socat");
    let carrick = std::path::Path::new(LAB).with_file_name("carrick");
    let missing = |family: Family| match family {
        Family::Carrick => !carrick.is_file(),
        Family::ThreeProxy => find(family.name()).is_none(),
        Family::Routed | Family::Nginx | Family::Haproxy | Family::Squid | Family::Socat => false,
        Family::Varnish => find("varnishd").is_none(),
        Family::TrafficServer => find("traffic_server").is_none(),
        Family::Pepsal => find("pepsal").is_none(),
    };
    let (left_out, peers): (Vec<_>, Vec<_>) = PEERS
        .into_iter()
        .chain(FURTHER)
        .partition(|peer| missing(peer.family));
    for peer in left_out {
        carrick_test::lacks!("{} is not here", peer.name);
    }
    let mut families: Vec<Family> = peers.iter().map(|peer| peer.family).collect();
    families.retain(|family| !matches!(family, Family::Routed | Family::Carrick));
    let carrick = carrick.is_file().then_some(carrick.as_path());
    let (programs, missing) = Programs::find(&families, carrick, None).unwrap();
    assert!(missing.is_empty(), "{missing:?}");
    let bed = build(layout, |_| {});
    let addresses = bed.addresses();
    let mut origin = start_origin(&[50_000], &bed, &programs).unwrap();
    origin
        .wait_until_listening(addresses.origin_http().port(), PATIENCE)
        .await
        .unwrap();
    let expected = get_from_origin(&bed);
    for peer in &peers {
        // On the way of connections it is in the direct layout alone, of these.
        let on_its_way = |job: &&Job| **job != Job::Gateway || layout == Layout::Direct;
        for job in peer.jobs.iter().filter(on_its_way) {
            if let Some(why) = programs.why_not(peer, *job) {
                carrick_test::lacks!("{} as {}: {why}", peer.name, job.name());
                continue;
            }
            let tunnel_origin = addresses.origin_http().to_string();
            let service = peer.start(*job, &tunnel_origin, &bed, &programs).unwrap();
            let Some(mut service) = service else {
                assert_eq!(peer.family, Family::Routed);
                continue;
            };
            peer.wait_until_ready(*job, &mut service, PATIENCE)
                .await
                .unwrap_or_else(|error| panic!("{layout:?} {}: {error:#}", peer.name));
            let target = match job {
                Job::Forward => format!("http://{}/50000", addresses.origin_http()),
                Job::Switch | Job::Https | Job::Tunnel | Job::Gateway => String::from("/50000"),
                Job::Cache | Job::CacheDisk => String::from("/c/50000"),
                // Its configuration is right. The origin here does not speak HTTP/2.
                Job::Grpc => {
                    service.stop().await;
                    continue;
                }
            };
            let name = format!("{layout:?} {} {}", peer.name, job.name());
            let to = match job {
                Job::Gateway => addresses.origin_http(),
                _ => addresses.proxy_for(*job),
            };
            let before = service.connections().unwrap().accepted;
            for _ in 0..2 {
                let got = match job {
                    Job::Https => curl(&bed, &format!("https://{to}{target}")),
                    _ => get(&name, &bed, to, &target),
                };
                assert!(got == expected, "{name}");
            }
            let accepted = service.connections().unwrap().accepted - before;
            assert!(accepted >= 2, "{name}: {accepted} connections came in");
            service.stop().await;
        }
    }
}

fn get_from_origin(bed: &Testbed) -> Vec<u8> {
    curl(
        bed,
        &format!("http://{}/50000", bed.addresses().origin_http()),
    )
}

/// By curl, as a user would in `carrick-lab testbed`.
fn curl(bed: &Testbed, url: &str) -> Vec<u8> {
    let output = Command::new("ip")
        .args(["netns", "exec", bed.client.name(), "curl", "-skf", url])
        .output()
        .unwrap();
    assert!(output.status.success(), "{url}: {output:?}");
    assert_eq!(output.stdout.len(), 50_000, "{url}");
    output.stdout
}

#[tokio::test(flavor = "current_thread")]
async fn experiments_can_replace_templates_and_give_them_values() {
    skip_unless!("nginx");
    let folder = tempfile::tempdir().unwrap();
    let template = "daemon off; user root; pid {{directory}}/own.pid; error_log stderr error; events {}\n\
        stream {} # {{colour}}\n";
    // Without the http module's parts it serves nothing: what matters is that the value got there.
    fs::write(
        folder.path().join("nginx.conf"),
        template.replace("stream {}", ""),
    )
    .unwrap();
    let nginx = PEERS.into_iter().find(|peer| peer.name == "nginx").unwrap();
    let (programs, _) = Programs::find(&[Family::Nginx], None, Some(folder.path())).unwrap();
    let bed = build(Layout::Direct, |_| {});
    let error = nginx
        .start(Job::Switch, "", &bed, &programs)
        .map(|_| ())
        .unwrap_err();
    assert!(format!("{error:#}").contains("`colour`"), "{error:#}");
    let variables = BTreeMap::from([(String::from("colour"), String::from("green"))]);
    let service = nginx
        .start_with(Job::Switch, "", &bed, &programs, &variables)
        .unwrap()
        .unwrap();
    let written = fs::read_to_string(bed.directory().join("nginx.conf")).unwrap();
    assert!(written.contains("# green"), "{written}");
    service.stop().await;
}
