//! Hashes made by htpasswd, openssl and crypt(3); damaged files; the cost of right, wrong and repeated passwords.
use super::*;

/// Lines made by `htpasswd -nbB`, `openssl passwd -apr1/-1/-5/-6`, `htpasswd -nbs`, and `crypt(3)` with a number of rounds.
const FILE: &str = "\
# a comment
bcrypt:$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2

apr1:$apr1$lZL6V/ci$Eru0QOnAsMtGIJ9dZUV6g0
sha256:$5$abc$HEtZB/1K6XJ99xRK14R.qL6AxT3f9/cPAGbTKZddAT6
sha512:$6$saltstring$.r0X7ub5wGR2v4Xz7svCIozfnlorFh19V89t8KC9Umd81uGhFgsyTRNyzQDXDIm17fFcR9z3z7oBNdsyYBbtm/
rounds:$6$rounds=1000$saltstring$YiR6NSM0LQXmu7vAhkMXfkdYk7qtFouVx1Mdr3HmzXspT8kONjlpU3CsV7ezCB62uXJoAdaagsH4ck7/tB9js.\r
sha1:{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=
  umlaut:$1$abcdefgh$QLc60jVoQ2PaFW/QsiK900
empty:$apr1$a$lsAcX0kKaMIVmrCtUuk5b0
long:$apr1$12345678$EoqCHInLvW9If0X5/vhs91
";

impl Users {
    /// So many passwords of a client are waited for until what this returns is dropped.
    pub async fn hold(&self, client: IpAddr, places: usize) -> impl Sized + use<> {
        let mut places = (0..places).map(|_| self.gate.enter(client).expect("a place"));
        let first = places.next().expect("one place at least");
        let others: Vec<_> = places.collect();
        (first.permit().await, others)
    }
}

fn users() -> Users {
    Users::parse(FILE, "users.htpasswd").expect("every line is right")
}

fn credentials(user: &str, password: &str) -> Credentials {
    Credentials {
        user: user.to_owned(),
        password: password.to_owned(),
    }
}

async fn verify(users: &Users, credentials: &Credentials) -> bool {
    let verified = users.verify(credentials, [192, 0, 2, 1].into()).await;
    verified.expect("nobody else asks")
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

#[test]
fn every_kind_of_hash_knows_its_password_and_no_other() {
    let right = [
        ("bcrypt", "correct horse"),
        ("apr1", "correct horse"),
        ("sha256", "correct horse"),
        ("sha512", "correct horse"),
        ("rounds", "correct horse"),
        ("sha1", "correct horse"),
        ("umlaut", "päss"),
        ("empty", ""),
        (
            "long",
            "this is a password of more than sixteen bytes, to run all branches",
        ),
    ];
    let users = users();
    assert_eq!(users.count(), right.len());
    block_on(async {
        for (user, password) in right {
            assert!(verify(&users, &credentials(user, password)).await, "{user}");
            assert!(
                verify(&users, &credentials(user, password)).await,
                "{user}, remembered"
            );
            for wrong in [
                "correct horsf",
                "correct hors",
                "correct horse ",
                "x",
                "\0",
                &format!("{password}\0"),
                &"x".repeat(10_000),
            ] {
                assert!(
                    !verify(&users, &credentials(user, wrong)).await,
                    "{user} with {wrong:?}"
                );
            }
        }
        assert!(!verify(&users, &credentials("nobody", "correct horse")).await);
        assert!(!verify(&users, &credentials("", "")).await);
        assert!(!verify(&users, &credentials("# a comment", "")).await);
    });
}

#[test]
fn damaged_lines_are_all_reported_and_never_shown() {
    let cases = [
        ("no colon here", "no colon"),
        (":$apr1$a$lsAcX0kKaMIVmrCtUuk5b0", "name is missing"),
        ("plain:secret", "plain password"),
        ("nothing:", "plain password"),
        ("des:rqXexS6ZhobKA", "DES"),
        (
            "yescrypt:$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7",
            "does not know",
        ),
        (
            "apr1:$apr1$lZL6V/ci$Eru0QOnAsMtGIJ9dZUV6g",
            "not a whole MD5-crypt",
        ),
        (
            "apr2:$apr1$lZL6V/ci$Eru0QOnAsMtGIJ9dZUV6g!",
            "not a whole MD5-crypt",
        ),
        (
            "bcrypt:$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lO",
            "not a whole bcrypt",
        ),
        (
            "slow:$2y$17$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2",
            "cost above 16",
        ),
        ("sha:$5$abc$HEtZB", "not a whole SHA-crypt"),
        (
            "salt:$5$abcdefghabcdefghx$HEtZB/1K6XJ99xRK14R.qL6AxT3f9/cPAGbTKZddAT6",
            "not a whole SHA-crypt",
        ),
        (
            "round:$5$round=5$abc$HEtZB/1K6XJ99xRK14R.qL6AxT3f9/cPAGbTKZddAT6",
            "not a whole SHA-crypt",
        ),
        (
            "slow2:$5$rounds=999999999$abc$HEtZB/1K6XJ99xRK14R.qL6AxT3f9/cPAGbTKZddAT6",
            "more than 1000000 rounds",
        ),
        ("sha1:{SHA}L55TUjtiq8FBorTWAZ0jy6g129", "damaged"),
        (
            "twice:{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=\ntwice:{SHA}L55TUjtiq8FBorTWAZ0jy6g129A=",
            "twice",
        ),
    ];
    let text: String = cases.iter().map(|(line, _)| format!("{line}\n")).collect();
    let problems = Users::parse(&text, "users.htpasswd").expect_err("every line is wrong");
    assert_eq!(problems.len(), cases.len());
    for (problem, (line, part)) in problems.iter().zip(cases) {
        assert!(
            problem.message.contains(part),
            "{line}: {}",
            problem.message
        );
        assert!(problem.help.is_some(), "{line}");
    }
    let last = problems.last().expect("a problem");
    assert_eq!(last.line_and_column(), Some((cases.len() + 1, 1)));
    let shown = crate::config::problem::render(&problems, false);
    assert!(shown.contains("users.htpasswd:3"), "{shown}");
    for secret in [
        "secret",
        "rqXexS6ZhobKA",
        "L55TUjtiq8FBorTWAZ0jy6g129",
        "abcdefgh",
    ] {
        assert!(!shown.contains(secret), "{secret} is in {shown}");
    }
}

#[test]
fn a_file_without_users_is_refused() {
    for text in ["", "\n\n", "# only a comment\n"] {
        let problems = Users::parse(text, "users.htpasswd").expect_err("nobody could get in");
        assert!(problems[0].message.contains("no users"));
    }
    let problems =
        Users::load(Path::new("/nonexistent/users.htpasswd")).expect_err("there is no such file");
    assert!(problems[0].message.contains("cannot be read"));
}

#[test]
fn debug_output_has_no_hashes() {
    let shown = format!("{:?}", users());
    assert!(shown.contains("bcrypt") && !shown.contains('$'), "{shown}");
}

#[test]
fn a_password_is_remembered_for_ten_minutes_and_only_with_its_user() {
    let users = users();
    let right = users.seal(&credentials("apr1", "correct horse"));
    let now = Instant::now();
    let entry = &users.entries[users.by_name["apr1"]];
    assert!(!entry.remembers(&right, now));
    entry.remember(right, now);
    assert!(entry.remembers(&right, now + REMEMBERED - Duration::from_millis(1)));
    assert!(!entry.remembers(&right, now + REMEMBERED));
    assert!(!entry.remembers(&users.seal(&credentials("apr1", "correct horsf")), now));
    assert!(!users.entries[users.by_name["bcrypt"]].remembers(&right, now));
    // Where the name ends and the password begins is part of the seal.
    assert_ne!(
        users.seal(&credentials("ab", "c")),
        users.seal(&credentials("a", "bc"))
    );
}

#[test]
fn a_wrong_password_is_never_remembered() {
    let users = users();
    block_on(async {
        assert!(!verify(&users, &credentials("apr1", "wrong")).await);
        assert!(!verify(&users, &credentials("nobody", "correct horse")).await);
    });
    assert!(
        users
            .entries
            .iter()
            .all(|entry| entry.verified.load().is_none())
    );
}

#[test]
fn an_unknown_name_costs_what_a_known_one_costs() {
    // One user: whoever is asked for, it is this hash that is computed, once.
    let text = "only:$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n";
    let users = Users::parse(text, "users.htpasswd").expect("one user");
    for (count, user) in [(1, "only"), (2, "nobody"), (3, "somebody")] {
        assert!(!block_on(verify(&users, &credentials(user, "wrong"))));
        let computed = users.computed.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(computed, count, "{user}");
    }
}

#[test]
fn an_unknown_name_has_one_cost_that_depends_on_the_key_alone() {
    let users = [users(), users()];
    let names: Vec<String> = (0..100).map(|number| format!("nobody-{number}")).collect();
    let decoys = |users: &Users| -> Vec<_> {
        let of_name = |name: &String| {
            let decoy = users.decoy(name).expect("there are users");
            (users.entries.iter()).position(|entry| std::ptr::eq(entry, decoy))
        };
        names.iter().map(of_name).collect()
    };
    let [one, other] = users.each_ref().map(decoys);
    assert_eq!(one, decoys(&users[0]));
    assert_ne!(one, other);
    let different: std::collections::HashSet<_> = one.iter().collect();
    assert!(different.len() > 1);
}

#[test]
fn hashes_are_computed_a_few_at_a_time_also_when_clients_go_away() {
    let text = "only:$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n";
    let users = Users::parse(text, "users.htpasswd").expect("one user");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        // Hashes wait for their thread.
        let (free, until_free) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || until_free.recv());
        let wrong = credentials("only", "wrong");
        for client in 0..100 {
            // The client goes away as soon as its hash is under way, or waits.
            let attempt = users.verify(&wrong, [192, 0, 2, client].into());
            let _ = tokio::time::timeout(Duration::from_micros(1), attempt).await;
        }
        drop(free);
        assert!(!verify(&users, &wrong).await);
    });
    let computed = users.computed.load(std::sync::atomic::Ordering::SeqCst);
    // A few that were under way, and the last one.
    assert!((2..=5).contains(&computed), "{computed}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let users = users();
    let _held = users.hold([192, 0, 2, 2].into(), 1).await;
    let asked = credentials("apr1", "correct horse");
    let verified = users.verify(&asked, [192, 0, 2, 2].into()).await;
    assert!(matches!(verified, Err(Busy)));
}
