//! Directives in every spelling.
use super::{RequestDirectives, ResponseDirectives, Scope};
use crate::cache::test_heads::{get, lines};
use crate::cache::{Fields, SECONDS_MAX};

fn response(text: &str) -> ResponseDirectives {
    ResponseDirectives::read(
        Fields::of_text(lines(text).as_bytes()),
        &[b"cdn-cache-control".to_vec()],
    )
}

fn of_response(value: &str) -> ResponseDirectives {
    response(&format!("Cache-Control: {value}"))
}

#[test]
fn rfc_9111_1_2_2_numbers() {
    for (value, expected) in [
        ("max-age=3600", Some(3600)),
        ("MaX-aGe=3600", Some(3600)),
        ("max-age=003600", Some(3600)),
        ("max-age=\"3600\"", Some(3600)),
        ("max-age=0", Some(0)),
        ("max-age=2147483647", Some(SECONDS_MAX - 1)),
        ("max-age=2147483648", Some(SECONDS_MAX)),
        ("max-age=2147483649", Some(SECONDS_MAX)),
        ("max-age=99999999999999999999999999", Some(SECONDS_MAX)),
        // Section 4.2.1: unintelligible values mean stale.
        ("max-age", Some(0)),
        ("max-age=", Some(0)),
        ("max-age=-1", Some(0)),
        ("max-age=3600.0", Some(0)),
        ("max-age='3600'", Some(0)),
        ("max-age=100a", Some(0)),
        ("max-age=a100", Some(0)),
        ("max-age =100", Some(0)),
        ("max-age= 100", Some(0)),
        ("max-age=1 00", Some(0)),
        ("max-age=\"36\\00\"", Some(0)),
        ("max-age=\"3600", Some(0)),
        // The first of several counts.
        ("max-age=1800, max-age=1", Some(1800)),
        ("max-age=1, max-age=1800", Some(1)),
        ("max-age=1800|Cache-Control: max-age=1", Some(1800)),
        ("max-age=x, max-age=1800", Some(0)),
        // Quoted text and other names do not count.
        ("extension=\"max-age=3600\", max-age=1", Some(1)),
        ("max-age=1, extension=\"max-age=3600\"", Some(1)),
        ("ext=\"a\\\", max-age=7\", max-age=1", Some(1)),
        ("x-max-age=5", None),
        ("max-agex=5", None),
        (",, ,max-age=5,", Some(5)),
        ("", None),
    ] {
        assert_eq!(of_response(value).max_age_s, expected, "{value}");
    }
}

#[test]
fn rfc_9111_5_2_2_restrictions_in_any_spelling() {
    for value in [
        "no-store",
        "NO-StOrE",
        "no-store=1",
        "no-store =x",
        "a=\"b, no-store",
        "max-age=5,no-store",
        "foo|Cache-Control: no-store",
    ] {
        assert!(of_response(value).no_store, "{value}");
    }
    assert!(!of_response("x=\"no-store\"").no_store);
    assert!(!of_response("no-stores, xno-store").no_store);
    // Permissive directives must be well-formed.
    assert!(
        of_response("public").public
            && !of_response("public=x").public
            && !of_response("public =").public
    );
    assert!(of_response("immutable").immutable && !of_response("immutable=0").immutable);
}

#[test]
fn rfc_9111_5_2_2_4_and_7_names_of_fields() {
    for (value, scope, names) in [
        ("no-cache", Scope::Response, ""),
        ("no-cache=\"Set-Cookie\"", Scope::Fields, "set-cookie"),
        ("no-cache=\"a, B\"", Scope::Fields, "a b"),
        ("no-cache=foo", Scope::Fields, "foo"),
        ("no-cache=\"a\", no-cache=\"b\"", Scope::Fields, "a b"),
        ("no-cache=\"a\", no-cache", Scope::Response, "a"),
        ("no-cache, no-cache=\"a\"", Scope::Response, "a"),
        ("no-cache=\"\"", Scope::Response, ""),
        ("no-cache=\",\"", Scope::Response, ""),
        ("no-cache=", Scope::Response, ""),
        ("no-cache=\"a b\"", Scope::Response, ""),
        ("no-cache=\"a", Scope::Response, ""),
        ("no-cache= \"a\"", Scope::Response, ""),
        ("no-cache; max-age=1", Scope::Response, ""),
        ("max-age=1; no-cache", Scope::Response, ""),
        ("max-age=1 no-cache", Scope::Response, ""),
        ("no-cache must-revalidate max-age=1", Scope::Response, ""),
        ("x=\"no-cache\"", Scope::Absent, ""),
        ("max-age=1", Scope::Absent, ""),
    ] {
        let no_cache = of_response(value);
        let private = of_response(&value.replace("no-cache", "private"));
        assert_eq!(no_cache.no_cache, scope, "{value}");
        assert_eq!(private.private, scope, "{value}");
        for directives in [no_cache, private] {
            let found: Vec<_> = directives
                .withheld
                .iter()
                .map(|name| std::str::from_utf8(name).unwrap())
                .collect();
            assert_eq!(found.join(" "), names, "{value}");
        }
    }
    let names = |count: usize| vec!["a"; count].join(",");
    let all = of_response(&format!("no-cache=\"{}\"", names(64)));
    assert_eq!((all.no_cache, all.withheld.len()), (Scope::Fields, 64));
    let too_many = of_response(&format!("private=\"{}\"", names(65)));
    assert_eq!(
        (too_many.private, too_many.withheld.len()),
        (Scope::Response, 0)
    );
    let together = of_response(&format!("no-cache=\"{}\", private=a", names(64)));
    assert_eq!(together.private, Scope::Response);
    assert_eq!(together.no_cache, Scope::Fields);
}

