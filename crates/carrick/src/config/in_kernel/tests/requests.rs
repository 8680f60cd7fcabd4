//! Routes and requests, made up from a seed.
use carrick_logic::access::NamePattern;
use carrick_logic::route::{Conditions, CookieRule};
use carrick_test::Random;

const HOSTS: &[&str] = &[
    "a.example",
    "b.example",
    "www.a.example",
    "x.www.a.example",
    "xa.example",
    "A.Example",
    "a_b.example",
    "10.0.0.1",
    "10.0.0.12",
    "example",
    "a-very-long-name-of-a-host-with-sixty.letters-or-so.example",
    "1.a.example",
    "a",
];
const PATTERNS: &[&str] = &[
    "a.example",
    "*.a.example",
    ".a.example",
    "*.example",
    ".example",
    "*",
    "10.0.0.1",
    "::1",
    "a_b.example",
    "::ffff:10.0.0.12",
    "example",
    "a-very-long-name-of-a-host-with-sixty.letters-or-so.example",
];
const SEGMENTS: &[&str] = &[
    "",
    "a",
    "images",
    "img",
    "api",
    "v1",
    "cgi-bin",
    "cgi-bi",
    "index.html",
    "a.gif",
    "a.GIF",
    "b.tar.gz",
    ".gif",
    "gif",
    "a.gif;v=1",
    "x;y.gif",
    "..",
    ".",
    "%69mages",
    "a,b",
    "very-long-segment-with-many-letters-in-it-and-more",
    "a.jpeg",
    "~user",
    "a@b",
    "a`b",
    "a[0]",
    ";",
    ";.gif",
];
const PATHS: &[&str] = &[
    "/",
    "/a",
    "/images/",
    "/img",
    "/api/",
    "/api/v1",
    "/a/",
    "/cgi-bin/",
    "/very-long-segment-with-many-letters-in-it-and-more/a",
    "/.",
];
const EXTENSIONS: &[&str] = &[
    "gif",
    "jpeg",
    "gz",
    "tar.gz",
    "html",
    "GIF",
    "a@b",
    "very-long-extension",
];
const COOKIES: &[&str] = &[
    "session",
    "s",
    "id",
    "theme",
    "__Host-very-long-name-of-cookie",
    "Session",
];
const QUERIES: &[&str] = &["", "?", "?a=1", "?a=/b.gif", "?a=1?b;c", "?/cgi-bin/"];
const METHODS: &[&str] = &["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT"];
const FIELDS: &[&str] = &[
    "Accept: */*",
    "User-Agent: curl/8.5.0",
    "Accept-Encoding: gzip, deflate, br",
    "Accept-Language: en-US,en;q=0.9",
    "Cache-Control: no-cache",
    "Pragma: no-cache",
    "Referer: http://a.example/x?y",
    "Upgrade-Insecure-Requests: 1",
    "Sec-Fetch-Site: same-origin",
    "DNT: 1",
    "If-None-Match: \"abc\"",
    "If-Modified-Since: Sat, 29 Oct 1994 19:43:31 GMT",
    "Range: bytes=0-99",
    "X-A: b",
    "Origin: http://a.example",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Connection: keep-alive",
    "Authorization: Basic YTpi",
    "authorization: Bearer ntlm",
];
const ODD_FIELDS: &[&str] = &[
    "Connection: close",
    "Connection: Keep-Alive",
    "Connection: keep-alive, te",
    "Content-Length: 0",
    "Content-Length: 3",
    "TE: trailers",
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Upgrade: websocket",
    "Keep-Alive: 1",
    "Trailer: a",
    "Max-Forwards: 0",
    "Proxy-Authorization: Basic YTpi",
    "Authorization: NTLM YTpi",
    "authorization: negotiate YTpi",
    "Authorization: NTLM",
    "Proxy-Connection: keep-alive",
    "X-Forwarded-For: 10.0.0.9",
    "Forwarded: for=a",
    "X_Forwarded_For: 10.0.0.9",
    "X-Real-IP: 10.0.0.9",
    "x-real-port: 9",
    "True-Client-IP: 10.0.0.9",
    "CF-Connecting-IP: 10.0.0.9",
    "Client-IP: 10.0.0.9",
    "Fastly-Client-IP: 10.0.0.9",
    "X-Client-IP: 10.0.0.9",
    "X-Client-Port: 9",
    "X-Cluster-Client-IP: 10.0.0.9",
    "X-Original-Host: a",
    "X-Originating-IP: a",
    "X-Host: a",
    "X-Remote-Addr: 10.0.0.9",
    "X-ProxyUser-IP: 10.0.0.9",
    "X-Envoy-External-Address: 10.0.0.9",
    "X-AppEngine-User-IP: 10.0.0.9",
    "X-Azure-ClientIP: 10.0.0.9",
    "X-Scheme: https",
    "X-Url-Scheme: https",
    "Front-End-Https: on",
    "WL-Proxy-Client-IP: a",
    "Proxy-Client-IP: a",
    "Fly-Client-IP: a",
    "X-Vercel-Forwarded-For: a",
    "Ali-CDN-Real-IP: a",
    "X-SSL-Client-Verify: a",
    "X-SSL-Client-S-DN: a",
    "SSL-Client-Cert: a",
    "Client-Cert: a",
    "Client-Cert-Chain: a",
    "X-ARR-ClientCert: a",
    "X-Amzn-Mtls-Clientcert: a",
    "Via: 1.1 a",
    "CDN-Loop: a",
    "Host: b.example",
    "X-A:b",
    "X-A:  b",
    "X-A: b ",
    "X-A:",
    "X-A: ",
    "X-A: b\tc",
    "X-A : b",
    " X-A: b",
    "X_A: b",
    "content_length: 3",
    "X-A: \u{e9}",
    "X-A: \x01",
    "X-A: \x7f",
    "X.A: b",
    "X-A",
    ": b",
    "X-A: b\r",
    "X-A: b\nX-B: c",
    "A-name-that-is-far-too-long-for-any-field-that-there-is: a",
];

