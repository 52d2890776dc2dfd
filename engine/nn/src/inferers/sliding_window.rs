//! Window by window, overlaps blended (`monai.inferers.SlidingWindowInferer`).

use burn::tensor::{DType, Int, Tensor, TensorData};
use serde::{Deserialize, Serialize};

use super::importance_map::{BlendMode, compute_importance_map};
use super::windows::{dense_patch_slices, scan_interval};
use super::{InferError, Inferer};
use crate::layers::Axes;

/// How an image smaller than the window is filled up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaddingMode {
    /// With `cval`.
    #[default]
    Constant,
    /// Mirrored, the edge voxel once.
    Reflect,
    /// With the edge voxel.
    Replicate,
    /// From the other side.
    Circular,
}

/// Scans the image with windows and averages where they overlap; accumulates in f32.
///
/// Windows of all items are taken in order, `sw_batch_size` at a time, and a group may span items. The network may give
/// another spatial size than the window's; the output is scaled likewise. Two-dimensional images (`z = 1`) take options
/// for two axes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlidingWindowInferer {
    /// Window per axis; 0 or less takes the image's length.
    pub roi_size: Axes<i64>,
    /// Windows per call of the network.
    #[serde(default = "one")]
    pub sw_batch_size: usize,
    /// Share of a window that the next one covers again, in [0, 1).
    #[serde(default = "quarter")]
    pub overlap: Axes<f64>,
    /// How windows are blended.
    #[serde(default)]
    pub mode: BlendMode,
    /// Sigma of the Gaussian, as a share of the window.
    #[serde(default = "eighth")]
    pub sigma_scale: Axes<f64>,
    /// How an image smaller than the window is filled up.
    #[serde(default)]
    pub padding_mode: PaddingMode,
    /// Value of constant padding.
    #[serde(default)]
    pub cval: f64,
}

fn one() -> usize {
    1
}

fn quarter() -> Axes<f64> {
    Axes::All(0.25)
}

fn eighth() -> Axes<f64> {
    Axes::All(0.125)
}

const NAME: &str = "SlidingWindowInferer";

/// The options, resolved for one image.
struct Scan {
    batch: usize,
    /// The image's own size.
    image: [usize; 3],
    /// Padding before each axis.
    before: [usize; 3],
    /// The image's size with padding.
    padded: [usize; 3],
    roi: [usize; 3],
    windows: Vec<[[usize; 2]; 3]>,
    weights: Vec<f32>,
}

/// One output under construction.
struct Canvas {
    values: Tensor<5>,
    /// Window size of the output over that of the input, unless they are equal.
    scale: Option<[f64; 3]>,
    weights: Tensor<5>,
}

impl SlidingWindowInferer {
    /// Windows of this size and MONAI's defaults: one at a time, overlap 0.25, blended alike.
    pub fn new(roi_size: &[usize]) -> Self {
        SlidingWindowInferer {
            roi_size: Axes::Each(roi_size.iter().map(|n| *n as i64).collect()),
            sw_batch_size: one(),
            overlap: quarter(),
            mode: BlendMode::Constant,
            sigma_scale: eighth(),
            padding_mode: PaddingMode::Constant,
            cval: 0.0,
        }
    }

    /// The same for a network with several outputs, whose sizes may differ.
    pub fn infer_all(
        &self,
        x: Tensor<5>,
        net: &dyn Fn(Tensor<5>) -> Vec<Tensor<5>>,
    ) -> Result<Vec<Tensor<5>>, InferError> {
        let scan = self.scan(x.dims())?;
        let x = self.pad(x, &scan)?;
        let [_, channels, ..] = x.dims();
        let total = scan.windows.len() * scan.batch;
        let place = |window: usize| (window / scan.windows.len(), scan.windows[window % scan.windows.len()]);
        let mut canvases: Vec<Canvas> = Vec::new();
        for first in (0..total).step_by(self.sw_batch_size) {
            let group = first..(first + self.sw_batch_size).min(total);
            let cut = group.clone().map(|window| {
                let (item, [wx, wy, wz]) = place(window);
                x.clone().slice([item..item + 1, 0..channels, wx[0]..wx[1], wy[0]..wy[1], wz[0]..wz[1]])
            });
            let cut: Vec<Tensor<5>> = cut.collect();
            let input =
                if cut.len() == 1 { cut.into_iter().next().unwrap_or_else(|| x.clone()) } else { Tensor::cat(cut, 0) };
            let window_shape = input.dims();
            let outputs = net(input);
            if canvases.is_empty() {
                canvases = scan.canvases(&outputs)?;
            }
            for (canvas, output) in canvases.iter_mut().zip(outputs) {
                let got = output.dims();
                if got[0] != group.len() {
                    let expected = format!("expected {} items", group.len());
                    return Err(InferError::Output { inferer: NAME, window: window_shape, got, expected });
                }
                let weighted = output.cast(DType::F32) * canvas.weights.clone();
                for (row, window) in group.clone().enumerate() {
                    let (item, window) = place(window);
                    canvas.add(item, window, weighted.clone().narrow(0, row, 1));
                }
            }
        }
        let outputs = canvases.into_iter().map(|canvas| scan.finish(canvas));
        Ok(outputs.collect())
    }

