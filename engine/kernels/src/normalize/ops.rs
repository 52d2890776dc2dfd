//! Normalization as an operation of backends, and its node in the autodiff graph.

use burn::backend::autodiff::Autodiff;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{AutodiffBackend, Backend, Dispatch, backend_extension, tensor::FloatTensor};
#[cfg(gpu_kernels)]
use burn::tensor::DType;
use burn::tensor::Tensor;

use super::shape::Shape;
use super::{Normalized, Over, Slope};
#[cfg(gpu_kernels)]
use crate::gpu;
use crate::host;
use crate::layer_range::of_layer;
use crate::place::{self, Place};

/// Normalization with an activation, and its gradients; weights, biases, slopes and statistics are
/// f32.
#[backend_extension(
    Flex,
    Cube: cfg(gpu_kernels),
    Autodiff,
)]
pub trait NormalizeOps: Backend {
    /// Output, means and variances.
    fn normalize(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// The gradients with respect to x, weight, bias and slope.
    #[allow(clippy::too_many_arguments, reason = "the inputs and the results of the forward pass")]
    fn normalize_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);
}

/// The backward pass.
#[derive(Debug)]
struct NormalizeBackward;

impl<B: NormalizeOps> Backward<B, 4> for NormalizeBackward {
    /// The state: x, weight, bias, slope, mean, variance.
    type State = ([FloatTensor<B>; 6], Shape);

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let dy = grads.consume::<B>(&ops.node);
        let ([x, weight, bias, slope, mean, variance], shape) = ops.state;
        let (dx, dw, db, ds) = B::normalize_gradient(x, dy, weight, bias, slope, mean, variance, shape);
        for (parent, gradient) in ops.parents.into_iter().zip([dx, dw, db, ds]) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: NormalizeOps, C: CheckpointStrategy> NormalizeOps for Autodiff<B, C> {
    fn normalize(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [x.node(), weight.node(), bias.node(), slope.node()];
        let [x, weight, bias, slope] = [x, weight, bias, slope].map(|t| t.into_primitive());
        let (y, mean, variance) = B::normalize(x.clone(), weight.clone(), bias.clone(), slope.clone(), shape);
        let output = match of_layer(NormalizeBackward).prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let state = ([x, weight, bias, slope, mean.clone(), variance.clone()], shape);
                prep.finish(state, y)
            }
            OpsKind::UnTracked(prep) => prep.finish(y),
        };
        (output, Self::from_inner(mean), Self::from_inner(variance))
    }

    fn normalize_gradient(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        slope: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        variance: FloatTensor<Self>,
        shape: Shape,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        // Only the backward pass calls this, on plain tensors; second-order gradients are not
        // supported.
        let [x, dy, w, b, s, m, v] = [x, dy, weight, bias, slope, mean, variance].map(|t| t.into_primitive());
        let (dx, dw, db, ds) = B::normalize_gradient(x, dy, w, b, s, m, v, shape);
        (Self::from_inner(dx), Self::from_inner(dw), Self::from_inner(db), Self::from_inner(ds))
    }
}

/// Whether a kernel supports these tensors.
pub fn has_kernel(x: &Tensor<5>, affine: Option<&(Tensor<1>, Tensor<1>)>, slope: &Slope) -> bool {
    let small = affine.iter().flat_map(|(weight, bias)| [weight, bias]).chain(match slope {
        Slope::Learned(slope) => Some(slope),
        Slope::Fixed(_) => None,
    });
    place::takes(x) && small.into_iter().all(place::takes_floats)
}

/// Runs the kernel; [`has_kernel`] must be true.
pub fn normalize(
    x: Tensor<5>,
    affine: Option<(Tensor<1>, Tensor<1>)>,
    slope: &Slope,
    over: Over,
    eps: f64,
) -> Normalized {
    let [batch, channels, dx, dy, dz] = x.dims();
    let device = x.device();
    let (weight, bias) =
        affine.unwrap_or_else(|| (Tensor::ones([channels], &device), Tensor::zeros([channels], &device)));
    let slope = match slope {
        Slope::Fixed(slope) => Tensor::full([1], *slope, &device),
        Slope::Learned(slope) => slope.clone(),
    };
    assert!(
        weight.dims() == [channels] && bias.dims() == [channels] && [1, channels].contains(&slope.dims()[0]),
        "{channels} channels are normalized with {:?} weights, {:?} biases and {:?} slopes",
        weight.dims(),
        bias.dims(),
        slope.dims()
    );
    if let Over::Groups(groups) = over {
        assert!(groups > 0 && channels % groups == 0, "{channels} channels cannot be {groups} groups");
    }
    let shape = Shape { batch, channels, volume: dx * dy * dz, over, eps };
    let (x, weight, bias) = (x.into_dispatch(), weight.into_dispatch(), bias.into_dispatch());
    let (output, mean, variance) = <Dispatch as NormalizeOps>::normalize(x, weight, bias, slope.into_dispatch(), shape);
    Normalized {
        output: Tensor::from_dispatch(output),
        mean: Tensor::<1>::from_dispatch(mean).without_autodiff(),
        variance: Tensor::<1>::from_dispatch(variance).without_autodiff(),
    }
}

/// Scales, shifts and activates in place; returns `x` where that is not possible.
#[expect(clippy::result_large_err, reason = "both variants contain a tensor")]
pub fn scale(x: Tensor<5>, scale: &Tensor<1>, offset: &Tensor<1>, slope: &Slope) -> Result<Tensor<5>, Tensor<5>> {
    let [_, channels, dx, dy, dz] = x.dims();
    let learned = match slope {
        Slope::Learned(slope) => Some(slope),
        Slope::Fixed(_) => None,
    };
    let tracked = x.is_autodiff() || [scale, offset].into_iter().chain(learned).any(Tensor::is_autodiff);
    if tracked || !place::takes(&x) || scale.dims() != [channels] || offset.dims() != [channels] {
        return Err(x);
    }
    match place::of(&x) {
        Some(Place::Cpu) => {
            let small = |values: &Tensor<1>| host::read(values, <[f32]>::to_vec);
            let slope = match slope {
                Slope::Fixed(slope) => Some(vec![*slope as f32]),
                Slope::Learned(slope) => small(slope),
            };
            let (Some(scale), Some(offset), Some(slope)) = (small(scale), small(offset), slope) else { return Err(x) };
            host::change(x, |values| super::cpu::scale(values, &scale, &offset, &slope, dx * dy * dz))
        }
        #[cfg(gpu_kernels)]
        Some(Place::Gpu) => {
            let slope = match slope {
                Slope::Fixed(slope) => Tensor::full([1], *slope, (&x.device(), DType::F32)),
                Slope::Learned(slope) => slope.clone(),
            };
            let small = [scale.clone(), offset.clone(), slope];
            if !small.iter().all(|small| place::of(small) == Some(Place::Gpu) && small.dtype() == DType::F32) {
                return Err(x);
            }
            let [scale, offset, slope] = small.map(gpu::primitive);
            let done = super::cube::scale(gpu::primitive(x), scale, offset, slope, [channels, dx * dy * dz]);
            Ok(Tensor::from_primitive::<burn_cubecl::CubeBackend>(done))
        }
        _ => Err(x),
    }
}
