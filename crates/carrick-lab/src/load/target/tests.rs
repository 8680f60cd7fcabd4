//! Tests of requests as bytes.

use super::*;
use crate::load::work::tests::{CLOSED, class, plan};

fn written(plan: &LoadPlan, is_last: bool) -> String {
    let request = Request {
        seed: 42,
        body_bytes: 1000,
        ..Request::default()
    };
    let mut bytes = b"what was there".to_vec();
    Targets::new(plan).write(&request, is_last, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

#[test]
fn direct_forward_tunnel() {
    let mut plan = plan(CLOSED, vec![class("a", Kind::NonCacheable, 1.0)]);
    plan.classes[0].extension = ".gif".into();
    plan.classes[0].fields = vec!["Cookie: a=b".into()];
    assert_eq!(
        written(&plan, false),
        "GET /b/1000.gif?cache=no-store&seed=42 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nCookie: a=b\r\n\r\n"
    );
    assert!(written(&plan, true).ends_with("Connection: close\r\n\r\n"));
    plan.classes[0].http_1_0 = true;
    assert!(
        written(&plan, true).contains(" HTTP/1.0\r\n") && !written(&plan, true).contains("close")
    );
    plan.classes[0] = class("a", Kind::Cacheable { objects: 3 }, 1.0);
    plan.route = Route::Forward {
        proxy: ([127, 0, 0, 1], 3128).into(),
        origin: "o:81".into(),
    };
    assert_eq!(
        written(&plan, false),
        "GET http://o:81/b/1000?cache=max-age=3600&seed=42 HTTP/1.1\r\nHost: o:81\r\n\r\n"
    );
    plan.classes[0].kind = Kind::Tls {
        abbreviated_share: 0.6,
    };
    assert!(written(&plan, false).starts_with("GET /b/1000?cache=no-store&seed=42 HTTP/1.1\r\n"));
    let targets = Targets::new(&plan);
    assert_eq!(
        targets.connect(),
        b"CONNECT o:81 HTTP/1.1\r\nHost: o:81\r\n\r\n"
    );
    let request = Request {
        seed: 1,
        body_bytes: 2,
        ..Request::default()
    };
    assert_eq!(targets.describe(&request), "GET /b/2?cache=no-store&seed=1");
}

#[test]
fn literal_paths_and_their_seeds() {
    let mut plan = plan(CLOSED, vec![class("a", Kind::NonCacheable, 1.0)]);
    plan.classes[0].path = Some("/file?x=1&seed=7".into());
    assert!(written(&plan, false).starts_with("GET /file?x=1&seed=7 HTTP/1.1\r\n"));
    let request = Request {
        seed: 1,
        body_bytes: 1000,
        ..Request::default()
    };
    assert_eq!(
        Targets::new(&plan).expected(&request).body,
        Some(Body::of_seed(7))
    );
    plan.classes[0].path = Some("/file".into());
    let expected = Targets::new(&plan).expected(&request);
    assert_eq!(
        (expected.body, expected.body_bytes),
        (Some(Body::of_seed(body_seed("/file"))), Some(1000))
    );
    plan.verify = false;
    let expected = Targets::new(&plan).expected(&request);
    assert_eq!((expected.body, expected.body_bytes), (None, None));
}
