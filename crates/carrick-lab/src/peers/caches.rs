//! What proxies with a cache want besides their configuration: room for what they store, and further files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{Family, Job};
use crate::command;
use crate::testbed::Testbed;

/// Memory of a cache in memory.
const MEMORY_MB: u64 = 1024;
/// Memory of a cache on disk: an eighth of what is asked for ([`Asks::Many`](crate::bench::plan::Asks)).
const MEMORY_BESIDE_DISK_MB: u64 = 64;
/// Room for what is stored in files.
const STORE_MB: u64 = 1024;

/// All tags of Varnish's log that are not off by default (vsl(7) of 7.1; an unknown one stops it).
const VARNISH_TAGS: &str = "Debug Error CLI SessOpen SessClose BackendOpen BackendClose HttpGarbage Proxy ProxyGarbage \
    Length FetchError ReqMethod RespMethod BereqMethod BerespMethod ReqURL BereqURL RespStatus BerespStatus ReqProtocol \
    RespProtocol BereqProtocol BerespProtocol RespReason BerespReason ReqHeader RespHeader BereqHeader BerespHeader \
    ObjMethod ObjURL ObjStatus ObjProtocol ObjReason ObjHeader BogoHeader LostHeader TTL Fetch_Body VCL_acl VCL_call \
    VCL_return ReqStart Hit HitPass ExpBan ExpKill WorkThread ESI_xmlerror Hash Backend_health VCL_Log VCL_Error Gzip \
    Link Begin End VSL Storage Timestamp ReqAcct PipeAcct BereqAcct VfpAcct Witness HitMiss Filters SessError VCL_use \
    Notice VdpAcct";

/// The program of a family that has another name.
pub(super) fn program(family: Family) -> &'static str {
    match family {
        Family::Varnish => "varnishd",
        Family::TrafficServer => "traffic_server",
        other => other.name(),
    }
}

/// Makes an empty place for what is stored, away from what an earlier proxy stored; the values that templates want.
pub(super) fn prepare(
    family: Family,
    job: Job,
    testbed: &Testbed,
) -> Result<Vec<(&'static str, String)>> {
    if !matches!(job, Job::Cache | Job::CacheDisk) {
        return Ok(Vec::new());
    }
    let store = match job {
        Job::CacheDisk => testbed.disk_directory(),
        _ => testbed.directory().join("store"),
    };
    // Only one proxy runs at a time, and none may find what another one has stored.
    for old in [
        &testbed.disk_directory(),
        &testbed.directory().join("store"),
    ] {
        let _ = fs::remove_dir_all(old);
    }
    create(&store)?;
    let own = testbed.directory().join(family.name());
    match family {
        Family::Varnish => {
            let _ = fs::remove_dir_all(&own);
        }
        Family::TrafficServer => {
            let _ = fs::remove_dir_all(&own);
            create(&own)?;
            fs::write(own.join("plugin.config"), "").context("cannot write plugin.config")?;
        }
        Family::Squid => {
            // Its user makes folders in there.
            fs::set_permissions(&store, fs::Permissions::from_mode(0o777))
                .context("cannot open the store to Squid's user")?;
        }
        _ => {}
    }
    Ok(values(family, job, &store))
}

fn create(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))
}

/// The values that templates want. `store` is the place for files.
pub(super) fn values(family: Family, job: Job, store: &Path) -> Vec<(&'static str, String)> {
    let is_on_disk = job == Job::CacheDisk;
    let path = store.display().to_string();
    let mut values = vec![
        ("store", path.clone()),
        ("store_mb", STORE_MB.to_string()),
        (
            "cache_memory_mb",
            if is_on_disk {
                MEMORY_BESIDE_DISK_MB
            } else {
                MEMORY_MB
            }
            .to_string(),
        ),
    ];
    let on_disk = |text: String| if is_on_disk { text } else { String::new() };
    match family {
        Family::Carrick => values.push((
            "cache_disk",
            on_disk(format!(
                "disk = {{ path = \"{path}\", size = \"{STORE_MB} MB\" }}"
            )),
        )),
        Family::Squid => values.push((
            "squid_store",
            on_disk(format!("cache_dir aufs {path} {STORE_MB} 16 256")),
        )),
        Family::Varnish => {
            let storage = if is_on_disk {
                format!("file,{path}/varnish.bin,{STORE_MB}m")
            } else {
                format!("malloc,{MEMORY_MB}m")
            };
            let silence: Vec<String> = VARNISH_TAGS
                .split_whitespace()
                .map(|tag| format!("-{tag}"))
                .collect();
            values.push(("varnish_store", storage));
            values.push(("varnish_silence", silence.join(",")));
        }
        _ => {}
    }
    values
}

/// Templates beside that of the configuration, and where what they become is to stand.
pub(super) fn further_files(family: Family, directory: &Path) -> Vec<(&'static str, PathBuf)> {
    let own = directory.join(family.name());
    match family {
        Family::Varnish => vec![("varnish.vcl", directory.join("varnish.vcl"))],
        Family::TrafficServer => [
            ("trafficserver-records.config", "records.config"),
            ("trafficserver-remap.config", "remap.config"),
            ("trafficserver-storage.config", "storage.config"),
            ("trafficserver-ip_allow.yaml", "ip_allow.yaml"),
        ]
        .map(|(template, name)| (template, own.join(name)))
        .into(),
        _ => Vec::new(),
    }
}

/// Lets Squid make the folders of its store on disk.
pub(super) fn lay_out_squid(squid: &Path, configuration: &Path, service_name: &str) -> Result<()> {
    let squid = squid.to_str().context("Squid's path is not UTF-8")?;
    let configuration = configuration
        .to_str()
        .context("the run's directory is not UTF-8")?;
    command::run(
        squid,
        &["-z", "-N", "-f", configuration, "-n", service_name],
    )
    .map(drop)
    .context("Squid cannot make its store")
}