const ODD_COOKIES: &[&str] = &[
    "Cookie: a=1 ; session=2",
    "Cookie: session =2",
    "Cookie:  session=2",
    "Cookie: a=1;  session=2",
    "Cookie: session",
    "Cookie: a=1;session=2;",
    "Cookie: a=1;\tsession=2",
    "Cookie: =session",
    "Cookie: a=session=1",
    "Cookie: a; session=",
    "Cookie: ;;session=1",
    "Cookie: x session=1",
    "Cookie: sessions=1",
    "Cookie: xsession=1",
    "Cookie2: session=1",
    "cOOKIE: session=1",
];

const ODD_HOSTS: &[&str] = &[
    ".a.example",
    "..a.example",
    "a.example.",
    ".example",
    ".",
    "[::1]",
    "a..example",
    "10.0.0.1.",
    "a@a.example",
    "a,b",
    "",
    " a.example",
    "a-very-long-name-of-a-host-with-sixty-three-letters.a.b.example",
    "a-very-long-name-of-a-host-with-sixty-four-letters-.a.b.example",
];
const PORTS: &[&str] = &[
    "", ":", ":0", ":1", ":9", ":80", ":080", ":8080", ":9999", ":10000", ":65535", ":65536",
    ":99999", ":100000", ":8x", ":x8", ": 80", ":80 ", ":80:80",
];

/// Each oddity by itself, in a request that is plain otherwise; and each byte at each place of one.
pub fn oddities() -> Vec<Vec<u8>> {
    let request = |line: &str, host: &str, field: &str| {
        format!("GET {line} HTTP/1.1\r\nHost: {host}\r\nA: b\r\n{field}\r\n\r\n").into_bytes()
    };
    let hosts = HOSTS.iter().chain(ODD_HOSTS);
    let with_ports = hosts.flat_map(|host| PORTS.iter().map(move |port| format!("{host}{port}")));
    let mut all: Vec<Vec<u8>> = with_ports.map(|host| request("/", &host, "C: d")).collect();
    let fields = FIELDS.iter().chain(ODD_FIELDS).chain(ODD_COOKIES);
    all.extend(fields.map(|field| request("/", "a.example", field)));
    for first in SEGMENTS {
        for second in SEGMENTS {
            let path = format!("/{first}/{second}");
            all.extend(
                QUERIES
                    .iter()
                    .map(|query| request(&format!("{path}{query}"), "a", "C: d")),
            );
            all.push(request(&format!("{path}{path}"), "a", "C: d"));
        }
    }
    let plain = "GET /img/a;b/c.gif;d?e HTTP/1.1\r\nHost: a.example:80\r\nConnection: keep-alive\r\nCookie: id=1; s=2; session=3\r\n\r\n";
    for at in 0..plain.len() {
        for byte in 0..=255 {
            let mut replaced = plain.as_bytes().to_vec();
            replaced[at] = byte;
            all.push(replaced);
            let mut inserted = plain.as_bytes().to_vec();
            inserted.insert(at, byte);
            all.push(inserted);
        }
        let mut removed = plain.as_bytes().to_vec();
        removed.remove(at);
        all.push(removed);
    }
    all
}

