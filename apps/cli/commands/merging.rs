//! Command-line options for merging the predictions of several runs.

use std::path::{Path, PathBuf};

use hearth_nn::networks::Network;
use serde_json::Value;

use crate::commands::folds::VALIDATION;
use crate::error::{Context, Failure, Outcome};
use crate::note;
use hearth_models::ensemble::{Disagreement, Merge, Merging};
use hearth_models::run::{Opening, Trained};
use hearth_train::is_free;

/// The values that are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MeanOf {
    /// The networks' outputs (logits), as in MONAI's notebook
    Logits,
    /// Their softmax or sigmoid
    Probabilities,
}

/// A map of how much the runs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DisagreementWord {
    /// Entropy of the runs' mean probability, in nats
    Entropy,
    /// Variance of the runs' probabilities
    Variance,
}

/// How the predictions of several runs are merged.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MergeArgs {
    /// Merge by the mean of the runs' logits (the default), or of their probabilities
    #[arg(long, value_enum, value_name = "OF", num_args = 0..=1, require_equals = true,
        default_missing_value = "logits", group = "merged")]
    pub mean: Option<MeanOf>,
    /// Merge by vote: the class that most runs predict, the lowest one in a tie; for regions, where
    /// more than half of the runs agree
    #[arg(long, group = "merged")]
    pub vote: bool,
    /// Merge by STAPLE: the hidden true segmentation that best explains the runs' predictions
    #[arg(long, group = "merged")]
    pub staple: bool,
    /// Weights of a mean: one for each run (0.95,0.94), one for each run and class (1:0.9,1:0.8),
    /// `dice` (the validation Dice of each run) or `class-dice` (of each class, for folds)
    #[arg(long, value_name = "WEIGHTS", allow_hyphen_values = true, conflicts_with_all = ["vote", "staple"])]
    pub weights: Option<String>,
}

impl MergeArgs {
    /// Whether any merging option was given.
    pub fn given(&self) -> bool {
        self.mean.is_some() || self.vote || self.staple || self.weights.is_some()
    }

    fn how(&self) -> Merge {
        match (self.mean, self.vote, self.staple) {
            (_, true, _) => Merge::Vote,
            (_, _, true) => Merge::Staple,
            (Some(MeanOf::Probabilities), ..) => Merge::Probabilities,
            _ => Merge::Logits,
        }
    }

    /// The merging method as text.
    pub fn words(&self) -> String {
        let how = match self.how() {
            Merge::Logits => "mean of logits",
            Merge::Probabilities => "mean of probabilities",
            Merge::Vote => "majority vote",
            Merge::Staple => "STAPLE",
        };
        self.weights.as_ref().map_or_else(|| how.to_owned(), |weights| format!("{how}, weights {weights}"))
    }
}

/// The runs that the arguments name: a folder of folds counts as all its folds.
pub fn runs(given: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut runs = Vec::new();
    for path in given {
        let folds = if path.join("recipe.toml").is_file() { Vec::new() } else { folds_in(path)? };
        let listed = read(&path.join("folds.json")).and_then(|list| Some(list["folds"].as_array()?.len()));
        if let Some(listed) = listed.filter(|listed| *listed > folds.len()) {
            note!("warning: {} has {} of its {listed} folds; the others are not merged", path.display(), folds.len());
        }
        match folds.is_empty() {
            true => runs.push(path.clone()),
            false => runs.extend(folds),
        }
    }
    match hearth_files::named_twice(&runs) {
        Some(run) => Err(Failure::new(format!("{} is given twice", run.display()))),
        None => Ok(runs),
    }
}

/// The runs fold0, fold1, ... in a folder, ordered by number. A fold whose training has not begun is
/// none yet.
fn folds_in(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("fold")?.parse::<usize>().ok();
    let mut folds: Vec<(usize, PathBuf)> = listed
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && !is_free(path).unwrap_or(false))
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    folds.sort_unstable();
    let folds: Vec<PathBuf> = folds.into_iter().map(|(_, path)| path).collect();
    // Without its recipe a fold is damaged, and the others alone are another ensemble.
    let damaged = folds.iter().find(|fold| !fold.join("recipe.toml").is_file());
    match damaged.filter(|_| folds.iter().any(|fold| fold.join("recipe.toml").is_file())) {
        Some(fold) => {
            let what = "is a fold without recipe.toml: restore it, or give the folds to merge one by one";
            Err(Failure::new(format!("{} {what}", fold.display())))
        }
        None => Ok(folds.into_iter().filter(|fold| fold.join("recipe.toml").is_file()).collect()),
    }
}

/// Opens runs, and merges them into one model.
pub fn open(
    runs: &[PathBuf],
    opening: &Opening<'_>,
    merge: &MergeArgs,
    disagreement: &[DisagreementWord],
) -> Outcome<Trained> {
    let mut opened = Vec::with_capacity(runs.len());
    for run in runs {
        let doing = || run.display().to_string();
        let trained = Trained::open_path(run, opening.clone()).while_doing(doing)?;
        if trained.plan.recipe.learns().generates() {
            return Err(Failure::new(format!("{} generates images, which are not merged", run.display())));
        }
        opened.push((run.display().to_string(), trained));
    }
    let (labels, channels) = match opened.first() {
        Some((_, first)) => (first.plan.recipe.labels.clone(), first.network.channels()[1]),
        None => return Err(Failure::new("an ensemble needs at least one run")),
    };
    let measured = matches!(merge.weights.as_deref(), Some("dice" | "class-dice"));
    if measured && opening.checkpoint != "best" {
        let (words, asked) = (merge.weights.as_deref().unwrap_or_default(), opening.checkpoint);
        let what = "is the Dice of the best checkpoints, not of those of";
        return Err(Failure::new(format!("--weights {words} {what} --checkpoint {asked}: give numbers")));
    }
    let weights = merge.weights.as_deref().map(|words| weights(words, runs, &labels, channels)).transpose()?;
    let maps = disagreement.iter().map(|word| match word {
        DisagreementWord::Entropy => Disagreement::Entropy,
        DisagreementWord::Variance => Disagreement::Variance,
    });
    let mut merging = Merging::default();
    (merging.how, merging.weights, merging.maps) = (merge.how(), weights, maps.collect());
    Ok(Trained::merged(opened, merging)?)
}

