//! An OCSP response for a certificate (RFC 6960 section 4.2): it is stapled as long as it says that the certificate is good.
use super::pem::{read, whole};
use crate::config::problem::{Problem, Severity};
use std::path::Path;
use std::time::SystemTime;
use x509_cert::Certificate;
use x509_cert::der::asn1::{AnyRef, GeneralizedTime};
use x509_cert::der::{Decode, Reader, SliceReader, Tag, Tagged};

/// What a file has.
#[derive(Debug)]
pub struct Ocsp {
    bytes: Vec<u8>,
    answers: Vec<Answer>,
}

/// What is said of one certificate.
#[derive(Debug)]
struct Answer {
    serial: Vec<u8>,
    /// Neither revoked nor unknown.
    is_good: bool,
    until: Option<SystemTime>,
}

impl Ocsp {
    /// Reads a file.
    ///
    /// # Errors
    /// It has no successful response.
    pub fn read(path: &Path) -> Result<Self, Box<Problem>> {
        let bytes = read(path, "OCSP")?;
        let Some(answers) = answers(&bytes) else {
            return Err(whole(
                format!(
                    "the OCSP file {} is no successful OCSP response",
                    path.display()
                ),
                "write it with `openssl ocsp … -respout FILE`",
            ));
        };
        Ok(Self { bytes, answers })
    }

    /// The response, if clients of this certificate may get it, and until when.
    ///
    /// # Errors
    /// Why they may not, as a warning.
    pub fn of(
        self,
        certificate: &Certificate,
        path: &Path,
    ) -> Result<(Vec<u8>, Option<SystemTime>), Box<Problem>> {
        let serial = without_zeros(certificate.tbs_certificate().serial_number().as_bytes());
        let answer = (self.answers.iter()).find(|answer| without_zeros(&answer.serial) == serial);
        let why = match answer {
            None => "is about another certificate",
            Some(answer) if !answer.is_good => "does not say that the certificate is good",
            Some(answer) if answer.until.is_some_and(|until| until <= SystemTime::now()) => {
                "has expired"
            }
            Some(answer) => return Ok((self.bytes, answer.until)),
        };
        let mut problem = whole(
            format!("the OCSP response in {} {why}", path.display()),
            "clients do not get it; write a new one with `openssl ocsp … -respout FILE`",
        );
        problem.severity = Severity::Warning;
        Err(problem)
    }
}

/// The answers of a successful response.
fn answers(bytes: &[u8]) -> Option<Vec<Answer>> {
    let response = elements(AnyRef::from_der(bytes).ok()?)?;
    let (status, basic) = (response.first()?, response.get(1)?);
    if status.tag() != Tag::Enumerated || status.value() != [0] {
        return None;
    }
    let typed = elements(*elements(*basic)?.first()?)?;
    let basic = elements(AnyRef::from_der(typed.get(1)?.value()).ok()?)?;
    let data = elements(*basic.first()?)?;
    // Behind version and responder, which have tags of their own.
    let list = data.iter().find(|one| one.tag() == Tag::Sequence)?;
    elements(*list)?.into_iter().map(answer).collect()
}

fn answer(single: AnyRef<'_>) -> Option<Answer> {
    let parts = elements(single)?;
    let [id, status, _from, rest @ ..] = &parts[..] else {
        return None;
    };
    let until = match rest.first().filter(|next| is_own(next.tag(), 0)) {
        Some(next) => {
            let time: GeneralizedTime = elements(*next)?.first()?.decode_as().ok()?;
            Some(time.to_system_time())
        }
        None => None,
    };
    Some(Answer {
        serial: elements(*id)?.last()?.value().to_vec(),
        is_good: is_own(status.tag(), 0),
        until,
    })
}

fn is_own(tag: Tag, wanted: u32) -> bool {
    matches!(tag, Tag::ContextSpecific { number, .. } if number.value() == wanted)
}

/// What a value is made of.
fn elements(value: AnyRef<'_>) -> Option<Vec<AnyRef<'_>>> {
    let mut reader = SliceReader::new(value.value()).ok()?;
    let mut found = Vec::new();
    while !reader.is_finished() {
        found.push(AnyRef::decode(&mut reader).ok()?);
    }
    Some(found)
}

fn without_zeros(mut number: &[u8]) -> &[u8] {
    while let [0, rest @ ..] = number {
        number = rest;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_response_has_no_answers() {
        // The authority may also say that it is internally in trouble (2), or a length may be wrong.
        for bytes in [
            &b""[..],
            b"0\x03\x0a\x01\x02",
            b"0\x03\x0a\x01\x00",
            b"0\x7f\x0a",
            b"\xff",
        ] {
            assert!(answers(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn only_what_is_good_and_in_time_is_stapled() {
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let certificate = Certificate::from_der(made.cert.der()).unwrap();
        let serial = certificate.tbs_certificate().serial_number().as_bytes();
        let hour = std::time::Duration::from_secs(3600);
        let (past, to_come) = (SystemTime::now() - hour, SystemTime::now() + hour);
        let of = |is_good, until| {
            let answer = Answer {
                serial: [&[0], serial].concat(),
                is_good,
                until,
            };
            let read = Ocsp {
                bytes: vec![7],
                answers: vec![answer],
            };
            read.of(&certificate, Path::new("ocsp.der"))
        };
        assert_eq!(of(true, Some(to_come)).unwrap(), (vec![7], Some(to_come)));
        assert_eq!(of(true, None).unwrap(), (vec![7], None));
        of(false, Some(to_come)).unwrap_err();
        let why = of(true, Some(past)).unwrap_err();
        assert_eq!(why.severity, Severity::Warning);
    }
}
