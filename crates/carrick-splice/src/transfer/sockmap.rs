//! How a transfer gives its connections to the kernel, helps there, and takes them back.

use super::Transfer;
use crate::engine::sockmap::joint::Refusal;
use crate::lifecycle::State;
use crate::relay::flow::Step;
use crate::relay::sockmap_splice::{Gate, SockmapSplice};
use crate::{Choice, Ended, Fault, Reason, Side};
use std::task::{Context, Poll, ready};

/// Why the kernel is to return the connections, and what follows.
pub(super) enum Leaving {
    /// It could not take one of them: the process relays everything.
    Refused,
    /// The transfer has ended with this result.
    Ended(Ended),
    /// The owner gets its turn, and may use the connections.
    Pause(Ended),
    /// What is held, and what still comes within the order, goes to the local copy.
    ReceiverFailed(Fault),
}

impl Transfer<'_> {
    /// Gives the connections to the kernel, with what waits in the sender's queue. Afterwards, poll again.
    pub(super) fn join(&mut self) -> Result<(), Fault> {
        let sockets = [self.from, self.to];
        let flows = &mut [&mut self.flow];
        match SockmapSplice::join(&self.splicer, sockets, flows, self.label) {
            Ok(Some(kernel)) => {
                self.lifecycle.enter(State::InKernel);
                // The process copies what the kernel leaves to it.
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

    /// Whether the process may work now; if not, the flow's step.
    pub(super) fn poll_gate(&mut self, cx: &mut Context<'_>) -> Option<Step> {
        let kernel = self.kernel.as_mut()?;
        kernel.listen(cx);
        kernel.watch_window(0, &mut self.flow, self.from, self.splicer.counters());
        match kernel.gate(cx, 0, [self.from, self.to], &self.flow) {
            Gate::Open => {
                // Reading may have shown the program more data. Now it has stopped, which tells where the
                // boundary is.
                kernel.count(0, &mut self.flow, self.splicer.counters());
                None
            }
            Gate::Quiet => Some(Step::Blocked(Side::From)),
            Gate::Wait => Some(Step::Blocked(Side::To)),
            Gate::Fault(fault) => Some(Step::Fault(fault)),
        }
    }

    /// Reports to the kernel what the process has done.
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
                // The kernel could not take one socket: the other is taken back.
                self.leaving = Some(Leaving::Refused);
                step
            }
            // The kernel must not forward what the sender sends next.
            Step::Ended(ended) => {
                self.leaving = Some(Leaving::Ended(ended));
                step
            }
            step => step,
        }
    }

    /// Takes the connections back from the kernel, if that was begun. Ready when they are back, with the
    /// transfer's result if it has stopped.
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
            // If it does not come back whole, both connections are reset on close.
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

    /// Takes the connections back from the kernel, with everything that it held for the process.
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
