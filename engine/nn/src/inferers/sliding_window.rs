//! Inference on overlapping windows, which are blended (`monai.inferers.SlidingWindowInferer`).

use std::sync::Arc;

use burn::tensor::{DType, Tensor, TensorData};
use derive_setters::Setters;
use hearth_kernels::add_window;
use hearth_machine::check_free;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_once::{AtOnce, Room};
use super::buffered;
use super::importance_map::{BlendMode, importance_map};
use super::padding::PaddingMode;
use super::windows::{dense_patch_slices, scan_interval};
use super::{InferError, Inferer, check_stop};
use crate::layers::Axes;

/// Applies the network to a sliding window and averages overlapping outputs, in f32.
///
/// Windows of all items are processed in order, `sw_batch_size` at a time; a network call may
/// contain windows of several items. The network's output may differ in spatial size from the
/// window; the result is scaled accordingly. Two-dimensional images (`z = 1`) take options for two
/// axes.
///
/// If a GPU runs out of memory for a network call, the number of windows per call is halved from
/// then on, with a warning.
///
/// ```
/// # use burn::tensor::{Device, Tensor};
/// # use hearth_nn::inferers::{Inferer, SlidingWindowInferer};
/// let text = "roi_size = [4, 4, 4]\noverlap = 0.5";
/// let inferer: SlidingWindowInferer = toml::from_str(text).expect("options");
/// let x = Tensor::ones([1, 1, 8, 6, 5], &Device::default());
/// let y = inferer.infer(x.clone(), &|window| {
///     assert_eq!(window.dims()[2..], [4, 4, 4]);
///     window * 2.0
/// })?;
/// assert!((y - x * 2.0).abs().max().into_scalar::<f32>() < 1e-5);
/// # Ok::<(), hearth_nn::inferers::InferError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option)]
pub struct SlidingWindowInferer {
    /// Size of the window in voxels, per axis; 0 or less takes the image's length.
    #[setters(into)]
    pub roi_size: Axes<i64>,
    /// Number of windows per network call.
    #[serde(default = "one")]
    pub sw_batch_size: usize,
    /// Overlap of neighbouring windows, as a share of the window in [0, 1).
    #[serde(default = "quarter")]
    #[setters(into)]
    pub overlap: Axes<f64>,
    /// The blending of overlapping windows.
    #[serde(default)]
    pub mode: BlendMode,
    /// Sigma of the Gaussian, as a share of the window.
    #[serde(default = "eighth")]
    #[setters(into)]
    pub sigma_scale: Axes<f64>,
    /// The padding of an image smaller than the window.
    #[serde(default)]
    pub padding_mode: PaddingMode,
    /// Value of constant padding.
    #[serde(default)]
    pub cval: f64,
    /// Number of successive window positions along `buffer_dim` whose windows are accumulated in a
    /// buffer before they are added to the output, which is then written less often. Requires a
    /// single output of the image's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_steps: Option<usize>,
    /// The axis of `buffer_steps`; negative numbers count from the last.
    #[serde(default = "last")]
    pub buffer_dim: i64,
    /// The number of windows that the device has memory for.
    #[serde(skip)]
    #[setters(skip)]
    pub room: Room,
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

fn last() -> i64 {
    -1
}

pub(super) const NAME: &str = "SlidingWindowInferer";

/// A window: start and stop per axis.
pub(super) type Window = [[usize; 2]; 3];

/// The options resolved for one image.
pub(super) struct Scan {
    pub(super) batch: usize,
    /// The image's own size.
    image: [usize; 3],
    /// Padding before each axis.
    before: [usize; 3],
    /// The image's size with padding.
    pub(super) padded: [usize; 3],
    pub(super) roi: [usize; 3],
    pub(super) windows: Vec<Window>,
    weights: Arc<[f32]>,
}

/// One output under construction.
pub(super) struct Canvas {
    pub(super) values: Tensor<5>,
    /// Size of the output window relative to the input window, unless they are equal.
    pub(super) scale: Option<[f64; 3]>,
    pub(super) weights: Tensor<5>,
}

impl SlidingWindowInferer {
    /// An inferer with windows of this size and MONAI's defaults: one window at a time, overlap
    /// 0.25, constant blending.
    pub fn new(roi_size: &[usize]) -> Self {
        SlidingWindowInferer {
            roi_size: Axes::Each(roi_size.iter().map(|n| *n as i64).collect()),
            sw_batch_size: one(),
            overlap: quarter(),
            mode: BlendMode::Constant,
            sigma_scale: eighth(),
            padding_mode: PaddingMode::Constant,
            cval: 0.0,
            buffer_steps: None,
            buffer_dim: last(),
            room: Room::default(),
        }
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
        let scan = self.scan(x.dims())?;
        if let Some(steps) = self.buffer_steps.filter(|steps| *steps > 0) {
            let axis = self.buffer_axis(x.dims())?;
            let x = self.pad(x, &scan)?;
            return Ok(vec![buffered::infer(
                x,
                &scan,
                net,
                AtOnce::new(self.sw_batch_size, &self.room),
                [steps, axis],
            )?]);
        }
        let x = self.pad(x, &scan)?;
        let [_, channels, ..] = x.dims();
        let total = scan.windows.len() * scan.batch;
        let place = |window: usize| (window / scan.windows.len(), scan.windows[window % scan.windows.len()]);
        let mut canvases: Vec<Canvas> = Vec::new();
        let mut at_once = AtOnce::new(self.sw_batch_size, &self.room);
        let mut first = 0;
        while first < total {
            let group = first..(first + at_once.size()).min(total);
            let cut = group.clone().map(|window| {
                let (item, [wx, wy, wz]) = place(window);
                x.clone().slice([item..item + 1, 0..channels, wx[0]..wx[1], wy[0]..wy[1], wz[0]..wz[1]])
            });
            let cut: Vec<Tensor<5>> = cut.collect();
            let input =
                if cut.len() == 1 { cut.into_iter().next().unwrap_or_else(|| x.clone()) } else { Tensor::cat(cut, 0) };
            let window_shape = input.dims();
            check_stop()?;
            let outputs = net(input);
            if at_once.exceeded(&outputs, group.len()) {
                continue;
            }
            first = group.end;
            if canvases.is_empty() {
                canvases = scan.canvases(&outputs)?;
            }
            for (canvas, output) in canvases.iter_mut().zip(outputs) {
                let got = output.dims();
                if got[0] != group.len() {
                    let expected = format!("expected {} items", group.len());
                    return Err(InferError::Output { inferer: NAME, window: window_shape, got, expected });
                }
                let (output, weights) = (output.cast(DType::F32), canvas.weights.clone());
                for (row, window) in group.clone().enumerate() {
                    let (item, window) = place(window);
                    canvas.add(item, window, (&output, row), Some(&weights));
                }
            }
        }
        let outputs = canvases.into_iter().map(|canvas| scan.finish(canvas));
        Ok(outputs.collect())
    }

