//! The preparation of prediction and target in Dice and related losses.

use burn::tensor::{DType, Tensor};
use hearth_kernels::cast;
use hearth_kernels::sigmoid_sums::{Focal, SigmoidSums, sigmoid_sums};
use hearth_kernels::softmax_sums::softmax_sums;

use super::activation::Activation;
use super::checks::{self, check_finite, check_labels};
use super::labels::one_hot;
use super::{ClassWeight, LossError, Reduction};
use crate::ignored::counted;

/// The options that these losses share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub(super) loss: &'static str,
    pub(super) include_background: bool,
    pub(super) to_onehot_y: bool,
    pub(super) activation: Activation,
    pub(super) ignore_index: Option<i64>,
    pub(super) check_labels: Option<bool>,
}

/// Prediction and target of one shape, in f32, zero for ignored voxels; and the mask `[b, 1, x, y,
/// z]`, 1 for voxels that are not ignored.
pub(super) struct Prepared {
    pub(super) input: Tensor<5>,
    pub(super) target: Tensor<5>,
    pub(super) mask: Option<Tensor<5>>,
}

impl Inputs {
    /// Applies the activation, the one-hot form, the exclusion of the background and the mask of
    /// ignored voxels, in this order.
    pub(super) fn prepare(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Prepared, LossError> {
        let shapes = (input.dims(), target.dims());
        let misfit = |expected: &str| LossError::Shape {
            loss: self.loss,
            input: shapes.0,
            target: shapes.1,
            expected: expected.to_owned(),
        };
        if shapes.0[0] != shapes.1[0] || shapes.0[2..] != shapes.1[2..] {
            return Err(misfit("batch and spatial axes must be equal"));
        }
        let channels = shapes.0[1];
        let checked = checks::wanted(self.check_labels, &input);
        if checked {
            check_finite(self.loss, "prediction", &input)?;
            check_finite(self.loss, "target", &target)?;
        }
        let mut input = self.activation.apply(cast(input, DType::F32));
        let mut target = cast(target, DType::F32);
        let mask = self.ignore_index.map(|index| counted(&target, index));
        // The extra channel only marks the ignored voxels.
        if self.ignore_index == Some(channels as i64) && shapes.1[1] == channels + 1 {
            target = target.narrow(1, 0, channels);
        }
        if self.to_onehot_y && channels > 1 {
            if shapes.1[1] != 1 {
                return Err(misfit("to_onehot_y needs a target with one channel"));
            }
            if checked {
                check_labels(&target, channels, self.ignore_index)?;
            }
            if let Some(ignored) = self.ignore_index.filter(|index| !(0..channels as i64).contains(index)) {
                let unknown = target.clone().equal_elem(ignored as f32);
                target = target.mask_fill(unknown, 0.0);
            }
            target = one_hot(target, channels);
        }
        if !self.include_background && channels > 1 {
            if target.dims()[1] < 2 {
                return Err(misfit("excluding the background needs a target with a channel per class"));
            }
            let foreground = |x: Tensor<5>| {
                let classes = x.dims()[1];
                x.narrow(1, 1, classes - 1)
            };
            (input, target) = (foreground(input), foreground(target));
        }
        if input.dims() != target.dims() {
            return Err(misfit("expected the same shape, or to_onehot_y and a target with one channel"));
        }
        if let Some(mask) = &mask {
            let all = mask.clone().expand(input.dims());
            (input, target) = (input * all.clone(), target * all);
        }
        Ok(Prepared { input, target, mask })
    }

    /// The overlap and differences of prediction and target, summed over space. For a softmax with
    /// class indices and for a sigmoid, a kernel computes them without tensors of the inputs' size;
    /// other cases use tensor operations.
    pub(super) fn overlap(&self, input: Tensor<5>, target: Tensor<5>, form: Form) -> Result<Overlap, LossError> {
        if !form.soft_label {
            let sums = match self.activation {
                Activation::Softmax if self.to_onehot_y => self.softmax_sums(&input, &target, form.squared),
                Activation::Sigmoid => {
                    let sums = self.sigmoid_sums(&input, &target, form.squared, None);
                    sums.map(|sums| [sums.both, sums.prediction, sums.target])
                }
                _ => None,
            };
            if let Some([both, prediction, target]) = sums {
                return Ok(self.overlap_of_sums(&both, &prediction, &target, form.batch));
            }
        }
        let Prepared { input, target, .. } = self.prepare(input, target)?;
        Ok(Overlap::of(input, target, form))
    }

    /// The overlap from sums over space, `[b, c]` each.
    pub(super) fn overlap_of_sums(
        &self,
        both: &Tensor<2>,
        prediction: &Tensor<2>,
        target: &Tensor<2>,
        batch: bool,
    ) -> Overlap {
        let [both, prediction, target] = [both, prediction, target].map(|sums| {
            let sums = self.that_count(sums);
            if batch { sums.sum_dim(0) } else { sums }
        });
        Overlap::of_sums(both, prediction, target)
    }

    /// The classes that are included.
    pub(super) fn that_count(&self, sums: &Tensor<2>) -> Tensor<2> {
        let classes = sums.dims()[1];
        let first = usize::from(!self.include_background && classes > 1);
        if first == 0 { sums.clone() } else { sums.clone().narrow(1, first, classes - first) }
    }

    /// The sums of a softmax. `None` if there is no kernel, or if a check fails: the slow path then
    /// reports the problem.
    fn softmax_sums(&self, input: &Tensor<5>, target: &Tensor<5>, squared: bool) -> Option<[Tensor<2>; 3]> {
        if self.ignore_index.is_some() || input.dims()[1] == 1 || target.dims()[1] != 1 {
            return None;
        }
        let look = checks::wanted(self.check_labels, input);
        let [input, target] = [input, target].map(|x| cast(x.clone(), DType::F32));
        let sums = softmax_sums(input, target, squared, look).filter(|sums| !sums.odd)?;
        Some([sums.both, sums.prediction, sums.target])
    }

    /// [`softmax_sums`](Self::softmax_sums) for a sigmoid, regardless of the activation.
    pub(super) fn sigmoid_sums(
        &self,
        input: &Tensor<5>,
        target: &Tensor<5>,
        squared: bool,
        focal: Option<Focal>,
    ) -> Option<SigmoidSums> {
        let channels = input.dims()[1];
        let fits = if self.to_onehot_y && channels > 1 { target.dims()[1] == 1 } else { target.dims() == input.dims() };
        if self.ignore_index.is_some() || !fits {
            return None;
        }
        let look = checks::wanted(self.check_labels, input);
        let [input, target] = [input, target].map(|x| cast(x.clone(), DType::F32));
        sigmoid_sums(input, target, squared, focal, look).filter(|sums| !sums.odd)
    }
}

/// The options of the overlap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Form {
    /// Whether prediction and target are squared.
    pub(super) squared: bool,
    /// Whether sums include the batch.
    pub(super) batch: bool,
    /// Whether the overlap is `(|p| + |t| - |p - t|) / 2`, which also holds for soft targets, but
    /// not with squares.
    pub(super) soft_label: bool,
}

