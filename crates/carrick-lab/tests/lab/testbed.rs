//! The test bed: both layouts carry traffic as planned, several at once; what is left behind; how failures are told.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests, which may fail as tests do"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use carrick_lab::content::Body;
use carrick_lab::load::plan::LoadPlan;
use carrick_lab::peers::{Family, Job, PEERS, Programs, start_origin};
use carrick_lab::testbed::cores::{CorePair, Placement};
use carrick_lab::testbed::namespace::Namespace;
use carrick_lab::testbed::{Layout, Meter, Side, TcpCounters, TcpOptions, Testbed, TestbedPlan};
use carrick_lab::wan::spec::{Path, Rule, WanCounts, WanSpec};

use crate::{LAB, LONGEST_RUN, left_behind, left_behind_by, why_skipped};

const LAYOUTS: [Layout; 2] = [Layout::Direct, Layout::Routed];
const BYTES: usize = 2_000_000;

/// Field 22 of `/proc/PID/stat`.
pub fn started_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let behind_name = stat.rsplit_once(')').unwrap().1;
    let field = behind_name.split_whitespace().nth(19).unwrap();
    field.parse().unwrap()
}

/// Waits for something that other processes do; fails if it never comes.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONGEST_RUN;
    while !condition() {
        assert!(Instant::now() < deadline, "it never came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn build(layout: Layout, change: impl FnOnce(&mut TestbedPlan)) -> Testbed {
    let mut plan = TestbedPlan {
        layout,
        ..TestbedPlan::default()
    };
    change(&mut plan);
    Testbed::build(&plan).unwrap()
}

/// A connection between sockets of two namespaces, made by threads inside; the sockets stay there.
fn connect(from: &Namespace, to: &Namespace, address: SocketAddr) -> (TcpStream, TcpStream) {
    let listener = to.inside(|| Ok(TcpListener::bind(address)?)).unwrap();
    let near = from.inside(|| Ok(TcpStream::connect(address)?)).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Sends bytes and checks each of them at the other end.
fn transfer(mut from: TcpStream, mut to: TcpStream) {
    let body = Body::of_seed(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut sent = 0;
            while sent < BYTES {
                let piece = body.piece(sent as u64, (BYTES - sent).min(65_536));
                from.write_all(piece).unwrap();
                sent += piece.len();
            }
        });
        let mut received = vec![0; BYTES];
        to.read_exact(&mut received).unwrap();
        assert_eq!(body.first_difference(0, &received), None);
    });
}

fn details(namespace: &Namespace) -> String {
    let said = namespace
        .run("ss", &["-tineH", "state", "established"])
        .unwrap();
    assert_eq!(said.lines().count(), 2, "one connection: {said}");
    said.lines().nth(1).unwrap().trim().to_owned()
}

#[test]
fn both_layouts_carry_traffic_with_the_planned_congestion_control() {
    skip_unless!();
    for layout in LAYOUTS {
        let bed = build(layout, |plan| plan.congestion = "reno".into());
        let addresses = bed.addresses();
        for (from, to, address) in [
            (&bed.client, &bed.server, addresses.origin_http()),
            (&bed.client, &bed.proxy, addresses.proxy_for(Job::Switch)),
            (&bed.proxy, &bed.server, addresses.origin_echo()),
        ] {
            let before = TcpCounters::read(to).unwrap();
            let (near, far) = connect(from, to, address);
            for side in [from, to] {
                let said = details(side);
                assert!(said.split(' ').any(|word| word == "reno"), "{said}");
            }
            transfer(far, near);
            let counters = TcpCounters::read(to).unwrap().since(&before);
            assert_eq!((counters.opened, counters.accepted), (0, 1), "{layout:?}");
            assert!(counters.data_out >= (BYTES / 1448) as u64, "{counters:?}");
            assert!(counters.acks_in() > 0 && counters.data_per_ack().unwrap() > 1.0);
            assert_eq!(counters.timeouts, 0);
        }
    }
}

