//! The peers' configurations are templates: `{{name}}` stands for a value of the test bed.

use anyhow::{Result, bail};

/// Replaces every `{{name}}`.
///
/// # Errors
/// When a name is left without a value.
pub fn render(template: &str, values: &[(&str, &str)]) -> Result<String> {
    let mut text = template.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{{{name}}}}}"), value);
    }
    if let Some((_, rest)) = text.split_once("{{") {
        let name = rest.split("}}").next().unwrap_or(rest);
        bail!("the template's `{name}` has no value");
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