    fn scan(&self, shape: [usize; 5]) -> Result<Scan, InferError> {
        let value = |name, value: String, expected: &str| {
            let expected = expected.to_owned();
            InferError::Value { inferer: NAME, name, value, expected }
        };
        let [batch, _, x, y, z] = shape;
        let image = [x, y, z];
        if shape.contains(&0) {
            return Err(value("the image's shape", format!("{shape:?}"), "no axis may be empty"));
        }
        if self.sw_batch_size == 0 {
            return Err(value("sw_batch_size", "0".to_owned(), "expected at least 1"));
        }
        let three = "expected one number, or one per axis";
        // A two-dimensional image has z = 1 and takes options for two axes.
        let roi =
            axes(&self.roi_size, image, -1).ok_or_else(|| value("roi_size", format!("{:?}", self.roi_size), three))?;
        let overlap =
            axes(&self.overlap, image, 0.0).ok_or_else(|| value("overlap", format!("{:?}", self.overlap), three))?;
        let sigma = axes(&self.sigma_scale, image, 0.125)
            .ok_or_else(|| value("sigma_scale", format!("{:?}", self.sigma_scale), three))?;
        if overlap.iter().any(|share| !(0.0..1.0).contains(share)) {
            return Err(value("overlap", format!("{:?}", self.overlap), "expected shares in [0, 1)"));
        }
        if self.mode == BlendMode::Gaussian && sigma.iter().any(|sigma| sigma.is_nan() || *sigma <= 0.0) {
            return Err(value("sigma_scale", format!("{:?}", self.sigma_scale), "expected numbers above 0"));
        }
        let roi: [usize; 3] = std::array::from_fn(|a| if roi[a] <= 0 { image[a] } else { roi[a] as usize });
        let padded: [usize; 3] = std::array::from_fn(|a| image[a].max(roi[a]));
        let before = std::array::from_fn(|a| (padded[a] - image[a]) / 2);
        let windows = dense_patch_slices(&padded, &roi, &scan_interval(padded, roi, overlap));
        let windows = windows.iter().map(|window| std::array::from_fn(|a| window[a])).collect();
        let weights = compute_importance_map(&roi, self.mode, &sigma);
        Ok(Scan { batch, image, before, padded, roi, windows, weights })
    }

    /// The image filled up to at least the window.
    fn pad(&self, x: Tensor<5>, scan: &Scan) -> Result<Tensor<5>, InferError> {
        if scan.padded == scan.image {
            return Ok(x);
        }
        if self.padding_mode == PaddingMode::Constant {
            let [batch, channels, ..] = x.dims();
            let [px, py, pz] = scan.padded;
            let shape = [batch, channels, px, py, pz];
            let whole = Tensor::<5>::full(shape, self.cval, &x.device()).cast(x.dtype());
            let [bx, by, bz] = scan.before;
            let [nx, ny, nz] = scan.image;
            return Ok(whole.slice_assign([0..batch, 0..channels, bx..bx + nx, by..by + ny, bz..bz + nz], x));
        }
        let device = x.device();
        let mut x = x;
        for axis in 0..3 {
            let (length, padded, before) = (scan.image[axis], scan.padded[axis], scan.before[axis]);
            if length == padded {
                continue;
            }
            let sources: Option<Vec<i64>> =
                (0..padded).map(|i| self.source(i as i64 - before as i64, length as i64)).collect();
            let sources = sources.ok_or_else(|| InferError::Value {
                inferer: NAME,
                name: "padding_mode",
                value: format!("{:?}", self.padding_mode),
                expected: format!("an axis of {length} is too short to fill up to {padded} in this way; use constant"),
            })?;
            let indices = Tensor::<1, Int>::from_data(TensorData::from(sources.as_slice()), &device);
            x = x.select(2 + axis, indices);
        }
        Ok(x)
    }

    /// Where the voxel at `i`, outside the image or not, comes from. As in PyTorch, a mirror reaches at most to the
    /// other end, and so does the other side.
    fn source(&self, i: i64, length: i64) -> Option<i64> {
        let source = match self.padding_mode {
            PaddingMode::Constant | PaddingMode::Replicate => i.clamp(0, length - 1),
            PaddingMode::Reflect if i < 0 => -i,
            PaddingMode::Reflect if i >= length => 2 * (length - 1) - i,
            PaddingMode::Circular if i < 0 => i + length,
            PaddingMode::Circular if i >= length => i - length,
            PaddingMode::Reflect | PaddingMode::Circular => i,
        };
        (0..length).contains(&source).then_some(source)
    }
}

