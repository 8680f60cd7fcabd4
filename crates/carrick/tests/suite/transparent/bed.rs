//! The test bed: three namespaces on two links, nginx on the server, and carricks on the router.
use crate::support::carrick::{PROGRAM, patient};
use crate::support::output::Output;
use crate::support::{wait_for, wait_until};
use carrick_lab::command::find;
use carrick_lab::testbed::name::RunName;
use carrick_lab::testbed::namespace::Namespace;
use carrick_test::{EndInTime, RunInTime};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// nginx returns its address, the client's, and the request. `/slow` takes some seconds, `/embeds` is a page, `/until-close` has no length.
const NGINX: &str = r#"
daemon off; user root; worker_processes 1; pid DIR/nginx.pid; error_log DIR/nginx.log;
events {}
http {
  access_log off;
  client_body_temp_path DIR; proxy_temp_path DIR; fastcgi_temp_path DIR; uwsgi_temp_path DIR; scgi_temp_path DIR;
  server {
    listen 80; listen [::]:80; listen 8000; listen [::]:8000; listen 443 ssl; listen [::]:443 ssl; listen 8443 ssl http2;
    ssl_certificate DIR/certificate; ssl_certificate_key DIR/key;
    location / { return 200 "server=$server_addr client=$remote_addr host=$http_host via=$http_via forwarded=$http_x_forwarded_for request=$request\n"; }
    location /embeds { default_type text/html; return 200 "<img src=/object/1><img src=/object/2><img src=http://10.2.0.3/object/3>"; }
    location /object/ { add_header Cache-Control max-age=600; return 200 "object of $server_addr"; }
    location /until-close { root DIR; ssi on; ssi_types *; chunked_transfer_encoding off; }
    location /closes { keepalive_timeout 0; return 200 "closes"; }
    location /slow { root DIR; limit_rate 100k; limit_rate_after 1; }
  }
}
"#;

/// Bytes of `/slow`: three seconds' worth.
pub const SLOW_BYTES: usize = 300_000;

/// The namespaces; removed when dropped, with all that runs in them.
pub struct Bed {
    pub client: Namespace,
    pub router: Namespace,
    pub server: Namespace,
    directory: tempfile::TempDir,
    nginx: Option<Child>,
}

impl Bed {
    /// Client 10.1.0.2, .3 and fd00:1::2 - router eth1, eth2 - server 10.2.0.2, .3 and fd00:2::2, ::3. `None`, with the
    /// reason on standard error, if it cannot be built here.
    pub fn build() -> Option<Self> {
        if !carrick_test::is_root() {
            return None;
        }
        for tool in ["ip", "nft", "nginx", "curl", "openssl"] {
            if find(tool).is_none() {
                carrick_test::skip!("there is no {tool}");
                return None;
            }
        }
        let run = RunName::of_this_process().expect("a name");
        let part = |role| Namespace::named(&run, role);
        let mut bed = Self {
            client: part("client"),
            router: part("router"),
            server: part("server"),
            directory: tempfile::tempdir().expect("a directory"),
            nginx: None,
        };
        bed.wire();
        bed.serve();
        Some(bed)
    }

