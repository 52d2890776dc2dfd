//! `hearth plugin install`: copies a library into the user's plugin folder, after showing what it may
//! do.

use std::path::{Path, PathBuf};
use std::process::Command;

use hearth_plugin_host::{
    BUNDLED, Found, Installable, Search, check_in_child, inspect, load_linked, shown_path, user_folder,
};

use super::consent::agreed;
use crate::error::{Failure, Outcome};
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

/// Shows what the library's file states, asks once, loads a copy in a child process, and keeps it.
/// Nothing of the library runs before the answer.
pub fn run(args: &Args) -> Outcome {
    let Args { file, yes, bundled: false } = args else { return bundled() };
    let Some(file) = file else { return Err(Failure::new("give a library, or --bundled")) };
    let folder = user_folder().ok_or_else(|| {
        Failure::new("there is no folder for plugins: HOME is not set; name one in HEARTH_PLUGIN_PATH")
    })?;
    let plugin = Installable::read(file)?;
    out!("{}", plugin.info());
    let name = &plugin.info().identity.name;
    if !yes && !agreed(&format!("install {name} into {}?", folder.display()))? {
        return Err(Failure::new(format!("{name} is not installed; `--yes` installs without a question")));
    }
    let program = std::env::current_exe()?;
    let check = |copy: &Path| check_in_child(Command::new(program).args(["plugin", "check-here"]).arg(copy), copy);
    for installed in plugin.install(&folder, check)? {
        out!("{}", shown_path(&installed));
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
            Found::File { path, .. } => {
                // Its location decides whether it belongs to this program.
                let found = inspect(&path)?;
                out!("{name} {}  {}", found.version, shown_path(&path));
                if found.version != *version {
                    others.push(format!(
                        "{} is of version {}, this program of {version}",
                        shown_path(&path),
                        found.version
                    ));
                }
            }
        }
    }
    others.iter().for_each(|other| note!("{other}; remove the file to use the one that is built in"));
    Ok(())
}
