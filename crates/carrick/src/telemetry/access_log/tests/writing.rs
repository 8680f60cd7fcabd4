//! From worker to file: order, flushing, reopened and changed targets, full or blocked ones.
use super::*;
use crate::config::plan::{LogPlan, LogTarget};
use std::fs;
use std::path::{Path, PathBuf};

struct Scene {
    folder: tempfile::TempDir,
    thread: LogThread,
    sender: LogSender,
}

impl Scene {
    fn new(target: &str, format: LogFormat, lines_max: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = LogPlan {
            access: LogTarget::File(folder.path().join(target)),
            format,
        };
        let (thread, sender) = LogThread::start(&plan, lines_max).unwrap();
        Self {
            folder,
            thread,
            sender,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn worker(&self) -> (AccessLog, Arc<WorkerMetrics>) {
        let metrics = Arc::new(WorkerMetrics::default());
        (self.sender.worker(Arc::clone(&metrics)), metrics)
    }

    /// Waits until everything that was handed over is written.
    fn settle(&self) {
        carrick_test::wait_until("the log is written", || {
            self.sender.state.lines_waiting() == 0
        });
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(String::from)
        .collect()
}

fn numbered(number: usize) -> Vec<u8> {
    format!("/{number}/").into_bytes()
}

#[test]
fn lines_of_all_workers_arrive_whole_and_in_order() {
    let scene = Scene::new("log", LogFormat::Json, 100_000);
    std::thread::scope(|scope| {
        for port in 1..=3 {
            let sender = scene.sender.clone();
            scope.spawn(move || {
                let log = sender.worker(Arc::default());
                for number in 0..2000 {
                    log.write(&Record {
                        target: &numbered(number),
                        client_port: port,
                        ..record()
                    });
                }
                log.flush();
            });
        }
    });
    let (path, state) = (scene.path("log"), scene.thread.state());
    scene.thread.stop();
    let mut next = [0; 4];
    for line in lines(&path) {
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        let port = usize::try_from(read["port"].as_u64().unwrap()).unwrap();
        assert_eq!(read["target"], format!("/{}/", next[port]));
        next[port] += 1;
    }
    assert_eq!(next, [0, 2000, 2000, 2000]);
    assert_eq!(
        (
            state.lines_written.get(),
            state.lines_lost.get(),
            state.lines_waiting()
        ),
        (6000, 0, 0)
    );
}

#[test]
fn nothing_is_written_before_a_flush_and_everything_at_it() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&record());
    std::thread::sleep(Duration::from_millis(20));
    assert!(lines(&scene.path("log")).is_empty());
    log.flush();
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("log")).len(), 1);
}

#[test]
fn a_worker_that_ends_leaves_nothing_behind() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&record());
    drop(log);
    scene.settle();
    assert_eq!(lines(&scene.path("log")).len(), 1);
}

#[test]
fn the_file_is_reopened_after_it_was_moved() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&Record {
        target: b"/before",
        ..record()
    });
    log.flush();
    scene.settle();
    fs::rename(scene.path("log"), scene.path("log.1")).unwrap();
    log.write(&Record {
        target: b"/moved",
        ..record()
    });
    log.flush();
    scene.settle();
    scene.thread.reopen();
    log.write(&Record {
        target: b"/after",
        ..record()
    });
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("log.1")).len(), 2);
    let after = lines(&scene.path("log"));
    assert!(after.len() == 1 && after[0].contains("/after"), "{after:?}");
}

#[test]
fn a_reopen_that_fails_keeps_the_old_file() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    fs::rename(scene.path("log"), scene.path("log.1")).unwrap();
    fs::create_dir(scene.path("log")).unwrap();
    scene.thread.reopen();
    log.write(&record());
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("log.1")).len(), 1);
}

#[test]
fn a_change_takes_new_lines_to_the_new_target_and_old_ones_to_the_old() {
    let scene = Scene::new("old", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    log.write(&Record {
        target: b"/1",
        ..record()
    });
    let plan = LogPlan {
        access: LogTarget::File(scene.path("new")),
        format: LogFormat::Json,
    };
    scene
        .thread
        .change(LogThread::prepare(&plan, 1000).unwrap());
    log.write(&Record {
        target: b"/2",
        ..record()
    });
    log.flush();
    scene.settle();
    let (old, new) = (lines(&scene.path("old")), lines(&scene.path("new")));
    assert!(old.len() == 1 && old[0].contains("\"GET /1 "), "{old:?}");
    assert!(
        new.len() == 1 && new[0].contains("\"target\":\"/2\""),
        "{new:?}"
    );

    let off = LogPlan {
        access: LogTarget::Off,
        format: LogFormat::Json,
    };
    scene.thread.change(LogThread::prepare(&off, 1000).unwrap());
    assert!(!log.is_on());
    log.write(&record());
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("new")).len(), 1);
    scene
        .thread
        .change(LogThread::prepare(&plan, 1000).unwrap());
    assert!(log.is_on());
    log.write(&record());
    log.flush();
    scene.settle();
    assert_eq!(lines(&scene.path("new")).len(), 2);
}