    fn wire(&self) {
        for namespace in self.namespaces() {
            namespace.create().expect("a namespace");
        }
        let links = [
            (&self.client, "eth0", "eth1", 1),
            (&self.server, "eth0", "eth2", 2),
        ];
        for (host, near, far, number) in links {
            self.router.join(far, host, near).expect("a link");
            for (namespace, device, ends) in [(&self.router, far, &[1][..]), (host, near, &[2, 3])]
            {
                for end in ends {
                    lines(
                        namespace,
                        &[
                            &format!("address add 10.{number}.0.{end}/24 dev {device}"),
                            // Of several, the first one is the preferred source address.
                            &format!(
                                "address add fd00:{number}::{end}/64 dev {device} nodad{}",
                                if *end > 2 { " preferred_lft 0" } else { "" }
                            ),
                        ],
                    );
                }
                lines(namespace, &[&format!("link set {device} up")]);
            }
            lines(
                host,
                &[
                    &format!("route add default via 10.{number}.0.1"),
                    &format!("route add default via fd00:{number}::1"),
                ],
            );
        }
        for parameter in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            self.router.set_parameter(parameter, "1").expect("a router");
        }
    }

    fn serve(&mut self) {
        let directory = self.directory.path();
        let at = |name: &str| directory.join(name).display().to_string();
        let text = NGINX.replace("DIR", &directory.display().to_string());
        self.write("nginx.conf", &text);
        self.write("slow", &"x".repeat(SLOW_BYTES));
        self.write("until-close", "until close");
        let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
        let made = Command::new("openssl")
            .args(request.split(' '))
            .args(["-subj", "/CN=test"])
            .args(["-keyout", &at("key"), "-out", &at("certificate")])
            .stderr(Stdio::null())
            .status();
        assert!(made.is_ok_and(|status| status.success()), "a certificate");
        let nginx = find("nginx").expect("it exists").display().to_string();
        let mut nginx = inside(&self.server, &[&nginx, "-c", &at("nginx.conf")]);
        // It lives until the namespace is removed.
        self.nginx = Some(nginx.stderr(Stdio::null()).spawn().expect("nginx"));
        wait_until("nginx", || self.server.is_listening(443).unwrap_or(false));
    }

    fn namespaces(&self) -> [&Namespace; 3] {
        [&self.client, &self.router, &self.server]
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Lets users other than root write into the directory.
    pub fn open_to_all_users(&self) {
        use std::os::unix::fs::PermissionsExt;
        let everybody = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(self.directory(), everybody).expect("permissions");
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// The output of curl on the client; `words` are its arguments.
    pub fn curl(&self, words: &str) -> String {
        self.try_curl(words)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`curl`](Self::curl), if it may fail: then with curl's exit code.
    pub fn try_curl(&self, words: &str) -> Result<String, String> {
        let mut command = inside(&self.client, &["curl", "-sSk", "--max-time", "600"]);
        let output = command
            .args(words.split(' '))
            .output_in_time()
            .expect("curl");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!(
                "curl {words}: {}: {}",
                output.status,
                text(&output.stderr)
            ))
        }
    }

    /// Starts carrick on the router, with two workers, long time-outs, and admin on 127.0.0.1:3129 unless the text sets them.
    pub fn carrick(&self, text: &str) -> Running {
        self.try_carrick(&[PROGRAM], text)
            .unwrap_or_else(|said| panic!("carrick did not start: {said}"))
    }

    /// Like [`carrick`](Self::carrick), for one that may fail to start, by a command that executes carrick; `Err`: its output.
    pub fn try_carrick(&self, command: &[&str], text: &str) -> Result<Running, String> {
        let mut number = 0;
        let file = loop {
            let name = format!("carrick-{number}.toml");
            if !self.directory().join(&name).exists() {
                break self.write(&name, &whole(text, number));
            }
            number += 1;
        };
        let file_text = file.display().to_string();
        let mut words = command.to_vec();
        words.extend(["run", "-c", &file_text]);
        let mut child = inside(&self.router, &words)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("carrick");
        let said = Output::collect(child.stderr.take().expect("a pipe"));
        match said.wait_for("is ready") {
            Ok(_) => Ok(Running {
                child,
                said,
                file,
                number,
                is_ended: false,
            }),
            Err(text) => {
                let status = child.wait_in_time().expect("its end");
                Err(format!("{status}: {text}"))
            }
        }
    }

    /// Runs carrick with other arguments on the router; returns its exit code and output.
    pub fn command(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut words = vec![PROGRAM];
        words.extend(arguments);
        let output = inside(&self.router, &words)
            .output_in_time()
            .expect("carrick");
        let all = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&all).into_owned(),
        )
    }

    /// All rules of the router, of every kind.
    pub fn rules(&self) -> String {
        let tell = |words: &[&str]| {
            let (tool, arguments) = words.split_first().expect("a tool");
            self.router.run(tool, arguments).expect("rules")
        };
        [
            tell(&["nft", "list", "ruleset"]),
            tell(&["ip", "-4", "-d", "rule"]),
            tell(&["ip", "-6", "-d", "rule"]),
            tell(&["ip", "-4", "route", "show", "table", "all"]),
            tell(&["ip", "-6", "route", "show", "table", "all"]),
        ]
        .concat()
        .lines()
        // The kernel adds routes of its own at any time, and tracked connections stay for a while.
        .filter(|line| !line.contains(" dev ") || !line.contains(" proto kernel"))
        .filter(|line| !line.contains(" expires "))
        .map(|line| line.to_owned() + "\n")
        .collect()
    }

    /// The rule supervisors on the router.
    pub fn supervisors(&self) -> Vec<Pid> {
        let processes = self.router.processes().expect("processes");
        let is_supervisor = |pid: &u32| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains("keep-rules"))
        };
        let supervisors = processes.into_iter().filter(is_supervisor);
        supervisors
            .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .collect()
    }

    /// Waits until the supervisors of killed carricks have ended. The next carrick waits for them, too, but for three seconds.
    pub fn wait_for_supervisors(&self) {
        wait_until("the supervisors' end", || self.supervisors().is_empty());
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        for namespace in self.namespaces() {
            namespace.remove();
        }
        if let Some(nginx) = &mut self.nginx {
            let _ = nginx.wait();
        }
    }
}