#[test]
fn in_the_routed_layout_everything_passes_the_router() {
    skip_unless!();
    let bed = build(Layout::Routed, |_| {});
    let router = bed.router().unwrap();
    let address = bed.addresses().proxy_for(Job::Switch);
    drop(connect(&bed.client, &bed.proxy, address));
    router.set_parameter("net/ipv4/ip_forward", "0").unwrap();
    let listener = bed
        .proxy
        .inside(|| Ok(TcpListener::bind(address)?))
        .unwrap();
    let patience = Duration::from_millis(300);
    let refused = bed
        .client
        .inside(|| Ok(TcpStream::connect_timeout(&address, patience)?));
    assert!(refused.is_err(), "the router's kernel does not forward");
    drop(listener);
    assert!(bed.side(Side::Router).is_some());
    assert!(build(Layout::Direct, |_| {}).router().is_none());
}

#[test]
fn each_side_has_its_tcp_options() {
    skip_unless!();
    let bed = build(Layout::Routed, |plan| {
        plan.mtu = 1000;
        plan.server = TcpOptions {
            sack: false,
            timestamps: false,
            window_scaling: false,
            initial_congestion_window: Some(44),
            initial_receive_window: Some(30),
            receive_buffer: Some([4096, 100_000, 100_000]),
            ..TcpOptions::default()
        };
    });
    let addresses = bed.addresses();
    let (near, far) = connect(&bed.client, &bed.server, addresses.origin_http());
    let said = details(&bed.server);
    let words: Vec<&str> = said.split(' ').collect();
    assert!(
        !words
            .iter()
            .any(|word| *word == "sack" || *word == "ts" || word.starts_with("wscale:")),
        "{said}"
    );
    assert!(words.contains(&"mss:960"), "MTU less two headers: {said}");
    assert!(words.contains(&"cwnd:44"), "{said}");
    let at_client = details(&bed.client);
    assert!(at_client.contains("snd_wnd:28800"), "30 * 960: {at_client}");
    drop((near, far));
    wait_until(|| {
        let said = bed
            .server
            .run("ss", &["-tineH", "state", "established"])
            .unwrap();
        said.is_empty()
    });

    let (near, far) = connect(&bed.client, &bed.proxy, addresses.proxy_for(Job::Switch));
    let said = details(&bed.proxy);
    for word in ["sack", "ts", "cwnd:10"] {
        assert!(said.split(' ').any(|each| each == word), "{word} in {said}");
    }
    assert!(said.contains("wscale:"), "{said}");
    drop((near, far));
}

/// The longest IP packet that enters the router while something is sent from the server to the client.
fn longest_packet(bed: &Testbed) -> usize {
    use socket2::{Domain, Protocol, Socket, Type};
    let capture = bed
        .router()
        .unwrap()
        .inside(|| {
            let all = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
            Ok(Socket::new(Domain::PACKET, Type::DGRAM, Some(all))?)
        })
        .unwrap();
    // Far more than what is sent, so that the kernel drops nothing.
    capture.set_recv_buffer_size(32 * BYTES).unwrap();
    capture
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let (near, far) = connect(&bed.client, &bed.server, bed.addresses().origin_http());
    let capture_thread = std::thread::spawn(move || {
        let mut longest = 0;
        let mut buffer = vec![0; 100_000];
        while let Ok(length) = (&capture).read(&mut buffer) {
            longest = longest.max(length);
        }
        longest
    });
    transfer(far, near);
    capture_thread.join().unwrap()
}

#[test]
fn without_offloads_no_packet_is_larger_than_the_mtu() {
    skip_unless!();
    let with = build(Layout::Routed, |_| {});
    assert!(longest_packet(&with) > 1500, "with offloads, they are");
    let without = build(Layout::Routed, |plan| plan.offloads = false);
    assert_eq!(longest_packet(&without), 1500);
}

