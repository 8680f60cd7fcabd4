//! A Squid of the test's own, with a cache in memory.
use super::{Place, wait_for};
use carrick_test::Killed;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Its port on the test's address.
const PORT: u16 = 13228;

/// A running Squid, until dropped.
#[derive(Debug)]
pub struct Squid {
    _process: Killed,
    address: SocketAddr,
}

impl Squid {
    /// Starts one that allows all clients, and waits until it answers.
    pub fn start(place: &Place) -> Self {
        let directory = place.directory().join("squid");
        std::fs::create_dir(&directory).expect("a directory");
        // It drops root, and writes its files as its own user.
        for path in [place.directory(), &directory] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))
                .expect("permissions");
        }
        let address = place.at(PORT);
        let text = format!(
            "http_port {address}\nvisible_hostname squid.invalid\nunique_hostname squid.invalid\n\
             pid_filename {0}/pid\ncache_log {0}/cache.log\ncoredump_dir none\naccess_log none\ncache_store_log none\n\
             cache_mem 16 MB\nhttp_access allow all\npinger_enable off\ndigest_generation off\nclient_db off\n\
             max_filedescriptors 1024\nshutdown_lifetime 0 seconds\n",
            directory.display()
        );
        place.write("squid.conf", &text);
        let process = Command::new("squid")
            .args(["-N", "-f"])
            .arg(place.directory().join("squid.conf"))
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("squid");
        let squid = Self {
            _process: Killed(process),
            address,
        };
        wait_for("squid", || TcpStream::connect(squid.address).ok());
        squid
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
