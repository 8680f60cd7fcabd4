//! What a reload may change, and what requires a restart.
use super::*;

#[test]
fn routes_and_access_change_and_what_the_kernel_was_told_does_not() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(SWITCH);
    let rules = bed.rules();
    assert!(
        bed.curl("http://10.2.0.2/images/")
            .contains("server=10.2.0.2 ")
    );
    carrick.reload(&(SWITCH.to_owned() + IMAGES), "configuration reloaded");
    crate::support::wait_until("the new route", || {
        bed.curl("http://10.2.0.2/images/")
            .contains("server=10.2.0.3 ")
    });
    for (number, (from, to)) in [
        ("[80]", "[80, 8000]"),
        ("[::]:8080", "[::]:8090"),
        ("transparent = true\nintercept", "#"),
        ("mode = \"switch\"", "mode = \"forward\""),
        (
            "transparent = true",
            "transparent = true\nkeep_client_address = true",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let mut text = SWITCH.replace(from, to);
        if to == "#" {
            // No longer transparent: an ordinary switch needs a route.
            text += IMAGES;
        }
        assert_ne!(text, SWITCH);
        let part = "change only with a restart";
        let before = carrick.said.text().matches(part).count();
        assert_eq!(before, number);
        carrick.reload(&text, part);
        let said = crate::support::wait_for("a message", || {
            let said = carrick.said.text();
            (said.matches(part).count() > before).then_some(said)
        });
        assert!(
            said.contains("the new configuration was rejected and the previous one stays in force: the transparent listener [::]:80"),
            "{said}"
        );
        assert_eq!(bed.rules(), rules);
        assert!(
            bed.curl("http://10.2.0.2/images/")
                .contains("server=10.2.0.3 "),
            "{from}"
        );
    }
}
