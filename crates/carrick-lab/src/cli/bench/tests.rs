//! Tests of what words of the command line mean.

use super::*;

fn chosen(words: &[&str]) -> Vec<String> {
    let mut experiment = catalogue::bench().unwrap();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    choose(&mut experiment, &words).unwrap();
    let workloads = experiment.workloads.into_iter();
    workloads.map(|workload| workload.id).collect()
}

#[test]
fn a_word_means_a_work_or_a_group() {
    assert_eq!(chosen(&["ping-64"]), ["ping-64"]);
    assert_eq!(chosen(&["ping"]), ["ping-64", "ping-1k"]);
    assert_eq!(chosen(&["bulk"]), ["bulk-1", "bulk-16"]);
    assert_eq!(chosen(&["tunnel-256"]), ["tunnel-256-1k", "tunnel-256-10k"]);
    assert_eq!(chosen(&["memory-split"]), ["memory-split"]);
    assert_eq!(
        chosen(&["switch"]),
        [
            "switch-1k",
            "switch-10k",
            "switch-64k",
            "switch-1m",
            "switch-close-1k"
        ]
    );
    let tunnels = chosen(&["tunnel"]);
    assert!(tunnels.contains(&String::from("tunnel-1k")));
    assert!(!tunnels.contains(&String::from("ping-64")));
    assert_eq!(chosen(&["switch-256k", "memory"]).len(), 8);
    let error = choose(
        &mut catalogue::bench().unwrap(),
        &[String::from("tunnel-1")],
    );
    assert!(error.is_err());
    let all = chosen(&[]);
    assert!(all.len() > 30 && !all.contains(&String::from("switch-256k")));
}

#[test]
fn figures_place_the_cores_and_connections_are_held_where_memory_is_measured() {
    let mut experiment = catalogue::bench().unwrap();
    place(&mut experiment, &[String::from("rate")]).unwrap();
    hold(&mut experiment, 200);
    let cores = &experiment.workload("switch-1k").unwrap().parameters[CORES];
    assert_eq!(cores.values, [Value::Word(String::from("shared"))]);
    let connections = |id| experiment.workload(id).unwrap().work().unwrap().connections;
    assert_eq!(connections("memory-tunnel"), 200);
    assert_eq!(connections("memory-object"), 9000);
    assert_eq!(connections("switch-1k"), 16);
    assert!(place(&mut experiment, &[String::from("speed")]).is_err());
}

#[test]
fn a_peer_is_meant_by_its_name_or_its_program() {
    let experiment = catalogue::bench().unwrap();
    let names = |words: &[&str]| -> Vec<&str> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let peers = chosen_peers(&experiment, &words).unwrap();
        peers.iter().map(|peer| peer.name).collect()
    };
    assert_eq!(
        names(&["haproxy"]),
        ["haproxy", "haproxy-splice", "haproxy-fields"]
    );
    assert_eq!(
        names(&["carrick-pipe", "nginx"]),
        ["carrick-pipe", "nginx", "nginx-fields"]
    );
    assert_eq!(names(&[]).len(), 17);
    assert!(chosen_peers(&experiment, &[String::from("apache")]).is_err());
}
