//! Measures reading regions of a whole-slide image at random places, as training reads patches.

use hearth_data::DrawKey;
use hearth_data::slides::Slide;
use rayon::prelude::*;
use serde_json::json;

use super::{Args, file_name, say, timed};
use crate::error::Outcome;

/// The number of regions in one run.
const REGIONS: usize = 256;

/// Runs the benchmark. The slide is opened again for each run, so that no tile is cached.
pub fn run(args: &Args) -> Outcome {
    let path = args.file(0, "a slide: hearth bench tiles SLIDE.svs")?;
    let side = args.patch.unwrap_or(256) as usize;
    let (width, height) = Slide::open(path)?.dimensions();
    let draw = DrawKey::new(args.seed(), 0, 0).draw("tiles", 0, 0);
    let place = |length: usize| draw.below(length.saturating_sub(side).max(1) as u64) as i64;
    let places: Vec<(i64, i64)> = (0..REGIONS).map(|_| (place(width), place(height))).collect();
    let times = timed(args.runs(), 1, || {
        let slide = Slide::open(path)?;
        places.par_iter().try_for_each(|(x, y)| slide.read_region(0, *x, *y, side, side).map(|_| ()))?;
        Ok(())
    })?;
    say(
        args,
        json!({
            "bench": "tiles", "file": file_name(path), "patch": side, "regions": REGIONS,
            "seconds": times.median, "min": times.min, "max": times.max,
        }),
    )
}
