//! `hearth plugin dev`: builds a plugin's crate, or its Makefile, and runs a command with it; repeats
//! this after each change.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use crate::error::{Failure, Outcome};
use crate::note;

/// Arguments of `hearth plugin dev`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of the plugin's crate
    #[arg(default_value = ".", value_name = "DIR")]
    folder: PathBuf,
    /// Build and run once, and exit with the exit code of the run
    #[arg(long)]
    once: bool,
    /// The hearth command to run with the plugin: `-- train RECIPE --data DIR --out RUN`, where an n in
    /// braces becomes the number of the run [default: `plugin check`]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The file extensions of sources.
const SOURCES: [&str; 6] = ["rs", "toml", "c", "cpp", "h", "py"];

/// Stands in the command for the number of the run.
const NUMBER: &str = "{n}";

/// The interval between checks for changes.
const EVERY: Duration = Duration::from_millis(200);

/// Builds and runs, until Ctrl-C.
pub fn run(args: &Args) -> Outcome {
    let manifest = args.folder.join("Cargo.toml");
    if !manifest.is_file() && !args.folder.join("Makefile").is_file() {
        let what = format!("{}: there is no such file", manifest.display());
        return Err(Failure::new(format!("{what}; `hearth plugin new NAME` writes the crate of a plugin")));
    }
    let mut number = 0;
    loop {
        let state = state(&args.folder);
        let built = build(&args.folder);
        let mut child = match built {
            Ok(library) => {
                number = free_number(&args.command, number + 1);
                Some(start(args, &library, number)?)
            }
            // Cargo has printed the error.
            Err(failure) if args.once => return Err(failure),
            Err(failure) => {
                note!("{}", failure.line());
                None
            }
        };
        if args.once {
            let status = child.as_mut().map(Child::wait).transpose()?;
            return match status.and_then(|status| status.code()) {
                Some(0) => Ok(()),
                code => Err(Failure::new(format!("the command ended with {code:?}").replace("Some", "exit code "))),
            };
        }
        watch(&args.folder, &state, child.as_mut())?;
        note!("changed: building again");
        if let Some(child) = &mut child {
            // The command may have just ended.
            let _ = child.kill();
            child.wait()?;
        }
    }
}

/// Runs Make, and returns the library that the Makefile names as `LIBRARY`.
fn make(folder: &Path) -> Outcome<PathBuf> {
    let file = folder.join("Makefile");
    let text = hearth_files::read_to_string(&file)?;
    let named = text.lines().find_map(|line| line.strip_prefix("LIBRARY = "));
    let library = named.ok_or_else(|| Failure::new(format!("{}: no line says `LIBRARY = FILE`", file.display())))?;
    let status = Command::new("make").current_dir(folder).stdout(std::io::stderr()).status();
    let status = status.map_err(|error| Failure::new(format!("make cannot be started: {error}; install it")))?;
    if !status.success() {
        return Err(Failure::new(format!("{} is not built", folder.display())));
    }
    Ok(folder.join(library.trim()).canonicalize()?)
}

/// Runs Cargo, and returns the library that it reports.
fn build(folder: &Path) -> Outcome<PathBuf> {
    if !folder.join("Cargo.toml").is_file() {
        return make(folder);
    }
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["build", "--release", "--lib", "--message-format=json-render-diagnostics"];
    let mut child = Command::new(&program)
        .args(arguments)
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::new(format!("{} cannot be started: {error}", Path::new(&program).display())))?;
    let mut made = None;
    let output = child.stdout.take().map(BufReader::new);
    for line in output.into_iter().flat_map(BufRead::lines) {
        made = library_in(&line?).or(made);
    }
    match (child.wait()?.success(), made) {
        (true, Some(library)) => Ok(library),
        (true, None) => Err(Failure::new("the crate has no library of `crate-type = [\"cdylib\"]`")),
        (false, _) => Err(Failure::new(format!("{} is not built", folder.display()))),
    }
}

/// The shared library in one of Cargo's messages.
fn library_in(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_library = message["target"]["kind"].as_array()?.iter().any(|kind| kind == "cdylib");
    let files = message["filenames"].as_array().filter(|_| is_library)?;
    let suffix = std::env::consts::DLL_SUFFIX;
    files.iter().filter_map(serde_json::Value::as_str).find(|file| file.ends_with(suffix)).map(PathBuf::from)
}

/// The first number from `number` on for which no path of the command exists yet: runs of earlier calls
/// keep theirs.
fn free_number(command: &[String], mut number: usize) -> usize {
    let exists = |word: &String, number: usize| {
        // `--out=runs/{n}`
        let path = word.split_once('=').filter(|_| word.starts_with("--")).map_or(word.as_str(), |(_, path)| path);
        word.contains(NUMBER) && Path::new(&path.replace(NUMBER, &number.to_string())).exists()
    };
    while command.iter().any(|word| exists(word, number)) {
        number += 1;
    }
    number
}

fn start(args: &Args, library: &Path, number: usize) -> Outcome<Child> {
    let mut arguments: Vec<OsString> =
        args.command.iter().map(|word| word.replace(NUMBER, &number.to_string()).into()).collect();
    if arguments.is_empty() {
        arguments.extend(["plugin", "check"].map(OsString::from));
    } else {
        arguments.push("--plugin".into());
    }
    arguments.push(library.into());
    let shown: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    note!("hearth {}", shown.join(" "));
    Ok(Command::new(std::env::current_exe()?).args(arguments).spawn()?)
}

/// The files that the build of a crate reads, with their times and sizes.
fn state(folder: &Path) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
    let mut files = Vec::new();
    gather(folder, &mut files);
    files.sort_unstable();
    files
}

fn gather(folder: &Path, files: &mut Vec<(PathBuf, Option<SystemTime>, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let Ok(about) = entry.metadata() else { continue };
        if about.is_dir() {
            let skipped =
                name.to_string_lossy().starts_with('.') || ["target", "vendor"].iter().any(|dir| name == *dir);
            if !skipped {
                gather(&path, files);
            }
        } else if SOURCES.iter().any(|end| path.extension().is_some_and(|found| found == *end)) || name == "Makefile" {
            files.push((path, about.modified().ok(), about.len()));
        }
    }
}

/// Waits for a change, and reports once how the run ended.
fn watch(folder: &Path, before: &[(PathBuf, Option<SystemTime>, u64)], mut child: Option<&mut Child>) -> Outcome {
    loop {
        if let Some(running) = &mut child
            && let Some(status) = running.try_wait()?
        {
            note!("ended with {status}; waiting for a change in {}", folder.display());
            child = None;
        }
        if state(folder) != before {
            return Ok(());
        }
        sleep(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_earlier_runs_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let command = |prefix: &str| vec![format!("{prefix}{}/run{NUMBER}", folder.path().display())];
        assert_eq!(free_number(&command(""), 1), 1);
        fs::create_dir(folder.path().join("run1")).expect("a folder");
        fs::create_dir(folder.path().join("run2")).expect("a folder");
        assert_eq!(free_number(&command(""), 1), 3);
        assert_eq!(free_number(&command("--out="), 2), 3);
        assert_eq!(free_number(&["train".to_owned()], 1), 1);
    }
}
