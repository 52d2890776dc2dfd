//! The rows of the table of writers.

use std::path::{Path, PathBuf};

use hearth_data::NiftiOptions;
use hearth_data::writers::{RegionFile, SurfaceOptions, file_part};
use hearth_recipe::text::some;
use hearth_recipe::{Context, Outcome, RecipeError, notice};
use hearth_registry::counted;
use hearth_run::folders::replace;
use hearth_run::outputs::KEY;
use serde_json::json;

use crate::cases::Case;
use crate::job::volumes::{IDENTIFIERS, MADE_BY, VOLUMES_ML};
use crate::job::{OF_PREDICTIONS, VVC, millilitres, of_predictions};
use crate::model::Kind;
use crate::writers::regions::{Regions, dicom_ending};
use crate::writers::{Holds, Need, Writer, Writing, in_format, saliency, slides, write_volume};

/// Every kind of output file of a prediction, in writing order. The result, whose ending is that of the
/// model's card in the requested format, is written last: if it exists, all other files do.
pub const WRITERS: &[Writer] = &[
    Writer {
        flag: "--probabilities",
        what: "writes the probability of each label or region",
        need: Need::Probabilities,
        holds: Holds::Numbers,
        needs_series: false,
        optional: false,
        wanted: |options, _| options.probabilities,
        endings: |_, card| card.probability_endings.iter().map(|end| (*end).to_owned()).collect(),
        write: probabilities,
    },
    Writer {
        flag: "--dicom-seg",
        what: "writes regions",
        need: Need::Labels,
        holds: Holds::Other,
        needs_series: true,
        optional: false,
        wanted: |options, _| options.dicom_seg.is_some(),
        endings: |options, _| dicom_endings(&options.dicom_seg.map(RegionFile::Segmentation)),
        write: |writing, paths| {
            let file = writing.options.dicom_seg.map(RegionFile::Segmentation);
            dicom(writing, paths, file)
        },
    },
    Writer {
        flag: "--rtstruct",
        what: "writes regions",
        need: Need::Labels,
        holds: Holds::Other,
        needs_series: true,
        optional: false,
        wanted: |options, _| options.rtstruct,
        endings: |_, _| dicom_endings(&Some(RegionFile::StructureSet)),
        write: |writing, paths| dicom(writing, paths, Some(RegionFile::StructureSet)),
    },
    Writer {
        flag: "--dicom-sr",
        what: "writes volumes of regions",
        need: Need::Labels,
        holds: Holds::Other,
        needs_series: true,
        optional: false,
        wanted: |options, _| options.dicom_sr,
        endings: |options, _| dicom_endings(&Some(RegionFile::Report(options.dicom_seg))),
        write: |writing, paths| {
            let file = RegionFile::Report(writing.options.dicom_seg);
            dicom(writing, paths, Some(file))
        },
    },
    Writer {
        flag: "--seg-nrrd",
        what: "writes regions",
        need: Need::Labels,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |options, _| options.seg_nrrd,
        endings: |_, _| vec![".seg.nrrd".to_owned()],
        write: segmentation,
    },
    Writer {
        flag: "--writer",
        what: "writes the result by a plugin",
        need: Need::Volume,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |options, _| options.writer.is_some(),
        endings: |options, card| {
            let Some(writer) = &options.writer else { return Vec::new() };
            let end = writer.endings().first().map(String::as_str);
            let main = in_format(card.ending.clone(), Holds::Result, end);
            let sides = writer.side_names(&main);
            std::iter::once(main).chain(sides).collect()
        },
        write: by_plugin,
    },
    Writer {
        flag: "--surfaces",
        what: "writes regions",
        need: Need::Labels,
        holds: Holds::Other,
        needs_series: false,
        optional: true,
        wanted: |options, _| options.surfaces.is_some(),
        endings: |options, card| {
            let end = options.surfaces.map_or("stl", |format| format.ending());
            card.labels.iter().map(|label| format!("_{}.{end}", file_part(&label.name))).collect()
        },
        write: surfaces,
    },
    Writer {
        flag: "--statistics",
        what: "measures labels",
        need: Need::Labels,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |options, _| options.statistics,
        endings: |_, _| vec!["_statistics.json".to_owned()],
        write: statistics,
    },
    Writer {
        flag: "--disagreement",
        what: "writes where the runs differ",
        need: Need::Volume,
        holds: Holds::Numbers,
        needs_series: false,
        optional: false,
        wanted: |_, card| card.kind.is_volume() && !card.maps.is_empty(),
        endings: |_, card| card.maps.iter().map(|name| format!("_{name}.nii.gz")).collect(),
        write: disagreement,
    },
    Writer {
        flag: "--disagreement",
        what: "writes where the runs differ",
        need: Need::SlideMap,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |_, card| card.kind == Kind::SlideMap && !card.maps.is_empty(),
        endings: |_, card| {
            card.maps.iter().flat_map(|name| [format!("_{name}.npy"), format!("_{name}_heat.tif")]).collect()
        },
        write: slides::disagreement,
    },
    Writer {
        flag: "",
        what: "writes detections",
        need: Need::SlideMap,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |_, card| card.kind == Kind::SlideMap,
        endings: |_, _| vec![".geojson".to_owned()],
        write: slides::detections,
    },
    Writer {
        flag: "",
        what: "writes a pyramid of the map",
        need: Need::SlideMap,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |_, card| card.kind == Kind::SlideMap,
        endings: |_, _| vec!["_heat.tif".to_owned()],
        write: slides::heat,
    },
    Writer {
        flag: "--picture",
        what: "draws the prediction",
        need: Need::Any,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |options, card| options.picture || card.kind == Kind::SlideMap,
        endings: |_, _| vec!["_picture.png".to_owned()],
        write: picture,
    },
    Writer {
        flag: "--saliency",
        what: "shows what the numbers of a whole image depend on",
        need: Need::Saliency,
        holds: Holds::Numbers,
        needs_series: false,
        optional: false,
        wanted: |options, _| options.saliency.is_some(),
        endings: |_, _| vec!["_saliency.nii.gz".to_owned()],
        write: saliency::map,
    },
    Writer {
        flag: "--saliency",
        what: "shows what the numbers of a whole image depend on",
        need: Need::Saliency,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |options, _| options.saliency.is_some(),
        endings: |_, _| vec!["_saliency.png".to_owned()],
        write: saliency::picture,
    },
    Writer {
        flag: "--uncertainty",
        what: "compares predictions of augmented images",
        need: Need::Uncertainty,
        holds: Holds::Numbers,
        needs_series: false,
        optional: false,
        wanted: |options, _| options.uncertainty,
        endings: |_, _| vec!["_std.nii.gz".to_owned()],
        write: uncertainty,
    },
    Writer {
        flag: "",
        what: "",
        need: Need::Any,
        holds: Holds::Other,
        needs_series: false,
        optional: false,
        wanted: |_, card| card.kind == Kind::SlideMap,
        endings: |_, card| vec![card.ending.clone()],
        write: slides::map,
    },
    Writer {
        flag: "",
        what: "",
        need: Need::Any,
        holds: Holds::Result,
        needs_series: false,
        optional: false,
        wanted: |_, card| card.kind.is_volume(),
        endings: |_, card| vec![card.ending.clone()],
        write: result,
    },
];

