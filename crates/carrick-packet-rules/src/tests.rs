//! Packets in, verdicts and packets out: the programs are run on packets of the tests' own (`BPF_PROG_TEST_RUN`).

mod any_rewriting;
mod frame;
mod matching;
mod refused;
mod rewriting;
mod run;
mod verdicts;
