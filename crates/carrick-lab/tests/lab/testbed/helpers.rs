//! The meter of the proxy's CPU, and the laboratory's own programs inside: WAN emulator, origin, load.

use super::*;

#[tokio::test(flavor = "current_thread")]
async fn the_meter_sees_what_a_spinner_uses() {
    skip_unless!();
    let Ok(pair) = CorePair::parse("0,1") else {
        carrick_test::lacks!("needs two cores");
        return;
    };
    // A process of its own for the meter: placing moves the whole process, and other tests run in this one.
    let mut bed = build(Layout::Direct, |_| {});
    let error = Meter::start(&bed).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("a core of its own"), "{error}");
    bed.place(Placement::Separate(pair)).unwrap();
    // A virtual processor that the host takes away for long is idle for the kernel: that is tried again until the host leaves it.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let calibration = bed.calibrate(Duration::from_millis(500)).await.unwrap();
        assert_eq!(bed.background_share(), calibration.idle_busy_share);
        let mut spinners = calibration.spinners.iter();
        // Others' work on a busy machine can only add to it.
        if spinners.all(|spinner| spinner.metered_share > spinner.used_share - 0.03) {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", calibration.spinners);
    }
    loop {
        let meter = Meter::start(&bed).unwrap();
        let used = tokio::task::spawn_blocking(move || {
            carrick_lab::testbed::cores::pin_this_thread(&[pair.proxy]).unwrap();
            carrick_lab::testbed::spin::spin(0.5, Duration::from_millis(500))
        })
        .await
        .unwrap();
        let cpu = meter.finish().unwrap();
        assert!(cpu.core_busy_seconds <= cpu.wall_seconds + cpu.resolution_seconds());
        if cpu.core_busy_seconds > used.as_secs_f64() - 0.02 {
            break;
        }
        assert!(Instant::now() < deadline, "{cpu:?} {used:?}");
    }
    bed.place(Placement::Shared).unwrap();
    assert_eq!(bed.background_share(), 0.0, "it was of another placement");
}

#[tokio::test(flavor = "current_thread")]
async fn a_slow_proxy_has_what_the_spinner_leaves_and_the_meter_takes_off_what_it_took() {
    skip_unless!();
    let Ok(pair) = CorePair::parse("0,1") else {
        carrick_test::lacks!("needs two cores");
        return;
    };
    let mut bed = build(Layout::Direct, |plan| plan.proxy_core_share = 0.5);
    let error = bed.slow_down().map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("proxy_core_share"), "{error}");
    bed.place(Placement::Separate(pair)).unwrap();
    let slowdown = bed.slow_down().unwrap();
    // Here, too, until the host leaves the processor.
    let deadline = Instant::now() + PATIENCE;
    let cpu = loop {
        let meter = Meter::start_beside(&bed, slowdown.as_ref()).unwrap();
        let used = tokio::task::spawn_blocking(move || {
            carrick_lab::testbed::cores::pin_this_thread(&[pair.proxy]).unwrap();
            carrick_lab::testbed::spin::spin(1.0, Duration::from_millis(500))
        })
        .await
        .unwrap();
        let cpu = meter.finish().unwrap();
        // It stands before every ordinary program; only the hypervisor can keep it from its share.
        let has_share = cpu.taken_seconds > 0.3 * cpu.wall_seconds && cpu.core_share() > 0.45;
        // Not a moment is counted twice.
        let most = cpu.wall_seconds + cpu.resolution_seconds();
        if has_share && cpu.taken_seconds + used.as_secs_f64() <= most {
            break cpu;
        }
        assert!(Instant::now() < deadline, "{cpu:?} {used:?}");
    };
    let sum = cpu.busy_seconds + cpu.taken_seconds;
    assert!((sum - cpu.core_busy_seconds).abs() < 1e-6, "{cpu:?}");
    drop(slowdown);
    let threads = fs::read_dir("/proc/self/task").unwrap();
    let names = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")));
    assert!(
        !names.flatten().any(|name| name.trim() == "slowdown"),
        "it has ended"
    );
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
pub fn has_part(subcommand: &str, option: &str) -> bool {
    let help = Command::new(LAB)
        .args([subcommand, "--help"])
        .output()
        .unwrap();
    let has = String::from_utf8_lossy(&help.stdout).contains(option);
    if !has {
        carrick_test::lacks!("this build has no `carrick-lab {subcommand} {option}`");
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
        let plan = bed.directory().join("plan.toml");
        let text = format!(
            "measured_seconds = 2\nroute.direct.address = \"{address}\"\n\
             arrival.closed.clients = 2\n[[class]]\nname = \"some\"\nbody_bytes = 10000\n"
        );
        std::fs::write(&plan, text).unwrap();
        let load = || {
            let plan = plan.to_str().unwrap();
            let said = bed.client.run(LAB, &["load", "--json", "--plan", plan])?;
            anyhow::Ok(serde_json::from_str::<LoadOutcome>(&said)?)
        };
        // It is an error if nothing was answered in two seconds.
        let outcome = carrick_test::wait_for("a load with an answer", || load().ok());
        assert_eq!(outcome.failures(), 0, "{outcome:?}");
        assert!(outcome.classes[0].completed > 0, "{outcome:?}");
        // Nobody listens there any more.
        origin.stop().await;
        let outcome = load();
        assert!(outcome.map_or(true, |outcome| outcome.failures() > 0));
    }
}
