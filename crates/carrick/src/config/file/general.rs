//! What holds for the whole program.
use crate::config::kinds::{
    DAY, KIB, MIB, MS, YEAR, number, one_of, seconds, size, text, text_or, time,
};
use crate::config::section::section;
use crate::config::setting::Setting;
use crate::config::word::words;
use carrick_logic::http1::HeadLimits;
use carrick_splice::Choice;
use std::time::Duration;
use toml::Spanned;

/// Where most systems have a BPF file system.
pub const PINS_DEFAULT: &str = "/sys/fs/bpf/carrick";

section! {
    /// `[admin]`
    #[derive(Debug)]
    pub struct Admin = "[admin]" {
        /// Where `/metrics`, `/health`, `/status` and `/splices` are served, without authentication; `""` turns them off
        listen: Spanned<String> = text("an address and port", "127.0.0.1:3129"),
    }
}

section! {
    /// `[splice]`
    #[derive(Debug)]
    pub struct Splice = "[splice]" {
        /// How relayed bytes move: `copy` through the process, `pipe` by `splice(2)`, `socket` in the kernel (tunnels,
        /// and responses of known length), `packet` in the kernel, packet by packet (tunnels, responses of a switch to
        /// requests without a body, and the rest of long bodies; others as `auto`); `auto` chooses for each transfer:
        /// `copy` or `pipe`; for tunnels that go on for long, and for what is left of bodies of 256 KB or more, `packet`,
        /// if it is loaded (`[process] packet`); and for tunnels in which small messages go back and forth `socket`
        engine: Choice = one_of("auto"),
    }
}

words!(Choice { "auto" => Auto, "copy" => Copy, "pipe" => Pipe, "socket" => Socket, "packet" => Packet });

section! {
    /// `[workers]`
    #[derive(Debug)]
    pub struct Workers = "[workers]" {
        /// Worker threads; 0: one for each core that carrick may run on
        count: u64 = number(0..=1024, 0),
    }
}

section! {
    /// `[process]`
    #[derive(Debug)]
    pub struct Process = "[process]" {
        /// The user that carrick becomes once it listens and has loaded what needs privileges; only root can
        user: Setting<String> = text_or("a user's name or number", "who started it"),
        /// Its group, instead of the user's own; requires `user`
        group: Setting<String> = text_or("a group's name or number", "that of `user`"),
        /// Where programs and maps of the engine `packet` are kept (*pinned*), so that its tunnels outlive carrick; the
        /// folder is made if its parent exists
        pins: Spanned<String> = text("a folder on a BPF file system, or `\"\"` for none", PINS_DEFAULT),
        /// When the engine `packet` is loaded, whose programs are on all network interfaces: `auto`, if a listener or a
        /// route names it, or has the engine `auto` and clients that do not come by loopback; `named`, only if one names
        /// it; `off`, never. Where it is loaded, `auto` uses it
        packet: PacketUse = one_of("auto"),
        /// Whether the kernel encrypts long bodies for clients with TLS, where it can: `auto`, if it has the module `tls` and
        /// that passes its self-test; `off`, never
        ktls: Ktls = one_of("auto"),
        /// Whether carrick denies itself files and system calls that it does not need once it serves
        /// ([which](operations.md#the-sandbox)): `auto`, as far as the kernel supports it; `off`, no; `required`,
        /// yes, or it does not start
        sandbox: Sandbox = one_of("auto"),
    }
}

/// `process.packet`: when the engine `packet` is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketUse {
    /// If something names it.
    Named,
    /// Also if something leaves the choice to carrick.
    #[default]
    Auto,
    /// Never.
    Off,
}

words!(PacketUse { "named" => Named, "auto" => Auto, "off" => Off });

/// `process.ktls`: whether the kernel encrypts for clients with TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ktls {
    /// Where it can, and that pays.
    #[default]
    Auto,
    /// Never.
    Off,
}

words!(Ktls { "auto" => Auto, "off" => Off });

/// `process.sandbox`: whether carrick keeps itself from files and system calls that it does not need once it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sandbox {
    /// As far as the kernel can.
    #[default]
    Auto,
    /// No.
    Off,
    /// Yes, or it does not start.
    Required,
}

words!(Sandbox { "auto" => Auto, "off" => Off, "required" => Required });

