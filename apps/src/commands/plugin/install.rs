//! `hearth plugin install`: a library into the user's folder of plugins, after a look at what it may do.

use std::fs;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_plugin_host::{check_in_child, user_folder};

use crate::error::{Context, Failure, Outcome};
use crate::out;

/// Arguments of `hearth plugin install`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The library
    file: PathBuf,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Checks the library in a child process, asks once, and copies it.
pub fn run(args: &Args) -> Outcome {
    let Args { file, yes } = args;
    let folder = user_folder().ok_or_else(|| {
        Failure::new("there is no folder for plugins: HOME is not set; name one in HEARTH_PLUGIN_PATH")
    })?;
    let program = std::env::current_exe()?;
    let report = check_in_child(Command::new(program).args(["plugin", "check-here"]).arg(file), file);
    let Some(info) = report.info.filter(|_| report.ok) else {
        return Err(Failure::new(report.problem.unwrap_or_else(|| "it cannot be loaded".to_owned())));
    };
    out!("{info}");
    let name = &info.identity.name;
    if !yes && !agreed(name, &folder)? {
        return Err(Failure::new(format!("{name} is not installed; `--yes` installs without a question")));
    }
    fs::create_dir_all(&folder).while_doing(|| format!("cannot make {}", folder.display()))?;
    for source in std::iter::once(file.clone()).chain(beside(file)) {
        let target = folder.join(source.file_name().unwrap_or_default());
        copy(&source, &target).while_doing(|| format!("cannot copy {} to {}", source.display(), target.display()))?;
        out!("{}", target.display());
    }
    Ok(())
}

/// Asks at a terminal; elsewhere nobody can agree.
fn agreed(name: &str, folder: &Path) -> Outcome<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut error = std::io::stderr();
    write!(error, "install {name} into {}? [y/N] ", folder.display())?;
    error.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

/// The modules of a plugin in Python: `NAME.py` beside `libNAME.so`, and the one that it imports.
fn beside(file: &Path) -> Vec<PathBuf> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = stem.strip_prefix(std::env::consts::DLL_PREFIX).unwrap_or(stem);
    let module = file.with_file_name(format!("{name}.py"));
    let all = [module.clone(), file.with_file_name("hearth_plugin.py")];
    if module.is_file() { all.into_iter().filter(|path| path.is_file()).collect() } else { Vec::new() }
}

/// Copies to a temporary name first: a program that has the old library open keeps it.
fn copy(source: &Path, target: &Path) -> std::io::Result<()> {
    let temporary = target.with_extension("installing");
    fs::copy(source, &temporary)?;
    fs::rename(&temporary, target)
}
