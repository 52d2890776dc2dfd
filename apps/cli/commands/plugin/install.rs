//! `hearth plugin install`: copies a library into the user's plugin folder, after showing what it may
//! do.

use std::fs;
use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_plugin_host::{BUNDLED, Found, Search, check_in_child, inspect, load_linked, user_folder};

use crate::error::{Context, Failure, Outcome};
use crate::{note, out};

/// Arguments of `hearth plugin install`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plugin's library
    #[arg(value_name = "FILE", required_unless_present = "bundled")]
    file: Option<PathBuf>,
    /// Install without asking
    #[arg(long)]
    yes: bool,
    /// Report which copy of each of the five bundled plugins is used; they are built into this program,
    /// so nothing is copied
    #[arg(long, conflicts_with = "file")]
    bundled: bool,
}

/// Checks the library in a child process, asks once, and copies it.
pub fn run(args: &Args) -> Outcome {
    let Args { file, yes, bundled: false } = args else { return bundled() };
    let Some(file) = file else { return Err(Failure::new("give a library, or --bundled")) };
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

/// Reports which copy of each bundled plugin is used. They are not copied: a copy in the user's folder
/// would become outdated when the program is replaced.
fn bundled() -> Outcome {
    let search = Search::standard(&[], &[]);
    let mut others = Vec::new();
    for linked in BUNDLED {
        let built_in = load_linked(linked)?;
        let (name, version) = (&built_in.identity().name, &built_in.identity().version);
        match search.find(name)? {
            Found::BuiltIn(_) => out!("{name} {version}  built into this program: nothing is to be installed"),
            Found::File(path) => {
                // Its location decides whether it belongs to this program.
                let found = inspect(&path)?;
                out!("{name} {}  {}", found.version, path.display());
                if found.version != *version {
                    others.push(format!(
                        "{} is of version {}, this program of {version}",
                        path.display(),
                        found.version
                    ));
                }
            }
        }
    }
    others.iter().for_each(|other| note!("{other}; remove the file to use the one that is built in"));
    Ok(())
}

/// Asks at a terminal; without one, the answer is no.
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

/// The modules of a Python plugin: `NAME.py` next to `libNAME.so`, and the one that it imports.
fn beside(file: &Path) -> Vec<PathBuf> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let name = stem.strip_prefix(std::env::consts::DLL_PREFIX).unwrap_or(stem);
    let module = file.with_file_name(format!("{name}.py"));
    let all = [module.clone(), file.with_file_name("hearth_plugin.py")];
    if module.is_file() { all.into_iter().filter(|path| path.is_file()).collect() } else { Vec::new() }
}

/// Copies to a temporary name first, so that a program that has opened the old library keeps it.
fn copy(source: &Path, target: &Path) -> std::io::Result<()> {
    let temporary = target.with_extension("installing");
    fs::copy(source, &temporary)?;
    fs::rename(&temporary, target)
}
