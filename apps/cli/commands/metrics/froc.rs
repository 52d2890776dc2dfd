//! `hearth metrics froc`: compares detections in probability maps with annotated tumours.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hearth_data::OneOrMany;
use hearth_data::read_image;
use hearth_data::slides::{Annotations, Area, Pick, Slide};
use hearth_data::transforms::ProbNMS;
use hearth_nn::metrics::{EVAL_THRESHOLDS, LesionFroc};
use serde_json::{Value, json};

use crate::error::{Context, Failure, Outcome};
use crate::picture::{Axis, Plot, save};
use crate::run::outputs::{Outputs, record_of};
use crate::{note, out};
use hearth_models::ensemble::Disagreement;

/// Arguments of `hearth metrics froc`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Probability maps (NAME.npy of `hearth predict` or of MONAI's ProbMapProducer), or folders of
    /// them
    #[arg(long, value_name = "FILE|DIR", required = true, num_args = 1..)]
    pub maps: Vec<PathBuf>,
    /// The folder of the tumours: NAME.xml (ASAP), NAME.geojson, or one-channel masks NAME_mask.tif or
    /// NAME.tif, of the slide's size or that of one of its levels; a slide without any of these has no
    /// tumours
    #[arg(long, value_name = "DIR")]
    pub truth: PathBuf,
    /// The folder for froc.csv, froc.json and froc.png
    #[arg(short = 'o', long = "out", value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace files of an earlier call that were not changed since
    #[arg(long, requires = "out")]
    pub overwrite: bool,
    /// The number of level-0 pixels per pixel of a map, for maps without a record next to them
    /// [default: 64, which is level 6]
    #[arg(long, value_name = "N")]
    pub scale: Option<f64>,
    /// Micrometres per pixel of level 0, for maps without a record [default: 0.243]
    #[arg(long, value_name = "UM")]
    pub spacing: Option<f64>,
    /// The probability that detections must exceed
    #[arg(long, value_name = "P", default_value_t = 0.5)]
    pub threshold: f64,
    /// The side of the box around a detection, in map pixels, in which there is no other detection
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..))]
    pub box_size: u32,
    /// Tumours with a longest diameter below this, in micrometres, are isolated tumour cells, which are
    /// not counted
    #[arg(long, value_name = "UM", default_value_t = 200.0)]
    pub itc_diameter: f64,
    /// Micrometres, half of which are added around every tumour
    #[arg(long, value_name = "UM", default_value_t = 75.0)]
    pub grow: f64,
    /// The annotated classes that are tumours [default: all except normal tissue]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub classes: Vec<String>,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            maps: Vec::new(),
            truth: PathBuf::new(),
            out: None,
            overwrite: false,
            scale: None,
            spacing: None,
            threshold: 0.5,
            box_size: 48,
            itc_diameter: 200.0,
            grow: 75.0,
            classes: Vec::new(),
        }
    }
}

/// The scale and the spacing of maps without a record: those of CAMELYON16 at level 6.
const SCALE: f64 = 64.0;
const SPACING: f64 = 0.243;

/// The files in the folder of `--out`.
const FILES: [&str; 3] = ["froc.csv", "froc.json", "froc.png"];

/// The endings of files that only annotations have.
const ANNOTATIONS: [&str; 4] = [".xml", ".geojson", "_mask.tif", "_Mask.tif"];

/// A map, and the facts about its slide.
struct Map {
    name: String,
    shape: [usize; 2],
    detections: Vec<(f32, [usize; 2])>,
    /// Width and height of the slide at level 0.
    slide: (usize, usize),
    /// Micrometres per pixel of the map.
    spacing: f64,
}

/// Measures, prints and draws the FROC.
pub fn run(args: &Args) -> Outcome {
    score(args).map(drop)
}

