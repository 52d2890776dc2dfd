//! [`Job`]: the loop over cases of every model.

mod failed;
mod in_the_way;
mod overlap;
mod ranks;
mod results;
mod tables;
mod tasks;
pub(crate) mod volumes;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hearth_recipe::text::seconds;
use hearth_recipe::{Context, Outcome, RecipeError, notice, warning};
use hearth_registry::counted;
use hearth_run::folders::replace;
use hearth_run::outputs::{KEY, Outputs, sum};
use hearth_run::{digest, listed, same};
use hearth_train::{Floats, Ranks};
use serde_json::{Value, json};

pub use overlap::{Overlap, Overlapped, StageSeconds, overlapped};
pub use ranks::{Done, own, prepared};
pub use results::Results;
pub use tables::Tables;

pub(crate) use results::{CaseReport, OF_PREDICTIONS, VVC, millilitres, of_predictions};

use crate::cases::Sought;
use crate::job::failed::{FAILED, list_failed, row};
use crate::job::ranks::is_first;
use crate::job::tables::ScoreRow;
use crate::job::tasks::{NamedResult, Task, tasks};
use crate::job::volumes::{MADE_BY, UNLIKE, write_volumes};
use crate::model::{Asked, Card, Model, Prediction, Prepared, unlike};
use crate::writers::{OutputOptions, Pictures, Writing, authorship, check};

/// The table of numbers, for models that predict numbers.
const SCORES: &str = "scores.csv";

/// The prediction of cases by a model, and the output of the results.
///
/// Reading, computing and writing of different cases overlap. A failed case does not stop the
/// others: it is listed in `failed.csv`, and the job ends with an error. Results that an earlier
/// call made for the same case with the same model are skipped.
pub struct Job<'a> {
    /// The model that predicts.
    pub model: &'a dyn Model,
    /// The folder of all results.
    pub out: &'a Path,
    /// The name of the command, for the records of results.
    pub command: &'static str,
    /// The requested files.
    pub outputs: OutputOptions,
    /// Whether results of earlier calls are replaced.
    pub overwrite: bool,
    /// Whether records are written beside the results instead of into a folder.
    pub records_beside: bool,
    /// Whether a line of JSON is printed for each case.
    pub json: bool,
    /// The ranks that share the cases.
    pub ranks: Option<&'a Ranks>,
    /// The output for lines of results.
    pub results: &'a dyn Results,
    /// How images become cases.
    pub sought: Sought<'a>,
    /// Restricts the job to these cases, on which the model was not trained.
    pub only: Option<&'a BTreeSet<String>>,
}

/// The plan before the first case is read. Unlike the model it is shared with the thread that writes.
struct Planned {
    outputs: Outputs,
    tasks: Vec<Task>,
    /// The name and the result of each case, also of those that an earlier call or
    /// another fold finished.
    results: Vec<NamedResult>,
    card: Card,
    options: OutputOptions,
    /// The table of numbers, if the model predicts numbers.
    scores: Option<PathBuf>,
    /// Files that are written once, with their content.
    companions: Vec<(PathBuf, String)>,
    record: serde_json::Map<String, Value>,
    held_out: bool,
}

/// A prediction for the thread that writes.
struct Found {
    prediction: Prediction,
    picture: Option<Outcome<Vec<u8>>>,
    /// The respects in which the image is unlike those of the training.
    remarks: Vec<String>,
}

