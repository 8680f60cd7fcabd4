//! How a transfer gives its connections into the kernel's hands, helps there, and takes them back.

use super::Transfer;
use crate::engine::sockmap::joint::Refusal;
use crate::lifecycle::State;
use crate::relay::flow::Step;
use crate::relay::sockmap_splice::{Gate, SockmapSplice};
use crate::{Choice, Ended, Fault, Reason, Side};
use std::task::{Context, Poll, ready};

/// Why the kernel is to give the connections back, and so what comes then.
pub(super) enum Leaving {
    /// It could not take one of them: everything goes through the process.
    Refused,
    /// The transfer has ended so.
    Ended(Ended),
    /// The owner gets its turn, and may well do something with the connections.
    Pause(Ended),
    /// What is held goes to the local copy, and what comes, as far as the order allows.
    ReceiverFailed(Fault),
}

impl Transfer<'_> {
    /// Gives the connections into the kernel's hands, with what waits in the sender's queue. Afterwards there is something new
    /// to be polled for.
    pub(super) fn join(&mut self) -> Result<(), Fault> {
        let sockets = [self.from, self.to];
        let flows = &mut [&mut self.flow];
        match SockmapSplice::join(&self.splicer, sockets, flows, self.label) {
            Ok(Some(kernel)) => {
                self.lifecycle.enter(State::InKernel);
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
        self.lifecycle.enter(State::Relaying);
        self.flow.set_burst_by_burst(false);
        self.flow.set_choice(Choice::Auto);
        self.flow.look_anyway();
    }

    /// Whether the process may work now; if not, where it stands.
    pub(super) fn poll_gate(&mut self, cx: &mut Context<'_>) -> Option<Step> {
        let kernel = self.kernel.as_mut()?;
        kernel.listen(cx);
        kernel.watch_window(0, &mut self.flow, self.from, self.splicer.counters());
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
                self.leaving = Some(Leaving::Refused);
                step
            }
            // Whatever comes next from the sender is none of the kernel's business.
            Step::Ended(ended) => {
                self.leaving = Some(Leaving::Ended(ended));
                step
            }
            step => step,
        }
    }

    /// Takes the connections back from the kernel, if that was begun. Ready when they are there: with how the transfer stands then, if it
    /// stands still.
    pub(super) fn poll_come_back(&mut self, cx: &mut Context<'_>) -> Poll<Option<Step>> {
        if self.leaving.is_none() {
            return Poll::Ready(None);
        }
        let had_kernel = self.kernel.is_some();
        let left = ready!(self.poll_leave_kernel(cx));
        Poll::Ready(match self.leaving.take() {
            Some(Leaving::Refused) => match left {
                Ok(()) => {
                    self.go_without_kernel(Reason::SocketRefused);
                    None
                }
                Err(fault) => Some(Step::Fault(fault)),
            },
            Some(Leaving::Ended(ended)) => Some(match left {
                Ok(()) => Step::Ended(ended),
                Err(fault) => Step::Fault(fault),
            }),
            // If it does not come back whole, both connections are reset when they are closed.
            Some(Leaving::Pause(ended)) => {
                if had_kernel {
                    self.lifecycle.enter(State::Attaching);
                    self.flow.set_burst_by_burst(true);
                }
                Some(Step::Ended(ended))
            }
            // The transfer has failed anyway.
            Some(Leaving::ReceiverFailed(fault)) => {
                self.flow.abandon_receiver(&self.splicer, &mut self.sink);
                self.receiver_fault = Some(fault);
                self.watch.disarm();
                None
            }
            None => None,
        })
    }

    /// Takes the connections out of the kernel's hands, with everything that it held for the process.
    pub(super) fn poll_leave_kernel(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let sockets = [self.from, self.to];
        let Some(kernel) = self.kernel.as_mut() else {
            return Poll::Ready(Ok(()));
        };
        self.lifecycle.enter(State::Detaching);
        let left = ready!(kernel.poll_leave(cx, sockets, &mut [&mut self.flow], &self.splicer));
        self.kernel = None;
        self.lifecycle.enter(State::Relaying);
        Poll::Ready(left)
    }
}
