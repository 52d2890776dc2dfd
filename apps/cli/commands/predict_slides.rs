//! `hearth predict` and `hearth ensemble` for runs that learn from patches: maps of whole slides.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearth_data::slides::{Annotations, Pick, PyramidOptions, Slide, dicom_slides, geojson, pyramid};
use hearth_train::Ranks;
use serde_json::json;

use crate::commands::predict::Args;
use crate::error::{Context, Failure, Outcome};
use crate::picture::SlidePicture;
use crate::run::outputs::{Outputs, is_whole, record_of};
use crate::sharing::{Done, own, prepared, reported};
use crate::terminal::{Lines, clear_line, seconds, watched};
use crate::{note, out};
use hearth_models::ensemble::Disagreement;
use hearth_models::run::Trained;
use hearth_models::slides::{SlideMap, Tiles, grey, npy};

/// The longer side of the slide in a picture, in pixels.
const PICTURE: usize = 1200;

/// File extensions of slides.
const ENDINGS: [&str; 6] = ["svs", "tif", "tiff", "ndpi", "mrxs", "scn"];

/// A slide, and the files of its results.
struct Task {
    slide: PathBuf,
    map: PathBuf,
    heat: PathBuf,
    detections: PathBuf,
    picture: PathBuf,
    partial: PathBuf,
    /// The files of `--disagreement`: the map, and a picture of it as a pyramid.
    disagreement: Vec<[PathBuf; 2]>,
}

impl Task {
    fn new(slide: &Path, out: &Path, disagreement: &[Disagreement]) -> Self {
        // A DICOM folder may be named by a UID, whose last number is not an extension.
        let uid = slide.extension().is_some_and(|end| end.to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
        let stem = if uid { slide.file_name() } else { slide.file_stem() };
        let stem = stem.unwrap_or_default().to_string_lossy();
        let at = |end: &str| out.join(format!("{stem}{end}"));
        Self {
            slide: slide.to_owned(),
            map: at(".npy"),
            heat: at("_heat.tif"),
            detections: at(".geojson"),
            picture: at("_picture.png"),
            partial: at(".partial"),
            disagreement: disagreement
                .iter()
                .map(|map| [at(&format!("_{}.npy", map.word())), at(&format!("_{}_heat.tif", map.word()))])
                .collect(),
        }
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        let own = [&self.map, &self.heat, &self.detections, &self.picture];
        own.into_iter().chain(self.disagreement.iter().flatten()).map(PathBuf::as_path)
    }

    /// Whether an earlier call of this command wrote all results, from this slide with these weights.
    fn is_done(&self, trained: &Trained, command: &str) -> bool {
        let same = record_of(&self.map)
            .is_some_and(|record| trained.slide_key(&self.slide).is_ok_and(|key| record["map_of"] == key));
        same && self.files().all(|path| is_whole(path, command))
    }
}

/// Prepares the work before the first slide is read: returns the files of results, and the slides that
/// are not done. Files of slides that were started may exist.
fn prepare(args: &Args, trained: &Trained, command: &'static str) -> Outcome<(Outputs, Vec<Task>)> {
    let given = [("--tta", args.opening.tta.is_some()), ("--uncertainty", args.uncertainty)];
    let given = given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name);
    if let Some(option) = given.chain(args.files.of_volumes()).next() {
        return Err(Failure::new(format!("{option} does not go with maps of slides: remove it")));
    }
    let mut outputs = Outputs::new(command, args.files.overwrite).records_beside(args.files.records_beside);
    // A call that was killed while writing may have left some results.
    let mut begun = Outputs::new(command, true).records_beside(args.files.records_beside);
    let maps = trained.ensemble.as_ref().map_or(&[][..], |ensemble| ensemble.maps());
    let mut tasks = Vec::new();
    for given in &args.images {
        for slide in slides(given)? {
            let task = Task::new(&slide, &args.out, maps);
            if !args.files.overwrite && task.is_done(trained, command) {
                note!("{}: done by an earlier call", slide.display());
                continue;
            }
            let claims = if task.partial.is_file() { &mut begun } else { &mut outputs };
            for path in task.files() {
                claims.claim(path)?;
            }
            tasks.push(task);
        }
    }
    std::fs::create_dir_all(&args.out).while_doing(|| format!("cannot make the folder {}", args.out.display()))?;
    Ok((outputs, tasks))
}

