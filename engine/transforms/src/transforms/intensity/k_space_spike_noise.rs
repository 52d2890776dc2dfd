use hearth_image::{Image, OneOrMany, TransformError};
use hearth_registry::Fault;
use realfft::num_complex::Complex64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fourier::{Spectrum, add_wave, coefficient};
use super::ranges::check_finite;
use super::values::on_host;
use crate::params::Keys;

/// Adds spikes in k-space, which appear as herringbone patterns.
///
/// `loc` is a position in the spectrum with frequency 0 in its centre, `[x, y, z]` for all channels
/// or `[channel, x, y, z]` for one, or a list of such positions. `k_intensity` is the logarithm of
/// the magnitude there: a number for one position, a list for a list. The default is 2.5 times the
/// mean logarithm of each channel; the entries of a list of positions get those of the channels in
/// order, as in MONAI. Runs on the CPU.
///
/// ```
/// # use hearth_transforms::{tiny, transforms::KSpaceSpikeNoise};
/// let step = KSpaceSpikeNoise::new("image", vec![6, 0, 0]).k_intensity(Some(3.0.into()));
/// let values = tiny::apply(step, tiny::line([1.0; 8]))?.to_vec();
/// assert!(values.iter().any(|value| (value - values[0]).abs() > 0.1));
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KSpaceSpikeNoise {
    keys: Keys,
    /// Position of the spike in frequencies, `[x, y, z]` or `[channel, x, y, z]`, or several.
    loc: SpikeLocation,
    #[serde(default)]
    k_intensity: Option<OneOrMany<f64>>,
    #[serde(default)]
    allow_missing_keys: bool,
}

/// One position of the spectrum, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a position of whole numbers, or a list of them")]
pub enum SpikeLocation {
    /// One position.
    One(Vec<usize>),
    /// Several positions.
    Many(Vec<Vec<usize>>),
}

impl From<Vec<usize>> for SpikeLocation {
    fn from(place: Vec<usize>) -> Self {
        SpikeLocation::One(place)
    }
}

impl From<Vec<Vec<usize>>> for SpikeLocation {
    fn from(places: Vec<Vec<usize>>) -> Self {
        SpikeLocation::Many(places)
    }
}

impl SpikeLocation {
    fn places(&self) -> &[Vec<usize>] {
        match self {
            SpikeLocation::One(place) => std::slice::from_ref(place),
            SpikeLocation::Many(places) => places,
        }
    }
}

/// One spike: channel, position, logarithm of the magnitude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spike {
    pub channel: usize,
    pub place: [usize; 3],
    pub intensity: f64,
}

impl KSpaceSpikeNoise {
    /// Creates the transform: a spike at this position, with 2.5 times the mean logarithm.
    pub fn new(keys: impl Into<Keys>, loc: impl Into<SpikeLocation>) -> Self {
        KSpaceSpikeNoise { keys: keys.into(), loc: loc.into(), k_intensity: None, allow_missing_keys: false }
    }

    /// Changes one image.
    ///
    /// # Errors
    /// If a position lies outside the image or has a wrong number of axes.
    pub fn spike(&self, image: Image) -> Result<Image, TransformError> {
        self.check_parameters().map_err(|e| TransformError::new(e.to_string()))?;
        let (n, channels, shape) = (image.meta.spatial_dims, image.channels(), image.shape());
        let means = match self.k_intensity {
            Some(_) => Vec::new(),
            None => mean_logs(&image).into_iter().map(|mean| 2.5 * mean).collect(),
        };
        let mut spikes = Vec::new();
        for (i, loc) in self.loc.places().iter().enumerate() {
            let (own, axes) = match loc.len() {
                len if len == n => (None, &loc[..]),
                len if len == n + 1 => (Some(loc[0]), &loc[1..]),
                len => {
                    return Err(TransformError::new(format!("loc {loc:?} has {len} numbers"))
                        .expected(format!("{n}, or {} with the channel first", n + 1)));
                }
            };
            let mut place = [0; 3];
            place[..n].copy_from_slice(axes);
            if own.is_some_and(|c| c >= channels) || (0..3).any(|axis| place[axis] >= shape[axis]) {
                return Err(TransformError::new(format!("loc {loc:?} lies outside the image"))
                    .expected(format!("less than {:?}", &image.data.dims()[..=n])));
            }
            for channel in own.map_or(0..channels, |c| c..c + 1) {
                let intensity = match (&self.k_intensity, &self.loc) {
                    (Some(given), _) => given.at(i),
                    (None, SpikeLocation::One(_)) => means.get(channel).copied(),
                    (None, SpikeLocation::Many(_)) => means.get(i).copied(),
                };
                spikes.extend(intensity.map(|intensity| Spike { channel, place, intensity }));
            }
        }
        Ok(add_spikes(image, &spikes))
    }

