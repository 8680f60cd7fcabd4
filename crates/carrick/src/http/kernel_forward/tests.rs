//! Next hops and responses for this module's tables, and the rule that all of it serves.
use super::detach::{Following, Step, Waiting};
use super::*;
use crate::config::plan::{ServerAddress, UpstreamPlan};
use crate::context::destination::NextHop;
use crate::context::kernel_forward::KernelForward;
use crate::context::kernel_forward::KnownHead;
use crate::context::kernel_forward::PastResponses;
use crate::context::kernel_forward::REFUSALS_MAX;
use crate::context::request_log::RequestLog;
use crate::control::testing::upstream;
use crate::upstream::group::Group;
use crate::upstream::state::UpstreamState;
use carrick_logic::http1::Method;
use carrick_logic::http1::{HeadLimits, ResponseBody};
use carrick_splice::ResponseProgress;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// An upstream with as many servers.
pub(super) fn group(servers: u16, change: impl FnOnce(&mut UpstreamPlan)) -> Rc<Group> {
    let addresses: Vec<SocketAddr> = (1..=servers)
        .map(|port| ([127, 0, 0, 1], port).into())
        .collect();
    let mut plan = upstream("u", &addresses, None);
    change(&mut plan);
    let states = UpstreamState::for_plan(&[Arc::new(plan)], &[]);
    Rc::new(Group::new(Arc::clone(&states[0]), 1, None))
}

pub(super) fn to_group(group: &Rc<Group>) -> NextHop {
    NextHop::Group {
        group: Rc::clone(group),
        index: 7,
    }
}

pub(super) fn to_origin(name: &str) -> NextHop {
    NextHop::Origin {
        server: ServerAddress::Ip(([127, 0, 0, 1], 80).into()),
        key: name.as_bytes().into(),
        parent: false,
        tls: None,
    }
}

/// A response's head of 100 bytes.
pub(super) fn head(body: ResponseBody) -> KnownHead {
    KnownHead {
        head_bytes: 100,
        status: 200,
        body,
        keep_alive: true,
        is_interim: false,
    }
}

pub(super) fn pending(known: Option<KnownHead>) -> Pending {
    Pending {
        known,
        ..Pending::new(RequestLog::begin(), Method::Get, true)
    }
}

#[test]
fn a_client_that_is_refused_thrice_is_left_to_the_process_until_something_changes() {
    let mut kernel_forward = KernelForward::default();
    assert!(!kernel_forward.is_worth_it(), "it may ask only once");
    kernel_forward.is_persistent = true;
    for refusals in 0..5 {
        assert_eq!(kernel_forward.is_worth_it(), refusals < REFUSALS_MAX);
        assert_eq!(kernel_forward.is_hopeless(), refusals >= REFUSALS_MAX);
        kernel_forward.refused();
    }
    kernel_forward.start_afresh();
    assert!(kernel_forward.is_worth_it());
}

/// Each way in which a response can have come, and in which its server's connection can be left.
#[test]
fn another_client_gets_a_connection_only_if_nothing_of_the_last_response_can_follow() {
    const BOTH: [bool; 2] = [false, true];
    const LIMITS: HeadLimits = HeadLimits {
        head_bytes_max: 8192,
        fields_max: 100,
    };
    // And how many bytes there are behind the head, if that is certain.
    let heads = [
        ("", None),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", None),
        ("HTTP/1.1 204 No Content\r\n\r\n", Some(0)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Some(5)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            None,
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", None),
        // No other request may follow.
        (
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
            None,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", None),
    ];
    let mut responses = Vec::new();
    for (text, length) in heads {
        for body_bytes in [0, 4, 5, 6] {
            for unacked_bytes in [0, 1] {
                for tail in ["0\r\n\r\n", "x\r\n\r\n", "hello"] {
                    let sent_bytes = text.len() as u64 + body_bytes;
                    let progress = ResponseProgress {
                        sent_bytes,
                        acked_bytes: sent_bytes.saturating_sub(unacked_bytes),
                    };
                    let is_whole = length == Some(body_bytes) && unacked_bytes == 0;
                    responses.push((text, progress, tail, is_whole));
                }
            }
        }
    }
    let mut reused = 0;
    for (text, progress, tail, is_whole) in responses {
        // Whether all before was certain; the client has ended, or asks something else; the server was told that nothing more is asked.
        for flags in 0..32 {
            let [is_trusted, is_last, is_told, has_pipelined, is_silent] =
                [1, 2, 4, 8, 16].map(|flag| flags & flag != 0);
            let mut past = PastResponses::CLEAN;
            past.is_exact = is_trusted;
            let mut under_way = Some(Pending::new(RequestLog::begin(), Method::Get, is_trusted));
            let state = under_way
                .as_mut()
                .map_or(ResponseState::NotBegun, |pending| {
                    pending.state(progress, &LIMITS, || text.into(), || tail.into(), None)
                });
            let waiting = Waiting {
                following: [Following::NextResponse, Following::Anything][usize::from(is_last)],
                is_certain: past.is_certain(under_way.as_ref()),
                is_told,
                has_pipelined,
                quiet: [Duration::ZERO, Duration::MAX][usize::from(is_silent)],
            };
            if let Step::Over { is_exact } = waiting.step(state) {
                past.add(under_way.take().as_ref(), is_exact);
            }
            let is_certain = is_whole && is_trusted && !is_told;
            for disarmed in [Disarmed::Done, Disarmed::Behind, Disarmed::Lost] {
                for unacknowledged_bytes in [Some(0), Some(1), None] {
                    for (has_server_ended, is_quiet) in BOTH
                        .into_iter()
                        .flat_map(|it| BOTH.map(|other| (it, other)))
                    {
                        let at_rest = AtRest {
                            disarmed,
                            is_over: under_way.is_none(),
                            is_exact: past.is_exact,
                            has_server_ended,
                            unacknowledged_bytes,
                            is_quiet,
                        };
                        let wanted = is_certain
                            && disarmed == Disarmed::Done
                            && unacknowledged_bytes == Some(0)
                            && !has_server_ended
                            && is_quiet;
                        let may_be_reused = at_rest.may_be_reused();
                        assert_eq!(
                            may_be_reused, wanted,
                            "{text:?} {progress:?} {tail:?} {waiting:?} {at_rest:?}"
                        );
                        reused += usize::from(may_be_reused);
                    }
                }
            }
        }
    }
    // Two heads that say where the response ends, each with any tail, client and silence.
    assert_eq!(reused, 2 * 3 * 8);
}
