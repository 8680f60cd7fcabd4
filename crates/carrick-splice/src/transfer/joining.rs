//! How a transfer gives its connections into the kernel's hands, helps there, and takes them back.

use super::Transfer;
use crate::flow::Step;
use crate::kernel::{Gate, Kernel};
use crate::socket::joint::Refusal;
use crate::{Choice, Fault, Reason, Side};
use std::task::Context;

impl Transfer<'_> {
    /// Gives the connections into the kernel's hands, with what waits in the sender's queue. Afterwards there is something new
    /// to be polled for.
    pub(super) fn join(&mut self) -> Result<(), Fault> {
        let sockets = [self.from, self.to];
        let flows = &mut [&mut self.flow];
        match Kernel::join(&self.splicer, sockets, flows, self.label) {
            Ok(Some(kernel)) => {
                self.wants_kernel = false;
                // What the kernel leaves to the process is copied.
                self.flow.set_choice(Choice::Socket);
                self.flow.set_burst_by_burst(false);
                self.kernel = Some(Box::new(kernel));
            }
            Ok(None) => {}
            Err(Refusal::Broken(_, fault)) => return Err(fault),
            Err(Refusal::Full) => self.go_without_kernel(Reason::SocketFull),
            Err(Refusal::Kernel(_)) => self.go_without_kernel(Reason::SocketRefused),
        }
        Ok(())
    }

    fn go_without_kernel(&mut self, because: Reason) {
        self.splicer.counters().reason(because).add(1);
        self.wants_kernel = false;
        self.flow.set_burst_by_burst(false);
        self.flow.set_choice(Choice::Auto);
        self.flow.look_anyway();
    }

    /// Whether the process may work now; if not, where it stands.
    pub(super) fn poll_gate(&mut self, cx: &mut Context<'_>) -> Option<Step> {
        let kernel = self.kernel.as_mut()?;
        kernel.listen(cx);
        kernel.count(0, &mut self.flow, self.splicer.counters());
        match kernel.gate(cx, 0, [self.from, self.to], &self.flow) {
            Gate::Open => {
                // Looking may have shown the program something. Now it is still: that tells where the agreed end is.
                kernel.count(0, &mut self.flow, self.splicer.counters());
                None
            }
            Gate::Quiet => Some(Step::Blocked(Side::From)),
            Gate::Wait => Some(Step::Blocked(Side::To)),
            Gate::Fault(fault) => Some(Step::Fault(fault)),
        }
    }

    /// After the process worked: the kernel learns of it.
    pub(super) fn after_flow(&mut self, cx: &mut Context<'_>, step: Step) -> Step {
        let Some(kernel) = self.kernel.as_mut() else {
            return step;
        };
        kernel.settle(0, &mut self.flow, self.splicer.counters());
        match step {
            Step::Blocked(Side::From) if self.flow.take_ended_early() => {
                match kernel.early_end(cx, self.from) {
                    Some(fault) => Step::Fault(fault),
                    None => Step::Blocked(Side::From),
                }
            }
            Step::Blocked(Side::From) if !kernel.allow(0) => {
                // One socket could not be taken: the other one comes back.
                if let Err(fault) = self.leave_kernel() {
                    return Step::Fault(fault);
                }
                self.go_without_kernel(Reason::SocketRefused);
                cx.waker().wake_by_ref();
                Step::Yield
            }
            // Whatever comes next from the sender is none of the kernel's business.
            Step::Ended(_) => match self.leave_kernel() {
                Ok(()) => step,
                Err(fault) => Step::Fault(fault),
            },
            step => step,
        }
    }

    /// Takes the connections out of the kernel's hands, with everything that it held for the process.
    pub(super) fn leave_kernel(&mut self) -> Result<(), Fault> {
        let sockets = [self.from, self.to];
        match self.kernel.take() {
            Some(mut kernel) => kernel.leave(sockets, &mut [&mut self.flow], &self.splicer),
            None => Ok(()),
        }
    }
}