/// Sums `[b, c, x, y, z]` to `[b, c]`, or to `[1, c]` including the batch.
pub(super) fn sums(x: Tensor<5>, batch: bool) -> Tensor<2> {
    let [b, c, dx, dy, dz] = x.dims();
    let per_item: Tensor<2> = x.reshape([b, c, dx * dy * dz]).sum_dim(2).reshape([b, c]);
    if batch { per_item.sum_dim(0) } else { per_item }
}

/// Overlap, false positives, false negatives, and the target; `[b, c]` or `[1, c]`
/// each.
pub(super) struct Overlap {
    pub(super) tp: Tensor<2>,
    pub(super) fp: Tensor<2>,
    pub(super) fn_: Tensor<2>,
    pub(super) present: Tensor<2>,
}

impl Overlap {
    fn of(input: Tensor<5>, target: Tensor<5>, form: Form) -> Self {
        let sum = |x: Tensor<5>| sums(x, form.batch);
        if form.squared {
            let own = |x: Tensor<5>| sum(x.clone() * x);
            return Overlap::of_sums(sum(input.clone() * target.clone()), own(input), own(target));
        }
        if form.soft_label {
            let difference = sum((input.clone() - target.clone()).abs());
            let (predicted, present) = (sum(input.abs()), sum(target.abs()));
            let both = (predicted.clone() + present.clone() - difference) * 0.5;
            return Overlap::of_sums(both, predicted, present);
        }
        Overlap::of_sums(sum(input.clone() * target.clone()), sum(input), sum(target))
    }

    fn of_sums(tp: Tensor<2>, predicted: Tensor<2>, present: Tensor<2>) -> Self {
        Overlap { fp: predicted - tp.clone(), fn_: present.clone() - tp.clone(), tp, present }
    }
}

/// Reshapes `[rows, columns]` to a batch with spatial axes of length 1, so that it broadcasts over
/// voxels.
pub(super) fn per_class(x: Tensor<2>) -> Tensor<5> {
    let [rows, columns] = x.dims();
    x.reshape([rows, columns, 1, 1, 1])
}

/// The sum of two parts of a loss, each multiplied by its factor, one value per voxel and class.
pub(super) fn weighted_sum(parts: [(Tensor<5>, f64); 2]) -> Tensor<1> {
    let [(first, a), (second, b)] = parts;
    Reduction::None.apply(first * a + second * b)
}

/// Checks the weights of classes.
pub(super) fn check_weight(
    loss: &'static str,
    key: &'static str,
    weight: Option<&ClassWeight>,
) -> Result<(), LossError> {
    check_weights(
        loss,
        key,
        match weight {
            Some(ClassWeight::All(weight)) => std::slice::from_ref(weight),
            Some(ClassWeight::Each(weights)) => weights,
            None => &[],
        },
    )
}

/// Checks that weights are finite numbers of at least 0, and not all 0: a single one is above 0.
pub(super) fn check_weights(loss: &'static str, key: &'static str, weights: &[f64]) -> Result<(), LossError> {
    let fail = |reason: String| Err(LossError::Option { key, loss, reason });
    if let [weight] = weights {
        let sound = weight.is_finite() && *weight > 0.0;
        return if sound { Ok(()) } else { fail(format!("{key} is {weight}: expected a number above 0")) };
    }
    if let Some(wrong) = weights.iter().find(|weight| !weight.is_finite() || **weight < 0.0) {
        return fail(format!("{key} holds {wrong}: expected finite numbers of at least 0"));
    }
    if !weights.is_empty() && weights.iter().all(|weight| *weight == 0.0) {
        return fail(format!("{key} is 0 for every class: expected a number above 0"));
    }
    Ok(())
}

/// Checks that the factors of parts, and the addends of fractions, are finite numbers of at least 0.
pub(super) fn check_factors(loss: &'static str, factors: &[(&'static str, f64)]) -> Result<(), LossError> {
    match factors.iter().find(|(_, factor)| !factor.is_finite() || *factor < 0.0) {
        Some((name, factor)) => {
            let reason = format!("{name} is {factor}: expected a finite number of at least 0");
            Err(LossError::Option { key: name, loss, reason })
        }
        None => Ok(()),
    }
}