    /// The bytes of host memory that the sums of the windows take for an image `[n, c, x, y, z]` and
    /// outputs of the windows' size with these numbers of channels. Without what the network takes.
    ///
    /// # Errors
    /// Options that do not fit the image.
    pub fn host_bytes(&self, shape: [usize; 5], channels: &[usize]) -> Result<u64, InferError> {
        let Scan { batch, padded: [x, y, z], .. } = self.scan(shape)?;
        let shapes: Vec<[usize; 5]> = channels.iter().map(|channels| [batch, *channels, x, y, z]).collect();
        Ok(bytes_of_sums(&shapes))
    }

    /// The axis along which windows are buffered.
    fn buffer_axis(&self, shape: [usize; 5]) -> Result<usize, InferError> {
        let dims = if shape[4] == 1 { 2 } else { 3 };
        let axis = if self.buffer_dim < 0 { self.buffer_dim + dims } else { self.buffer_dim };
        if (0..dims).contains(&axis) {
            return Ok(axis as usize);
        }
        let expected = format!("the image has {dims} axes");
        Err(InferError::Value { inferer: NAME, name: "buffer_dim", value: self.buffer_dim.to_string(), expected })
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
        let weights = importance_map(roi, self.mode, sigma);
        Ok(Scan { batch, image, before, padded, roi, windows, weights })
    }

