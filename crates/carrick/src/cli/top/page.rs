//! Lays out `carrick top` as lines of text, in memory.
use super::line::{Line, Style, cut};
use super::rates::{ClassRates, Rates, TunnelRates, WorkerRates};
use super::table::{Column, Table};
use super::text::{age, bytes, count, microseconds, percent};
use crate::cli::args::Sort;
use clap::ValueEnum;
use std::net::SocketAddr;
use std::time::Duration;

/// The size of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Most tunnels, whatever the height.
    pub tunnels_max: usize,
}

/// What to show.
#[derive(Debug, Clone)]
pub struct View<'v> {
    /// Admin's address.
    pub address: SocketAddr,
    /// `None` before the second sample.
    pub rates: Option<&'v Rates>,
    /// Why admin does not answer.
    pub trouble: Option<&'v str>,
    /// Sampling is paused.
    pub is_paused: bool,
    /// Order of tunnels.
    pub sort: Sort,
    /// Time between two samples.
    pub interval: Duration,
    /// Whether characters beyond ASCII can be shown.
    pub is_utf8: bool,
    /// Whether keys work (on a terminal); the last line explains them.
    pub has_keys: bool,
}

/// Lays out a page that fits the room.
#[must_use]
pub fn page(view: &View<'_>, room: Room) -> Vec<Line> {
    let mut lines = vec![title(view)];
    if let Some(trouble) = view.trouble {
        let text = format!(
            "carrick does not answer, asking again: {}",
            super::snapshot::escape(trouble)
        );
        lines.push(line(Style::Alarm, text));
    }
    let footer = view.has_keys.then(|| footer(view));
    if let Some(rates) = view.rates {
        lines.extend(summary(rates));
        lines.extend(engines(rates).lines(room.width, view.is_utf8, usize::MAX));
        let taken = lines.len() + usize::from(footer.is_some());
        lines.extend(tables(view, rates, room, room.height.saturating_sub(taken)));
    } else if view.trouble.is_none() {
        lines.push(line(
            Style::Faint,
            "no rates yet: they need two samples".to_owned(),
        ));
    }
    if let Some(footer) = footer {
        lines.truncate(room.height.saturating_sub(1));
        // At the bottom of the room.
        let blank = room.height.saturating_sub(1).saturating_sub(lines.len());
        lines.extend((0..blank).map(|_| line(Style::Plain, String::new())));
        lines.push(footer);
    }
    lines.truncate(room.height);
    for line in &mut lines {
        cut(&mut line.text, room.width, view.is_utf8);
    }
    lines
}

/// The help page.
#[must_use]
pub fn help(room: Room, is_utf8: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = HELP
        .lines()
        .map(|text| line(Style::Plain, text.to_owned()))
        .collect();
    lines.truncate(room.height);
    for line in &mut lines {
        cut(&mut line.text, room.width, is_utf8);
    }
    lines
}

const HELP: &str = "\
carrick top: keys

  q, Esc, Ctrl-C  quit
  p, space        pause or continue
  s               sort tunnels by the next key of these:
  r               by bytes per second, both directions
  u, d            by bytes per second from (up) or to (down) the client
  b               by total bytes
  a, c            by age, by the client's address
  Ctrl-L          redraw
  Ctrl-Z          suspend
  h, ?            this page; any key closes it

Units are powers of 1024 for bytes, of 1000 for counts; rates are per second.
runnable: share of the time in which a worker had work of its own.
held: mean number of splices that waited for the worker or for a rate.
HTTP bodies count with their engine; only tunnels are listed.";

fn line(style: Style, text: String) -> Line {
    Line { style, text }
}

fn title(view: &View<'_>) -> Line {
    let mut text = match view.rates {
        Some(Rates { about, .. }) => format!(
            "carrick {} at {}  pid {}  up {}  {}",
            about.version,
            view.address,
            about.pid,
            age(about.uptime),
            about.state
        ),
        None => format!("carrick at {}", view.address),
    };
    match (view.is_paused, view.rates) {
        (true, _) => text.push_str("  PAUSED"),
        (false, Some(rates)) => text.push_str(&format!("  over {:.1} s", rates.time.as_secs_f64())),
        (false, None) => {}
    }
    line(Style::Plain, text)
}

