//! The command line's syntax and help.
use crate::config::site::{Site, Source};
use crate::config::values;
use crate::transparent::KEEP_RULES;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Success.
pub const FINE: u8 = 0;
/// Something failed at run time.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
pub const WRONG: u8 = 2;

/// A web proxy for Linux that joins client and server connections inside the kernel.
#[derive(Debug, Parser)]
#[command(
    name = "carrick",
    version,
    arg_required_else_help = true,
    long_about = "A web proxy for Linux that joins client and server connections inside the kernel.\n\n\
        It is a forward proxy (HTTP and CONNECT), a layer-7 switch, a TCP tunnel (optionally by SNI), a splitter of TCP connections, \
        or an end of a link between two carricks. \
        Without a configuration file it is a forward proxy on 127.0.0.1:3128, with metrics on 127.0.0.1:3129.",
    after_help = EXAMPLES,
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:\n  \
    carrick run                              a forward proxy on 127.0.0.1:3128\n  \
    curl -x http://127.0.0.1:3128 http://example.org/\n  \
    carrick run --https example.org --to 127.0.0.1:3000\n                                           \
    a site by HTTPS, with a certificate of Let's Encrypt\n  \
    carrick check -c carrick.toml            show all problems of a configuration\n  \
    carrick run -c carrick.toml              run the proxy that it describes\n  \
    carrick doctor                           show what this machine supports\n\n\
    Exit codes: 0 success, 1 a failure at run time, 2 wrong usage or configuration.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the proxy, until SIGINT or SIGTERM.
    #[command(
        long_about = "Run the proxy, until SIGINT or SIGTERM.\n\n\
            SIGTERM and SIGINT: stop listening, let open connections finish (up to `timeouts.drain`), exit.\n\
            SIGHUP: reload the configuration; if it is invalid, log why and keep the old one.\n\
            SIGUSR1: reopen the access log.\n\n\
            Messages go to standard error. The environment variable CARRICK_LOG sets the level: error, warn, info (the default), debug, \
            or levels by part of the program, such as carrick=debug,info.\n\n\
            Once it listens it switches to the user in [process], if there is one and root started it, and drops \
            every capability that it no longer needs.",
        after_help = "Examples:\n  \
            carrick run\n  \
            carrick run --https example.org --to 127.0.0.1:3000   a site with a certificate of Let's Encrypt\n  \
            carrick run -c /etc/carrick/carrick.toml"
    )]
    Run(RunArgs),
    /// Check a configuration file, and show all of its problems.
    #[command(
        long_about = "Check a configuration file, and show all of its problems, each with file, line, the offending text, and a correction.\n\n\
            Errors keep carrick from running. Warnings (a route that can never match, an upstream that nothing uses) do not; they fail the check \
            only with --strict. Notes are for information.",
        after_help = "Exit codes: 0 valid, 2 invalid; with --strict also 2 for warnings.\n\n\
            Examples:\n  \
            carrick check -c carrick.toml && systemctl reload carrick\n  \
            carrick check --strict -c carrick.toml   before a change is accepted"
    )]
    Check(CheckArgs),
    /// Show what this machine supports: engines, kernel features, limits.
    Doctor(PinsArgs),
    /// Have a running carrick reload its configuration, and report the result.
    #[command(
        long_about = "Have a running carrick reload its configuration, and report the result.\n\n\
            The file is checked first: if it is invalid, its errors are shown and no reload happens. Otherwise carrick gets \
            SIGHUP, and admin is asked for the result. Without admin, the result is in carrick's log.",
        after_help = "Exit codes: 0 the new configuration is in force, 1 the old one stays in force, 2 the file is invalid.\n\n\
            Examples:\n  \
            carrick reload -c /etc/carrick/carrick.toml\n  \
            carrick reload -c /etc/carrick/carrick.toml --pid $MAINPID"
    )]
    Reload(ReloadArgs),
    /// Remove what a killed carrick has left in the kernel.
    #[command(
        long_about = "Remove what a killed carrick has left in the kernel.\n\n\
            These are the rules of transparent listeners (nft tables, routing rules and routes), and the programs and maps of the \
            engine `packet`, with the tunnels that they forward; all in this network namespace. \
            Rules of a running carrick and of other programs are kept. Requires root, or CAP_NET_ADMIN and CAP_BPF.",
        after_help = "Exit codes: 0 nothing is left over, 1 something could not be removed, 2 the configuration is invalid.\n\n\
            Examples:\n  \
            carrick clean\n  \
            carrick clean -c /etc/carrick/carrick.toml   if it sets [process] pins"
    )]
    Clean(PinsArgs),
    /// Show the cache of a running carrick.
    #[command(
        subcommand,
        after_help = "Exit codes: 0 success, 1 admin does not answer or there is no cache, 2 the configuration is invalid.\n\n\
            Examples:\n  \
            carrick cache stat\n  \
            carrick cache ls --prefix http://example.org/"
    )]
    Cache(CacheCommand),
    /// Remove responses from the cache of a running carrick, or have them validated before they are sent again.
    #[command(
        after_help = "Exit codes: 0 success, even without matching objects, 1 admin does not answer or there is no cache, 2 the configuration is invalid.\n\n\
            Examples:\n  \
            carrick purge --url 'http://example.org/page?x=1'\n  \
            carrick purge --prefix http://example.org/images/\n  \
            carrick purge --tag front-page --outdate\n  \
            carrick purge --all"
    )]
    Purge(PurgeArgs),
    /// Show the pacing of a running carrick, or change a class until the next reload.
    #[command(
        long_about = "Show the pacing of a running carrick, or change a class until the next reload.\n\n\
            Without arguments, shows all classes and workers. With the name of a class, shows all of its fields. With keys and values, \
            changes the class, wholly or not at all. Keys and values are those of [pace.classes.NAME] in the configuration; `none` \
            removes a rate or a parent.",
        after_help = "Exit codes: 0 success, 1 admin does not answer, the class does not exist, or the change is invalid, 2 the configuration is invalid.\n\n\
            Examples:\n  \
            carrick pace\n  \
            carrick pace downloads\n  \
            carrick pace downloads ceiling=20MB splice_ceiling=none\n  \
            carrick pace downloads policy=deadline target=2ms"
    )]
    Pace(PaceArgs),
    /// Show the path history or the certificates of a running carrick.
    Status(StatusArgs),
    /// Watch a running carrick: rates of connections, engines, classes, workers, the cache, and the busiest tunnels.
    #[command(
        long_about = "Watch a running carrick: rates of connections, engines, classes, workers, the cache, and the busiest tunnels.\n\n\
            All values come from admin; rates are differences of two samples. On a terminal, the display is updated until you press q; \
            h shows all keys. With -n or --once, or if standard output is not a terminal, the output is plain text.",
        after_help = "Exit codes: 0 success, 1 admin does not answer (with plain text, at the last report), 2 the configuration is invalid, \
            128 or more ended by a signal.\n\n\
            Examples:\n  \
            carrick top\n  \
            carrick top --interval 5 --sort down\n  \
            carrick top --once\n  \
            carrick top -n 60 --admin 127.0.0.1:3129 > minute.txt"
    )]
    Top(TopArgs),
    /// Start carrick-lab, a separate program: test bed, emulated network and origin, load, the papers' experiments, their report.
    #[command(disable_help_flag = true)]
    Lab(LabArgs),
    /// Write the man pages, the shell completions, or the reference of the configuration.
    #[command(hide = true, subcommand)]
    Generate(Generate),
    /// Supervise the rules of transparent listeners; carrick starts this itself.
    #[command(name = KEEP_RULES, hide = true)]
    KeepRules,
}

