//! `hearth lr-find`: a learning rate range test.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hearth_train::{RangeError, RangePoint, RangeResult, RangeTest, StepMode};
use serde_json::json;

use crate::error::{Failure, Outcome};
use crate::folders;
use crate::interrupt;
use crate::picture::{Axis, Plot, save};
use crate::recipe::bundled;
use crate::run::{Start, trainer};
use crate::terminal::bold;
use crate::{note, out};

/// Arguments of `hearth lr-find`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bundled recipe (`hearth recipes list`) or a TOML file
    #[arg(value_name = "RECIPE")]
    pub recipe: String,
    /// The data set, in any layout that `hearth train` takes
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The output folder, for lr-find.png, lr-find.csv and lr-find.json; new or empty
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// The learning rate of the first step
    #[arg(long, value_name = "LR", default_value_t = RangeTest::default().start_lr)]
    pub start_lr: f64,
    /// The learning rate of the last step, unless the loss diverges earlier
    #[arg(long, value_name = "LR", default_value_t = RangeTest::default().end_lr)]
    pub end_lr: f64,
    /// The number of steps
    #[arg(long, value_name = "N", default_value_t = RangeTest::default().num_iter)]
    pub num_iter: usize,
    /// How the rate rises
    #[arg(long, value_name = "HOW", default_value = "exp")]
    pub mode: Mode,
    /// The weight of the newest loss in the smoothed loss; 0 for no smoothing
    #[arg(long, value_name = "PART", default_value_t = RangeTest::default().smooth_f)]
    pub smooth: f64,
    /// Stop when the smoothed loss exceeds this many times its lowest value
    #[arg(long, value_name = "TIMES", default_value_t = RangeTest::default().diverge_th)]
    pub diverge: f64,
    /// The number of points at the start that the suggestion ignores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_start: usize,
    /// The number of points at the end that the suggestion ignores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip_end: usize,
    /// The device to compute on: cpu, cuda:0, vulkan, rocm:0, metal, auto
    #[arg(long)]
    pub device: Option<String>,
    /// Time to spend on choosing GPU kernels, in place of the recipe's: off, quick, full or auto
    #[arg(long, value_name = "HOW")]
    pub tune: Option<String>,
    /// Change one value of the recipe, such as training.batch_size=4
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
}

/// How the learning rate rises.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Mode {
    /// By the same factor each step
    Exp,
    /// By the same amount each step
    Linear,
}

/// Runs the range test and writes the curve.
pub fn run(args: &Args) -> Outcome {
    let options = RangeTest {
        start_lr: args.start_lr,
        end_lr: args.end_lr,
        num_iter: args.num_iter,
        step_mode: match args.mode {
            Mode::Exp => StepMode::Exp,
            Mode::Linear => StepMode::Linear,
        },
        smooth_f: args.smooth,
        diverge_th: args.diverge,
    };
    options.check().map_err(of_option)?;
    let mut document = bundled::open(&args.recipe)?;
    if let Some(device) = &args.device {
        document.set_option("--device", "training.device", device)?;
    }
    if let Some(tune) = &args.tune {
        document.set_option("--tune", "training.tune", tune)?;
    }
    args.sets.iter().try_for_each(|set| document.set(set))?;
    let plan = crate::terminal::plan(document)?;
    interrupt::listen()?;
    let _reserved = folders::Reserved::new(&args.out)?;
    let mut trainer = trainer(&plan, &args.data, Start::Init)?;
    let mut step = 0;
    let found = trainer.find_learning_rate(&options, |point| {
        step += 1;
        if step % 10 == 0 {
            note!("step {step}/{}  learning rate {:.2e}  loss {:.4}", options.num_iter, point.lr, point.loss);
        }
    })?;
    let suggested = found.steepest_gradient(args.skip_start, args.skip_end);
    write(&args.out, &plan.recipe.title(), &options, &found, suggested)?;
    if found.diverged {
        let last = found.points.last().map_or(options.start_lr, |point| point.lr);
        out!("the loss diverged after {} steps, at learning rate {last:.2e}", found.points.len());
    }
    let Some(RangePoint { lr, loss, .. }) = suggested else {
        return Err(Failure::new(format!(
            "{} points are too few to find where the loss falls fastest: start lower (--start-lr), or skip fewer points",
            found.points.len()
        )));
    };
    out!("{}", bold(&format!("the loss falls fastest at learning rate {lr:.2e} (loss {loss:.4})")));
    out!("curve  {}", args.out.join(PICTURE).display());
    note!("next: hearth train {} --data {} --set optimizer.lr={lr:.1e} ...", args.recipe, args.data.display());
    Ok(())
}