impl Job<'_> {
    /// Predicts the cases at these paths.
    ///
    /// # Errors
    /// Options that the model does not support, files that would be replaced, or the names of
    /// failed cases.
    pub fn run(&self, given: &[PathBuf]) -> Outcome {
        self.fill(given, &mut Tables::default(), self.only.is_none())
    }

    /// Like [`run`](Self::run) for one of several folds, whose tables have the cases of all of them.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_fold(&self, given: &[PathBuf], tables: &mut Tables) -> Outcome {
        self.fill(given, tables, true)
    }

    /// Predicts the cases, and writes the tables; `lists` also those that failed.
    fn fill(&self, given: &[PathBuf], tables: &mut Tables, lists: bool) -> Outcome {
        let ranks = self.ranks;
        // No rank writes before all ranks have checked the existing files.
        let planned = prepared(ranks, self.plan(given, tables.claimed))?;
        tables.claimed |= planned.scores.is_some();
        prepared(ranks, self.compare(&planned))?;
        let drawn = planned.tasks.iter().any(|task| task.asks("--picture"));
        let pictures = if drawn { Some(Pictures::new(self.model, given)?) } else { None };
        if is_first(ranks) {
            planned.companions.iter().try_for_each(|(path, text)| planned.outputs.write(path, text))?;
        }
        let (count, things) = (planned.tasks.len(), format!("{}s", planned.card.kind.case()));
        let done = self.predict(&planned, pictures.as_ref())?.of_all(ranks, self.results)?;
        // Later folds write the same file.
        let is_first_table = tables.done.rows.is_empty();
        tables.add(&done, &planned.tasks, &planned.card.made_by);
        let Done { rows, failed } = &tables.done;
        if let Some(path) = planned.scores.as_ref().filter(|_| is_first(ranks) && !rows.is_empty()) {
            let table = table(&planned.card, rows.iter().map(|(_, row)| row));
            planned.outputs.make(path, json!({ MADE_BY: tables.made_by }), || replace(path, table))?;
            if !self.json && is_first_table {
                self.results.line(&path.display().to_string());
            }
        }
        if is_first(ranks) && planned.card.kind.is_map() && planned.results.len() > 1 {
            // Each fold adds its cases.
            let shows = self.only.is_none();
            write_volumes(self.out, self.command, &planned.outputs, &planned.card, &planned.results, shows)?;
        }
        // The error of a single case becomes the job's error, unless an earlier call listed it.
        let several = count > 1 || self.only.is_some();
        if is_first(ranks) && lists && (several || self.out.join(FAILED).exists()) {
            list_failed(self.out, self.command, &planned.outputs, failed, &things)?;
        }
        done.check(ranks, count, &things)
    }

    /// Checks that all ranks predict the same cases with the same model.
    fn compare(&self, planned: &Planned) -> Outcome {
        let tasks = &planned.tasks;
        let models: Vec<&Value> = tasks.iter().map(|task| &task.key["model"]).filter(|key| !key.is_null()).collect();
        let name = |task: &Task| task.case.parent().join(task.case.stem()).display().to_string();
        let facts = [
            ("the model", models.first().map(|key| digest(&key.to_string())).unwrap_or_default()),
            ("the cases", listed(tasks.iter().map(name))),
            ("the files", digest(&format!("{:?}", planned.options))),
            ("the folder", self.out.display().to_string()),
        ];
        same(self.ranks, facts)
    }

    /// Claims the files of all results; `claimed` if an earlier fold has claimed the table of numbers.
    fn plan(&self, given: &[PathBuf], claimed: bool) -> Outcome<Planned> {
        let card = self.model.card();
        check(&self.outputs, card, self.model.abilities())?;
        self.model.check(&self.asked())?;
        let mut outputs = Outputs::new(self.command, self.overwrite).records_beside(self.records_beside);
        let scores = (card.kind == crate::model::Kind::Scores).then(|| self.out.join(SCORES));
        if let Some(path) = scores.as_ref().filter(|_| !claimed) {
            outputs.claim(path)?;
        }
        let (tasks, results) = tasks(self, given, &mut outputs)?;
        let mut companions = Vec::new();
        for (name, text) in self.model.companions(self.asked())? {
            let path = self.out.join(name);
            if !hearth_files::read_to_string(&path).is_ok_and(|there| there == text) {
                outputs.claim(&path)?;
                companions.push((path, text));
            }
        }
        std::fs::create_dir_all(self.out).while_doing(|| format!("cannot make the folder {}", self.out.display()))?;
        Ok(Planned {
            outputs,
            tasks,
            results,
            card: card.clone(),
            options: self.outputs.clone(),
            scores,
            companions,
            record: self.model.record(),
            held_out: self.only.is_some(),
        })
    }

    fn asked(&self) -> Asked {
        Asked {
            probabilities: self.outputs.needs_probabilities(),
            uncertainty: self.outputs.uncertainty,
            saliency: self.outputs.saliency.clone(),
        }
    }

    /// Predicts this rank's cases.
    fn predict(&self, planned: &Planned, pictures: Option<&Pictures<'_>>) -> Outcome<Done<ScoreRow>> {
        let Planned { tasks, .. } = planned;
        let (start, count) = (Instant::now(), tasks.len());
        let mine: Vec<usize> = own(self.ranks, count).collect();
        let mut done: Done<ScoreRow> = Done::default();
        let speaks = self.results.speaks();
        let begin = || self.results.begin_thread(speaks);
        let preparer = self.model.preparer();
        let read = |place: &usize| {
            let Task { case, previous, refused, .. } = &tasks[*place];
            match refused {
                Some(error) => Err(RecipeError::new(error.line())),
                None => preparer.prepare(case, previous.as_deref()),
            }
        };
        let (asked, thing) = (self.asked(), planned.card.kind.case());
        let predict = |before: usize, ready: Prepared| {
            let task = &tasks[mine[before]];
            if count > 1 {
                let left = match before {
                    0 => String::new(),
                    _ => {
                        let each = start.elapsed().as_secs_f64() / before as f64;
                        format!("  {} left", seconds(each * (mine.len() - before) as f64))
                    }
                };
                notice!("{thing} {} of {count}: {}{left}", mine[before] + 1, task.case.name());
            }
            // The records of a case's results have its remarks.
            let recorded = !task.files.is_empty();
            let warn = |remarks: &[String]| {
                let name = task.case.name();
                let warn = |text: &String| warning!(recorded = recorded, "{name}: unlike the training data: {text}");
                remarks.iter().for_each(warn);
            };
            let mut remarks = ready.facts.as_ref().map(|facts| unlike(self.model, facts)).unwrap_or_default();
            warn(&remarks);
            let prediction = self.model.predict(Prepared { partial: task.partial.clone(), ..ready }, asked.clone())?;
            warn(prediction.remarks());
            remarks.extend_from_slice(prediction.remarks());
            let drawn = pictures.filter(|_| task.asks("--picture"));
            let picture = drawn.map(|pictures| pictures.png(&task.case, &prediction));
            Ok(Found { prediction, picture, remarks })
        };
        let (results, json) = (self.results, self.json);
        let write = |before: usize, found: Outcome<Found>, spent: StageSeconds| {
            let (place, begun) = (mine[before], Instant::now());
            let task = &tasks[place];
            let mut report = CaseReport::new(results, json);
            let written = found.and_then(|found| write_results(planned, task, found, &mut report));
            let spent = StageSeconds { write: begun.elapsed().as_secs_f64(), ..spent };
            report.end(&task.case, spent, written.as_ref().err());
            match written {
                Ok(Some(scores)) => done.rows.push((place, (task.case.name(), Floats(scores)))),
                Ok(None) => {}
                Err(error) => done.fail(place, task.case.name(), &error),
            }
            results.unprinted()
        };
        let overlap = Overlap::of_machine().shared_by(self.ranks.map_or(1, Ranks::world));
        let all = overlapped(&mine, overlap, begin, read, |ready| ready.bytes, predict, write);
        results.keep(all.results.into_iter().flatten().collect());
        if mine.len() > 1 {
            let [read, predict, write] = [all.stages.read, all.stages.predict, all.stages.write].map(seconds);
            let (images, wall) = (counted(mine.len(), thing), seconds(all.wall));
            notice!("{images} in {wall}; of each stage: reading {read}, predicting {predict}, writing {write}");
        }
        Ok(done)
    }
}

