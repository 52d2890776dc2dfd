//! `hearth watch` during a training: lines, a page, a folder of runs, and folders without runs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::{fail, hearth, phantom, plugins_are_built, signal, succeed, text, tiny_recipe, wait_until};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str]) -> Running {
    let mut command = hearth();
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(command.spawn().expect("the program starts"))
}

/// A training of any length, whose output is not read.
fn train_on(arguments: &[&str]) -> Running {
    let mut command = hearth();
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().expect("the program starts"))
}

/// What a process printed until it ended, and its exit code.
fn ended(mut running: Running) -> (String, String, Option<i32>) {
    let (mut out, mut err) = (String::new(), String::new());
    running.0.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    running.0.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    let code = running.0.wait().expect("a status").code();
    (out, err, code)
}

fn train<'a>(recipe: &'a str, data: &'a str, out: &'a str, epochs: &'a str) -> Vec<&'a str> {
    vec!["train", recipe, "--data", data, "--out", out, "--epochs", epochs, "--device", "cpu"]
}

fn complete(line: &str) -> bool {
    line.starts_with("epoch ") && line.contains("loss ") && line.contains("mean dice ")
}

#[test]
fn a_run_is_told_from_its_reserved_folder_to_its_end() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (text(&phantom(dir.path(), 5)), text(&tiny_recipe(dir.path())));
    let out = text(&dir.path().join("run"));
    let watching = start(&["watch", &out, "--wait"]);
    let training = start(&train(&recipe, &data, &out, "6"));
    let (said, errors, code) = ended(watching);
    assert_eq!(code, Some(0), "{said}{errors}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("waiting for "), "{said}");
    let epochs: Vec<&&str> = lines.iter().filter(|line| complete(line)).collect();
    // Epochs before the first check are not reported.
    assert!(!epochs.is_empty() && epochs.last().is_some_and(|line| line.starts_with("epoch 6 of 6")), "{said}");
    assert!(lines.last().is_some_and(|line| line.contains("completed in epoch 6: best mean dice")), "{said}");
    assert_eq!(ended(training).2, Some(0));
    let log = fs::read_to_string(Path::new(&out).join("log.jsonl")).expect("a log");
    let epoch = log.lines().find(|line| line.contains("\"event\":\"epoch\"")).expect("an epoch");
    let epoch: serde_json::Value = serde_json::from_str(epoch).expect("JSON");
    assert!(
        epoch["loss"].as_f64() > Some(0.0) && epoch["wall_seconds"].as_f64() >= epoch["seconds"].as_f64(),
        "{epoch}"
    );
    assert_eq!((epoch["key_metric"].as_str(), epoch["better"].as_str()), (Some("mean_dice"), Some("higher")));

    // After the end, watching again reports the end at once.
    let said = succeed(&["watch", &out]);
    assert!(said.lines().last().is_some_and(|line| line.contains("completed in epoch 6")), "{said}");

    // A folder of runs.
    let said = succeed(&["watch", &text(dir.path())]);
    assert!(said.contains("1     run  ✓ completed  6 of 6") && said.contains("mean dice"), "{said}");
}

#[test]
fn a_run_that_is_killed_interrupted_or_removed_is_told_apart() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (text(&phantom(dir.path(), 5)), text(&tiny_recipe(dir.path())));
    let runs = dir.path().join("runs");
    let at = |name: &str| text(&runs.join(name));
    let begun = |name: &str| {
        let metrics = runs.join(name).join("metrics.csv");
        wait_until("an epoch", || fs::read_to_string(&metrics).is_ok_and(|table| table.lines().count() > 1));
    };
    let training = train_on(&train(&recipe, &data, &at("killed"), "5000"));
    begun("killed");
    let said = succeed(&["watch", &at("killed"), "--once"]);
    assert!(said.contains("is running: process ") && said.lines().any(complete), "{said}");
    // Ctrl-C does not affect the run.
    let watching = start(&["watch", &at("killed"), "--lines"]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&watching.0, "INT");
    let (said, _, code) = ended(watching);
    assert_eq!(code, Some(130), "{said}");
    let epochs = || fs::read_to_string(runs.join("killed/metrics.csv")).expect("a table").lines().count();
    let before = epochs();
    wait_until("another epoch", || epochs() > before);

    let watching = start(&["watch", &at("killed")]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&training.0, "KILL");
    let (said, errors, code) = ended(watching);
    assert_eq!(code, Some(1), "{said}{errors}");
    assert!(errors.contains("was killed in epoch") && errors.contains("--resume"), "{said}{errors}");

    let training = train_on(&train(&recipe, &data, &at("stopped"), "5000"));
    begun("stopped");
    let all = succeed(&["watch", &text(&runs), "--once"]);
    assert!(all.contains("▶ running") && all.contains("✗ killed"), "{all}");
    let watching = start(&["watch", &at("stopped")]);
    std::thread::sleep(Duration::from_millis(700));
    signal(&training.0, "INT");
    let (_, errors, code) = ended(watching);
    assert!(code == Some(1) && errors.contains("was interrupted in epoch"), "{errors}");

    let training = train_on(&train(&recipe, &data, &at("removed"), "5000"));
    begun("removed");
    let watching = start(&["watch", &at("removed")]);
    std::thread::sleep(Duration::from_millis(700));
    // In one step, as the run continues to write.
    fs::rename(runs.join("removed"), dir.path().join("elsewhere")).expect("moved");
    let (_, errors, code) = ended(watching);
    assert!(code == Some(1) && errors.contains("removed was removed while it was watched"), "{errors}");
    drop(training);
}

