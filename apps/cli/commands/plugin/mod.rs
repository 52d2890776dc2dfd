//! `hearth plugin list|info|check|new|update|dev|install|header`.

mod dev;
mod install;
mod new;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Subcommand;
use hearth_plugin_host::{
    Found, Given, HEADER, Info, Search, check_for_parent, check_in_child, check_linked, serve_isolated,
};

use crate::error::{Failure, Outcome};
use crate::out;

/// Arguments of `hearth plugin`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List every plugin found, and the searched places
    List {
        /// A plugin: its library, a folder to look for plugins in, before all others, or a known name
        #[arg(long = "plugin", value_name = "PATH|NAME")]
        plugins: Vec<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Describe a plugin: its identity, events and options
    Info {
        /// The plugin's name, or the path of its library
        plugin: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Load a plugin in a child process and report the result
    Check {
        /// The plugin's name, or the path of its library
        plugin: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write the crate of a new plugin
    New(new::Args),
    /// Replace the SDK in a plugin's crate by that of this program
    Update(new::UpdateArgs),
    /// Copy a plugin's library into the user's folder, after a look at what it may do
    Install(install::Args),
    /// Print hearth_plugin.h, the interface of plugins in C and other languages
    Header,
    /// Build a plugin's crate and run a command with it, again after each change
    Dev(dev::Args),
    /// What `check` starts as a child
    #[command(hide = true)]
    CheckHere { path: PathBuf },
    /// What a run starts for a plugin in a process of its own
    #[command(hide = true)]
    ServeIsolated,
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
            let info = Info::of(&found(plugin)?.load()?);
            if *json { out!("{}", serde_json::to_string_pretty(&info)?) } else { out!("{info}") }
        }
        Action::Check { plugin, json } => {
            let report = match found(plugin)? {
                Found::File(path) => {
                    let program = std::env::current_exe()?;
                    check_in_child(Command::new(program).args(["plugin", "check-here"]).arg(&path), &path)
                }
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

/// The file of a path if it looks like one, otherwise what is found under the name.
fn found(plugin: &str) -> Outcome<Found> {
    let path = Path::new(plugin);
    if plugin.contains(['/', '\\', '.']) || path.is_file() {
        return Ok(Found::File(path.to_owned()));
    }
    Ok(Search::standard(&[], &[]).find(plugin)?)
}
