//! The kernel decides as the process would, or not at all: thousands of requests through both.
mod requests;

use super::conditions;
use carrick_logic::access::NamePattern;
use carrick_logic::http1::{
    BodyLength, Forwarded, HeadLimits, Method, NamedIn, OddNames, Progress, RequestHead,
    RequestRewrite, StatedIn, Target, TargetForm, Version, write_request,
};
use carrick_logic::route::{Conditions, CookieRule, pick_request};
use carrick_splice::requests::{Classifier, RequestTable, Route, Settings, UpToProcess, Verdict};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// How many tables of routes are tried; `CARRICK_CLASSIFIER_SEEDS` says it otherwise.
const SEEDS: u64 = 100;

/// Requests for each table.
const REQUESTS: usize = 150;

const LIMITS: HeadLimits = HeadLimits {
    head_bytes_max: 64 << 10,
    fields_max: 100,
};

/// `None` without root.
fn classifier() -> Option<Classifier> {
    carrick_test::is_root().then(|| Classifier::load().unwrap())
}

/// What the process makes of the bytes of a packet, if they are a request that it could send on as it is.
fn process(
    routes: &[Conditions],
    limits: &HeadLimits,
    bytes: &[u8],
) -> Result<Option<usize>, String> {
    let mut head = RequestHead::new();
    match head.parse(bytes, limits) {
        Ok(Progress::Complete) => {}
        other => return Err(format!("{other:?}")),
    }
    if let Err(refusal) = head.apply_name_policy(OddNames::Drop) {
        return Err(format!("{refusal:?}"));
    }
    let is_plain = head.head_bytes == bytes.len()
        && head.body == BodyLength::None
        && head.keep_alive
        && !head.expects_continue
        && !head.wants_upgrade
        && head.version == Version::Http11
        && matches!(head.target, Target::Origin { .. })
        && matches!(
            head.method,
            Method::Get | Method::Head | Method::Options | Method::Delete
        )
        && !head.authenticates_connection(bytes)
        && head.max_forwards(bytes).is_none();
    if !is_plain {
        return Err(format!("not plain: {head:?}"));
    }
    if lines(&written(bytes, &head)) != lines(bytes) {
        return Err(format!("would be written anew: {head:?}"));
    }
    Ok(pick_request(routes.iter(), bytes, &head))
}

/// The head as the process would send it on, were nothing to be added.
fn written(bytes: &[u8], head: &RequestHead) -> Vec<u8> {
    let mut out = Vec::new();
    let how = RequestRewrite {
        form: TargetForm::Origin,
        default_host: "",
        name: "",
        named_in: NamedIn::Nothing,
        mark: None,
        client: Ipv4Addr::LOCALHOST.into(),
        forwarded: Forwarded::Remove,
        stated_in: StatedIn::default(),
        pass_proxy_authorization: false,
        pass_upgrade: false,
        pass_te_trailers: false,
        drop_expect: false,
        omitted: &[],
        added: &[],
    };
    write_request(&mut out, bytes, head, &how);
    out
}

/// The request line, and all others in some order: `Host` is put first. `Connection: keep-alive` says what is so without it.
fn lines(head: &[u8]) -> Vec<Vec<u8>> {
    let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::to_vec);
    let kept = lines.filter(|line| !line.eq_ignore_ascii_case(b"connection: keep-alive\r"));
    let mut lines: Vec<Vec<u8>> = kept
        .map(|line| match line.split_at_checked(6) {
            Some((host, rest)) if host.eq_ignore_ascii_case(b"host: ") => {
                [b"Host: ", rest].concat()
            }
            _ => line,
        })
        .collect();
    lines[1..].sort();
    lines
}

/// Routes of which every other one is in the kernel, or all.
fn in_kernel(routes: &[Conditions], every: usize) -> Vec<Route> {
    let numbered = routes.iter().enumerate();
    numbered
        .map(|(number, route)| Route {
            upstream: 100 + number as u32,
            in_kernel: number % every == 0 && route.header.is_none(),
            ..conditions(route)
        })
        .collect()
}