/// Parses `--weights`: the weights, run by run.
fn weights(words: &str, runs: &[PathBuf], labels: &[String], channels: usize) -> Outcome<Vec<f64>> {
    match words {
        "dice" => runs.iter().map(|run| dice(run)).collect(),
        "class-dice" => {
            let each = runs.iter().map(|run| class_dice(run, labels)).collect::<Outcome<Vec<_>>>()?;
            Ok(each.concat())
        }
        list => {
            let number = |word: &str| {
                word.trim().parse::<f64>().map_err(|_| {
                    let known = "numbers with commas (and colons between classes), `dice` or `class-dice`";
                    Failure::new(format!("--weights {words}: {word:?} is not a number; give {known}"))
                })
            };
            let each: Vec<Vec<f64>> =
                list.split(',').map(|run| run.split(':').map(number).collect()).collect::<Outcome<_>>()?;
            let (count, of_each) = (runs.len(), each.first().map_or(0, Vec::len));
            if each.len() != count || each.iter().any(|one| one.len() != of_each) || ![1, channels].contains(&of_each) {
                return Err(Failure::new(format!(
                    "--weights {words}: there are {count} runs of {channels} classes; give a weight for each run \
                     (1,2), or for each class of each run (1:2,1:1)"
                )));
            }
            Ok(each.concat())
        }
    }
}

fn read(path: &Path) -> Option<Value> {
    serde_json::from_str(&hearth_files::read_to_string(path).ok()?).ok()
}

/// The validation Dice of a run.
fn dice(run: &Path) -> Outcome<f64> {
    let folds = read(&run.join(VALIDATION)).and_then(|found| found["mean_dice"].as_f64());
    let best = || {
        let summary = read(&run.join("summary.json"))?;
        let named = summary["key_metric"].as_str()?.to_lowercase();
        summary["best_metric"].as_f64().filter(|_| named.contains("dice"))
    };
    folds.or_else(best).ok_or_else(|| {
        let what = "has no validation Dice: it did not validate, or its key metric is another one";
        Failure::new(format!("--weights dice: {} {what}; give numbers", run.display()))
    })
}

/// The validation Dice of each class of a fold; for a background that is not measured, the mean.
fn class_dice(run: &Path, labels: &[String]) -> Outcome<Vec<f64>> {
    let found = read(&run.join(VALIDATION)).unwrap_or_default();
    let mean = found["mean_dice"].as_f64();
    let of = |label: &String| {
        found["per_class"][label].as_f64().or(mean.filter(|_| found["per_class"].get(label).is_none()))
    };
    labels.iter().map(of).collect::<Option<Vec<f64>>>().ok_or_else(|| {
        let what = "has no Dice of each class in validation.json, which `hearth train --folds` writes";
        Failure::new(format!("--weights class-dice: {} {what}; give numbers", run.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_numbers_for_runs_or_for_their_classes() {
        let runs = [PathBuf::from("a"), PathBuf::from("b")];
        let labels = ["x".to_owned(), "y".to_owned()];
        let read = |words: &str| weights(words, &runs, &labels, 2);
        assert_eq!(read("0.95, 0.9").ok(), Some(vec![0.95, 0.9]));
        assert_eq!(read("1:2,3:4").ok(), Some(vec![1.0, 2.0, 3.0, 4.0]));
        for (words, said) in [
            ("1", "2 runs"),
            ("1,x", "\"x\" is not a number"),
            ("1:2,3", "each class of each run"),
            ("1:2:3,1:2:3", "each class of each run"),
            ("dice", "a has no validation Dice"),
            ("class-dice", "validation.json"),
        ] {
            let text = read(words).err().map(|failure| failure.line()).unwrap_or_default();
            assert!(text.contains(said), "{words}: {text}");
        }
    }

    #[test]
    fn a_folder_of_folds_is_all_of_them_in_order() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["fold10", "fold2", "fold0", "folds", "other"] {
            let run = dir.path().join(name);
            std::fs::create_dir(&run).expect("made");
            std::fs::write(run.join("recipe.toml"), "").expect("written");
        }
        let found = runs(&[dir.path().to_owned()]).ok().expect("runs");
        assert_eq!(found, ["fold0", "fold2", "fold10"].map(|name| dir.path().join(name)));
        // A fold without checkpoints is skipped; one that lost its recipe is damaged.
        std::fs::create_dir_all(dir.path().join("fold3/checkpoints")).expect("made");
        assert_eq!(runs(&[dir.path().to_owned()]).ok().map(|found| found.len()), Some(3));
        std::fs::write(dir.path().join("fold3/metrics.csv"), "").expect("written");
        let damaged = runs(&[dir.path().to_owned()]).expect_err("refused").line();
        assert!(damaged.contains("fold3 is a fold without recipe.toml"), "{damaged}");
        std::fs::remove_dir_all(dir.path().join("fold3")).expect("removed");
        let twice = runs(&[dir.path().to_owned(), dir.path().join("fold2")]).expect_err("refused").line();
        assert!(twice.contains("fold2 is given twice"), "{twice}");
    }
}
