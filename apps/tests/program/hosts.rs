//! `--hosts`: what is passed to ssh, the errors of hosts, and the end of ranks. `ranks.rs` and
//! `shared.rs` train and predict with it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{errors, hearth, phantom, plugins_are_built, signal, text, tiny_recipe, wait_until};
use crate::launchers::{By, path, ssh};

/// A command in `folder` that shares cases among ranks; `before` is done by the stand-in of ssh.
fn preprocess(folder: &Path, hosts: &str, before: &str) -> Command {
    let mut command = hearth();
    command.current_dir(folder).env("HEARTH_SSH", ssh(folder, before)).env("PATH", path(folder, By::Hosts));
    command.args(["preprocess", "tiny.toml", "--data", "data", "-o", "out", "--hosts", hosts]);
    command
}

fn output(mut command: Command) -> Output {
    command.output().expect("the program starts")
}

fn bench() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    phantom(dir.path(), 3);
    tiny_recipe(dir.path());
    dir
}

/// Fails with exit code 1 and this text, and starts nothing that stays.
fn fails(command: Command, words: &[&str]) {
    let output = output(command);
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in:\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn hosts_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    for (hosts, word) in [
        ("a:2,a:1", "--hosts: a is listed twice; give its number of ranks: a:2"),
        ("a:2,me@a", "--hosts: a is listed twice"),
        ("a", "--hosts: one rank shares nothing"),
    ] {
        fails(preprocess(dir.path(), hosts, ""), &[word]);
    }
    for hosts in ["a:0,b", "a:x,b", "a,-oProxyCommand=touch", "a b,c", "a,,b"] {
        let output = output(preprocess(dir.path(), hosts, ""));
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("give HOST or HOST:RANKS, such as node1:4"), "{said}");
    }
    let mut both = preprocess(dir.path(), "a,b", "");
    both.args(["--ranks", "2"]);
    let output = output(both);
    assert!(errors(&output).contains("cannot be used with"), "{}", errors(&output));
    let mut launched = preprocess(dir.path(), "a,b", "");
    launched.envs([("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALRANKID", "0")]);
    fails(launched, &["--hosts starts ranks, but a launcher already did"]);
}

#[test]
fn errors_name_the_host_and_the_reason() {
    let dir = bench();
    let folder = dir.path();
    let program = |command: &mut Command, file: &str| _ = command.env("HEARTH_REMOTE_PROGRAM", file);
    let mut none = preprocess(folder, "left,right", "");
    none.env("HEARTH_SSH", "no-such-ssh -p 22");
    fails(none, &["left: cannot start no-such-ssh, which is not installed", "HEARTH_SSH"]);
    let mut open = preprocess(folder, "left,right", "");
    open.env("HEARTH_SSH", "'ssh");
    fails(open, &["HEARTH_SSH: a quote is not closed"]);
    let unknown = "[ $host = left ] || { echo 'ssh: Could not resolve hostname right: Name or service not known' >&2; exit 255; }";
    fails(
        preprocess(folder, "left,right", unknown),
        &["right: ", "has no connection (exit code 255): ssh: Could not resolve hostname right"],
    );
    let mut gone = preprocess(folder, "localhost,right", "");
    program(&mut gone, "/no/such/hearth");
    fails(gone, &["right: there is no program /no/such/hearth; install it", "HEARTH_REMOTE_PROGRAM"]);
    let elsewhere = "line=$(echo \"$line\" | sed 's,cd [^|]* ||,cd /no/such/folder ||,')";
    fails(preprocess(folder, "left,right", elsewhere), &["there is no folder ", "same files on all hosts"]);
    // A program that is older, and one that ends.
    let older = folder.join("older");
    let greeting = r#"{"version":"0.0.9","commit":"abc","host":null,"port":1,"route":null}"#;
    fs::write(&older, format!("#!/bin/sh\necho 'a message of the day'\necho 'hearth-rank {greeting}'\nread table\n"))
        .expect("written");
    make_executable(&older);
    let mut differs = preprocess(folder, "localhost,right", "");
    program(&mut differs, &text(&older));
    fails(differs, &["right: runs hearth 0.0.9 (abc), this one ", "install the same version on all hosts"]);
    let mut ends = preprocess(folder, "localhost,right", "");
    program(&mut ends, "false");
    fails(ends, &["right: rank 1 ended before it joined (exit code 1)"]);
    // One that says nothing.
    let silent = folder.join("silent");
    fs::write(&silent, "#!/bin/sh\nread table\n").expect("written");
    make_executable(&silent);
    let mut quiet = preprocess(folder, "localhost,right", "");
    program(&mut quiet, &text(&silent));
    quiet.env("HEARTH_START_DEADLINE", "1.5");
    fails(quiet, &["--hosts: after 1.5 s nothing is heard of rank 1 on right; try ", "by hand"]);
    // What a rank reports before it has joined.
    let mut wrong = preprocess(folder, "localhost,right", "");
    wrong.env("HEARTH_PORT", "x");
    fails(wrong, &["HEARTH_PORT=x: expected 1 to 65535"]);
    assert!(!folder.join("out").exists());
}

fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Arguments and folders arrive as they are; the secret is in no argument.
#[test]
fn odd_words_arrive_and_the_secret_is_not_among_them() {
    let dir = bench();
    let folder = dir.path().join("it's a $HOME; `folder`");
    fs::create_dir(&folder).expect("a folder");
    for name in ["data", "tiny.toml"] {
        fs::rename(dir.path().join(name), folder.join(name)).expect("moved");
    }
    let log = dir.path().join("log");
    let mut command = hearth();
    let before = format!("echo \"$host $line\" >> '{}'", text(&log));
    command.current_dir(&folder).env("HEARTH_SSH", ssh(dir.path(), &before)).env("PATH", path(dir.path(), By::Hosts));
    command.args([
        "preprocess",
        "tiny.toml",
        "--data",
        "data",
        "--hosts",
        "me@left:2,right",
        "-o",
        "an 'out' \"of\" it",
    ]);
    let output = output(command);
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("3 ranks on left, right"), "{said}");
    assert!(fs::read_dir(folder.join("an 'out' \"of\" it")).expect("results").count() >= 3);
    let log = fs::read_to_string(log).expect("the calls");
    let of_host = |host: &str| log.lines().filter(|line| line.starts_with(host)).count();
    assert_eq!((of_host("me@left "), of_host("right ")), (2, 1), "{log}");
    let is_secret = |word: &str| word.len() >= 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    assert!(!log.split(|c: char| !c.is_ascii_alphanumeric()).any(is_secret), "{log}");
    assert!(log.contains("HEARTH_RANK=2") && !log.contains("--hosts"), "{log}");
}

/// A training on two hosts; its processes have `out` among their arguments.
fn endless(folder: &Path, out: &Path, log: &Path) -> Command {
    let mut command = hearth();
    command.current_dir(folder).env("HEARTH_SSH", ssh(folder, "")).env("PATH", path(folder, By::Hosts));
    command.args(["train", "tiny.toml", "--data", "data", "--device", "cpu", "--epochs", "100000"]);
    command.args(["--set", "training.val_interval=100000", "--hosts", "localhost,right", "--out", &text(out)]);
    command.stdout(Stdio::null()).stderr(fs::File::create(log).expect("a file"));
    command
}

/// The processes with a word among their arguments.
fn processes(word: &Path) -> usize {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let has = |file: &Path| {
        let bytes = fs::read(file).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|part| Path::new(&*String::from_utf8_lossy(part)) == word)
    };
    all.filter(|entry| has(&entry.path().join("cmdline"))).count()
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_and_the_end_of_the_launcher_end_all_ranks() {
    assert!(plugins_are_built());
    let dir = bench();
    let folder = dir.path();
    for (name, word) in [("INT", "interrupted: finishing this step"), ("KILL", "")] {
        let (out, log) = (folder.join(name), folder.join(format!("{name}.log")));
        let mut launcher = endless(folder, &out, &log).spawn().expect("it starts");
        wait_until("checkpoints", || fs::read_dir(out.join("checkpoints")).is_ok_and(|inside| inside.count() > 0));
        assert_eq!(processes(&out), 3, "a launcher and two ranks");
        signal(&launcher, name);
        let status = launcher.wait().expect("a status");
        let begin = Instant::now();
        while processes(&out) > 0 {
            assert!(begin.elapsed() < Duration::from_secs(30), "{name}: ranks still run");
            std::thread::sleep(Duration::from_millis(50));
        }
        let said = fs::read_to_string(&log).expect("text");
        assert!(said.contains(word), "{name}: {said}");
        if name == "INT" {
            assert_eq!(status.code(), Some(130), "{said}");
        }
        // The run resumes from the checkpoint that the ranks have written at their end.
        let epochs = fs::read_to_string(out.join("log.jsonl")).expect("a log");
        let more = epochs.lines().filter(|line| line.contains("\"event\":\"epoch\"")).count() + 2;
        let mut resume = hearth();
        resume.current_dir(folder).args(["train", "--resume", "--data", "data", "--device", "cpu"]);
        resume.args(["--epochs", &more.to_string(), "--out", &text(&out)]);
        let resumed = output(resume);
        let said = errors(&resumed);
        assert!(resumed.status.success() && said.contains("resuming from epoch"), "{name}: {said}");
    }
}
