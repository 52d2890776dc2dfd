//! Inference on patches, averaged where they overlap (`monai.inferers.PatchInferer` with
//! `AvgMerger`).

use burn::tensor::{DType, Tensor};
use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{InferError, Inferer, SlidingWindowSplitter, check_stop};

/// Splits the image, applies the network to `batch_size` patches at a time, and averages
/// overlapping outputs, in f32.
///
/// The network's output may differ in spatial size from the patch; the whole output is scaled
/// accordingly. Voxels that no patch covers are NaN.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::{Inferer, PatchInferer};
/// let inferer: PatchInferer = toml::from_str("batch_size = 4\n[splitter]\npatch_size = 4\noverlap = 0.5").expect("options");
/// let y = inferer.infer(Tensor::ones([1, 1, 7, 9, 1], &Device::default()), &|patch| patch * 2.0)?;
/// assert_eq!(y.dims(), [1, 1, 7, 9, 1]);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
pub struct PatchInferer {
    /// The splitter of the image.
    pub splitter: SlidingWindowSplitter,
    /// Number of patches per network call.
    #[serde(default = "one")]
    pub batch_size: usize,
    /// Whether the padding that the splitter added is removed.
    #[serde(default = "yes")]
    pub match_spatial_shape: bool,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

const NAME: &str = "PatchInferer";

/// One output under construction.
struct Average {
    sums: Tensor<5>,
    counts: Tensor<5>,
    /// Size of the output patch relative to the input patch, per axis.
    ratio: [f64; 3],
    /// Size of the result.
    kept: [usize; 3],
}

/// Scales a length, rounded as in Python.
fn scaled(length: f64, ratio: f64) -> i64 {
    (length * ratio).round_ties_even() as i64
}

impl Average {
    /// Adds a patch `[b, c, ..]` of the output for an input patch at `at`. The part before the
    /// image is dropped.
    fn add(&mut self, patch: Tensor<5>, at: [i64; 3]) {
        let size: [usize; 5] = patch.dims();
        let whole: [usize; 5] = self.sums.dims();
        let start: [i64; 3] = std::array::from_fn(|a| scaled(at[a] as f64, self.ratio[a]));
        let from: [usize; 3] = std::array::from_fn(|a| (-start[a]).max(0) as usize);
        let first: [usize; 3] = std::array::from_fn(|a| start[a].max(0) as usize);
        let length: [usize; 3] =
            std::array::from_fn(|a| size[2 + a].saturating_sub(from[a]).min(whole[2 + a].saturating_sub(first[a])));
        if length.contains(&0) {
            return;
        }
        let of = |channels: usize, start: [usize; 3]| {
            let [x, y, z] = std::array::from_fn(|a| start[a]..start[a] + length[a]);
            [0..size[0], 0..channels, x, y, z]
        };
        let patch = patch.slice(of(size[1], from));
        let one = patch.ones_like().narrow(1, 0, 1);
        let into = |canvas: &mut Tensor<5>, patch: Tensor<5>| {
            let place = of(patch.dims()[1], first);
            let sum = canvas.clone().slice(place.clone()) + patch;
            *canvas = canvas.clone().slice_assign(place, sum);
        };
        into(&mut self.sums, patch);
        into(&mut self.counts, one);
    }

    fn finish(self) -> Tensor<5> {
        let [b, c, ..] = self.sums.dims();
        let [x, y, z] = self.kept.map(|length| 0..length);
        (self.sums / self.counts).slice([0..b, 0..c, x, y, z])
    }
}

impl PatchInferer {
    /// An inferer with this splitter and MONAI's defaults.
    pub fn new(splitter: SlidingWindowSplitter) -> Self {
        PatchInferer { splitter, batch_size: one(), match_spatial_shape: yes() }
    }

    /// Runs a network with several outputs, `[b, c, x, y, z]` each, whose sizes may differ.
    ///
    /// # Errors
    /// If an option is invalid, outputs do not match the windows or do not fit into memory, or the
    /// prediction was stopped: see [`InferError`].
    pub fn infer_all(
        &self,
        x: Tensor<5>,
        net: &dyn Fn(Tensor<5>) -> Vec<Tensor<5>>,
    ) -> Result<Vec<Tensor<5>>, InferError> {
        let value = |name, value: &str, expected: &str| {
            let (value, expected) = (value.to_owned(), expected.to_owned());
            InferError::Value { inferer: NAME, name, value, expected }
        };
        if self.batch_size == 0 {
            return Err(value("batch_size", "0", "expected at least 1"));
        }
        let [batch, _, nx, ny, nz] = x.dims();
        let (image, padded) = ([nx, ny, nz], self.splitter.grid([nx, ny, nz])?.padded());
        let patches = self.splitter.split(x)?;
        let mut averages: Vec<Average> = Vec::new();
        for group in patches.chunks(self.batch_size) {
            let input = Tensor::cat(group.iter().map(|(patch, _)| patch.clone()).collect(), 0);
            let window = input.dims();
            check_stop()?;
            let outputs = net(input);
            for output in &outputs {
                let got = output.dims();
                if got[0] != batch * group.len() || got.contains(&0) {
                    let expected = format!("expected {} items and no empty axis", batch * group.len());
                    return Err(InferError::Output { inferer: NAME, window, got, expected });
                }
            }
            if averages.is_empty() {
                averages = outputs.iter().map(|output| self.average(output, window, batch, image, padded)).collect();
            }
            for (average, output) in averages.iter_mut().zip(outputs) {
                let output = output.cast(DType::F32);
                for (row, (_, at)) in group.iter().enumerate() {
                    average.add(output.clone().narrow(0, row * batch, batch), *at);
                }
            }
        }
        if averages.is_empty() {
            return Err(value("splitter", "without a patch", "the image must hold at least one; use pad_mode"));
        }
        Ok(averages.into_iter().map(Average::finish).collect())
    }

    /// An empty canvas for outputs of this shape.
    fn average(
        &self,
        output: &Tensor<5>,
        window: [usize; 5],
        batch: usize,
        image: [usize; 3],
        padded: [usize; 3],
    ) -> Average {
        let got = output.dims();
        let ratio: [f64; 3] = std::array::from_fn(|a| got[2 + a] as f64 / window[2 + a] as f64);
        let size = |of: [usize; 3]| -> [usize; 3] { std::array::from_fn(|a| scaled(of[a] as f64, ratio[a]) as usize) };
        let [x, y, z] = size(padded);
        let zeros = |channels: usize| Tensor::zeros([batch, channels, x, y, z], (&output.device(), DType::F32));
        let kept = size(if self.match_spatial_shape { image } else { padded });
        Average { sums: zeros(got[1]), counts: zeros(1), ratio, kept }
    }
}

impl Inferer for PatchInferer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self) -> Result<(), InferError> {
        if self.batch_size == 0 {
            let (value, expected) = ("0".to_owned(), "expected at least 1 patch at a time".to_owned());
            return Err(InferError::Value { inferer: NAME, name: "batch_size", value, expected });
        }
        self.splitter.check()
    }

    fn check_for(&self, spatial_dims: usize) -> Result<(), InferError> {
        self.check()?;
        self.splitter.check_for(spatial_dims)
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        let mut outputs = self.infer_all(x, &|patches| vec![net(patches)])?;
        // The closure above returns one output per call.
        Ok(outputs.swap_remove(0))
    }
}

hearth_registry::entry!(dyn Inferer => PatchInferer, example: r#"splitter = { patch_size = [32, 32, 32] }"#);
