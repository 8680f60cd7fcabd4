//! A test bed at work: with its servers, and the emulated network that is wanted at the moment.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::expression::{self, Point};
use super::spec::{Experiment, Workload};
use crate::bench::plan::{Does, KIB, Talk};
use crate::bench::{congestion, ghz, talk};
use crate::peers::{Programs, start_origin};
use crate::testbed::calibration::Calibration;
use crate::testbed::cores::Placement;
use crate::testbed::service::Service;
use crate::testbed::{Addresses, Testbed, TestbedPlan, WanService};
use crate::wan::spec::{WanCounts, WanSpec};

/// The first port of further servers, one for each extension.
const FURTHER_ORIGINS_PORT: u16 = 8001;

/// The meter is checked again if the proxy's core, with nothing to do, was busy for more than this share.
pub const QUIET_SHARE: f64 = 0.05;
/// For a server to come up.
const START_TIMEOUT: Duration = Duration::from_secs(15);
/// How often at most.
const CALIBRATIONS_MAX: usize = 3;

/// A server of a test bed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Server {
    /// `carrick-lab origin` with these arguments.
    Origin(Vec<String>),
    /// nginx with files of these lengths.
    Files(Vec<usize>),
    /// What sends back what comes.
    Echo,
    /// The far end of a talk.
    Talk(Talk),
    /// gRPC's own test server.
    Calls,
}

/// A test bed and what runs in it. The fields are dropped in this order: programs before namespaces.
#[derive(Debug)]
pub struct Bed {
    network: Option<(WanSpec, WanService)>,
    servers: Option<(Vec<Server>, Vec<Service>)>,
    /// How far its meter can be trusted, if that was asked.
    pub calibration: Option<Calibration>,
    /// The namespaces.
    pub testbed: Testbed,
}

impl Bed {
    /// Builds it.
    ///
    /// # Errors
    /// As [`Testbed::build`].
    pub fn build(plan: &TestbedPlan) -> Result<Self> {
        Ok(Self {
            network: None,
            servers: None,
            calibration: None,
            testbed: Testbed::build(plan)?,
        })
    }

