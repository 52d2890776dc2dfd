//! Measures the convolutions of UNet and nnU-Net, each in three directions and in each type that the device
//! computes in.

use std::time::Instant;

use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use hearth::kernels::conv3d::{ConvShape, conv_transpose3d, conv3d, conv3d_weight};
use hearth_train::{Precision, device};
use serde_json::json;

use super::{Args, median};
use crate::error::{Context, Failure, Outcome};
use crate::{note, out};

/// A convolution with a cubic kernel over a cubic volume.
struct Layer {
    batch: usize,
    input: usize,
    output: usize,
    /// The voxels of the input along an axis.
    edge: usize,
    kernel: usize,
    stride: usize,
}

/// The layers of MONAI's UNet at four patches of 96 voxels, of nnU-Net at two of 128, and of SwinUNETR.
const LAYERS: [[usize; 6]; 18] = [
    [4, 16, 16, 48, 3, 1],
    [4, 32, 32, 24, 3, 1],
    [4, 32, 64, 24, 3, 2],
    [4, 64, 64, 12, 3, 1],
    [4, 256, 256, 6, 3, 1],
    [2, 32, 32, 64, 3, 1],
    [2, 128, 128, 16, 3, 1],
    [2, 1, 32, 128, 3, 1],
    [2, 32, 32, 128, 3, 1],
    [2, 32, 64, 128, 3, 2],
    [2, 64, 64, 64, 3, 1],
    [2, 128, 128, 32, 3, 1],
    [2, 256, 256, 16, 3, 1],
    [2, 320, 320, 8, 3, 1],
    [1, 48, 48, 96, 3, 1],
    [1, 16, 16, 128, 3, 1],
    [2, 64, 32, 128, 1, 1],
    [1, 16, 16, 192, 3, 1],
];

/// The floating-point operations up to which the result is compared with that of the CPU in f32.
const COMPARED: f64 = 8e9;
/// The calls between two waits for the device, so that the wait is not what is measured.
const CALLS: u32 = 4;

/// The result, the gradient of the input, and that of the weight.
const DIRECTIONS: usize = 3;

impl Layer {
    fn shape(&self) -> ConvShape {
        ConvShape { stride: [self.stride; 3], padding: [self.kernel / 2; 3], ..ConvShape::default() }
    }

    /// The voxels of the output along an axis.
    fn result(&self) -> usize {
        (self.edge - 1) / self.stride + 1
    }

    fn flops(&self) -> f64 {
        let values = self.batch * self.output * self.result().pow(3);
        2.0 * (values * self.input * self.kernel.pow(3)) as f64
    }

    /// The input, the weight and the gradient of the result, in f32 on the CPU.
    fn tensors(&self, cpu: &Device) -> [Tensor<5>; 3] {
        let (x, y, k) = (self.edge, self.result(), self.kernel);
        let draw = |shape: [usize; 5]| Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), cpu);
        cpu.seed(0);
        [
            draw([self.batch, self.input, x, x, x]),
            draw([self.output, self.input, k, k, k]),
            draw([self.batch, self.output, y, y, y]),
        ]
    }

    /// The result of a direction.
    fn pass(&self, direction: usize, [x, weight, dy]: &[Tensor<5>; 3]) -> Option<Tensor<5>> {
        match direction {
            0 => Some(conv3d(x.clone(), weight.clone(), None, self.shape())),
            1 => {
                // Voxels at the far end that a stride leaves out.
                let short = self.edge - ((self.result() - 1) * self.stride + 1);
                Some(conv_transpose3d(dy.clone(), weight.clone(), None, self.shape(), [short; 3]))
            }
            _ => conv3d_weight(x.clone(), dy.clone(), [self.kernel; 3], self.shape()),
        }
    }
}

/// Measures every layer until `--limit`.
pub fn run(args: &Args) -> Outcome {
    let device = args.device()?;
    let cpu = device::parse("cpu")?;
    let limit = args.limit.unwrap_or(60);
    let begin = Instant::now();
    let (mut measured, mut whole) = (0, 0);
    for (precision, word, dtype) in [
        (Precision::Bf16, "bf16", FloatDType::BF16),
        (Precision::Fp32, "f32", FloatDType::F32),
        (Precision::Fp16, "fp16", FloatDType::F16),
    ] {
        if precision.check(&device).is_err() {
            note!("{word}: {} does not compute in it", args.device_name());
            continue;
        }
        for [batch, input, output, edge, kernel, stride] in LAYERS {
            whole += DIRECTIONS;
            if begin.elapsed().as_secs() >= limit {
                continue;
            }
            let layer = Layer { batch, input, output, edge, kernel, stride };
            let exact = layer.tensors(&cpu);
            let tensors = exact.clone().map(|tensor| tensor.to_device(&device).cast(dtype));
            for direction in 0..DIRECTIONS {
                let seconds = seconds(args.runs(), || {
                    let result = layer.pass(direction, &tensors);
                    result.ok_or_else(|| Failure::new("this direction has no kernel of its own"))
                })?;
                let error = (layer.flops() <= COMPARED).then(|| off(&layer, direction, &tensors, &exact)).flatten();
                let (us, tflops) = (round(seconds * 1e6), round(layer.flops() / seconds / 1e12));
                out!(
                    "{}",
                    json!({
                        "bench": "layers", "probe": "hearth", "device": args.device_name(), "name": word,
                        "layer": [batch, input, output, edge, kernel, stride], "dir": direction,
                        "us": us, "tflops": tflops, "error": error,
                    })
                );
                measured += 1;
            }
        }
    }
    if measured < whole {
        note!("{measured} of {whole} were measured in {limit} s; --limit SECONDS allows more");
    }
    Ok(())
}

/// The median of the seconds of a call.
fn seconds(runs: u32, pass: impl Fn() -> Outcome<Tensor<5>>) -> Outcome<f64> {
    let mut times = Vec::with_capacity(runs as usize);
    // The first round chooses and compiles kernels.
    for round in 0..=runs {
        let start = Instant::now();
        let mut last = pass()?;
        for _ in 1..CALLS {
            last = pass()?;
        }
        last.device().sync().while_doing(|| "the device failed")?;
        if round > 0 {
            times.push(start.elapsed().as_secs_f64() / f64::from(CALLS));
        }
    }
    Ok(median(&mut times))
}

/// The largest difference from the CPU's result in f32, as a share of its largest value.
fn off(layer: &Layer, direction: usize, tensors: &[Tensor<5>; 3], exact: &[Tensor<5>; 3]) -> Option<f64> {
    let own = layer.pass(direction, tensors)?.cast(FloatDType::F32).to_data();
    let right = layer.pass(direction, exact)?.to_data();
    let (own, right) = (own.as_slice::<f32>().ok()?, right.as_slice::<f32>().ok()?);
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0_f32, |most, value| most.max(value.abs()));
    let most = largest(&mut right.iter().copied());
    let difference = largest(&mut own.iter().zip(right).map(|(a, b)| a - b));
    Some(f64::from(difference) / f64::from(most.max(f32::MIN_POSITIVE)))
}

/// Three decimals.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