/// `carrick lab`
#[derive(Debug, Clone, Args)]
pub struct LabArgs {
    /// The arguments of carrick-lab
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<std::ffi::OsString>,
}

/// `carrick run`
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// The configuration file, in TOML; without it: a forward proxy on 127.0.0.1:3128.
    #[arg(short, long, value_name = "FILE", conflicts_with = "https")]
    pub config: Option<PathBuf>,
    /// Serve a site with this name by HTTPS, without a file; may be repeated.
    #[arg(long, value_name = "NAME", requires = "to")]
    pub https: Vec<String>,
    /// The site's server; may be repeated.
    #[arg(long, value_name = "HOST:PORT", requires = "https")]
    pub to: Vec<String>,
    /// How the site is served.
    #[command(flatten)]
    pub site: SiteArgs,
}

/// Options of `carrick run --https`.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options with --https")]
pub struct SiteArgs {
    /// An address that the certificates' authority may write to.
    #[arg(long, value_name = "ADDRESS", requires = "https")]
    pub email: Option<String>,
    /// The authority's ACME directory; without it: Let's Encrypt.
    #[arg(long, value_name = "URL", requires = "https")]
    pub acme_directory: Option<String>,
    /// A PEM file with the authority that issued the directory's own certificate.
    #[arg(long, value_name = "FILE", requires = "https")]
    pub acme_ca: Option<PathBuf>,
    /// The folder of account and certificates; without it: in the state folder.
    #[arg(long, value_name = "FOLDER", requires = "https")]
    pub acme_storage: Option<PathBuf>,
    /// The address to listen on; without it: all.
    #[arg(long, value_name = "ADDRESS", requires = "https")]
    pub listen: Option<IpAddr>,
    /// The port of HTTPS; without it: 443.
    #[arg(long, value_name = "PORT", requires = "https")]
    pub https_port: Option<u16>,
    /// The port that redirects to HTTPS; without it: 80.
    #[arg(long, value_name = "PORT", requires = "https")]
    pub http_port: Option<u16>,
    /// The address of admin; without it: 127.0.0.1:3129.
    #[arg(long, value_name = "ADDRESS", requires = "https")]
    pub admin: Option<SocketAddr>,
    /// The user that carrick becomes once it has opened its ports, if root starts it.
    #[arg(long, value_name = "NAME", requires = "https")]
    pub user: Option<String>,
}

