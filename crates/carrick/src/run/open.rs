//! Opens everything that needs start-up privileges, in order.
use super::descriptors::raise_descriptor_limit;
use super::loading::Loading;
use super::reserved::Reserved;
use crate::accept::listen::{self, Bound};
use crate::cache::disk::{Disk, misfit};
use crate::config::plan::Plan;
use crate::control::{Control, acme};
use crate::engines::Engines;
use crate::privileges::{self, GivenUp, sandbox};
use crate::transparent::Rules;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

/// Whatever is opened with start-up privileges.
pub(super) struct Opened {
    pub(super) descriptors: u64,
    pub(super) engines: Engines,
    pub(super) loading: Loading,
    pub(super) admin: Option<TcpListener>,
    pub(super) listeners: Vec<Bound>,
    pub(super) rules: Option<Rules>,
    pub(super) given_up: GivenUp,
    pub(super) disk: Option<Disk>,
}

impl Opened {
    /// Opens it and drops the privileges; only the thread that loads the engines keeps them until it exits. No other thread may exist yet.
    pub(super) fn open(
        plan: &Arc<Plan>,
        source: Option<&Path>,
        reserved: Reserved,
    ) -> io::Result<Self> {
        let descriptors = raise_descriptor_limit();
        let mut engines = Engines::new()
            .map_err(|error| named(error, "cannot allocate memory for the classes of [pace]"))?;
        engines.pace(&plan.pace).map_err(io::Error::other)?;
        engines.adopt(plan);
        engines.load_tcp_tuning(plan);
        let admin = Control::bind(plan)?;
        let listeners = listen::bind_all(plan)?;
        let rules = Rules::install(plan, reserved.claims)?;
        if let Some(rules) = &rules {
            engines.path_history.set_line(rules.line());
        }
        engines.deferred_syns.attach(plan)?;
        acme::make(plan)?;
        privileges::wait_until_alone()?;
        let loading = Loading::start(&engines, plan)?;
        let mut given_up = privileges::give_up(plan)?;
        // With the identity under which it will be used.
        drop(reserved.disk);
        let disk = open_disk(plan)?;
        acme::check(plan)?;
        given_up.identity.sandbox = sandbox::enter(plan, source)?;
        Ok(Self {
            descriptors,
            engines,
            loading,
            admin,
            listeners,
            rules,
            given_up,
            disk,
        })
    }
}

fn named(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn open_disk(plan: &Plan) -> io::Result<Option<Disk>> {
    let disk = plan.cache.as_ref().and_then(|cache| cache.disk.as_ref());
    if let Some(why) = disk.and_then(misfit) {
        tracing::info!("{why}; reduce `size` in [cache.disk], or use a larger file system");
    }
    disk.map(|plan| {
        Disk::open(plan).map_err(|why| io::Error::other(format!("`disk` of [cache]: {why}")))
    })
    .transpose()
}
