//! Where a configuration comes from, and that of a site by HTTPS, for which no file is needed.
use super::{Loaded, Rejected};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Where the configuration comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// A forward proxy for this machine.
    BuiltIn,
    /// A file.
    File(PathBuf),
    /// The command line.
    Site(Site),
}

/// A site by HTTPS, with certificates by ACME.
#[derive(Debug, Clone)]
pub struct Site {
    /// Its names.
    pub names: Vec<String>,
    /// Its servers.
    pub servers: Vec<String>,
    /// Where it is listened.
    pub address: IpAddr,
    /// The port of HTTPS.
    pub https_port: u16,
    /// The port that leads there.
    pub http_port: u16,
    /// `admin.listen`
    pub admin: Option<SocketAddr>,
    /// `process.user`
    pub user: Option<String>,
    /// `acme.email`
    pub email: Option<String>,
    /// `acme.directory`
    pub directory: Option<String>,
    /// `acme.ca`
    pub ca: Option<PathBuf>,
    /// `acme.storage`
    pub storage: Option<PathBuf>,
}

impl Source {
    /// Loads the configuration. Reads files; blocks.
    ///
    /// # Errors
    /// With everything that is wrong, if carrick cannot run with it.
    pub fn load(&self) -> Result<Loaded, Rejected> {
        match self {
            Self::BuiltIn => super::load(None),
            Self::File(path) => super::load(Some(path)),
            Self::Site(site) => super::parse(&site.text(), "carrick run --https", Path::new("")),
        }
    }

    /// The configuration file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::BuiltIn | Self::Site(_) => None,
        }
    }
}

impl Site {
    /// The same as a configuration file.
    #[must_use]
    pub fn text(&self) -> String {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let list = |texts: &[String]| toml::Value::from(texts.to_vec()).to_string();
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let acme = [
            ("email", self.email.clone()),
            ("directory", self.directory.clone()),
            ("ca", self.ca.as_ref().map(path)),
            ("storage", self.storage.as_ref().map(path)),
        ];
        let acme: String = (acme.iter())
            .filter_map(|(key, value)| Some(format!("{key} = {}\n", quoted(value.as_deref()?))))
            .collect();
        let admin = self
            .admin
            .map(|admin| format!("[admin]\nlisten = \"{admin}\"\n"));
        let user = self.user.as_deref();
        let user = user.map(|user| format!("[process]\nuser = {}\n", quoted(user)));
        let at = |port| SocketAddr::new(self.address, port);
        let (https, http) = (at(self.https_port), at(self.http_port));
        format!(
            "{}{}[acme]\n{acme}\
             [[listener]]\nlisten = \"{https}\"\nmode = \"switch\"\ntls = {{ acme = {} }}\n\
             [[listener.route]]\nupstream = \"site\"\n\
             [[listener]]\nlisten = \"{http}\"\nmode = \"switch\"\nredirect_to_https = {}\n\
             [upstream.site]\nservers = {}\n",
            admin.unwrap_or_default(),
            user.unwrap_or_default(),
            list(&self.names),
            self.https_port,
            list(&self.servers),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            names: vec!["example.org".to_owned()],
            servers: vec!["127.0.0.1:3000".to_owned()],
            address: [127, 0, 0, 1].into(),
            https_port: 8443,
            http_port: 8080,
            admin: None,
            user: Some("nobody".to_owned()),
            email: None,
            directory: None,
            ca: None,
            storage: Some("/tmp/\"x\\".into()),
        }
    }

    #[test]
    fn a_site_has_two_listeners_and_its_certificate() {
        let plan = Source::Site(site()).load().unwrap().plan;
        let [https, http] = &plan.listeners[..] else {
            panic!("{:?}", plan.listeners);
        };
        assert!(https.tls.is_some() && http.tls.is_none());
        assert_eq!(http.redirect_port, Some(8443));
        assert_eq!(
            plan.account.map(|account| account.user).as_deref(),
            Some("nobody")
        );
        let acme = plan.acme.unwrap();
        assert_eq!(acme.names, ["example.org"]);
        assert!(acme.folder.starts_with("/tmp/\"x\\"));
        assert_eq!(acme.challenges.len(), 2);
    }

    #[test]
    fn what_is_wrong_in_it_is_said() {
        let wrong = Site {
            names: vec!["*.example.org".to_owned(), "\"".to_owned()],
            servers: vec!["a b".to_owned()],
            ..site()
        };
        let rejected = Source::Site(wrong).load().unwrap_err();
        assert_eq!(rejected.problems.len(), 3, "{rejected}");
    }
}
