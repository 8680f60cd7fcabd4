//! Reads `/metrics`, `/status` and `/health`.
use super::{Carrick, Peer, Response, wait_for, wait_until};

const CLIENTS_OPEN: &str = "carrick_client_connections_open";
const LIMIT_REACHED: &str = "carrick_limit_reached_total";

impl Carrick {
    /// Asks the admin interface.
    pub fn ask_admin(&self, path: &str) -> Response {
        self.ask_admin_with(path, "")
    }

    /// Like [`ask_admin`](Self::ask_admin), with additional fields, each with its end of line.
    pub fn ask_admin_with(&self, path: &str, fields: &str) -> Response {
        let mut peer = Peer::connect(self.admin());
        peer.ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{fields}Connection: close\r\n\r\n",
            self.admin()
        ))
    }

    /// `/metrics`.
    pub fn metrics(&self) -> String {
        let response = self.ask_admin("/metrics");
        assert_eq!(response.status, 200, "{}", response.text());
        response.text()
    }

    /// [`sum`] of `/metrics`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        sum(&self.metrics(), name, labels)
    }

    /// Waits until the samples reach `least`; returns their sum then.
    pub fn wait_for_metric(&self, name: &str, labels: &[&str], least: f64) -> f64 {
        wait_for(&format!("{name} {labels:?} >= {least}"), || {
            Some(self.metric(name, labels)).filter(|value| *value >= least)
        })
    }

    /// Waits until the samples add up to this.
    pub fn wait_until_metric(&self, name: &str, labels: &[&str], value: f64) {
        wait_until(&format!("{name} {labels:?} == {value}"), || {
            self.metric(name, labels) == value
        });
    }

    /// How often a limit was reached.
    pub fn limit_reached(&self, limit: &str) -> f64 {
        self.metric(LIMIT_REACHED, &[&format!("limit=\"{limit}\"")])
    }

    /// Waits until a limit was reached this often.
    pub fn wait_for_limit(&self, limit: &str, least: f64) {
        self.wait_for_metric(LIMIT_REACHED, &[&format!("limit=\"{limit}\"")], least);
    }

    /// `/status`.
    pub fn status(&self) -> serde_json::Value {
        let response = self.ask_admin("/status");
        assert_eq!(response.status, 200, "{}", response.text());
        serde_json::from_slice(&response.body).expect("JSON")
    }

    /// Whether the kernel reports the sockets that it relays between. Locked-down kernels refuse the program that reads
    /// them (BPF_PROG_TYPE_TRACING): then the rest of the test is skipped. A splice must be in the kernel.
    pub fn tells_of_sockets(&self) -> bool {
        let splices: serde_json::Value =
            serde_json::from_slice(&self.ask_admin("/splices").body).expect("JSON");
        if let Some(because) = splices["unseen"].as_str() {
            carrick_test::lacks!("the state of sockets in the kernel: {because}");
        }
        splices["unseen"].is_null()
    }

    /// Open client connections.
    pub fn clients_open(&self) -> f64 {
        self.metric(CLIENTS_OPEN, &[])
    }

    /// Waits until so many client connections are open.
    pub fn wait_until_clients(&self, count: u32) {
        self.wait_until_metric(CLIENTS_OPEN, &[], f64::from(count));
    }
}

/// The sum of the samples named `name` whose labels include all of `labels`, each as `key="value"`.
pub fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    text.lines()
        .filter_map(|line| {
            let (sample, value) = line.rsplit_once(' ')?;
            let (sample_name, sample_labels) = sample.split_once('{').unwrap_or((sample, ""));
            let fits =
                sample_name == name && labels.iter().all(|label| sample_labels.contains(label));
            fits.then(|| value.parse::<f64>().expect("a number"))
        })
        .sum()
}
