//! ReLU and leaky ReLU, alone and of a sum, forward and backward in one pass each, keeping nothing but the output.

use burn::tensor::{DType, Tensor, activation};

use crate::cast::{cast, half_on_cpu};

/// `x` where it is positive, `slope x` elsewhere (`torch.nn.LeakyReLU`; ReLU with slope 0).
///
/// The sign of the output is that of the input for slopes from 0 on, so that on the CPU the output alone is kept for the
/// backward pass: it is what the next layer keeps anyway. Other slopes, devices and element types go to Burn.
pub fn rectify(x: Tensor<5>, slope: f64) -> Tensor<5> {
    #[cfg(feature = "cpu")]
    if slope >= 0.0 && ops::on_cpu(&x) {
        return ops::rectify(x, slope as f32);
    }
    if let Some(dtype) = half_on_cpu(&x) {
        return cast(rectify(cast(x, DType::F32), slope), dtype);
    }
    if slope == 0.0 { activation::relu(x) } else { activation::leaky_relu(x, slope) }
}

/// The sum of two tensors of one shape, and [`rectify`] of it: what ends a residual block (He et al.,
/// <https://arxiv.org/abs/1512.03385>). With a slope of 1 the sum alone.
///
/// # Panics
/// Where the shapes do not fit, as Burn's own sum does.
pub fn rectified_sum(x: Tensor<5>, y: Tensor<5>, slope: f64) -> Tensor<5> {
    #[cfg(feature = "cpu")]
    if slope >= 0.0 && x.dims() == y.dims() && ops::on_cpu(&x) && ops::on_cpu(&y) {
        return ops::rectified_sum(x, y, slope as f32);
    }
    if let Some(dtype) = half_on_cpu(&x).filter(|dtype| *dtype == y.dtype()) {
        return cast(rectified_sum(cast(x, DType::F32), cast(y, DType::F32), slope), dtype);
    }
    let sum = x + y;
    if slope == 1.0 { sum } else { rectify(sum, slope) }
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

    use crate::flex::{floats, has_floats, with};
    use crate::simd::widest;

    /// Values of one task.
    const TASK: usize = 64 << 10;

    /// The activation and its gradient.
    #[backend_extension(Flex, Autodiff)]
    pub trait RectifyOps: Backend {
        /// `x` where positive, `slope x` elsewhere.
        fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self>;

        /// `x + y` where positive, `slope (x + y)` elsewhere.
        fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self>;

        /// `dy` where the output `y` is positive, `slope dy` elsewhere.
        fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self>;
    }

    /// `value` of each where `sign` is positive, `slope value` elsewhere.
    fn select(sign: &[f32], values: &[f32], slope: f32) -> Vec<f32> {
        let mut out = Vec::with_capacity(values.len());
        let places = &mut out.spare_capacity_mut()[..values.len()];
        let tasks = places.par_chunks_mut(TASK).zip(sign.par_chunks(TASK)).zip(values.par_chunks(TASK));
        tasks.for_each(|((out, sign), values)| {
            widest(
                #[inline(always)]
                move || {
                    if slope == 0.0 {
                        // Not a product: minus infinity becomes 0, and what is not a number stays.
                        for ((out, sign), value) in out.iter_mut().zip(sign).zip(values) {
                            out.write(if *sign <= 0.0 { 0.0 } else { *value });
                        }
                        return;
                    }
                    for ((out, sign), value) in out.iter_mut().zip(sign).zip(values) {
                        out.write(value * if *sign > 0.0 { 1.0 } else { slope });
                    }
                },
            );
        });
        // SAFETY: every place has been written.
        unsafe { out.set_len(values.len()) };
        out
    }

    /// The sum of each, times `slope` unless it is positive.
    fn add(x: &[f32], y: &[f32], slope: f32) -> Vec<f32> {
        let mut out = Vec::with_capacity(x.len());
        let places = &mut out.spare_capacity_mut()[..x.len()];
        let tasks = places.par_chunks_mut(TASK).zip(x.par_chunks(TASK)).zip(y.par_chunks(TASK));
        tasks.for_each(|((out, x), y)| {
            widest(
                #[inline(always)]
                move || {
                    if slope == 0.0 {
                        for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                            let sum = x + y;
                            out.write(if sum <= 0.0 { 0.0 } else { sum });
                        }
                        return;
                    }
                    for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                        let sum = x + y;
                        out.write(sum * if sum > 0.0 { 1.0 } else { slope });
                    }
                },
            );
        });
        // SAFETY: every place has been written.
        unsafe { out.set_len(x.len()) };
        out
    }

    impl RectifyOps for Flex {
        fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
            let dims = x.layout().shape().to_vec();
            floats(with([x, y], |[x, y]| add(x, y, slope)), dims)
        }

        fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
            let dims = x.layout().shape().to_vec();
            floats(with([x], |[x]| select(x, x, slope)), dims)
        }

        fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
            let dims = y.layout().shape().to_vec();
            floats(with([y, dy], |[y, dy]| select(y, dy, slope)), dims)
        }
    }

    /// The backward pass.
    #[derive(Debug)]
    struct RectifyBackward;

    impl<B: RectifyOps> Backward<B, 1> for RectifyBackward {
        type State = (FloatTensor<B>, f32);

        fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
            let dy = grads.consume::<B>(&ops.node);
            let (y, slope) = ops.state;
            for node in ops.parents.into_iter().flatten() {
                grads.register::<B>(node.id, B::rectify_gradient(y.clone(), dy.clone(), slope));
            }
        }
    }

    /// The backward pass of the sum: both have the same gradient.
    #[derive(Debug)]
    struct SumBackward;

    impl<B: RectifyOps> Backward<B, 2> for SumBackward {
        /// The output, unless the gradient is handed on as it is.
        type State = Option<(FloatTensor<B>, f32)>;

        fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
            let dy = grads.consume::<B>(&ops.node);
            let dy = match ops.state {
                Some((y, slope)) => B::rectify_gradient(y, dy, slope),
                None => dy,
            };
            for node in ops.parents.into_iter().flatten() {
                grads.register::<B>(node.id, dy.clone());
            }
        }
    }

    impl<B: RectifyOps, C: CheckpointStrategy> RectifyOps for Autodiff<B, C> {
        fn rectified_sum(x: FloatTensor<Self>, y: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
            match SumBackward.prepare::<C>([x.node(), y.node()]).compute_bound().stateful() {
                OpsKind::Tracked(prep) => {
                    let sum = B::rectified_sum(x.into_primitive(), y.into_primitive(), slope);
                    prep.finish((slope != 1.0).then(|| (sum.clone(), slope)), sum)
                }
                OpsKind::UnTracked(prep) => {
                    prep.finish(B::rectified_sum(x.into_primitive(), y.into_primitive(), slope))
                }
            }
        }

        fn rectify(x: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
            match RectifyBackward.prepare::<C>([x.node()]).compute_bound().stateful() {
                OpsKind::Tracked(prep) => {
                    let y = B::rectify(x.into_primitive(), slope);
                    prep.finish((y.clone(), slope), y)
                }
                OpsKind::UnTracked(prep) => prep.finish(B::rectify(x.into_primitive(), slope)),
            }
        }

        fn rectify_gradient(y: FloatTensor<Self>, dy: FloatTensor<Self>, slope: f32) -> FloatTensor<Self> {
            // Only the backward pass calls this, on plain tensors; a gradient of a gradient is not offered.
            Self::from_inner(B::rectify_gradient(y.into_primitive(), dy.into_primitive(), slope))
        }
    }

    /// Whether the kernel can take it: f32 on the CPU, not empty.
    pub fn on_cpu(x: &Tensor<5>) -> bool {
        has_floats(x)
    }

    /// Runs the operation on the CPU backend.
    pub fn rectified_sum(x: Tensor<5>, y: Tensor<5>, slope: f32) -> Tensor<5> {
        let sum = <Dispatch as RectifyOps>::rectified_sum(x.into_dispatch(), y.into_dispatch(), slope);
        Tensor::from_dispatch(sum)
    }

    /// Runs the operation on the CPU backend.
    pub fn rectify(x: Tensor<5>, slope: f32) -> Tensor<5> {
        Tensor::from_dispatch(<Dispatch as RectifyOps>::rectify(x.into_dispatch(), slope))
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData, activation};

    use super::{rectified_sum, rectify};

    #[test]
    fn values_and_gradients_are_burns() {
        let device = Device::flex().autodiff();
        let mut v: Vec<f32> = (0..2 * 3 * 4).map(|i| (i as f32 * 1.7).sin()).collect();
        v[3] = f32::NAN;
        v[5] = f32::NEG_INFINITY;
        let x = Tensor::<5>::from_data(TensorData::new(v, [1, 2, 3, 4, 1]), &device).require_grad();
        for slope in [0.0, 0.01, 0.5, -0.5] {
            let all = |y: Tensor<5>| {
                let gradients = (y.clone() * y.clone().powi_scalar(2)).sum().backward();
                let bits = |t: Tensor<5>| {
                    t.into_data().iter::<f32>().map(|v| if v.is_nan() { None } else { Some(v) }).collect::<Vec<_>>()
                };
                (bits(y), bits(Tensor::from_data(x.grad(&gradients).expect("a gradient").into_data(), &Device::flex())))
            };
            let theirs =
                if slope == 0.0 { activation::relu(x.clone()) } else { activation::leaky_relu(x.clone(), slope) };
            let (ours, theirs) = (all(rectify(x.clone(), slope)), all(theirs));
            // At what is not a number the gradient is not one either; there the two may differ in which.
            assert_eq!(ours.0[4..], theirs.0[4..], "slope {slope}");
            assert_eq!(ours.1[6..], theirs.1[6..], "slope {slope}");
            assert!(ours.0[3].is_none(), "slope {slope}");
        }
    }

    #[test]
    fn sums_and_their_gradients_are_burns() {
        let device = Device::flex().autodiff();
        let leaf = |seed: f32| {
            let mut v: Vec<f32> = (0..2 * 3 * 4).map(|i| (i as f32 * 1.7 + seed).sin()).collect();
            v[3] = f32::NAN;
            Tensor::<5>::from_data(TensorData::new(v, [1, 2, 3, 4, 1]), &device).require_grad()
        };
        for slope in [0.0, 0.01, 1.0, -0.5] {
            // The second one is a view.
            let all = |sum: &dyn Fn(Tensor<5>, Tensor<5>) -> Tensor<5>| {
                let (x, y) = (leaf(0.3), leaf(1.9));
                let out = sum(x.clone(), y.clone().reshape([1, 4, 2, 3, 1]).permute([0, 2, 3, 1, 4]));
                let gradients = (out.clone() * out.clone().powi_scalar(2)).sum().backward();
                let of = |leaf: &Tensor<5>| leaf.grad(&gradients).expect("a gradient").into_data();
                [out.into_data(), of(&x), of(&y)]
                    .map(|data| data.iter::<f32>().map(|v| if v.is_nan() { None } else { Some(v) }).collect::<Vec<_>>())
            };
            let theirs = all(&|x, y| match slope {
                0.0 => activation::relu(x + y),
                1.0 => x + y,
                _ => activation::leaky_relu(x + y, slope),
            });
            assert_eq!(all(&|x, y| rectified_sum(x, y, slope)), theirs, "slope {slope}");
        }
    }
}
