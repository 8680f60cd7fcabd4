//! Files that change.
use super::*;

/// Files whose texts are all that is made of them.
struct Texts([PathBuf; 2]);

impl FromFiles for Texts {
    type Made = Vec<String>;

    fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    fn read(&self) -> Result<(Vec<String>, Faults), Faults> {
        let texts = (self.0.iter()).map(|file| std::fs::read_to_string(file).unwrap());
        Ok((texts.collect(), Faults::new()))
    }
}

#[test]
fn changes_are_waited_for_to_end_but_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["restless", "quiet"].map(|name| folder.path().join(name));
    let write = |index: usize, text: &str| std::fs::write(&files[index], text).unwrap();
    write(0, "");
    write(1, "old");
    let (tls, _) = Tls::load(Texts(files.clone())).unwrap();
    let quiet = || tls.in_force()[1].clone();
    assert!(tls.follow_files().is_none());
    // One change: at the second look it is over.
    write(1, "new");
    assert!(tls.follow_files().is_none());
    assert!(tls.follow_files().is_some());
    assert_eq!(quiet(), "new");
    assert!(tls.follow_files().is_none());
    // Another file changes before every look.
    write(1, "newest");
    let mut restless = String::new();
    let mut look = || {
        restless.push('x');
        write(0, &restless);
        tls.follow_files().is_some()
    };
    for _ in 0..2 {
        let waited = (1..CHANGING_MAX).take_while(|_| !look()).count();
        assert_eq!(waited, usize::from(CHANGING_MAX) - 1);
        assert!(look());
    }
    assert_eq!(quiet(), "newest");
}
