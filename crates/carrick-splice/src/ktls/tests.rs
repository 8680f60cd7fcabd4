//! Keys as the kernel has them, and nonces of TLS 1.2; the self-test.
use super::keys::{crypto_info, first_nonce};
use super::*;
use proptest::prelude::*;

const IV: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

#[test]
fn each_suite_has_its_bit() {
    let bits = Suite::ALL.map(Suite::bit);
    assert_eq!(bits.iter().fold(0, |all, bit| all | bit), 0b11_1111);
    assert!(bits.iter().all(|bit| bit.count_ones() == 1));
}

#[test]
fn keys_are_laid_out_as_the_kernel_has_them() {
    let layout = |version, cipher: Cipher, direction| {
        let key = vec![0xee; cipher.key_bytes()];
        let keys = Keys {
            key: &key,
            iv: &IV,
            sequence: 0x0102,
        };
        crypto_info(Suite::new(version, cipher), direction, &keys)
            .unwrap()
            .to_vec()
    };
    let head = |version: u16, cipher: u16| [version.to_ne_bytes(), cipher.to_ne_bytes()].concat();
    let sequence = [0, 0, 0, 0, 0, 0, 1, 2];
    assert_eq!(
        layout(Version::Tls13, Cipher::Aes128Gcm, Direction::Send),
        [
            &*head(0x304, 51),
            &IV[4..],
            &[0xee; 16],
            &IV[..4],
            &sequence
        ]
        .concat()
    );
    assert_eq!(
        layout(Version::Tls12, Cipher::Aes256Gcm, Direction::Receive),
        [
            &*head(0x303, 52),
            &IV[4..],
            &[0xee; 32],
            &IV[..4],
            &sequence
        ]
        .concat()
    );
    assert_eq!(
        layout(Version::Tls12, Cipher::ChaCha20Poly1305, Direction::Send),
        [&*head(0x303, 54), &IV, &[0xee; 32], &sequence].concat()
    );
    let first = [0x80, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(
        layout(Version::Tls12, Cipher::Aes128Gcm, Direction::Send),
        [&*head(0x303, 51), &first, &[0xee; 16], &IV[..4], &sequence].concat()
    );
}

#[test]
fn a_key_of_another_length_is_refused() {
    let keys = Keys {
        key: &[0; 16],
        iv: &IV,
        sequence: 0,
    };
    let suite = Suite::new(Version::Tls13, Cipher::Aes256Gcm);
    assert!(crypto_info(suite, Direction::Send, &keys).is_err());
}

proptest! {
    /// The process has sent `sequence` records, XORing their numbers into the nonce; the kernel counts.
    #[test]
    fn no_nonce_of_tls_1_2_comes_twice(rest: u64, before in 0..1_u64 << 63, after in 0..1_u64 << 63) {
        let first = u64::from_be_bytes(first_nonce(rest.to_be_bytes()));
        prop_assert_ne!(rest ^ before, first.checked_add(after).unwrap());
    }
}

#[test]
fn the_kernel_encrypts_and_decrypts_what_its_module_takes() {
    match self_test::run() {
        Ok(suites) => assert_eq!(suites, Suite::ALL),
        Err(error) => carrick_test::lacks!("{}", explain(&error)),
    }
}

#[test]
fn a_connection_without_a_record_type_is_no_tls() {
    use std::io::Write;
    let (mut near, far) = crate::loopback::connection().unwrap();
    near.write_all(b"plain").unwrap();
    far.peek(&mut [0]).unwrap();
    let mut buffer = Vec::with_capacity(10);
    let error = receive(&far, &mut buffer, 10).unwrap_err();
    assert_eq!(
        (error.kind(), buffer.len()),
        (io::ErrorKind::InvalidData, 0)
    );
}
