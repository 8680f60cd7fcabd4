//! Requests as bytes, and what their responses have to be.

use std::io::Write as _;

use crate::content::Body;
use crate::load::plan::{Class, Kind, LoadPlan, Route};
use crate::load::response::Expected;
use crate::load::work::Request;
use crate::origin::body_seed;

/// How requests of a plan are written.
#[derive(Clone, Debug)]
pub struct Targets {
    classes: Vec<Target>,
    /// `CONNECT` for tunnels; empty without a forward proxy.
    connect: Vec<u8>,
    verify: bool,
}

#[derive(Clone, Debug)]
struct Target {
    /// Up to the body's length, or to the end of a literal path.
    before: Vec<u8>,
    /// From behind the body's length to the seed.
    between: Vec<u8>,
    is_literal: bool,
    literal_seed: Option<u64>,
    /// From behind the seed to the empty line, without it.
    after: Vec<u8>,
    http_1_0: bool,
    has_length: bool,
}

impl Targets {
    /// Of a plan that was checked.
    #[must_use]
    pub fn new(plan: &LoadPlan) -> Self {
        let connect = match &plan.route {
            Route::Forward { origin, .. } => {
                format!("CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\n").into_bytes()
            }
            Route::Direct { .. } => Vec::new(),
        };
        Self {
            classes: plan
                .classes
                .iter()
                .map(|class| target(class, plan))
                .collect(),
            connect,
            verify: plan.verify,
        }
    }

    /// Puts the request into `output`, instead of what was there; `is_last`: the server is to close the connection.
    pub fn write(&self, request: &Request, is_last: bool, output: &mut Vec<u8>) {
        let target = &self.classes[request.class];
        output.clear();
        output.extend_from_slice(&target.before);
        if !target.is_literal {
            // Writing to memory cannot fail.
            let _ = write!(output, "{}", request.body_bytes);
            output.extend_from_slice(&target.between);
            let _ = write!(output, "{}", request.seed);
        }
        output.extend_from_slice(&target.after);
        if is_last && !target.http_1_0 {
            output.extend_from_slice(b"Connection: close\r\n");
        }
        output.extend_from_slice(b"\r\n");
    }

    /// The `CONNECT` request; empty if there is no forward proxy.
    #[must_use]
    pub fn connect(&self) -> &[u8] {
        &self.connect
    }

    /// What the response to a request has to be.
    #[must_use]
    pub fn expected(&self, request: &Request) -> Expected {
        let target = &self.classes[request.class];
        let seed = if target.is_literal {
            target.literal_seed
        } else {
            Some(request.seed)
        };
        Expected {
            body_bytes: target.has_length.then_some(request.body_bytes),
            body: seed.filter(|_| self.verify).map(Body::of_seed),
            to_connect: false,
        }
    }

    /// The request's first line, for messages.
    #[must_use]
    pub fn describe(&self, request: &Request) -> String {
        let mut bytes = Vec::new();
        self.write(request, false, &mut bytes);
        let line = bytes
            .split(|byte| *byte == b'\r')
            .next()
            .unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let line = line
            .strip_suffix(" HTTP/1.1")
            .or_else(|| line.strip_suffix(" HTTP/1.0"))
            .unwrap_or(&line);
        line.to_owned()
    }
}

fn target(class: &Class, plan: &LoadPlan) -> Target {
    let is_tunnel = matches!(class.kind, Kind::Tls { .. });
    let (host, prefix) = match &plan.route {
        Route::Direct { address, host } => (
            host.clone().unwrap_or_else(|| address.to_string()),
            String::new(),
        ),
        Route::Forward { origin, .. } if is_tunnel => (origin.clone(), String::new()),
        Route::Forward { origin, .. } => (origin.clone(), format!("http://{origin}")),
    };
    let cache = match class.kind {
        Kind::Cacheable { .. } => "max-age=3600",
        Kind::NonCacheable | Kind::Tls { .. } => "no-store",
    };
    let version = if class.http_1_0 { "1.0" } else { "1.1" };
    let mut after = format!(" HTTP/{version}\r\nHost: {host}\r\n");
    for field in &class.fields {
        after.push_str(field);
        after.push_str("\r\n");
    }
    let (before, between) = match &class.path {
        Some(path) => (format!("GET {prefix}{path}"), String::new()),
        None => (
            format!("GET {prefix}/b/"),
            format!("{}?cache={cache}&seed=", class.extension),
        ),
    };
    Target {
        before: before.into_bytes(),
        between: between.into_bytes(),
        is_literal: class.path.is_some(),
        literal_seed: class.path.as_deref().map(seed_of),
        after: after.into_bytes(),
        http_1_0: class.http_1_0,
        // Of an object that is not the emulator's and is not compared, the length is not known either.
        has_length: class.path.is_none() || plan.verify,
    }
}

/// The seed of a literal path's body: what `seed` in its query says, or else the origin's rule for paths.
#[must_use]
pub fn seed_of(path: &str) -> u64 {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix("seed="))
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| body_seed(path))
}

#[cfg(test)]
mod tests;
