//! Placeholders in an experiment's tables: `$parameter`, and simple arithmetic behind it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};

use super::value::Value;

/// Values of parameters at one point.
pub type Point = BTreeMap<String, Value>;

/// Computes `$name`, or `$name + 40 * 2` (from left to right, without precedence); operands are numbers or parameters.
///
/// # Errors
/// When a parameter does not exist or is no number, or an operator is none of `+ - * /`.
pub fn evaluate(expression: &str, point: &Point) -> Result<Value> {
    let mut words = expression.split_whitespace();
    let first = words.next().context("an empty expression")?;
    let mut value = operand(first, point)?;
    while let Some(operator) = words.next() {
        let Value::Number(left) = value else {
            bail!("`{expression}`: `{first}` is a word, which cannot be computed with");
        };
        let right = words
            .next()
            .with_context(|| format!("`{expression}` ends with an operator"))?;
        let Value::Number(right) = operand(right, point)? else {
            bail!("`{expression}`: `{right}` is a word, which cannot be computed with");
        };
        value = Value::Number(match operator {
            "+" => left + right,
            "-" => left - right,
            "*" => left * right,
            "/" => left / right,
            other => bail!("`{expression}`: `{other}` is none of + - * /"),
        });
    }
    Ok(value)
}

/// Computes an expression whose value must be a number.
///
/// # Errors
/// As [`evaluate`], and when it is a word.
pub fn number(expression: &str, point: &Point) -> Result<f64> {
    match evaluate(expression, point)? {
        Value::Number(number) => Ok(number),
        Value::Word(word) => bail!("`{expression}` is the word `{word}`, not a number"),
    }
}

/// Replaces each `$parameter` within a text.
///
/// # Errors
/// When a parameter does not exist.
pub fn interpolate(text: &str, point: &Point) -> Result<String> {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        let end = behind
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(behind.len());
        let (name, after) = behind.split_at(end);
        done.push_str(before);
        done.push_str(&show(parameter(name, point)?));
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

/// Replaces the placeholders of a whole table: a string that begins with `$` is computed, in others each `$parameter` is
/// replaced.
///
/// # Errors
/// As [`evaluate`].
pub fn substitute(value: &toml::Value, point: &Point) -> Result<toml::Value> {
    Ok(match value {
        toml::Value::String(text) if text.starts_with('$') => match evaluate(text, point)? {
            Value::Number(number) => toml_number(number),
            Value::Word(word) => toml::Value::String(word),
        },
        toml::Value::String(text) => toml::Value::String(interpolate(text, point)?),
        toml::Value::Array(items) => toml::Value::Array(
            items
                .iter()
                .map(|item| substitute(item, point))
                .collect::<Result<_>>()?,
        ),
        toml::Value::Table(table) => toml::Value::Table(
            table
                .iter()
                .map(|(key, value)| Ok((key.clone(), substitute(value, point)?)))
                .collect::<Result<_>>()?,
        ),
        other => other.clone(),
    })
}

/// Lays one table over another: tables are merged, everything else is replaced.
#[must_use]
pub fn overlay(below: &toml::Table, above: &toml::Table) -> toml::Table {
    let mut merged = below.clone();
    for (key, value) in above {
        let value = match (merged.get(key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => {
                toml::Value::Table(overlay(below, above))
            }
            _ => value.clone(),
        };
        merged.insert(key.clone(), value);
    }
    merged
}

/// A value as people read it.
#[must_use]
pub fn show(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Word(word) => word.clone(),
    }
}

/// A point as people read it: `clients 20, file_bytes 1024`.
#[must_use]
pub fn show_point(point: &Point) -> String {
    point
        .iter()
        .map(|(name, value)| format!("{name} {}", show(value)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn operand(word: &str, point: &Point) -> Result<Value> {
    match word.strip_prefix('$') {
        Some(name) => parameter(name, point).cloned(),
        None => word
            .parse()
            .map(Value::Number)
            .with_context(|| format!("`{word}` is neither a number nor a `$parameter`")),
    }
}

fn parameter<'a>(name: &str, point: &'a Point) -> Result<&'a Value> {
    point.get(name).with_context(|| {
        let known: Vec<&str> = point.keys().map(String::as_str).collect();
        format!("there is no parameter `{name}`, only: {}", known.join(", "))
    })
}

/// Whole numbers stay whole, so that they fit where a count is wanted.
fn toml_number(number: f64) -> toml::Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        toml::Value::Integer(number as i64)
    } else {
        toml::Value::Float(number)
    }
}

#[cfg(test)]
mod tests;