fn dicom_endings(file: &Option<RegionFile>) -> Vec<String> {
    file.iter().map(|file| dicom_ending(*file).to_owned()).collect()
}

fn result(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let [path] = paths else { return Ok(()) };
    let map = writing.map()?;
    if writing.card.kind.is_map() {
        let regions = Regions::new(map, writing.card, &writing.options.codes)?;
        let volumes = regions.volumes();
        writing.facts[VOLUMES_ML] = millilitres(&volumes);
        writing.facts[MADE_BY] = json!(writing.card.made_by);
        if writing.report.is_json() {
            writing.report.volumes(&volumes);
        }
    }
    if let Case::Series(found) = writing.case {
        let series = &found.series;
        let said = [series.patient().unwrap_or_default().to_owned(), series.study().to_owned(), series.name()];
        IDENTIFIERS.iter().zip(said).for_each(|(key, value)| writing.facts[*key] = json!(value));
    }
    writing.make(path, || map.write(path).while_doing(|| format!("cannot write {}", path.display())))?;
    writing.report.file(if writing.card.kind.is_map() { "labels" } else { "image" }, path);
    Ok(())
}

fn probabilities(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let map = writing.map()?;
    let [first, others @ ..] = paths else { return Ok(()) };
    // One call writes all of them; each has its own record.
    let write = || map.write_probabilities(paths).while_doing(|| format!("cannot write {}", first.display()));
    writing.make(first, write)?;
    others.iter().try_for_each(|path| writing.make(path, || Ok(())))?;
    writing.report.file("probabilities", first);
    others.iter().for_each(|path| writing.report.file("properties", path));
    Ok(())
}