    fn check_parameters(&self) -> Result<(), Fault> {
        if self.loc.places().is_empty() || self.loc.places().iter().any(Vec::is_empty) {
            return Err(Fault::at("loc", "names no position"));
        }
        let Some(intensity) = &self.k_intensity else { return Ok(()) };
        intensity.as_slice().iter().try_for_each(|v| check_finite("k_intensity", *v))?;
        match (&self.loc, intensity) {
            (SpikeLocation::One(_), OneOrMany::One(_)) => Ok(()),
            (SpikeLocation::Many(places), OneOrMany::Many(values)) if places.len() == values.len() => Ok(()),
            (SpikeLocation::One(_), _) => Err(Fault::at("k_intensity", "must be one number for one position")),
            (SpikeLocation::Many(places), _) => Err(Fault::at(
                "k_intensity",
                format!("must be a list of {}, one for each position in `loc`", places.len()),
            )),
        }
    }
}

/// Returns the mean logarithm of the magnitudes, per channel.
pub(super) fn mean_logs(image: &Image) -> Vec<f64> {
    let shape = image.shape();
    let size: usize = shape.iter().product();
    image.with_values(|values| values.chunks_exact(size.max(1)).map(|v| Spectrum::of(v, shape).mean_log()).collect())
}

/// Changes the magnitude of single coefficients and keeps their phases.
///
/// A coefficient is a single wave over the image: the wave is added, without a transform of the
/// whole image.
pub(super) fn add_spikes(image: Image, spikes: &[Spike]) -> Image {
    let shape = image.shape();
    let size: usize = shape.iter().product();
    on_host(image, |values| {
        for (channel, values) in values.chunks_exact_mut(size.max(1)).enumerate() {
            let mine: Vec<&Spike> = spikes.iter().filter(|s| s.channel == channel).collect();
            // If several spikes have the same position, the last is used.
            let last = |i: usize| mine[i + 1..].iter().all(|later| later.place != mine[i].place);
            let changes: Vec<([usize; 3], Complex64)> = (0..mine.len())
                .filter(|i| last(*i))
                .map(|i| {
                    let frequency: [usize; 3] =
                        std::array::from_fn(|a| (mine[i].place[a] + shape[a] - shape[a] / 2) % shape[a]);
                    let before = coefficient(values, shape, frequency);
                    let phase = if before.norm() > 0.0 { before / before.norm() } else { Complex64::new(1.0, 0.0) };
                    (frequency, phase * mine[i].intensity.exp() - before)
                })
                .collect();
            for (frequency, change) in changes {
                add_wave(values, shape, frequency, change);
            }
        }
    })
}

setters!(KSpaceSpikeNoise {
    /// Logarithm of the magnitude, one for each position.
    k_intensity: Option<OneOrMany<f64>>,
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

image_transform!(KSpaceSpikeNoise, spike, through_host: |_| true);

transform_entry!(
    KSpaceSpikeNoise,
    r#"keys = ["image"]
loc = [3, 4, 5]
k_intensity = 10.0"#
);