/// Writes the requested files of a case; numbers are returned.
fn write_results(
    planned: &Planned,
    task: &Task,
    found: Found,
    report: &mut CaseReport<'_>,
) -> Outcome<Option<Vec<f32>>> {
    for (_, paths) in &task.files {
        if let Some(folder) = paths.first().and_then(|path| path.parent()) {
            let doing = || format!("cannot make the folder {}", folder.display());
            std::fs::create_dir_all(folder).while_doing(doing)?;
        }
    }
    let facts = facts(planned, task, &found.remarks)?;
    report.unlike(&found.remarks);
    let mut writing = Writing {
        options: &planned.options,
        card: &planned.card,
        case: &task.case,
        prediction: &found.prediction,
        series: task.series.as_ref(),
        by: task.series.as_ref().map(|series| {
            let remarks = found.remarks.iter().map(|remark| format!("The image is unlike the training data: {remark}"));
            authorship(&planned.card, series).remarks(remarks)
        }),
        picture: found.picture,
        facts,
        outputs: &planned.outputs,
        report,
    };
    task.files.iter().try_for_each(|(writer, paths)| (writer.write)(&mut writing, paths))?;
    if let Some(partial) = &task.partial {
        // The results have everything that is in it.
        let _ = std::fs::remove_file(partial);
    }
    match found.prediction {
        Prediction::Scores(scores) => {
            report.scores(&planned.card, &scores.values);
            Ok(Some(scores.values))
        }
        Prediction::Map(_) | Prediction::SlideMap(_) => Ok(None),
    }
}

/// The record of each result of a case.
fn facts(planned: &Planned, task: &Task, remarks: &[String]) -> Outcome<Value> {
    let files: Vec<&PathBuf> = task.case.files().collect();
    let sums = files.iter().map(|file| if file.is_file() { Ok(Some(sum(file)?)) } else { Ok(None) });
    let sums = sums.collect::<Outcome<Vec<Option<String>>>>()?;
    let (named, summed) = match (&files[..], &sums[..]) {
        ([file], [sum]) => (json!(file.display().to_string()), json!(sum)),
        _ => (files.iter().map(|file| file.display().to_string()).collect(), json!(sums)),
    };
    let mut facts = json!({ "input": named, "input_blake3": summed, KEY: task.key });
    for (name, value) in &planned.record {
        facts[name] = value.clone();
    }
    if let Some(path) = &task.previous {
        facts["previous_stage"] = json!({ "labels": path.display().to_string(), "blake3": sum(path)? });
    }
    if !remarks.is_empty() {
        facts[UNLIKE] = json!(remarks);
    }
    if planned.held_out {
        facts["held_out"] = json!(true);
    }
    Ok(facts)
}

/// The scores of all cases: a row for each case, a column for each label, and the most likely class
/// if one wins.
fn table<'a>(card: &Card, rows: impl Iterator<Item = &'a ScoreRow>) -> String {
    let names = || card.labels.iter().map(|label| label.name.clone());
    let mut columns = vec!["image".to_owned()];
    columns.extend(card.names_a_winner.then(|| "class".to_owned()));
    columns.extend(names());
    let mut text = row(columns);
    for (image, Floats(scores)) in rows {
        let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(index, _)| index);
        let class = best.filter(|_| card.names_a_winner).and_then(|index| names().nth(index));
        let values = std::iter::once(image.clone()).chain(class).chain(scores.iter().map(f32::to_string));
        text += &row(values);
    }
    text
}