fn summary(rates: &Rates) -> [Line; 2] {
    let about = &rates.about;
    let first = format!(
        "clients {} open, {}/s new   requests {}/s   tunnels {}   servers {} open, {} idle",
        about.connections_open,
        count(rates.connections),
        count(rates.requests),
        rates.tunnels_open(),
        about.upstream_connections_open,
        about.upstream_connections_idle
    );
    let second = match &rates.cache {
        None => "no cache".to_owned(),
        Some(cache) => format!(
            "cache hits {} of {}/s   saved {}B/s   {} objects, {}B of {}B",
            cache.hit_ratio.map_or("-".to_owned(), percent),
            count(cache.requests),
            bytes(cache.bytes_saved),
            cache.objects,
            bytes(cache.bytes as f64),
            bytes(cache.bytes_max as f64)
        ),
    };
    [first, second].map(|text| line(Style::Plain, text))
}

fn engines(rates: &Rates) -> Table {
    let about = &rates.about;
    let (in_kernel, limit) = about.in_kernel;
    let columns = vec![
        Column::left("engine", 9),
        Column::right("bytes/s", 9),
        Column::right("splices/s", 9),
        Column::right("tunnels", 9),
        Column::left("in the kernel", 17),
    ];
    let mut rows: Vec<Vec<String>> = (rates.engines.iter())
        .map(|engine| {
            vec![
                engine.name.to_owned(),
                bytes(engine.bytes),
                count(engine.splices),
                engine.tunnels.to_string(),
                match engine.name {
                    "socket" if limit > 0 => format!("{in_kernel} of {limit}"),
                    "packet" => about.packet_open.to_string(),
                    _ => String::new(),
                },
            ]
        })
        .collect();
    rows.push(vec!["all".to_owned(), bytes(rates.bytes)]);
    Table {
        columns,
        rows,
        more: 0,
    }
}

/// Classes, workers and tunnels, in `height` lines.
fn tables(view: &View<'_>, rates: &Rates, room: Room, height: usize) -> Vec<Line> {
    let tunnels = rates.first_tunnels(view.sort, room.tunnels_max.min(room.height));
    let more = rates.tunnels.len() - tunnels.len();
    let tables = [
        classes(&rates.classes),
        workers(&rates.workers),
        self::tunnels(view, &tunnels, more, room.width),
    ];
    let given = share(tables.each_ref().map(|table| table.rows.len()), height);
    let drawn = tables.iter().zip(given).filter(|(_, given)| *given > 0);
    drawn
        .flat_map(|(table, given)| table.lines(room.width, view.is_utf8, given))
        .collect()
}

/// Divides the lines among three tables, headings included. Each gets a third; lines that a table does not need go to
/// the others. If there is no room for a heading and a row of each, only the last table stays: it matters most.
fn share(wanted: [usize; 3], lines: usize) -> [usize; 3] {
    let mut left = lines;
    let mut given = [0; 3];
    for place in BY_IMPORTANCE {
        if wanted[place] > 0 && left >= 2 {
            given[place] = 1;
            left -= 2;
        }
    }
    let third = left / 3;
    for at_most in [third, usize::MAX] {
        for place in BY_IMPORTANCE.into_iter().filter(|place| wanted[*place] > 0) {
            if given[place] > 0 {
                let more = (wanted[place] - given[place]).min(at_most).min(left);
                given[place] += more;
                left -= more;
            }
        }
    }
    given
}

/// Tunnels, classes, workers.
const BY_IMPORTANCE: [usize; 3] = [2, 0, 1];

fn classes(classes: &[ClassRates]) -> Table {
    let columns = vec![
        Column::left("class", 14),
        Column::left("policy", 14),
        Column::right("ceiling", 7),
        Column::right("bytes/s", 7),
        Column::right("splices", 7),
        Column::right("yields/s", 8),
        Column::right("waits/s", 7),
        Column::right("held", 6),
    ];
    let rows = classes.iter().map(|class| {
        let (policy, target) = &class.policy;
        vec![
            class.name.clone(),
            match target {
                Some(target) => format!("{policy} {}", microseconds(*target)),
                None => policy.clone(),
            },
            class
                .ceiling
                .map_or("-".to_owned(), |ceiling| bytes(ceiling as f64)),
            bytes(class.bytes),
            class.splices.to_string(),
            count(class.yields),
            count(class.rate_waits + class.kernel_holds),
            count(class.held),
        ]
    });
    Table {
        columns,
        rows: rows.collect(),
        more: 0,
    }
}

