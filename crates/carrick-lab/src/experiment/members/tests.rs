//! Tests of who can take part: carrick is played by a script that takes or refuses configurations.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::experiment::catalogue;

/// A carrick that takes configurations in which none of these words is.
fn carrick(folder: &Path, refused: &str) -> PathBuf {
    let program = folder.join("carrick");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = check ] && [ \"$2\" = -c ] || exit 2\nif grep -qE '{refused}' \"$3\"; then echo no; exit 1; fi\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// The states of the series of a workload, by name.
fn states(refused: &str, experiment: &str, workload: &str) -> Result<BTreeMap<String, State>> {
    let folder = tempfile::tempdir().unwrap();
    let mut tools = Tools::find(Some(&carrick(folder.path(), refused)), None, folder.path())?;
    // Whatever else is installed on this machine.
    tools.missing.clear();
    let experiment = catalogue::named(experiment)?.remove(0);
    let workload = experiment.workload(workload).unwrap().clone();
    let members = tools.members(&experiment, &workload, &Filter::default())?;
    Ok(members
        .into_iter()
        .map(|member| (member.name, member.state))
        .collect())
}

#[test]
fn a_series_waits_until_carrick_takes_its_configuration() {
    let waits = |what: &str| State::WaitingFor(what.to_owned());
    let all = "\"socket\"|\"packet\"|cache";
    let found = states(all, "rosu-2002", "gets").unwrap();
    assert_eq!(found["carrick-copy"], State::Ready);
    assert_eq!(found["carrick-socket"], waits("the socket engine"));
    assert_eq!(
        found["carrick-packet"],
        waits("the packet engine for bodies of HTTP/1.0")
    );
    let found = states("\"packet\"", "rosu-2002", "gets").unwrap();
    assert_eq!(found["carrick-socket"], State::Ready);
    assert_eq!(
        found["carrick-packet"],
        waits("the packet engine for bodies of HTTP/1.0")
    );

    let found = states("nothing of it", "satellite-2003", "sizes").unwrap();
    assert_eq!(found["enabled"], State::Ready);
}

#[test]
fn of_a_forward_proxy_the_packet_engine_has_no_http_1_0() {
    let of_packet = |experiment, workload| {
        let states = states("nothing of it", experiment, workload).unwrap();
        states["carrick-packet"].clone()
    };
    assert_eq!(of_packet("rosu-2002", "tunnels"), State::Ready);
    assert_eq!(of_packet("rosu-2002", "tunnels-near"), State::Ready);
    assert_eq!(of_packet("peers", "forward"), State::Ready);
    let waits = State::WaitingFor(String::from("the packet engine for bodies of HTTP/1.0"));
    assert_eq!(of_packet("rosu-2002", "gets"), waits);
    assert_eq!(of_packet("rosu-2002", "modems"), waits);
}

#[test]
fn a_carrick_that_refuses_everything_does_not_look_like_one_that_waits() {
    let said = format!("{:#}", states("listener", "rosu-2002", "gets").unwrap_err());
    assert!(
        said.contains("refuses even the configuration of its engine `copy`"),
        "{said}"
    );
}

#[test]
fn what_should_be_there_and_is_refused_is_a_failure_with_carricks_words() {
    let found = states("\"pipe\"", "rosu-2002", "gets").unwrap();
    let State::Impossible(why) = &found["carrick-pipe"] else {
        panic!("{:?}", found["carrick-pipe"]);
    };
    assert!(
        why.contains("carrick refuses its configuration: no"),
        "{why}"
    );
}

#[test]
fn a_missing_carrick_is_told_with_what_to_do() {
    let error = Tools::find(Some(Path::new("no/such/carrick")), None, Path::new("/")).unwrap_err();
    let said = format!("{error:#}");
    assert!(
        said.contains("no carrick at no/such/carrick") && said.contains("make build"),
        "{said}"
    );
}

#[test]
fn programs_and_engines_can_be_chosen() {
    let names = |families: &[Family], engines: &[&str]| -> Vec<&str> {
        let filter = Filter {
            families: families.to_vec(),
            engines: engines.iter().map(|engine| (*engine).to_owned()).collect(),
            names: Vec::new(),
        };
        let all = crate::peers::PEERS.into_iter();
        all.filter(|peer| filter.lets_through(peer))
            .map(|peer| peer.name)
            .collect()
    };
    assert_eq!(names(&[], &[]).len(), crate::peers::PEERS.len());
    assert_eq!(
        names(&[Family::Nginx, Family::Routed], &[]),
        ["routed", "nginx", "nginx-fields"]
    );
    assert_eq!(names(&[Family::Carrick], &["pipe"]), ["carrick-pipe"]);
    assert_eq!(
        names(&[Family::Carrick, Family::Squid], &["copy"]),
        ["carrick-copy", "squid"]
    );
}

#[test]
fn peers_can_be_chosen_by_their_names_and_by_their_programs() {
    let filter = Filter {
        names: ["carrick-pipe", "haproxy"].map(String::from).into(),
        ..Filter::default()
    };
    let all = crate::peers::PEERS.into_iter();
    let names: Vec<&str> = all
        .filter(|peer| filter.lets_through(peer))
        .map(|peer| peer.name)
        .collect();
    assert_eq!(
        names,
        [
            "carrick-pipe",
            "haproxy",
            "haproxy-splice",
            "haproxy-fields"
        ]
    );
}
