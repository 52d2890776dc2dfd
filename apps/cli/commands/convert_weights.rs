//! `hearth convert` for weights: from PyTorch and MONAI to safetensors, and from a run to a file that
//! PyTorch loads.

use std::path::Path;

use hearth_nn::networks::Network;
use hearth_nn::pytorch::{OpenOptions, Rule, StateDict};
use hearth_nn::weights::{self, Report};
use serde_json::json;

use super::network::Chosen;
use crate::error::{Context, Failure, Outcome};
use crate::folders;
use crate::run::checkpoint_file;
use crate::{note, out};

/// Options of `hearth convert` for weights.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Weights")]
pub struct WeightOptions {
    /// The dictionary within the file that holds the weights, such as state_dict or model.state_dict
    /// [default: detected]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Rename keys: a regular expression and its replacement, $1 for its first group; may be given
    /// several times
    #[arg(long = "map", value_name = "FROM=TO")]
    maps: Vec<String>,
    /// Compare the keys with those of this network (`hearth models list`)
    #[arg(long, value_name = "NAME", conflicts_with = "recipe")]
    network: Option<String>,
    /// Compare the keys with those of a recipe's network
    #[arg(long, value_name = "RECIPE")]
    recipe: Option<String>,
    /// A parameter of the network, such as out_channels=3: added to the example of --network, or to the
    /// network of --recipe
    #[arg(long = "config", value_name = "KEY=VALUE")]
    changes: Vec<String>,
    /// Write the weights that fit the network even if keys are missing, unexpected or of another shape
    #[arg(long)]
    partial: bool,
    /// A run's checkpoint: best, latest, or the name of a folder in RUN/checkpoints [default: best]
    #[arg(long)]
    checkpoint: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The weights to write, and what to report about them.
struct Weights {
    bytes: Vec<u8>,
    found_at: String,
    passed_over: Vec<String>,
}

/// Whether a file or folder holds weights, judged by its name and content.
pub fn are_weights(input: &Path, output: &Path) -> bool {
    let ends = |path: &Path, ends: &[&str]| {
        let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
        end.is_some_and(|end| ends.contains(&end.as_str()))
    };
    ends(output, &["safetensors"])
        || ends(input, &["pt", "pth", "ckpt", "safetensors", "zip"])
        || ["recipe.toml", "configs", "models"].iter().any(|part| input.join(part).exists())
}

/// The input, the output and the options.
struct Args<'a> {
    input: &'a Path,
    output: &'a Path,
    options: &'a WeightOptions,
}

impl std::ops::Deref for Args<'_> {
    type Target = WeightOptions;

    fn deref(&self) -> &WeightOptions {
        self.options
    }
}

impl WeightOptions {
    /// The first given option that does not apply to images.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--key", self.key.is_some()),
            ("--map", !self.maps.is_empty()),
            ("--network", self.network.is_some()),
            ("--recipe", self.recipe.is_some()),
            ("--config", !self.changes.is_empty()),
            ("--partial", self.partial),
            ("--checkpoint", self.checkpoint.is_some()),
            ("--json", self.json),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }
}

/// Reads, renames, compares and writes the weights.
pub fn run(input: &Path, output: &Path, options: &WeightOptions) -> Outcome {
    let args = &Args { input, output, options };
    if args.output.symlink_metadata().is_ok() {
        let advice = "remove it, or give another name";
        return Err(Failure::new(format!("{} exists already; {advice}", args.output.display())));
    }
    if args.output.extension().is_none_or(|end| end != "safetensors") {
        let advice = "the output is safetensors, which PyTorch loads with safetensors.torch.load_file";
        return Err(Failure::new(format!("{}: the name must end in .safetensors; {advice}", args.output.display())));
    }
    if !args.changes.is_empty() && args.network.is_none() && args.recipe.is_none() {
        return Err(Failure::new("--config changes a network; give --network or --recipe as well"));
    }
    let rules = args.maps.iter().map(|rule| Ok(rule.parse::<Rule>()?)).collect::<Outcome<Vec<Rule>>>()?;
    let weights = args.read(&rules)?;
    let report = args.compare(&weights)?;
    let (bytes, report) = match report {
        Some((bytes, report)) => (bytes, Some(report)),
        None => (weights.bytes, None),
    };
    folders::replace(args.output, &bytes)?;
    let file = weights::summary(&bytes)?;
    let (tensors, numbers) = (file.tensors, file.numbers);
    if args.json {
        let compared = report.as_ref().map(|report| {
            json!({ "loaded": report.loaded, "missing": report.missing, "unexpected": report.unexpected, "misfits": report.misfits })
        });
        let whole = json!({
            "out": args.output.display().to_string(), "tensors": tensors, "numbers": numbers, "found_at": weights.found_at,
            "passed_over": weights.passed_over, "network": compared,
        });
        out!("{}", serde_json::to_string_pretty(&whole)?);
    } else {
        let fits = match &report {
            Some(report) if report.is_complete() => ", every key of the network".to_owned(),
            Some(report) => format!(", {} keys of the network; the others keep their first weights", report.loaded),
            None => String::new(),
        };
        let numbers = crate::terminal::thousands(numbers);
        out!("{}  {tensors} tensors of {numbers} numbers{fits}", args.output.display());
    }
    Ok(())
}

