//! `carrick top` on a terminal: samples, keys and signals come from separate threads; this one draws.
use super::page::{View, help, page};
use super::rates::Rates;
use super::snapshot::Snapshot;
use super::terminal::Terminal;
use crate::cli::admin::Failed;
use crate::cli::args::{FINE, Sort};
use crossterm::event::{self, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use nix::sys::signal::{SigSet, Signal};
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Most queued events; a sender waits when the queue is full.
const EVENTS_MAX: usize = 64;

/// The pause between samples is at least this multiple of admin's time to answer, which keeps admin busy for at most a
/// quarter of the time.
const REST_PER_WORK: u32 = 3;

/// An event.
enum Event {
    Sampled(Box<Result<Snapshot, Failed>>),
    Key(KeyEvent),
    Resized,
    Signal(Signal),
    /// A thread can send no more events.
    Lost(io::Error),
}

/// How it ends.
enum End {
    Asked,
    Signal(Signal),
    Lost(io::Error),
}

/// The arguments of `carrick top`.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    /// Admin's address.
    pub address: SocketAddr,
    /// Time between two samples.
    pub interval: Duration,
    /// The initial order of tunnels.
    pub sort: Sort,
    /// Whether characters beyond ASCII can be shown.
    pub is_utf8: bool,
    /// Sample times are relative to this.
    pub since: Instant,
}

/// Draws samples until the user quits; `first` is the first sample.
///
/// # Errors
/// The terminal or a thread cannot be set up.
pub fn run(order: &Order, first: Snapshot) -> Result<ExitCode, Failed> {
    let refused = |error: io::Error| {
        Failed::Because(format!(
            "cannot set up the terminal: {error}; `carrick top -n 1` needs none"
        ))
    };
    // Before starting threads, which must leave signals to the thread that waits for them.
    let signals: SigSet = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
        Signal::SIGCONT,
    ]
    .into_iter()
    .collect();
    signals
        .thread_block()
        .map_err(|error| refused(error.into()))?;
    let terminal = Terminal::take().map_err(refused)?;
    let (events, happening) = sync_channel(EVENTS_MAX);
    let is_paused = Arc::new(AtomicBool::new(false));
    start("signals", &events, move |events| {
        wait_for_signals(signals, events)
    })
    .map_err(refused)?;
    start("keys", &events, wait_for_keys).map_err(refused)?;
    let (asked, paused) = (*order, Arc::clone(&is_paused));
    start("samples", &events, move |events| {
        sample(&asked, &paused, events)
    })
    .map_err(refused)?;
    let mut screen = Screen {
        order,
        sort: order.sort,
        last: Some(first),
        rates: None,
        trouble: None,
        shows_help: false,
        is_paused,
    };
    let end = screen.run(&terminal, &happening);
    drop(terminal);
    match end {
        End::Asked => Ok(ExitCode::from(FINE)),
        End::Signal(signal) => Ok(ExitCode::from(128 + signal as u8)),
        End::Lost(error) => Err(Failed::Because(format!("cannot continue: {error}"))),
    }
}

/// Starts a thread; its end, even by a panic, is an event.
fn start(
    name: &str,
    events: &SyncSender<Event>,
    work: impl FnOnce(&SyncSender<Event>) + Send + 'static,
) -> io::Result<()> {
    struct EndReporter(SyncSender<Event>);
    impl Drop for EndReporter {
        fn drop(&mut self) {
            // Fails if the receiver is gone.
            let _ = self
                .0
                .send(Event::Lost(io::Error::other("a thread has ended")));
        }
    }
    let reporter = EndReporter(events.clone());
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || work(&reporter.0)).map(drop)
}

fn wait_for_signals(signals: SigSet, events: &SyncSender<Event>) {
    while let Ok(signal) = signals.wait() {
        if events.send(Event::Signal(signal)).is_err() {
            return;
        }
    }
}

fn wait_for_keys(events: &SyncSender<Event>) {
    loop {
        let event = match event::read() {
            Ok(event::Event::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
            Ok(event::Event::Resize(..)) => Event::Resized,
            Ok(_) => continue,
            Err(error) => Event::Lost(error),
        };
        let is_lost = matches!(event, Event::Lost(_));
        if events.send(event).is_err() || is_lost {
            return;
        }
    }
}

fn sample(order: &Order, is_paused: &AtomicBool, events: &SyncSender<Event>) {
    let mut worked = Duration::ZERO;
    loop {
        std::thread::sleep(order.interval.max(worked * REST_PER_WORK));
        if is_paused.load(Relaxed) {
            continue;
        }
        let begun = Instant::now();
        let sampled = Snapshot::ask(order.address, order.since);
        worked = begun.elapsed();
        if events.send(Event::Sampled(Box::new(sampled))).is_err() {
            return;
        }
    }
}

/// The screen's state.
struct Screen<'o> {
    order: &'o Order,
    sort: Sort,
    last: Option<Snapshot>,
    rates: Option<Rates>,
    trouble: Option<String>,
    shows_help: bool,
    is_paused: Arc<AtomicBool>,
}