    /// Pads the image to at least the window.
    fn pad(&self, x: Tensor<5>, scan: &Scan) -> Result<Tensor<5>, InferError> {
        let after = std::array::from_fn(|a| scan.padded[a] - scan.image[a] - scan.before[a]);
        self.padding_mode.pad(x, scan.before, after, self.cval).map_err(|expected| InferError::Value {
            inferer: NAME,
            name: "padding_mode",
            value: format!("{:?}", self.padding_mode),
            expected,
        })
    }
}

/// Checks that a list has a number for each axis; a third one is allowed for images with two.
pub(super) fn check_axes<T: std::fmt::Debug>(
    inferer: &'static str,
    name: &'static str,
    given: &Axes<T>,
    spatial_dims: usize,
) -> Result<(), InferError> {
    match given {
        Axes::Each(values) if values.len() != spatial_dims && values.len() != 3 => Err(InferError::Value {
            inferer,
            name,
            value: format!("{values:?}"),
            expected: format!("expected one number, or one for each of {spatial_dims} axes"),
        }),
        _ => Ok(()),
    }
}

/// Returns one number per axis; the third axis of a two-dimensional image takes `depth`.
pub(super) fn axes<T: Copy>(given: &Axes<T>, image: [usize; 3], depth: T) -> Option<[T; 3]> {
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
    /// Creates empty canvases for the outputs of the first network call.
    pub(super) fn canvases(&self, outputs: &[Tensor<5>]) -> Result<Vec<Canvas>, InferError> {
        // Each output's weights are computed from those of the previous output, as in MONAI.
        let (mut weights, mut size) = (self.weights.clone(), self.roi);
        let mut planned = Vec::new();
        for output in outputs {
            let [_, channels, ox, oy, oz] = output.dims();
            let own = [ox, oy, oz];
            if own.contains(&0) {
                let window = [output.dims()[0], channels, self.roi[0], self.roi[1], self.roi[2]];
                let expected = "no axis may be empty".to_owned();
                return Err(InferError::Output { inferer: NAME, window, got: output.dims(), expected });
            }
            if own != size {
                weights = nearest_exact(&weights, size, own).into();
                size = own;
            }
            let scale = (own != self.roi).then(|| std::array::from_fn(|a| own[a] as f64 / self.roi[a] as f64));
            let [cx, cy, cz] = match scale {
                Some(scale) => std::array::from_fn(|a| (self.padded[a] as f64 * scale[a]) as usize),
                None => self.padded,
            };
            let device = output.device();
            let weights = Tensor::<1>::from_data(TensorData::from(&weights[..]), (&device, DType::F32));
            planned.push(([self.batch, channels, cx, cy, cz], scale, weights.reshape([1, 1, ox, oy, oz])));
        }
        let shapes: Vec<[usize; 5]> = planned.iter().map(|(shape, ..)| *shape).collect();
        if outputs.iter().all(|output| hearth_kernels::host::is_host(&output.device())) {
            let shape = shapes.iter().copied().max_by_key(|shape| shape.iter().product::<usize>()).unwrap_or_default();
            check_free(bytes_of_sums(&shapes)).map_err(|what| InferError::Memory { inferer: NAME, shape, what })?;
        }
        let canvas = |(shape, scale, weights): (_, _, Tensor<5>)| Canvas {
            values: Tensor::zeros(shape, (&weights.device(), DType::F32)),
            scale,
            weights,
        };
        Ok(planned.into_iter().map(canvas).collect())
    }

    /// Divides each voxel by the sum of its weights, and removes the padding.
    pub(super) fn finish(&self, canvas: Canvas) -> Tensor<5> {
        let Canvas { values, scale, weights } = canvas;
        let [batch, channels, cx, cy, cz] = values.dims();
        let mut count = Canvas {
            values: Tensor::zeros([1, 1, cx, cy, cz], (&values.device(), DType::F32)),
            scale,
            weights: weights.clone(),
        };
        for window in &self.windows {
            count.add(0, *window, (&weights, 0), None);
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
    /// Adds one item of `windows` at a window's position, multiplied by the weights if there are
    /// any.
    pub(super) fn add(
        &mut self,
        item: usize,
        window: Window,
        (windows, row): (&Tensor<5>, usize),
        weights: Option<&Tensor<5>>,
    ) {
        let start = std::array::from_fn(|a| match self.scale {
            Some(scale) => (window[a][0] as f64 * scale[a]) as usize,
            None => window[a][0],
        });
        // The canvas has no other owner during the write, so that the write needs no copy.
        let device = self.values.device();
        let canvas = std::mem::replace(&mut self.values, Tensor::zeros([1; 5], (&device, DType::F32)));
        self.values = add_window(canvas, (item, start), (windows, row), weights);
    }
}

/// The bytes of the sums of all windows of a host's outputs with these shapes: those sums, and for one
/// output at a time the sum of the weights and the quotient.
fn bytes_of_sums(shapes: &[[usize; 5]]) -> u64 {
    let values = |shape: &[usize; 5]| shape.iter().product::<usize>();
    let divided = |shape: &[usize; 5]| values(shape) + shape[2..].iter().product::<usize>();
    let all = shapes.iter().map(values).sum::<usize>() + shapes.iter().map(divided).max().unwrap_or(0);
    (all * size_of::<f32>()) as u64
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

    fn window(&self) -> Option<(&'static str, Vec<i64>)> {
        let size = match &self.roi_size {
            Axes::All(size) => vec![*size],
            Axes::Each(sizes) => sizes.clone(),
        };
        Some(("roi_size", size))
    }

    fn passes(&self, shape: [usize; 5]) -> Option<u64> {
        let scan = self.scan(shape).ok().filter(|_| self.buffer_steps.is_none_or(|steps| steps == 0))?;
        Some((scan.windows.len() * scan.batch).div_ceil(self.sw_batch_size) as u64)
    }

    fn check(&self) -> Result<(), InferError> {
        let wrong = |name, value: String, expected: &str| {
            Err(InferError::Value { inferer: NAME, name, value, expected: expected.to_owned() })
        };
        let overlaps = match &self.overlap {
            Axes::All(overlap) => std::slice::from_ref(overlap),
            Axes::Each(overlaps) => overlaps,
        };
        if let Some(overlap) = overlaps.iter().find(|overlap| !(0.0..1.0).contains(*overlap)) {
            return wrong("overlap", overlap.to_string(), "expected a fraction of at least 0 and less than 1");
        }
        if self.sw_batch_size == 0 {
            return wrong("sw_batch_size", "0".to_owned(), "expected at least 1 window at a time");
        }
        let sigmas = match &self.sigma_scale {
            Axes::All(sigma) => std::slice::from_ref(sigma),
            Axes::Each(sigmas) => sigmas,
        };
        if let Some(sigma) = sigmas.iter().find(|sigma| !(sigma.is_finite() && **sigma > 0.0)) {
            return wrong("sigma_scale", sigma.to_string(), "expected a number above 0");
        }
        if !self.cval.is_finite() {
            return wrong("cval", self.cval.to_string(), "expected a finite number");
        }
        if self.buffer_steps.is_some() && !(-3..3).contains(&self.buffer_dim) {
            return wrong("buffer_dim", self.buffer_dim.to_string(), "expected an axis, -3 to 2");
        }
        Ok(())
    }

    fn check_for(&self, spatial_dims: usize) -> Result<(), InferError> {
        self.check()?;
        check_axes(NAME, "roi_size", &self.roi_size, spatial_dims)?;
        check_axes(NAME, "overlap", &self.overlap, spatial_dims)?;
        check_axes(NAME, "sigma_scale", &self.sigma_scale, spatial_dims)
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        let mut outputs = self.infer_all(x, &|window| vec![net(window)])?;
        // The closure above returns one output per call.
        Ok(outputs.swap_remove(0))
    }
}

hearth_registry::entry!(dyn Inferer => SlidingWindowInferer, example: r#"roi_size = [96, 96, 96]
sw_batch_size = 4
overlap = 0.25
mode = "gaussian""#);
