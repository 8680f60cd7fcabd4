//! The packet engine's state machine in virtual time: a client, this host and a server, all of it by a seed. The programs are the
//! real ones, run packet by packet; the TCPs are the model's own.

mod application;
mod endpoint;
mod frame;
mod host;
mod programs;
mod random;
mod road;
mod scenario;
mod world;

use host::Tally;
use programs::Programs;
use world::World;

/// How many seeds there are, if `CARRICK_TORTURE_SEEDS` does not say otherwise.
const SEEDS: u64 = 400;

/// Runs a seed. If something is wrong, it is run again and traced.
fn run(programs: &Programs, seed: u64) -> Tally {
    let run = |is_traced| {
        let mut world = World::new(programs, seed, is_traced);
        world.run().map_err(|what| (what, world.trace()))
    };
    match run(false) {
        Ok(tally) => tally,
        Err((what, _)) => {
            let trace = run(true).map_or_else(|(_, trace)| trace, |_| "it went well again".into());
            panic!("{trace}\nseed {seed}: {what}\n(CARRICK_MODEL_SEED={seed} runs it alone)");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap())
}

#[test]
fn whatever_happens_each_hears_what_the_other_says() {
    let Some(programs) = Programs::load() else {
        return;
    };
    if let Some(seed) = number("CARRICK_MODEL_SEED") {
        eprintln!("{:#?}", run(&programs, seed));
        return;
    }
    let mut tally = Tally::default();
    for seed in 0..number("CARRICK_TORTURE_SEEDS").unwrap_or(SEEDS) {
        tally.add(&run(&programs, seed));
    }
    eprintln!("{tally:#?}");
}
