//! What an authority calls a certificate that it has issued (RFC 9773 section 4.1).
use instant_acme::CertificateIdentifier;
use rustls_pki_types::Der;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::AuthorityKeyIdentifier;

/// The issuer's key and the serial number.
pub type CertificateId = CertificateIdentifier<'static>;

/// What the authority calls a certificate in DER. `None`: it cannot, since the certificate does not name its issuer's key.
pub fn identifier(certificate: &[u8]) -> Option<CertificateId> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate();
    let issuer = certificate.get_extension::<AuthorityKeyIdentifier>();
    let key = issuer.ok()??.1.key_identifier?;
    let serial = Der::from_slice(certificate.serial_number().as_bytes());
    let id = CertificateIdentifier::new(Der::from_slice(key.as_bytes()), serial);
    Some(id.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, Issuer, KeyIdMethod, KeyPair, SerialNumber};

    #[test]
    fn a_certificate_has_the_identifier_of_the_standard() {
        // The example of RFC 9773 section 4.1; the serial number's first bit makes a byte of zeros necessary.
        let key = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0,
            0xae, 0x2c, 0xde, 0x01, 0xc8, 0xd4,
        ];
        let mut authority = CertificateParams::default();
        authority.key_identifier_method = KeyIdMethod::PreSpecified(key.to_vec());
        let issuer = Issuer::new(authority, KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from_slice(&[0x87, 0x65, 0x43, 0x21]));
        let own = KeyPair::generate().unwrap();
        let of = |params: &CertificateParams| {
            let certificate = params.signed_by(&own, &issuer).unwrap();
            identifier(certificate.der()).map(|id| id.to_string())
        };
        assert_eq!(of(&params), None);
        params.use_authority_key_identifier_extension = true;
        let expected = "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE";
        assert_eq!(of(&params).as_deref(), Some(expected));
        assert_eq!(identifier(b"no"), None);
    }
}
