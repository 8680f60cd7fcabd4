//! Who is compared: carrick with each engine, its peers in their best modes, and routing without any proxy.

mod built_in;
mod caches;
pub mod certificate;
pub mod engine_use;
mod gateway;
pub mod probe;
mod rows;
pub mod template;
mod versions;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::command::{find, require};
use crate::peers::built_in::TEMPLATES;
pub use crate::peers::rows::{FURTHER, JUDGED, PACKET, PEERS, by_name};
use crate::peers::template::render;
use crate::peers::versions::{version_inside, version_line};
use crate::testbed::cores;
pub use crate::testbed::kinds::{Family, Job};
use crate::testbed::service::Service;
use crate::testbed::{Testbed, files};

/// Where Debian's `libnginx-mod-stream` puts its module.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// One row of the comparison: a program in one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The program.
    pub family: Family,
    /// What it can do.
    pub jobs: &'static [Job],
    mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    None,
    /// carrick with this engine, heads as its peers leave them.
    Engine(&'static str),
    /// A switch that adds `Via` and `X-Forwarded-For` and writes an access log: carrick's defaults, and peers configured likewise.
    Fields,
    /// carrick's engine `packet`, with heads to which the process adds `Via`.
    Bodies,
    SplicingOff,
    SplicingForced,
    /// nginx with `proxy_half_close`.
    HalfClose,
    /// carrick where it could have a cache, without one.
    Uncached,
}

/// The programs to run, found before anything is measured.
#[derive(Clone, Debug)]
pub struct Programs {
    paths: BTreeMap<Family, PathBuf>,
    /// nginx relays TCP only with this module.
    stream_module: Option<PathBuf>,
    /// Configurations to use instead of the built-in ones.
    configurations: Option<PathBuf>,
    /// Which variant of a template to use where there is one.
    variant: Option<String>,
}

impl Programs {
    /// Finds carrick, and what is there of other programs; with what is missing, and what to do about it. No `carrick`: it is not needed.
    /// Files in the folder `configurations` replace the built-in ones of the same name.
    ///
    /// # Errors
    /// When there is no such carrick: it is asked what it can do.
    pub fn find(
        others: &[Family],
        carrick: Option<&Path>,
        configurations: Option<&Path>,
    ) -> Result<(Self, BTreeMap<Family, String>)> {
        let mut paths = BTreeMap::new();
        if let Some(carrick) = carrick {
            let path = fs::canonicalize(carrick).with_context(|| {
                format!(
                    "no carrick at {}: build it (make build), or name it with --carrick",
                    carrick.display()
                )
            })?;
            paths.insert(Family::Carrick, path);
        }
        let mut missing = BTreeMap::new();
        for family in others {
            match require(caches::program(*family)) {
                Ok(path) => drop(paths.insert(*family, path)),
                Err(error) => drop(missing.insert(*family, error.to_string())),
            }
        }
        let module = PathBuf::from(STREAM_MODULE);
        let programs = Self {
            paths,
            stream_module: module.is_file().then_some(module),
            configurations: configurations.map(Path::to_owned),
            variant: None,
        };
        Ok((programs, missing))
    }

    /// The same programs with a variant of their templates, where there is one: of `squid.conf`, the variant `cache` is
    /// `squid-cache.conf`.
    #[must_use]
    pub fn with_variant(&self, variant: Option<&str>) -> Self {
        Self {
            variant: variant.map(str::to_owned),
            ..self.clone()
        }
    }

    /// Why a peer cannot do a job on this machine, if so.
    #[must_use]
    pub fn why_not(&self, peer: &Peer, job: Job) -> Option<String> {
        let without_module =
            peer.family == Family::Nginx && job == Job::Tunnel && self.stream_module.is_none();
        without_module.then(|| {
            String::from("nginx has no stream module here: apt-get install libnginx-mod-stream")
        })
    }

