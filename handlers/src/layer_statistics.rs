//! Statistics of each layer's weights and gradients during a run: [`LayerStatisticsLog`].

use std::path::{Path, PathBuf};

use derive_setters::Setters;
use hearth_engine::{
    Context, Event, Handler, HandlerError, LayerStatistics, LayerValues, Level, OnError, Ranks, State, When,
};
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event_file::Curves;
use crate::text_file::{append, csv_line, read, replace, whole_lines};

/// Options of [`LayerStatisticsLog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct LayerStatisticsOptions {
    /// Iterations between two readings; 1 or more. Each reading visits all weights and waits for
    /// the device.
    pub every: u64,
    /// Whether to record the weights, after the step.
    pub weights: bool,
    /// Whether to record the gradients of the batch, before they are clipped. An evaluator has
    /// none.
    pub gradients: bool,
    /// CSV file with a row for each layer; empty for none.
    #[setters(into)]
    pub csv: PathBuf,
    /// Folder of the event files, for curves of mean and standard deviation; empty for none.
    #[setters(into)]
    pub tensorboard: PathBuf,
}

impl Default for LayerStatisticsOptions {
    fn default() -> Self {
        let (csv, tensorboard) = ("layers.csv".into(), "tensorboard".into());
        Self { every: 100, weights: true, gradients: true, csv, tensorboard }
    }
}

/// Writes mean, standard deviation, minimum, maximum and the number of non-finite values of each
/// layer's weights and gradients. They show which layers have vanishing or exploding gradients.
///
/// A warning lists layers with non-finite values, each layer once. A resumed run continues the same
/// files; rows of iterations that are repeated are dropped first.
///
/// ```
/// # use hearth_engine::LayerStatistics;
/// # use hearth_handlers::{LayerStatisticsLog, LayerStatisticsOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// # let folder = tempfile::tempdir()?;
/// # let name = "conv.weight".to_owned();
/// # let (mean, std, min, max) = (0.0, 0.5, -1.0, 1.0);
/// let options = LayerStatisticsOptions::default().every(2).gradients(false).csv("layers.csv");
/// let mut run = Rehearsal::new(LayerStatisticsLog::new(options, folder.path())?);
/// let layer = LayerStatistics { name, count: 8, mean, std, min, max, non_finite: 0 };
/// run.host.weights = vec![layer];
/// run.epochs(1, 4)?;
/// // A header, and a row after the second and the fourth iteration.
/// assert_eq!(std::fs::read_to_string(folder.path().join("layers.csv"))?.lines().count(), 3);
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Debug)]
pub struct LayerStatisticsLog {
    options: LayerStatisticsOptions,
    csv: Option<PathBuf>,
    curves: Option<Curves>,
    /// Whether rows of repeated iterations were dropped.
    trimmed: bool,
    /// The layers listed in warnings.
    named: Vec<String>,
}

impl LayerStatisticsLog {
    /// A handler with these options, its files in the run's folder.
    ///
    /// # Errors
    /// When `every` is 0, or there is nothing to record or to write.
    pub fn new(options: LayerStatisticsOptions, run: &Path) -> Result<Self, Fault> {
        if options.every == 0 {
            return Err(Fault::at("every", "`every` is 0; give 1 or more"));
        }
        if !options.weights && !options.gradients {
            return Err(Fault::at("gradients", "neither `weights` nor `gradients` are recorded; enable one of them"));
        }
        let there = |path: &Path| !path.as_os_str().is_empty();
        if !there(&options.csv) && !there(&options.tensorboard) {
            return Err(Fault::at("csv", "neither `csv` nor `tensorboard` is written; set one of them"));
        }
        let csv = there(&options.csv).then(|| run.join(&options.csv));
        let curves = there(&options.tensorboard).then(|| Curves::new(run.join(&options.tensorboard)));
        Ok(Self { options, csv, curves, trimmed: false, named: Vec::new() })
    }

