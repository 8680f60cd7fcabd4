//! Compiles the BPF programs and generates their skeletons, from which the process has the types that it shares with them.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;
use std::process::Command;
use std::{env, ffi::OsString};

/// The programs: `bpf/NAME.bpf.c` becomes `NAME.skel.rs`.
const PROGRAMS: [&str; 8] = [
    "socket", "live", "packet", "pace", "rules", "judge", "legs", "hold",
];

/// Programs that only tests load: `bpf/NAME.bpf.c` becomes `NAME.o`.
const TEST_PROGRAMS: [&str; 2] = ["hooks_test", "packet_model"];

/// What the programs include.
const HEADERS: [&str; 29] = [
    "bpf/bounds.h",
    "bpf/hold.h",
    "bpf/legs.h",
    "bpf/pace.h",
    "bpf/socket.h",
    "bpf/live.h",
    "bpf/packet.h",
    "bpf/packet_beside.h",
    "bpf/packet_cut.h",
    "bpf/packet_checksum.h",
    "bpf/packet_headers.h",
    "bpf/packet_icmp.h",
    "bpf/packet_local.h",
    "bpf/packet_machine.h",
    "bpf/packet_pace.h",
    "bpf/packet_grant.h",
    "bpf/packet_share.h",
    "bpf/packet_pulse.h",
    "bpf/packet_place.h",
    "bpf/packet_command.h",
    "bpf/packet_due.h",
    "bpf/packet_requests.h",
    "bpf/packet_responses.h",
    "bpf/rules.h",
    "bpf/requests.h",
    "bpf/judge.h",
    "bpf/judge_head.h",
    "bpf/judge_routes.h",
    "bpf/words.h",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for file in HEADERS {
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
    let mut objects = String::new();
    for program in PROGRAMS {
        let source = format!("bpf/{program}.bpf.c");
        println!("cargo:rerun-if-changed={source}");
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
        let source = format!("bpf/{program}.bpf.c");
        println!("cargo:rerun-if-changed={source}");
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