#[test]
fn the_kernel_decides_as_the_process_or_not_at_all() {
    let Some(classifier) = classifier() else {
        return;
    };
    let seeds = std::env::var("CARRICK_CLASSIFIER_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |text| text.parse().unwrap());
    let (mut decided, mut up) = (0_u64, BTreeMap::<UpToProcess, u64>::new());
    for seed in 0..seeds {
        let mut dice = carrick_test::Random::new(seed);
        let routes = requests::routes(&mut dice);
        let limits = match dice.below(3) {
            0 => HeadLimits {
                head_bytes_max: 100 + dice.below(300),
                fields_max: dice.below(10),
            },
            _ => LIMITS,
        };
        let settings = Settings {
            head_bytes_max: limits.head_bytes_max,
            fields_max: limits.fields_max,
            ..Settings::default()
        };
        let table = RequestTable::new(&in_kernel(&routes, 1 + dice.below(2)), settings);
        let generation = classifier.tables().install(0, &table).unwrap();
        for _ in 0..REQUESTS {
            let mut request = requests::request(&mut dice);
            if dice.below(2) == 0 {
                requests::mutate(&mut dice, &mut request);
            }
            let shown = String::from_utf8_lossy(&request).into_owned();
            let here = process(&routes, &limits, &request);
            match classifier.classify(0, generation, &request).unwrap() {
                Verdict::Route {
                    route, upstream, ..
                } => {
                    assert_eq!(
                        Ok(Some(route)),
                        here,
                        "seed {seed}: {shown:?} by {routes:#?}"
                    );
                    assert_eq!(upstream, 100 + route as u32);
                    decided += 1;
                }
                Verdict::Up(why) => {
                    if why == UpToProcess::NoRoute {
                        assert_eq!(Ok(None), here, "seed {seed}: {shown:?} by {routes:#?}");
                    }
                    *up.entry(why).or_default() += 1;
                }
            }
        }
    }
    eprintln!("{decided} decided, up to the process: {up:?}");
    // So that all of it was tried.
    for why in UpToProcess::ALL {
        assert!(
            up.contains_key(&why) || why == UpToProcess::Table,
            "{why:?} never came"
        );
    }
    assert!(decided > seeds * REQUESTS as u64 / 10);
}

#[test]
fn no_oddity_is_decided_otherwise() {
    let Some(classifier) = classifier() else {
        return;
    };
    // With all routes in the kernel, and with the process's in between; and without conditions, so that nothing but the form counts.
    let watchful = requests::watchful_routes();
    let everything = vec![Conditions::default()];
    let requests = requests::oddities();
    for (routes, every) in [(&watchful, 1), (&watchful, 2), (&everything, 1)] {
        let table = RequestTable::new(&in_kernel(routes, every), Settings::default());
        assert_eq!(table.left_out(), []);
        let generation = classifier.tables().install(0, &table).unwrap();
        let mut decided = 0;
        for request in &requests {
            if let Verdict::Route { route, .. } =
                classifier.classify(0, generation, request).unwrap()
            {
                let here = process(routes, &LIMITS, request);
                assert_eq!(
                    Ok(Some(route)),
                    here,
                    "{:?}",
                    String::from_utf8_lossy(request)
                );
                decided += 1;
            }
        }
        assert!(
            decided > requests.len() / 10,
            "{decided} of {}",
            requests.len()
        );
    }
}

#[test]
fn most_plain_requests_are_decided_in_the_kernel() {
    let Some(classifier) = classifier() else {
        return;
    };
    let mut dice = carrick_test::Random::new(1);
    let (mut decided, mut all) = (0, 0);
    for _ in 0..20 {
        let mut routes: Vec<_> = requests::routes(&mut dice)
            .into_iter()
            .filter(|route| route.header.is_none())
            .take(20)
            .collect();
        routes.push(Conditions::default());
        let table = RequestTable::new(&in_kernel(&routes, 1), Settings::default());
        assert_eq!(table.left_out(), []);
        let generation = classifier.tables().install(0, &table).unwrap();
        for _ in 0..100 {
            let request = requests::plain_request(&mut dice);
            let verdict = classifier.classify(0, generation, &request).unwrap();
            let Ok(Some(here)) = process(&routes, &LIMITS, &request) else {
                panic!("{:?}", String::from_utf8_lossy(&request));
            };
            all += 1;
            if let Verdict::Route { route, .. } = verdict {
                assert_eq!(route, here);
                decided += 1;
            }
        }
    }
    assert!(decided * 10 > all * 9, "{decided} of {all}");
}

/// Of every length up to the longest head, also at the seams of the parts that a search goes through.
#[test]
fn long_targets_and_values_are_decided_in_the_kernel() {
    let Some(classifier) = classifier() else {
        return;
    };
    let table = RequestTable::new(&in_kernel(&[Conditions::default()], 1), Settings::default());
    let generation = classifier.tables().install(0, &table).unwrap();
    for bytes in 1..1400 {
        let long = "a".repeat(bytes);
        for request in [
            format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {long}\r\n\r\n"),
        ] {
            let verdict = classifier.classify(0, generation, request.as_bytes());
            assert!(
                matches!(verdict, Ok(Verdict::Route { route: 0, .. })),
                "{request}: {verdict:?}"
            );
        }
    }
}

/// A request for everything, with these fields.
fn with_fields(fields: &str) -> Vec<u8> {
    format!("GET /a HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n").into_bytes()
}

#[test]
fn what_means_something_to_a_proxy_is_up_to_it() {
    let Some(classifier) = classifier() else {
        return;
    };
    let table = |settings| {
        let all = [Route {
            in_kernel: true,
            ..Route::default()
        }];
        let table = RequestTable::new(&all, settings);
        classifier.tables().install(3, &table).unwrap()
    };
    let generation = table(Settings::default());
    let says = |fields: &str| {
        classifier
            .classify(3, generation, &with_fields(fields))
            .unwrap()
    };
    for fields in [
        "Connection: close",
        "Connection: keep-alive, x",
        "Keep-Alive: 5",
        "TE: trailers",
        "Trailer: a",
        "Expect: 100-continue",
        "Upgrade: websocket",
        "Content-Length: 0",
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "Proxy: http://evil.example:80",
        "pROXY: a",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic YTpi",
        "Max-Forwards: 1",
        "Via: 1.1 a",
        "vIA: 1.1 a",
        "CDN-Loop: a",
        "X-Forwarded-For: 10.0.0.1",
        "X-Forwarded-Host: a",
        "X-Forwarded-Proto: http",
        "Forwarded: for=a",
        "X-Forwarded-Port: 1",
        "X-Real-IP: 10.0.0.1",
        "True-Client-IP: 10.0.0.1",
        "X-Host: a",
        "CONTENT-LENGTH: 5",
        "eXPECT: 100-continue",
    ] {
        assert_eq!(
            says(&format!("{fields}\r\n")),
            Verdict::Up(UpToProcess::Meaning),
            "{fields}"
        );
    }
    for fields in [
        "",
        "Connection: keep-alive\r\n",
        "CONNECTION: Keep-Alive\r\n",
        "Upgrade-Insecure-Requests: 1\r\n",
        "Content-Type: a/b\r\n",
        "Accept: */*\r\n",
        "Date: now\r\n",
        "Authorization: Basic YTpi\r\n",
        "Viaduct: a\r\n",
        "CDN-Cache-Control: a\r\n",
        "A: \u{e9}\r\n",
    ] {
        assert!(
            matches!(says(fields), Verdict::Route { route: 0, .. }),
            "{fields}: {:?}",
            says(fields)
        );
    }
    let generation = table(Settings {
        passes_forwarded: true,
        ..Settings::default()
    });
    let verdict = classifier.classify(3, generation, &with_fields("X-Forwarded-For: a\r\n"));
    assert!(matches!(verdict.unwrap(), Verdict::Route { .. }));
}

#[test]
fn a_condition_without_room_is_no_condition_less() {
    let Some(classifier) = classifier() else {
        return;
    };
    // The kernel cannot compare the first route's path, so what may be for it must not come to the second one.
    let long = Conditions {
        path: Some(format!("/{}", "a".repeat(80))),
        method: vec!["GET".to_owned()],
        ..Conditions::default()
    };
    let cookie = |name: &str| Conditions {
        cookie: Some(CookieRule {
            name: name.to_owned(),
            present: true,
        }),
        host: Some(NamePattern::parse("*.cookies.example").unwrap()),
        ..Conditions::default()
    };
    let mut routes = vec![long];
    routes.extend((0..9).map(|number| cookie(&format!("c{number}"))));
    routes.extend((0..40).map(|_| Conditions::default()));
    let table = RequestTable::new(&in_kernel(&routes, 1), Settings::default());
    let left_out: Vec<usize> = table.left_out().iter().map(|(route, _)| *route).collect();
    assert_eq!(left_out[..2], [0, 9]);
    assert_eq!(left_out[2..], (31..50).collect::<Vec<_>>());
    let generation = classifier.tables().install(0, &table).unwrap();
    let says = |line: &str, host: &str| {
        let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        classifier
            .classify(0, generation, request.as_bytes())
            .unwrap()
    };
    assert_eq!(says("GET /b", "a"), Verdict::Up(UpToProcess::Route));
    assert!(matches!(
        says("HEAD /b", "a"),
        Verdict::Route { route: 10, .. }
    ));
    let ninth = says("HEAD /b", "a.cookies.example");
    assert_eq!(ninth, Verdict::Up(UpToProcess::Route));
}

#[test]
fn what_authorities_ask_for_is_left_to_the_process() {
    let Some(classifier) = classifier() else {
        return;
    };
    let text = "[acme]\nstorage = \"acme\"\nemail = \"a@a.example\"\ndirectory = \"https://127.0.0.1:14000/dir\"\n[[listener]]\nlisten = \"192.0.2.1:80\"\nmode = \"switch\"\n\
        [[listener.route]]\nupstream = \"u\"\n[upstream.u]\nservers = [\"192.0.2.2:80\"]\n\
        [[listener]]\nlisten = \"192.0.2.1:443\"\nmode = \"switch\"\ntls = \"acme\"\n\
        [[listener.route]]\nhost = \"a.carrick.net\"\nupstream = \"u\"\n";
    let folder = tempfile::tempdir().unwrap();
    let plan = match crate::config::parse(text, "a.toml", folder.path()) {
        Ok(loaded) => loaded.plan,
        Err(rejected) => panic!("{rejected}"),
    };
    let table = super::table(&plan.listeners[0], &plan, 1).unwrap();
    let generation = classifier.tables().install(0, &table).unwrap();
    let says = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        classifier
            .classify(0, generation, request.as_bytes())
            .unwrap()
    };
    let challenge = says("/.well-known/acme-challenge/x");
    assert!(matches!(challenge, Verdict::Up(_)), "{challenge:?}");
    assert!(matches!(
        says("/.well-known/x"),
        Verdict::Route { upstream: 0, .. }
    ));
}
