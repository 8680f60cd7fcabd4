//! nginx as the server, curl and clients that stay as clients.
use super::*;

/// The server of the bed, by the engine.
const NGINX: &str = r#"
[[listener]]
listen = "10.1.0.1:8080"
mode = "switch"
[[listener.route]]
upstream = "nginx"
engine = "packet"
[upstream.nginx]
servers = ["10.2.0.2:80"]
"#;

#[test]
fn curl_and_nginx_get_on() {
    let Some(bed) = Bed::build() else { return };
    let carrick = bed.carrick(NGINX);
    let urls: String = (0..50)
        .map(|number| format!(" http://{LISTENER}/{number}"))
        .collect();
    let said = bed.curl(urls.trim_start());
    assert_eq!(said.lines().count(), 50, "{said}");
    for (number, line) in said.lines().enumerate() {
        assert!(line.contains(&format!("request=GET /{number} ")), "{line}");
        assert!(line.contains("via=1.1 carrick"), "{line}");
    }
    let lines = carrick.access_log(50);
    let by_kernel = lines
        .iter()
        .filter(|line| line["engine"] == "packet")
        .count();
    assert_eq!(by_kernel, 48);
}
