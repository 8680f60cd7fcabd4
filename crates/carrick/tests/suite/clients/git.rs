//! git, over its dumb and its smart HTTP protocol.
use super::site::Site;
use super::tool::{Tool, find, has_all};
use super::{count, expect_lines, lines_with};
use crate::support::message::field;
use crate::support::server::Serving;
use crate::support::{Carrick, Peer, Place, Server, random, wait_until};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn git(place: &Place) -> Tool {
    Tool::new("git", place)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .words("-c user.name=play -c user.email=play@example.org -c init.defaultBranch=main -c commit.gpgSign=false")
}

fn through(place: &Place, carrick: &Carrick) -> Tool {
    git(place)
        .word("-c")
        .word(format!("http.proxy=http://{}", carrick.forward_address()))
        .words("-c http.sslCAInfo=ca.pem")
}

/// A bare repository with one commit of some size.
fn make_repository(place: &Place, bare: &Path) {
    let work = place.directory().join("origin");
    git(place).words("init --quiet origin").expect();
    std::fs::write(work.join("file"), random::Random::new(5).bytes(300_000)).expect("a file");
    git(place).at(&work).words("add file").expect();
    git(place)
        .at(&work)
        .words("commit --quiet -m first")
        .expect();
    git(place)
        .words("clone --quiet --bare origin")
        .word(bare)
        .expect();
}

fn same_file(place: &Place, clone: &str) {
    let read = |directory: &str| {
        std::fs::read(place.directory().join(directory).join("file")).expect("a file")
    };
    assert!(read("origin") == read(clone), "{clone} is different");
}

#[test]
fn git_clones_over_the_dumb_protocol() {
    let place = Place::claim();
    let Some(site) = Site::start(&place).filter(|_| has_all(&["git"])) else {
        return;
    };
    let bare = site.directory().join("play.git");
    make_repository(&place, &bare);
    git(&place).at(&bare).words("update-server-info").expect();
    let carrick = Carrick::forward(&place);
    for (clone, url) in [
        ("plain", site.http("/play.git")),
        ("tls", site.https("/play.git")),
    ] {
        through(&place, &carrick)
            .words(&format!("clone --quiet {url} {clone}"))
            .expect();
        same_file(&place, clone);
    }
    let https = site.https_address().to_string();
    let refs = ("GET", "/play.git/info/refs");
    let lines = lines_with(&carrick, &[("CONNECT", &https), refs]);
    assert_eq!(count(&lines, refs.0, refs.1), 1);
}

/// `git http-backend` (CGI) behind a server of one request per connection.
fn smart_server(place: &Place, root: &Path) -> Serving {
    let (root, program) = (root.to_owned(), find("git").expect("git"));
    Server::listen(place).serve(move |mut peer, _| {
        if peer.waits_for_head() {
            answer_by_cgi(&mut peer, &root, &program);
        }
    })
}

fn answer_by_cgi(peer: &mut Peer, root: &Path, program: &Path) {
    let head = peer.read_head();
    let words: Vec<&str> = head.split_whitespace().collect();
    let (path, query) = words[1].split_once('?').unwrap_or((words[1], ""));
    if field(&head, "expect").is_some() {
        peer.send("HTTP/1.1 100 Continue\r\n\r\n");
    }
    let body = read_body(peer, &head);
    let mut child = Command::new(program)
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("REMOTE_USER", "play")
        .env("REQUEST_METHOD", words[0])
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env(
            "CONTENT_TYPE",
            field(&head, "content-type").unwrap_or_default(),
        )
        .env("CONTENT_LENGTH", body.len().to_string())
        .env(
            "HTTP_CONTENT_ENCODING",
            field(&head, "content-encoding").unwrap_or_default(),
        )
        .env(
            "GIT_PROTOCOL",
            field(&head, "git-protocol").unwrap_or_default(),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git");
    let mut input = child.stdin.take().expect("a pipe");
    let feeding = std::thread::spawn(move || {
        // It may end before it has read everything.
        let _ = input.write_all(&body);
    });
    let output = child.wait_with_output().expect("git").stdout;
    feeding.join().expect("a thread");
    let text = String::from_utf8_lossy(&output);
    let status = text.lines().find_map(|line| line.strip_prefix("Status: "));
    peer.send(format!(
        "HTTP/1.1 {}\r\nConnection: close\r\n",
        status.unwrap_or("200 OK")
    ));
    peer.send(output);
}

fn read_body(peer: &mut Peer, head: &str) -> Vec<u8> {
    if let Some(length) = field(head, "content-length") {
        return peer.read_exact(length.parse().expect("a length"));
    }
    let mut body = Vec::new();
    if field(head, "transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            while !line.ends_with("\r\n") {
                line.push(char::from(peer.read_exact(1)[0]));
            }
            let size = usize::from_str_radix(line.trim_end(), 16).expect("a size");
            body.extend(peer.read_exact(size));
            peer.expect("\r\n");
            if size == 0 {
                break;
            }
        }
    }
    body
}

#[test]
fn git_clones_and_pushes_over_the_smart_protocol() {
    if !has_all(&["git"]) {
        return;
    }
    let place = Place::claim();
    let root = place.directory().join("served");
    std::fs::create_dir(&root).expect("a directory");
    let bare = root.join("play.git");
    make_repository(&place, &bare);
    git(&place)
        .at(&bare)
        .words("config http.receivepack true")
        .expect();
    let server = smart_server(&place, &root);
    let carrick = Carrick::forward(&place);
    let url = format!("http://{}/play.git", server.address());
    through(&place, &carrick)
        .words(&format!("clone --quiet {url} clone"))
        .expect();
    same_file(&place, "clone");
    // A push larger than the buffer is sent in chunks.
    let clone = place.directory().join("clone");
    std::fs::write(clone.join("more"), random::Random::new(6).bytes(1_000_000)).expect("a file");
    git(&place).at(&clone).words("add more").expect();
    git(&place)
        .at(&clone)
        .words("commit --quiet -m second")
        .expect();
    through(&place, &carrick)
        .at(&clone)
        .words("-c http.postBuffer=65536 push --quiet origin main")
        .expect();
    let pushed = git(&place).at(&bare).words("log --format=%s main").expect();
    assert_eq!(pushed, "second\nfirst\n");
    lines_with(
        &carrick,
        &[
            ("GET", "/info/refs?service=git-upload-pack"),
            ("POST", "/git-upload-pack"),
        ],
    );
    // git first probes with a small push.
    wait_until("the push in the log", || {
        let lines = expect_lines(&carrick, 1);
        let mut pushes = lines.iter().filter(|line| {
            line.text("method") == "POST" && line.text("target").ends_with("/git-receive-pack")
        });
        pushes.any(|line| line.number("received") > 1_000_000)
    });
}