#[test]
fn folders_that_are_no_run_say_what_to_give() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| text(&dir.path().join(name));
    fail(&["watch", &at("nowhere")], 1, &["there is no folder", "nowhere", "--wait"]);
    fail(&["watch", &at("nowhere"), "--once", "--port", "8080"], 2, &["--port"]);
    fs::write(dir.path().join("notes.txt"), "no run").expect("written");
    fail(&["watch", &at("notes.txt")], 1, &["is a file"]);
    fail(&["watch", &text(dir.path())], 1, &["holds no run"]);
    fail(&["watch", &at("nowhere"), "--port", "1"], 2, &["--page"]);
    let run = dir.path().join("run");
    fs::create_dir(&run).expect("a folder");
    fs::write(run.join("recipe.toml"), [0xff, 0xfe, b'\n']).expect("written");
    fs::write(run.join("log.jsonl"), "{\"event\":\"epoch\",\"epoch\":1,\"metrics\":{}}\nno JSON\n[]\n{\"event\":\"epo")
        .expect("written");
    fs::write(run.join("summary.json"), "{\"outcome\":").expect("written");
    let said = succeed(&["watch", &text(&run), "--once"]);
    assert!(said.contains("run ended without a summary in epoch 1"), "{said}");
}

/// Sends a request verbatim, and returns the answer.
fn ask(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn a_page_is_for_who_has_its_address() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (text(&phantom(dir.path(), 5)), text(&tiny_recipe(dir.path())));
    let out = text(&dir.path().join("run"));
    let mut training = train_on(&train(&recipe, &data, &out, "5000"));
    let table = dir.path().join("run/metrics.csv");
    wait_until("epochs", || fs::read_to_string(&table).is_ok_and(|table| table.lines().count() > 2));
    let mut watching = start(&["watch", &out, "--page"]);
    let mut lines = BufReader::new(watching.0.stdout.take().expect("a pipe")).lines();
    let address = lines.next().expect("a line").expect("text");
    let (place, token) =
        address.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split_once('/')).expect("an address");
    let (port, token) = (place.parse::<u16>().expect("a port"), token.trim_end_matches('/'));
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{address}");
    let get = |method: &str, path: &str, host: &str| {
        ask(port, &format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    let host = format!("127.0.0.1:{port}");
    let page = get("GET", &format!("/{token}/"), &host);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<!DOCTYPE html>"), "{page}");
    for words in ["running", "mean dice", "<svg", "Learning rate", "Cache-Control: no-store", "connect-src 'self'"] {
        assert!(page.contains(words), "no {words:?} on the page");
    }
    for path in [
        "/",
        "/recipe.toml",
        "/run/recipe.toml",
        "/../../etc/passwd",
        "/favicon.ico",
        "/00000000000000000000000000000000/",
    ] {
        let answer = get("GET", path, &host);
        assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("mean dice"), "{path}: {answer}");
    }
    for path in ["recipe.toml", "../../../etc/passwd", "%2e%2e/recipe.toml", "checkpoints/"] {
        assert!(get("GET", &format!("/{token}/{path}"), &host).starts_with("HTTP/1.1 404"), "{path}");
    }
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        assert!(get("GET", &format!("/{token}/"), host).starts_with("HTTP/1.1 403"), "{host}");
    }
    assert!(get("GET", &format!("/{token}/"), "localhost:8080").starts_with("HTTP/1.1 200"), "a tunnel");
    for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"] {
        assert!(get(method, &format!("/{token}/"), &host).starts_with("HTTP/1.1 405"), "{method}");
    }
    assert!(ask(port, &format!("GET /{token}/ HTTP/1.0\r\n\r\n")).contains(" 403 "), "no host");
    assert!(!ask(port, "nonsense\r\n\r\n").contains("mean dice"));

    // The page changes with the run, and is not sent again while nothing changes.
    let version = |page: &str| {
        page.split("data-version=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("one").to_owned()
    };
    let seen = version(&page);
    wait_until("another version", || get("GET", &format!("/{token}/?seen={seen}"), &host).starts_with("HTTP/1.1 200"));
    signal(&training.0, "INT");
    assert_eq!(training.0.wait().expect("a status").code(), Some(130));
    wait_until("the end", || get("GET", &format!("/{token}/"), &host).contains("interrupted"));
    let page = get("GET", &format!("/{token}/"), &host);
    let same = get("GET", &format!("/{token}/?seen={}", version(&page)), &host);
    assert!(same.starts_with("HTTP/1.1 204"), "{same}");
    let said = lines.next().expect("a line").expect("text");
    assert!(said.contains("was interrupted in epoch"), "{said}");
    // Another program cannot take the port while it is used.
    fail(&["watch", &out, "--page", "--port", &port.to_string()], 1, &["cannot serve a page", "--port"]);
    signal(&watching.0, "INT");
    assert_eq!(watching.0.wait().expect("a status").code(), Some(0));
}

