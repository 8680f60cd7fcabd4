//! What is to be run, and how long it will take: the grid of a workload's parameters and the load at each point.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::expression::{self, Point};
use super::results::Scale;
use super::spec::{Amount, Effort, Series, Thoroughness, Workload};
use super::value::Value;
use crate::load::plan::{LoadPlan, Route};

/// Besides the load itself: the programs' start, the meter's readings, the end.
const EACH_RUN_SECONDS: f64 = 0.5;
/// To build a test bed and to remove it.
const EACH_WORKLOAD_SECONDS: f64 = 1.0;

/// All points of a workload, the last parameter varying fastest.
#[must_use]
pub fn points(workload: &Workload, thoroughness: Thoroughness) -> Vec<Point> {
    let mut points = vec![Point::new()];
    for (name, parameter) in &workload.parameters {
        let values: &[Value] = match thoroughness {
            Thoroughness::Scale(Scale::Full) => &parameter.values,
            _ if parameter.quick.is_empty() => &parameter.values,
            Thoroughness::Scale(Scale::Quick) => &parameter.quick,
            Thoroughness::Smoke => &parameter.quick[..1],
        };
        let values = if thoroughness == Thoroughness::Smoke {
            &values[..values.len().min(1)]
        } else {
            values
        };
        points = points
            .iter()
            .flat_map(|point| {
                values.iter().map(|value| {
                    let mut point = point.clone();
                    point.insert(name.clone(), value.clone());
                    point
                })
            })
            .collect();
    }
    points
}

/// How long is measured at a point, in seconds.
///
/// # Errors
/// When the expression is wrong.
pub fn measured_seconds(effort: &Effort, point: &Point) -> Result<f64> {
    match &effort.measured_seconds {
        Amount::Number(seconds) => Ok(*seconds),
        Amount::Expression(text) => expression::number(text, point).context("measured_seconds"),
    }
}

/// The load at a point, by way of `route`.
///
/// # Errors
/// When the table is no [`LoadPlan`].
pub fn load_plan(
    workload: &Workload,
    series: &Series,
    point: &Point,
    effort: &Effort,
    route: Route,
    seed: u64,
) -> Result<LoadPlan> {
    let mut table = workload.load.clone();
    for (name, value) in point {
        let by_value = workload
            .parameters
            .get(name)
            .map(|parameter| &parameter.load);
        if let Some(over) = by_value.and_then(|load| load.get(&expression::show(value))) {
            table = expression::overlay(&table, over);
        }
    }
    table = expression::overlay(&table, &series.load);
    let toml::Value::Table(mut table) = expression::substitute(&toml::Value::Table(table), point)?
    else {
        anyhow::bail!("the load is no table");
    };
    let seconds = [
        ("warm_up_seconds", effort.warm_up_seconds),
        ("measured_seconds", measured_seconds(effort, point)?),
        ("shutdown_seconds", effort.shutdown_seconds),
    ];
    for (name, seconds) in seconds {
        table.insert(name.to_owned(), toml::Value::Float(seconds));
    }
    let route = toml::Value::try_from(route).context("the route")?;
    table.insert(String::from("route"), route);
    let mut plan: LoadPlan = table.try_into().context("the load")?;
    plan.seed = seed;
    Ok(plan)
}

/// The load at a point, only to see whether it can be made.
///
/// # Errors
/// As [`load_plan`].
pub fn try_load_plan(
    workload: &Workload,
    series: &Series,
    point: &Point,
    thoroughness: Thoroughness,
) -> Result<LoadPlan> {
    let route = Route::Direct {
        address: SocketAddr::from(([127, 0, 0, 1], 80)),
        host: None,
    };
    let effort = workload.effort(thoroughness);
    let plan = load_plan(workload, series, point, &effort, route, 0)?;
    crate::load::check::check(&plan)?;
    Ok(plan)
}

/// How long one sample of one series at one point takes.
#[must_use]
pub fn sample_time(effort: &Effort, point: &Point) -> Duration {
    let measured = measured_seconds(effort, point).unwrap_or(0.0).max(0.0);
    Duration::from_secs_f64(
        effort.warm_up_seconds + measured + effort.shutdown_seconds + EACH_RUN_SECONDS,
    )
}

/// How long a workload takes with so many series.
#[must_use]
pub fn workload_time(workload: &Workload, series: usize, thoroughness: Thoroughness) -> Duration {
    if series == 0 {
        return Duration::ZERO;
    }
    let effort = workload.effort(thoroughness);
    let once: Duration = points(workload, thoroughness)
        .iter()
        .map(|point| sample_time(&effort, point))
        .sum();
    let times = u32::try_from(series).unwrap_or(u32::MAX);
    Duration::from_secs_f64(EACH_WORKLOAD_SECONDS)
        + once.saturating_mul(times.saturating_mul(effort.samples))
}

/// A time as people read it.
#[must_use]
pub fn show_time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=89 => format!("{seconds} s"),
        90..=5399 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", time.as_secs_f64() / 3600.0),
    }
}

#[cfg(test)]
mod tests;
