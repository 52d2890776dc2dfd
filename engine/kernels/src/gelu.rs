//! GELU, forward and backward in one pass each (Hendrycks and Gimpel, <https://arxiv.org/abs/1606.08415>).

use burn::tensor::{DType, Tensor};

use crate::cast::{cast, half_on_cpu};

/// `x` times the part of a normal distribution below it (`torch.nn.GELU`, not the approximation by tanh).
///
/// On the CPU f32 values are worked on by all threads, with errors of a few units in the last place. Other devices and element types
/// make it of Burn's `erf`: Burn's own GELU has the gradient of the approximation by tanh on GPUs (0.22.1), up to a thousandth away.
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    #[cfg(feature = "cpu")]
    if crate::flex::has_floats(&x) {
        return ops::gelu(x);
    }
    if let Some(dtype) = half_on_cpu(&x) {
        return cast(gelu(cast(x, DType::F32)), dtype);
    }
    (x.clone() * std::f32::consts::FRAC_1_SQRT_2).erf().add_scalar(1.0) * x * 0.5
}

#[cfg(feature = "cpu")]
mod ops {
    use burn::backend::autodiff::Autodiff;
    use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
    use burn::backend::autodiff::grads::Gradients;
    use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
    use burn::backend::{AutodiffBackend, Backend, Dispatch, Flex, backend_extension, tensor::FloatTensor};
    use burn::tensor::Tensor;
    use rayon::prelude::*;

    use crate::flex::{floats, with};
    use crate::math;
    use crate::simd::widest;

    /// Values of one task.
    const TASK: usize = 16 << 10;

    /// Values that are worked on while they are in the first-level cache.
    const STEP: usize = 512;

    /// The activation and its gradient.
    #[backend_extension(Flex, Autodiff)]
    pub trait GeluOps: Backend {
        /// The output.
        fn normal_gate(x: FloatTensor<Self>) -> FloatTensor<Self>;

        /// The gradient with respect to the input.
        fn normal_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self>;
    }

    /// The exponent of the complementary error function of `z >= 0`, but for its factor `t`: its relative error is below
    /// 1.2e-7 for all of them (Press et al., Numerical Recipes, 6.2, a Chebyshev fit).
    #[inline(always)]
    fn exponent(z: f32, t: f32) -> f32 {
        const FIT: [f32; 10] = [
            0.170_872_77,
            -0.822_152_23,
            1.488_515_87,
            -1.135_203_98,
            0.278_868_07,
            -0.186_288_06,
            0.096_784_18,
            0.374_091_96,
            1.000_023_68,
            -1.265_512_23,
        ];
        let mut sum = FIT[0];
        let mut i = 1;
        while i < FIT.len() {
            sum = sum * t + FIT[i];
            i += 1;
        }
        sum - z * z
    }

    /// The parts of a normal distribution below `x`.
    fn below(x: &[f32], out: &mut [f32]) {
        const ROOT: f32 = std::f32::consts::FRAC_1_SQRT_2;
        widest(
            #[inline(always)]
            || {
                for (out, x) in out.iter_mut().zip(x) {
                    let z = x.abs() * ROOT;
                    *out = exponent(z, 1.0 / (1.0 + 0.5 * z));
                }
            },
        );
        math::exp(out);
        widest(
            #[inline(always)]
            || {
                for (out, x) in out.iter_mut().zip(x) {
                    let tail = *out * 0.5 / (1.0 + 0.5 * x.abs() * ROOT);
                    *out = if *x < 0.0 { tail } else { 1.0 - tail };
                }
            },
        );
    }

    /// Calls `work` with blocks of the inputs, the parts below them and the places of the output.
    fn each<const N: usize>(inputs: [&[f32]; N], work: impl Fn([&[f32]; N], &[f32], &mut [f32]) + Sync) -> Vec<f32> {
        let mut out = vec![0.0; inputs[0].len()];
        out.par_chunks_mut(TASK).enumerate().for_each(|(task, out)| {
            let mut part = [0.0; STEP];
            for (step, out) in out.chunks_mut(STEP).enumerate() {
                let at = task * TASK + step * STEP;
                let values = inputs.map(|input| &input[at..][..out.len()]);
                let part = &mut part[..out.len()];
                below(values[0], part);
                work(values, part, out);
            }
        });
        out
    }

    fn values(x: &[f32]) -> Vec<f32> {
        each([x], |[x], part, out| {
            widest(
                #[inline(always)]
                move || out.iter_mut().zip(x).zip(part).for_each(|((out, x), part)| *out = x * part),
            );
        })
    }

