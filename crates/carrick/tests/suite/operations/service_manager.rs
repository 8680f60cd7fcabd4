//! A socket that plays systemd: carrick's notifications, and `systemctl reload`.
use super::echo_server;
use crate::support::carrick::{PROGRAM, upstream_text};
use crate::support::place::LISTENER_PORT;
use crate::support::{Carrick, PATIENCE, Peer, Place, carrick};
use rustix::process::Signal;
use std::net::{SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::process::{Command, Output};

/// The service manager's end.
struct Manager(UnixDatagram);

impl Manager {
    /// At an abstract address, which disappears with the socket.
    fn abstract_socket(place: &Place) -> (Self, String) {
        let name = format!("carrick-test-{}-{}", std::process::id(), place.ip());
        let address = UnixAddress::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("an abstract socket");
        (Self::of(socket), format!("@{name}"))
    }

    /// At a path.
    fn socket_file(place: &Place) -> (Self, String) {
        let path = place.directory().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        (Self::of(socket), path.display().to_string())
    }

    fn of(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Self(socket)
    }

    fn next(&self) -> String {
        let mut message = [0; 4096];
        let bytes = self.0.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..bytes]).into_owned()
    }

    /// The next message with this line.
    fn wait_for(&self, line: &str) -> String {
        loop {
            let message = self.next();
            if message.lines().any(|other| other == line) {
                return message;
            }
        }
    }
}

fn text(server: SocketAddr, further: &str) -> String {
    format!(
        "[[listener]]\nlisten = \"{{ip}}:{LISTENER_PORT}\"\nmode = \"switch\"\n[[listener.route]]\nupstream = \"u\"\n{further}{}",
        upstream_text("u", &[server])
    )
}

fn start(place: &Place, text: &str, name: &str, further: &[(&str, &str)]) -> Carrick {
    let mut command = Command::new(PROGRAM);
    command
        .env("NOTIFY_SOCKET", name)
        .envs(further.iter().copied());
    Carrick::try_start_by(place, text, command).expect("a carrick")
}

/// The unit's `ExecReload=`.
fn reload(carrick: &Carrick) -> Output {
    Command::new(PROGRAM)
        .args(["reload", "-c"])
        .arg(carrick.directory().join("carrick.toml"))
        .args(["--pid", &carrick.pid().to_string()])
        .output()
        .expect("the program")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_service_manager_hears_when_clients_are_let_in_of_reloads_and_of_the_end() {
    let place = Place::claim();
    let server = echo_server(&place);
    let text = text(server.address(), "");
    let (manager, name) = Manager::abstract_socket(&place);
    let mut carrick = start(&place, &text, &name, &[]);
    assert_eq!(manager.next(), "READY=1\nSTATUS=Serving");
    assert_eq!(
        Peer::connect(carrick.listener())
            .ask("GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
            .status,
        200
    );

    carrick.signal(Signal::HUP);
    let reloading = manager.next();
    let since = reloading
        .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
        .and_then(|rest| rest.split('\n').next()?.parse::<u64>().ok());
    assert!(since.is_some_and(|since| since > 0), "{reloading}");
    assert_eq!(manager.next(), "READY=1\nSTATUS=Serving");

    carrick.reload(&place, &text.replace("switch", "swish"));
    assert!(manager.next().starts_with("RELOADING=1\n"));
    let failed = manager.next();
    assert!(
        failed.starts_with(
            "READY=1\nSTATUS=The last reload failed; the previous configuration stays in force: "
        ),
        "{failed}"
    );

    carrick.signal(Signal::TERM);
    let stopping = manager.next();
    // Two seconds of drain, and the margin for the rest.
    assert!(
        stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=17000000\nSTATUS=Draining: "),
        "{stopping}"
    );
    assert!(carrick.wait().status.success());
}

#[test]
fn a_watchdog_is_fed_while_it_serves_and_while_it_drains() {
    let place = Place::claim();
    let server = crate::support::Server::listen(&place);
    let text = format!(
        "[timeouts]\ndrain = \"10m\"\n{}",
        carrick::tunnel_text(&[server.address()])
    );
    let (manager, name) = Manager::socket_file(&place);
    let mut carrick = start(&place, &text, &name, &[("WATCHDOG_USEC", "100000")]);
    manager.wait_for("READY=1");
    manager.wait_for("WATCHDOG=1");
    let mut client = carrick.connect_tunnel();
    client.send("a");
    let mut upstream = server.accept();
    upstream.expect("a");
    carrick.signal(Signal::TERM);
    manager.wait_for("STOPPING=1");
    manager.wait_for("WATCHDOG=1");
    manager.wait_for("STATUS=Draining: 1 client connections left");
    drop((client, upstream));
    assert!(carrick.wait().status.success());
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let place = Place::claim();
    let server = echo_server(&place);
    let (manager, name) = Manager::socket_file(&place);
    let watchdog = [("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")];
    let carrick = start(&place, &text(server.address(), ""), &name, &watchdog);
    assert_eq!(manager.next(), "READY=1\nSTATUS=Serving");
    carrick.signal(Signal::HUP);
    assert!(manager.next().starts_with("RELOADING=1\n"));
}

#[test]
fn a_reload_by_the_service_manager_fails_with_the_error() {
    let place = Place::claim();
    let server = echo_server(&place);
    let right = text(server.address(), "");
    let carrick = Carrick::start(&place, &right);
    let fine = reload(&carrick);
    assert!(fine.status.success(), "{fine:?}");
    assert_eq!(carrick.status()["reloads"]["ok"], 1);
    let file = carrick.directory().join("carrick.toml");
    let written = std::fs::read_to_string(&file).expect("the file");

    // An invalid file: the process does not see it.
    std::fs::write(&file, written.replace("switch", "swish")).expect("the file");
    let wrong = reload(&carrick);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(said(&wrong).contains("swish"), "{wrong:?}");
    assert_eq!(carrick.status()["reloads"]["failed"], 0);

    // A valid file that this machine does not allow.
    let address = place.at(LISTENER_PORT + 1);
    let _taken = TcpListener::bind(address).expect("a free address");
    let own = format!("{}:{LISTENER_PORT}", place.ip());
    std::fs::write(&file, written.replace(&own, &address.to_string())).expect("the file");
    let refused = reload(&carrick);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        said(&refused)
            .contains("the new configuration was rejected and the previous one stays in force")
            && said(&refused).contains(&address.to_string()),
        "{refused:?}"
    );

    // Admin moves with the reload.
    let address = place.at(LISTENER_PORT + 2);
    let admin = carrick.admin().to_string();
    std::fs::write(&file, written.replace(&admin, &address.to_string())).expect("the file");
    let moved = reload(&carrick);
    assert!(moved.status.success(), "{moved:?}");
}

#[test]
fn the_unit_is_one_that_systemd_takes() {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let unit = format!("{repository}/packaging/carrick.service");
    let written = std::fs::read_to_string(&unit).expect("the unit");
    for line in ["Type=notify", "NotifyAccess=main", "WatchdogSec=30s"] {
        assert!(written.lines().any(|other| other == line), "{line}");
    }
    let place = Place::claim();
    // It checks that the program exists.
    let here = place.directory().join("carrick.service");
    std::fs::write(&here, written.replace("/usr/bin/carrick", PROGRAM)).expect("a file");
    match Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&here)
        .output()
    {
        Ok(verified) => assert!(
            verified.status.success() && !said(&verified).contains("carrick.service"),
            "{}",
            said(&verified)
        ),
        Err(_) => carrick_test::lacks!("there is no systemd-analyze"),
    }
}
