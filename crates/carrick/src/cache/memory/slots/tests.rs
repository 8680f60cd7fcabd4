//! A lent slot gets new pages; another one is used as it is.
use super::*;

fn fill(slot: &Slot, byte: u8) {
    for cell in slot.cells() {
        #[expect(unsafe_code, reason = "cells are written so")]
        // SAFETY: the slot is this thread's alone.
        unsafe {
            (*cell.get()).write(byte);
        }
    }
}

#[test]
fn the_bytes_of_a_lent_slot_stay_as_long_as_a_pipe_has_them() {
    let (read, write) = rustix::pipe::pipe().unwrap();
    let slot = Slot::take().unwrap();
    fill(&slot, 1);
    slot.lend();
    #[expect(unsafe_code, reason = "the kernel refers to the bytes after the call")]
    // SAFETY: they are initialised; that they stay is what is tested.
    let lent = unsafe {
        let bytes = slice::from_raw_parts(slot.start.0.as_ptr().cast::<u8>(), 8192);
        let pieces = [rustix::pipe::IoSliceRaw::from_slice(bytes)];
        rustix::pipe::vmsplice(&write, &pieces, rustix::pipe::SpliceFlags::empty()).unwrap()
    };
    assert_eq!(lent, 8192);
    let start = slot.start.0;
    drop(slot);
    // Others may take slots meanwhile, but as many as these have no pages, or this one.
    let taken: Vec<_> = (0..300).map(|_| Slot::take().unwrap()).collect();
    for slot in &taken {
        fill(slot, 2);
    }
    let is_used_again = taken.iter().any(|slot| slot.start.0 == start);
    assert!(is_used_again || free().without.len() + KEPT_MAX > 300);
    let mut bytes = [0; 8192];
    assert_eq!(rustix::io::read(&read, &mut bytes[..]).unwrap(), 8192);
    assert!(bytes.iter().all(|byte| *byte == 1));
}
