//! `hearth plugin list|info|check|new|update|dev|install|header`.

pub mod consent;
mod dev;
mod install;
mod new;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Subcommand;
use hearth_plugin_host::{
    Found, Given, HEADER, Info, Origin, Report, Search, check_for_parent, check_in_child, check_linked, is_allowed,
    serve_isolated, shown_path,
};

use crate::error::{Failure, Outcome};
use crate::{note, out};

/// Arguments of `hearth plugin`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all plugins that are found, and the places that are searched
    List {
        /// A plugin to list first: its library, a folder to search for plugins, or a known name
        #[arg(long = "plugin", value_name = "PATH|NAME")]
        plugins: Vec<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Describe a plugin: its identity, events and options; a library that is not installed is not
    /// loaded, unless --allow-plugin names it
    Info {
        /// The plugin's name, or the path of its library
        plugin: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Load a plugin in a child process, where its code runs, and report the result
    Check {
        /// The plugin's name, or the path of its library
        plugin: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write the crate of a new plugin
    New(new::Args),
    /// Replace the SDK in a plugin's crate with that of this program
    Update(new::UpdateArgs),
    /// Copy a plugin's library into the user's folder, after showing what it may do
    Install(install::Args),
    /// Print hearth_plugin.h, the interface of plugins in C and other languages
    Header,
    /// Build a plugin's crate and run a command with it, again after each change
    Dev(dev::Args),
    /// The child process of `check`
    #[command(hide = true)]
    CheckHere { path: PathBuf },
    /// The separate process of an isolated plugin
    #[command(hide = true)]
    ServeIsolated,
}

impl Args {
    /// Whether this is the process of an isolated plugin, which a rank may have started.
    pub fn serves_a_rank(&self) -> bool {
        matches!(self.action, Action::ServeIsolated)
    }
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::List { plugins, json } => {
            Given::check(plugins)?;
            let list = Search::standard(plugins, &[]).list();
            if *json { out!("{}", serde_json::to_string_pretty(&list)?) } else { out!("{list}") }
        }
        Action::Info { plugin, json } => {
            let info = describe(&found(plugin)?)?;
            if *json { out!("{}", serde_json::to_string_pretty(&info)?) } else { out!("{info}") }
        }
        Action::Check { plugin, json } => {
            let report = match found(plugin)? {
                Found::File { path, .. } => check_apart(&path)?,
                Found::BuiltIn(linked) => check_linked(linked),
            };
            if *json {
                out!("{}", serde_json::to_string_pretty(&report)?);
            } else if report.ok {
                out!("{report}");
            }
            if !report.ok {
                let problem = report.problem.unwrap_or_else(|| "it cannot be loaded".to_owned());
                return Err(Failure::new(problem));
            }
        }
        Action::New(args) => return new::run(args),
        Action::Update(args) => return new::update(args),
        Action::Dev(args) => return dev::run(args),
        Action::Install(args) => return install::run(args),
        Action::Header => out!("{}", HEADER.trim_end()),
        Action::CheckHere { path } => check_for_parent(path),
        Action::ServeIsolated => serve_isolated()?,
    }
    Ok(())
}

/// The file if the argument is a path, otherwise the plugin with this name.
fn found(plugin: &str) -> Outcome<Found> {
    let path = Path::new(plugin);
    if plugin.contains(['/', '\\', '.']) || path.is_file() {
        // Loading it needs consent, as if a recipe named it.
        return Ok(Found::File { path: path.to_owned(), origin: Origin::Recipe });
    }
    Ok(Search::standard(&[], &[]).find(plugin)?)
}

/// Loads the library in a child process.
fn check_apart(path: &Path) -> Outcome<Report> {
    let program = std::env::current_exe()?;
    Ok(check_in_child(Command::new(program).args(["plugin", "check-here"]).arg(path), path))
}

/// Describes a plugin. A library that is not installed is not loaded without the user's consent: then
/// the description is what its file states.
fn describe(found: &Found) -> Outcome<Info> {
    let path = match found {
        Found::BuiltIn(_) => return Ok(Info::of(&found.load()?)),
        Found::File { path, .. } => path,
    };
    let stated = Info::of_file(path)?;
    if !is_allowed(path, &stated.identity) {
        note!("its events and options are known to its code only; to load it: --allow-plugin {}", shown_path(path));
        return Ok(stated);
    }
    let report = check_apart(path)?;
    report.info.ok_or_else(|| Failure::new(report.problem.unwrap_or_else(|| "it cannot be loaded".to_owned())))
}