    fn gradients(x: &[f32], dy: &[f32]) -> Vec<f32> {
        /// One over the root of 2 pi.
        const DENSITY: f32 = 0.398_942_28;
        each([x, dy], |[x, dy], part, out| {
            widest(
                #[inline(always)]
                || out.iter_mut().zip(x).for_each(|(out, x)| *out = -0.5 * x * x),
            );
            math::exp(out);
            widest(
                #[inline(always)]
                move || {
                    for (((out, x), dy), part) in out.iter_mut().zip(x).zip(dy).zip(part) {
                        *out = dy * (part + x * DENSITY * *out);
                    }
                },
            );
        })
    }

    impl GeluOps for Flex {
        fn normal_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
            let dims = x.layout().shape().to_vec();
            floats(with([x], |[x]| values(x)), dims)
        }

        fn normal_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
            let dims = x.layout().shape().to_vec();
            floats(with([x, dy], |[x, dy]| gradients(x, dy)), dims)
        }
    }

    /// The backward pass.
    #[derive(Debug)]
    struct GeluBackward;

    impl<B: GeluOps> Backward<B, 1> for GeluBackward {
        type State = FloatTensor<B>;

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
            let dy = grads.consume::<B>(&ops.node);
            for node in ops.parents.into_iter().flatten() {
                grads.register::<B>(node.id, B::normal_gate_gradient(ops.state.clone(), dy.clone()));
            }
        }
    }

    impl<B: GeluOps, C: CheckpointStrategy> GeluOps for Autodiff<B, C> {
        fn normal_gate(x: FloatTensor<Self>) -> FloatTensor<Self> {
            match GeluBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
                OpsKind::Tracked(prep) => {
                    let x = x.into_primitive();
                    prep.finish(x.clone(), B::normal_gate(x))
                }
                OpsKind::UnTracked(prep) => prep.finish(B::normal_gate(x.into_primitive())),
            }
        }

        fn normal_gate_gradient(x: FloatTensor<Self>, dy: FloatTensor<Self>) -> FloatTensor<Self> {
            // Only the backward pass calls this, on plain tensors; a gradient of a gradient is not offered.
            Self::from_inner(B::normal_gate_gradient(x.into_primitive(), dy.into_primitive()))
        }
    }

    /// Runs the operation on the CPU backend.
    pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
        Tensor::from_dispatch(<Dispatch as GeluOps>::normal_gate(x.into_dispatch()))
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData};

    use super::gelu;

    /// The error function by its series, and far out by its continued fraction: both exact to f64.
    fn below(x: f64) -> f64 {
        let z = x.abs() / std::f64::consts::SQRT_2;
        let tail = if z < 2.5 {
            let (mut term, mut sum) = (z, z);
            for n in 1..200 {
                term *= -z * z / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            1.0 - sum * 2.0 / std::f64::consts::PI.sqrt()
        } else {
            let fraction = (1..200).rev().fold(z, |below, n| z + f64::from(n) / 2.0 / below);
            (-z * z).exp() / fraction / std::f64::consts::PI.sqrt()
        };
        if x < 0.0 { tail / 2.0 } else { 1.0 - tail / 2.0 }
    }

    #[test]
    fn values_and_gradients_are_exact_far_out_too() {
        let device = Device::flex().autodiff();
        let inputs: Vec<f32> = (-9000..9001).map(|i| i as f32 / 1000.0).collect();
        let x = Tensor::<1>::from_data(TensorData::from(inputs.as_slice()), &device).require_grad();
        let y = gelu(x.clone());
        let gradients = y.clone().sum().backward();
        let list = |t: TensorData| t.try_to_vec::<f32>().expect("f32");
        let (y, dx) = (list(y.into_data()), list(x.grad(&gradients).expect("a gradient").into_data()));
        for ((x, y), dx) in inputs.iter().map(|x| f64::from(*x)).zip(y).zip(dx) {
            let (value, slope) = (x * below(x), below(x) + x * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt());
            assert!((f64::from(y) - value).abs() <= 5e-6 * value.abs() + 1e-12, "{y} for {value} at {x}");
            assert!((f64::from(dx) - slope).abs() <= 1e-6 + 5e-6 * slope.abs(), "{dx} for {slope} at {x}");
        }
    }

    #[test]
    fn what_is_not_a_number_stays() {
        let x = Tensor::<1>::from_floats([f32::NAN, f32::INFINITY, -40.0, 0.0], &Device::flex());
        let y = gelu(x).into_data().try_to_vec::<f32>().expect("f32");
        assert!(y[0].is_nan() && y[1] == f32::INFINITY && y[2].abs() < 1e-30 && y[3] == 0.0, "{y:?}");
    }
}
