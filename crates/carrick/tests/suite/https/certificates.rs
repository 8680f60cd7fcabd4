//! Certificates that openssl makes: an authority, and what it issues.
use crate::clients::tool::{Tool, has_all};
use crate::support::Place;
use std::path::PathBuf;

/// The kind of a key.
#[derive(Debug, Clone, Copy)]
pub enum Key {
    /// ECDSA with P-256.
    Ec,
    /// ECDSA with P-521.
    Ec521,
    /// RSA with 2048 bits.
    Rsa,
}

impl Key {
    fn words(self) -> &'static str {
        match self {
            Self::Ec => "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes",
            Self::Ec521 => "-newkey ec -pkeyopt ec_paramgen_curve:secp521r1 -nodes",
            Self::Rsa => "-newkey rsa:2048 -nodes",
        }
    }
}

/// Creates `ca.pem`, an authority; false, with a visible message, if openssl is missing.
pub fn make_authority(place: &Place) -> bool {
    has_all(&["openssl", "curl"]) && {
        make_other_authority(place, "ca");
        true
    }
}

/// A place with an authority, and `server.pem` for `a.example`; `None`, with a visible message, if openssl is missing.
pub fn certified() -> Option<Place> {
    certified_for(|_| "DNS:a.example".to_owned())
}

/// The same, for the place's address.
pub fn certified_by_address() -> Option<Place> {
    certified_for(|place| format!("IP:{}", place.ip()))
}

fn certified_for(names: impl FnOnce(&Place) -> String) -> Option<Place> {
    let place = Place::claim();
    make_authority(&place).then(|| {
        issue(&place, "server", &names(&place), Key::Ec);
        place
    })
}

/// Creates `NAME.pem` and `NAME.key`, another authority.
pub fn make_other_authority(place: &Place, name: &str) {
    Tool::new("openssl", place)
        .words(&format!(
            "req -x509 -subj /CN={name} -days 2 -keyout {name}.key -out {name}.pem"
        ))
        .words(Key::Ec.words())
        .words("-addext keyUsage=critical,keyCertSign,cRLSign")
        .expect();
}

/// The same, an authority whose certificate has version 1 of X.509, if the openssl here still makes such.
pub fn make_old_authority(place: &Place, name: &str) {
    Tool::new("openssl", place)
        .words(&format!(
            "req -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ))
        .words(Key::Ec.words())
        .expect();
    Tool::new("openssl", place)
        .words(&format!(
            "x509 -req -in {name}.csr -signkey {name}.key -days 2 -out {name}.pem"
        ))
        .expect();
}

/// Issues `FILE.pem` and `FILE.key` for these names, such as `DNS:a.example`.
pub fn issue(place: &Place, file: &str, names: &str, key: Key) {
    issue_by(place, "ca", (file, &format!("/CN={file}")), names, key);
}

/// The same for a client, with this subject.
pub fn issue_for_client(place: &Place, authority: &str, file: &str, subject: &str) {
    issue_by(
        place,
        authority,
        (file, subject),
        "DNS:client.invalid",
        Key::Ec,
    );
}

/// Signs the same anew, with this serial number.
pub fn number(place: &Place, file: &str, serial: &str) {
    sign(place, "ca", file, &format!("-set_serial {serial}"));
}

fn issue_by(place: &Place, authority: &str, (file, subject): (&str, &str), names: &str, key: Key) {
    place.write(
        &format!("{file}.ext"),
        &format!(
            "subjectAltName={names}\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n\
             basicConstraints=critical,CA:FALSE\n"
        ),
    );
    Tool::new("openssl", place)
        .words("req -utf8 -subj")
        .word(subject)
        .words(&format!("-keyout {file}.key -out {file}.csr"))
        .words(key.words())
        .expect();
    sign(place, authority, file, "-CAcreateserial");
}

fn sign(place: &Place, authority: &str, file: &str, serial: &str) {
    Tool::new("openssl", place)
        .words(&format!(
            "x509 -req -in {file}.csr -CA {authority}.pem -CAkey {authority}.key {serial} -days 2"
        ))
        .words(&format!("-extfile {file}.ext -out {file}.pem"))
        .expect();
}

/// Issues a server's `FILE.pem` and `FILE.key` that were valid for a day, long ago.
pub fn issue_expired(place: &Place, file: &str, names: &str) {
    issue_until(place, file, names, "20200102000000Z");
}

/// The same, valid until this time, as openssl reads it; for a client, too.
pub fn issue_until(place: &Place, file: &str, names: &str, end: &str) {
    issue(place, file, names, Key::Ec);
    place.write(
        "expired.cnf",
        "[ca]\ndefault_ca=d\n[d]\nnew_certs_dir=.\ndatabase=index.txt\nserial=serial.txt\npolicy=p\ndefault_md=sha256\n[p]\ncommonName=supplied\n",
    );
    place.write("index.txt", "");
    place.write("serial.txt", "01\n");
    Tool::new("openssl", place)
        .words("ca -batch -notext -config expired.cnf -cert ca.pem -keyfile ca.key")
        .words(&format!("-startdate 20200101000000Z -enddate {end}"))
        .words(&format!(
            "-in {file}.csr -extfile {file}.ext -out {file}.pem"
        ))
        .expect();
}

/// A file of the test.
pub fn file(place: &Place, name: &str) -> PathBuf {
    place.directory().join(name)
}
