//! The packet engine's state machine in virtual time: a client, this host and a server, determined by a seed. The
//! programs are the real ones, run packet by packet; the TCPs are the model's own.

mod answered;
mod appended;
mod application;
mod beside;
mod due;
mod endpoint;
mod frame;
mod handing_back;
mod host;
mod paced;
mod pacing;
mod programs;
mod random;
mod road;
mod scenario;
mod unasked;
mod unclassified;
mod world;

pub use answered::answering;
use host::Tally;
use programs::Programs;
use scenario::Scenario;
use world::World;

/// Number of seeds, unless `CARRICK_TORTURE_SEEDS` is set.
const SEEDS: u64 = 500;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap())
}

/// Runs seeds. Reports each failing one, and runs the first one again with a trace.
fn run(programs: &Programs, scenario: fn(u64) -> Scenario, seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for seed in seeds {
        match World::new(programs, scenario(seed), seed, false).run() {
            Ok(seen) => tally.add(&seen),
            Err(what) => wrong.push((seed, what)),
        }
    }
    let Some((first, _)) = wrong.first() else {
        return tally;
    };
    let mut world = World::new(programs, scenario(*first), *first, true);
    let again = world.run().err();
    eprintln!("{}", world.trace());
    for (seed, what) in &wrong {
        eprintln!("seed {seed}: {what}");
    }
    assert_eq!(
        again.as_ref(),
        Some(&wrong[0].1),
        "a seed is not reproducible"
    );
    eprintln!("{tally:#?}");
    panic!(
        "{} seeds fail; seed {first} is above (CARRICK_MODEL_SEED={first} runs it alone)",
        wrong.len()
    );
}

/// Runs all seeds, or the given one.
fn run_all(scenario: fn(u64) -> Scenario, has_happened: fn(&Tally)) {
    let Some(programs) = Programs::load() else {
        return;
    };
    if let Some(seed) = number("CARRICK_MODEL_SEED") {
        eprintln!("{:#?}", run(&programs, scenario, seed..seed + 1));
        return;
    }
    let seeds = number("CARRICK_TORTURE_SEEDS").unwrap_or(SEEDS);
    let tally = run(&programs, scenario, 0..seeds);
    eprintln!("{tally:#?}");
    if seeds >= SEEDS {
        has_happened(&tally);
    }
}

#[test]
fn whatever_happens_each_hears_what_the_other_says() {
    run_all(Scenario::new, |tally| tally.assert_all_has_happened());
}

#[test]
fn whatever_the_pace_is_each_hears_what_the_other_says() {
    run_all(Scenario::paced, |tally| {
        assert!(tally.grants > 0, "{tally:#?}")
    });
}

#[test]
fn whatever_happens_each_request_is_answered_once() {
    run_all(Scenario::responses, Tally::assert_responses_have_happened);
}