    /// Places work, and checks the meter if the proxy has a core of its own and that was not done yet.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn place(
        &mut self,
        placement: Placement,
        calibration: Option<Duration>,
    ) -> Result<()> {
        if self.testbed.placement() != placement {
            self.testbed.place(placement)?;
        }
        if let (Placement::Separate(_), Some(known)) = (placement, &self.calibration) {
            self.testbed.take_off(known);
        } else if let (Placement::Separate(_), Some(each)) = (placement, calibration) {
            // What others do on the core for a moment must not be taken off all measurements.
            for _ in 0..CALIBRATIONS_MAX {
                let calibration = self.testbed.calibrate(each).await?;
                let is_quiet = calibration.idle_busy_share < QUIET_SHARE;
                self.calibration = Some(calibration);
                if is_quiet {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Starts the servers of a workload, unless they run already.
    ///
    /// # Errors
    /// When one does not start: with what it said.
    pub async fn serve(
        &mut self,
        experiment: &Experiment,
        workload: &Workload,
        programs: &Programs,
    ) -> Result<()> {
        let wanted = servers(experiment, workload, &self.testbed.addresses());
        if self
            .servers
            .as_ref()
            .is_some_and(|(running, _)| *running == wanted)
        {
            return Ok(());
        }
        if let Some((_, services)) = self.servers.take() {
            for service in services {
                service.stop().await;
            }
        }
        let mut services = Vec::new();
        for server in &wanted {
            services.push(self.start(server, programs).await?);
        }
        if workload.work().is_some() {
            congestion::verify(&self.testbed).await?;
        }
        self.servers = Some((wanted, services));
        Ok(())
    }

    async fn start(&self, server: &Server, programs: &Programs) -> Result<Service> {
        let (testbed, addresses) = (&self.testbed, self.testbed.addresses());
        match server {
            Server::Origin(arguments) => testbed.start_origin(arguments).await,
            Server::Files(sizes) => {
                let mut origin = start_origin(sizes, testbed, programs)?;
                let port = addresses.origin_http().port();
                origin.wait_until_listening(port, START_TIMEOUT).await?;
                Ok(origin)
            }
            Server::Echo => {
                let listen = addresses.origin_echo().to_string();
                congestion::start_echo(testbed, &testbed.server, &listen)
            }
            Server::Calls => ghz::start_server(testbed).await,
            Server::Talk(talk) => talk::start_server(testbed, *talk, talk.origin(&addresses)).await,
        }
    }

    /// The first of its servers.
    ///
    /// # Errors
    /// When [`Self::serve`] was not called.
    pub fn origin(&self) -> Result<&Service> {
        let running = self.servers.as_ref();
        running
            .and_then(|(_, services)| services.first())
            .context("the test bed has no server")
    }

    /// Starts the emulated network, unless it is the one that runs. What the one before counted.
    ///
    /// # Errors
    /// When it does not start or had ended: with what it said.
    pub async fn connect(&mut self, wanted: Option<WanSpec>) -> Result<Option<WanCounts>> {
        if self.network.as_ref().map(|(running, _)| running) == wanted.as_ref() {
            return Ok(None);
        }
        let counts = match self.network.take() {
            Some((_, service)) => Some(service.stop().await?),
            None => None,
        };
        if let Some(wanted) = wanted {
            let service = self.testbed.start_wan(&wanted).await?;
            self.network = Some((wanted, service));
        }
        Ok(counts)
    }

    /// Checks that servers and network still run: a fault of theirs would be taken for one of the proxies.
    ///
    /// # Errors
    /// When one has ended: with what it said.
    pub fn check(&mut self) -> Result<()> {
        if let Some((_, services)) = &mut self.servers {
            services.iter_mut().try_for_each(Service::check)?;
        }
        match &mut self.network {
            Some((_, service)) => service.check(),
            None => Ok(()),
        }
    }
}

/// The network of a workload at a point, with the test bed's subnets.
///
/// # Errors
/// When there is none of that name, or it is no [`WanSpec`].
pub fn network(
    experiment: &Experiment,
    workload: &Workload,
    point: &Point,
    addresses: &Addresses,
    seed: u64,
) -> Result<Option<WanSpec>> {
    let Some(name) = &workload.wan else {
        return Ok(None);
    };
    let name = expression::interpolate(name, point)?;
    let table = experiment
        .wan
        .get(&name)
        .with_context(|| format!("there is no network `{name}`"))?;
    let mut spec =
        with_subnets(table, addresses).with_context(|| format!("the network `{name}`"))?;
    spec.seed = seed;
    Ok(Some(spec))
}

/// A network with `$client`, `$proxy` and `$server` replaced by subnets.
///
/// # Errors
/// When it is no [`WanSpec`].
pub fn with_subnets(table: &toml::Table, addresses: &Addresses) -> Result<WanSpec> {
    let subnets: Point = [
        ("client", addresses.client_subnet),
        ("proxy", addresses.proxy_subnet),
        ("server", addresses.server_subnet),
    ]
    .map(|(name, subnet)| {
        let subnet = super::value::Value::Word(String::from(subnet));
        (name.to_owned(), subnet)
    })
    .into();
    let table = expression::substitute(&toml::Value::Table(table.clone()), &subnets)?;
    let spec: WanSpec = table.try_into()?;
    Ok(spec)
}

/// Values for the templates of peers: where the further servers are.
#[must_use]
pub fn further_origins(workload: &Workload, addresses: &Addresses) -> Vec<(String, String)> {
    workload
        .origins
        .iter()
        .zip(FURTHER_ORIGINS_PORT..)
        .map(|(name, port)| {
            (
                format!("origin_{name}"),
                format!("{}:{port}", addresses.server),
            )
        })
        .collect()
}

/// What a workload needs: the server that is always there, and a further one for each extension; or those of the loads that are run side by
/// side, with the files of all of them.
fn servers(experiment: &Experiment, workload: &Workload, addresses: &Addresses) -> Vec<Server> {
    if let Some(work) = workload.work() {
        let works = experiment.workloads.iter().filter_map(Workload::work);
        let with_files = works.filter(|work| !matches!(work.does, Does::Talk(_) | Does::Call(_)));
        let mut sizes: Vec<usize> = with_files
            .map(|work| work.body_bytes)
            .chain([KIB])
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let calls = matches!(work.does, Does::Call(_)).then_some(Server::Calls);
        let always = [
            Server::Files(sizes),
            Server::Echo,
            Server::Talk(Talk::PingPong),
            Server::Talk(Talk::Stream),
            Server::Talk(Talk::Pages),
        ];
        return always.into_iter().chain(calls).collect();
    }
    let first = (String::from("origin"), addresses.origin_http().to_string());
    std::iter::once(first)
        .chain(further_origins(workload, addresses))
        .map(|(_, listen)| {
            let mut arguments = vec![String::from("--listen"), listen];
            arguments.extend(workload.origin.iter().cloned());
            Server::Origin(arguments)
        })
        .collect()
}
