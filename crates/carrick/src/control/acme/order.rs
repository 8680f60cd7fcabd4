//! One order: the account, the challenge, the certificate (RFC 8555 section 7.1).
use super::https::Https;
use super::identifier::CertificateId;
use super::storage::{Lock, Storage};
use crate::config::plan::{AcmePlan, ChallengeKind};
use crate::config::tls::{Answer, ChallengeFiles};
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, ExternalAccountKey, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use std::error::Error as _;
use std::time::Duration;

/// For the authority to check a name, and to issue.
const ANSWER_MAX: Duration = Duration::from_secs(90);

/// How soon, and then how often, an order is looked at; each wait is half as long again.
const POLL: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(200))
    .backoff(1.5)
    .timeout(ANSWER_MAX);

/// How often a request may be refused for its nonce, after the library's own attempts.
const NONCES_MAX: u32 = 10;

/// Most letters of what an authority says.
const TEXT_LETTERS_MAX: usize = 1000;

/// The lock of the account; names have no underscore.
const ACCOUNT: &str = "_account";

/// Why there is no certificate.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong, and what to do.
    pub why: String,
    /// Whether other names would fare no better.
    pub is_general: bool,
    /// Whether the authority takes no order at present: that may be about this name's certificates, or about all of the account's.
    pub is_limit: bool,
}

impl Failure {
    fn of_name(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_general: false,
            is_limit: false,
        }
    }

    pub(super) fn general(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            is_general: true,
            is_limit: false,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        const OF_NAME: [&str; 14] = [
            "badCSR",
            "caa",
            "compound",
            "connection",
            "dns",
            "incorrectResponse",
            "malformed",
            "orderNotReady",
            "rateLimited",
            "rejectedIdentifier",
            "serverInternal",
            "tls",
            "unauthorized",
            "unsupportedIdentifier",
        ];
        let kind = kind(&error).unwrap_or_default();
        let is_general = match &error {
            Error::Api(_) => !OF_NAME.contains(&kind),
            Error::Timeout(_) => false,
            _ => true,
        };
        let help = match kind {
            "externalAccountRequired" => {
                "; the authority binds accounts: set `external_account` in [acme]"
            }
            "invalidContact" | "unsupportedContact" => "; correct `email` in [acme]",
            "rateLimited" => "; the authority limits how many certificates it issues",
            "caa" => "; the name's CAA records in DNS must allow this authority",
            _ => "",
        };
        Self {
            why: format!("{}{help}", in_full(&error)),
            is_general,
            is_limit: false,
        }
    }
}

/// The kind of problem that the authority names (RFC 8555 section 6.7).
fn kind(error: &Error) -> Option<&str> {
    match error {
        Error::Api(problem) => problem.r#type.as_deref()?.rsplit(':').next(),
        _ => None,
    }
}

/// An error with its causes.
fn in_full(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let further = error.to_string();
        if !text.contains(&further) {
            text = format!("{text}: {further}");
        }
        cause = error.source();
    }
    plain(text.strip_prefix("API error: ").unwrap_or(&text))
}

/// What others said, for logs and terminals: authorities quote what servers answered.
pub(super) fn plain(text: &str) -> String {
    let letters = text.chars().take(TEXT_LETTERS_MAX);
    letters
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

/// Does a step again if the authority did not like its nonce, which is nobody's fault (RFC 8555 section 6.5).
macro_rules! patiently {
    ($step:expr) => {{
        let mut left = NONCES_MAX;
        loop {
            match $step {
                Err(error) if left > 0 && kind(&error) == Some("badNonce") => left -= 1,
                result => break result,
            }
        }
    }};
}

/// What is ordered.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub name: &'a str,
    pub challenge: ChallengeKind,
    /// The certificate before.
    pub replaces: Option<&'a CertificateId>,
}