/// The address of the page of a running training, and both processes.
fn served(dir: &Path) -> (String, Running, Running) {
    let (data, recipe) = (text(&phantom(dir, 5)), text(&tiny_recipe(dir)));
    let out = text(&dir.join("run"));
    let training = train_on(&train(&recipe, &data, &out, "5000"));
    let table = dir.join("run/metrics.csv");
    wait_until("epochs", || fs::read_to_string(&table).is_ok_and(|table| table.lines().count() > 2));
    let mut watching = start(&["watch", &out, "--page"]);
    let out = watching.0.stdout.take().expect("a pipe");
    let address = BufReader::new(out).lines().next().expect("a line").expect("text");
    (address, training, watching)
}

#[test]
fn live_chromium_takes_over_what_is_new() {
    assert!(plugins_are_built());
    let Some(chromium) = crate::clients::find_program("chromium", "a_page_is_for_who_has_its_address") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let (address, _training, _watching) = served(dir.path());
    let profile = format!("--user-data-dir={}", text(&dir.path().join("browser")));
    // The browser's virtual time advances while it is idle: it sends a hundred requests.
    let flags = ["--headless", "--no-sandbox", "--disable-gpu", &profile, "--virtual-time-budget=100000", "--dump-dom"];
    let output = Command::new(chromium).args(flags).arg(&address).stdin(Stdio::null()).output().expect("it starts");
    let page = String::from_utf8_lossy(&output.stdout);
    let version = page.split("data-version=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<u64>().ok());
    assert!(version > Some(0), "the page stays as it was: {version:?}\n{}", String::from_utf8_lossy(&output.stderr));
    // The script also works on the updated content: tables can be sorted, and nothing is lost.
    assert!(page.contains("<button type=\"button\">") && page.contains("id=\"lost\" hidden"), "{page}");
}

/// A terminal, created by `script`.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_shows_a_view_and_is_restored() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, recipe) = (text(&phantom(dir.path(), 5)), text(&tiny_recipe(dir.path())));
    let out = text(&dir.path().join("run"));
    let _training = train_on(&train(&recipe, &data, &out, "5000"));
    let table = dir.path().join("run/metrics.csv");
    wait_until("epochs", || fs::read_to_string(&table).is_ok_and(|table| table.lines().count() > 3));
    let watch = format!("stty rows 40 cols 120; exec '{}' watch '{out}'", env!("CARGO_BIN_EXE_hearth"));
    let typescript = dir.path().join("typescript");
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-f", "-c", &watch]).arg(&typescript).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut script = Running(script.spawn().expect("script starts"));
    let shown = || String::from_utf8_lossy(&fs::read(&typescript).unwrap_or_default()).into_owned();
    wait_until("the view", || shown().contains("Ctrl-C leaves"));
    // It switches to the alternate screen.
    assert!(shown().contains("\u{1b}[?1049h"), "{}", shown());
    script.0.stdin.as_mut().expect("a pipe").write_all(b"\x03").expect("typed");
    let status = script.0.wait().expect("a status");
    let shown = shown();
    assert!(status.success() && shown.contains("\u{1b}[?1049l"), "{shown}");
    for words in ["learning rate", "mean dice", "time of an epoch", "left"] {
        assert!(shown.contains(words), "no {words:?} in {shown}");
    }
    // The current state remains on the terminal.
    let after = shown.rsplit("\u{1b}[?1049l").next().unwrap_or_default();
    assert!(after.contains("is running: process"), "{after}");
}
