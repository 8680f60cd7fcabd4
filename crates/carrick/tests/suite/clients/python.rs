//! Python's standard library, as client and as server.
use super::tool::{Tool, has_all};
use super::{count, site::make_certificate};
use crate::support::{Carrick, Place, wait_for};
use std::process::{Command, Stdio};

/// `http.server` over HTTP and over TLS; it answers with HTTP/1.0, and echoes uploads.
const SERVER: &str = r#"
import http.server, ssl, sys, threading
class Echo(http.server.SimpleHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
ip, plain, tls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
servers = [http.server.ThreadingHTTPServer((ip, port), Echo) for port in (plain, tls)]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
servers[1].socket = context.wrap_socket(servers[1].socket, server_side=True)
for server in servers:
    threading.Thread(target=server.serve_forever).start()
"#;

/// `urllib` with the usual variables, then `http.client` with its own tunnel, several requests each.
const CLIENT: &str = r#"
import http.client, ssl, sys, urllib.request
proxy, ip, plain, tls = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
context = ssl.create_default_context(cafile="ca.pem")
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({"http": "http://" + proxy, "https": "http://" + proxy}),
    urllib.request.HTTPSHandler(context=context))
body = bytes(range(256)) * 4000
for url in (f"http://{ip}:{plain}", f"https://{ip}:{tls}"):
    assert opener.open(url + "/hello.txt").read() == b"hello from python"
    assert opener.open(url + "/", data=body).read() == body
    try:
        opener.open(url + "/missing")
        raise SystemExit("no 404")
    except urllib.error.HTTPError as error:
        assert error.code == 404, error
host, port = proxy.split(":")
connection = http.client.HTTPSConnection(host, int(port), context=context)
connection.set_tunnel(ip, tls)
connection.request("GET", "/hello.txt")
assert connection.getresponse().read() == b"hello from python"
connection = http.client.HTTPConnection(host, int(port))
for number in range(3):
    connection.request("GET", f"http://{ip}:{plain}/hello.txt?{number}")
    assert connection.getresponse().read() == b"hello from python"
print("fine")
"#;

#[test]
fn python_talks_to_python() {
    if !has_all(&["python3", "openssl"]) {
        return;
    }
    let place = Place::claim();
    make_certificate(&place);
    place.write("server.py", SERVER);
    place.write("client.py", CLIENT);
    place.write("hello.txt", "hello from python");
    let (plain, tls) = (place.at(18_280), place.at(18_281));
    let child = Command::new("python3")
        .arg("server.py")
        .args([
            place.ip().to_string(),
            plain.port().to_string(),
            tls.port().to_string(),
        ])
        .current_dir(place.directory())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3");
    let _server = carrick_test::Killed(child);
    for address in [plain, tls] {
        wait_for("python's server", || {
            std::net::TcpStream::connect(address).ok()
        });
    }
    let carrick = Carrick::forward(&place);
    let out = Tool::new("python3", &place)
        .word("client.py")
        .word(carrick.forward_address().to_string())
        .words(&format!("{} {} {}", place.ip(), plain.port(), tls.port()))
        .expect();
    assert_eq!(out, "fine\n");
    let lines = carrick.access_log(10);
    assert_eq!(count(&lines, "CONNECT", &tls.to_string()), 4);
    assert_eq!(count(&lines, "POST", &plain.to_string()), 1);
    assert_eq!(lines.iter().filter(|line| line.status() == 404).count(), 1);
    // A Python that exits with an open tunnel may reset it: it has not read the server's session tickets.
    let mut requests = lines.iter().filter(|line| line.text("method") != "CONNECT");
    assert!(
        requests.all(|line| line.text("ended") == "complete"),
        "{lines:#?}"
    );
}