#[test]
fn several_test_beds_live_side_by_side() {
    skip_unless!();
    let beds = LAYOUTS.map(|layout| build(layout, |_| {}));
    let names = [&beds[0], &beds[1]].map(Testbed::service_name);
    assert_ne!(names[0], names[1]);
    // The same addresses in each.
    let pairs: Vec<_> = beds
        .iter()
        .map(|bed| connect(&bed.client, &bed.server, bed.addresses().origin_http()))
        .collect();
    for (near, far) in pairs {
        transfer(far, near);
    }
    let [first, second] = beds;
    drop(first);
    assert_eq!(left_behind_by(&names[0]), Vec::<PathBuf>::new());
    let (near, far) = connect(
        &second.client,
        &second.server,
        second.addresses().origin_http(),
    );
    transfer(far, near);
}

fn get(bed: &Testbed, to: SocketAddr, target: &str) -> Vec<u8> {
    let host = bed.addresses().origin_http();
    let mut stream = bed
        .client
        .inside(|| Ok(TcpStream::connect(to)?))
        .unwrap_or_else(|error| panic!("{to}: {error:#}"));
    stream.set_read_timeout(Some(LONGEST_RUN)).unwrap();
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    let text = String::from_utf8_lossy(&response[..response.len().min(300)]).into_owned();
    assert!(text.starts_with("HTTP/1.1 200"), "{to} {target}: {text}");
    let end = response
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    response.split_off(end + 4)
}

#[tokio::test(flavor = "current_thread")]
async fn every_proxy_that_is_here_starts_in_both_layouts_and_does_its_jobs() {
    skip_unless!("nginx", "curl");
    let carrick = std::path::Path::new(LAB).with_file_name("carrick");
    let missing = |family: Family| match family {
        Family::Carrick => !carrick.is_file(),
        Family::Haproxy | Family::Squid => why_skipped(&[family.name()]).is_some(),
        Family::Routed | Family::Nginx => false,
    };
    let peers: Vec<_> = PEERS
        .into_iter()
        .filter(|peer| !missing(peer.family))
        .collect();
    for peer in PEERS.iter().filter(|peer| missing(peer.family)) {
        eprintln!("SKIPPED: {} is not here", peer.name);
    }
    let programs = Programs::locate(&peers, &carrick, None).unwrap();
    for layout in LAYOUTS {
        let bed = build(layout, |_| {});
        let addresses = bed.addresses();
        let mut origin = start_origin(&[50_000], &bed, &programs).unwrap();
        origin
            .wait_until_listening(addresses.origin_http().port(), LONGEST_RUN)
            .await
            .unwrap();
        let expected = get_from_origin(&bed);
        for peer in &peers {
            for job in peer.jobs {
                if programs.why_not(peer, *job).is_some() {
                    continue;
                }
                let tunnel_origin = addresses.origin_http().to_string();
                let service = peer.start(*job, &tunnel_origin, &bed, &programs).unwrap();
                let Some(mut service) = service else {
                    assert_eq!(peer.family, Family::Routed);
                    continue;
                };
                service
                    .wait_until_listening(job.port(), LONGEST_RUN)
                    .await
                    .unwrap_or_else(|error| panic!("{layout:?} {}: {error:#}", peer.name));
                let target = match job {
                    Job::Forward => format!("http://{}/50000", addresses.origin_http()),
                    Job::Switch | Job::Tunnel => String::from("/50000"),
                };
                let got = get(&bed, addresses.proxy_for(*job), &target);
                assert!(got == expected, "{layout:?} {} {}", peer.name, job.name());
                service.stop().await;
            }
        }
    }
}

/// By curl, as a user would in `carrick lab testbed`.
fn get_from_origin(bed: &Testbed) -> Vec<u8> {
    let url = format!("http://{}/50000", bed.addresses().origin_http());
    let output = Command::new("ip")
        .args(["netns", "exec", bed.client.name(), "curl", "-sf", &url])
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout.len(), 50_000);
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
    let programs =
        Programs::locate(&[nginx], std::path::Path::new("none"), Some(folder.path())).unwrap();
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