/// Like [`run`], and returns the score.
pub fn score(args: &Args) -> Outcome<f64> {
    check(args)?;
    // Files in the way are reported before the work.
    let outputs = args.out.as_deref().map(|folder| claimed(folder, args.overwrite)).transpose()?;
    let found = measure(args)?;
    let score = found.evaluate();
    let (images, targets) = found.froc.totals();
    out!("slides    {images}");
    out!("tumours   {targets}");
    let curve = found.froc.curve();
    for fps in EVAL_THRESHOLDS {
        out!("sensitivity at {fps:<4} false positives per slide  {:.4}", curve.score(&[fps]));
    }
    out!("FROC score  {score:.4}");
    if let Some((folder, outputs)) = args.out.as_deref().zip(outputs) {
        write(folder, &outputs, &found, score)?;
    }
    Ok(score)
}

/// Checks the numbers of the options.
fn check(args: &Args) -> Outcome {
    for (name, value) in [("--scale", args.scale), ("--spacing", args.spacing)] {
        if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
            return Err(Failure::new(format!("{name} is {value}; give a number above 0")));
        }
    }
    for (name, value) in [("--itc-diameter", args.itc_diameter), ("--grow", args.grow)] {
        if !(value.is_finite() && value >= 0.0) {
            return Err(Failure::new(format!("{name} is {value}; give 0 or more micrometres")));
        }
    }
    if !(0.0..1.0).contains(&args.threshold) {
        let what = "detections exceed it, and probabilities are 0 to 1: give a number from 0 to below 1";
        return Err(Failure::new(format!("--threshold is {}; {what}", args.threshold)));
    }
    Ok(())
}

fn claimed(folder: &Path, overwrite: bool) -> Outcome<Outputs> {
    let mut outputs = Outputs::new("metrics froc", overwrite);
    FILES.iter().try_for_each(|name| outputs.claim(&folder.join(name)))?;
    std::fs::create_dir_all(folder).while_doing(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(outputs)
}

/// Writes the curve as a table, as JSON and as a picture.
fn write(folder: &Path, outputs: &Outputs, found: &LesionFroc, score: f64) -> Outcome {
    let (images, targets) = found.froc.totals();
    let curve = found.froc.curve();
    let [csv, json, png] = FILES.map(|name| folder.join(name));
    let mut table = "false_positives_per_slide,sensitivity\n".to_owned();
    let points: Vec<(f64, f64)> = curve.fps_per_image.iter().copied().zip(curve.sensitivity.iter().copied()).collect();
    points.iter().for_each(|(fps, sensitivity)| table += &format!("{fps},{sensitivity}\n"));
    outputs.write(&csv, table)?;
    let each: Vec<Value> = EVAL_THRESHOLDS
        .iter()
        .map(|fps| json!({ "false_positives_per_slide": fps, "sensitivity": curve.score(&[*fps]) }))
        .collect();
    let summary = json!({ "froc": score, "slides": images, "tumours": targets, "at": each });
    outputs.write(&json, serde_json::to_string_pretty(&summary)? + "\n")?;
    // Beyond the measured range the score uses the last value, and so does the picture.
    let end = EVAL_THRESHOLDS.iter().copied().fold(0.0, f64::max);
    let flat = points.first().filter(|(fps, _)| *fps < end).map(|(_, sensitivity)| (end, *sensitivity));
    let drawn: Vec<(f64, f64)> = flat.into_iter().chain(points.iter().copied()).collect();
    let mark = points.first().map(|first| (*first, format!("score {score:.3}")));
    let title = format!("FROC: sensitivity, {targets} tumours on {images} slides");
    let plot = Plot {
        title: &title,
        x_label: "false positives per slide",
        y_label: "sensitivity",
        legend: ["", ""],
        x_axis: Axis::Linear,
        y_range: Some((0.0, 1.0)),
        y_most: None,
        curve: &drawn,
        points: &points,
        mark,
    };
    outputs.make(&png, json!({}), || save(&plot.draw(), &png))?;
    [csv, json, png].iter().for_each(|path| out!("{}", path.display()));
    Ok(())
}

/// Compares the detections of all maps with the tumours.
fn measure(args: &Args) -> Outcome<LesionFroc> {
    if !args.truth.is_dir() {
        return Err(Failure::new(format!("--truth {}: no such folder", args.truth.display())));
    }
    let files = maps(&args.maps)?;
    let mut froc = LesionFroc::default().grow_distance(args.grow).itc_diameter(args.itc_diameter);
    let (mut normal, mut seen) = (Vec::new(), BTreeSet::new());
    let mut others = annotated(&args.truth)?;
    for file in files {
        let map = read(&file, args).while_doing(|| format!("cannot use {}", file.display()))?;
        others.remove(&map.name);
        if !seen.insert(map.name.clone()) {
            let what = "another map has this name, and a slide counts once: give one map of it";
            return Err(Failure::new(format!("{}: {what}", file.display())));
        }
        let truth = truth(args, &map)?;
        if truth.is_none() {
            normal.push(map.name.clone());
        }
        froc.add(&map.detections, truth.as_deref(), map.shape, 0, map.spacing)
            .while_doing(|| format!("cannot measure {}", file.display()))?;
    }
    if froc.froc.totals().1 == 0 {
        let truth = args.truth.display();
        return Err(Failure::new(format!(
            "no slide has a tumour that counts: {truth} holds no annotation of these maps' names, or only isolated tumour \
             cells (--itc-diameter)"
        )));
    }
    if !normal.is_empty() {
        note!("without annotations, so without tumours: {}", normal.join(", "));
    }
    if !others.is_empty() {
        let names: Vec<String> = others.into_iter().collect();
        note!("annotated slides without a map, which are not measured: {}", names.join(", "));
    }
    Ok(froc)
}

/// The names of the slides with annotations in a folder.
fn annotated(folder: &Path) -> Outcome<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).while_doing(|| format!("cannot read {}", folder.display()))? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        names.extend(ANNOTATIONS.iter().find_map(|end| file.strip_suffix(end)).map(str::to_owned));
    }
    Ok(names)
}

