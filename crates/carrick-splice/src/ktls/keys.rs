//! Keys, in the form in which the kernel takes them (linux/tls.h).

use std::fmt;
use std::io;
use zeroize::Zeroizing;

/// The longest of the kernel's structures.
const INFO_BYTES_MAX: usize = 56;

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// How records are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES in Galois/Counter mode, with keys of 16 bytes.
    Aes128Gcm,
    /// The same, with 32 bytes.
    Aes256Gcm,
    /// RFC 8439.
    ChaCha20Poly1305,
}

/// A version and a cipher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite {
    /// The version.
    pub version: Version,
    /// The cipher.
    pub cipher: Cipher,
}

/// A direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the other end.
    Send,
    /// From the other end.
    Receive,
}

/// The keys of a direction.
pub struct Keys<'a> {
    /// The cipher's key.
    pub key: &'a [u8],
    /// What nonces are made of: with the sequence number, or, for AES-GCM in TLS 1.2, with what each record carries.
    pub iv: &'a [u8; 12],
    /// The number of the next record.
    pub sequence: u64,
}

impl Suite {
    /// All that the kernel may take.
    pub const ALL: [Self; 6] = [
        Self::new(Version::Tls13, Cipher::Aes128Gcm),
        Self::new(Version::Tls13, Cipher::Aes256Gcm),
        Self::new(Version::Tls13, Cipher::ChaCha20Poly1305),
        Self::new(Version::Tls12, Cipher::Aes128Gcm),
        Self::new(Version::Tls12, Cipher::Aes256Gcm),
        Self::new(Version::Tls12, Cipher::ChaCha20Poly1305),
    ];

    /// A version and a cipher.
    #[must_use]
    pub const fn new(version: Version, cipher: Cipher) -> Self {
        Self { version, cipher }
    }

    pub(super) fn bit(self) -> u8 {
        let version = match self.version {
            Version::Tls12 => 0,
            Version::Tls13 => 3,
        };
        1 << (version + self.cipher as u8)
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = match self.version {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        };
        let cipher = match self.cipher {
            Cipher::Aes128Gcm => "AES-128-GCM",
            Cipher::Aes256Gcm => "AES-256-GCM",
            Cipher::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        };
        write!(f, "{version} {cipher}")
    }
}

impl Cipher {
    pub(super) fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    /// `TLS_CIPHER_*`.
    fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => 51,
            Self::Aes256Gcm => 52,
            Self::ChaCha20Poly1305 => 54,
        }
    }
}

/// `struct tls12_crypto_info_*`, which also serves TLS 1.3.
pub(super) fn crypto_info(
    suite: Suite,
    direction: Direction,
    keys: &Keys<'_>,
) -> io::Result<Zeroizing<Vec<u8>>> {
    if keys.key.len() != suite.cipher.key_bytes() {
        return Err(io::Error::other(format!(
            "a key of {} bytes is none for {suite}",
            keys.key.len()
        )));
    }
    let version: u16 = match suite.version {
        Version::Tls12 => 0x0303,
        Version::Tls13 => 0x0304,
    };
    // With room for all, so that no part of a key is left where it grew from.
    let mut info = Zeroizing::new(Vec::with_capacity(INFO_BYTES_MAX));
    info.extend_from_slice(&version.to_ne_bytes());
    info.extend_from_slice(&suite.cipher.number().to_ne_bytes());
    let [salt @ .., _, _, _, _, _, _, _, _] = *keys.iv;
    let [_, _, _, _, rest @ ..] = *keys.iv;
    match suite.cipher {
        Cipher::ChaCha20Poly1305 => {
            info.extend_from_slice(keys.iv);
            info.extend_from_slice(keys.key);
        }
        Cipher::Aes128Gcm | Cipher::Aes256Gcm => {
            let is_counted = suite.version == Version::Tls12 && direction == Direction::Send;
            info.extend_from_slice(&if is_counted { first_nonce(rest) } else { rest });
            info.extend_from_slice(keys.key);
            info.extend_from_slice(&salt);
        }
    }
    info.extend_from_slice(&keys.sequence.to_be_bytes());
    Ok(info)
}

/// The explicit nonce of the kernel's first record with AES-GCM in TLS 1.2 (RFC 5288 section 3); it counts up from there
/// (`tls_advance_record_sn`, net/tls/tls.h). Two records with the same nonce would betray the key. rustls has used `rest`
/// XOR the sequence number, which leaves the first bit as it is: the kernel gets the half in which it is the other way.
pub(super) fn first_nonce(rest: [u8; 8]) -> [u8; 8] {
    (!u64::from_be_bytes(rest) & 1 << 63).to_be_bytes()
}
