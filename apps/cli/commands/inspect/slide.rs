//! `hearth data inspect` of a whole-slide image: levels, resolution, compression.

use std::path::Path;

use hearth_data::slides::{Slide, TiffFile};
use serde_json::{Value, json};

use super::facts::{Facts, Hide};
use crate::table::{self, Lean};
use crate::terminal::bytes;

/// The facts of a slide.
pub fn facts(path: &Path, slide: &Slide, hide: &Hide) -> Facts {
    let mut facts = Facts::new(hide.name(), &format!("a slide ({})", slide.vendor()));
    if let Some(size) = path.metadata().ok().filter(std::fs::Metadata::is_file).map(|facts| facts.len()) {
        facts.add("bytes", bytes(size), "bytes", size);
    }
    facts.value("vendor", slide.vendor());
    let (width, height) = slide.dimensions();
    facts.add("size", format!("{width} x {height} pixels"), "size", json!([width, height]));
    let mpp = slide.mpp().map_or_else(|| "not stated".to_owned(), |[x, y]| format!("{x:.4} x {y:.4} um per pixel"));
    facts.add("mpp", mpp, "mpp", json!(slide.mpp()));
    let power = slide.objective_power().map_or_else(|| "not stated".to_owned(), |power| format!("{power}x"));
    facts.add("power", power, "objective_power", json!(slide.objective_power()));
    let file = TiffFile::open(path).ok();
    let pages = file.as_ref().map(|file| file.pages()).unwrap_or_default();
    if let Some(first) = pages.iter().find(|page| (page.width, page.height) == (width, height)) {
        let sample = first.sample.map_or("not supported", |sample| sample.name());
        facts.add("stored", format!("{} x {sample}", first.channels), "stored_type", sample);
        facts.value("channels", first.channels);
    }
    let mut rows = Vec::new();
    let mut levels = Vec::new();
    for (number, level) in slide.levels().iter().enumerate() {
        let compression = slide.compression(number);
        rows.push(vec![
            number.to_string(),
            format!("{} x {}", level.width, level.height),
            format!("{:.3}", level.downsample),
            format!("{} x {}", level.tile_width, level.tile_height),
            compression.clone().unwrap_or_else(|| "-".to_owned()),
        ]);
        levels.push(json!({ "width": level.width, "height": level.height, "downsample": level.downsample,
            "tile": [level.tile_width, level.tile_height], "compression": compression }));
    }
    facts.value("levels", levels);
    let columns = [
        ("level", Lean::Right),
        ("pixels", Lean::Right),
        ("downsample", Lean::Right),
        ("tile", Lean::Right),
        ("compression", Lean::Left),
    ];
    table::lines(&columns, &rows).iter().for_each(|line| facts.list(format!("  {line}")));
    let names = slide.associated_names();
    let text = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    facts.add("others", text, "associated", names);
    if hide.shows_identifiers() {
        facts.value("properties", serde_json::to_value(slide.properties()).unwrap_or(Value::Null));
        for (name, value) in slide.properties() {
            facts.list(format!("    {name} = {value}"));
        }
    }
    // A damaged tile shows in its pixels alone.
    if let Some(last) = slide.levels().last()
        && let Err(error) = slide.read_region(slide.levels().len() - 1, 0, 0, last.width.min(256), last.height.min(256))
    {
        facts.end(hide.text(&format!("error: {error}")));
    }
    facts
}
