//! Which routes can never be taken, for `carrick check`. Every answer "never" is certain; "no answer" is not.
#[cfg(test)]
mod tests;

use super::{CGI_PATH, Conditions, CookieRule, ends_with_extension};

impl Conditions {
    /// Whether every request that meets `later` meets `self`, too, so that `later` can never be reached after `self`;
    /// and likewise every tunnel. May answer no where it is not sure.
    #[must_use]
    pub fn covers(&self, later: &Self) -> bool {
        self.covers_host(later)
            && self.covers_path(later)
            && self.covers_extension(later)
            && self.covers_cgi(later)
            && (self.cookie.is_none() || self.cookie == later.cookie)
            && self.covers_header(later)
            && self.covers_method(later)
            && self.covers_sni(later)
    }

    /// Says why no request at all can meet the conditions, if so (such as method CONNECT on a switch, a `path` without `/`).
    #[must_use]
    pub fn never_matches(&self) -> Option<String> {
        self.path_fault()
            .or_else(|| self.extension_fault())
            .or_else(|| self.method_fault())
            .or_else(|| self.header_fault())
            .or_else(|| self.cookie_fault())
    }

    fn covers_host(&self, later: &Self) -> bool {
        match (&self.host, &later.host) {
            (None, _) => true,
            (Some(pattern), Some(narrower)) => pattern.covers(narrower),
            (Some(pattern), None) => pattern.is_any(),
        }
    }

    fn covers_path(&self, later: &Self) -> bool {
        match (self.path.as_deref(), later.path.as_deref()) {
            (None | Some(""), _) => true,
            (Some(prefix), Some(narrower)) if narrower.starts_with(prefix) => true,
            // Every path begins with `/`.
            (Some("/"), _) => later.implies_path(),
            (Some(_), _) => false,
        }
    }

    /// Whether only requests with a path can meet the conditions: not `OPTIONS *`, not `CONNECT`.
    fn implies_path(&self) -> bool {
        let methods_have_path = !self.method.is_empty()
            && !self
                .method
                .iter()
                .any(|method| method == "OPTIONS" || method == "CONNECT");
        self.path.as_ref().is_some_and(|path| !path.is_empty())
            || !self.extension.is_empty()
            || self.cgi == Some(true)
            || methods_have_path
    }

    fn covers_extension(&self, later: &Self) -> bool {
        // `gz` covers `gz` and `tar.gz`, which is what a file `x.gz` or `x.tar.gz` shows.
        let covered = |narrower: &str| {
            self.extension.iter().any(|extension| {
                extension.eq_ignore_ascii_case(narrower)
                    || ends_with_extension(narrower.as_bytes(), extension)
            })
        };
        self.extension.is_empty()
            || (!later.extension.is_empty()
                && later.extension.iter().all(|extension| covered(extension)))
    }

    fn covers_cgi(&self, later: &Self) -> bool {
        match self.cgi {
            None => true,
            Some(true) => later.cgi == Some(true) || later.has_cgi_path(),
            Some(false) => later.cgi == Some(false),
        }
    }

    fn has_cgi_path(&self) -> bool {
        self.path
            .as_ref()
            .is_some_and(|path| path.contains(CGI_PATH))
    }

    fn covers_header(&self, later: &Self) -> bool {
        match (&self.header, &later.header) {
            (None, _) => true,
            (Some((name, value)), Some((later_name, later_value))) => {
                name.eq_ignore_ascii_case(later_name) && value == later_value
            }
            (Some(_), None) => false,
        }
    }

    fn covers_method(&self, later: &Self) -> bool {
        self.method.is_empty()
            || (!later.method.is_empty()
                && later
                    .method
                    .iter()
                    .all(|method| self.method.contains(method)))
    }

    fn covers_sni(&self, later: &Self) -> bool {
        match (&self.sni, &later.sni) {
            (None, _) => true,
            (Some(pattern), Some(narrower)) => pattern.covers(narrower),
            // Not even `*`: it asks for some name.
            (Some(_), None) => false,
        }
    }

    fn path_fault(&self) -> Option<String> {
        let path = self.path.as_deref()?;
        if !path.is_empty() && !path.starts_with('/') {
            return Some(format!("no path begins with {path:?}; write \"/{path}\""));
        }
        if let Some((before, _)) = path.split_once('?') {
            return Some(format!(
                "{path:?} has a query string, which is no part of the path; write {before:?}, with cgi = true if it needs one"
            ));
        }
        if path
            .bytes()
            .any(|byte| byte == b' ' || byte.is_ascii_control())
        {
            return Some(format!(
                "{path:?} has spaces or control bytes; they come as %20 and the like"
            ));
        }
        if self.cgi == Some(false) && self.has_cgi_path() {
            return Some(format!(
                "{path:?} has {CGI_PATH:?}, and cgi = false excludes such paths"
            ));
        }
        None
    }