fn workers(workers: &[WorkerRates]) -> Table {
    let columns = vec![
        Column::left("worker", 9),
        Column::right("clients", 9),
        Column::right("runnable", 9),
        Column::right("forwarding", 10),
        Column::right("own req/s", 9),
        Column::right("spliced/s", 9),
        Column::right("hits p99", 9),
    ];
    let rows = workers.iter().map(|worker| {
        vec![
            worker.number.to_string(),
            worker.connections_open.to_string(),
            percent(worker.runnable),
            percent(worker.forwarding),
            count(worker.local_requests),
            count(worker.spliced_requests),
            worker.hits_p99_us.map_or("-".to_owned(), microseconds),
        ]
    });
    Table {
        columns,
        rows: rows.collect(),
        more: 0,
    }
}

fn tunnels(view: &View<'_>, tunnels: &[&TunnelRates], more: usize, width: usize) -> Table {
    let (up, down) = if view.is_utf8 {
        ("\u{2191}/s", "\u{2193}/s")
    } else {
        ("up/s", "down/s")
    };
    let mark = |name: &str, by: Sort| {
        if view.sort == by {
            format!("{name}*")
        } else {
            name.to_owned()
        }
    };
    let has_class = tunnels.iter().any(|tunnel| tunnel.class.is_some());
    let mut columns = vec![
        Column::left("engine", 6),
        Column::right(mark("age", Sort::Age), 6),
        Column::right(mark(up, Sort::Up), 7),
        Column::right(mark(down, Sort::Down), 7),
        Column::right(mark("bytes", Sort::Bytes), 6),
    ];
    if has_class {
        columns.push(Column::left("class", 9));
    }
    // The rest of the line is for the two addresses, then for the target.
    let fixed: usize = columns.iter().map(|column| column.width + 1).sum();
    let longest = |of: fn(&TunnelRates) -> &str, at_least: usize| {
        let lengths = tunnels.iter().map(|tunnel| of(tunnel).len());
        lengths.max().unwrap_or(0).max(at_least)
    };
    let half = width.saturating_sub(fixed + 1) / 2;
    let client_width = longest(|tunnel| &tunnel.client, 8).min(half.max(8));
    let server_width = longest(|tunnel| &tunnel.server, 6).min(half.max(6));
    columns.insert(0, Column::left(mark("client", Sort::Client), client_width));
    columns.insert(1, Column::left("server", server_width));
    let target_width = width.saturating_sub(fixed + client_width + server_width + 2);
    let has_target = target_width >= TARGET_WIDTH_MIN;
    if has_target {
        let longest = longest(|tunnel| &tunnel.target, "target".len());
        columns.push(Column::left("target", target_width.min(longest)));
    }
    let rows = tunnels.iter().map(|tunnel| {
        let mut row = vec![
            tunnel.client.clone(),
            tunnel.server.clone(),
            tunnel.engine.clone(),
            tunnel.age.map_or("-".to_owned(), age),
            bytes(tunnel.up),
            bytes(tunnel.down),
            bytes(tunnel.bytes as f64),
        ];
        if has_class {
            row.push(tunnel.class.clone().unwrap_or_default());
        }
        if has_target {
            row.push(tunnel.target.clone());
        }
        row
    });
    Table {
        columns,
        rows: rows.collect(),
        more,
    }
}

/// A narrower target would be useless.
const TARGET_WIDTH_MIN: usize = 12;

fn footer(view: &View<'_>) -> Line {
    let sorted = view.sort.to_possible_value();
    let sorted = sorted.as_ref().map_or("", |value| value.get_name());
    let text = format!(
        "q quit  p pause  h help  sorted by {sorted}: s r u d b a c  every {:.1} s",
        view.interval.as_secs_f64()
    );
    line(Style::Faint, text)
}

#[cfg(test)]
mod tests;
