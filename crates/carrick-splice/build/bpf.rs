//! Compiles BPF programs: what the build scripts of this crate and of carrick-packet-rules have in common.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;
use std::process::Command;
use std::{env, error::Error, ffi::OsString, fs};

/// Older ones make other code of these programs than any that is tried.
const CLANG_MIN: u32 = 14;

/// The headers that programs of all crates may include.
const HEADERS: &str = "../carrick-splice/bpf";

/// The compiler, and where it writes.
pub struct Compiler {
    clang: OsString,
    arguments: Vec<OsString>,
    out: PathBuf,
}

impl Compiler {
    /// The one that the environment names, which the crate's code may name, too (`CARRICK_CLANG`).
    pub fn find() -> Result<Compiler, Box<dyn Error>> {
        println!("cargo:rerun-if-changed=bpf");
        println!("cargo:rerun-if-changed={HEADERS}");
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
        let version = version.lines().next().unwrap_or_default();
        // As in "Ubuntu clang version 18.1.3".
        let major = version
            .split_once("version ")
            .and_then(|(_, rest)| rest.split('.').next()?.parse::<u32>().ok());
        if major.is_some_and(|major| major < CLANG_MIN) {
            return Err(format!(
                "clang {CLANG_MIN} or later is needed to compile the BPF programs, and {} is {version} (CLANG=... names another one)",
                clang.display()
            )
            .into());
        }
        println!("cargo:rustc-env=CARRICK_CLANG={version}");
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
        // Debian keeps asm/types.h with the architecture; clang does not look there when it compiles for BPF.
        let architecture = env::var("CARGO_CFG_TARGET_ARCH")?;
        let folders = [
            format!("-I/usr/include/{architecture}-linux-gnu"),
            format!("-I{HEADERS}"),
        ];
        let arguments = ["-Wall", "-Werror", "-mcpu=v3"].map(OsString::from);
        Ok(Compiler {
            clang,
            arguments: arguments
                .into_iter()
                .chain(folders.map(OsString::from))
                .collect(),
            out,
        })
    }

    /// Makes `NAME.o` and `NAME.skel.rs` of each `bpf/NAME/NAME.bpf.c`; and `objects.rs`, all objects by their names, so that they can also be
    /// loaded to see what that costs (`verifier` of carrick-splice).
    pub fn programs(&self, names: &[&str]) -> Result<(), Box<dyn Error>> {
        let mut objects = String::new();
        for name in names {
            let source = format!("bpf/{name}/{name}.bpf.c");
            self.builder(&source, name)
                .build_and_generate(self.out.join(format!("{name}.skel.rs")))
                .map_err(|error| format!("{source}: {error:#}"))?;
            objects += &format!(
                "(\"{name}\", include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{name}.o\"))),\n"
            );
        }
        fs::write(self.out.join("objects.rs"), format!("&[\n{objects}]\n"))?;
        Ok(())
    }

    /// Of `NAME.o` from a source.
    pub fn builder(&self, source: &str, name: &str) -> SkeletonBuilder {
        let mut builder = SkeletonBuilder::new();
        builder
            .source(source)
            .obj(self.out.join(format!("{name}.o")))
            .clang(&self.clang)
            .clang_args(&self.arguments);
        builder
    }
}
