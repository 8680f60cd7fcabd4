//! Shared by the tests of this module and of telemetry: a plan, a state, a client.
use super::{Control, ControlHandle, ControlState, EngineStatus, Running};
use crate::config::plan::{
    HashOn, HealthPlan, Ktls, Limits, LogFormat, LogPlan, LogTarget, PacePlan, PacketUse, Plan,
    Sandbox, ServerAddress, ServerHttp2, ServerPlan, Timeouts, UpstreamPlan,
};
use crate::config::section::Keys;
use crate::engines::Engines;
use crate::privileges::Identity;
use crate::telemetry::access_log::LogThread;
use crate::telemetry::metrics::WorkerMetrics;
use crate::upstream::state::UpstreamState;
use carrick_logic::balance::Algorithm;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const LOOPBACK_ANY_PORT: &str = "127.0.0.1:0";

pub(crate) fn plan(admin: Option<SocketAddr>, upstreams: Vec<Arc<UpstreamPlan>>) -> Plan {
    let second = Duration::from_secs(1);
    Plan {
        admin,
        workers: 2,
        account: None,
        pins: None,
        packet: PacketUse::default(),
        ktls: Ktls::default(),
        sandbox: Sandbox::default(),
        limits: Limits {
            connections: 1000,
            log_queue: 500,
            dns_cache: 200,
            pipes: 64,
            splices: 64,
            stalled: 64 << 20,
            ..Limits::defaults()
        },
        timeouts: Timeouts {
            head: second,
            idle: second,
            connect: second,
            tunnel_idle: second,
            drain: second,
        },
        acme: None,
        cache: None,
        tcp_profiles: Vec::new(),
        links: Vec::new(),
        pace: PacePlan::default(),
        log: LogPlan {
            access: LogTarget::Off,
            format: LogFormat::Combined,
        },
        listeners: Vec::new(),
        upstreams,
    }
}

pub(crate) fn upstream(
    name: &str,
    servers: &[SocketAddr],
    health: Option<HealthPlan>,
) -> UpstreamPlan {
    let servers = servers.iter().map(|address| ServerPlan {
        address: ServerAddress::Ip(*address),
        weight: 1,
    });
    UpstreamPlan {
        name: name.into(),
        servers: servers.collect(),
        tls: None,
        http2: ServerHttp2::Never,
        balance: Algorithm::RoundRobin,
        hash_on: HashOn::Path,
        health,
        send_proxy_protocol: None,
        keepalive: 1,
        failures_max: 3,
    }
}

pub(crate) fn running(plan: Plan) -> Running {
    let upstreams = UpstreamState::for_plan(&plan.upstreams, &[]);
    Running {
        plan: Arc::new(plan),
        upstreams,
    }
}

pub(crate) fn state(plan: Plan) -> Arc<ControlState> {
    let (log, _) = LogThread::start(&plan.log, plan.limits.log_queue).unwrap();
    let log_state = log.state();
    log.stop();
    let workers = vec![
        Arc::new(WorkerMetrics::default()),
        Arc::new(WorkerMetrics::default()),
    ];
    let engines = vec![
        EngineStatus {
            name: "engine copy",
            usable: true,
            reason: String::new(),
        },
        EngineStatus {
            name: "engine pipe",
            usable: false,
            reason: "splice(2) is forbidden here".into(),
        },
    ];
    Arc::new(ControlState::new(
        running(plan),
        None,
        workers,
        engines,
        Identity::read().unwrap(),
        Engines::new().unwrap(),
        log_state,
    ))
}

/// Starts the control thread with the plan's admin address, if any.
pub(crate) fn start_control(state: Arc<ControlState>) -> io::Result<ControlHandle> {
    let listener = Control::bind(&state.running.load().plan)?;
    Control::start(state, listener)
}

/// Sends bytes, reads until the end, returns what was read. Panics if nothing comes.
pub(crate) fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(carrick_test::PATIENCE))
        .unwrap();
    stream.write_all(request).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8(response).unwrap()
}

/// Status and body of a page.
pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let response = exchange(address, request.as_bytes());
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.into())
}
