//! Packages on the command line: `hearth export RUN MODEL.hearth`, and the description of a package.

use std::path::{Path, PathBuf};

use hearth_data::writers::read_codes;
use hearth_models::ensemble::Merging;
use hearth_models::package::{self, PackageOptions};
use hearth_package::{END, Package, SigningKey, Term};
use hearth_run::outputs::Outputs;
use serde_json::{Value, json};

use crate::error::{Context, Failure, Outcome};
use crate::{note, out};

/// Options of `hearth export` for packages.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options for packages (.hearth)")]
pub struct PackageArgs {
    /// A TOML table of DICOM codes for labels; it takes precedence over the codes found by label names
    #[arg(long, value_name = "FILE")]
    pub codes: Option<PathBuf>,
    /// A file with the text of the licence
    #[arg(long, visible_alias = "license", value_name = "FILE")]
    pub licence: Option<PathBuf>,
    /// A fact about the model: title=..., description=..., author=..., version=..., licence=CC-BY-4.0,
    /// or any other key; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub about: Vec<String>,
    /// Sign the package with this secret key (PEM, Ed25519, as `openssl genpkey -algorithm ed25519`
    /// writes it)
    #[arg(long, value_name = "FILE")]
    pub sign: Option<PathBuf>,
    /// Replace a package of an earlier call that was not changed since
    #[arg(long)]
    pub overwrite: bool,
}

impl PackageArgs {
    /// The first given option; `of_bundle` leaves out those that bundles have, too.
    pub fn given(&self, of_bundle: bool) -> Option<&'static str> {
        let given = [
            ("--codes", self.codes.is_some()),
            // `--licence` also applies to bundles.
            ("--licence", self.licence.is_some() && !of_bundle),
            ("--about", !self.about.is_empty()),
            ("--sign", self.sign.is_some()),
            ("--overwrite", self.overwrite),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    fn options(&self, checkpoint: &str) -> Outcome<PackageOptions> {
        let codes = self.codes.as_ref().map(read_codes).transpose().while_doing(|| "--codes".to_owned())?;
        let key = self.sign.as_deref().map(SigningKey::open).transpose().while_doing(|| "--sign".to_owned())?;
        let about = self.about.iter().map(|text| match text.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
            _ => Err(Failure::new(format!("--about {text}: expected KEY=VALUE, as in author=\"Jane Doe\""))),
        });
        if let Some(path) = self.licence.as_ref().filter(|path| !path.is_file()) {
            return Err(Failure::new(format!("--licence {}: there is no such file", path.display())));
        }
        Ok(PackageOptions {
            checkpoint: checkpoint.to_owned(),
            codes: codes.unwrap_or_default(),
            licence: self.licence.clone(),
            about: about.collect::<Outcome<_>>()?,
            key,
        })
    }
}

/// Writes a package of one model, or of merged runs, and prints its name.
pub fn export(
    models: &[PathBuf],
    merging: Option<&Merging>,
    file: &Path,
    checkpoint: &str,
    args: &PackageArgs,
) -> Outcome {
    if !file.extension().is_some_and(|end| end.eq_ignore_ascii_case(END)) {
        return Err(Failure::new(format!("{}: the name of a package ends with .{END}", file.display())));
    }
    let mut outputs = Outputs::new("export", args.overwrite);
    outputs.claim(file)?;
    let options = args.options(checkpoint)?;
    let names: Vec<String> = models.iter().map(|model| model.display().to_string()).collect();
    let facts = json!({ "model": if names.len() == 1 { json!(names[0]) } else { json!(names) } });
    let written = outputs.make(file, facts, || match (models, merging) {
        ([model], None) => package::write(model, file, &options),
        _ => package::write_ensemble(models, &merging.cloned().unwrap_or_default(), file, &options),
    })?;
    out!("{}", file.display());
    let package = Package::open(file)?;
    let unknown: Vec<&str> = package
        .labels()
        .iter()
        .filter(|label| label.value > 0 && label.term.is_none())
        .map(|label| label.name.as_str())
        .collect();
    if !unknown.is_empty() && package::has_terms(&package) {
        note!("no coded term is known for {}; --codes gives them", unknown.join(", "));
    }
    if package.facts().licence.is_none() && package.licences().next().is_none() {
        note!("the package states no licence: --licence FILE, --about licence=NAME");
    }
    if let Some(key) = written.signed_by {
        note!("signed by the key {key}");
    }
    Ok(())
}

/// Prints the description in a package.
pub fn describe(package: &Package) {
    let (facts, manifest) = (package.facts(), package.manifest());
    let bytes: u64 = manifest.members.values().map(|member| member.bytes).sum();
    out!("{}: {}, {:.1} MB", package.path().display(), facts.title, bytes as f64 / 1e6);
    let line = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            out!("  {name}: {value}");
        }
    };
    line("description", facts.description.as_deref());
    for author in &facts.authors {
        line("author", Some(author));
    }
    line("version", facts.version.as_deref());
    line("licence", facts.licence.as_deref());
    package.licences().for_each(|name| line("licence", Some(name)));
    line("modalities", Some(facts.modalities.join(", ")).as_deref().filter(|text| !text.is_empty()));
    line("checkpoint", facts.checkpoint.as_deref());
    for (name, value) in &facts.metrics {
        line(name, Some(&value.to_string()));
    }
    for (name, value) in &facts.more {
        line(name, Some(value));
    }
    line("written by", Some(&manifest.program));
    line("signed by", Some(manifest.signed_by.as_deref().unwrap_or("no one")));
    for label in package.labels() {
        let [r, g, b] = label.colour;
        let term = label.term.as_ref().map(in_words).unwrap_or_default();
        out!("  {:>4}  #{r:02x}{g:02x}{b:02x}  {}{term}", label.value, label.name);
    }
    for (name, member) in &manifest.members {
        out!("  {}  {:>12}  {name}", member.blake3, member.bytes);
    }
}

fn in_words(term: &Term) -> String {
    let code = |code: &hearth_package::Code| format!("{} ({} {})", code.meaning, code.scheme, code.value);
    let parts = [Some(&term.kind), term.side.as_ref(), term.site.as_ref()];
    format!("  {}", parts.into_iter().flatten().map(code).collect::<Vec<_>>().join(", "))
}

/// Like [`describe`], as JSON.
pub fn facts(package: &Package) -> Outcome<Value> {
    Ok(json!({
        "path": package.path().display().to_string(),
        "manifest": serde_json::to_value(package.manifest())?,
        "metadata": serde_json::to_value(package.facts())?,
        "labels": serde_json::to_value(package.labels())?,
    }))
}