    /// What each program calls its version.
    #[must_use]
    pub fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for (family, path) in &self.paths {
            let version = match family {
                Family::Carrick => version_line(path, "--version"),
                Family::Socat | Family::Varnish | Family::TrafficServer | Family::Pepsal => {
                    version_line(path, "-V")
                }
                Family::ThreeProxy => version_inside(path, "3proxy-"),
                _ => version_line(path, "-v"),
            };
            versions.insert(family.name().to_owned(), version);
        }
        if let Some(wrk) = find("wrk") {
            versions.insert(String::from("wrk"), version_line(&wrk, "-v"));
        }
        versions
    }

    fn template(&self, file_name: &str) -> Result<String> {
        let of_variant = self.variant.as_ref().and_then(|variant| {
            let (stem, extension) = file_name.rsplit_once('.')?;
            Some(format!("{stem}-{variant}.{extension}"))
        });
        for file_name in of_variant.iter().map(String::as_str).chain([file_name]) {
            let own = self
                .configurations
                .as_ref()
                .map(|folder| folder.join(file_name));
            if let Some(path) = own.filter(|path| path.is_file()) {
                return fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()));
            }
            if let Some((_, text)) = TEMPLATES.iter().find(|(name, _)| *name == file_name) {
                return Ok((*text).to_owned());
            }
        }
        bail!("there is no template {file_name}")
    }

    fn path(&self, family: Family) -> Result<&Path> {
        self.paths
            .get(&family)
            .map(PathBuf::as_path)
            .with_context(|| format!("{} was not looked for", family.name()))
    }
}