#[tokio::test(flavor = "current_thread")]
async fn the_meter_sees_what_a_spinner_uses() {
    skip_unless!();
    let Ok(pair) = CorePair::parse("0,1") else {
        eprintln!("SKIPPED: needs two cores");
        return;
    };
    // A process of its own for the meter: placing moves the whole process, and other tests run in this one.
    let mut bed = build(Layout::Direct, |_| {});
    let error = Meter::start(&bed).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("a core of its own"), "{error}");
    bed.place(Placement::Separate(pair)).unwrap();
    let calibration = bed.calibrate(Duration::from_millis(500)).await.unwrap();
    for spinner in &calibration.spinners {
        // Others' work on a busy machine can only add to it.
        assert!(
            spinner.metered_share > spinner.used_share - 0.03,
            "{spinner:?}"
        );
    }
    assert_eq!(bed.background_share(), calibration.idle_busy_share);
    let meter = Meter::start(&bed).unwrap();
    let used = tokio::task::spawn_blocking(move || {
        carrick_lab::testbed::cores::pin_this_thread(&[pair.proxy]).unwrap();
        carrick_lab::load::spin::spin(0.5, Duration::from_millis(500))
    })
    .await
    .unwrap();
    let cpu = meter.finish().unwrap();
    assert!(
        cpu.core_busy_seconds > used.as_secs_f64() - 0.02,
        "{cpu:?} {used:?}"
    );
    assert!(cpu.core_busy_seconds <= cpu.wall_seconds + cpu.resolution_seconds());
    bed.place(Placement::Shared).unwrap();
    assert_eq!(bed.background_share(), 0.0, "it was of another placement");
}

#[tokio::test(flavor = "current_thread")]
async fn a_wan_needs_a_router_and_a_failed_start_leaves_the_kernel_forwarding() {
    skip_unless!();
    let direct = build(Layout::Direct, |_| {});
    let error = direct
        .start_wan(&WanSpec::default())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("`routed`"), "{error}");
    // This test's own program is no laboratory, so what is started as emulator fails.
    let routed = build(Layout::Routed, |_| {});
    let error = routed
        .start_wan(&WanSpec::default())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.to_string().contains("the WAN emulator ended"),
        "{error}"
    );
    let (near, far) = connect(
        &routed.client,
        &routed.server,
        routed.addresses().origin_http(),
    );
    transfer(far, near);
}

/// Whether the laboratory that is tested has a subcommand with this option.
fn has_part(subcommand: &str, option: &str) -> bool {
    let help = Command::new(LAB)
        .args([subcommand, "--help"])
        .output()
        .unwrap();
    let has = String::from_utf8_lossy(&help.stdout).contains(option);
    if !has {
        eprintln!("SKIPPED: this build has no `carrick lab {subcommand} {option}`");
    }
    has
}

#[tokio::test(flavor = "current_thread")]
async fn the_wan_takes_the_place_of_the_routers_kernel_and_counts() {
    skip_unless!();
    if !has_part("wan", "--counts") {
        return;
    }
    let mut bed = build(Layout::Routed, |plan| plan.offloads = false);
    bed.set_program(PathBuf::from(LAB));
    let addresses = bed.addresses();
    let spec = WanSpec {
        seed: 7,
        rules: vec![Rule {
            from: Some(addresses.server_subnet),
            path: Path {
                delay_ms: 30.0,
                loss: 0.02,
                ..Path::default()
            },
            ..Rule::default()
        }],
    };
    let mut wan = bed.start_wan(&spec).await.unwrap();
    let before = TcpCounters::read(&bed.server).unwrap();
    let started = Instant::now();
    let (near, far) = connect(&bed.client, &bed.server, addresses.origin_http());
    assert!(started.elapsed() >= Duration::from_millis(30));
    transfer(far, near);
    let counters = TcpCounters::read(&bed.server).unwrap().since(&before);
    let now = wan.counts().await.unwrap();
    assert!(now.rules[0].packets > 0 && now.unmatched > 0, "{now:?}");
    let counts = wan.stop().await.unwrap();
    let lost = counts.rules[0].lost_first + counts.rules[0].lost_next;
    assert!(lost > 0 && counts.overruns == 0, "{counts:?}");
    assert!(counters.retransmitted > 0, "{counters:?}");
    assert!(counters.data_out >= (BYTES / 1448) as u64, "{counters:?}");
    // The kernel forwards again, without delay.
    let (near, far) = connect(&bed.client, &bed.server, addresses.origin_http());
    transfer(far, near);
}

