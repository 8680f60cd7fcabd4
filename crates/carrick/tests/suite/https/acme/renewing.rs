//! Certificates are renewed when the authority suggests that (RFC 9773).
use super::pebble::failed;
use super::*;
use crate::https::certificates::certified_by_address;
use crate::https::servers::saying;
use rcgen::{CertificateParams, Issuer, KeyPair};
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What an authority answers.
fn window(start: &str, end: &str) -> String {
    let window = serde_json::json!({"start": start, "end": end});
    let why = "https://ca.example/why";
    serde_json::json!({"suggestedWindow": window, "explanationURL": why}).to_string()
}

fn certificate_file(place: &Place) -> PathBuf {
    folder(place).join(format!("{NAME}.pem"))
}

/// The certificate that is kept becomes one from the day before yesterday.
fn age(place: &Place) {
    let file = File::options().write(true).open(certificate_file(place));
    let time = SystemTime::now() - 2 * DAY;
    file.and_then(|file| file.set_modified(time))
        .expect("a time");
}

/// A certificate is ordered and kept; its text.
fn ordered(place: &Place, text: &str) -> String {
    let carrick = Carrick::start(place, text);
    wait_for_issued(&carrick, 1.0);
    carrick.stop();
    std::fs::read_to_string(certificate_file(place)).expect("a file")
}

#[test]
fn a_window_that_was_moved_into_the_past_has_the_certificate_replaced() {
    let place = Place::claim();
    let Some(pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    let text = site_text(&place, "");
    let pem = ordered(&place, &text);
    let first = kept(&place);
    let past = window("2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    pebble.suggest(&place, &pem, &past);
    age(&place);
    let carrick = Carrick::start(&place, &text);
    wait_for_issued(&carrick, 1.0);
    let said = carrick.standard_error().wait_for("https://ca.example/why");
    let said = said.expect("an explanation");
    assert!(said.contains("between 2020-01-01T00:00:00Z and 2020-01-02T00:00:00Z"));
    let said = pebble.out().wait_for("is a replacement of");
    said.expect("an order that says what it replaces");
    let second = kept(&place);
    assert_ne!(first, second);
    wait_until("the new one", || {
        served(&place, carrick.listener()).as_ref() == Some(&second)
    });
    carrick.stop();

    // As if restored from a backup: the authority accepts only one order that replaces it.
    std::fs::write(certificate_file(&place), pem).expect("a file");
    age(&place);
    let carrick = Carrick::start(&place, &text);
    wait_for_issued(&carrick, 1.0);
    let said = carrick.standard_error().wait_for("ordering a further");
    let said = said.expect("a reason");
    assert!(said.contains("already has a replacement order"), "{said}");
    assert_eq!(failed(&carrick), 0.0);
}

#[test]
fn the_next_order_is_within_the_window_and_nonsense_is_ignored() {
    let place = Place::claim();
    let Some(pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    let text = site_text(&place, "");
    let pem = ordered(&place, &text);
    let day = |number: u32| humantime::format_rfc3339_seconds(SystemTime::now() + number * DAY);
    let [tenth, eleventh] = [10, 11].map(|number| day(number).to_string());
    pebble.suggest(&place, &pem, &window(&tenth, &eleventh));
    let carrick = Carrick::start(&place, &text);
    let next = |carrick: &Carrick| {
        let status = &carrick.status()["certificates"][0];
        status["next_order"].as_str().map(str::to_owned)
    };
    wait_for("a time within the window", || {
        next(&carrick).filter(|next| (&tenth..=&eleventh).contains(&next))
    });
    carrick.stop();

    pebble.suggest(&place, &pem, &window(&eleventh, &tenth));
    let carrick = Carrick::start(&place, &text);
    let said = carrick.standard_error();
    let said = said.wait_for("the suggested window ends before it starts");
    said.expect("a warning");
    assert!(next(&carrick).is_some_and(|next| next > day(50).to_string()));
    assert_eq!(carrick.metric("carrick_acme_orders_total", &[]), 0.0);
}

/// A certificate that is valid from 1975 to 4096 and names its issuer's key, and its key.
fn issued() -> String {
    let authority = KeyPair::generate().expect("a key");
    let issuer = Issuer::new(CertificateParams::default(), authority);
    let mut params = CertificateParams::new([NAME.to_owned()]).expect("a name");
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    certificate.pem() + &key.serialize_pem()
}

#[test]
fn without_renewal_information_a_certificate_is_renewed_by_its_age_and_that_is_said_once() {
    let Some(place) = certified_by_address() else {
        return;
    };
    let directory = r#"{"newNonce": "", "newAccount": "", "newOrder": ""}"#;
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{directory}",
        directory.len()
    );
    let authority = saying(&place, response);
    let (nobody, _guard) = place.refusing();
    for (authority, why) in [
        (
            authority.address(),
            "does not name the resource `renewalInfo`",
        ),
        (nobody, "cannot reach"),
    ] {
        let (text, _) = with_kept(&place, authority, &issued());
        let carrick = Carrick::start(&place, &text);
        let said = carrick.standard_error();
        said.wait_for(why).expect("a message");
        carrick.reload_as(&place, &text, "ok");
        let next = wait_for("the next order", || {
            let status = &carrick.status()["certificates"][0];
            status["next_order"].as_str().map(str::to_owned)
        });
        assert!(next.starts_with("33"), "{next}");
        assert_eq!(said.text().matches(why).count(), 1);
        assert_eq!(carrick.metric("carrick_acme_orders_total", &[]), 0.0);
    }
}
