//! Compiles the BPF program and generates its skeleton.

#[path = "../carrick-splice/build/bpf.rs"]
mod bpf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    bpf::Compiler::find()?.programs(&["rules"])
}