fn maps(given: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in given {
        if path.is_dir() {
            let mut inside = Vec::new();
            for entry in std::fs::read_dir(path).while_doing(|| format!("cannot read {}", path.display()))? {
                let file = entry?.path();
                inside.extend(is_map(&file).then_some(file));
            }
            inside.sort_unstable();
            files.extend(inside);
        } else {
            files.push(path.clone());
        }
    }
    if files.is_empty() {
        return Err(Failure::new("--maps: there is no .npy"));
    }
    Ok(files)
}

/// Whether a file in a folder is a probability map, and not a map of disagreement that `hearth
/// ensemble` writes next to it.
fn is_map(file: &Path) -> bool {
    let differs = |stem: &str| {
        Disagreement::ALL.iter().any(|map| stem.strip_suffix(map.word()).is_some_and(|name| name.ends_with('_')))
    };
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    file.extension().is_some_and(|end| end == "npy") && !differs(&stem)
}

fn read(path: &Path, args: &Args) -> Outcome<Map> {
    let image = read_image(path)?;
    let [rows, columns, depth] = image.shape();
    if depth != 1 || image.channels() != 1 {
        let channels = image.channels();
        return Err(Failure::new(format!(
            "an array of {channels} x {rows} x {columns} x {depth}, expected rows x columns"
        )));
    }
    let image = image.with_spatial_dims(2);
    let nms = ProbNMS::new("map", 2).prob_threshold(args.threshold).box_size(OneOrMany::One(args.box_size as usize));
    let detections = nms.detections(&image)?.iter().map(|peak| (peak.probability, [peak.at[0], peak.at[1]])).collect();
    let record: Value = record_of(path).unwrap_or_default();
    let scale = known("--scale", record["scale"][0].as_f64(), args.scale)?.unwrap_or(SCALE);
    let mpp = known("--spacing", record["mpp"].as_f64(), args.spacing)?.unwrap_or(SPACING);
    let size = |key: &str, cells: usize| {
        record[key].as_u64().map_or_else(|| (cells as f64 * scale).round() as usize, |size| size as usize)
    };
    Ok(Map {
        name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        shape: [rows, columns],
        detections,
        slide: (size("width", columns), size("height", rows)),
        spacing: mpp * scale,
    })
}

