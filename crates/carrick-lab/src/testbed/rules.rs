//! Rules of the kernel that a program of the test bed wants and does not make itself.

use anyhow::Result;

use crate::command::run_with_input;
use crate::testbed::namespace::Namespace;

/// A table of nftables and lines of `ip`, in one namespace; removed on drop.
#[derive(Debug)]
pub struct Rules {
    namespace: Namespace,
    table: &'static str,
    undo: Vec<String>,
}

impl Rules {
    /// Loads `text`, which makes the `table` (family and name), and runs the lines `add` of `ip`; `undo` are those that take them back.
    ///
    /// # Errors
    /// When nft or ip is missing, or refuses. What was made until then is removed.
    pub fn load(
        namespace: &Namespace,
        table: &'static str,
        text: &str,
        add: &[String],
        undo: Vec<String>,
    ) -> Result<Self> {
        let rules = Self {
            namespace: namespace.clone(),
            table,
            undo,
        };
        namespace.inside(|| run_with_input("nft", &["-f", "-"], text).map(drop))?;
        namespace.ip(add)?;
        Ok(rules)
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        // The namespace may be gone, and the rules with it.
        let arguments: Vec<&str> = ["delete", "table"]
            .into_iter()
            .chain(self.table.split(' '))
            .collect();
        let _ = self.namespace.run("nft", &arguments);
        for line in &self.undo {
            let _ = self.namespace.ip(std::slice::from_ref(line));
        }
    }
}