#[test]
fn a_command_behind_a_wan_leaves_its_counts() {
    skip_unless!("curl");
    if !has_part("wan", "--counts") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("wan.toml");
    let counts = folder.path().join("counts.json");
    fs::write(&rules, "[[rule]]\ndelay_ms = 5\n").unwrap();
    let script = "ip netns exec $CARRICK_LAB_SERVER_NETNS \"$LAB\" echo --listen $CARRICK_LAB_SERVER_ADDRESS:7 & \
                  curl -s --retry 50 --retry-connrefused --retry-delay 1 --max-time 3 telnet://$CARRICK_LAB_SERVER_ADDRESS:7 </dev/null; \
                  exit 3";
    let output = testbed_command(&["--wan", rules.to_str().unwrap(), "--counts"])
        .arg(&counts)
        .args(["--", "sh", "-c", script])
        .env("LAB", LAB)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let counts: WanCounts = serde_json::from_slice(&fs::read(&counts).unwrap()).unwrap();
    assert!(counts.rules[0].packets > 2, "{counts:?}");
}

#[tokio::test(flavor = "current_thread")]
async fn load_and_origin_find_each_other() {
    skip_unless!();
    if !has_part("origin", "--listen") || !has_part("load", "--plan") {
        return;
    }
    for layout in LAYOUTS {
        let mut bed = build(layout, |_| {});
        bed.set_program(PathBuf::from(LAB));
        let address = bed.addresses().origin_http();
        let arguments = [String::from("--listen"), address.to_string()];
        let origin = bed.start_origin(&arguments).await.unwrap();
        let plan: LoadPlan = toml::from_str(&format!(
            "measured_seconds = 0.5\nroute.direct.address = \"{address}\"\n\
             arrival.closed.clients = 2\n[[class]]\nname = \"some\"\nbody_bytes = 10000\n"
        ))
        .unwrap();
        let outcome = bed.run_load(&plan).await.unwrap();
        assert_eq!(outcome.failures(), 0, "{outcome:?}");
        assert!(outcome.classes[0].completed > 10, "{outcome:?}");
        // Nobody listens there any more.
        origin.stop().await;
        let outcome = bed.run_load(&plan).await;
        assert!(outcome.map_or(true, |outcome| outcome.failures() > 0));
    }
}

fn testbed_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(LAB);
    command.arg("testbed").args(arguments);
    command
}

