//! Compiles the laboratory's BPF program: the congestion controls of the test bed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, error::Error};

use libbpf_cargo::SkeletonBuilder;

/// The program.
const SOURCE: &str = "bpf/congestion.bpf.c";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut arguments: Vec<OsString> = ["-Wall", "-Werror", "-mcpu=v3"].map(OsString::from).into();
    // Debian keeps asm/types.h with the architecture; clang does not look there when it compiles for BPF.
    let architecture = env::var("CARGO_CFG_TARGET_ARCH")?;
    arguments.push(format!("-I/usr/include/{architecture}-linux-gnu").into());
    SkeletonBuilder::new()
        .source(SOURCE)
        .obj(out.join("congestion.o"))
        .clang(&clang)
        .clang_args(&arguments)
        .build()
        .map_err(|error| format!("{SOURCE}, compiled by {}: {error:#}", clang.display()))?;
    Ok(())
}
