//! `hearth plugin new` and `hearth plugin update`.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::builder::{PossibleValue, TypedValueParser};
use hearth_plugin_host::{SdkSource, Template, library_file, scaffold, update_sdk, vendor};

use crate::error::{Context, Outcome};
use crate::out;

/// Arguments of `hearth plugin new`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plugin's name: lower-case letters, digits, dashes
    name: String,
    /// The template to start from
    #[arg(long, value_name = "KIND", default_value = Template::default().word(), value_parser = templates())]
    template: Template,
    /// The new folder [default: the plugin's name]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write the sources of all required crates, so that it builds offline (Rust)
    #[arg(long)]
    vendored: bool,
    /// The folder of the plugin SDK to build against, in place of the sources in this program (Rust)
    #[arg(long, value_name = "DIR")]
    sdk: Option<PathBuf>,
}

fn templates() -> impl TypedValueParser<Value = Template> {
    let values = Template::ALL.map(|template| PossibleValue::new(template.word()).help(template.description()));
    PossibleValuesParser::new(values)
        .map(|word| Template::ALL.into_iter().find(|template| template.word() == word).unwrap_or_default())
}

/// Writes the crate.
pub fn run(args: &Args) -> Outcome {
    let Args { name, template, out, vendored, sdk } = args;
    let folder = out.clone().unwrap_or_else(|| PathBuf::from(name));
    let source = sdk.clone().map_or_else(SdkSource::default, SdkSource::Path);
    for file in scaffold(&folder, name, *template, &source)? {
        out!("{}", file.display());
    }
    if !template.is_rust() {
        let file = library_file(name);
        out!("try it:  cd {} && make && hearth plugin check ./{file}", folder.display());
        out!("use it:  hearth train RECIPE --plugin {}/{file} ...", folder.display());
        return Ok(());
    }
    if source == SdkSource::Vendored {
        out!("{}    the SDK of this program", folder.join("sdk").display());
    }
    if *vendored {
        let from = installed_sources();
        let doing = || format!("{} is written, but not the crates that it needs", folder.display());
        vendor(&folder, from.as_deref()).while_doing(doing)?;
        out!("{} every crate that it needs", folder.join("vendor").display());
    }
    out!("try it:  cd {} && cargo test --release && cargo build --release", folder.display());
    let file = library_file(name);
    out!("use it:  hearth train RECIPE --plugin {}/target/release/{file} ...", folder.display());
    Ok(())
}

/// Arguments of `hearth plugin update`.
#[derive(Debug, clap::Args)]
pub struct UpdateArgs {
    /// The folder of the plugin's crate
    #[arg(default_value = ".", value_name = "DIR")]
    folder: PathBuf,
}

/// Replaces the SDK of a crate, and the vendored crates if it has any.
pub fn update(args: &UpdateArgs) -> Outcome {
    let folder = &args.folder;
    for updated in update_sdk(folder)? {
        out!("{}    of this program", updated.display());
    }
    if folder.join("vendor").is_dir() {
        let doing = || format!("{} has the SDK of this program, but not the crates that it needs", folder.display());
        vendor(folder, installed_sources().as_deref()).while_doing(doing)?;
        out!("{} every crate that it needs", folder.join("vendor").display());
    }
    Ok(())
}

/// The sources of the SDK's dependencies in an installation: `PREFIX/share/hearth/sdk/vendor`.
fn installed_sources() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let prefix = program.parent().and_then(Path::parent)?;
    Some(prefix.join("share/hearth/sdk/vendor")).filter(|folder| folder.is_dir())
}
