//! Package managers: pip, npm, cargo and apt, each with a repository of one package, by HTTP and by HTTPS.
use super::lines_with;
use super::site::Site;
use super::tool::{Tool, has_all};
use crate::support::{Carrick, Place};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};
use std::path::Path;

/// A site and a forward proxy, if all of these programs are installed.
fn scene(programs: &[&str]) -> Option<(Place, Site, Carrick)> {
    if !has_all(programs) {
        return None;
    }
    let place = Place::claim();
    let site = Site::start(&place)?;
    let carrick = Carrick::forward(&place);
    Some((place, site, carrick))
}

fn proxy(carrick: &Carrick) -> String {
    format!("http://{}", carrick.forward_address())
}

/// Waits until the log has a GET for each of these files, and a tunnel to the site.
fn expect_traffic(carrick: &Carrick, site: &Site, files: &[&str]) {
    let https = site.https_address().to_string();
    let urls: Vec<String> = files.iter().map(|file| site.http(file)).collect();
    let mut wanted = vec![("CONNECT", https.as_str())];
    wanted.extend(urls.iter().map(|url| ("GET", url.as_str())));
    lines_with(carrick, &wanted);
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A wheel is a zip file.
const MAKE_WHEEL: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("carrick_play.py", "knot = 'carrick bend'\n")
    info = "carrick_play-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: carrick-play\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: play\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "")
"#;

#[test]
fn pip_installs_a_wheel() {
    let Some((place, site, carrick)) = scene(&["python3"]) else {
        return;
    };
    if !Tool::new("python3", &place)
        .words("-m pip --version")
        .run()
        .status
        .success()
    {
        carrick_test::lacks!("pip is not installed");
        return;
    }
    let wheel = "carrick_play-1.0-py3-none-any.whl";
    site.put(
        "simple/carrick-play/index.html",
        format!("<!DOCTYPE html><a href=\"{wheel}\">{wheel}</a>"),
    );
    Tool::new("python3", &place)
        .words("-c")
        .word(MAKE_WHEEL)
        .word(site.directory().join("simple/carrick-play").join(wheel))
        .expect();
    for (folder, index) in [
        ("plain", site.http("/simple/")),
        ("tls", site.https("/simple/")),
    ] {
        Tool::new("python3", &place)
            .words("-m pip --isolated --no-cache-dir --disable-pip-version-check --quiet install --no-deps --retries 0 --timeout 600")
            .words("--no-compile --root-user-action ignore --cert ca.pem --trusted-host")
            .word(place.ip().to_string())
            .words(&format!("--proxy {} --index-url {index} --target {folder} carrick-play", proxy(&carrick)))
            .expect();
        let module = place.directory().join(folder).join("carrick_play.py");
        assert!(
            std::fs::read_to_string(module)
                .expect("a module")
                .contains("carrick bend")
        );
    }
    let file = format!("/simple/carrick-play/{wheel}");
    expect_traffic(&carrick, &site, &["/simple/carrick-play/", &file]);
}

/// Packs a directory with `tar`.
fn pack(place: &Place, directory: &str, into: &str) -> Vec<u8> {
    Tool::new("tar", place)
        .words("--create --gzip --file")
        .words(&format!("{into} {directory}"))
        .expect();
    std::fs::read(place.directory().join(into)).expect("a file")
}

#[test]
fn npm_installs_a_package() {
    let Some((place, site, carrick)) = scene(&["npm", "node", "tar"]) else {
        return;
    };
    std::fs::create_dir(place.directory().join("package")).expect("a directory");
    place.write(
        "package/package.json",
        "{\"name\": \"carrick-play\", \"version\": \"1.0.0\", \"main\": \"index.js\"}",
    );
    place.write("package/index.js", "module.exports = 'carrick bend';");
    let packed = pack(&place, "package", "package.tgz");
    for (folder, registry) in [
        ("plain", site.http("/plain/")),
        ("tls", site.https("/tls/")),
    ] {
        let metadata = serde_json::json!({
            "name": "carrick-play",
            "dist-tags": { "latest": "1.0.0" },
            "versions": { "1.0.0": {
                "name": "carrick-play", "version": "1.0.0",
                "dist": {
                    "tarball": format!("{registry}package.tgz"),
                    "shasum": hexadecimal(&Sha1::digest(&packed)),
                    "integrity": format!("sha512-{}", STANDARD.encode(Sha512::digest(&packed))),
                },
            } },
        });
        site.put(&format!("{folder}/carrick-play"), metadata.to_string());
        site.put(&format!("{folder}/package.tgz"), &packed);
        std::fs::create_dir(place.directory().join(folder)).expect("a directory");
        place.write(
            &format!("{folder}/package.json"),
            "{\"name\": \"user\", \"version\": \"1.0.0\"}",
        );
        Tool::new("npm", &place)
            .at(place.directory().join(folder))
            .words("install carrick-play --no-audit --no-fund --no-update-notifier --fetch-retries=0 --fetch-timeout=600000 --loglevel=error")
            .words("--userconfig=../npmrc --globalconfig=../npmrc-global --cache=../npm-cache --cafile=../ca.pem")
            .words(&format!("--registry={registry} --proxy={0} --https-proxy={0} --noproxy=", proxy(&carrick)))
            .expect();
        let module = place
            .directory()
            .join(folder)
            .join("node_modules/carrick-play/index.js");
        assert!(
            std::fs::read_to_string(module)
                .expect("a module")
                .contains("carrick bend")
        );
    }
    expect_traffic(
        &carrick,
        &site,
        &["/plain/carrick-play", "/plain/package.tgz"],
    );
}

#[test]
fn cargo_fetches_and_builds_a_crate() {
    let Some((place, site, carrick)) = scene(&["cargo", "tar"]) else {
        return;
    };
    let write = |path: &str, text: &str| {
        let path = place.directory().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    };
    write(
        "carrick-play-1.0.0/Cargo.toml",
        "[package]\nname = \"carrick-play\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
    );
    write(
        "carrick-play-1.0.0/src/lib.rs",
        "pub const KNOT: &str = \"carrick bend\";\n",
    );
    let packed = pack(&place, "carrick-play-1.0.0", "carrick-play.crate");
    let entry = serde_json::json!({
        "name": "carrick-play", "vers": "1.0.0", "deps": [], "features": {}, "yanked": false,
        "cksum": hexadecimal(&Sha256::digest(&packed)),
    });
    for (folder, url) in [
        ("plain", site.http("/plain/")),
        ("tls", site.https("/tls/")),
    ] {
        site.put(
            &format!("{folder}/config.json"),
            format!("{{\"dl\": \"{url}crates/{{crate}}-{{version}}\"}}"),
        );
        site.put(&format!("{folder}/ca/rr/carrick-play"), entry.to_string());
        site.put(&format!("{folder}/crates/carrick-play-1.0.0"), &packed);
        write(
            &format!("{folder}/Cargo.toml"),
            "[package]\nname = \"user\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\
             [dependencies]\ncarrick-play = { version = \"1\", registry = \"play\" }\n[workspace]\n",
        );
        write(
            &format!("{folder}/src/lib.rs"),
            "pub use carrick_play::KNOT;\n",
        );
        write(
            &format!("{folder}/.cargo/config.toml"),
            &format!("[registries.play]\nindex = \"sparse+{url}\"\n[net]\nretry = 0\n"),
        );
        let cargo = |words: &str| {
            Tool::new("cargo", &place)
                .at(place.directory().join(folder))
                .env(
                    "CARGO_HOME",
                    place.directory().join(format!("{folder}-home")),
                )
                .env("CARGO_HTTP_PROXY", proxy(&carrick))
                .env("CARGO_HTTP_TIMEOUT", "600")
                .env("CARGO_HTTP_CAINFO", place.directory().join("ca.pem"))
                .words(words)
                .expect()
        };
        cargo("fetch --quiet");
        cargo("check --quiet --offline");
    }
    expect_traffic(
        &carrick,
        &site,
        &[
            "/plain/config.json",
            "/plain/ca/rr/carrick-play",
            "/plain/crates/carrick-play-1.0.0",
        ],
    );
}

/// apt with its own lists, cache, status and sources in a directory of the test.
fn apt(place: &Place, carrick: &Carrick, directory: &Path, words: &str) {
    let option =
        |tool: Tool, key: &str, value: String| tool.word("-o").word(format!("{key}={value}"));
    let proxy = proxy(carrick);
    let mut tool = Tool::new("apt-get", place)
        .at(directory)
        .env("APT_CONFIG", "/dev/null");
    for (key, value) in [
        ("Dir::State", directory.join("state").display().to_string()),
        (
            "Dir::State::status",
            directory.join("status").display().to_string(),
        ),
        ("Dir::Cache", directory.join("cache").display().to_string()),
        ("Dir::Etc", directory.join("etc").display().to_string()),
        ("Dir::Log", directory.join("log").display().to_string()),
        ("Acquire::http::Proxy", proxy.clone()),
        ("Acquire::https::Proxy", proxy),
        (
            "Acquire::https::CaInfo",
            place.directory().join("ca.pem").display().to_string(),
        ),
        ("Acquire::Retries", "0".to_owned()),
        ("Acquire::http::Timeout", "600".to_owned()),
        ("Acquire::https::Timeout", "600".to_owned()),
        ("Acquire::Languages", "none".to_owned()),
        ("APT::Architecture", "amd64".to_owned()),
        ("APT::Architectures", "amd64".to_owned()),
        // The user that apt would switch to cannot access the test's directory.
        ("APT::Sandbox::User", "root".to_owned()),
        ("APT::Update::Error-Mode", "any".to_owned()),
        ("Debug::NoLocking", "1".to_owned()),
    ] {
        tool = option(tool, key, value);
    }
    tool.words(words).expect();
}

#[test]
fn apt_updates_and_downloads_a_package() {
    let Some((place, site, carrick)) = scene(&["apt-get", "dpkg-deb"]) else {
        return;
    };
    std::fs::create_dir_all(place.directory().join("package/DEBIAN")).expect("a directory");
    let fields = "Package: carrick-play\nVersion: 1.0\nArchitecture: all\nMaintainer: play <play@example.org>\nDescription: a knot\n";
    place.write("package/DEBIAN/control", fields);
    Tool::new("dpkg-deb", &place)
        .words("--root-owner-group --build package carrick-play_1.0_all.deb")
        .expect();
    let package =
        std::fs::read(place.directory().join("carrick-play_1.0_all.deb")).expect("a file");
    let list = format!(
        "{fields}Filename: ./carrick-play_1.0_all.deb\nSize: {}\nSHA256: {}\n\n",
        package.len(),
        hexadecimal(&Sha256::digest(&package))
    );
    let release = format!(
        "Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {} {} Packages\n",
        hexadecimal(&Sha256::digest(&list)),
        list.len()
    );
    for (folder, url) in [
        ("plain", site.http("/plain/")),
        ("tls", site.https("/tls/")),
    ] {
        site.put(&format!("{folder}/carrick-play_1.0_all.deb"), &package);
        site.put(&format!("{folder}/Packages"), &list);
        site.put(&format!("{folder}/Release"), &release);
        let directory = place.directory().join(folder);
        for part in [
            "state/lists/partial",
            "cache/archives/partial",
            "etc",
            "log",
        ] {
            std::fs::create_dir_all(directory.join(part)).expect("a directory");
        }
        place.write(&format!("{folder}/status"), "");
        place.write(
            &format!("{folder}/etc/sources.list"),
            &format!("deb [trusted=yes] {url} ./\n"),
        );
        apt(&place, &carrick, &directory, "--quiet update");
        apt(
            &place,
            &carrick,
            &directory,
            "--quiet download carrick-play",
        );
        let came = std::fs::read(directory.join("carrick-play_1.0_all.deb")).expect("a package");
        assert!(came == package, "another package came");
    }
    expect_traffic(
        &carrick,
        &site,
        &["/plain/./Packages", "/plain/./carrick-play_1.0_all.deb"],
    );
}
