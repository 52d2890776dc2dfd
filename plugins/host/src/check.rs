//! Tries a plugin in a child process, so that a library that crashes while loading becomes a
//! report.

use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hearth_engine::{Counter, Engine};
use hearth_plugin::abi::Linked;

use crate::error::PluginError;
use crate::file::Identity;
use crate::load::{Plugin, load, load_linked};
use crate::report::{Info, Report};
use crate::shown::shown_path;

/// The prefix of the child's line with its report. A library may print other lines.
const MARK: &str = "hearth-plugin-report: ";

/// The time limit for loading a library.
const PATIENCE: Duration = Duration::from_secs(60);

/// Loads a plugin in this process, adds its handler to an engine, and reports the result.
pub fn check_here(path: &Path) -> Report {
    check(path, load(path))
}

/// [`check_here`] for a plugin that is linked into this program.
pub fn check_linked(linked: &'static Linked) -> Report {
    check(Path::new(&Identity::of(linked.identity).name), load_linked(linked))
}

fn check(path: &Path, loaded: Result<Plugin, PluginError>) -> Report {
    let path = path.to_owned();
    match loaded {
        Ok(plugin) => {
            let problem = refusal(&plugin);
            Report { path, ok: problem.is_none(), info: Some(Info::of(&plugin)), problem }
        }
        Err(error) => Report { path, ok: false, info: None, problem: Some(error.to_string()) },
    }
}

/// The reason why an engine refuses the plugin's handler. A plugin that needs options, or refuses
/// its defaults, is not checked.
fn refusal(plugin: &Plugin) -> Option<String> {
    let handler = plugin.handler(toml::Table::new()).ok()?;
    let mut engine = Engine::new("trainer");
    // Its own events are registered by the workflow that fires them, which is missing here.
    for when in handler.subscriptions() {
        for (event, _) in when.alternatives().iter().filter(|(event, _)| event.is_custom()) {
            engine.register_event(&event.to_string(), Some(Counter::Iteration)).ok()?;
        }
    }
    let error = engine.add_boxed(handler).err()?;
    let name = &plugin.identity().name;
    Some(format!("plugin `{name}` can be loaded, but no engine accepts its handler: {error}"))
}

/// [`check_here`] for the child that [`check_in_child`] starts: prints the report as the line that
/// the parent expects.
pub fn check_for_parent(path: &Path) {
    let report = check_here(path);
    match serde_json::to_string(&report) {
        Ok(json) => println!("\n{MARK}{json}"),
        Err(error) => eprintln!("the report cannot be written: {error}"),
    }
}

/// Runs a command that calls [`check_for_parent`] for this plugin, usually this program with a
/// hidden argument, and returns its report, or a report of its crash or hang.
pub fn check_in_child(command: &mut Command, path: &Path) -> Report {
    let failed = |problem: String| Report { path: path.to_owned(), ok: false, info: None, problem: Some(problem) };
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return failed(format!("{} cannot be started: {error}", command.get_program().to_string_lossy())),
    };
    let output = child.stdout.take().map(collect);
    let errors = child.stderr.take().map(collect);
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if start.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(5)),
            Ok(None) => {
                // The child belongs to this process; it may have just ended, which is not an error.
                let _ = child.kill().and_then(|()| child.wait());
                break Err(format!("loading it did not end within {} s", PATIENCE.as_secs()));
            }
            Err(error) => break Err(format!("the process that loads it cannot be waited for: {error}")),
        }
    };
    let text = |reader: Option<thread::JoinHandle<String>>| reader.and_then(|r| r.join().ok()).unwrap_or_default();
    let (output, errors) = (text(output), text(errors));
    let status = match status {
        Ok(status) => status,
        Err(problem) => return failed(problem),
    };
    let line = output.lines().rev().find_map(|line| line.strip_prefix(MARK));
    match line.map(serde_json::from_str::<Report>) {
        // A library may also crash when the process ends.
        Some(Ok(report)) if status.success() || !report.ok => report,
        _ => failed(format!(
            "{} crashes while it is loaded: {}{}",
            shown_path(path),
            ending(status),
            last_words(&errors)
        )),
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output read before an error is still useful.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Describes how a process ended.
pub(crate) fn ending(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = match signal {
            4 => " (illegal instruction)",
            6 => " (abort)",
            7 => " (bus error)",
            8 => " (arithmetic error)",
            9 => " (killed)",
            11 => " (segmentation fault)",
            _ => "",
        };
        return format!("signal {signal}{name}");
    }
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "it ended without a code".to_owned(),
    }
}

/// The last lines that a crashed process printed.
fn last_words(errors: &str) -> String {
    let lines = errors.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>();
    lines[lines.len().saturating_sub(3)..].iter().map(|line| format!("\n  | {line}")).collect()
}
