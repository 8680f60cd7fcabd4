//! Targets that accept only part of a line.
use super::*;
use std::io::Read;
use std::os::unix::net::UnixStream;

fn sink(file: File) -> Sink {
    Sink {
        target: LogTarget::Stdout,
        name: "test".into(),
        file,
        torn: false,
        lost: None,
    }
}

#[test]
fn a_torn_line_is_ended_before_the_next_one() {
    let (ours, mut reader) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut sink = sink(File::from(std::os::fd::OwnedFd::from(ours)));
    // Far more than the socket's buffer holds.
    let line = [vec![b'a'; 999], vec![b'\n']].concat();
    let many = line.repeat(4000);
    let lost = sink.write(&many);
    assert!(lost > 0 && lost < 4000, "{lost}");
    assert_eq!(sink.lost, Some(lost));
    reader.set_nonblocking(true).unwrap();
    let mut taken = Vec::new();
    assert_eq!(
        reader.read_to_end(&mut taken).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    let whole = 4000 - lost;
    assert_eq!(taken.len() / 1000, whole);

    assert_eq!(sink.write(b"next\n"), 0);
    assert_eq!(sink.lost, None);
    let mut after = Vec::new();
    let _ = reader.read_to_end(&mut after);
    taken.extend(after);
    let text = String::from_utf8(taken).unwrap();
    assert!(text.ends_with("a\nnext\n"), "{}", &text[text.len() - 20..]);
    assert_eq!(text.lines().filter(|line| line.len() == 999).count(), whole);
}

#[test]
fn lost_lines_are_counted_over_one_outage() {
    let mut sink = sink(OpenOptions::new().write(true).open("/dev/full").unwrap());
    assert_eq!(sink.write(b"1\n2\n3\n"), 3);
    assert_eq!(sink.write(b"4\n"), 1);
    assert_eq!(sink.lost, Some(4));
    assert!(!sink.torn);
    sink.file = OpenOptions::new().write(true).open("/dev/null").unwrap();
    assert_eq!(sink.write(b"5\n"), 0);
    assert_eq!(sink.lost, None);
}

#[test]
fn a_fifo_without_a_reader_is_refused_rather_than_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let error = Sink::open(&LogTarget::File(path)).unwrap_err();
    assert_eq!(
        error.raw_os_error(),
        None,
        "wrapped, so that the path is in the message"
    );
    assert!(error.to_string().contains("fifo"), "{error}");
}

#[test]
fn the_standard_streams_can_be_opened() {
    assert!(Sink::open(&LogTarget::Stdout).unwrap().is_some());
    assert!(Sink::open(&LogTarget::Stderr).unwrap().is_some());
    assert!(Sink::open(&LogTarget::Off).unwrap().is_none());
}

/// The folder of a file that nobody writes to any more can be unmounted, however busy the new one is.
#[test]
fn the_target_before_a_change_is_closed_in_time() {
    let (sender, messages) = mpsc::channel();
    let settings = Settings {
        generation: 1,
        format: None,
    };
    let mut writer = Writer {
        messages,
        state: Arc::new(LogState::new(settings, 10)),
        generation: 1,
        current: None,
        previous: Some(sink(File::open("/dev/null").unwrap())),
        changed_at: Instant::now(),
    };
    let hour = Duration::from_secs(3600);
    for (changed_at, is_kept) in [
        (writer.changed_at + hour, true),
        (writer.changed_at - PREVIOUS_KEPT, false),
    ] {
        writer.changed_at = changed_at;
        sender.send(Message::Reopen).unwrap();
        assert!(matches!(writer.next(), Some(Message::Reopen)));
        assert_eq!(writer.previous.is_some(), is_kept);
    }
}
