//! A web site on loopback: nginx with files, over HTTP and over HTTPS with a certificate of the test's own authority.
use super::tool::{Tool, has_all};
use crate::support::{Place, wait_for};
use carrick_test::Killed;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HTTP_PORT: u16 = 18_180;
const HTTPS_PORT: u16 = 18_543;

/// Required programs.
pub const NEEDED: [&str; 2] = ["nginx", "openssl"];

/// A running nginx.
#[derive(Debug)]
pub struct Site {
    _child: Killed,
    directory: PathBuf,
    http: SocketAddr,
    https: SocketAddr,
}

/// Creates `ca.pem`, an authority, and `server.pem` with `server.key`, signed for the test's address and `localhost`.
pub fn make_certificate(place: &Place) {
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    Tool::new("openssl", place)
        .words("req -x509 -subj /CN=carrick-test-authority -days 2 -keyout ca.key -out ca.pem")
        .words(new_key)
        .words("-addext keyUsage=critical,keyCertSign,cRLSign")
        .expect();
    place.write(
        "extensions",
        &format!(
            "subjectAltName=IP:{},DNS:localhost\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n\
             basicConstraints=critical,CA:FALSE\nauthorityKeyIdentifier=keyid\n",
            place.ip()
        ),
    );
    Tool::new("openssl", place)
        .words("req -subj /CN=carrick-test-server -keyout server.key -out server.csr")
        .words(new_key)
        .expect();
    Tool::new("openssl", place)
        .words("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2")
        .words("-extfile extensions -out server.pem")
        .expect();
}

impl Site {
    /// Starts a site without files; `None`, with a visible message, if a program is missing.
    pub fn start(place: &Place) -> Option<Self> {
        if !has_all(&NEEDED) {
            return None;
        }
        make_certificate(place);
        let directory = place.directory().join("site");
        std::fs::create_dir(&directory).expect("a directory");
        std::fs::create_dir(place.directory().join("nginx")).expect("a directory");
        place.write("nginx.conf", &configuration(place));
        let child = Command::new(super::tool::find("nginx")?)
            .arg("-p")
            .arg(place.directory())
            .args(["-e", "nginx.log", "-c", "nginx.conf"])
            .current_dir(place.directory())
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx");
        let site = Self {
            _child: Killed(child),
            directory,
            http: place.at(HTTP_PORT),
            https: place.at(HTTPS_PORT),
        };
        for address in [site.http, site.https] {
            wait_for("nginx", || TcpStream::connect(address).ok());
        }
        Some(site)
    }

    /// Writes a file of the site.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.directory.join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `http://…` of a path.
    pub fn http(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// `https://…` of a path.
    pub fn https(&self, path: &str) -> String {
        format!("https://{}{path}", self.https)
    }

    /// The address of HTTPS.
    pub fn https_address(&self) -> SocketAddr {
        self.https
    }
}

/// One process that serves both, and accepts uploads by PUT.
fn configuration(place: &Place) -> String {
    let ip = place.ip();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("  {name}_temp_path nginx/{name};\n"))
        .collect();
    format!(
        "daemon off;\nmaster_process off;\npid nginx/pid;\nerror_log nginx/error.log;\nevents {{}}\nhttp {{\n{temporary}  \
         access_log nginx/access.log;\n  default_type application/octet-stream;\n  \
         types {{ text/html html; text/javascript js; text/css css; image/svg+xml svg; application/json json; }}\n  \
         server {{\n    listen {ip}:{HTTP_PORT};\n    listen {ip}:{HTTPS_PORT} ssl;\n    ssl_certificate server.pem;\n    \
         ssl_certificate_key server.key;\n    root site;\n    index index.html;\n    \
         location / {{ dav_methods PUT; create_full_put_path on; client_max_body_size 100m; }}\n  }}\n}}\n"
    )
}
