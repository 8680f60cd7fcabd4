//! How an exchange gives its connections into the kernel's hands, helps there, and takes them back.

use super::Exchange;
use super::kernel::{Gate, Kernel};
use crate::flow::{Flow, Step};
use crate::socket::joint::Refusal;
use crate::{Choice, Fault, Reason, Side, sys, tcp};
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// How long `unsplice` waits for what is on its way inside the kernel. It waits for a worker of the kernel, not for a
/// peer; longer takes only a machine without memory.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// How often it looks.
const LEAVE_LOOK: Duration = Duration::from_micros(50);

impl<'a> Exchange<'a> {
    /// From where, to where.
    fn ends(&self, a_to_b: bool) -> [&'a TcpStream; 2] {
        if a_to_b {
            [self.a, self.b]
        } else {
            [self.b, self.a]
        }
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
        if self.failed.is_some() || !(ended || quiet) {
            return false;
        }
        let outcome = if ended {
            Err(Refusal::Kernel(std::io::ErrorKind::UnexpectedEof.into()))
        } else {
            let flows = [&mut self.a_to_b, &mut self.b_to_a];
            Kernel::join(&self.splicer, [self.a, self.b], flows, self.label)
        };
        match outcome {
            Ok(Some(kernel)) => {
                self.wants_kernel = false;
                self.kernel = Some(Box::new(kernel));
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
                self.splicer.counters().reason(reason).add(1);
                self.wants_kernel = false;
                for a_to_b in [true, false] {
                    self.go_without_kernel(a_to_b);
                }
            }
        }
        true
    }

    /// A direction goes through the process, as if the kernel had never been asked for.
    fn go_without_kernel(&mut self, a_to_b: bool) {
        let [_, to] = self.ends(a_to_b);
        let flow = self.flow_mut(a_to_b);
        flow.set_choice(Choice::Auto);
        flow.set_pass_end(true);
        if flow.is_ended()
            && let Err(source) = sys::shutdown_write(to)
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
        let ends = self.ends(a_to_b);
        let kernel = self.kernel.as_mut()?;
        let flow = if a_to_b {
            &mut self.a_to_b
        } else {
            &mut self.b_to_a
        };
        kernel.count(side, flow, self.splicer.counters());
        match kernel.gate(cx, side, ends, flow) {
            Gate::Open => None,
            Gate::Quiet => Some(Step::Blocked(Side::From)),
            Gate::Wait => Some(Step::Blocked(Side::To)),
            Gate::Fault(fault) => Some(Step::Fault(fault)),
        }
    }

    /// After the process worked on a direction: the kernel learns of it, and an end of stream is passed on.
    pub(super) fn after_flow(&mut self, cx: &mut Context<'_>, a_to_b: bool, step: Step) -> Step {
        let side = usize::from(!a_to_b);
        let [from, to] = self.ends(a_to_b);
        let Some(kernel) = self.kernel.as_mut() else {
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
                match kernel.early_end(cx, from) {
                    Some(fault) => Step::Fault(fault),
                    None => Step::Blocked(Side::From),
                }
            }
            Step::Blocked(Side::From) if kernel.is_in_map(side) && !kernel.allow(side) => {
                // One socket could not be taken: the other one comes back.
                self.splicer.counters().reason(Reason::SocketRefused).add(1);
                match kernel.let_go(side, [from, to], flow, &self.splicer) {
                    Ok(()) => {
                        cx.waker().wake_by_ref();
                        Step::Yield
                    }
                    Err(fault) => Step::Fault(fault),
                }
            }
            Step::Ended(ended) if self.failed.is_none() && !kernel.is_end_passed(side) => {
                // A socket that has sent its end, receives the peer's, and is still in the map would lose what was left
                // to the process (`tcp_time_wait`, `sock_map_unhash`): it leaves before.
                if kernel.is_in_map(1 - side) && !other.is_ended() {
                    if let Err(fault) = kernel.let_go(1 - side, [to, from], other, &self.splicer) {
                        self.fail(!a_to_b, fault);
                        return Step::Blocked(Side::To);
                    }
                    // What was taken has to be written.
                    cx.waker().wake_by_ref();
                }
                kernel.set_end_passed(side);
                match sys::shutdown_write(to) {
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

    /// Takes the connections out of the kernel's hands, with everything that it held for the process. If it does not let
    /// go in time, the connections are broken visibly rather than left with a gap.
    pub(super) fn leave_kernel(&mut self) {
        let Some(mut kernel) = self.kernel.take() else {
            return;
        };
        let sockets = [self.a, self.b];
        let deadline = Instant::now() + LEAVE_MAX;
        kernel.stop(sockets);
        let is_drained = loop {
            match kernel.backlog_bytes(sockets) {
                // What the kernel had for a connection that is gone is gone with it.
                None | Some(0) => break true,
                Some(_) if Instant::now() > deadline => break false,
                Some(_) => std::thread::sleep(LEAVE_LOOK),
            }
        };
        if !is_drained || !self.take_back(&mut kernel) {
            self.splicer.counters().socket_broken.add(1);
            for socket in sockets {
                let _ = tcp::reset_on_close(socket);
            }
        }
        kernel.finish(
            [&mut self.a_to_b, &mut self.b_to_a],
            self.splicer.counters(),
        );
    }

    /// Takes both sockets out. False if one did not come out whole.
    fn take_back(&mut self, kernel: &mut Kernel) -> bool {
        let mut is_whole = true;
        for a_to_b in [true, false] {
            let side = usize::from(!a_to_b);
            let ends = self.ends(a_to_b);
            let splicer = self.splicer.clone();
            let flow = self.flow_mut(a_to_b);
            if kernel.is_in_map(side) && !flow.is_ended() {
                is_whole &= kernel.let_go(side, ends, flow, &splicer).is_ok();
            }
        }
        is_whole
    }

    /// Counts what the kernel did, at the end.
    pub(super) fn count_kernel(&mut self) {
        if let Some(mut kernel) = self.kernel.take() {
            kernel.finish(
                [&mut self.a_to_b, &mut self.b_to_a],
                self.splicer.counters(),
            );
        }
    }
}
