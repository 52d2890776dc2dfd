//! The steps on GPUs, in place: one kernel for several parameters. With a [`Decision`] the device
//! decides whether a step is taken.

mod adam;
mod rms_prop;
mod sgd;
mod together;

use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::decided::Decision;
use crate::gpu::{UNITS, empty, ordered, own, primitive};

pub(super) use adam::{adam, adam_where};
pub(super) use rms_prop::{rms_prop, rms_prop_where};
pub(super) use sgd::{sgd, sgd_where};
pub(super) use together::together;

/// A parameter, its gradient or its state; within kernels, a tensor is CubeCL's type.
type Values = burn::tensor::Tensor<1>;

/// One tensor for each parameter of a launch, or none.
type Tensors = Sequence<OwnedTensor<f32>>;

/// The tensors of a decision that a launch reads: those of [`Gate`].
#[derive(CubeLaunch, CubeType)]
struct Decided {
    taken: OwnedTensor<f32>,
    before: Tensors,
}

/// The tensors to write to, and the gradient.
fn given<const N: usize>(tensors: [Values; N], g: &Values) -> ([CubeTensor; N], CubeTensor) {
    let [g] = ordered([primitive(g.clone())]);
    let tensors = tensors.map(|tensor| own(primitive(tensor)));
    let len = g.meta.num_elements();
    assert!(tensors.iter().all(|t| t.meta.num_elements() == len), "the tensors of a step have one length");
    (tensors, g)
}

fn back(tensor: CubeTensor) -> Values {
    Values::from_primitive::<CubeBackend>(tensor)
}

/// The tensors of a decision that a kernel reads and writes; unused without one.
struct Gate {
    taken: CubeTensor,
    before: CubeTensor,
    /// The number of skipped steps after this one.
    after: CubeTensor,
    /// The number of this step of the parameter.
    count: f32,
    decided: bool,
}

impl Gate {
    fn new(decision: Option<Decision>, g: &CubeTensor) -> Self {
        let after = empty(g, [1], DType::F32);
        let Some(decision) = decision else {
            return Self { taken: g.clone(), before: g.clone(), after, count: 0.0, decided: false };
        };
        let [taken, before] = ordered([decision.taken, decision.left_out].map(primitive));
        Self { taken, before, after, count: decision.step as f32, decided: true }
    }
}

/// The index of this unit's value in a tensor whose first workgroup is `begin`.
#[cube]
fn place_after(begin: usize) -> usize {
    (CUBE_POS - begin) * UNITS + UNIT_POS as usize
}

/// The number of a parameter's skipped steps before this one; the unit of its first value records
/// whether this step is skipped.
#[cube]
fn left_out(before: &Tensors, after: &mut Tensors, #[comptime] which: usize, at: usize, takes: bool) -> f32 {
    let count = before.index(which)[0];
    if at == 0 {
        after.index_mut(which)[0] = count + select(takes, 0.0f32, 1.0f32);
    }
    count
}

/// The gradient with the parameter's decay. Without decay, the result does not depend on the
/// parameter, even if it is infinite.
#[cube]
fn decayed(g: f32, p: f32, weight_decay: f32) -> f32 {
    select(weight_decay == 0.0f32, g, g + p * weight_decay)
}