const PICTURE: &str = "lr-find.png";

/// The highest loss to draw: somewhat above the highest loss before the minimum. The diverging part is
/// many times higher, and would flatten the part from which a rate is chosen.
fn useful(curve: &[(f64, f64)]) -> Option<f64> {
    let known = || curve.iter().enumerate().filter(|(_, (_, loss))| loss.is_finite());
    let (lowest, (_, low)) = known().min_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    let before = known().take_while(|(place, _)| *place <= lowest).map(|(_, (_, loss))| *loss);
    let high = before.fold(*low, f64::max);
    // A curve that only rises is drawn in full.
    (high > *low).then_some(high + 0.25 * (high - low))
}

/// The error of an option of the range test, by the option of this command.
fn of_option(error: RangeError) -> Failure {
    match error {
        RangeError::Option { name, value, expected } => {
            let option = match name {
                "smooth_f" => "smooth".to_owned(),
                "diverge_th" => "diverge".to_owned(),
                other => other.replace('_', "-"),
            };
            let expected = expected.replace("start_lr", "--start-lr");
            Failure::new(format!("--{option} {value}: expected {expected}"))
        }
        other => other.into(),
    }
}

fn write(out: &Path, task: &str, options: &RangeTest, found: &RangeResult, suggested: Option<RangePoint>) -> Outcome {
    let smoothed: Vec<(f64, f64)> = found.points.iter().map(|point| (point.lr, point.loss)).collect();
    let raw: Vec<(f64, f64)> = found.points.iter().map(|point| (point.lr, point.raw_loss)).collect();
    let x_axis = if options.step_mode == StepMode::Exp { Axis::Log } else { Axis::Linear };
    let plot = Plot {
        title: &format!("{task}: loss over learning rate"),
        x_label: "learning rate",
        y_label: "loss",
        legend: ["smoothed", "each step"],
        x_axis,
        y_range: None,
        y_most: useful(&smoothed),
        curve: &smoothed,
        points: &raw,
        mark: suggested.map(|point| ((point.lr, point.loss), format!("falls fastest at {:.1e}", point.lr))),
    };
    save(&plot.draw(), &out.join(PICTURE))?;
    let rows = found.points.iter().map(|point| format!("{},{},{}\n", point.lr, point.loss, point.raw_loss));
    let csv: String = std::iter::once("learning_rate,loss,raw_loss\n".to_owned()).chain(rows).collect();
    let text = |name: &str, text: String| {
        let path = out.join(name);
        Ok(folders::replace(&path, text)?)
    };
    text("lr-find.csv", csv)?;
    let whole =
        json!({ "options": options, "diverged": found.diverged, "suggestion": suggested, "points": found.points });
    text("lr-find.json", serde_json::to_string_pretty(&whole)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::useful;

    #[test]
    fn a_divergence_does_not_decide_the_scale() {
        let curve = |losses: &[f64]| losses.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect::<Vec<_>>();
        assert_eq!(useful(&curve(&[1.4, 1.5, 1.3, 0.5, 2.0, 80.0])), Some(1.75));
        assert_eq!(useful(&curve(&[1.0, 2.0, f64::NAN, 3.0])), None);
        assert_eq!(useful(&[]), None);
    }
}
