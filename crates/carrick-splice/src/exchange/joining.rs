//! How an exchange gives its connections into the kernel's hands, helps there, and takes them back.

use super::Exchange;
use super::chatter::RUN_BYTES_MAX;
use crate::engine::sockmap::joint::Refusal;
use crate::kernel::{Gate, Kernel};
use crate::relay::flow::{Flow, Step};
use crate::{Choice, Fault, Leg, Reason, Side, sys};
use std::task::{Context, Poll, ready};

impl<'a> Exchange<'a> {
    /// From where, to where.
    pub(super) fn ends(&self, a_to_b: bool) -> Option<[Leg<'a>; 2]> {
        let [a, b] = self.legs.clone()?;
        Some(if a_to_b { [a, b] } else { [b, a] })
    }

    fn flow_mut(&mut self, a_to_b: bool) -> &mut Flow {
        if a_to_b {
            &mut self.a_to_b
        } else {
            &mut self.b_to_a
        }
    }

    /// Whether a direction has ended, and its end was passed on if it should be.
    pub(super) fn is_ended(&self, a_to_b: bool) -> bool {
        let flow = if a_to_b { &self.a_to_b } else { &self.b_to_a };
        flow.is_ended()
            && (self.failed.is_some()
                || !self.wants_kernel
                    && self
                        .kernel
                        .as_ref()
                        .is_none_or(|kernel| kernel.is_end_passed(usize::from(!a_to_b))))
    }

