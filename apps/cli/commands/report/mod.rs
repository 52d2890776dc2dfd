//! `hearth report`: writes an HTML page about one or several runs.

mod viewer;

use std::path::{Path, PathBuf};

use hearth_report::{Overlay, Remark, Report, Run, changed_lines, overlays_in, remarks_in, remarks_on};
use serde_json::json;

use crate::error::{Context, Failure, Outcome};
use crate::folders::{is_run, replace};
use crate::recipe::{Recipe, bundled};
use crate::run::outputs::Outputs;
use crate::{note, out};

/// Arguments of `hearth report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folders of runs, shown side by side; a folder with fold0, fold1, ... counts as its folds
    #[arg(value_name = "RUN", required = true, num_args = 1..)]
    pub runs: Vec<PathBuf>,
    /// The page, a single file that works offline
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    pub out: PathBuf,
    /// The result of `hearth evaluate -o DIR`, for the table of cases; for several runs give it once
    /// for each [default: RUN/evaluation/report.json, or a fold's own validation]
    #[arg(long, value_name = "DIR")]
    pub evaluation: Vec<PathBuf>,
    /// The pictures of `hearth predict --picture -o DIR`, matched by case name; for several runs give
    /// it once for each, in their order
    #[arg(long, value_name = "DIR")]
    pub pictures: Vec<PathBuf>,
    /// A case whose volume the page's viewer shows, with its label, and with the prediction of
    /// --pictures; may be given several times
    #[arg(long, value_name = "CASE")]
    pub viewer: Vec<String>,
    /// The data set of --viewer [default: the run's own]
    #[arg(long, value_name = "DIR", requires = "viewer")]
    pub data: Option<PathBuf>,
    /// A table with the class of each image, for the confusion matrix of DIR/scores.csv of --pictures;
    /// its first column is the image or case
    #[arg(long, value_name = "FILE", requires = "pictures")]
    pub truth: Option<PathBuf>,
    /// The column of the --truth table with the class
    #[arg(long, value_name = "NAME", default_value = "label", requires = "truth")]
    pub column: String,
    /// The bundled recipe to compare the run's recipe with [default: the most similar one of the same
    /// task]
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// The title of the page, in place of the task's
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Print a line of JSON: the page and, of each run, outcome, best value, warnings, what is missing, and
    /// remarks on the predictions of --pictures and on the evaluation
    #[arg(long)]
    pub json: bool,
    /// Replace a page of an earlier call that was not changed since
    #[arg(long)]
    pub overwrite: bool,
}

/// Reads the runs, and writes the page.
pub fn run(args: &Args) -> Outcome {
    let mut outputs = Outputs::new("report", args.overwrite);
    outputs.claim(&args.out)?;
    let folders: Vec<PathBuf> = args.runs.iter().flat_map(|run| Run::find(run)).collect();
    if let Some(run) = hearth_files::named_twice(&folders) {
        return Err(Failure::new(format!("{} is given twice", run.display())));
    }
    let mut runs = folders.iter().map(|folder| Run::read(folder)).collect::<Result<Vec<Run>, _>>()?;
    for (place, path) in args.evaluation.iter().enumerate() {
        evaluated(&mut runs, path, place, args.evaluation.len())?;
    }
    if !args.pictures.is_empty() && args.pictures.len() != runs.len() {
        let (given, runs) = (args.pictures.len(), runs.len());
        let what = format!("--pictures is given {given} times for {runs} runs");
        return Err(Failure::new(format!("{what}: give it once for each run, in their order")));
    }
    let (mut overlays, mut remarks): (Vec<Overlay>, Vec<Remark>) = (Vec::new(), Vec::new());
    for (place, folder) in args.pictures.iter().enumerate() {
        let found = overlays_in(folder, place)?;
        if found.is_empty() && args.truth.is_none() && args.viewer.is_empty() {
            let advice = "hearth predict --picture -o DIR draws them";
            return Err(Failure::new(format!("--pictures {} has no NAME_picture.png: {advice}", folder.display())));
        }
        overlays.extend(found);
        remarks.extend(remarks_in(folder, place)?);
        if let Some(truth) = &args.truth {
            runs[place].confusion_from(&folder.join("scores.csv"), truth, &args.column)?;
        }
    }
    for (place, run) in runs.iter_mut().enumerate() {
        if let Some(cases) = &run.cases {
            remarks.extend(remarks_on(cases, place)?);
        }
        run.bundled = origin(run, args.recipe.as_deref())?;
    }
    let volumes = viewer::volumes(args, &runs)?;
    let mut report = Report::new(runs)?.overlays(overlays)?.volumes(volumes)?.remarks(remarks)?;
    if let Some(title) = &args.title {
        report = report.title(title);
    }
    report.gaps().for_each(|gap| note!("{gap}"));
    let page = report.html();
    if let Some(folder) = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).while_doing(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    outputs.make(&args.out, json!({ "runs": names }), || replace(&args.out, &page))?;
    if args.json {
        let mut line = report.json();
        line["page"] = json!(args.out.display().to_string());
        out!("{line}");
    } else {
        out!("{}", args.out.display());
    }
    Ok(())
}

/// Assigns an evaluation to its run: the run that it names or, if there is one evaluation per run, the
/// run at its place.
fn evaluated(runs: &mut [Run], path: &Path, place: usize, given: usize) -> Outcome {
    let named = hearth_report::run::read_cases(path)?.runs;
    if named.len() > 1 {
        let what = "is of several runs that were merged; the page has the cases of single runs";
        return Err(Failure::new(format!("--evaluation {} {what}", path.display())));
    }
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = named.first().and_then(|named| runs.iter().position(|run| real(&run.folder) == real(named.as_ref())));
    if let Some(other) = named.first().filter(|named| own.is_none() && is_run(Path::new(named.as_str()))) {
        let what = format!("--evaluation {} is of {other}, which is not among these runs", path.display());
        return Err(Failure::new(format!("{what}: give theirs (hearth evaluate RUN -o DIR)")));
    }
    // The run may have been moved, and its name may be relative to a folder other than this one.
    let place = own.or_else(|| (runs.len() == given).then_some(place));
    let Some(run) = place.and_then(|place| runs.get_mut(place)) else {
        let of = named.first().map_or("none of these runs", String::as_str);
        let advice = "give --evaluation once for each run, in their order";
        return Err(Failure::new(format!("--evaluation {} is of {of}: {advice}", path.display())));
    };
    Ok(run.cases_from(path)?)
}

/// The bundled recipe that a run is based on, with all defaults: the given one, or the most similar one
/// with the same title.
fn origin(run: &Run, name: Option<&str>) -> Outcome<Option<(String, String)>> {
    let resolved = |bundled: &bundled::Bundled| -> Outcome<(String, String)> {
        let recipe = Recipe::read(&bundled.document()?)?;
        Ok((bundled.name.to_owned(), recipe.to_toml()?))
    };
    if let Some(name) = name {
        return Ok(Some(resolved(bundled::find(name)?)?));
    }
    let title = |text: &str| {
        text.parse::<toml::Table>().ok().map(|table| [table.get("task").cloned(), table.get("title").cloned()])
    };
    let own = title(&run.recipe);
    let mut nearest: Option<(usize, (String, String))> = None;
    for bundled in bundled::ALL {
        let (name, text) = resolved(bundled)?;
        let lines = changed_lines(&text, &run.recipe);
        if own.is_some() && title(&text) == own && nearest.as_ref().is_none_or(|(least, _)| lines < *least) {
            nearest = Some((lines, (name, text)));
        }
    }
    Ok(nearest.map(|(_, origin)| origin))
}