    /// Drops the rows of this and later iterations, once.
    fn trim(&mut self, state: &State) -> Result<(), HandlerError> {
        let Some(path) = self.csv.as_ref().filter(|_| !self.trimmed) else { return Ok(()) };
        self.trimmed = true;
        let text = read(path)?;
        let iteration = |line: &str| line.split(',').next().and_then(|cell| cell.parse::<u64>().ok());
        let before = |line: &&str| iteration(line).is_some_and(|number| number < state.iteration);
        let kept = whole_lines(&text).skip(1).filter(before).map(|line| format!("{line}\n"));
        replace(path, &(csv_line(&HEAD.map(String::from)) + &kept.collect::<String>()))
    }

    fn write(&mut self, cx: &mut Context<'_>, of: LayerValues) -> Result<(), HandlerError> {
        let layers = cx.host.layer_statistics(of)?;
        let (word, iteration) = (word(of), cx.state.iteration);
        if let Some(path) = &self.csv {
            let rows = layers.iter().map(|layer| csv_line(&row(iteration, word, layer)));
            append(path, &rows.collect::<String>())?;
        }
        if let Some(curves) = &mut self.curves {
            for LayerStatistics { name, mean, std, .. } in &layers {
                curves.scalar(&format!("{word}_mean/{name}"), iteration, *mean)?;
                curves.scalar(&format!("{word}_std/{name}"), iteration, *std)?;
            }
            curves.flush()?;
        }
        let wild = layers.iter().filter(|layer| layer.non_finite > 0).map(|layer| format!("{word} {}", layer.name));
        let new: Vec<String> = wild.filter(|name| !self.named.contains(name)).collect();
        if !new.is_empty() {
            let text = format!("iteration {iteration}: non-finite values in {}", new.join(", "));
            cx.host.log(Level::Warn, &text);
            self.named.extend(new);
        }
        Ok(())
    }
}

/// The columns.
const HEAD: [&str; 9] = ["iteration", "values", "layer", "count", "mean", "std", "min", "max", "non_finite"];

fn row(iteration: u64, word: &str, layer: &LayerStatistics) -> [String; 9] {
    let LayerStatistics { name, count, mean, std, min, max, non_finite } = layer;
    let [mean, std, min, max] = [mean, std, min, max].map(f64::to_string);
    let (count, non_finite) = (count.to_string(), non_finite.to_string());
    [iteration.to_string(), word.to_owned(), name.clone(), count, mean, std, min, max, non_finite]
}

fn word(of: LayerValues) -> &'static str {
    match of {
        LayerValues::Weights => "weights",
        LayerValues::Gradients => "gradients",
    }
}

impl Handler for LayerStatisticsLog {
    fn name(&self) -> &str {
        "layer_statistics"
    }

    fn subscriptions(&self) -> Vec<When> {
        let every = self.options.every;
        let mut whens = Vec::new();
        if self.options.gradients {
            whens.push(Event::BackwardCompleted.filter(move |state, _| state.iteration.is_multiple_of(every)));
        }
        if self.options.weights {
            whens.push(Event::IterationCompleted.every(every));
        }
        whens
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.trim(cx.state)?;
        let of = if event == Event::BackwardCompleted { LayerValues::Gradients } else { LayerValues::Weights };
        self.write(cx, of)
    }

    /// A file that cannot be written must not end a run.
    fn on_error(&self) -> OnError {
        OnError::Disable
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        self.curves.as_ref().and_then(Curves::mark)
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        self.trimmed = false;
        match &mut self.curves {
            Some(curves) => curves.go_on(state),
            None => Ok(()),
        }
    }
}

handler_entry!(LayerStatisticsOptions => "LayerStatistics", files: [csv, tensorboard], paper: "", about: "Writes mean, standard deviation, minimum, maximum and the number of non-finite values of each layer's weights and gradients, as `layers.csv` and curves for TensorBoard.", example: "every = 50", LayerStatisticsLog::new);