impl Peer {
    /// carrick's engine; none for others.
    #[must_use]
    pub fn engine(&self) -> Option<&'static str> {
        match self.mode {
            Mode::Engine(engine) => Some(engine),
            Mode::Bodies => Some("packet"),
            Mode::Uncached => Some("auto"),
            Mode::Fields if self.family == Family::Carrick => Some("auto"),
            _ => None,
        }
    }

    /// What carrick's templates want to know of the mode.
    fn carrick_values(&self) -> [(&'static str, &'static str); 4] {
        let (forwarded, via, route) = match self.mode {
            Mode::Fields => ("x-forwarded", "requests", ""),
            Mode::Bodies => ("unchanged", "both", "responses = \"read\""),
            _ => ("unchanged", "", ""),
        };
        [
            ("engine", self.engine().unwrap_or_default()),
            ("forwarded", forwarded),
            ("via", via),
            ("route", route),
        ]
    }

    /// What a switch's template has where fields are added, and where requests are logged.
    fn fields_and_log(&self, directory: &str) -> [String; 2] {
        let file = format!("{directory}/{}-access.log", self.name);
        let [fields, log] = match (self.mode, self.family) {
            (Mode::Fields, Family::Carrick) => ["", file.as_str()],
            // Its standard output is a file.
            (Mode::Fields, Family::Haproxy) => [
                "option forwardfor\n    http-request add-header Via \"%[req.ver] haproxy\"\n    \
                 http-request add-header X-Forwarded-Proto http\n    \
                 http-request add-header X-Forwarded-Host %[req.hdr(host)]",
                "log stdout format raw local0\n    option httplog",
            ],
            (Mode::Fields, Family::Nginx) => [
                "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n            \
                 proxy_set_header X-Forwarded-Proto $scheme;\n            \
                 proxy_set_header X-Forwarded-Host $http_host;\n            \
                 proxy_set_header Via \"1.1 nginx\";",
                &format!("{file} combined"),
            ],
            (_, Family::Nginx) => ["", "off"],
            _ => ["", ""],
        };
        [fields.to_owned(), log.to_owned()]
    }

    /// Whether its engine leaves clients to the process that speak HTTP/1.0: of a forward proxy, the engine `packet` has tunnels, and what is left of
    /// long bodies over connections that are kept.
    #[must_use]
    pub fn leaves_http_1_0(&self, job: Job) -> bool {
        self.engine() == Some("packet") && job == Job::Forward
    }

    /// Starts the proxy inside the test bed, on the proxy's cores. `None` when there is nothing to start (*routed*).
    ///
    /// # Errors
    /// When its configuration cannot be written, or the program not started.
    pub fn start(
        &self,
        job: Job,
        tunnel_origin: &str,
        testbed: &Testbed,
        programs: &Programs,
    ) -> Result<Option<Service>> {
        self.start_with(job, tunnel_origin, testbed, programs, &BTreeMap::new())
    }

    /// As [`Self::start`], with further values for templates; one of the same name as a built-in value replaces it.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        &self,
        job: Job,
        tunnel_origin: &str,
        testbed: &Testbed,
        programs: &Programs,
        variables: &BTreeMap<String, String>,
    ) -> Result<Option<Service>> {
        if !self.jobs.contains(&job) {
            bail!("{} does not do {}", self.name, job.name());
        }
        let directory = testbed.directory();
        let directory_text = directory
            .to_str()
            .context("the run's directory is not UTF-8")?;
        let addresses = testbed.addresses();
        let proxy = addresses.proxy.to_string();
        let proxy_to_server = addresses.proxy_to_server.to_string();
        let server = addresses.server.to_string();
        let origin = addresses.origin_http().to_string();
        let clients = String::from(addresses.client_subnet);
        let stream_module = programs
            .stream_module
            .as_deref()
            .and_then(Path::to_str)
            .unwrap_or_default();
        let (splice_request, splice_response, buffer_bytes) = match self.mode {
            Mode::SplicingForced => ("option splice-request", "option splice-response", "16384"),
            Mode::SplicingOff | Mode::Fields => ("", "", "65536"),
            _ => ("", "", ""),
        };
        let [fields, access_log] = self.fields_and_log(directory_text);
        let half_close = match self.mode {
            Mode::HalfClose => "proxy_half_close on;",
            _ => "",
        };
        let (server_address, server_port) = tunnel_origin
            .rsplit_once(':')
            .unwrap_or((tunnel_origin, ""));
        let of_cache = caches::prepare(self.family, job, testbed)?;
        let origin_port = addresses.origin_http().port().to_string();
        let built_in = [
            ("origin_port", origin_port.as_str()),
            ("proxy", proxy.as_str()),
            ("proxy_to_server", proxy_to_server.as_str()),
            ("server", server.as_str()),
            ("origin", origin.as_str()),
            ("tunnel_origin", tunnel_origin),
            ("tunnel_origin_address", server_address),
            ("tunnel_origin_port", server_port),
            ("clients", clients.as_str()),
            ("directory", directory_text),
            ("stream_module", stream_module),
            ("splice_request", splice_request),
            ("splice_response", splice_response),
            ("buffer_bytes", buffer_bytes),
            ("half_close", half_close),
            ("fields", fields.as_str()),
            ("access_log", access_log.as_str()),
            ("configuration", ""),
            ("certificate", certificate::FILE),
        ];
        // The first value of a name is the one that is used.
        let values: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .chain(built_in)
            .chain(self.carrick_values())
            .chain(of_cache.iter().map(|(name, value)| (*name, value.as_str())))
            .collect();
        if self.family == Family::Routed {
            return Ok(None);
        }
        let (file_name, arguments) = self.file_and_arguments(job);
        if job == Job::Https {
            certificate::prepare(directory)?;
        }
        if self.family == Family::Squid {
            prepare_squid(directory, addresses.client)?;
        }
        let write = |file_name: &str, to: &Path| {
            let text = render(&programs.template(file_name)?, &values)
                .with_context(|| format!("{file_name} of {}", self.name))?;
            files::write(to, &text).map(|()| text)
        };
        let configuration = directory.join(file_name);
        let text = write(file_name, &configuration)?;
        for (file_name, to) in caches::further_files(self.family, directory) {
            write(file_name, &to)?;
        }
        let mut command = testbed.proxy.command(
            programs.path(self.family)?,
            &cores::list(&testbed.placement().proxy_cores()),
        );
        command.args(arguments);
        match self.family {
            // They read no file, or further ones.
            Family::Socat | Family::Varnish | Family::Pepsal => {
                command.args(text.lines().filter(|line| !line.starts_with('#')));
            }
            Family::TrafficServer => {
                command.arg(format!("--run-root={}", configuration.display()));
            }
            _ => {
                command.arg(&configuration);
            }
        }
        if self.family == Family::Squid {
            let service_name = testbed.service_name();
            if job == Job::CacheDisk {
                caches::lay_out_squid(programs.path(self.family)?, &configuration, &service_name)?;
            }
            // Squid's shared memory has the service's name, which another Squid on this machine must not share.
            command.args(["-n", &service_name]);
        }
        let rules = gateway::rules(self.family, job, testbed, server_port)?;
        let log = directory.join(format!("{}.log", self.name));
        let service = Service::start(self.name, command, &testbed.proxy, log, true)?;
        Ok(Some(service.with_rules(rules)))
    }

    /// Waits until a proxy that was started for a job is at work: it listens, and what it wants from the kernel is there.
    ///
    /// # Errors
    /// When it ends instead, or does not do so in time: with the end of its log.
    pub async fn wait_until_ready(
        &self,
        job: Job,
        service: &mut Service,
        timeout: Duration,
    ) -> Result<()> {
        service.wait_until_listening(job.port(), timeout).await?;
        // It listens before it intercepts, and says when it does both. What came before would go past it.
        if (self.family, job) == (Family::Carrick, Job::Gateway) {
            service.wait_for_line("carrick", timeout).await?;
        }
        Ok(())
    }

    /// The template of its configuration, and what stands before that on the command line.
    fn file_and_arguments(&self, job: Job) -> (&'static str, &'static [&'static str]) {
        let caches = matches!(job, Job::Cache | Job::CacheDisk);
        match (self.family, job) {
            (Family::Routed, _) => ("", &[]),
            (Family::Carrick, _) => (self.carrick_file(job), &["run", "-c"]),
            (Family::Haproxy, Job::Https) => ("haproxy-https.cfg", &["-db", "-f"]),
            (Family::Haproxy, Job::Grpc) => ("haproxy-grpc.cfg", &["-db", "-f"]),
            (Family::Haproxy, _) => ("haproxy.cfg", &["-db", "-f"]),
            (Family::Nginx, Job::Https) => ("nginx-https.conf", &["-c"]),
            (Family::Nginx, Job::Grpc) => ("nginx-grpc.conf", &["-c"]),
            (Family::Nginx, Job::Tunnel) => ("nginx-stream.conf", &["-c"]),
            (Family::Nginx, _) if caches => ("nginx-cache.conf", &["-c"]),
            (Family::Nginx, _) => ("nginx.conf", &["-c"]),
            (Family::Squid, _) if caches => ("squid-accelerator.conf", &["-N", "-f"]),
            (Family::Squid, _) => ("squid.conf", &["-N", "-f"]),
            (Family::ThreeProxy, _) => ("3proxy.cfg", &[]),
            (Family::Socat, _) => ("socat.args", &[]),
            (Family::Varnish, _) => ("varnish.args", &[]),
            (Family::TrafficServer, _) => ("trafficserver-runroot.yaml", &[]),
            (Family::Pepsal, _) => ("pepsal.args", &[]),
        }
    }

    /// carrick's template for a job.
    fn carrick_file(&self, job: Job) -> &'static str {
        let caches = matches!(job, Job::Cache | Job::CacheDisk);
        if caches && self.mode != Mode::Uncached {
            "carrick-cache.toml"
        } else if job == Job::Gateway {
            "carrick-gateway.toml"
        } else if job == Job::Https {
            "carrick-https.toml"
        } else if job == Job::Grpc {
            "carrick-grpc.toml"
        } else {
            "carrick.toml"
        }
    }

    /// Whether it answers nothing from a cache although it could have one.
    #[must_use]
    pub fn is_uncached(&self) -> bool {
        self.mode == Mode::Uncached
    }
}

