//! Meaning of the cache's keys: defaults, inheritance from the listener, and guarded fields.
use super::{parse, parse_right};
use carrick::config::plan::{Mode, Plan, RouteCache};
use carrick::config::problem::Severity;
use carrick_logic::cache::{KeyQuery, Policy};
use carrick_logic::http1::{HeadLimits, Progress, RequestHead};

const FORWARD: &str = "[[listener]]\nlisten = \"127.0.0.1:3128\"\nmode = \"forward\"\n";
const SWITCH: &str = "[upstream.u]\nservers = \"10.0.0.1\"\n[[listener]]\nlisten = \"127.0.0.1:8080\"\nmode = \"switch\"\n";

/// The caches of the first listener: its own, or those of its routes.
fn caches(plan: &Plan) -> Vec<Option<&RouteCache>> {
    match &plan.listeners[0].mode {
        Mode::Forward(forward) => vec![forward.cache.as_deref()],
        mode => {
            let routes = mode.routes().iter();
            routes.map(|route| route.cache.as_deref()).collect()
        }
    }
}

fn plan(text: &str) -> Plan {
    parse_right(text).plan
}

#[test]
fn forward_proxies_cache_by_themselves_and_routes_when_told() {
    assert!(caches(&plan(FORWARD))[0].is_none());
    assert!(caches(&plan(&format!("[cache]\n{FORWARD}")))[0].is_some());
    assert!(caches(&plan(&format!("[cache]\n{FORWARD}cache = false")))[0].is_none());
    let routes = "[[listener.route]]\npath = \"/a\"\nupstream = \"u\"\n[[listener.route]]\nupstream = \"u\"\n";
    let told = plan(&format!("[cache]\n{SWITCH}{routes}cache = true"));
    let are_there: Vec<bool> = caches(&told).iter().map(Option::is_some).collect();
    assert_eq!(are_there, [false, true]);
    let by_listener = plan(&format!(
        "[cache]\n{SWITCH}cache = true\n{routes}cache = false"
    ));
    let are_there: Vec<bool> = caches(&by_listener).iter().map(Option::is_some).collect();
    assert_eq!(are_there, [true, false]);
}

#[test]
fn routes_take_from_their_listener_what_they_do_not_say() {
    let text = format!(
        "[cache]\ndefault_ttl = \"1s\"\n{SWITCH}cache = true\ndefault_ttl = \"2s\"\ncache_key = {{ query = \"none\" }}\ncache_bypass = {{ cgi = true }}\n\
         [[listener.route]]\npath = \"/a\"\nupstream = \"u\"\ndefault_ttl = \"3s\"\n\
         [[listener.route]]\nupstream = \"u\"\ncache_key = {{ headers = \"X-Tenant\" }}\ncache_bypass = []"
    );
    let plan = plan(&text);
    assert_eq!(plan.cache.as_ref().unwrap().policy.default_ttl_s, 1);
    let [Some(first), Some(second)] = caches(&plan)[..] else {
        panic!("two routes with a cache");
    };
    assert_eq!(first.policy.default_ttl_s, 3);
    assert_eq!(first.key.query, KeyQuery::None);
    assert_eq!(first.bypass.len(), 1);
    assert_eq!(second.policy.default_ttl_s, 2);
    assert_eq!(second.key.query, KeyQuery::All);
    assert_eq!(second.key.headers, [b"x-tenant"]);
    assert!(second.bypass.is_empty());
}

#[test]
fn the_largest_object_is_an_eighth_of_the_memory_unless_less_is_said() {
    let object_bytes_max = |keys: &str| {
        let plan = plan(&format!("{FORWARD}[cache]\n{keys}"));
        plan.cache.unwrap().object_bytes_max
    };
    assert_eq!(object_bytes_max(""), 32 << 20);
    assert_eq!(object_bytes_max("memory = \"1 GB\""), 128 << 20);
    assert_eq!(
        object_bytes_max("memory = \"1 GB\"\nobject_max = \"128 MB\""),
        128 << 20
    );
    assert_eq!(object_bytes_max("object_max = \"1 KB\""), 1024);
}

#[test]
fn fields_are_guarded_that_are_in_no_key() {
    let switch = plan(&format!(
        "[cache]\n{SWITCH}\n[[listener.route]]\nupstream = \"u\"\ncache = true\ncache_key = {{ headers = \"X-Host\" }}"
    ));
    let cache = caches(&switch)[0].unwrap();
    for name in ["Forwarded", "X-Forwarded-Host", "X-Original-URL"] {
        assert!(cache.key.guards(name.as_bytes()), "{name}");
    }
    assert!(!cache.key.guards(b"X-Host"), "it is in the key");
    let forward = plan(&format!("[cache]\n{FORWARD}"));
    assert!(caches(&forward)[0].unwrap().key.guards(b"X-Host"));
}

#[test]
fn a_request_that_meets_one_of_the_conditions_passes_by() {
    let plan = plan(&format!(
        "[cache]\n{FORWARD}cache_bypass = [{{ path = \"/a/\", extension = \"php\" }}, {{ cookie = \"c\" }}, {{ header = {{ name = \"X\", value = \"1\" }} }}]"
    ));
    let cache = caches(&plan)[0].unwrap();
    for (target, lines, expected) in [
        ("/", "", false),
        ("/a/x.gif", "", false),
        ("/x.php", "", false),
        ("/a/x.php", "", true),
        ("/", "Cookie: b=1; c=2\r\n", true),
        ("/", "Cookie: b=c\r\n", false),
        ("/", "X: 1\r\n", true),
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
        let limits = HeadLimits {
            head_bytes_max: 1024,
            fields_max: 10,
        };
        let mut head = RequestHead::new();
        assert_eq!(head.parse(text.as_bytes(), &limits), Ok(Progress::Complete));
        assert_eq!(
            cache.is_bypassed(text.as_bytes(), &head),
            expected,
            "{text}"
        );
    }
}

#[test]
fn a_transparent_listener_caches_what_meets_none_of_its_routes_if_it_says_so() {
    let text = format!(
        "[cache]\n{SWITCH}transparent = true\nintercept = {{ ports = [80] }}\ncache = true\n[[listener.route]]\npath = \"/a\"\nupstream = \"u\"\ncache = false"
    );
    let plan = plan(&text);
    let are_there: Vec<bool> = caches(&plan).iter().map(Option::is_some).collect();
    assert_eq!(are_there, [false, true]);
}

#[test]
fn cookies_in_a_key_are_worth_a_note() {
    let loaded = parse(&format!(
        "[cache]\n{FORWARD}cache_key = {{ headers = \"Cookie\" }}"
    ))
    .unwrap();
    let found = loaded
        .problems
        .iter()
        .find(|problem| problem.message.contains("other cookies"));
    assert_eq!(found.unwrap().severity, Severity::Note);
}

#[test]
fn a_forward_proxy_that_says_nothing_has_what_the_plan_makes_by_itself() {
    let plan = plan(&format!("[cache]\n{FORWARD}"));
    let by_itself = RouteCache::new(Policy::default());
    assert_eq!(
        format!("{:?}", caches(&plan)[0].unwrap()),
        format!("{by_itself:?}")
    );
}