#[test]
fn a_change_to_a_file_that_cannot_be_opened_changes_nothing() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, _) = scene.worker();
    let plan = LogPlan {
        access: LogTarget::File(scene.path("no/such/folder")),
        format: LogFormat::Json,
    };
    let error = LogThread::prepare(&plan, 1000).unwrap_err().to_string();
    assert!(
        error.contains("cannot open the access log") && error.contains("no/such/folder"),
        "{error}"
    );
    log.write(&record());
    log.flush();
    scene.settle();
    assert!(lines(&scene.path("log"))[0].starts_with("192.0.2.7 - anna ["));
}

#[test]
fn a_full_disk_loses_lines_and_nothing_else() {
    let plan = LogPlan {
        access: LogTarget::File("/dev/full".into()),
        format: LogFormat::Combined,
    };
    let (thread, sender) = LogThread::start(&plan, 1000).unwrap();
    let log = sender.worker(Arc::default());
    for _ in 0..10 {
        log.write(&record());
        log.flush();
    }
    carrick_test::wait_until("lines are lost", || thread.state().lines_lost.get() == 10);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let plan = LogPlan {
        access: LogTarget::File(path.clone()),
        format: LogFormat::Combined,
    };
    thread.change(LogThread::prepare(&plan, 1000).unwrap());
    log.write(&record());
    log.flush();
    let state = thread.state();
    thread.stop();
    assert_eq!((state.lines_written.get(), state.lines_lost.get()), (1, 10));
    assert_eq!(lines(&path).len(), 1);
}

/// A FIFO that is open for reading but never read.
fn stuck_fifo() -> (tempfile::TempDir, PathBuf, fs::File) {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    let reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .unwrap();
    (folder, path, reader)
}

#[test]
fn a_target_that_takes_nothing_does_not_hold_up_the_worker() {
    let (_folder, path, reader) = stuck_fifo();
    let plan = LogPlan {
        access: LogTarget::File(path),
        format: LogFormat::Combined,
    };
    let (thread, sender) = LogThread::start(&plan, 400).unwrap();
    let metrics = Arc::new(WorkerMetrics::default());
    let log = sender.worker(Arc::clone(&metrics));
    // The FIFO never drains, so waiting for room would hang.
    for _ in 0..10_000 {
        log.write(&record());
    }
    log.flush();
    assert!(thread.state().lines_waiting() <= 400);
    let dropped = metrics.limits.get(Limit::LogQueue);
    assert!(dropped > 8_000, "{dropped}");
    // The reader closes: waiting lines are lost, and the thread continues.
    drop(reader);
    carrick_test::wait_until("the queue is empty", || thread.state().lines_waiting() == 0);
    log.flush();
    let state = thread.state();
    thread.stop();
    assert_eq!(
        dropped + state.lines_written.get() + state.lines_lost.get(),
        10_000
    );
}

#[test]
fn the_queue_is_limited_in_bytes_too() {
    let state = LogState::new(Settings::default(), 100);
    assert!(state.reserve(1, 60 * BYTES_PER_LINE));
    assert!(!state.reserve(1, 60 * BYTES_PER_LINE));
    assert!(state.reserve(1, 40 * BYTES_PER_LINE));
    assert!(!state.reserve(1, 1));
    state.release(2, 100 * BYTES_PER_LINE);
    // Larger than the limit, but alone.
    assert!(state.reserve(500, 1));
    assert!(!state.reserve(1, 1));
    assert_eq!(state.lines_waiting(), 500);
}

#[test]
fn settings_survive_their_packing() {
    let mut settings = Settings::default();
    for format in [Some(LogFormat::Combined), None, Some(LogFormat::Json)] {
        settings = settings.next(format);
        assert_eq!(Settings::unpack(settings.pack()), settings);
    }
    assert_eq!(settings.generation, 3);
    let last = Settings {
        generation: u32::MAX >> 2,
        format: None,
    };
    assert_eq!(
        last.next(Some(LogFormat::Json)),
        Settings {
            generation: 0,
            format: Some(LogFormat::Json)
        }
    );
}

#[test]
fn lines_after_the_thread_has_ended_are_counted_as_dropped() {
    let scene = Scene::new("log", LogFormat::Combined, 1000);
    let (log, metrics) = scene.worker();
    let sender = scene.sender.clone();
    scene.thread.stop();
    log.write(&record());
    log.flush();
    assert_eq!(metrics.limits.get(Limit::LogQueue), 1);
    assert_eq!(sender.state.lines_waiting(), 0);
}
