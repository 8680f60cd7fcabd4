//! Even a compromised process can send nothing through the programs but deferred SYNs and their refusals.

use super::*;
use crate::engine::tc::command::{ETHERNET_HEADER, run, run_in};
use std::mem::offset_of;

/// The programs, not attached. `None` without root.
fn programs() -> Option<[OwnedFd; 2]> {
    if !carrick_test::is_root() {
        return None;
    }
    if crate::sys::release::is_before((6, 4)) {
        carrick_test::lacks!("it needs Linux 6.4 or later");
        return None;
    }
    let mut object = MaybeUninit::<OpenObject>::uninit();
    let open = skeleton::SynDeferSkelBuilder::default().open(&mut object);
    let loaded = open.unwrap().load().unwrap();
    let owned = |program: &libbpf_rs::ProgramMut<'_>| program.as_fd().try_clone_to_owned().unwrap();
    Some([
        owned(&loaded.progs.carrick_syn_decide),
        owned(&loaded.progs.carrick_syn_send),
    ])
}

/// An IPv4 packet of TCP with these flags, from port 4000 of 10.0.0.1 to port 80 of 10.0.0.2, number 7.
fn tcp(flags: u8) -> Vec<u8> {
    let mut frame = ETHERNET_HEADER.to_vec();
    frame[12..].copy_from_slice(&[8, 0]);
    frame.extend_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend_from_slice(&[15, 160, 0, 80, 0, 0, 0, 7, 0, 0, 0, 8]);
    frame.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame
}

#[test]
fn only_deferred_syns_and_answers_to_them_are_sent() {
    let Some([decide, send]) = programs() else {
        return;
    };
    let mut incoming = [0; size_of::<types::__sk_buff>()];
    let at = offset_of!(types::__sk_buff, cb);
    incoming[at..at + 4].copy_from_slice(&1_u32.to_ne_bytes());
    let (syn, rst, data) = (0x02, 0x14, 0x18);
    let mut message = tcp(0);
    message[14 + 9] = 1;
    let frames: [(&str, Vec<u8>, &[u8]); 6] = [
        ("a SYN", tcp(syn), &incoming),
        ("data", tcp(data), &incoming),
        ("a RST", tcp(rst), &[]),
        ("data", tcp(data), &[]),
        ("a message", message, &[]),
        ("no packet", ETHERNET_HEADER.to_vec(), &[]),
    ];
    for (what, frame, context) in frames {
        let sent = run_in(send.as_fd(), &frame, context).map(u32::cast_signed);
        // The kernel rejects a frame without a packet.
        assert!(
            sent.as_ref().is_ok_and(|sent| *sent == -libc::EPERM) || what == "no packet",
            "{what}: {sent:?}"
        );
    }
    // Nor can the process create an entry for a SYN that was not deferred.
    let mut decision = ETHERNET_HEADER.to_vec();
    decision.extend_from_slice(&[0; size_of::<types::syn_flow>()]);
    decision.extend_from_slice(&7_u32.to_ne_bytes());
    decision.extend_from_slice(&types::syn_state::SYN_RELEASED.0.to_ne_bytes());
    let answer = run(decide.as_fd(), &decision).unwrap();
    assert_eq!(answer, types::syn_answer::SYN_TOO_LATE.0);
}