section! {
    /// `[limits]`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Limits = "[limits]" {
        /// Most client connections at one time, over all workers
        connections: usize = number(1..=10_000_000, 100_000),
        /// Most client connections at one time from one address (of IPv6, from one /64); 0: no limit
        connections_per_client: usize = number(0..=10_000_000, 0),
        /// Most bytes of a message head, both ways
        request_head: usize = size(KIB..=MIB, 64 * KIB),
        /// Most header lines of a message head, both ways
        headers: usize = number(8..=512, 100),
        /// Least bytes per second that a client must send of a body, or read of a response, after `timeouts.head`; 0:
        /// none. A client that reads may be 64 KB behind, or 128 KB with TLS or from the cache
        rate_min: u64 = size(0..=1024 * MIB, 0),
        /// Most attempts to send one request, the first included; further ones only where a repetition is safe
        attempts: u32 = number(1..=10, 3),
        /// Most access log lines that wait to be written; further lines are dropped and counted
        log_queue: usize = number(1..=1_000_000, 8192),
        /// Most names kept in the DNS cache
        dns_cache: usize = number(1..=1_000_000, 10_000),
        /// Most pipes of the `pipe` engine per worker, two descriptors each; beyond, bytes are copied
        pipes: usize = number(0..=1_000_000, 1024),
        /// Most splices that the `socket` engine has at a time, half a kilobyte of kernel memory each, and as many of
        /// the `packet` engine, about a kilobyte each, those included that have ended within the last minute; further
        /// ones go through the process
        splices: u32 = number(1..=1_000_000, 16_384),
        /// How much unsent data may wait in the kernel for each connection (`TCP_NOTSENT_LOWAT`). Data in flight is
        /// not limited, nor are connections whose TCP profile has `unsent_low_water`; 0: the system's setting
        unsent: u32 = size(0..=1024 * MIB, 128 * KIB),
        /// Most kernel memory for data that a client or server has sent and carrick has not read. For peers 2 ms away
        /// or farther, it grows while more than a quarter of it is read within a round trip, as far as the system
        /// allows (`net.ipv4.tcp_rmem`). Connections of tunnels get it once 32 KB were read of them. 0: the system's
        /// setting
        unread: u32 = size(0..=1024 * MIB, 1536 * KIB),
        /// Most kernel memory that transfers and tunnels whose receivers read nothing may hold together; beyond it,
        /// those stalled longest are ended; 0: a 64th of the machine's memory, which is a quarter of what Linux gives
        /// TCP before it is short
        stalled: u64 = size(0..=1024 * 1024 * MIB, 0),
    }
}

impl Limits {
    /// Limits on heads, both ways.
    #[must_use]
    pub fn head(&self) -> HeadLimits {
        HeadLimits {
            head_bytes_max: self.request_head,
            fields_max: self.headers,
        }
    }
}

section! {
    /// `[timeouts]`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Timeouts = "[timeouts]" {
        /// For a whole request head; for a connection's PROXY header, TLS ClientHello and TLS handshake together
        head: Duration = time(MS..=YEAR, seconds(10)),
        /// Between two requests of a client, between two bytes of a body, and until the first byte of a response, counted anew after each
        /// interim one (1xx)
        idle: Duration = time(MS..=YEAR, seconds(60)),
        /// To connect to a server, all its addresses and the handshake of TLS or HTTP/2 together
        connect: Duration = time(MS..=YEAR, seconds(5)),
        /// Without a byte either way in a tunnel
        tunnel_idle: Duration = time(MS..=YEAR, seconds(3600)),
        /// After SIGTERM, for what is still under way; `"0s"` ends it at once
        drain: Duration = time(Duration::ZERO..=DAY, seconds(30)),
    }
}

section! {
    /// `[log]`
    #[derive(Debug)]
    pub struct Log = "[log]" {
        /// Where a line for each request goes; reopened on SIGUSR1
        access: Spanned<String> = text("`\"stdout\"`, `\"stderr\"`, a path, or `\"\"` for none", "stdout"),
        /// The format of these lines
        format: LogFormat = one_of("combined"),
    }
}

/// How an access log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogFormat {
    Combined,
    Json,
}

words!(LogFormat { "combined" => Combined, "json" => Json });
