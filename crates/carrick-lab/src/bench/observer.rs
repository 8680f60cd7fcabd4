//! What is read before and after a run, beside what the load generator says.

use std::time::Instant;

use anyhow::Result;

use crate::bench::results::Run;
use crate::testbed::Testbed;
use crate::testbed::busy::{BusyMeter, Reading};
use crate::testbed::service::{Connections, Service};
use crate::testbed::usage::{foreign_cpu_seconds, process_cpu_seconds};

/// The readings before a run.
#[derive(Debug)]
pub struct Observer<'a> {
    testbed: &'a Testbed,
    counted: &'a Service,
    started: Instant,
    foreign_seconds: f64,
    process_seconds: f64,
    connections: Connections,
    busy: Option<(BusyMeter, Reading)>,
}

impl<'a> Observer<'a> {
    /// Reads everything; the core's meter last, so that its window holds little else than the run.
    /// `counted` is the service whose connections are counted.
    ///
    /// # Errors
    /// When something cannot be read.
    pub fn start(
        testbed: &'a Testbed,
        counted: &'a Service,
        meter: Option<BusyMeter>,
    ) -> Result<Self> {
        Ok(Self {
            testbed,
            counted,
            started: Instant::now(),
            foreign_seconds: foreign_cpu_seconds(testbed)?,
            process_seconds: process_cpu_seconds(&testbed.proxy)?,
            connections: counted.connections()?,
            busy: meter
                .map(|meter| Ok::<_, anyhow::Error>((meter, meter.read()?)))
                .transpose()?,
        })
    }

    /// Reads everything again and writes the differences into the run.
    ///
    /// # Errors
    /// When something cannot be read, as when the service is gone.
    pub fn finish(self, run: &mut Run) -> Result<()> {
        if let Some((meter, before)) = self.busy {
            run.busy = Some(meter.read()?.since(&before));
        }
        let after = self.counted.connections()?;
        run.connections = Some(Connections {
            opened: after.opened.saturating_sub(self.connections.opened),
            accepted: after.accepted.saturating_sub(self.connections.accepted),
        });
        run.process_seconds =
            Some(process_cpu_seconds(&self.testbed.proxy)? - self.process_seconds);
        let foreign_seconds = foreign_cpu_seconds(self.testbed)? - self.foreign_seconds;
        run.foreign_cores = Some(foreign_seconds.max(0.0) / self.started.elapsed().as_secs_f64());
        Ok(())
    }
}
