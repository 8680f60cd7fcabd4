//! MD5-crypt as `htpasswd -m` (`$apr1$`) and older `crypt(3)` (`$1$`) make it: a thousand rounds of MD5 over password and salt.
//!
//! Own code because the crates that have it are not kept up, or lack the `apr1` form.
use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

const ROUNDS: usize = 1000;
const SALT_BYTES_MAX: usize = 8;
const HASH_DIGITS: usize = 22;
/// The digits of `crypt(3)`, which are not those of base64.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The order in which the digest's bytes are written, three to four digits; the last one alone to two.
const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
const ORDER_LAST: usize = 11;

/// A hash as it stands in the file, taken apart.
pub struct Md5Crypt {
    magic: &'static str,
    salt: String,
    digits: String,
}

/// Whether a byte is a digit of `crypt(3)`.
pub fn is_digit(byte: u8) -> bool {
    DIGITS.contains(&byte)
}

impl Md5Crypt {
    /// Reads `$apr1$salt$hash` or `$1$salt$hash`.
    pub fn parse(text: &str) -> Option<Self> {
        let magic = ["$apr1$", "$1$"]
            .into_iter()
            .find(|magic| text.starts_with(magic))?;
        let (salt, digits) = text.strip_prefix(magic)?.split_once('$')?;
        let is_whole = salt.len() <= SALT_BYTES_MAX
            && digits.len() == HASH_DIGITS
            && digits.bytes().all(is_digit);
        is_whole.then(|| Self {
            magic,
            salt: salt.to_owned(),
            digits: digits.to_owned(),
        })
    }

    /// Whether it is the hash of this password.
    pub fn is_of(&self, password: &[u8]) -> bool {
        let digest = compute(self.magic.as_bytes(), self.salt.as_bytes(), password);
        bool::from(write(&digest).as_bytes().ct_eq(self.digits.as_bytes()))
    }
}

fn compute(magic: &[u8], salt: &[u8], password: &[u8]) -> [u8; 16] {
    let inner = Md5::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password)
        .finalize();
    let mut first = Md5::new()
        .chain_update(password)
        .chain_update(magic)
        .chain_update(salt);
    for piece in password.chunks(inner.len()) {
        first.update(inner.get(..piece.len()).unwrap_or_default());
    }
    // For each bit of the length, from the lowest: a zero byte for a one, the first byte of the password for a zero.
    let mut length = password.len();
    while length != 0 {
        first.update(if length & 1 == 1 {
            &[0]
        } else {
            password.get(..1).unwrap_or_default()
        });
        length >>= 1;
    }
    let mut digest: [u8; 16] = first.finalize().into();
    for round in 0..ROUNDS {
        let mut next = Md5::new();
        let is_odd = round % 2 == 1;
        next.update(if is_odd { password } else { &digest });
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(if is_odd { &digest } else { password });
        digest = next.finalize().into();
    }
    digest
}

fn write(digest: &[u8; 16]) -> String {
    let mut text = String::with_capacity(HASH_DIGITS);
    let mut push = |mut number: u32, count: usize| {
        for _ in 0..count {
            text.push(char::from(DIGITS[(number & 63) as usize]));
            number >>= 6;
        }
    };
    for [high, middle, low] in ORDER {
        push(
            u32::from(digest[high]) << 16 | u32::from(digest[middle]) << 8 | u32::from(digest[low]),
            4,
        );
    }
    push(u32::from(digest[ORDER_LAST]), 2);
    text
}
