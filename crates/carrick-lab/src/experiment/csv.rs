//! Samples as comma-separated values (RFC 4180): one line for each sample, and for each cell without any.

use std::collections::BTreeSet;

use crate::experiment::results::Cell;
use crate::experiment::value::Value;

/// All samples of these cells, in order, with all of their metrics.
#[must_use]
pub fn of(cells: &[&Cell]) -> String {
    let parameters: BTreeSet<&str> = cells
        .iter()
        .flat_map(|cell| cell.parameters.keys().map(String::as_str))
        .collect();
    let metrics: BTreeSet<&str> = cells
        .iter()
        .flat_map(|cell| &cell.samples)
        .flat_map(|sample| sample.keys().map(String::as_str))
        .collect();
    let heads = ["workload", "series"]
        .into_iter()
        .chain(parameters.iter().copied())
        .chain(["sample"])
        .chain(metrics.iter().copied())
        .chain(["waiting_for", "failure"]);
    let mut text = row(heads.map(str::to_owned));
    for cell in cells {
        let samples = cell.samples.iter().map(Some).enumerate();
        let none = cell.samples.is_empty().then_some((0, None));
        for (index, sample) in samples.chain(none) {
            let mut fields = vec![cell.workload.clone(), cell.series.clone()];
            fields.extend(
                parameters
                    .iter()
                    .map(|name| cell.parameters.get(*name).map(plain).unwrap_or_default()),
            );
            fields.push(sample.map(|_| (index + 1).to_string()).unwrap_or_default());
            fields.extend(metrics.iter().map(|name| {
                let value = sample.and_then(|sample| sample.get(*name));
                value.map(f64::to_string).unwrap_or_default()
            }));
            fields.push(cell.waiting_for.clone().unwrap_or_default());
            fields.push(cell.failure.clone().unwrap_or_default());
            text += &row(fields.into_iter());
        }
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Word(word) => word.clone(),
    }
}

fn row(fields: impl Iterator<Item = String>) -> String {
    fields
        .map(|field| quoted(&field))
        .collect::<Vec<_>>()
        .join(",")
        + "\r\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests;
