//! The engine `socket` as an exchange sees it: attaching, the process's part meanwhile, detaching.

use super::chatter::RUN_BYTES_MAX;
use super::pair::Pair;
use super::{Attach, Detach, KernelEngine, Polled};
use crate::engine::sockmap::joint::Refusal;
use crate::relay::flow::Step;
use crate::relay::sockmap_splice::{Gate, SockmapSplice};
use crate::{Choice, Fault, Reason, Side, sys};
use std::io::ErrorKind;
use std::task::{Context, Poll};

/// Two connections that the engine has, or is to get.
pub(crate) struct Sockmap {
    splice: Option<Box<SockmapSplice>>,
    /// The policy chose it for chatter: longer runs go through the process.
    is_for_chatter: bool,
}

impl Sockmap {
    pub(crate) fn new(pair: &mut Pair<'_>, is_for_chatter: bool) -> Sockmap {
        for flow in &mut pair.flows {
            // With the kernel's part, an end takes more than passing it on.
            flow.set_pass_end(false);
        }
        Sockmap {
            splice: None,
            is_for_chatter,
        }
    }

    /// The splice in the kernel.
    pub(crate) fn splice(&self) -> Option<&SockmapSplice> {
        self.splice.as_deref()
    }

    /// Likewise.
    pub(crate) fn splice_mut(&mut self) -> Option<&mut SockmapSplice> {
        self.splice.as_deref_mut()
    }

    /// Whether the process had to help, and the kernel has nothing in flight that detaching would wait for.
    pub(crate) fn is_bulk(&self, pair: &Pair<'_>) -> bool {
        let (Some(splice), Some([a, b])) = (&self.splice, &pair.legs) else {
            return false;
        };
        splice.needs_help() && splice.is_idle([a, b])
    }

    /// Whether the kernel has nothing in flight.
    pub(super) fn is_quiet(&self, pair: &Pair<'_>) -> bool {
        match (&self.splice, &pair.legs) {
            (None, _) => true,
            (Some(splice), Some([a, b])) => splice.backlog_bytes([a, b]) == Some(0),
            (Some(_), None) => false,
        }
    }

    /// See [`Attachment::before_relay`](super::Attachment::before_relay).
    pub(super) fn before_relay(
        &mut self,
        cx: &mut Context<'_>,
        pair: &mut Pair<'_>,
        side: usize,
    ) -> Option<Step> {
        let (Some(splice), Some(legs)) = (&mut self.splice, &pair.legs) else {
            return None;
        };
        let ends = [&*legs[side], &*legs[1 - side]];
        let flow = &mut pair.flows[side];
        if splice.is_letting_go(side) {
            match splice.poll_let_go(cx, side, ends, flow, &pair.splicer) {
                Poll::Pending => return Some(Step::Blocked(Side::From)),
                Poll::Ready(Err(fault)) => return Some(Step::Fault(fault)),
                Poll::Ready(Ok(())) => {}
            }
        }
        splice.watch_window(side, flow, ends[0], pair.splicer.counters());
        match splice.gate(cx, side, ends, flow) {
            Gate::Open => None,
            Gate::Quiet => Some(Step::Blocked(Side::From)),
            Gate::Wait => Some(Step::Blocked(Side::To)),
            Gate::Fault(fault) => Some(Step::Fault(fault)),
        }
    }

    /// Counts what the kernel has moved since the last count.
    pub(super) fn finish(&mut self, pair: &mut Pair<'_>) {
        if let Some(mut splice) = self.splice.take() {
            let flows = &mut pair.flows.each_mut();
            splice.finish(flows, pair.splicer.counters());
        }
    }
}

