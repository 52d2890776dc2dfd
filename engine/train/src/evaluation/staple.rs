//! STAPLE: estimates the hidden truth and the quality of each rater together (Warfield, Zou, Wells,
//! <https://doi.org/10.1109/TMI.2004.828354>).

use rayon::prelude::*;

use super::combine::CombineError;

/// The maximum number of passes.
const PASSES: usize = 500;

/// The largest squared change of a rater's quality that counts as converged.
const STILL: f64 = 1e-14;

/// The STAPLE estimate of one structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Staple {
    /// The probability of each voxel to be foreground.
    pub probability: Vec<f64>,
    /// The fraction of the foreground that each rater marks; NaN where no rater marks any voxel.
    pub sensitivity: Vec<f64>,
    /// The fraction of the background that each rater leaves unmarked; NaN where every rater marks
    /// all voxels.
    pub specificity: Vec<f64>,
}

/// Runs STAPLE on binary decisions, `raters[rater][voxel]`, by expectation maximization as ITK's
/// `STAPLEImageFilter` does: the first estimate is the raters' mean, and the prior is that
/// estimate's mean over the voxels. Voxels are independent: there is no spatial prior.
///
/// ```
/// # use hearth_train::staple;
/// let good = [true, true, false, false, false];
/// let bad = [false, true, true, true, false];
/// let found = staple(&[&good, &good, &bad])?;
/// assert!(found.probability[0] > 0.9 && found.probability[3] < 0.1);
/// assert!(found.sensitivity[0] > found.sensitivity[2]);
/// # Ok::<(), hearth_train::CombineError>(())
/// ```
///
/// # Errors
/// Where there is no rater, or the numbers of voxels differ.
pub fn staple(raters: &[&[bool]]) -> Result<Staple, CombineError> {
    let count = raters.first().ok_or(CombineError::Empty)?.len();
    if let Some(index) = raters.iter().position(|rater| rater.len() != count) {
        let shape = |voxels| [1, 1, voxels, 1, 1];
        return Err(CombineError::Shape { index, found: shape(raters[index].len()), expected: shape(count) });
    }
    let members = raters.len() as f64;
    let mut likely: Vec<f64> = (0..count)
        .into_par_iter()
        .map(|voxel| raters.iter().filter(|rater| rater[voxel]).count() as f64 / members)
        .collect();
    let prior = likely.iter().sum::<f64>() / count as f64;
    let nobody = vec![f64::NAN; raters.len()];
    // There is nothing to estimate where all raters mark no voxel, or every voxel.
    if count == 0 || prior == 0.0 || prior == 1.0 {
        let all = vec![1.0; raters.len()];
        let (sensitivity, specificity) = if prior == 1.0 { (all, nobody) } else { (nobody, all) };
        return Ok(Staple { probability: likely, sensitivity, specificity });
    }
    let (mut sensitivity, mut specificity) = (nobody.clone(), nobody);
    for _ in 0..PASSES {
        let mass: f64 = likely.iter().sum();
        let rest = count as f64 - mass;
        let quality = |rater: &&[bool]| {
            let (mut found, mut left) = (0.0, 0.0);
            for (marked, weight) in rater.iter().zip(&likely) {
                if *marked { found += weight } else { left += 1.0 - weight }
            }
            (found / mass, left / rest)
        };
        let (p, q): (Vec<f64>, Vec<f64>) = raters.par_iter().map(quality).unzip();
        likely.par_iter_mut().enumerate().for_each(|(voxel, weight)| {
            let (mut inside, mut outside) = (prior, 1.0 - prior);
            for (rater, (p, q)) in raters.iter().zip(p.iter().zip(&q)) {
                let (a, b) = if rater[voxel] { (*p, 1.0 - q) } else { (1.0 - p, *q) };
                inside *= a;
                outside *= b;
            }
            // Both are 0 only where every rater is certain, and one of them is wrong.
            if inside + outside > 0.0 {
                *weight = inside / (inside + outside);
            }
        });
        let moved = |new: &[f64], old: &[f64]| new.iter().zip(old).any(|(a, b)| !((a - b) * (a - b) <= STILL));
        let still = !moved(&p, &sensitivity) && !moved(&q, &specificity);
        (sensitivity, specificity) = (p, q);
        let certain = likely.iter().sum::<f64>();
        if still || certain <= 0.0 || certain >= count as f64 {
            break;
        }
    }
    Ok(Staple { probability: likely, sensitivity, specificity })
}