/// A carrick on the router.
pub struct Running {
    child: Child,
    pub said: Output,
    file: PathBuf,
    number: u16,
    is_ended: bool,
}

impl Running {
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it exists");
    }

    /// Ends it; it must succeed. Returns its output.
    pub fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until it has ended successfully.
    pub fn wait(&mut self) -> String {
        let status = self.wait_for_exit();
        let text = self.said.wait_for_end();
        assert!(
            status.success() && !text.contains("panicked"),
            "{status}: {text}"
        );
        text
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait_for_exit();
    }

    fn wait_for_exit(&mut self) -> std::process::ExitStatus {
        let status = self.child.wait_in_time().expect("a state");
        self.is_ended = true;
        status
    }

    /// Reloads, and waits until the output contains `part`.
    pub fn reload(&self, text: &str, part: &str) -> String {
        std::fs::write(&self.file, whole(text, self.number)).expect("a file");
        self.signal(Signal::HUP);
        self.said
            .wait_for(part)
            .unwrap_or_else(|said| panic!("{said}"))
    }

    /// Waits until its access log has `count` lines, and returns them.
    pub fn access_log(&self, count: usize) -> Vec<serde_json::Value> {
        let path = self.file.with_extension("log");
        wait_for("lines of the access log", || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            (lines.len() >= count).then_some(lines)
        })
    }

    /// A metric, as text.
    pub fn metric(&self, bed: &Bed, line: &str) -> f64 {
        let url = format!("http://127.0.0.1:{}/metrics", admin(self.number));
        let text = bed.router.run("curl", &["-sS", &url]).expect("metrics");
        let value = text.lines().find_map(|other| other.strip_prefix(line));
        value.map_or(0.0, |value| value.trim().parse().expect("a number"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if std::thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            eprintln!("carrick said:\n{}", self.said.text());
        } else {
            self.signal(Signal::TERM);
            self.wait();
        }
    }
}

fn admin(number: u16) -> u16 {
    3129 + number
}

fn whole(text: &str, number: u16) -> String {
    let mut whole = format!(
        "[admin]\nlisten = \"127.0.0.1:{}\"\n[log]\naccess = \"carrick-{number}.log\"\nformat = \"json\"\n",
        admin(number)
    );
    if !text.contains("[workers]") {
        whole += "[workers]\ncount = 2\n";
    }
    if !text.contains("[timeouts]") {
        whole += "[timeouts]\nhead = \"10m\"\nidle = \"10m\"\ndrain = \"2s\"\n";
    }
    patient(&(whole + text))
}

/// Lines of `ip` in a namespace.
pub fn lines(namespace: &Namespace, lines: &[&str]) {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    namespace.ip(&lines).expect("ip");
}

/// A command in a namespace.
pub fn inside(namespace: &Namespace, words: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", namespace.name()])
        .args(words);
    command
}