/// Gets a certificate for a name: chain and key in PEM.
pub async fn order(
    plan: &AcmePlan,
    storage: &Storage,
    https: &Https,
    wanted: Wanted<'_>,
    account: KnownAccount,
) -> Result<String, Failure> {
    let Wanted {
        name, challenge, ..
    } = wanted;
    let refused = |error| refused_order(error, storage);
    let (account, kept) = match account {
        KnownAccount::Kept(text) => (open_account(storage, https, &text).await?, text),
        KnownAccount::ToMake(lock) => {
            let made = make_account(plan, storage, https, lock).await?;
            (made, Vec::new())
        }
    };
    let mut order = match new_order(&account, wanted).await {
        // The authority has lost it.
        Err(error) if kind(&error) == Some("accountDoesNotExist") => {
            let account = replace_account(plan, storage, https, &kept).await?;
            new_order(&account, wanted).await.map_err(refused)?
        }
        result => result.map_err(refused)?,
    };
    let answer = answer(plan, &mut order, (name, challenge)).await?;
    let ready = patiently!(order.poll_ready(&POLL).await);
    match ready {
        Ok(OrderStatus::Ready) => {}
        Err(error @ Error::Timeout(_)) => return Err(error.into()),
        _ => {
            let why = refusal(&mut order).await;
            let why = why.unwrap_or_else(|| match ready {
                Err(error) => in_full(&error),
                Ok(_) => "the authority does not say why".to_owned(),
            });
            return Err(refused_challenge(&why, name, challenge));
        }
    }
    drop(answer);
    let key = patiently!(order.finalize().await)?;
    let chain = patiently!(order.poll_certificate(&POLL).await)?;
    Ok(format!("{}\n{key}", chain.trim_end()))
}

/// Makes an order, which names the certificate that it replaces if the authority takes that (RFC 9773 section 5).
async fn new_order(account: &Account, wanted: Wanted<'_>) -> Result<Order, Error> {
    let identifiers = [Identifier::Dns(wanted.name.to_owned())];
    if let Some(replaces) = wanted.replaces {
        let new = NewOrder::new(&identifiers).replaces(replaces.clone());
        match patiently!(account.new_order(&new).await) {
            // The directory does not offer renewal information.
            Err(Error::Unsupported(_)) => {}
            Err(error) if may_be_for_replacing(&error) => tracing::info!(
                "{}: the order does not count as a renewal: {}; ordering a further certificate",
                wanted.name,
                in_full(&error)
            ),
            result => return result,
        }
    }
    patiently!(account.new_order(&NewOrder::new(&identifiers)).await)
}

/// Whether an order may have been refused since it names another certificate: one that was replaced, that is of another
/// account, or that the authority does not know.
fn may_be_for_replacing(error: &Error) -> bool {
    match kind(error) {
        Some(kind) => {
            let kinds = [
                "alreadyReplaced",
                "malformed",
                "serverInternal",
                "unauthorized",
            ];
            kinds.contains(&kind)
        }
        // The library's own check that the authority repeats the field.
        None => error.to_string().contains("replaces field mismatch"),
    }
}

/// What an authority says to an answer that is ready: it may have looked for it already.
fn not_ready(error: Error, name: &str, challenge: ChallengeKind) -> Failure {
    match kind(&error) {
        Some("connection" | "dns" | "incorrectResponse" | "tls" | "unauthorized") => {
            refused_challenge(&in_full(&error), name, challenge)
        }
        _ => error.into(),
    }
}

/// The authority did not find the answer to a challenge: why, and what is required for it.
fn refused_challenge(why: &str, name: &str, challenge: ChallengeKind) -> Failure {
    Failure::of_name(match challenge {
        ChallengeKind::Http01 => format!(
            "{why}; http-01: the name's addresses in DNS must be this machine's, and http://{name}/ must lead to carrick at port 80"
        ),
        ChallengeKind::TlsAlpn01 => format!(
            "{why}; tls-alpn-01: the name's addresses in DNS must be this machine's, and {name}:443 must lead to carrick, without another TLS server in front"
        ),
    })
}

/// An account, before the authority is asked.
#[derive(Debug)]
pub enum KnownAccount {
    /// As it is kept.
    Kept(Vec<u8>),
    /// There is none, and nobody else makes one.
    ToMake(Lock),
}

/// The account. `None`: another order makes it.
///
/// # Errors
/// What is kept cannot be read.
pub fn account(storage: &Storage) -> Result<Option<KnownAccount>, Failure> {
    let kept = || storage.account().map_err(|error| unusable(storage, &error));
    if let Some(text) = kept()? {
        return Ok(Some(KnownAccount::Kept(text)));
    }
    let Some(lock) = storage.lock(ACCOUNT).map_err(|error| unwritable(&error))? else {
        return Ok(None);
    };
    // Another order may have been faster.
    Ok(Some(match kept()? {
        Some(text) => KnownAccount::Kept(text),
        None => KnownAccount::ToMake(lock),
    }))
}

