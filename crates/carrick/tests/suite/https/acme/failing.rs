//! Authorities that refuse or cannot be reached are left alone, and what is there stays.
use super::pebble::failed;
use super::*;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What is said of the site's certificate.
fn error(carrick: &Carrick) -> String {
    let status = &carrick.status()["certificates"][0];
    status["error"].as_str().unwrap_or_default().to_owned()
}

fn wait_for_failures(carrick: &Carrick, count: f64) {
    carrick.wait_for_metric(
        "carrick_certificate_failures",
        &["name=\"site.test\""],
        count,
    );
}

/// Whether no order is under way.
fn is_waiting(carrick: &Carrick) -> bool {
    carrick.status()["certificates"][0]["next_order"].is_string()
}

#[test]
fn a_refusal_is_explained_and_not_repeated_before_its_time() {
    let [place, elsewhere] = [Place::claim(), Place::claim()];
    // Nobody is there.
    let Some(_pebble) = Pebble::start(&place, elsewhere.ip(), Manner::default()) else {
        return;
    };
    let text = site_text(&place, "");
    let carrick = Carrick::start(&place, &text);
    wait_for_failures(&carrick, 1.0);
    let why = error(&carrick);
    assert!(
        why.contains("http-01: the name's addresses in DNS must be this machine's"),
        "{why}"
    );
    let said = carrick.standard_error();
    let said = said.wait_for("the next attempt is in").expect("a message");
    assert!(
        said.contains("clients that ask for it are refused"),
        "{said}"
    );
    assert_eq!(served(&place, carrick.listener()), None);
    carrick.reload_as(&place, &text, "ok");
    carrick.stop();
    let carrick = Carrick::start(&place, &text);
    wait_for_failures(&carrick, 1.0);
    assert!(is_waiting(&carrick));
    // Its time comes: the other challenge has its turn.
    let file = folder(&place).join("site.test.failed.json");
    std::fs::write(&file, r#"{"failures": 1, "not_before": 0, "error": ""}"#).expect("a file");
    carrick.reload_as(&place, &text, "ok");
    wait_for_failures(&carrick, 2.0);
    let why = error(&carrick);
    assert!(
        why.contains("tls-alpn-01: the name's addresses in DNS"),
        "{why}"
    );
    assert_eq!(failed(&carrick), 1.0);
}

/// A configuration with an authority that is not there, the folder of what it has issued, and the certificate in it.
fn with_a_certificate(
    place: &Place,
    authority: SocketAddr,
) -> (String, PathBuf, CertificateDer<'static>) {
    // Two thirds of its life are over.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let year = 1970 + i32::try_from(since.expect("a time").as_secs() / 31_556_952).expect("a year");
    let mut params = CertificateParams::new([NAME.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(year - 9, 1, 1);
    params.not_after = date_time_ymd(year + 2, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    place.write("ca.pem", &certificate.pem());
    let pem = certificate.pem() + &key.serialize_pem();
    let (text, kept) = with_kept(place, authority, &pem);
    (text, kept, certificate.der().clone())
}

#[test]
fn an_authority_that_cannot_be_reached_leaves_the_certificate_in_force() {
    let place = Place::claim();
    let (nobody, _guard) = place.refusing();
    let (text, kept, certificate) = with_a_certificate(&place, nobody);
    let carrick = Carrick::start(&place, &text);
    wait_for_failures(&carrick, 1.0);
    let why = error(&carrick);
    assert!(why.contains(&format!("cannot reach {nobody}")), "{why}");
    carrick
        .standard_error()
        .wait_for("stays in force")
        .expect("a message");
    // It is looked at again, as the number shows, but not before its time.
    let soon = SystemTime::now() + Duration::from_secs(1000);
    let soon = soon.duration_since(SystemTime::UNIX_EPOCH);
    let failures = format!(
        r#"{{"failures": 5, "not_before": {}, "error": ""}}"#,
        soon.expect("a time").as_secs()
    );
    std::fs::write(kept.join("site.test.failed.json"), failures).expect("a file");
    carrick.reload_as(&place, &text, "ok");
    wait_for_failures(&carrick, 5.0);
    assert!(is_waiting(&carrick));
    let served = served(&place, carrick.listener()).expect("a certificate");
    assert_eq!(served, certificate);
}

#[test]
fn a_certificate_stays_in_force_whatever_becomes_of_its_file() {
    let place = Place::claim();
    let (nobody, _guard) = place.refusing();
    let (text, kept, certificate) = with_a_certificate(&place, nobody);
    let file = kept.join("site.test.pem");
    let carrick = Carrick::start(&place, &text);
    let is_served = || served(&place, carrick.listener()) == Some(certificate.clone());
    assert!(is_served());
    let good = std::fs::read(&file).expect("a file");
    let reports = || {
        let said = carrick.standard_error().text();
        said.matches("the one that was read last stays in force")
            .count()
    };
    // What is found in passing is reported once.
    std::fs::write(&file, "broken").expect("a file");
    wait_until("a report", || reports() == 1);
    assert!(is_served());
    // So it is if it is found at a reload.
    carrick.reload_as(&place, &text, "ok");
    wait_until("a report", || reports() == 2);
    assert!(is_served());
    std::fs::remove_file(&file).expect("a file");
    carrick.reload_as(&place, &text, "ok");
    wait_until("a report", || reports() >= 3);
    assert!(is_served());
    std::fs::write(&file, good).expect("a file");
    carrick
        .standard_error()
        .wait_for("new certificates are in force")
        .expect("a message");
    assert!(is_served());
}

#[test]
fn a_file_that_is_no_certificate_at_the_start_is_reported() {
    let place = Place::claim();
    let (nobody, _guard) = place.refusing();
    let (text, kept, _) = with_a_certificate(&place, nobody);
    std::fs::write(kept.join("site.test.pem"), "broken").expect("a file");
    let carrick = Carrick::start(&place, &text);
    carrick
        .standard_error()
        .wait_for("is not a PEM file; another one is ordered")
        .expect("a message");
    assert_eq!(served(&place, carrick.listener()), None);
}

#[test]
fn a_certificate_that_ends_at_once_is_not_ordered_again_at_once() {
    let place = Place::claim();
    let manner = Manner {
        validity_seconds: 1,
        ..Manner::default()
    };
    let Some(_pebble) = Pebble::start(&place, place.ip(), manner) else {
        return;
    };
    let carrick = Carrick::start(&place, &site_text(&place, ""));
    wait_for_issued(&carrick, 1.0);
    wait_for_failures(&carrick, 1.0);
    assert!(is_waiting(&carrick));
    let why = error(&carrick);
    assert!(why.contains("set this machine's clock"), "{why}");
    assert_eq!(failed(&carrick), 0.0);
}

#[test]
fn an_account_that_cannot_be_used_is_not_replaced() {
    let place = Place::claim();
    let Some(_pebble) = Pebble::start(&place, place.ip(), Manner::default()) else {
        return;
    };
    std::fs::create_dir_all(folder(&place)).expect("a folder");
    let file = folder(&place).join("account.json");
    std::fs::write(&file, "{}").expect("a file");
    let text = site_text(&place, "");
    let carrick = Carrick::start(&place, &text);
    wait_for_failures(&carrick, 1.0);
    let why = error(&carrick);
    assert!(why.contains("account.json cannot be used"), "{why}");
    assert_eq!(std::fs::read(&file).expect("a file"), b"{}");
    // What the message says helps, also against the pause after an error that concerns all names.
    std::fs::remove_file(&file).expect("a file");
    std::fs::remove_file(folder(&place).join("site.test.failed.json")).expect("a file");
    carrick.reload_as(&place, &text, "ok");
    wait_for_issued(&carrick, 1.0);
}
