//! `hearth demo gan`: from generated pictures to a network that generates similar ones.

use std::path::Path;
use std::time::Instant;

use hearth_data::{Image, phantom, read_image};
use serde_json::json;

use crate::commands::demo::Args;
use crate::commands::train;
use crate::error::{Context, Outcome};
use crate::folders;
use crate::interrupt;
use crate::picture::{Canvas, save};
use crate::run::Session;
use crate::terminal::{bold, progress, seconds};
use crate::{note, out};
use hearth_models::run::{Opening, Trained};

/// The number of pictures for training, of held-out pictures, and of generated pictures.
const PICTURES: usize = 512;
const HELD: usize = 128;
const MADE: usize = 128;

/// The maximum energy distance, as a share of that of the mean picture.
const MOST: f64 = 0.7;

/// Generates pictures, trains, generates with the network, measures and draws.
///
/// # Errors
/// A step that fails, or a network that has learned less than it should.
pub fn run(args: &Args) -> Outcome {
    let start = Instant::now();
    folders::check_path("--out", &args.out)?;
    interrupt::listen()?;
    let _reserved = folders::Reserved::new(&args.out)?;
    let at = |name: &str| args.out.join(name);
    let (data, held, run) = (at("data"), at("held"), at("run"));
    let plan = crate::terminal::plan(args.document("demo-gan")?)?;

    out!(
        "{}",
        bold(&format!("1/4  {PICTURES} radiographs of hands, and {HELD} to compare with -> {}", data.display()))
    );
    let options = phantom::HandsOptions::default().progress(progress());
    for (folder, count, seed) in [(&data, PICTURES, args.seed), (&held, HELD, !args.seed)] {
        phantom::hands(folder, count, &options.clone().seed(seed))
            .while_doing(|| format!("cannot make the pictures in {}", folder.display()))?;
    }

    let epochs = plan.recipe.training.epochs;
    let networks = "a generator and a discriminator";
    out!("{}", bold(&format!("2/4  training {networks} for {epochs} epochs -> {}", run.display())));
    let mut session = Session::new(plan, &data, &[])?;
    interrupt::running(session.interrupt_flag());
    session.start(&run)?;
    train::finish(&mut session)?;

    out!("{}", bold(&format!("3/4  {MADE} pictures from random numbers, and those it has not seen")));
    let opening = Opening { tune: args.tune.as_deref(), ..Opening::new("best", &args.device) };
    let trained = Trained::open_with(&folders::open_run(&run)?, opening)?;
    let made: Vec<Vec<f32>> =
        (0..MADE as u64).map(|index| Ok(values(&trained.generate(args.seed, index)?, 1.0))).collect::<Outcome<_>>()?;
    let (learned_from, unseen) = (pictures(&data)?, pictures(&held)?);
    let found = energy_distance(&made, &unseen);
    let of_mean = energy_distance(&[mean(&learned_from)], &unseen);
    let of_real = energy_distance(&learned_from[..MADE], &unseen);
    out!("energy distance  {found:.3}; of other real pictures {of_real:.3}, of their mean {of_mean:.3}");

    let picture = at("generated.png");
    out!("{}", bold(&format!("4/4  real pictures above, generated ones below -> {}", picture.display())));
    let side = phantom::HandsOptions::default().size;
    save(&grid(&[&learned_from[..2 * ACROSS], &made[..4 * ACROSS]], side), &picture)?;
    let spent = start.elapsed().as_secs_f64();
    let summary = json!({
        "energy_distance": found, "of_real_pictures": of_real, "of_the_mean_picture": of_mean, "seconds": spent,
    });
    folders::replace(&at("summary.json"), serde_json::to_string_pretty(&summary)? + "\n")?;
    let share = found / of_mean;
    out!("{}", bold(&format!("{:.0} % of the mean picture's distance, in {}", 100.0 * share, seconds(spent))));
    args.check(share <= MOST, || {
        format!("the distance is {:.0} %, expected at most {} %", 100.0 * share, 100.0 * MOST)
    })?;
    note!(
        "next: hearth predict {} --count 100 -o pictures; hearth train gan --data MedNIST/Hand --out runs/gan",
        run.display()
    );
    Ok(())
}

