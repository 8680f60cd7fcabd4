//! Keys: both ways of writing them, what is refused, and that the documentation has them all.

use super::*;

fn of_query(query: &str) -> Result<Wishes<'_>, String> {
    let mut wishes = Wishes::default();
    wishes.read_query(query).map(|()| wishes)
}

#[test]
fn a_query_and_fields_say_the_same() {
    let values = [
        ("length", "1000"),
        ("seed", "18446744073709551615"),
        ("cache", "max-age=60, private"),
        ("vary", "Accept-Language"),
        ("type", "image/gif"),
        ("etag", "weak"),
        ("last_modified", "1"),
        ("delay_ms", "5"),
        ("rate_kbit", "56"),
        ("framing", "chunked"),
        ("chunk_bytes", "100"),
        ("status", "503"),
        ("trailers", "2"),
        ("echo", "1"),
        ("fault", "bad-chunk"),
        ("after", "7"),
        ("stall_ms", "9"),
        ("n", "anything"),
    ];
    assert_eq!(values.len(), KEYS.len(), "each key once");
    let query: Vec<String> = values
        .map(|(key, value)| format!("{key}={}", value.replace(' ', "%20")))
        .to_vec();
    let query = query.join("&");
    let asked = of_query(&query).unwrap();
    let mut by_fields = Wishes::default();
    for (key, value) in values {
        let name = format!("x-LAB-{}", key.replace('_', "-").to_uppercase());
        by_fields.read_field(&name, value.as_bytes()).unwrap();
    }
    assert_eq!(asked, by_fields);
    assert_eq!(
        asked,
        Wishes {
            length: Some(1000),
            seed: Some(u64::MAX),
            cache: Some("max-age=60, private".into()),
            vary: Some("Accept-Language".into()),
            content_type: Some("image/gif".into()),
            tag: Some(TagKind::Weak),
            last_modified: true,
            delay_ms: 5,
            rate_kbit: Some(56),
            framing: Some(Framing::Chunked),
            chunk_bytes: Some(100),
            status: Some(503),
            trailers: 2,
            echo: true,
            fault: Some(FaultKind::BadChunk),
            after: Some(7),
            stall_ms: Some(9),
        }
    );
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (query, parts) in [
        ("lenght=5", ["no parameter `lenght`", "length, seed"]),
        ("length=5x", ["`5x` is not right", "bytes, at most 2^50"]),
        ("length=+5", ["`+5` is not right", "bytes"]),
        ("length=", ["`` is not right", "bytes"]),
        ("length=1125899906842625", ["is not right", "2^50"]),
        ("status=199", ["`199`", "200 to 599"]),
        ("rate_kbit=0", ["`0`", "1 to 100000000"]),
        ("chunk_bytes=0", ["`0`", "1 to 16777216"]),
        ("trailers=17", ["`17`", "0 to 16"]),
        ("framing=none", ["`none`", "`chunked`"]),
        ("fault=fire", ["`fire`", "`garbage`"]),
        ("echo=yes", ["`yes`", "`1` or `0`"]),
        ("cache=a%0d%0ab:c", ["`cache`", "Cache-Control"]),
        ("cache=%zz", ["`%zz`", "Cache-Control"]),
        ("cache=%f", ["`%f`", "Cache-Control"]),
        ("delay_ms=3600001", ["`3600001`", "an hour"]),
    ] {
        let said = of_query(query).unwrap_err();
        for part in parts {
            assert!(said.contains(part), "{query}: {said}");
        }
    }
    let said = Wishes::default()
        .read_field("X-Lab-Speed", b"1")
        .unwrap_err();
    assert!(said.contains("no field `X-Lab-Speed`"), "{said}");
}

#[test]
fn other_fields_and_parameters_without_a_value_mean_nothing() {
    assert_eq!(of_query("17&&x"), Ok(Wishes::default()));
    let mut wishes = Wishes::default();
    for name in ["X-Lab-", "X-Lab", "X-Lob-Length", "Length", "é-Lab-Length"] {
        wishes.read_field(name, b"5").unwrap();
    }
    assert_eq!(wishes, Wishes::default());
}

#[test]
fn the_documentation_has_each_key_as_it_is_declared() {
    let page = include_str!("../../../../../docs/lab/origin.md");
    let rows: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("| key |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let declared: Vec<String> = KEYS
        .iter()
        .map(|key| format!("| `{}` | {} | {} |", key.name, key.value, key.means))
        .collect();
    assert_eq!(rows, declared);
}