/// Predicts each slide. An error with one slide does not stop the others; finished slides are skipped,
/// and started ones continue.
pub fn run(args: &Args, trained: &Trained, command: &'static str, ranks: Option<&Ranks>) -> Outcome {
    let (outputs, tasks) = prepared(ranks, prepare(args, trained, command))?;
    let mut done: Done<()> = Done::default();
    for place in own(ranks, tasks.len()) {
        let task = &tasks[place];
        if let Err(failure) = predict(trained, task, &outputs) {
            done.fail(place, task.slide.display().to_string(), &reported(&failure));
        }
    }
    Ok(done.of_all(ranks, &Lines)?.check(ranks, tasks.len(), "slides")?)
}

/// The slides of a path: itself, or those of a folder. For DICOM these are the folder's slides, named
/// by the files of their largest levels, and the subfolders that hold one.
fn slides(given: &Path) -> Outcome<Vec<PathBuf>> {
    if !given.exists() {
        return Err(Failure::new(format!("{}: no such file or folder", given.display())));
    }
    if !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let mut found = Vec::new();
    let mut dicom = dicom_slides(given)?;
    for entry in std::fs::read_dir(given).while_doing(|| format!("cannot read {}", given.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            let below = dicom_slides(&path)?;
            dicom.extend(if below.len() == 1 { vec![path] } else { below });
            continue;
        }
        let ends = path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end.eq_ignore_ascii_case(known)));
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && ends && !stem.ends_with("_mask") {
            found.push(path);
        }
    }
    // The bytes before a DICOM header can make a file a valid TIFF as well.
    dicom.retain(|path| !found.contains(path));
    found.extend(dicom);
    found.sort_unstable();
    if found.is_empty() {
        return Err(Failure::new(format!("{} has no slides ({}, DICOM)", given.display(), ENDINGS.join(", "))));
    }
    Ok(found)
}

/// The annotated rings of the run's classes, from a file next to the slide, in pixels scaled by
/// `reduced`. An unreadable file is reported; the picture is then drawn without them.
fn annotated(trained: &Trained, slide: &Path, reduced: f64) -> Option<Vec<Vec<[f64; 2]>>> {
    let file = ["xml", "geojson"].map(|ending| slide.with_extension(ending)).into_iter().find(|file| file.is_file())?;
    let annotations = match Annotations::open(&file) {
        Ok(annotations) => annotations,
        Err(error) => {
            tracing::warn!("the picture of {} does not show its annotations: {error}", slide.display());
            return None;
        }
    };
    let layout = trained.plan.recipe.data.layout.as_ref();
    let classes = layout.and_then(|layout| layout.node().get("classes")).map_or(&[][..], |classes| classes.items());
    let include = classes.iter().filter_map(|class| class.as_str().map(str::to_owned)).collect();
    let pick = Pick { include, ..Pick::default() };
    let rings = annotations.drawn(&pick).flat_map(|shape| &shape.rings);
    Some(rings.map(|ring| ring.iter().map(|point| point.map(|at| at * reduced)).collect()).collect())
}