/// Routes that see a difference wherever there is one.
pub fn watchful_routes() -> Vec<Conditions> {
    let with_host = |pattern: &&str| Conditions {
        host: Some(NamePattern::parse(pattern).unwrap()),
        method: vec!["GET".to_owned()],
        cookie: Some(CookieRule {
            name: "none".to_owned(),
            present: false,
        }),
        path: Some("/".to_owned()),
        cgi: Some(false),
        ..Conditions::default()
    };
    let with_cookie = |name: &&str| Conditions {
        cookie: Some(CookieRule {
            name: (*name).to_owned(),
            present: true,
        }),
        ..Conditions::default()
    };
    let with_path = |path: &&str| Conditions {
        path: Some((*path).to_owned()),
        ..Conditions::default()
    };
    let with_extension = |extension: &&str| Conditions {
        extension: vec![(*extension).to_owned()],
        ..Conditions::default()
    };
    let hosts = ["*.a.example", "a.example", ".example", "10.0.0.1"];
    let mut routes: Vec<Conditions> = hosts.iter().map(with_host).collect();
    routes.extend(COOKIES.iter().map(with_cookie));
    routes.extend(EXTENSIONS.iter().map(with_extension));
    routes.push(Conditions {
        cgi: Some(true),
        ..Conditions::default()
    });
    routes.extend(PATHS.iter().filter(|path| **path != "/").map(with_path));
    routes.push(Conditions::default());
    routes
}

/// Up to six routes, and sometimes more than the kernel has room for.
pub fn routes(dice: &mut Random) -> Vec<Conditions> {
    let count = if dice.one_in(12) {
        30 + dice.below(12)
    } else {
        1 + dice.below(6)
    };
    let mut routes: Vec<Conditions> = (0..count).map(|_| route(dice)).collect();
    if !dice.one_in(4) {
        routes.push(Conditions::default());
    }
    routes
}

fn route(dice: &mut Random) -> Conditions {
    let mut route = Conditions::default();
    if dice.one_in(2) {
        route.host = Some(NamePattern::parse(dice.one_of(PATTERNS)).unwrap());
    }
    if dice.one_in(2) {
        route.path = Some(dice.one_of(PATHS).to_owned());
    }
    if dice.one_in(3) {
        route.extension = (0..1 + dice.below(3))
            .map(|_| dice.one_of(EXTENSIONS).to_owned())
            .collect();
    }
    if dice.one_in(3) {
        route.cookie = Some(CookieRule {
            name: dice.one_of(COOKIES).to_owned(),
            present: dice.one_in(2),
        });
    }
    if dice.one_in(4) {
        route.method = (0..1 + dice.below(2))
            .map(|_| dice.one_of(METHODS).to_owned())
            .collect();
    }
    if dice.one_in(4) {
        route.cgi = Some(dice.one_in(2));
    }
    if dice.one_in(10) {
        route.header = Some(("x-a".to_owned(), "b".to_owned()));
    }
    route
}

fn path(dice: &mut Random) -> String {
    if dice.one_in(3) {
        return format!("{}{}", dice.one_of(PATHS), dice.one_of(SEGMENTS));
    }
    let mut path = String::new();
    for _ in 0..1 + dice.below(4) {
        path.push('/');
        path.push_str(dice.one_of(SEGMENTS));
    }
    path
}

fn cookies(dice: &mut Random) -> String {
    let cookies: Vec<String> = (0..1 + dice.below(4))
        .map(|_| match dice.below(3) {
            0 => format!(
                "{}={}",
                dice.one_of(COOKIES),
                dice.one_of(&["1", "", "a b", "x=y", "\"q\""])
            ),
            1 => format!("n{}=v", dice.below(100)),
            _ => format!("_ga{}=GA1.2.{}", dice.below(10), dice.below(1 << 30)),
        })
        .collect();
    format!("Cookie: {}", cookies.join(dice.one_of(&["; ", "; ", ";"])))
}

/// A request as programs send it.
pub fn plain_request(dice: &mut Random) -> Vec<u8> {
    let method = dice.one_of(&["GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE"]);
    let host = dice.one_of(HOSTS);
    let port = dice.one_of(&["", "", ":80", ":8080", ":65535"]);
    let mut lines = vec![format!("Host: {host}{port}")];
    for _ in 0..dice.below(12) {
        lines.push(dice.one_of(FIELDS).to_owned());
    }
    if dice.one_in(3) {
        let cookies = cookies(dice);
        lines.insert(dice.below(lines.len() + 1), cookies);
    }
    format!(
        "{method} {}{} HTTP/1.1\r\n{}\r\n\r\n",
        path(dice),
        dice.one_of(QUERIES),
        lines.join("\r\n")
    )
    .into_bytes()
}