#[test]
fn rfc_9111_5_2_1_request_directives() {
    let row = |text: &str| {
        let lines = lines(text);
        get(&lines).directives
    };
    let default = RequestDirectives::default();
    for (text, expected) in [
        ("", default),
        (
            "Cache-Control: no-cache, no-store",
            RequestDirectives {
                no_cache: true,
                no_store: true,
                ..default
            },
        ),
        (
            "Cache-Control: max-age=0, min-fresh=5",
            RequestDirectives {
                max_age_s: Some(0),
                min_fresh_s: Some(5),
                ..default
            },
        ),
        (
            "Cache-Control: max-age=x",
            RequestDirectives {
                max_age_s: Some(0),
                ..default
            },
        ),
        (
            "Cache-Control: max-stale",
            RequestDirectives {
                max_stale_s: Some(SECONDS_MAX),
                ..default
            },
        ),
        (
            "Cache-Control: max-stale=7",
            RequestDirectives {
                max_stale_s: Some(7),
                ..default
            },
        ),
        (
            "Cache-Control: max-stale=x, min-fresh=x, stale-if-error=x",
            default,
        ),
        (
            "Cache-Control: only-if-cached, no-transform",
            RequestDirectives {
                only_if_cached: true,
                no_transform: true,
                ..default
            },
        ),
        (
            "Cache-Control: stale-if-error=60",
            RequestDirectives {
                stale_if_error_s: Some(60),
                ..default
            },
        ),
        // Section 5.4: Pragma, unless there is Cache-Control.
        (
            "Pragma: no-cache",
            RequestDirectives {
                no_cache: true,
                ..default
            },
        ),
        (
            "Pragma: foo, NO-cache",
            RequestDirectives {
                no_cache: true,
                ..default
            },
        ),
        (
            "Pragma: no-cache|Cache-Control: max-stale=7",
            RequestDirectives {
                max_stale_s: Some(7),
                ..default
            },
        ),
        ("Pragma: unrecognised", default),
    ] {
        assert_eq!(row(text), expected, "{text}");
    }
}

#[test]
fn rfc_9213_2_targeted_fields() {
    for (text, max_age_s, no_store, targeted) in [
        (
            "CDN-Cache-Control: max-age=3600|Cache-Control: max-age=1, no-store",
            Some(3600),
            false,
            true,
        ),
        (
            "CDN-Cache-Control: no-store|Cache-Control: max-age=1",
            None,
            true,
            true,
        ),
        (
            "CDN-Cache-Control: max-age=99999999999",
            Some(SECONDS_MAX),
            false,
            true,
        ),
        ("CDN-Cache-Control: max-age=-5", Some(0), false, true),
        (
            "CDN-Cache-Control: max-age=5;x=y, foobar|CDN-Cache-Control: no-store",
            Some(5),
            true,
            true,
        ),
        (
            "CDN-Cache-Control: max-age=5, max-age=6",
            Some(6),
            false,
            true,
        ),
        (
            "CDN-Cache-Control: max-age=5, no-store=?0",
            Some(5),
            false,
            true,
        ),
        // Malformed fields are ignored.
        (
            "CDN-Cache-Control: max-age=5, &&&&&|Cache-Control: no-store",
            None,
            true,
            false,
        ),
        (
            "CDN-Cache-Control: max-age=\"5\"|Cache-Control: no-store",
            None,
            true,
            false,
        ),
        (
            "CDN-Cache-Control: max-age=5.0|Cache-Control: no-store",
            None,
            true,
            false,
        ),
        (
            "CDN-Cache-Control: max-age|Cache-Control: no-store",
            None,
            true,
            false,
        ),
        (
            "CDN-Cache-Control: MaX-aGe=5|Cache-Control: max-age=1",
            Some(1),
            false,
            false,
        ),
        (
            "CDN-Cache-Control: max-age =5|Cache-Control: max-age=1",
            Some(1),
            false,
            false,
        ),
        (
            "CDN-Cache-Control: max-age= 5|Cache-Control: max-age=1",
            Some(1),
            false,
            false,
        ),
        (
            "CDN-Cache-Control: max-age=5,|Cache-Control: max-age=1",
            Some(1),
            false,
            false,
        ),
        (
            "CDN-Cache-Control:|Cache-Control: max-age=1",
            Some(1),
            false,
            false,
        ),
    ] {
        let directives = response(text);
        assert_eq!(
            (
                directives.max_age_s,
                directives.no_store,
                directives.targeted
            ),
            (max_age_s, no_store, targeted),
            "{text}"
        );
    }
    let scoped = response("CDN-Cache-Control: no-cache=\"Set-Cookie\", private=(\"a\"), max-age=5");
    assert_eq!(
        (scoped.no_cache, scoped.private),
        (Scope::Fields, Scope::Response)
    );
    assert_eq!(scoped.withheld, [b"set-cookie"]);
    // A policy without targets ignores it; of several targets the first valid one counts.
    let text =
        lines("CDN-Cache-Control: max-age=5|A-Cache-Control: max-age=6|Cache-Control: max-age=1");
    let read = |targets: &[&[u8]]| {
        let targets: Vec<Vec<u8>> = targets.iter().map(|name| name.to_vec()).collect();
        ResponseDirectives::read(Fields::of_text(text.as_bytes()), &targets).max_age_s
    };
    assert_eq!(read(&[]), Some(1));
    assert_eq!(
        read(&[b"none", b"a-cache-control", b"cdn-cache-control"]),
        Some(6)
    );
}
