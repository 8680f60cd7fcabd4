//! Compiles the BPF programs and generates their skeletons, from which the process has the types that it shares with them.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;
use std::process::Command;
use std::{env, ffi::OsString};

const SOURCE: &str = "bpf/socket.bpf.c";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in [SOURCE, "bpf/socket.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let Ok(version) = Command::new(&clang).arg("--version").output() else {
        return Err(format!(
            "{} is needed to compile the BPF programs (Debian package clang; `make build` installs it, CLANG=... names another one)",
            clang.display()
        )
        .into());
    };
    let version = String::from_utf8_lossy(&version.stdout);
    println!(
        "cargo:rustc-env=CARRICK_CLANG={}",
        version.lines().next().unwrap_or_default()
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut arguments: Vec<OsString> = ["-Wall", "-Werror", "-mcpu=v3"].map(OsString::from).into();
    // Debian keeps asm/types.h with the architecture; clang does not look there when it compiles for BPF.
    let architecture = env::var("CARGO_CFG_TARGET_ARCH")?;
    arguments.push(format!("-I/usr/include/{architecture}-linux-gnu").into());
    SkeletonBuilder::new()
        .source(SOURCE)
        // Kept, so that the programs can also be loaded to see what that costs.
        .obj(out.join("socket.o"))
        .clang(clang)
        .clang_args(arguments)
        .build_and_generate(out.join("socket.skel.rs"))
        .map_err(|error| format!("{SOURCE}: {error:#}"))?;
    Ok(())
}
