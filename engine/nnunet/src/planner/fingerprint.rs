//! The fingerprint of a data set: sizes, spacings and intensities of its training cases.

use rand_mt::Mt;
use serde_json::{Map, Value, json};

use super::{Fingerprint, median, percentile};
use crate::error::{NnunetError, Result};
use crate::pairwise::mean_and_std;
use crate::preprocess::nonzero;
use crate::volume::{Axes3, Volume};

/// The number of intensities drawn from all cases together.
const DRAWS: usize = 100_000_000;

/// The seed of each case's draws.
const SEED: u32 = 1234;

/// Collects a fingerprint, one case at a time.
pub struct Fingerprinting {
    cases: usize,
    found: Fingerprint,
    /// Drawn foreground intensities, by channel.
    intensities: Vec<Vec<f32>>,
    shares: Vec<f64>,
}

impl Fingerprinting {
    /// Starts a fingerprint of this number of cases.
    pub fn new(cases: usize) -> Self {
        let found = Fingerprint {
            spacings: Vec::new(),
            shapes_after_crop: Vec::new(),
            intensities: Map::new(),
            relative_size_after_cropping: 1.0,
        };
        Fingerprinting { cases: cases.max(1), found, intensities: Vec::new(), shares: Vec::new() }
    }

    /// Adds a case: an image and its labels, of the same size. Voxels of the ignore label count as
    /// foreground, as in nnU-Net.
    ///
    /// # Errors
    /// Labels of another size, or a number of channels that differs from earlier cases.
    pub fn add(&mut self, image: &Volume, spacing: Axes3<f64>, labels: &Volume<u16>) -> Result<()> {
        if labels.shape != image.shape {
            let what = format!("the image has {:?} voxels (z, y, x), its labels {:?}", image.shape, labels.shape);
            return Err(NnunetError::case(what));
        }
        if self.intensities.is_empty() {
            self.intensities = vec![Vec::new(); image.channels];
        }
        if self.intensities.len() != image.channels {
            let what = format!("it has {} channels, the cases before {}", image.channels, self.intensities.len());
            return Err(NnunetError::case(what));
        }
        let (bounds, _) = nonzero(image)?;
        let shape = bounds.shape();
        let foreground: Vec<usize> = (0..labels.data.len()).filter(|at| labels.data[*at] > 0).collect();
        // Foreground in the margin of zeros is removed with the margin.
        let foreground: Vec<usize> = match shape == image.shape {
            true => foreground,
            false => foreground.into_iter().filter(|at| bounds.holds(*at, image.shape)).collect(),
        };
        let mut random = Mt::new(SEED);
        if !foreground.is_empty() {
            for (channel, drawn) in self.intensities.iter_mut().enumerate() {
                let values = image.channel(channel);
                let draws = (0..DRAWS / self.cases).map(|_| values[foreground[below(&mut random, foreground.len())]]);
                drawn.extend(draws);
            }
        }
        let voxels = |shape: Axes3| shape.iter().product::<usize>() as f64;
        self.shares.push(voxels(shape) / voxels(image.shape));
        self.found.spacings.push(spacing);
        self.found.shapes_after_crop.push(shape);
        Ok(())
    }

    /// Computes the fingerprint of all cases.
    pub fn finish(mut self) -> Fingerprint {
        for (channel, values) in self.intensities.into_iter().enumerate() {
            self.found.intensities.insert(channel.to_string(), statistics(values));
        }
        self.found.relative_size_after_cropping = median(self.shares);
        self.found
    }
}

fn statistics(mut values: Vec<f32>) -> Value {
    if values.is_empty() {
        let none = Value::Null;
        return json!({"mean": none, "median": none, "std": none, "min": none, "max": none,
            "percentile_99_5": none, "percentile_00_5": none});
    }
    let (mean, std) = mean_and_std(&values, values.len());
    rayon::slice::ParallelSliceMut::par_sort_unstable_by(&mut values[..], f32::total_cmp);
    let share = |share: f64| percentile(|at| f64::from(values[at]), values.len(), share);
    json!({
        "mean": f64::from(mean), "median": share(50.0), "std": f64::from(std),
        "min": f64::from(values[0]), "max": f64::from(values[values.len() - 1]),
        "percentile_99_5": share(99.5), "percentile_00_5": share(0.5),
    })
}

/// Draws an integer below `count` as numpy's `RandomState` does: masked words of 32 bits, until one
/// is in range.
fn below(random: &mut Mt, count: usize) -> usize {
    let most = (count - 1) as u32;
    if most == 0 {
        return 0;
    }
    let mask = u32::MAX >> most.leading_zeros();
    loop {
        let word = random.next_u32() & mask;
        if word <= most {
            return word as usize;
        }
    }
}

/// Splits cases into five folds, `splits_final.json`, with scikit-learn's `KFold` and the seed 12345.
///
/// # Errors
/// Fewer cases than folds.
pub fn splits(cases: &[String]) -> Result<Value> {
    const FOLDS: usize = 5;
    if cases.len() < FOLDS {
        return Err(NnunetError::case(format!("{} cases are too few for {FOLDS} folds", cases.len())));
    }
    let mut sorted = cases.to_vec();
    sorted.sort_unstable();
    let mut order: Vec<usize> = (0..sorted.len()).collect();
    let mut random = Mt::new(12_345);
    for last in (1..order.len()).rev() {
        order.swap(last, below(&mut random, last + 1));
    }
    let mut first = 0;
    let folds = (0..FOLDS).map(|fold| {
        let count = sorted.len() / FOLDS + usize::from(fold < sorted.len() % FOLDS);
        let mut held: Vec<usize> = order[first..first + count].to_vec();
        first += count;
        held.sort_unstable();
        let names = |wanted: bool| -> Vec<&String> {
            let all = (0..sorted.len()).filter(|case| held.binary_search(case).is_ok() == wanted);
            all.map(|case| &sorted[case]).collect()
        };
        json!({"train": names(false), "val": names(true)})
    });
    Ok(Value::Array(folds.collect()))
}

impl Fingerprint {
    /// The content of `dataset_fingerprint.json`.
    pub fn json(&self) -> Value {
        json!({
            "foreground_intensity_properties_per_channel": self.intensities,
            "median_relative_size_after_cropping": self.relative_size_after_cropping,
            "shapes_after_crop": self.shapes_after_crop,
            "spacings": self.spacings,
        })
    }
}
