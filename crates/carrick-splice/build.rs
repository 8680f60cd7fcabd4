//! Compiles the BPF programs and generates their skeletons, from which the process has the types that it shares with them.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;
use std::process::Command;
use std::{env, ffi::OsString};

/// The programs, in the order in which they are reported: `bpf/NAME/NAME.bpf.c` becomes `NAME.skel.rs`.
const PROGRAMS: [&str; 8] = [
    "sockmap",
    "live",
    "tc",
    "pacing",
    "rules",
    "classifier",
    "tcp_tuning",
    "syn_defer",
];

/// Programs that only tests load: `bpf/tc/NAME.bpf.c` becomes `NAME.o`.
const TEST_PROGRAMS: [&str; 2] = ["hooks_test", "model"];

/// Older ones make other code of these programs than any that is tried.
const CLANG_MIN: u32 = 14;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=bpf");
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
    // As in "Ubuntu clang version 18.1.3".
    let major = version
        .split_once("version ")
        .and_then(|(_, rest)| rest.split('.').next()?.parse::<u32>().ok());
    if major.is_some_and(|major| major < CLANG_MIN) {
        return Err(format!(
            "clang {CLANG_MIN} or later is needed to compile the BPF programs, and {} is {} (CLANG=... names another one)",
            clang.display(),
            version.lines().next().unwrap_or_default()
        )
        .into());
    }
    println!(
        "cargo:rustc-env=CARRICK_CLANG={}",
        version.lines().next().unwrap_or_default()
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut arguments: Vec<OsString> = ["-Wall", "-Werror", "-mcpu=v3"].map(OsString::from).into();
    // Debian keeps asm/types.h with the architecture; clang does not look there when it compiles for BPF.
    let architecture = env::var("CARGO_CFG_TARGET_ARCH")?;
    arguments.push(format!("-I/usr/include/{architecture}-linux-gnu").into());
    let mut objects = String::new();
    for program in PROGRAMS {
        let source = format!("bpf/{program}/{program}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{program}.o")))
            .clang(&clang)
            .clang_args(&arguments)
            .build_and_generate(out.join(format!("{program}.skel.rs")))
            .map_err(|error| format!("{source}: {error:#}"))?;
        objects += &format!(
            "(\"{program}\", include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{program}.o\"))),\n"
        );
    }
    for program in TEST_PROGRAMS {
        let source = format!("bpf/tc/{program}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{program}.o")))
            .clang(&clang)
            .clang_args(&arguments)
            .build()
            .map_err(|error| format!("{source}: {error:#}"))?;
    }
    // So that the programs can also be loaded to see what that costs (`verifier`).
    std::fs::write(out.join("objects.rs"), format!("&[\n{objects}]\n"))?;
    Ok(())
}
