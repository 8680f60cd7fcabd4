//! Tests of the command line's meaning.

use clap::Parser as _;

use super::*;

#[derive(Debug, clap::Parser)]
struct Cli {
    #[command(flatten)]
    testbed: Testbed,
}

fn parse(arguments: &[&str]) -> Testbed {
    let all = ["testbed"].iter().chain(arguments).chain(&["--", "true"]);
    Cli::try_parse_from(all).unwrap().testbed
}

#[test]
fn options_override_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    fs::write(
        &file,
        "layout = \"routed\"\ncongestion = \"reno\"\nmtu = 1400",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let plan = plan_of(&parse(&["--plan", file])).unwrap();
    assert_eq!((plan.layout, plan.mtu), (Layout::Routed, 1400));
    assert!(plan.offloads);
    let plan = plan_of(&parse(&[
        "--plan",
        file,
        "--layout",
        "direct",
        "--congestion",
        "cubic",
        "--no-offloads",
    ]))
    .unwrap();
    assert_eq!(
        (plan.layout, plan.mtu, plan.congestion.as_str()),
        (Layout::Direct, 1400, "cubic")
    );
    assert!(!plan.offloads);
}

#[test]
fn a_wan_needs_the_router() {
    let plan = plan_of(&parse(&["--wan", "x.toml"])).unwrap();
    assert_eq!(plan.layout, Layout::Routed);
    let error = plan_of(&parse(&["--wan", "x.toml", "--layout", "direct"])).unwrap_err();
    assert!(error.to_string().contains("--layout routed"), "{error}");
}

#[test]
fn mistakes_in_files_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mistake.toml");
    fs::write(&file, "layouts = 1").unwrap();
    for error in [
        plan_of(&parse(&["--plan", file.to_str().unwrap()])).unwrap_err(),
        read_wan(&file).unwrap_err(),
    ] {
        let said = format!("{error:#}");
        assert!(
            said.contains("mistake.toml") && said.contains("`layouts`"),
            "{said}"
        );
    }
}

#[test]
fn exit_codes_are_those_of_a_shell() {
    use std::os::unix::process::ExitStatusExt as _;
    let same = |outcome: Outcome, code: u8| {
        assert_eq!(
            format!("{:?}", outcome.code()),
            format!("{:?}", ExitCode::from(code))
        );
    };
    same(Outcome::Ended(ExitStatus::from_raw(7 << 8)), 7);
    same(Outcome::Ended(ExitStatus::from_raw(9)), 137);
    same(Outcome::Interrupted("SIGINT"), 130);
    same(Outcome::Interrupted("SIGHUP"), 129);
    same(Outcome::Interrupted("SIGTERM"), 143);
}