fn dicom(writing: &mut Writing<'_, '_>, paths: &[PathBuf], file: Option<RegionFile>) -> Outcome {
    let ([path], Some(file)) = (paths, file) else { return Ok(()) };
    let (Some(series), Some(by)) = (writing.series, &writing.by) else {
        return Err(RecipeError::new("DICOM files refer to a series, and there is none"));
    };
    let regions = Regions::new(writing.map()?, writing.card, &writing.options.codes)?;
    let bytes = regions.to_dicom(file, series, by).while_doing(|| format!("cannot write {}", path.display()))?;
    if Some(&file) == writing.options.dicom_files().first() {
        let missing = regions.missing();
        if !missing.is_empty() {
            let (count, names) = (counted(missing.len(), "label"), some(&missing));
            notice!("{}: {count} without a voxel, which the DICOM files record: {names}", writing.case.name());
        }
    }
    let mut facts = writing.facts.clone();
    facts["series"] = json!(series.name());
    writing.outputs.make(path, facts, || replace(path, bytes))?;
    let kind = dicom_ending(file).trim_start_matches('_').trim_end_matches(".dcm");
    writing.report.file(&format!("dicom_{kind}"), path);
    Ok(())
}

fn segmentation(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let [path] = paths else { return Ok(()) };
    let regions = Regions::new(writing.map()?, writing.card, &writing.options.codes)?;
    let write = || regions.write_segmentation(path).while_doing(|| format!("cannot write {}", path.display()));
    writing.make(path, write)?;
    writing.report.file("seg_nrrd", path);
    Ok(())
}

fn by_plugin(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let ([path, ..], Some(writer)) = (paths, &writing.options.writer) else { return Ok(()) };
    let (image, case) = (writing.map()?.file_image()?, writing.case.stem());
    let (outputs, key) = (writing.outputs, &writing.facts[KEY]);
    // Files that the plugin did not announce could not be claimed before.
    let others = |file: &Path| outputs.check(file, key).map_err(|error| error.line());
    let mut made = Vec::new();
    writing.make(path, || {
        made = writer
            .write(path, &image, &case.to_string_lossy(), &others)
            .while_doing(|| format!("cannot write {}", path.display()))?;
        Ok(())
    })?;
    writing.report.file("plugin", path);
    // One call writes all of them; each has its own record.
    for side in made.iter().filter(|file| *file != path) {
        writing.make(side, || Ok(()))?;
        writing.report.file("plugin", side);
    }
    Ok(())
}

fn surfaces(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let Some(format) = writing.options.surfaces else { return Ok(()) };
    let regions = Regions::new(writing.map()?, writing.card, &writing.options.codes)?;
    for (place, bytes) in regions.surfaces(format.ending(), &SurfaceOptions::default())? {
        let Some(path) = paths.get(place) else { continue };
        writing.make(path, || replace(path, bytes))?;
        writing.report.file("surface", path);
    }
    Ok(())
}

fn statistics(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let [path] = paths else { return Ok(()) };
    let (map, incomplete) = (writing.map()?, writing.options.include_incomplete);
    let table = match map.statistics(incomplete) {
        Some(table) => table,
        None => {
            let image = writing.case.read_image()?;
            Regions::new(map, writing.card, &writing.options.codes)?.statistics(&image)?
        }
    };
    let cut = map.incomplete().len();
    writing.make(path, || replace(path, serde_json::to_string_pretty(&table)? + "\n"))?;
    writing.report.file("statistics", path);
    if cut > 0 && !incomplete {
        let (found, verb) = (hearth_registry::counted(cut, "structure"), if cut == 1 { "is" } else { "are" });
        let what = "near the image's border, and may be cut: 0 in the statistics";
        notice!("{}: {found} {verb} {what} (--stats-include-incomplete measures all)", writing.case.name());
    }
    Ok(())
}

fn disagreement(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let options = NiftiOptions::default().description(&writing.card.made_by);
    for (path, (name, map)) in paths.iter().zip(writing.map()?.disagreement()) {
        let doing = || format!("cannot write {}", path.display());
        writing.make(path, || write_volume(path, map, options.clone()).while_doing(doing))?;
        writing.report.file(name, path);
    }
    Ok(())
}

fn picture(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let ([path], Some(drawn)) = (paths, writing.picture.take()) else { return Ok(()) };
    let file = drawn?;
    writing.make(path, || replace(path, file))?;
    writing.report.file("picture", path);
    Ok(())
}

fn uncertainty(writing: &mut Writing<'_, '_>, paths: &[PathBuf]) -> Outcome {
    let ([path], Some(found)) = (paths, writing.map()?.uncertainty()) else { return Ok(()) };
    let options = NiftiOptions::default().description(&writing.card.made_by);
    let volumes = match writing.card.kind.is_map() {
        true => Regions::new(writing.map()?, writing.card, &writing.options.codes)?.volumes(),
        false => Vec::new(),
    };
    let mut facts = writing.facts.clone();
    facts[VVC] = json!(found.vvc);
    facts[OF_PREDICTIONS] = of_predictions(&volumes, found);
    let write = || write_volume(path, &found.std, options).while_doing(|| format!("cannot write {}", path.display()));
    writing.outputs.make(path, facts, write)?;
    writing.report.uncertainty(path, found, &volumes);
    Ok(())
}