impl RunArgs {
    /// Where the configuration comes from.
    #[must_use]
    pub fn source(&self) -> Source {
        if let Some(config) = &self.config {
            return Source::File(config.clone());
        }
        if self.https.is_empty() {
            return Source::BuiltIn;
        }
        let site = self.site.clone();
        Source::Site(Site {
            names: self.https.clone(),
            servers: self.to.clone(),
            address: site.listen.unwrap_or_else(everywhere),
            https_port: site.https_port.unwrap_or(443),
            http_port: site.http_port.unwrap_or(80),
            admin: site.admin,
            user: site.user,
            email: site.email,
            directory: site.acme_directory,
            ca: site.acme_ca,
            storage: site.acme_storage,
        })
    }
}

/// All addresses; without IPv6 those of IPv4.
fn everywhere() -> IpAddr {
    match Path::new("/proc/net/if_inet6").exists() {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// `carrick clean`, `carrick doctor`
#[derive(Debug, Clone, Args)]
pub struct PinsArgs {
    /// The configuration file, for its `pins`, and for its splitter's requirements; without it: /sys/fs/bpf/carrick.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `carrick reload`
#[derive(Debug, Clone, Args)]
pub struct ReloadArgs {
    /// The configuration file that it runs with.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Its process ID; without it: the process whose admin answers.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
}

/// How to reach admin.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// The address of admin; without it: that of the configuration.
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<SocketAddr>,
    /// The configuration file, for `[admin] listen`; without it: 127.0.0.1:3129.
    #[arg(short, long, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
}

/// `carrick cache`
#[derive(Debug, Clone, Subcommand)]
pub enum CacheCommand {
    /// List objects, in no particular order.
    Ls {
        /// Only objects whose URLs have this prefix.
        #[arg(long, value_name = "URL")]
        prefix: Option<String>,
        /// At most this many.
        #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
        limit: usize,
        /// How to reach admin.
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Show the cache's size and hit ratio.
    Stat {
        /// How to reach admin.
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// `carrick purge`
#[derive(Debug, Clone, Args)]
pub struct PurgeArgs {
    /// Which objects.
    #[command(flatten)]
    pub which: PurgeWhich,
    /// Keep them, but have them validated before they are sent again.
    #[arg(long)]
    pub outdate: bool,
    /// How to reach admin.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Which objects are purged.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct PurgeWhich {
    /// The object with this URL, in all variants.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Objects whose URLs have this prefix, which must include the whole host.
    #[arg(long, value_name = "URL")]
    pub prefix: Option<String>,
    /// Objects with this tag (`Surrogate-Key`, `Cache-Tag`).
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// All objects.
    #[arg(long)]
    pub all: bool,
}

/// `carrick pace`
#[derive(Debug, Clone, Args)]
pub struct PaceArgs {
    /// A class.
    #[arg(value_name = "NAME")]
    pub class: Option<String>,
    /// New settings.
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub changes: Vec<(String, String)>,
    /// How to reach admin.
    #[command(flatten)]
    pub admin: AdminArgs,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = parts.ok_or("write key=value, such as ceiling=20MB")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `carrick status`
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// The page.
    #[command(subcommand)]
    pub page: StatusPage,
}

/// What `carrick status` shows.
#[derive(Debug, Clone, Subcommand)]
pub enum StatusPage {
    /// Pairs of networks in splitters' path history: both legs, whether connections are split and why, and the gain.
    Paths(PathsArgs),
    /// Certificates: until when they are valid; of those by ACME, when they are renewed, and what failed.
    Certificates {
        /// How to reach admin.
        #[command(flatten)]
        admin: AdminArgs,
    },
}

/// `carrick status paths`
#[derive(Debug, Clone, Args)]
pub struct PathsArgs {
    /// Print admin's JSON.
    #[arg(long)]
    pub json: bool,
    /// How to reach admin.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// `carrick top`
#[derive(Debug, Clone, Args)]
pub struct TopArgs {
    /// Time between two samples: seconds, or with a unit, such as 500ms; at least 100ms.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// Print this many reports as plain text, then exit.
    #[arg(short = 'n', long = "reports", value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub reports: Option<u64>,
    /// Print one report as plain text, then exit; the same as -n 1.
    #[arg(long, conflicts_with = "reports")]
    pub once: bool,
    /// Order of tunnels.
    #[arg(short, long, value_name = "KEY", default_value = "rate")]
    pub sort: Sort,
    /// How to reach admin.
    #[command(flatten)]
    pub admin: AdminArgs,
}

/// Order of tunnels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Most bytes per second first, both directions together.
    Rate,
    /// Most bytes per second from the client first.
    Up,
    /// Most bytes per second to the client first.
    Down,
    /// Most bytes in total first.
    Bytes,
    /// Oldest first.
    Age,
    /// By the client's address.
    Client,
}

/// The shortest time between two samples.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The longest.
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    let time = match seconds {
        Some(Ok(time)) => time,
        Some(Err(_)) | None => values::time(text)?,
    };
    if (INTERVAL_MIN..=INTERVAL_MAX).contains(&time) {
        Ok(time)
    } else {
        Err("it can be 100ms to 1h".to_owned())
    }
}

/// `carrick check`
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// The configuration file, in TOML; without it: the built-in configuration.
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Fail for warnings, too.
    #[arg(long)]
    pub strict: bool,
}

/// `carrick generate`
#[derive(Debug, Clone, Subcommand)]
pub enum Generate {
    /// Write the man pages, one for each command, into an existing directory.
    Man {
        /// The directory.
        directory: PathBuf,
    },
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the tables of all configuration keys, in Markdown.
    Configuration,
}

#[cfg(test)]
mod tests;
