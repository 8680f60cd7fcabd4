//! The output of a child process, collected while it runs.
use super::PATIENCE;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex};

/// The text of a stream so far.
#[derive(Debug, Clone, Default)]
pub struct Output(Arc<(Mutex<Collected>, Condvar)>);

#[derive(Debug, Default)]
struct Collected {
    text: String,
    is_ended: bool,
}

impl Output {
    /// Collects `stream` in a thread until it ends.
    pub fn collect(stream: impl Read + Send + 'static) -> Self {
        let output = Self::default();
        let Self(shared) = output.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stream);
            let mut line = Vec::new();
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|count| count > 0)
            {
                let mut collected = shared.0.lock().expect("no panic in between");
                collected.text.push_str(&String::from_utf8_lossy(&line));
                line.clear();
                shared.1.notify_all();
            }
            shared.0.lock().expect("no panic in between").is_ended = true;
            shared.1.notify_all();
        });
        output
    }

    /// Like [`collect`](Self::collect), for a stream without lines: a terminal's.
    pub fn collect_as_it_comes(mut stream: impl Read + Send + 'static) -> Self {
        let output = Self::default();
        let Self(shared) = output.clone();
        std::thread::spawn(move || {
            let (mut chunk, mut waiting) = ([0; 4096], Vec::new());
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                waiting.extend_from_slice(&chunk[..count]);
                // A character may arrive in two parts.
                let whole = match std::str::from_utf8(&waiting) {
                    Err(error) if error.error_len().is_none() => error.valid_up_to(),
                    _ => waiting.len(),
                };
                let rest = waiting.split_off(whole);
                let mut collected = shared.0.lock().expect("no panic in between");
                collected.text.push_str(&String::from_utf8_lossy(&waiting));
                waiting = rest;
                shared.1.notify_all();
            }
            shared.0.lock().expect("no panic in between").is_ended = true;
            shared.1.notify_all();
        });
        output
    }

    /// The text so far.
    pub fn text(&self) -> String {
        self.0.0.lock().expect("no panic in between").text.clone()
    }

    /// Waits until the text contains `part`; returns the text so far. `Err`: the stream ended without it.
    pub fn wait_for(&self, part: &str) -> Result<String, String> {
        let (text, is_ended) =
            self.wait_until(|collected| collected.is_ended || collected.text.contains(part));
        if text.contains(part) {
            return Ok(text);
        }
        assert!(is_ended, "waited in vain for {part:?} in:\n{text}");
        Err(text)
    }

    /// Waits for the end of the stream; returns all of its text.
    pub fn wait_for_end(&self) -> String {
        let (text, is_ended) = self.wait_until(|collected| collected.is_ended);
        assert!(is_ended, "the output does not end:\n{text}");
        text
    }

    /// The text once `holds`, or after [`PATIENCE`], and whether it is complete. The lock is free again: tests panic then,
    /// and show the text as they unwind.
    fn wait_until(&self, holds: impl Fn(&Collected) -> bool) -> (String, bool) {
        let Self(shared) = self;
        let collected = shared.0.lock().expect("no panic in between");
        let (collected, _) = shared
            .1
            .wait_timeout_while(collected, PATIENCE, |collected| !holds(collected))
            .expect("no panic in between");
        (collected.text.clone(), collected.is_ended)
    }
}
