//! The pictures of the ladder: seconds of an epoch as bars, the key metric over seconds as curves.

use std::path::Path;

use super::record::Settings;
use super::table::Row;
use crate::error::Outcome;
use crate::picture::{Axis, Bar, Curve, Curves, bars, save};
use crate::terminal::seconds;

/// The picture of the times of an epoch.
pub const EPOCHS: &str = "ladder.png";
/// The picture of the key metric over seconds.
pub const DICE: &str = "ladder-dice.png";

/// Draws both pictures into a folder.
pub fn write(folder: &Path, settings: &Settings, rows: &[Row]) -> Outcome {
    let recipe = &settings.recipe;
    save(&bars(&format!("{recipe}: time per epoch"), &rows.iter().map(bar).collect::<Vec<_>>()), &folder.join(EPOCHS))?;
    let curves: Vec<Curve> = rows.iter().flat_map(curves).collect();
    let metric = rows.iter().flat_map(|row| &row.records).map(|record| record.metric.clone()).next();
    let picture = Curves {
        title: &format!("{recipe}: the course of each row"),
        x_label: "seconds since the start, with preparation and validations",
        y_label: &metric.unwrap_or_else(|| "dice".to_owned()),
        x_axis: Axis::Log,
        curves: &curves,
        level: Some(settings.target),
    };
    Ok(save(&picture.draw(), &folder.join(DICE))?)
}

fn bar(row: &Row) -> Bar {
    let medians = row.medians();
    let text = medians.as_ref().map_or_else(
        || "skipped".to_owned(),
        |medians| {
            let hit = medians.to_target.map(|hit| format!("target in {}", seconds(hit)));
            format!("{}, {}", seconds(medians.epoch), hit.unwrap_or_else(|| "target not reached".to_owned()))
        },
    );
    Bar { name: row.title(), value: medians.map_or(0.0, |medians| medians.epoch), text }
}

/// A curve for each training.
fn curves(row: &Row) -> impl Iterator<Item = Curve> + '_ {
    row.records.iter().map(|record| {
        let points = record.curve.iter().map(|point| (point.seconds, point.value.unwrap_or(f64::NAN)));
        Curve { name: row.title(), points: points.collect() }
    })
}