/// The number in the record of a map, or else that of the option, which may not contradict the record.
fn known(option: &str, record: Option<f64>, given: Option<f64>) -> Outcome<Option<f64>> {
    match (record, given) {
        (Some(record), Some(given)) if (given / record - 1.0).abs() > 1e-3 => {
            let what = "is for maps without a record, and that of this map has";
            Err(Failure::new(format!("{option} {given} {what} {record}: remove it")))
        }
        (record, given) => Ok(record.or(given)),
    }
}

/// The tumour mask of a slide on the grid of its map.
fn truth(args: &Args, map: &Map) -> Outcome<Option<Vec<u8>>> {
    let at = |end: &str| args.truth.join(format!("{}{end}", map.name));
    let [rows, columns] = map.shape;
    if let Some(path) = [".xml", ".geojson", ".json"].map(at).into_iter().find(|path| path.is_file()) {
        let annotations = Annotations::open(&path)?;
        annotations.check(map.slide)?;
        let pick = Pick { include: args.classes.clone(), ..Pick::default() };
        if annotations.drawn(&pick).next().is_none() && !annotations.shapes.is_empty() {
            let classes = annotations.classes();
            return Err(Failure::new(format!(
                "{}: none of its classes {classes:?} is a tumour (--classes)",
                path.display()
            )));
        }
        return Ok(Some(annotations.mask(&Area::whole(map.slide, (columns, rows)), &pick)));
    }
    let Some(slide) = mask(&["_mask.tif", "_Mask.tif", ".tif", ".tiff"].map(at))? else { return Ok(None) };
    sampled(&slide, map).map(Some)
}

/// The number of mask pixels that are read at a time.
const BAND: usize = 32 << 20;

/// A mask on the grid of a map: the level of exactly this size, or else the next larger level, sampled
/// at the centres of the map's pixels.
fn sampled(slide: &Slide, map: &Map) -> Outcome<Vec<u8>> {
    let [rows, columns] = map.shape;
    let levels = slide.levels().iter().enumerate();
    let proportional = |width: usize, height: usize| {
        let across = width as f64 * map.slide.1 as f64 / map.slide.0 as f64;
        width >= columns && height >= rows && (across - height as f64).abs() <= 1.5
    };
    let fitting = levels
        .filter(|(_, level)| (level.width, level.height) == (columns, rows) || proportional(level.width, level.height));
    let Some((index, level)) = fitting.min_by_key(|(_, level)| level.width) else {
        let sizes: Vec<String> =
            slide.levels().iter().map(|level| format!("{} x {}", level.width, level.height)).collect();
        let (width, height) = map.slide;
        return Err(Failure::new(format!(
            "{}: it has {} pixels, which are no mask of a slide of {width} x {height} pixels, whose map has \
             {columns} x {rows}",
            slide.path().display(),
            sizes.join(", ")
        )));
    };
    let (width, height) = (level.width, level.height);
    let centre = |at: usize, of: usize, length: usize| ((2 * at + 1) * length / (2 * of)).min(length - 1);
    let mut found = Vec::with_capacity(rows * columns);
    let most = (BAND / width).max(1);
    while found.len() < rows * columns {
        let first = found.len() / columns;
        let top = centre(first, rows, height);
        let here = (first..rows).take_while(|row| centre(*row, rows, height) < top + most).count();
        let bottom = centre(first + here - 1, rows, height);
        let raster = slide.read_region(index, 0, top as i64, width, bottom + 1 - top)?;
        let (values, step) = (raster.samples.to_f32(), raster.channels.max(1));
        for row in first..first + here {
            let line = (centre(row, rows, height) - top) * width;
            let pixel = |column: usize| values[(line + centre(column, columns, width)) * step];
            found.extend((0..columns).map(|column| u8::from(pixel(column) > 0.0)));
        }
    }
    Ok(found)
}

/// The first of these files that is a mask, which is a pyramid with one channel. The slides themselves
/// may be in the same folder.
fn mask(candidates: &[PathBuf]) -> Outcome<Option<Slide>> {
    for path in candidates.iter().filter(|path| path.is_file()) {
        let slide = Slide::open(path)?;
        if slide.read_region(slide.levels().len() - 1, 0, 0, 1, 1)?.channels == 1 {
            return Ok(Some(slide));
        }
    }
    Ok(None)
}