/// Starts nginx as the origin and writes the files that it serves.
///
/// # Errors
/// When the files cannot be written, or nginx not started.
pub fn start_origin(sizes: &[usize], testbed: &Testbed, programs: &Programs) -> Result<Service> {
    let directory = testbed.directory();
    let bodies = directory.join("www");
    fs::create_dir_all(&bodies).context("cannot create the origin's directory")?;
    for size in sizes {
        // Bytes that do not repeat within a page, so that a shifted or repeated page would show in a comparison.
        let body: Vec<u8> = (0..*size)
            .map(|index| ((index * 31 + index / 251) % 256) as u8)
            .collect();
        files::write(&bodies.join(size.to_string()), body)?;
    }
    let origin = testbed.addresses().origin_http().to_string();
    let directory_text = directory
        .to_str()
        .context("the run's directory is not UTF-8")?;
    let text = render(
        &programs.template("origin.conf")?,
        &[("origin", origin.as_str()), ("directory", directory_text)],
    )?;
    let configuration = directory.join("origin.conf");
    files::write(&configuration, text)?;
    let mut command = testbed.server.command(
        programs.path(Family::Nginx)?,
        &cores::list(&testbed.placement().other_cores()),
    );
    command.arg("-c").arg(&configuration);
    Service::start(
        "origin",
        command,
        &testbed.server,
        directory.join("origin.log"),
        false,
    )
}

/// Squid gives root away and wants to write its pid and its log as its own user.
fn prepare_squid(directory: &Path, client: IpAddr) -> Result<()> {
    let own = directory.join("squid");
    // What an earlier Squid wrote belongs to its user, and its pid file would stop the next.
    let _ = fs::remove_dir_all(&own);
    fs::create_dir_all(&own).context("cannot create Squid's directory")?;
    fs::set_permissions(&own, fs::Permissions::from_mode(0o777))
        .context("cannot open Squid's directory to its user")?;
    // It looks up the name of each client's address; without an answer here, it would ask a name service that there is not
    // for every connection.
    files::write(&own.join("hosts"), format!("{client} client.invalid\n"))?;
    Ok(())
}