    /// Gives the connections into the kernel's hands when nothing is held and nobody has ended. True if there is something
    /// new to be polled for.
    pub(super) fn join(&mut self, a_to_b: &Step, b_to_a: &Step) -> bool {
        let ended = matches!(a_to_b, Step::Ended(_)) || matches!(b_to_a, Step::Ended(_));
        let quiet = matches!(a_to_b, Step::Blocked(Side::From))
            && matches!(b_to_a, Step::Blocked(Side::From));
        let Some([a, b]) = self.ends(true) else {
            return false;
        };
        if self.failed.is_some() || !(ended || quiet) {
            return false;
        }
        let outcome = if ended {
            Err(Refusal::Kernel(std::io::ErrorKind::UnexpectedEof.into()))
        } else {
            let flows = &mut [&mut self.a_to_b, &mut self.b_to_a];
            Kernel::join(&self.splicer, [&a, &b], flows, self.label)
        };
        match outcome {
            Ok(Some(kernel)) => {
                self.wants_kernel = false;
                if self.chatter.is_some() {
                    kernel.leave_runs_to_the_process(RUN_BYTES_MAX);
                }
                for a_to_b in [true, false] {
                    // What the kernel leaves to the process is copied.
                    self.flow_mut(a_to_b).set_choice(Choice::Socket);
                }
                self.kernel = Some(Box::new(kernel));
                self.splicer.counters().socket_stays.add(1);
            }
            Ok(None) => {}
            Err(Refusal::Broken(side, fault)) => {
                self.wants_kernel = false;
                self.fail(side == 0, fault);
            }
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::Full => Reason::SocketFull,
                    Refusal::Kernel(_) | Refusal::Broken(..) => Reason::SocketRefused,
                };
                // Nobody asked for it: an end of stream that came first is no refusal.
                if self.chatter.take().is_none() || !ended {
                    self.splicer.counters().reason(reason).add(1);
                }
                self.wants_kernel = false;
                for a_to_b in [true, false] {
                    self.go_without_kernel(a_to_b);
                }
            }
        }
        true
    }

    /// Decides whether the kernel is to have the exchange, if that is to be decided. True if there is something to be polled for.
    pub(super) fn choose(&mut self) -> bool {
        let (Some([a, b]), Some(chatter)) = (self.ends(true), self.chatter.as_mut()) else {
            return false;
        };
        if self.failed.is_some() || self.a_to_b.is_ended() || self.b_to_a.is_ended() {
            return false;
        }
        let taken = [self.a_to_b.taken_bytes(), self.b_to_a.taken_bytes()];
        match &self.kernel {
            // Rather packet by packet, as long as that may come.
            None if !self.wants_kernel
                && chatter.observe(taken)
                && !self.packets.are_on_their_way() =>
            {
                self.wants_kernel = true;
                self.splicer.counters().reason(Reason::Chatter).add(1);
                for a_to_b in [true, false] {
                    self.flow_mut(a_to_b).set_pass_end(false);
                }
            }
            // Not before the receivers' TCP has what is on its way in the kernel: nobody should have to wait for that.
            Some(kernel) if kernel.needs_help() && kernel.is_idle([&a, &b]) => {
                chatter.came_back(taken);
                self.splicer.counters().reason(Reason::Bulk).add(1);
                self.leaves_kernel = true;
                return true;
            }
            _ => {}
        }
        false
    }

    /// A direction goes through the process, as if the kernel had never been asked for.
    fn go_without_kernel(&mut self, a_to_b: bool) {
        let ends = self.ends(a_to_b);
        let flow = self.flow_mut(a_to_b);
        flow.set_choice(Choice::Auto);
        flow.set_pass_end(true);
        if flow.is_ended()
            && let Some([_, to]) = ends
            && let Err(source) = sys::shutdown_write(&to)
        {
            let fault = Fault {
                side: Side::To,
                call: "shutdown",
                source,
            };
            self.fail(a_to_b, fault);
        }
    }

    /// Whether the process may work on a direction now; if not, where it stands.
    pub(super) fn poll_gate(&mut self, cx: &mut Context<'_>, a_to_b: bool) -> Option<Step> {
        let side = usize::from(!a_to_b);
        let [from, to] = self.ends(a_to_b)?;
        let kernel = self.kernel.as_mut()?;
        let flow = if a_to_b {
            &mut self.a_to_b
        } else {
            &mut self.b_to_a
        };
        if kernel.is_letting_go(side) {
            match kernel.poll_let_go(cx, side, [&from, &to], flow, &self.splicer) {
                Poll::Pending => return Some(Step::Blocked(Side::From)),
                Poll::Ready(Err(fault)) => return Some(Step::Fault(fault)),
                Poll::Ready(Ok(())) => {}
            }
        }
        kernel.watch_window(side, flow, &from, self.splicer.counters());
        match kernel.gate(cx, side, [&from, &to], flow) {
            Gate::Open => None,
            Gate::Quiet => Some(Step::Blocked(Side::From)),
            Gate::Wait => Some(Step::Blocked(Side::To)),
            Gate::Fault(fault) => Some(Step::Fault(fault)),
        }
    }

    /// After the process worked on a direction: the kernel learns of it, and an end of stream is passed on.
    pub(super) fn after_flow(&mut self, cx: &mut Context<'_>, a_to_b: bool, step: Step) -> Step {
        let side = usize::from(!a_to_b);
        let (Some([from, to]), Some(kernel)) = (self.ends(a_to_b), self.kernel.as_mut()) else {
            return step;
        };
        let (flow, other) = if a_to_b {
            (&mut self.a_to_b, &mut self.b_to_a)
        } else {
            (&mut self.b_to_a, &mut self.a_to_b)
        };
        kernel.settle(side, flow, self.splicer.counters());
        match step {
            Step::Blocked(Side::From) if flow.take_ended_early() => {
                match kernel.early_end(cx, &from) {
                    Some(fault) => Step::Fault(fault),
                    None => Step::Blocked(Side::From),
                }
            }
            Step::Blocked(Side::From) if kernel.is_in_map(side) && !kernel.allow(side) => {
                // One socket could not be taken: the other one comes back.
                self.splicer.counters().reason(Reason::SocketRefused).add(1);
                match kernel.poll_let_go(cx, side, [&from, &to], flow, &self.splicer) {
                    Poll::Pending => step,
                    Poll::Ready(Ok(())) => {
                        cx.waker().wake_by_ref();
                        Step::Yield
                    }
                    Poll::Ready(Err(fault)) => Step::Fault(fault),
                }
            }
            Step::Ended(ended) if self.failed.is_none() && !kernel.is_end_passed(side) => {
                // A socket that has sent its end, receives the peer's, and is still in the map would lose what was left
                // to the process (`tcp_time_wait`, `sock_map_unhash`): it leaves before.
                let is_to_go = kernel.is_in_map(1 - side) || kernel.is_letting_go(1 - side);
                if is_to_go && !other.is_ended() {
                    let ends = [&*to, &*from];
                    match kernel.poll_let_go(cx, 1 - side, ends, other, &self.splicer) {
                        Poll::Pending => return Step::Blocked(Side::To),
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(fault)) => {
                            self.fail(!a_to_b, fault);
                            return Step::Blocked(Side::To);
                        }
                    }
                    // What was taken has to be written.
                    cx.waker().wake_by_ref();
                }
                kernel.set_end_passed(side);
                match sys::shutdown_write(&to) {
                    Ok(()) => Step::Ended(ended),
                    Err(source) => Step::Fault(Fault {
                        side: Side::To,
                        call: "shutdown",
                        source,
                    }),
                }
            }
            step => step,
        }
    }

    /// Has the process do what the kernel did, if that was decided. Ready when it is so.
    pub(super) fn poll_come_back(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.leaves_kernel {
            return Poll::Ready(());
        }
        ready!(self.poll_leave_kernel(cx));
        self.leaves_kernel = false;
        if self.failed.is_none() {
            for a_to_b in [true, false] {
                self.go_without_kernel(a_to_b);
            }
        }
        Poll::Ready(())
    }

    /// Takes the connections out of the kernel's hands, with everything that it held for the process.
    pub(super) fn poll_leave_kernel(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ends = self.ends(true);
        if let (Some(kernel), Some([a, b])) = (self.kernel.as_mut(), ends) {
            let flows = &mut [&mut self.a_to_b, &mut self.b_to_a];
            if let Err(fault) = ready!(kernel.poll_leave(cx, [&a, &b], flows, &self.splicer)) {
                self.fail(true, fault);
            }
        }
        self.kernel = None;
        Poll::Ready(())
    }

    /// Counts what the kernel did, at the end.
    pub(super) fn count_kernel(&mut self) {
        if let Some(mut kernel) = self.kernel.take() {
            kernel.finish(
                &mut [&mut self.a_to_b, &mut self.b_to_a],
                self.splicer.counters(),
            );
        }
    }
}