/// One number per axis; the third axis of a two-dimensional image takes `depth`.
fn axes<T: Copy>(given: &Axes<T>, image: [usize; 3], depth: T) -> Option<[T; 3]> {
    match given {
        Axes::All(value) if image[2] == 1 => Some([*value, *value, depth]),
        Axes::All(value) => Some([*value; 3]),
        Axes::Each(values) => match values.as_slice() {
            [x, y, z] => Some([*x, *y, *z]),
            [x, y] if image[2] == 1 => Some([*x, *y, depth]),
            _ => None,
        },
    }
}

impl Scan {
    /// Empty canvases for the outputs of the first group of windows.
    fn canvases(&self, outputs: &[Tensor<5>]) -> Result<Vec<Canvas>, InferError> {
        // Each output's weights are made from those of the output before, as MONAI does.
        let (mut weights, mut size) = (self.weights.clone(), self.roi);
        let mut canvases = Vec::new();
        for output in outputs {
            let [_, channels, ox, oy, oz] = output.dims();
            let own = [ox, oy, oz];
            if own.contains(&0) {
                let window = [output.dims()[0], channels, self.roi[0], self.roi[1], self.roi[2]];
                let expected = "no axis may be empty".to_owned();
                return Err(InferError::Output { inferer: NAME, window, got: output.dims(), expected });
            }
            if own != size {
                weights = nearest_exact(&weights, size, own);
                size = own;
            }
            let scale = (own != self.roi).then(|| std::array::from_fn(|a| own[a] as f64 / self.roi[a] as f64));
            let [cx, cy, cz] = match scale {
                Some(scale) => std::array::from_fn(|a| (self.padded[a] as f64 * scale[a]) as usize),
                None => self.padded,
            };
            let device = output.device();
            canvases.push(Canvas {
                values: Tensor::zeros([self.batch, channels, cx, cy, cz], (&device, DType::F32)),
                scale,
                weights: Tensor::<1>::from_data(TensorData::from(weights.as_slice()), (&device, DType::F32))
                    .reshape([1, 1, ox, oy, oz]),
            });
        }
        Ok(canvases)
    }

    /// Divides by the weights that went to each voxel, and takes the padding off.
    fn finish(&self, canvas: Canvas) -> Tensor<5> {
        let Canvas { values, scale, weights } = canvas;
        let [batch, channels, cx, cy, cz] = values.dims();
        let mut count = Canvas {
            values: Tensor::zeros([1, 1, cx, cy, cz], (&values.device(), DType::F32)),
            scale,
            weights: weights.clone(),
        };
        for window in &self.windows {
            count.add(0, *window, weights.clone());
        }
        let output = values / count.values;
        if self.padded == self.image {
            return output;
        }
        let size = [cx, cy, cz];
        let keep: [std::ops::Range<usize>; 3] = std::array::from_fn(|a| {
            let zoom = size[a] as f64 / self.roi[a] as f64;
            let at = |i: usize| ((i as f64 * zoom).round_ties_even() as usize).min(size[a]);
            at(self.before[a])..at(self.before[a] + self.image[a])
        });
        let [x, y, z] = keep;
        output.slice([0..batch, 0..channels, x, y, z])
    }
}

impl Canvas {
    /// Adds a window's values `[1, c, ..]` at its place.
    fn add(&mut self, item: usize, window: [[usize; 2]; 3], patch: Tensor<5>) {
        let channels = patch.dims()[1];
        let [x, y, z] = std::array::from_fn(|a| {
            let at = |i: usize| match self.scale {
                Some(scale) => (i as f64 * scale[a]) as usize,
                None => i,
            };
            at(window[a][0])..at(window[a][1])
        });
        let place = [item..item + 1, 0..channels, x, y, z];
        let device = patch.device();
        let canvas = std::mem::replace(&mut self.values, Tensor::zeros([1; 5], (&device, DType::F32)));
        // The view is gone before the canvas is written to, so the write needs no copy.
        let sum = canvas.clone().slice(place.clone()) + patch;
        self.values = canvas.slice_assign(place, sum);
    }
}

/// Nearest neighbour with voxel centres aligned (`nearest-exact` of PyTorch).
fn nearest_exact(map: &[f32], from: [usize; 3], to: [usize; 3]) -> Vec<f32> {
    let source = |axis: usize, i: usize| {
        let centre = (i as f64 + 0.5) * (from[axis] as f64 / to[axis] as f64);
        (centre as usize).min(from[axis] - 1)
    };
    let mut scaled = Vec::with_capacity(to.iter().product());
    for x in 0..to[0] {
        for y in 0..to[1] {
            let row = (source(0, x) * from[1] + source(1, y)) * from[2];
            scaled.extend((0..to[2]).map(|z| map[row + source(2, z)]));
        }
    }
    scaled
}

impl Inferer for SlidingWindowInferer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        let mut outputs = self.infer_all(x, &|window| vec![net(window)])?;
        // The closure above gives one output per call.
        Ok(outputs.swap_remove(0))
    }
}
