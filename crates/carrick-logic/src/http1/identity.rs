//! Fields in which proxies tell servers who the client is: whose certificate it has, or who has logged in.
use super::syntax::{may_begin_as, may_pass_for};

/// What the names of such fields begin with.
const PREFIXES: [&[u8]; 16] = [
    b"cf-access-",
    b"client-cert",
    b"remote-user",
    b"ssl-client",
    b"tailscale-user-",
    b"x-amzn-mtls-clientcert",
    b"x-amzn-oidc-",
    b"x-auth-request-",
    b"x-authentik-",
    b"x-forwarded-client-cert",
    b"x-forwarded-tls-client-cert",
    b"x-goog-authenticated-user-",
    b"x-ms-client-principal",
    b"x-pomerium-",
    b"x-ssl-client",
    b"x-vouch-",
];

/// Names of further ones.
const NAMES: [&[u8]; 13] = [
    b"remote-email",
    b"remote-groups",
    b"remote-name",
    b"x-arr-clientcert",
    b"x-forwarded-access-token",
    b"x-forwarded-client-subject",
    b"x-forwarded-email",
    b"x-forwarded-groups",
    b"x-forwarded-preferred-username",
    b"x-forwarded-user",
    b"x-goog-iap-jwt-assertion",
    b"x-remote-user",
    b"x-webauth-user",
];

/// Whether a field with this name tells who the client is, or a gateway takes it for such a field.
#[must_use]
pub fn states_identity(name: &[u8]) -> bool {
    let begins_so = |prefix: &&[u8]| may_begin_as(name, prefix);
    PREFIXES.iter().any(begins_so) || NAMES.iter().any(|other| may_pass_for(name, other))
}

#[cfg(test)]
mod tests {
    use super::states_identity;

    #[test]
    fn names_that_state_who_the_client_is() {
        for name in [
            "Client-Cert",
            "X-Authentik-Username",
            "X-Forwarded-Tls-Client-Cert-Info",
            "X-WebAuth-User",
            "Client-Cert-Chain",
            "X-SSL-Client-S-DN",
            "ssl-client-subject-dn",
            "X-ARR-ClientCert",
            "X-Amzn-Mtls-Clientcert-Subject",
            "X-Forwarded-Client-Cert",
            "X-Forwarded-Client-Subject",
            "X-Forwarded-User",
            "x-forwarded-EMAIL",
            "X_Forwarded_Preferred_Username",
            "X-Forwarded-Groups",
            "X-Auth-Request-User",
            "Remote-User",
            "X-Remote-User",
        ] {
            assert!(states_identity(name.as_bytes()), "{name}");
        }
        for name in [
            "X-Forwarded-For",
            "X-Forwarded-Proto",
            "X-Forwarded-Client-IP",
            "X-Forwarded-Users",
            "X-Real-IP",
            "Client-IP",
            "X-Remote-Addr",
            "Remote",
            "From",
        ] {
            assert!(!states_identity(name.as_bytes()), "{name}");
        }
    }
}