fn predict(trained: &Trained, task: &Task, outputs: &Outputs) -> Outcome {
    let name = task.slide.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut pace = Pace::new(&name);
    let map = trained.slide_map(&task.slide, &task.partial, |tiles| pace.tell(tiles))?;
    pace.end(&map);
    let learns = trained.plan.recipe.learns();
    let how = learns.patches().ok_or_else(|| Failure::new("this run does not learn patches of slides"))?;
    let class = trained.plan.recipe.labels.first().map_or("", String::as_str);
    let peaks = map.peaks(how)?;
    let [rows, columns] = map.shape;
    outputs.write(&task.detections, geojson(&map.features(&peaks, class)))?;
    let mpp = map.mpp.map(|mpp| mpp * (map.scale[0] + map.scale[1]) / 2.0);
    let description = format!("probability of {class}, 255 is 1");
    let options = PyramidOptions { mpp, description, ..PyramidOptions::default() };
    outputs.write(&task.heat, pyramid(&map.grey(), columns, rows, &options)?)?;
    for ([file, heat], (kind, values)) in task.disagreement.iter().zip(&map.disagreement) {
        let description = format!("{} of the runs' probabilities of {class}, 255 is {:.4}", kind.word(), kind.most());
        let options = PyramidOptions { description, ..options.clone() };
        outputs.write(heat, pyramid(&grey(values, kind.most()), columns, rows, &options)?)?;
        outputs.write(file, npy(values, map.shape))?;
    }
    let slide = Slide::open(&task.slide)?;
    let thumbnail = slide.thumbnail(PICTURE)?;
    let rgb = thumbnail.to_rgb8().ok_or_else(|| Failure::new("a slide that is not of 8-bit colours"))?;
    let title = format!("{name}   {class}");
    let reduced = thumbnail.width as f64 / map.slide.0 as f64;
    let truth = annotated(trained, &task.slide, reduced);
    let picture = SlidePicture {
        title: &title,
        rgb: &rgb,
        width: thumbnail.width,
        shape: map.shape,
        map: &map.values,
        peaks: &peaks,
        truth: truth.as_deref(),
        per_mm: map.mpp.map(|mpp| 1e3 / mpp * reduced),
    };
    let png = picture.draw().png().while_doing(|| format!("cannot draw {}", task.picture.display()))?;
    outputs.write(&task.picture, png)?;
    let mut facts = json!({
        "slide": task.slide.display().to_string(), "width": map.slide.0, "height": map.slide.1,
        "scale": map.scale, "mpp": map.mpp, "patches": map.patches, "detections": peaks.len(),
        "checkpoint": trained.checkpoint, "recipe": trained.plan.recipe.title(),
        "map_of": trained.slide_key(&task.slide)?,
    });
    if let Some(ensemble) = &trained.ensemble {
        facts["ensemble"] = json!(ensemble.members());
    }
    // Written last, so that a slide with a record is complete.
    outputs.make(&task.map, facts, || {
        hearth_files::replace(&task.map, map.npy()).while_doing(|| format!("cannot write {}", task.map.display()))
    })?;
    // The map contains everything in the partial file.
    let _ = std::fs::remove_file(&task.partial);
    task.files().for_each(|path| out!("{}", path.display()));
    Ok(())
}

/// Prints tiles per second and the time left.
struct Pace<'a> {
    name: &'a str,
    start: Instant,
    shown: Option<Instant>,
    /// Tiles from an earlier call, which are not part of the rate.
    resumed: usize,
}

impl<'a> Pace<'a> {
    fn new(name: &'a str) -> Self {
        Self { name, start: Instant::now(), shown: None, resumed: 0 }
    }

    fn tell(&mut self, tiles: Tiles) {
        let Tiles { total, done, resumed } = tiles;
        self.resumed = resumed;
        if self.shown.is_none() && resumed > 0 {
            note!("{}: {resumed} of {total} tiles were done by an earlier call", self.name);
        }
        // A terminal is updated every second; a log gets a line every 20 seconds.
        let every = Duration::from_secs(if watched() { 1 } else { 20 });
        let due = self.shown.is_none_or(|shown| shown.elapsed() >= every);
        if !due || done == resumed {
            self.shown.get_or_insert_with(Instant::now);
            return;
        }
        self.shown = Some(Instant::now());
        let rate = (done - resumed) as f64 / self.start.elapsed().as_secs_f64().max(1e-9);
        let left = seconds((total - done) as f64 / rate);
        let line = format!("{}: {done} of {total} tiles, {rate:.1} tiles/s, {left} left", self.name);
        if watched() {
            let _ = write!(std::io::stderr(), "{}{line}", clear_line());
        } else {
            note!("{line}");
        }
    }

    fn end(&self, map: &SlideMap) {
        let spent = self.start.elapsed().as_secs_f64();
        let tiles = map.patches.saturating_sub(self.resumed);
        let rate = tiles as f64 / spent.max(1e-9);
        note!("{}: {tiles} tiles in {}, {rate:.1} tiles/s", self.name, seconds(spent));
    }
}