    fn extension_fault(&self) -> Option<String> {
        let is_impossible = |text: &String| {
            text.is_empty()
                || text.bytes().any(|byte| {
                    matches!(byte, b'/' | b';' | b'?' | b' ') || byte.is_ascii_control()
                })
        };
        if self.extension.is_empty() || !self.extension.iter().all(is_impossible) {
            return None;
        }
        Some(format!(
            "no file has the extension {:?}; write it like \"gif\", without the dot",
            self.extension[0]
        ))
    }

    fn method_fault(&self) -> Option<String> {
        if self.method.is_empty()
            || !self
                .method
                .iter()
                .all(|method| method == "CONNECT" || !is_token(method))
        {
            return None;
        }
        let method = &self.method[0];
        Some(if method == "CONNECT" {
            "CONNECT is for forward proxies, a switch refuses it".to_owned()
        } else {
            format!("{method:?} is no method; write it like \"GET\"")
        })
    }

    fn header_fault(&self) -> Option<String> {
        let (name, value) = self.header.as_ref()?;
        if !is_token(name) {
            return Some(format!(
                "no header can be named {name:?}; write its name without the colon"
            ));
        }
        if value.trim_matches([' ', '\t']) != value {
            return Some(format!(
                "the value {value:?} has spaces around it, which are no part of a header's value"
            ));
        }
        if value
            .bytes()
            .any(|byte| byte.is_ascii_control() && byte != b'\t')
        {
            return Some(format!(
                "the value {value:?} has control bytes, which no header has"
            ));
        }
        None
    }

    fn cookie_fault(&self) -> Option<String> {
        let rule = self.cookie.as_ref().filter(|rule| rule.present)?;
        let is_impossible =
            |byte: u8| matches!(byte, b';' | b'=') || (byte.is_ascii_control() && byte != b'\t');
        rule.name.bytes().any(is_impossible).then(|| {
            format!(
                "no cookie can be named {:?}; write its name alone, as in \"session\"",
                rule.name
            )
        })
    }
}

/// Whether a route is never taken after `earlier` ones: one of them covers it, or several together do (such as one with
/// a cookie and one without it, or one for `GET` and one for `HEAD`). May answer no where it is not sure.
#[must_use]
pub fn is_unreachable(earlier: &[&Conditions], later: &Conditions) -> bool {
    // Each split replaces a condition by two or more that together mean the same, so the depth is bounded by the
    // number of conditions.
    if earlier.iter().any(|route| route.covers(later)) {
        return true;
    }
    if later.method.len() > 1 {
        return later.method.iter().all(|method| {
            is_unreachable(
                earlier,
                &Conditions {
                    method: vec![method.clone()],
                    ..later.clone()
                },
            )
        });
    }
    if later.extension.len() > 1 {
        return later.extension.iter().all(|extension| {
            is_unreachable(
                earlier,
                &Conditions {
                    extension: vec![extension.clone()],
                    ..later.clone()
                },
            )
        });
    }
    let splits_cgi = later.cgi.is_none() && earlier.iter().any(|route| route.cgi.is_some());
    if splits_cgi {
        return [true, false].into_iter().all(|cgi| {
            let half = Conditions {
                cgi: Some(cgi),
                ..later.clone()
            };
            let is_impossible = !cgi && half.has_cgi_path();
            is_impossible || is_unreachable(earlier, &half)
        });
    }
    if later.cookie.is_some() {
        return false;
    }
    let rules = || earlier.iter().filter_map(|route| route.cookie.as_ref());
    let is_there =
        |name: &str, present| rules().any(|rule| rule.name == name && rule.present == present);
    let mut names: Vec<&str> = rules().map(|rule| rule.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| is_there(name, true) && is_there(name, false));
    names.into_iter().any(|name| {
        [true, false].into_iter().all(|present| {
            let cookie = Some(CookieRule {
                name: name.to_owned(),
                present,
            });
            is_unreachable(
                earlier,
                &Conditions {
                    cookie,
                    ..later.clone()
                },
            )
        })
    })
}

/// `token` of RFC 9110 section 5.6.2.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
