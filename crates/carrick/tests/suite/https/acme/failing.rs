//! Authorities that refuse or cannot be reached are left alone, and what is there stays.
use super::pebble::failed;
use super::*;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::time::SystemTime;

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

/// Has carrick look again; the next attempt is not before its time.
fn reload(carrick: &Carrick, place: &Place, text: &str, count: f64) {
    carrick.reload(place, text);
    carrick.wait_for_metric("carrick_reloads_total", &["result=\"ok\""], count);
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
    reload(&carrick, &place, &text, 1.0);
    carrick.stop();
    let carrick = Carrick::start(&place, &text);
    wait_for_failures(&carrick, 1.0);
    assert_eq!(failed(&carrick), 0.0);
    // Its time comes: the other challenge has its turn.
    let file = folder(&place).join("site.test.failed.json");
    std::fs::write(&file, r#"{"failures": 1, "not_before": 0, "error": ""}"#).expect("a file");
    reload(&carrick, &place, &text, 1.0);
    wait_for_failures(&carrick, 2.0);
    let why = error(&carrick);
    assert!(
        why.contains("tls-alpn-01: the name's addresses in DNS"),
        "{why}"
    );
    assert_eq!(failed(&carrick), 1.0);
}

#[test]
fn an_authority_that_cannot_be_reached_leaves_the_certificate_in_force() {
    let place = Place::claim();
    let (nobody, _guard) = place.refusing();
    // Two thirds of its life are over.
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let year = 1970 + i32::try_from(since.expect("a time").as_secs() / 31_556_952).expect("a year");
    let mut params = CertificateParams::new([NAME.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(year - 9, 1, 1);
    params.not_after = date_time_ymd(year + 2, 1, 1);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    let kept =
        place
            .directory()
            .join("kept")
            .join(format!("{}-{}-dir", nobody.ip(), nobody.port()));
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::write(
        kept.join("site.test.pem"),
        certificate.pem() + &key.serialize_pem(),
    )
    .expect("a file");
    place.write("ca.pem", &certificate.pem());
    let acme = format!(
        "[acme]\ndirectory = \"https://{nobody}/dir\"\nca = \"ca.pem\"\nstorage = \"kept\"\n"
    );
    let tls = format!("tls = {{ acme = [\"{NAME}\"] }}");
    let text = acme + &super::super::switch_text(&tls, &[server(&place)]);
    let carrick = Carrick::start(&place, &text);
    wait_for_failures(&carrick, 1.0);
    let why = error(&carrick);
    assert!(why.contains(&format!("cannot reach {nobody}")), "{why}");
    carrick
        .standard_error()
        .wait_for("stays in force")
        .expect("a message");
    reload(&carrick, &place, &text, 1.0);
    assert_eq!(failed(&carrick), 1.0);
    let served = served(&place, carrick.listener()).expect("a certificate");
    assert_eq!(served, *certificate.der());
}