fn said(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = testbed_command(arguments).output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_command_runs_where_it_is_told_to_and_its_exit_code_is_passed_on() {
    skip_unless!();
    let own = "ip -4 -o address show scope global; exit 7";
    for (arguments, address) in [
        (&[][..], "10.77.1.2/24"),
        (&["--in", "proxy"], "10.77.2.1/24"),
        (&["--in", "server"], "10.77.2.2/24"),
        (&["--layout", "routed", "--in", "proxy"], "10.77.3.2/24"),
        (&["--layout", "routed", "--in", "router"], "10.77.3.1/24"),
    ] {
        let all = [arguments, &["--", "sh", "-c", own]].concat();
        let (code, out, error) = said(&all);
        assert_eq!(code, Some(7), "{all:?}: {error}");
        assert!(out.contains(address), "{all:?}: {out}");
    }
    let script = "ip netns exec $CARRICK_LAB_ROUTER_NETNS true && ip netns exec $CARRICK_LAB_SERVER_NETNS \
                  ip -4 -o address | grep -q $CARRICK_LAB_SERVER_ADDRESS && test -d $CARRICK_LAB_DIRECTORY && kill -9 $$";
    let (code, _, error) = said(&[
        "--layout", "routed", "--in", "host", "--", "sh", "-c", script,
    ]);
    assert_eq!(code, Some(137), "as a shell has it: {error}");
    let (code, _, error) = said(&["--", "no-such-command"]);
    assert!(
        code == Some(127) && error.contains("no-such-command"),
        "{error}"
    );
}

#[test]
fn mistakes_are_explained_before_anything_is_made() {
    skip_unless!();
    for (arguments, part) in [
        (&["--congestion", "vegas"][..], "does not offer `vegas`"),
        (&["--in", "router"], "no router"),
        (&["--wan", "no/such/file"], "cannot read no/such/file"),
        (&["--cores", "1,1"], "must differ"),
    ] {
        let all = [arguments, &["--", "true"]].concat();
        let (code, _, error) = said(&all);
        assert!(
            code == Some(1) && error.contains(part),
            "{arguments:?}: {error}"
        );
    }
}

fn start_sleeping(arguments: &[&str]) -> Child {
    let all = [
        arguments,
        &["--", "sh", "-c", "trap '' HUP; sleep 1000 & sleep 1000"],
    ]
    .concat();
    let child = testbed_command(&all).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id();
    let sleeps = || {
        left_behind(pid)
            .iter()
            .filter(|path| path.starts_with("/run/netns"))
            .any(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                let pids = Command::new("ip")
                    .args(["netns", "pids", name])
                    .output()
                    .unwrap();
                pids.stdout.iter().filter(|byte| **byte == b'\n').count() >= 3
            })
    };
    wait_until(sleeps);
    child
}

#[test]
fn an_interrupted_command_leaves_nothing_behind() {
    skip_unless!();
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let mut child = start_sleeping(&["--layout", "routed"]);
        let pid = child.id();
        let killed = Command::new("kill")
            .args([signal, &pid.to_string()])
            .status();
        assert!(killed.unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert_eq!(left_behind(pid), Vec::<PathBuf>::new(), "{signal}");
    }
}

#[test]
fn a_killed_run_is_cleaned_up_by_the_next() {
    skip_unless!();
    let mut child = start_sleeping(&[]);
    let pid = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, _, error) = said(&["--", "true"]);
    assert_eq!(code, Some(0), "{error}");
    wait_until(|| left_behind(pid).is_empty());
}

#[test]
fn without_capabilities_the_reason_is_told() {
    skip_unless!("setpriv");
    let output = Command::new("setpriv")
        .args([
            "--bounding-set=-sys_admin",
            "--inh-caps=-sys_admin",
            LAB,
            "testbed",
            "--",
            "true",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("CAP_SYS_ADMIN"),
        "{said}"
    );
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--regid=65534", LAB])
        .args(["testbed", "--", "true"])
        .output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    // The program's own folder may be closed to that user.
    match said {
        Ok(said) if said.contains("Permission denied") => {
            eprintln!("SKIPPED: nobody may not run {LAB}")
        }
        Ok(said) => assert!(said.contains("needs root"), "{said}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_missing_tool_is_named_with_its_package() {
    skip_unless!();
    let folder = tempfile::tempdir().unwrap();
    // The tools' usual places are looked at, too: hidden for this process alone.
    let script = format!(
        "mount -t tmpfs none /usr/sbin && mount -t tmpfs none /sbin && PATH={} exec {LAB} testbed -- true",
        folder.path().display()
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("`ip` is missing: apt-get install iproute2"),
        "{said}"
    );
}

#[test]
fn a_full_file_system_in_memory_is_told() {
    skip_unless!("unshare");
    let script = format!("mount -t tmpfs -o size=64k none /dev/shm && exec {LAB} testbed -- true");
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("/dev/shm is full"),
        "{said}"
    );
}