async fn open_account(storage: &Storage, https: &Https, text: &[u8]) -> Result<Account, Failure> {
    let credentials = serde_json::from_slice(text).map_err(|error| unusable(storage, &error))?;
    let builder = Account::builder_with_http(Box::new(https.clone()));
    match builder.from_credentials(credentials).await {
        Err(error @ (Error::KeyRejected | Error::Crypto)) => Err(unusable(storage, &error)),
        result => Ok(result?),
    }
}

/// Makes an account in place of one that the authority does not know, unless another order has.
async fn replace_account(
    plan: &AcmePlan,
    storage: &Storage,
    https: &Https,
    before: &[u8],
) -> Result<Account, Failure> {
    let Some(lock) = storage.lock(ACCOUNT).map_err(|error| unwritable(&error))? else {
        let why = "the authority does not know the account; another order makes a new one";
        return Err(Failure::of_name(why));
    };
    let kept = storage
        .account()
        .map_err(|error| unusable(storage, &error))?;
    match kept.filter(|text| text != before) {
        Some(text) => open_account(storage, https, &text).await,
        None => make_account(plan, storage, https, lock).await,
    }
}

async fn make_account(
    plan: &AcmePlan,
    storage: &Storage,
    https: &Https,
    _lock: Lock,
) -> Result<Account, Failure> {
    let contact = plan.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.as_deref().into_iter().collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let external = (plan.external_account.as_ref())
        .map(|account| ExternalAccountKey::new(account.id.clone(), &account.key));
    let (account, credentials) = patiently!({
        let builder = Account::builder_with_http(Box::new(https.clone()));
        let made = builder.create(&new, plan.directory.clone(), external.as_ref());
        made.await
    })?;
    let text = serde_json::to_vec_pretty(&credentials).map_err(Error::from)?;
    (storage.keep_account(&text)).map_err(|error| unwritable(&error))?;
    tracing::info!("a new account with {}: {}", plan.directory, account.id());
    Ok(account)
}

fn unwritable(error: &std::io::Error) -> Failure {
    Failure::general(format!("cannot write to `storage` of [acme]: {error}"))
}

/// An account that is not replaced by itself: certificates may depend on it.
fn unusable(storage: &Storage, error: &dyn std::error::Error) -> Failure {
    Failure::general(format!(
        "the account in {file} cannot be used: {error}; restore the file from a copy, or remove it to get a new account",
        file = storage.account_path().display()
    ))
}

/// Why there is no order. RFC 8555 section 7.3.6: an account that was closed is `unauthorized`.
fn refused_order(error: Error, storage: &Storage) -> Failure {
    let (may_be_closed, is_limit) = match kind(&error) {
        Some("unauthorized") => (true, false),
        kind => (false, kind == Some("rateLimited")),
    };
    let failure = Failure::from(error);
    if !may_be_closed {
        return Failure {
            is_limit,
            ..failure
        };
    }
    Failure::general(format!(
        "{}; if the account was closed, remove {} to get a new one",
        failure.why,
        storage.account_path().display()
    ))
}

/// Answers the challenge, if the authority does not know the name already.
async fn answer(
    plan: &AcmePlan,
    order: &mut Order,
    (name, challenge): (&str, ChallengeKind),
) -> Result<Option<Answer>, Failure> {
    fetch(order).await?;
    let mut authorizations = order.authorizations();
    let mut authorization = match authorizations.next().await {
        Some(authorization) => authorization?,
        None => return Ok(None),
    };
    match authorization.status {
        AuthorizationStatus::Valid => return Ok(None),
        AuthorizationStatus::Pending => {}
        other => {
            let why = format!("the authority's authorization for {name} is {other:?}");
            return Err(Failure::of_name(why));
        }
    }
    let wanted = match challenge {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    };
    let Some(mut handle) = authorization.challenge(wanted) else {
        let why = "the authority does not offer the challenge; set another `challenge` in [acme]";
        return Err(Failure::of_name(why));
    };
    let files = ChallengeFiles::new(&plan.folder);
    let text = handle.key_authorization();
    let answer = match challenge {
        ChallengeKind::Http01 => files.answer_http(name, &handle.token, text.as_str()),
        ChallengeKind::TlsAlpn01 => files.answer_tls(name, text.as_str()),
    };
    let answer = answer.map_err(|error| unwritable(&error))?;
    patiently!(handle.set_ready().await).map_err(|error| not_ready(error, name, challenge))?;
    Ok(Some(answer))
}