impl KernelEngine for Sockmap {
    /// Succeeds when nothing is held and no direction has ended.
    fn attach(&mut self, _cx: &mut Context<'_>, pair: &mut Pair<'_>, steps: &[Step; 2]) -> Attach {
        let has_ended = steps.iter().any(|step| matches!(step, Step::Ended(_)));
        let is_quiet = (steps.iter()).all(|step| matches!(step, Step::Blocked(Side::From)));
        let Some([a, b]) = &pair.legs else {
            return Attach::Later;
        };
        if pair.failed.is_some() || !(has_ended || is_quiet) {
            return Attach::Later;
        }
        let joined = if has_ended {
            Err(Refusal::Kernel(ErrorKind::UnexpectedEof.into()))
        } else {
            let flows = &mut pair.flows.each_mut();
            SockmapSplice::join(&pair.splicer, [a, b], flows, pair.label)
        };
        let reason = match joined {
            Ok(Some(splice)) => {
                if self.is_for_chatter {
                    splice.leave_runs_to_the_process(RUN_BYTES_MAX);
                }
                for flow in &mut pair.flows {
                    // The process copies what the kernel leaves to it.
                    flow.set_choice(Choice::Socket);
                }
                self.splice = Some(Box::new(splice));
                pair.splicer.counters().socket_stays.add(1);
                return Attach::Done;
            }
            Ok(None) => return Attach::Again,
            Err(Refusal::Broken(side, fault)) => {
                pair.fail(side, fault);
                return Attach::Refused(None);
            }
            Err(Refusal::Full) => Reason::SocketFull,
            Err(Refusal::Kernel(_)) => Reason::SocketRefused,
        };
        pair.relay_alone();
        // The policy chose it: an end that came first is no refusal.
        let is_refusal = !self.is_for_chatter || !has_ended;
        Attach::Refused(is_refusal.then_some(reason))
    }

    fn poll(&mut self, cx: &mut Context<'_>, _pair: &mut Pair<'_>) -> Polled {
        if let Some(splice) = &mut self.splice {
            splice.listen(cx);
        }
        Polled::Going
    }

    fn detach(&mut self, cx: &mut Context<'_>, pair: &mut Pair<'_>) -> Detach {
        if let (Some(splice), Some([a, b])) = (&mut self.splice, &pair.legs) {
            let flows = &mut pair.flows.each_mut();
            match splice.poll_leave(cx, [a, b], flows, &pair.splicer) {
                Poll::Pending => return Detach::Wait,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(fault)) => pair.fail(0, fault),
            }
        }
        self.splice = None;
        Detach::Parted
    }

    /// Reports to the kernel what was relayed, and passes on a FIN.
    fn after_relay(
        &mut self,
        cx: &mut Context<'_>,
        pair: &mut Pair<'_>,
        side: usize,
        step: Step,
    ) -> Step {
        let (Some(splice), Some(legs)) = (&mut self.splice, &pair.legs) else {
            return step;
        };
        let [from, to] = [&*legs[side], &*legs[1 - side]];
        let splicer = &pair.splicer;
        splice.settle(side, &mut pair.flows[side], splicer.counters());
        match step {
            Step::Blocked(Side::From) if pair.flows[side].take_ended_early() => {
                match splice.early_end(cx, from) {
                    Some(fault) => Step::Fault(fault),
                    None => Step::Blocked(Side::From),
                }
            }
            Step::Blocked(Side::From) if splice.is_in_map(side) && !splice.allow(side) => {
                // The kernel could not take one socket: the other is taken back.
                splicer.counters().reason(Reason::SocketRefused).add(1);
                match splice.poll_let_go(cx, side, [from, to], &mut pair.flows[side], splicer) {
                    Poll::Pending => step,
                    Poll::Ready(Ok(())) => {
                        cx.waker().wake_by_ref();
                        Step::Yield
                    }
                    Poll::Ready(Err(fault)) => Step::Fault(fault),
                }
            }
            Step::Ended(ended) if pair.failed.is_none() && !splice.is_end_passed(side) => {
                // A socket in the map that has sent its FIN and receives the peer's would lose what was left
                // to the process (`tcp_time_wait`, `sock_map_unhash`): it leaves first.
                let is_to_go = splice.is_in_map(1 - side) || splice.is_letting_go(1 - side);
                let other = &mut pair.flows[1 - side];
                if is_to_go && !other.is_ended() {
                    match splice.poll_let_go(cx, 1 - side, [to, from], other, splicer) {
                        Poll::Pending => return Step::Blocked(Side::To),
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(fault)) => {
                            pair.fail(1 - side, fault);
                            return Step::Blocked(Side::To);
                        }
                    }
                    // What was taken must be written.
                    cx.waker().wake_by_ref();
                }
                splice.set_end_passed(side);
                match sys::shutdown_write(to) {
                    Ok(()) => Step::Ended(ended),
                    Err(source) => Step::Fault(Fault::new(Side::To, "shutdown", source)),
                }
            }
            step => step,
        }
    }

    fn bytes_beside_live(&self, pair: &Pair<'_>) -> Option<[u64; 2]> {
        let splice = self.splice()?;
        Some([0, 1].map(|side| pair.flows[side].relayed_bytes() + splice.forwarded_before(side)))
    }
}
