//! Requests per connection.

use super::*;

#[test]
fn zipf_has_the_probabilities_it_says() {
    let kind = parse("zipf:1.5:20").unwrap();
    let mut quota = Quota::new(kind, 7);
    let draws = 200_000;
    let mut counts = [0_u32; 21];
    for _ in 0..draws {
        counts[usize::try_from(quota.draw()).unwrap()] += 1;
    }
    let norm: f64 = (1..=20).map(|n| f64::from(n).powf(-1.5)).sum();
    for n in 1..=20_u32 {
        let p = f64::from(n).powf(-1.5) / norm;
        let expected = p * f64::from(draws);
        let deviation = (expected * (1.0 - p)).sqrt();
        let seen = f64::from(counts[n as usize]);
        assert!(
            (seen - expected).abs() < 4.5 * deviation,
            "{n}: {seen}, not {expected}"
        );
    }
    assert_eq!(counts[0], 0);
}

#[test]
fn a_seed_repeats_and_another_does_not() {
    let draw = |seed| {
        let mut quota = Quota::new(parse("zipf:1:1000").unwrap(), seed);
        (0..50).map(|_| quota.draw()).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn the_forms_are_read_and_others_are_explained() {
    assert_eq!(
        parse("unlimited").unwrap(),
        RequestsPerConnection::Unlimited
    );
    assert_eq!(parse("3").unwrap(), RequestsPerConnection::Fixed(3));
    assert_eq!(Quota::new(parse("3").unwrap(), 0).draw(), 3);
    assert_eq!(
        Quota::new(RequestsPerConnection::Unlimited, 0).draw(),
        u64::MAX
    );
    for (text, part) in [
        ("0", "at least 1"),
        ("-1", "no number of requests"),
        ("zipf:a:5", "no exponent"),
        ("zipf:nan:5", "not NaN"),
        ("zipf:1:0", "1 to 1000000"),
        ("zipf:1", "zipf:ALPHA:MAX"),
        ("uniform:1:2", "zipf:ALPHA:MAX"),
    ] {
        let said = format!("{:#}", parse(text).unwrap_err());
        assert!(said.contains(part), "{text}: {said}");
    }
}
