//! Layer norm, forward and backward in one pass each (Ba et al., <https://arxiv.org/abs/1607.06450>).

use burn::tensor::{Tensor, module};

/// `weight (x - mean) / sqrt(variance + eps) + bias` with mean and biased variance of each row of the last axis.
///
/// On the CPU f32 rows are worked on by all threads and nothing but `x` is kept for the backward pass; other devices and
/// element types go to Burn.
///
/// # Panics
/// Where the last axis does not have one weight and one bias per feature, as Burn's own operation does.
pub fn layer_norm<const D: usize>(x: Tensor<D>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<D> {
    #[cfg(feature = "cpu")]
    if ops::on_cpu(&x, [&weight, &bias]) {
        return ops::layer_norm(x, weight, bias, eps);
    }
    module::layer_norm(x, weight, Some(bias), eps)
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
    use crate::simd::{sum, widest};

    /// Values of one task, about. A constant, so that sums over rows do not depend on the number of threads.
    const TASK: usize = 32 << 10;

    /// The norm and its gradients.
    #[backend_extension(Flex, Autodiff)]
    pub trait LayerNormOps: Backend {
        /// The output.
        fn normalize_rows(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            eps: f32,
        ) -> FloatTensor<Self>;

        /// The gradients with respect to x, weight and bias.
        fn normalize_rows_gradient(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            dy: FloatTensor<Self>,
            eps: f32,
        ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
    }

    /// Mean, and one over the deviation.
    #[inline(always)]
    fn moments(x: &[f32], eps: f32) -> [f32; 2] {
        let count = x.len() as f32;
        let mean = sum(x, x, |a, _| a) / count;
        let variance = sum(x, x, |a, _| (a - mean) * (a - mean)) / count;
        [mean, 1.0 / (variance + eps).sqrt()]
    }

    fn forward(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
        let features = weight.len();
        let task = (TASK / features).max(1) * features;
        let mut out = vec![0.0; x.len()];
        out.par_chunks_mut(task).zip(x.par_chunks(task)).for_each(|(out, x)| {
            widest(
                #[inline(always)]
                move || {
                    for (out, x) in out.chunks_exact_mut(features).zip(x.chunks_exact(features)) {
                        let [mean, inverse] = moments(x, eps);
                        for (((out, x), w), b) in out.iter_mut().zip(x).zip(weight).zip(bias) {
                            *out = (x - mean) * inverse * w + b;
                        }
                    }
                },
            );
        });
        out
    }

    /// Gradients of x, weight and bias.
    fn backward(x: &[f32], weight: &[f32], dy: &[f32], eps: f32) -> [Vec<f32>; 3] {
        let features = weight.len();
        let task = (TASK / features).max(1) * features;
        let mut dx = vec![0.0; x.len()];
        let tasks = dx.par_chunks_mut(task).zip(x.par_chunks(task)).zip(dy.par_chunks(task));
        let sums: Vec<[Vec<f32>; 2]> = tasks
            .map(|((dx, x), dy)| {
                let [mut dw, mut db] = [vec![0.0; features], vec![0.0; features]];
                let (dw_all, db_all) = (&mut dw[..], &mut db[..]);
                widest(
                    #[inline(always)]
                    move || {
                        let rows = dx.chunks_exact_mut(features).zip(x.chunks_exact(features));
                        for ((dx, x), dy) in rows.zip(dy.chunks_exact(features)) {
                            let [mean, inverse] = moments(x, eps);
                            for (((((dx, x), dy), w), dw), db) in
                                dx.iter_mut().zip(x).zip(dy).zip(weight).zip(&mut *dw_all).zip(&mut *db_all)
                            {
                                *dx = dy * w;
                                *dw += dy * ((x - mean) * inverse);
                                *db += dy;
                            }
                            let count = features as f32;
                            let first = sum(dx, x, |g, _| g) / count;
                            let second = sum(dx, x, |g, x| g * ((x - mean) * inverse)) / count;
                            for (dx, x) in dx.iter_mut().zip(x) {
                                *dx = inverse * (*dx - first - (x - mean) * inverse * second);
                            }
                        }
                    },
                );
                [dw, db]
            })
            .collect();
        let total = |which: usize| {
            let mut total = vec![0.0_f64; features];
            for part in &sums {
                total.iter_mut().zip(&part[which]).for_each(|(total, part)| *total += f64::from(*part));
            }
            total.into_iter().map(|v| v as f32).collect()
        };
        [dx, total(0), total(1)]
    }

    impl LayerNormOps for Flex {
        fn normalize_rows(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            eps: f32,
        ) -> FloatTensor<Self> {
            let dims = x.layout().shape().to_vec();
            floats(with([x, weight, bias], |[x, weight, bias]| forward(x, weight, bias, eps)), dims)
        }

        fn normalize_rows_gradient(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            dy: FloatTensor<Self>,
            eps: f32,
        ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
            let dims = x.layout().shape().to_vec();
            let features = weight.layout().num_elements();
            let [dx, dw, db] = with([x, weight, dy], |[x, weight, dy]| backward(x, weight, dy, eps));
            (floats(dx, dims), floats(dw, [features]), floats(db, [features]))
        }
    }

    /// The backward pass.
    #[derive(Debug)]
    struct LayerNormBackward;

    impl<B: LayerNormOps> Backward<B, 3> for LayerNormBackward {
        type State = (FloatTensor<B>, FloatTensor<B>, f32);

        fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
            let dy = grads.consume::<B>(&ops.node);
            let (x, weight, eps) = ops.state;
            let (dx, dw, db) = B::normalize_rows_gradient(x, weight, dy, eps);
            for (parent, gradient) in ops.parents.into_iter().zip([dx, dw, db]) {
                if let Some(node) = parent {
                    grads.register::<B>(node.id, gradient);
                }
            }
        }
    }

    impl<B: LayerNormOps, C: CheckpointStrategy> LayerNormOps for Autodiff<B, C> {
        fn normalize_rows(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            bias: FloatTensor<Self>,
            eps: f32,
        ) -> FloatTensor<Self> {
            let nodes = [x.node(), weight.node(), bias.node()];
            let [x, weight, bias] = [x, weight, bias].map(|t| t.into_primitive());
            match LayerNormBackward.prepare::<C>(nodes).compute_bound().stateful() {
                OpsKind::Tracked(prep) => {
                    let y = B::normalize_rows(x.clone(), weight.clone(), bias, eps);
                    prep.finish((x, weight, eps), y)
                }
                OpsKind::UnTracked(prep) => prep.finish(B::normalize_rows(x, weight, bias, eps)),
            }
        }

        fn normalize_rows_gradient(
            x: FloatTensor<Self>,
            weight: FloatTensor<Self>,
            dy: FloatTensor<Self>,
            eps: f32,
        ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
            // Only the backward pass calls this, on plain tensors; a gradient of a gradient is not offered.
            let [x, weight, dy] = [x, weight, dy].map(|t| t.into_primitive());
            let (dx, dw, db) = B::normalize_rows_gradient(x, weight, dy, eps);
            (Self::from_inner(dx), Self::from_inner(dw), Self::from_inner(db))
        }
    }

    /// Whether the kernel can take these: f32 on the CPU, nothing empty, one weight and bias per feature.
    pub fn on_cpu<const D: usize>(x: &Tensor<D>, affine: [&Tensor<1>; 2]) -> bool {
        let features = x.dims()[D - 1];
        has_floats(x) && affine.into_iter().all(|t| has_floats(t) && t.dims() == [features])
    }

    /// Runs the operation on the CPU backend.
    pub fn layer_norm<const D: usize>(x: Tensor<D>, weight: Tensor<1>, bias: Tensor<1>, eps: f64) -> Tensor<D> {
        let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
        Tensor::from_dispatch(<Dispatch as LayerNormOps>::normalize_rows(x, weight, bias, eps as f32))
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn::tensor::{Device, Tensor, TensorData, module};
    use proptest::prelude::*;

    use super::layer_norm;
    use crate::counter_rng::Key;

    fn draw<const D: usize>(shape: [usize; D], seed: u64, device: &Device) -> Tensor<D> {
        let key = Key::new(seed);
        let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64).map(|i| key.normal(i) as f32).collect();
        Tensor::from_data(TensorData::new(values, shape), device)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn values_and_gradients_are_burns(rows in 1_usize..300, features in 8_usize..400, offset in -5.0_f64..5.0) {
            let device = Device::flex().autodiff();
            let x = (draw([1, rows, features], 1, &device) + offset).require_grad();
            let [weight, bias] = [2, 3].map(|seed| draw([features], seed, &device).require_grad());
            let toward = draw([1, rows, features], 4, &device);
            let of = |y: Tensor<3>| {
                let gradients = (y.clone() * toward.clone()).sum().backward();
                let small = [&weight, &bias].map(|t| t.grad(&gradients).expect("a gradient").into_data());
                [[y.into_data(), x.grad(&gradients).expect("a gradient").into_data()], small].concat()
            };
            let ours = of(layer_norm(x.clone(), weight.clone(), bias.clone(), 1e-5));
            let theirs = of(module::layer_norm(x.clone(), weight.clone(), Some(bias.clone()), 1e-5));
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                let [ours, theirs] = [ours, theirs].map(|t| t.try_to_vec::<f32>().expect("f32"));
                let most = theirs.iter().fold(1.0_f32, |most, v| most.max(v.abs()));
                let apart = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                prop_assert!(apart <= 1e-4 * most, "{apart} of {most}");
            }
        }
    }
}