/// The number of pictures in a row of the grid.
const ACROSS: usize = 8;

/// The pixels of a picture, from 0 to 1, rows one below the other.
fn values(image: &Image, white: f32) -> Vec<f32> {
    let (values, [width, height, _]) = (image.to_vec(), image.shape());
    // Pictures are stored column by column.
    (0..width * height).map(|i| values[i % width * height + i / width] / white).collect()
}

/// The pictures in a folder, in the order of their names.
fn pictures(folder: &Path) -> Outcome<Vec<Vec<f32>>> {
    let doing = || format!("cannot read {}", folder.display());
    let entries = std::fs::read_dir(folder).while_doing(doing)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().while_doing(doing)?;
    paths.sort_unstable();
    let read = |path: &std::path::PathBuf| {
        Ok(values(&read_image(path).while_doing(|| format!("cannot read {}", path.display()))?, 255.0))
    };
    paths.iter().map(read).collect()
}

fn mean(pictures: &[Vec<f32>]) -> Vec<f32> {
    let count = pictures.len() as f32;
    (0..pictures.first().map_or(0, Vec::len)).map(|i| pictures.iter().map(|p| p[i]).sum::<f32>() / count).collect()
}

/// The energy distance of two samples: twice the mean distance between them, minus the mean distance
/// within each (Székely and Rizzo 2013, <https://doi.org/10.1016/j.jspi.2013.03.018>). It is 0 for
/// equal samples, and large if all pictures are alike, however good each of them is.
fn energy_distance(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    let distance = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(x - y).powi(2)).sum::<f64>().sqrt();
    let mean = |a: &[Vec<f32>], b: &[Vec<f32>]| {
        let all = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
        all.map(|(x, y)| distance(x, y)).sum::<f64>() / (a.len() * b.len()) as f64
    };
    2.0 * mean(a, b) - mean(a, a) - mean(b, b)
}

/// Rows of pictures at twice their size; each group starts a new row.
fn grid(groups: &[&[Vec<f32>]], side: usize) -> Canvas {
    const GAP: usize = 4;
    let (cell, gap) = (2 * side + GAP, 3 * GAP);
    let rows: usize = groups.iter().map(|group| group.len().div_ceil(ACROSS)).sum();
    let height = rows * cell + groups.len().saturating_sub(1) * gap + GAP;
    let mut canvas = Canvas::new(ACROSS * cell + GAP, height, [48; 3]);
    let mut top = GAP;
    for group in groups {
        for (index, picture) in group.iter().enumerate() {
            let (left, top) = (GAP + index % ACROSS * cell, top + index / ACROSS * cell);
            for (i, value) in picture.iter().enumerate() {
                let grey = [(value.clamp(0.0, 1.0) * 255.0).round() as u8; 3];
                canvas.fill(left + 2 * (i % side), top + 2 * (i / side), 2, 2, grey);
            }
        }
        top += group.len().div_ceil(ACROSS) * cell + gap;
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_energy_distance_is_its_closed_form() {
        let points = |values: &[f32]| values.iter().map(|v| vec![*v, 0.0]).collect::<Vec<_>>();
        assert_eq!(energy_distance(&points(&[0.0]), &points(&[3.0])), 6.0);
        assert_eq!(energy_distance(&points(&[0.0, 2.0]), &points(&[0.0, 2.0])), 0.0);
        // Within the first sample 1, between them 2, within the second 0.
        assert_eq!(energy_distance(&points(&[0.0, 2.0]), &points(&[3.0])), 2.0 * 2.0 - 1.0);
    }

    #[test]
    fn the_mean_is_far_from_what_it_is_the_mean_of() {
        let options = phantom::HandsOptions::default().size(16);
        let hands: Vec<Vec<f32>> = (0..80).map(|case| values(&phantom::hands_case(case, &options), 1.0)).collect();
        let of_mean = energy_distance(&[mean(&hands)], &hands);
        assert!(energy_distance(&hands[..40], &hands[40..]) < 0.5 * of_mean);
    }
}