impl Args<'_> {
    fn read(&self, rules: &[Rule]) -> Outcome<Weights> {
        let input = self.input;
        if !input.exists() {
            return Err(Failure::new(format!("{}: no such file or folder", input.display())));
        }
        let bytes = if input.join("recipe.toml").is_file() {
            let folder = folders::open_run(input)?;
            let (name, bytes) = checkpoint_file(&folder, self.checkpoint.as_deref().unwrap_or("best"))?;
            note!("checkpoint {name}");
            bytes
        } else if input.extension().is_some_and(|end| end == "safetensors") {
            hearth_files::read(input).while_doing(|| format!("cannot read {}", input.display()))?
        } else {
            return self.read_pytorch(rules);
        };
        if self.key.is_some() {
            return Err(Failure::new("--key is for files of PyTorch; safetensors have no nested dictionaries"));
        }
        let (bytes, changed) = weights::rename(&bytes, rules).while_doing(|| input.display().to_string())?;
        told(rules, &changed);
        Ok(Weights { bytes, found_at: String::new(), passed_over: Vec::new() })
    }

    fn read_pytorch(&self, rules: &[Rule]) -> Outcome<Weights> {
        let input = self.input;
        note!("{} is a pickle, a program for Python: it is parsed, and nothing in it is executed", input.display());
        let mut state = StateDict::open(input, &OpenOptions { key: self.key.clone() })?;
        let changed = state.rename(rules)?;
        told(rules, &changed);
        if !state.found_at.is_empty() {
            note!("the weights are those under {}", state.found_at);
        }
        if !state.prefix.is_empty() {
            note!("{} was removed from the front of every key", state.prefix);
        }
        if !state.passed_over.is_empty() {
            note!("skipped, in addition to the weights: {}", state.passed_over.join(", "));
        }
        Ok(Weights {
            bytes: state.to_bytes()?,
            found_at: state.found_at.clone(),
            passed_over: state.passed_over.clone(),
        })
    }

    /// Loads the weights into the given network: returns its file, and how they match. `None` without a
    /// network.
    fn compare(&self, weights: &Weights) -> Outcome<Option<(Vec<u8>, Report)>> {
        let chosen = match (&self.network, &self.recipe) {
            (Some(name), _) => Chosen::by_name(name, &self.changes)?,
            (None, Some(recipe)) => Chosen::by_recipe(recipe, &self.changes)?,
            (None, None) => return Ok(None),
        };
        let (net, report) = weights::import_partial(chosen.build()?, &weights.bytes)?;
        if !report.is_complete() && !self.partial {
            let advice = match common_prefix(&report) {
                Some(prefix) => format!("the file's keys have {prefix} in front: try --map '^{}='", escaped(&prefix)),
                None => "rename keys with --map, change the network with --config, or write what fits with --partial"
                    .to_owned(),
            };
            let name = self.input.display();
            return Err(Failure::new(format!("{name} does not fit {}; {advice}\n{report}", net.name())));
        }
        Ok(Some((weights::to_bytes(&net)?, report)))
    }
}

/// Reports rules that renamed no key.
fn told(rules: &[Rule], changed: &[usize]) {
    for (rule, _) in rules.iter().zip(changed).filter(|(_, changed)| **changed == 0) {
        note!("--map '{rule}' changed no key");
    }
}

/// A prefix of the file's keys that is missing in the network's keys: usually the name of a module that
/// contained the network.
fn common_prefix(report: &Report) -> Option<String> {
    let first = report.missing.first()?;
    let prefix = report.unexpected.iter().find_map(|key| key.strip_suffix(first.as_str()))?;
    let with = |key: &String| report.unexpected.iter().any(|other| other.strip_prefix(prefix) == Some(key.as_str()));
    (prefix.ends_with('.') && report.missing.iter().all(with)).then(|| prefix.to_owned())
}

/// A prefix as a regular expression.
fn escaped(prefix: &str) -> String {
    prefix.replace('.', "[.]")
}