/// A request, plain or with something odd in it.
pub fn request(dice: &mut Random) -> Vec<u8> {
    let plain = plain_request(dice);
    if dice.one_in(2) {
        return plain;
    }
    let text = String::from_utf8(plain).unwrap();
    let odd = match dice.below(16) {
        0 => text.replacen(
            "HTTP/1.1",
            dice.one_of(&[
                "HTTP/1.0",
                "HTTP/1.2",
                "HTTP/2.0",
                "http/1.1",
                "HTTP/1.1 ",
                "",
            ]),
            1,
        ),
        1 => text.replacen(
            '/',
            dice.one_of(&[
                "http://b.example/",
                "*",
                "a",
                "#/",
                "/\u{e9}",
                "/a b",
                "/a#b",
                "/\x7f",
            ]),
            1,
        ),
        2 => text.replacen(
            "Host: ",
            dice.one_of(&[
                "Hots: ", "Host: ,", "Host: a@", "Host: :", "HOST: ", "Host:",
            ]),
            1,
        ),
        3 => text.replacen(
            "Host: ",
            dice.one_of(&[
                "Host: b\r\nHost: ",
                "Host: a.example:0\r\nX: ",
                "Host: a:65536\r\nX: ",
                "Host: a:00080\r\nX: ",
                "Host: a:\r\nX: ",
                "Host: a:8x\r\nX: ",
                "Host: [::1]:80\r\nX: ",
                "Host: \r\nX: ",
                "Host: a.example:65535\r\nX: ",
            ]),
            1,
        ),
        4 => format!(
            "{text}{}",
            dice.one_of(&[
                "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
                "body",
                "\r\n",
                "x\r\n\r\n"
            ])
        ),
        5 => text[..dice.below(text.len())].to_owned(),
        6 => text.replacen(
            "\r\n\r\n",
            &format!(
                "\r\n{}\r\n\r\n",
                "X-Many: of them\r\n"
                    .repeat(20 + dice.below(100))
                    .trim_end()
            ),
            1,
        ),
        7 => text.replacen(
            "\r\n\r\n",
            &format!("\r\nX-Long: {}\r\n\r\n", "x".repeat(dice.below(2500))),
            1,
        ),
        8 => text.replacen(' ', dice.one_of(&["  ", "\t", "", " /"]), 1),
        9 => format!(
            "{}{text}",
            dice.one_of(&[
                "\r\n",
                " ",
                "X",
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            ])
        ),
        10 => text.replacen(
            "\r\n\r\n",
            &format!(
                "\r\nCookie: {}\r\n\r\n",
                "a=b; ".repeat(dice.below(200)).trim_end_matches("; ")
            ),
            1,
        ),
        13 => text.replacen(
            "Host: ",
            &format!(
                "Host: {}{}\r\nX: ",
                dice.one_of(ODD_HOSTS),
                dice.one_of(PORTS)
            ),
            1,
        ),
        11 | 12 => text.replacen("\r\n", &format!("\r\n{}\r\n", dice.one_of(ODD_COOKIES)), 1),
        _ => text.replacen("\r\n", &format!("\r\n{}\r\n", dice.one_of(ODD_FIELDS)), 1),
    };
    odd.into_bytes()
}

/// Changes a few bytes, wherever they are; often to those that mean something.
pub fn mutate(dice: &mut Random, request: &mut Vec<u8>) {
    const BYTES: &[u8] = b"\r\n\r\n \t:;=/?#%.,-_@\0\x01\x7f\x80\xff\"aA0[]";
    for _ in 0..1 + dice.below(3) {
        if request.is_empty() {
            return;
        }
        let at = dice.below(request.len());
        let byte = if dice.one_in(4) {
            dice.below(256) as u8
        } else {
            BYTES[dice.below(BYTES.len())]
        };
        match dice.below(5) {
            0 => request[at] = byte,
            1 => request.insert(at, byte),
            2 => drop(request.remove(at)),
            3 => {
                let end = (at + dice.below(12)).min(request.len());
                let part = request[at..end].to_vec();
                let at = dice.below(request.len());
                request.splice(at..at, part);
            }
            _ => request[at] ^= 1 << dice.below(8),
        }
    }
}
