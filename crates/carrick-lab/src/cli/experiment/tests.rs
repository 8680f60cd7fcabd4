//! Tests of the choice of workloads and figures.

use super::*;

fn chosen(only: &[&str]) -> Result<Vec<(String, Vec<String>, usize)>> {
    let mut experiments = catalogue::all()?;
    let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
    choose(&mut experiments, &only)?;
    Ok(experiments
        .into_iter()
        .map(|one| {
            let workloads = one
                .workloads
                .into_iter()
                .map(|workload| workload.id)
                .collect();
            (one.name, workloads, one.figures.len())
        })
        .collect())
}

#[test]
fn a_workload_brings_its_figures_and_a_figure_its_workload() {
    let gets = [(String::from("rosu-2002"), vec![String::from("gets")], 9)];
    assert_eq!(chosen(&["gets"]).unwrap(), gets);
    assert_eq!(chosen(&["figure-11"]).unwrap()[0].1, ["gets"]);
    let table = [(
        String::from("satellite-2003"),
        vec![String::from("losses")],
        1,
    )];
    assert_eq!(chosen(&["figure-9a"]).unwrap(), table);
    assert_eq!(chosen(&[]).unwrap().len(), 7);
}

#[test]
fn an_unknown_name_is_answered_with_those_that_exist() {
    let said = chosen(&["figure-99"]).unwrap_err().to_string();
    assert!(
        said.contains("no workload or figure `figure-99`") && said.contains("gets"),
        "{said}"
    );
}