impl Screen<'_> {
    fn run(&mut self, terminal: &Terminal, happening: &Receiver<Event>) -> End {
        loop {
            if let Err(error) = self.draw(terminal) {
                return End::Lost(error);
            }
            let Ok(event) = happening.recv() else {
                return End::Lost(io::Error::other("all threads have ended"));
            };
            match event {
                Event::Sampled(snapshot) => self.sampled(*snapshot),
                Event::Key(key) => match self.key(key) {
                    KeyAction::Nothing => {}
                    KeyAction::End => return End::Asked,
                    KeyAction::Anew => {
                        if let Err(error) = terminal.enter() {
                            return End::Lost(error);
                        }
                    }
                    KeyAction::Suspend => suspend(terminal),
                },
                Event::Resized => {}
                Event::Signal(Signal::SIGTSTP) => suspend(terminal),
                // Another program may have used the terminal meanwhile.
                Event::Signal(Signal::SIGCONT) => {
                    if let Err(error) = terminal.enter() {
                        return End::Lost(error);
                    }
                }
                Event::Signal(signal) => return End::Signal(signal),
                Event::Lost(error) => return End::Lost(error),
            }
        }
    }

    fn draw(&self, terminal: &Terminal) -> io::Result<()> {
        let room = terminal.room();
        let is_utf8 = self.order.is_utf8;
        let page = if self.shows_help {
            help(room, is_utf8)
        } else {
            page(&self.view(), room)
        };
        terminal.draw(&page, room)
    }

    fn view(&self) -> View<'_> {
        View {
            address: self.order.address,
            rates: self.rates.as_ref(),
            trouble: self.trouble.as_deref(),
            is_paused: self.is_paused.load(Relaxed),
            sort: self.sort,
            interval: self.order.interval,
            is_utf8: self.order.is_utf8,
            has_keys: true,
        }
    }

    /// The last sample is shown until there is a new one.
    fn sampled(&mut self, sampled: Result<Snapshot, Failed>) {
        match sampled {
            Ok(snapshot) => {
                self.rates = self
                    .last
                    .as_ref()
                    .and_then(|last| Rates::between(last, &snapshot));
                self.last = Some(snapshot);
                self.trouble = None;
            }
            Err(Failed::Because(why)) => self.trouble = Some(why),
            // Impossible here: the configuration was read at start.
            Err(Failed::Configuration) => {}
        }
    }

    fn key(&mut self, key: KeyEvent) -> KeyAction {
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if with_control => return KeyAction::End,
            KeyCode::Char('z') if with_control => return KeyAction::Suspend,
            KeyCode::Char('l') if with_control => return KeyAction::Anew,
            _ => {}
        }
        if std::mem::take(&mut self.shows_help) {
            return KeyAction::Nothing;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::End,
            KeyCode::Char('h' | '?') => self.shows_help = true,
            KeyCode::Char('p' | ' ') => {
                self.is_paused.fetch_xor(true, Relaxed);
            }
            KeyCode::Char('s') => self.sort = next(self.sort),
            KeyCode::Char('r') => self.sort = Sort::Rate,
            KeyCode::Char('u') => self.sort = Sort::Up,
            KeyCode::Char('d') => self.sort = Sort::Down,
            KeyCode::Char('b') => self.sort = Sort::Bytes,
            KeyCode::Char('a') => self.sort = Sort::Age,
            KeyCode::Char('c') => self.sort = Sort::Client,
            _ => {}
        }
        KeyAction::Nothing
    }
}

/// What a key requests beyond a change of the screen.
#[derive(Debug, PartialEq, Eq)]
enum KeyAction {
    Nothing,
    End,
    Anew,
    Suspend,
}

fn next(sort: Sort) -> Sort {
    match sort {
        Sort::Rate => Sort::Up,
        Sort::Up => Sort::Down,
        Sort::Down => Sort::Bytes,
        Sort::Bytes => Sort::Age,
        Sort::Age => Sort::Client,
        Sort::Client => Sort::Rate,
    }
}

/// Restores the terminal, and stops the process. SIGCONT takes the terminal again.
fn suspend(terminal: &Terminal) {
    terminal.leave();
    // A process can always stop itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}

#[cfg(test)]
mod tests;
