//! The password hashes that htpasswd files have, told apart by how they begin.
use super::md5_crypt::{self, Md5Crypt};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha_crypt::{PasswordVerifier, ShaCrypt};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

/// The highest cost of a bcrypt hash: each step doubles the time, and this one takes some seconds.
const BCRYPT_COST_MAX: u32 = 16;
/// The most rounds of a SHA-crypt hash; they take about a second.
const SHA_CRYPT_ROUNDS_MAX: u32 = 1_000_000;

const RIGHT: &str = "make the line with `htpasswd -B FILE NAME` (bcrypt)";

/// A password hash.
pub enum PasswordHash {
    /// `$2y$`, `$2b$`, `$2a$`: as it stands in the file.
    Bcrypt(String),
    /// `$apr1$`, `$1$`
    Md5Crypt(Md5Crypt),
    /// `$5$`, `$6$`: as it stands in the file.
    ShaCrypt(String),
    /// `{SHA}`
    Sha1([u8; 20]),
}

impl PasswordHash {
    /// Reads a hash.
    ///
    /// # Errors
    /// What is wrong with it, to be said behind "the password hash", and what would be right.
    pub fn parse(text: &str) -> Result<Self, (&'static str, &'static str)> {
        if let Some(rest) = text.strip_prefix("{SHA}") {
            let bytes = STANDARD
                .decode(rest)
                .ok()
                .and_then(|bytes| bytes.try_into().ok());
            return bytes
                .map(Self::Sha1)
                .ok_or(("begins with {SHA} and is damaged", RIGHT));
        }
        if text.starts_with("$apr1$") || text.starts_with("$1$") {
            return Md5Crypt::parse(text)
                .map(Self::Md5Crypt)
                .ok_or(("is not a whole MD5-crypt hash", RIGHT));
        }
        if text.starts_with("$2") {
            return parse_bcrypt(text);
        }
        if text.starts_with("$5$") || text.starts_with("$6$") {
            return parse_sha_crypt(text);
        }
        if text.starts_with('$') {
            return Err(("is of a kind that carrick does not know", RIGHT));
        }
        Err((
            "is missing, a plain password, or of the old DES kind; carrick takes none of these",
            RIGHT,
        ))
    }

    /// Whether it is the hash of this password.
    pub fn is_of(&self, password: &[u8]) -> bool {
        match self {
            // C libraries end a password at a zero byte: what begins like the password would be right.
            Self::Bcrypt(hash) => {
                !password.contains(&0)
                    && str::from_utf8(password)
                        .is_ok_and(|text| bcrypt::verify(text, hash).unwrap_or(false))
            }
            Self::Md5Crypt(hash) => hash.is_of(password),
            Self::ShaCrypt(hash) => ShaCrypt::default()
                .verify_password(password, hash.as_str())
                .is_ok(),
            Self::Sha1(hash) => bool::from(Sha1::digest(password).as_slice().ct_eq(hash)),
        }
    }
}

fn parse_bcrypt(text: &str) -> Result<PasswordHash, (&'static str, &'static str)> {
    let parts: bcrypt::HashParts = text
        .parse()
        .map_err(|_| ("is not a whole bcrypt hash", RIGHT))?;
    if parts.get_cost() > BCRYPT_COST_MAX {
        return Err((
            "has a cost above 16, which takes too long for each new client",
            "make it with `htpasswd -B -C 12`",
        ));
    }
    Ok(PasswordHash::Bcrypt(text.to_owned()))
}

/// `$6$[rounds=N$]salt$hash`, with a salt of up to 16 characters (Drepper, "Unix crypt using SHA-256 and SHA-512").
fn parse_sha_crypt(text: &str) -> Result<PasswordHash, (&'static str, &'static str)> {
    const SALT_BYTES_MAX: usize = 16;
    let damaged = ("is not a whole SHA-crypt hash", RIGHT);
    let fields: Vec<&str> = text.split('$').skip(1).collect();
    let (kind, rounds, salt, hash) = match fields[..] {
        [kind, salt, hash] => (kind, None, salt, hash),
        [kind, rounds, salt, hash] => (
            kind,
            Some(rounds.strip_prefix("rounds=").ok_or(damaged)?),
            salt,
            hash,
        ),
        _ => return Err(damaged),
    };
    let hash_bytes = if kind == "5" { 43 } else { 86 };
    if salt.len() > SALT_BYTES_MAX
        || hash.len() != hash_bytes
        || !hash.bytes().all(md5_crypt::is_digit)
    {
        return Err(damaged);
    }
    let rounds = rounds
        .map_or(Ok(0), str::parse::<u32>)
        .map_err(|_| damaged)?;
    if rounds > SHA_CRYPT_ROUNDS_MAX {
        return Err((
            "has more than 1000000 rounds, which takes too long for each new client",
            RIGHT,
        ));
    }
    Ok(PasswordHash::ShaCrypt(text.to_owned()))
}
