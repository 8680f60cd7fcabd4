//! That bodies are repeatable, and that every kind of harm to them is noticed.
use super::*;

/// A body as a server would send it, in pieces.
fn sent(seed: u64, bytes: usize, piece: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < bytes {
        let next = Body::of_seed(seed).piece(all.len() as u64, piece.min(bytes - all.len()));
        all.extend_from_slice(next);
    }
    all
}

#[test]
fn a_body_does_not_depend_on_its_pieces_and_is_found_right() {
    let whole = sent(7, 3_000_000, PIECE_BYTES_MAX);
    assert_eq!(whole, sent(7, 3_000_000, 999));
    assert_ne!(whole[..1000], sent(8, 1000, 1000)[..]);
    assert_eq!(Body::of_seed(7).first_difference(0, &whole), None);
    assert_eq!(
        Body::of_seed(7).first_difference(1234, &whole[1234..]),
        None
    );
}

#[test]
fn a_changed_a_lost_and_a_repeated_byte_are_noticed_where_they_are() {
    let right = sent(1, 100_000, 4096);
    let body = Body::of_seed(1);

    let mut changed = right.clone();
    changed[70_000] ^= 1;
    assert_eq!(body.first_difference(0, &changed), Some(70_000));

    for size in [1, 16, 512, 1448, 4096, 65_536] {
        let mut lost = right.clone();
        lost.drain(20_000..20_000 + size);
        // A byte may equal its neighbour by chance, hence not exactly at the gap.
        assert!(
            body.first_difference(0, &lost)
                .is_some_and(|at| (20_000..20_008).contains(&at)),
            "{size}"
        );

        let mut repeated = right.clone();
        repeated.splice(
            20_000 + size..20_000 + size,
            right[20_000..20_000 + size].to_vec(),
        );
        assert!(
            body.first_difference(0, &repeated)
                .is_some_and(|at| at >= 20_000 + size as u64),
            "{size}"
        );
    }
}
