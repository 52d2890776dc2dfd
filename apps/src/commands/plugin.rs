//! `hearth plugin list|info|check|new`.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Subcommand;
use hearth_plugin_host::{Found, Info, SdkSource, Search, check_for_parent, check_in_child, check_linked, scaffold};

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
        /// A plugin library, or a folder to look for plugins in, before all others
        #[arg(long = "plugin", value_name = "PATH")]
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
    New {
        /// The plugin's name: lower-case letters, digits, dashes
        name: String,
        /// The new folder; by default the plugin's name
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// The folder of the plugin SDK, to build against it instead of the registry's
        #[arg(long, value_name = "DIR")]
        sdk: Option<PathBuf>,
    },
    /// What `check` starts as a child
    #[command(hide = true)]
    CheckHere { path: PathBuf },
}

/// Runs the subcommand.
pub fn run(args: &Args) -> Outcome {
    match &args.action {
        Action::List { plugins, json } => {
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
        Action::New { name, out, sdk } => {
            let folder = out.clone().unwrap_or_else(|| PathBuf::from(name));
            let source = match sdk {
                Some(path) => SdkSource::Path(path.clone()),
                None => sdk_of_the_checkout().map_or_else(SdkSource::default, SdkSource::Path),
            };
            for file in scaffold(&folder, name, &source)? {
                out!("{}", file.display());
            }
            out!("try it:  cd {} && cargo test && cargo build --release", folder.display());
            let file = library_file(name);
            out!("use it:  hearth train RECIPE --plugin {}/target/release/{file} ...", folder.display());
        }
        Action::CheckHere { path } => check_for_parent(path),
    }
    Ok(())
}

/// The SDK in the sources this program was built from, if they still exist: a plugin built against
/// it always fits this program.
fn sdk_of_the_checkout() -> Option<PathBuf> {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("plugins/sdk");
    sdk.join("Cargo.toml").is_file().then_some(sdk)
}

/// Cargo's file name for the library of a crate with this name.
fn library_file(name: &str) -> String {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    format!("{DLL_PREFIX}{}{DLL_SUFFIX}", name.replace('-', "_"))
}

/// The file of a path if it looks like one, otherwise what is found under the name.
fn found(plugin: &str) -> Outcome<Found> {
    let path = Path::new(plugin);
    if plugin.contains(['/', '\\', '.']) || path.is_file() {
        return Ok(Found::File(path.to_owned()));
    }
    Ok(Search::standard(&[], &[]).find(plugin)?)
}