/// Has the order know its authorizations, which are not asked for twice.
async fn fetch(order: &mut Order) -> Result<(), Error> {
    patiently!(match order.authorizations().next().await {
        Some(Err(error)) => Err(error),
        _ => Ok(()),
    })
}

/// Why the authority does not believe the answer.
async fn refusal(order: &mut Order) -> Option<String> {
    let mut authorizations = order.authorizations();
    let mut authorization = authorizations.next().await?.ok()?;
    let state = patiently!(authorization.refresh().await.map(|_| ())).ok();
    state?;
    let mut errors = authorization.challenges.iter();
    let problem = errors.find_map(|challenge| challenge.error.as_ref())?;
    Some(match &problem.detail {
        Some(detail) => plain(detail),
        None => plain(&problem.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::acme::testing::storage;

    fn problem(kind: &str) -> Error {
        let text = format!(r#"{{"type": "urn:ietf:params:acme:error:{kind}", "detail": "no"}}"#);
        Error::Api(serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn what_concerns_one_name_does_not_hinder_others() {
        for (kind, is_general) in [
            ("unsupportedIdentifier", false),
            ("compound", false),
            ("badCSR", false),
            ("orderNotReady", false),
            ("serverInternal", false),
            ("rateLimited", false),
            ("externalAccountRequired", true),
            ("userActionRequired", true),
        ] {
            assert_eq!(
                Failure::from(problem(kind)).is_general,
                is_general,
                "{kind}"
            );
        }
    }

    #[test]
    fn an_order_is_made_without_the_certificate_that_it_replaces_where_that_may_be_the_reason() {
        for (kind, expected) in [
            ("alreadyReplaced", true),
            ("unauthorized", true),
            ("malformed", true),
            ("serverInternal", true),
            ("rateLimited", false),
            ("rejectedIdentifier", false),
            ("accountDoesNotExist", false),
        ] {
            assert_eq!(may_be_for_replacing(&problem(kind)), expected, "{kind}");
        }
        let of = |text: &'static str| may_be_for_replacing(&Error::Other(text.into()));
        assert!(of("replaces field mismatch: expected Some(…), found None"));
        assert!(!of("no answer within 30 s"));
    }

    #[test]
    fn it_is_said_what_a_challenge_requires_if_the_authority_has_looked_at_once() {
        for (kind, has_looked) in [
            ("connection", true),
            ("unauthorized", true),
            ("rateLimited", false),
            ("badNonce", false),
        ] {
            let failure = not_ready(problem(kind), "a.example", ChallengeKind::Http01);
            let requires = "; http-01: the name's addresses in DNS must be this machine's";
            assert_eq!(failure.why.contains(requires), has_looked, "{failure:?}");
        }
    }

    #[test]
    fn it_is_said_what_to_do_about_a_closed_account() {
        let (_folder, storage) = storage();
        let failure = refused_order(problem("unauthorized"), &storage);
        assert!(failure.is_general);
        assert!(
            failure.why.contains("account.json to get a new one"),
            "{failure:?}"
        );
        let failure = refused_order(problem("rateLimited"), &storage);
        assert!(!failure.is_general && !failure.why.contains("account.json"));
        for (kind, is_limit) in [("rateLimited", true), ("rejectedIdentifier", false)] {
            let failure = refused_order(problem(kind), &storage);
            assert_eq!(failure.is_limit, is_limit, "{kind}");
        }
    }

    #[test]
    fn an_account_is_made_by_one_order_at_a_time() {
        let (_folder, storage) = storage();
        let made = account(&storage).unwrap();
        assert!(matches!(made, Some(KnownAccount::ToMake(_))));
        assert!(account(&storage).unwrap().is_none());
        // Who makes it keeps it before it is left.
        storage.keep_account(b"{}").unwrap();
        let kept = account(&storage).unwrap();
        assert!(matches!(kept, Some(KnownAccount::Kept(text)) if text == b"{}"));
    }

    #[test]
    fn an_account_that_cannot_be_read_is_not_replaced() {
        let (_folder, storage) = storage();
        std::fs::create_dir(storage.account_path()).unwrap();
        let failure = account(&storage).unwrap_err();
        assert!(failure.is_general);
        assert!(failure.why.contains("restore the file"), "{failure:?}");
    }
}
