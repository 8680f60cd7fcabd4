//! Measures how long the kernel takes to classify a request, for heads as programs send them. As root:
//!
//!     cargo run -p carrick-splice --example classifier_cost
#![allow(clippy::print_stdout, reason = "it is what it is for")]

use carrick_splice::requests::{Classifier, Cookie, RequestTable, Route, Settings};

/// So often each head is classified in a row, and so many such rows: the fastest one was disturbed least.
const TIMES: u32 = 100_000;
const ROWS: usize = 20;

const WRK: &str = "GET /b/1024 HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n\r\n";
const CURL: &str = "GET /b/1024 HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";
const CHROMIUM: &str = "GET /images/logo.png HTTP/1.1\r\nHost: www.example.org\r\nConnection: keep-alive\r\n\
    sec-ch-ua: \"Not/A)Brand\";v=\"8\", \"Chromium\";v=\"126\", \"Google Chrome\";v=\"126\"\r\nsec-ch-ua-mobile: ?0\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36\r\n\
    sec-ch-ua-platform: \"Linux\"\r\nAccept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\nReferer: http://www.example.org/\r\n\
    Accept-Encoding: gzip, deflate\r\nAccept-Language: en-US,en;q=0.9\r\n\
    Cookie: _ga=GA1.2.1234567890.1700000000; session=0123456789abcdef0123456789abcdef\r\n\r\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let classifier = Classifier::load()?;
    let all = || Route {
        in_kernel: true,
        ..Route::default()
    };
    let path = |path: &str| Route {
        path: Some(path.to_owned()),
        ..all()
    };
    let extensions = ["gif", "jpg", "png", "css", "js"].map(str::to_owned);
    let tables = [
        ("one route", vec![all()]),
        (
            "five paths",
            vec![
                path("/api/"),
                path("/static/"),
                path("/img/"),
                path("/v1/"),
                all(),
            ],
        ),
        (
            "host, path, extensions, CGI, cookie",
            vec![
                Route {
                    host: carrick_splice::requests::Host::Below("example.com".into()),
                    ..all()
                },
                path("/api/"),
                Route {
                    extensions: extensions.to_vec(),
                    cgi: Some(true),
                    ..all()
                },
                Route {
                    cookie: Some(Cookie {
                        name: "beta".into(),
                        is_present: true,
                    }),
                    ..all()
                },
                all(),
            ],
        ),
    ];
    println!("| routes | head | bytes | classified, ns | with the call and the copy alone, ns |");
    println!("|---|---|---|---|---|");
    for (name, routes) in tables {
        let table = RequestTable::new(&routes, Settings::default());
        let generation = classifier.tables().install(0, &table)?;
        for (head, bytes) in [("wrk", WRK), ("curl", CURL), ("Chromium", CHROMIUM)] {
            let verdict = classifier.classify(0, generation, bytes.as_bytes())?;
            let fastest = |generation| {
                let rows =
                    (0..ROWS).map(|_| classifier.cost_ns(0, generation, bytes.as_bytes(), TIMES));
                rows.collect::<Result<Vec<_>, _>>()
                    .map(|rows| rows.into_iter().min().unwrap_or(0))
            };
            // Of another generation, nothing is looked at.
            let (whole, nothing) = (fastest(generation)?, fastest(0)?);
            println!(
                "| {name} | {head} | {} | {whole} | {nothing} |",
                bytes.len()
            );
            println!("<!-- {verdict:?} -->");
        }
    }
    Ok(())
}
