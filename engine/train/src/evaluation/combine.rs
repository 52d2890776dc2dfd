//! Combines several predictions into one on the tensors' device, as MONAI's `MeanEnsemble` and
//! `VoteEnsemble`.

use burn::tensor::{Int, Tensor};

/// The reason why predictions cannot be combined.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// There are no predictions to combine.
    #[error("no prediction to combine")]
    Empty,
    /// The predictions differ in shape.
    #[error("prediction {index} has shape {found:?}, the first has {expected:?}; all must have the same")]
    Shape {
        /// The prediction's index, from 0.
        index: usize,
        /// The prediction's shape.
        found: [usize; 5],
        /// The first prediction's shape.
        expected: [usize; 5],
    },
    /// The weights do not fit the predictions.
    #[error(
        "{found} weights for {members} predictions of {channels} channels; give one for each prediction, for each prediction and channel, or for each value"
    )]
    Weights {
        /// The number of weights.
        found: usize,
        /// The number of predictions.
        members: usize,
        /// The number of channels of each prediction.
        channels: usize,
    },
    /// The weights' mean is 0 or not finite.
    #[error("the weights' mean is {0}; it must be finite and not 0")]
    WeightSum(f64),
    /// There are no classes.
    #[error("num_classes is {0}; give 1 or more")]
    NumClasses(usize),
}

/// Stacks the predictions into one tensor `[members, B, C, X, Y, Z]`.
fn stack(members: &[Tensor<5>]) -> Result<Tensor<6>, CombineError> {
    let expected = members.first().ok_or(CombineError::Empty)?.dims();
    if let Some(index) = members.iter().position(|member| member.dims() != expected) {
        return Err(CombineError::Shape { index, found: members[index].dims(), expected });
    }
    Ok(Tensor::stack(members.to_vec(), 0))
}

/// The mean over the members, `[B, C, X, Y, Z]` each, of `x * w / mean(w)` (MONAI's
/// `MeanEnsemble`).
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hearth_train::mean_ensemble;
/// let member = |value: f32| Tensor::<5>::full([1, 2, 4, 4, 4], value, &Device::default());
/// let mean = mean_ensemble(&[member(0.0), member(1.0)], Some(&[1.0, 3.0]))?;
/// assert_eq!(mean.max().into_scalar::<f32>(), 0.75);
/// # Ok::<(), hearth_train::CombineError>(())
/// ```
///
/// The weights are one for each member, one for each member and channel
/// (`w[member * C + channel]`), or one for each value of each member (`[members, C, X, Y, Z]`, the
/// same for all entries of the batch), and need not sum to 1: the mean of the weights is taken over
/// the members, separately for each channel or value.
///
/// # Errors
/// For no members, unequal shapes, a wrong number of weights, or weights whose mean is 0 or not
/// finite.
pub fn mean_ensemble(members: &[Tensor<5>], weights: Option<&[f64]>) -> Result<Tensor<5>, CombineError> {
    let stacked = stack(members)?;
    let [count, _, channels, x, y, z] = stacked.dims();
    let Some(weights) = weights else {
        return Ok(stacked.mean_dim(0).squeeze_dim(0));
    };
    let per_member = match weights.len() {
        n if n == count => [1, 1, 1, 1],
        n if n == count * channels => [channels, 1, 1, 1],
        n if n == count * channels * x * y * z => [channels, x, y, z],
        found => return Err(CombineError::Weights { found, members: count, channels }),
    };
    let columns: usize = per_member.iter().product();
    let mut means = vec![0.0; columns];
    for (i, weight) in weights.iter().enumerate() {
        means[i % columns] += weight / count as f64;
    }
    if let Some(mean) = means.iter().find(|mean| !mean.is_finite() || **mean == 0.0) {
        return Err(CombineError::WeightSum(*mean));
    }
    let scaled: Vec<f32> = weights.iter().enumerate().map(|(i, weight)| (weight / means[i % columns]) as f32).collect();
    let device = stacked.device();
    let scale = Tensor::<1>::from_data(scaled.as_slice(), &device);
    let [c, x, y, z] = per_member;
    let scale = scale.reshape([count, 1, c, x, y, z]);
    Ok((stacked * scale).mean_dim(0).squeeze_dim(0))
}

/// The vote of discrete predictions, `[B, C, X, Y, Z]` each (MONAI's `VoteEnsemble`).
///
/// Without `num_classes`, the mean over the members is rounded, half to even: two members that
/// disagree yield 0. With it, members of one channel are class maps. Each is one-hot encoded, and
/// the class with most votes wins, the lowest in a tie. Members of several channels must be one-hot
/// already. The channel axis stays, with length 1.
///
/// # Errors
/// For no members, unequal shapes, or `num_classes` of 0.
pub fn vote_ensemble(members: &[Tensor<5>], num_classes: Option<usize>) -> Result<Tensor<5>, CombineError> {
    let stacked = stack(members)?;
    let Some(classes) = num_classes else {
        return Ok(round_half_even(stacked.mean_dim(0).squeeze_dim(0)));
    };
    if classes == 0 {
        return Err(CombineError::NumClasses(classes));
    }
    let votes: Tensor<5> = if stacked.dims()[2] == 1 {
        let maps: Tensor<5> = stacked.clone().sum_dim(0).squeeze_dim(0);
        // Votes are counted one class at a time, so that the one-hot encoding of all members is
        // never in memory at once.
        let of_class = |class| -> Tensor<5> {
            let hits = stacked.clone().equal_elem(class as f64).float().sum_dim(0);
            hits.reshape(maps.dims())
        };
        Tensor::cat((0..classes).map(of_class).collect(), 1)
    } else {
        tracing::warn!("VoteEnsemble with num_classes got several channels; they are treated as one-hot");
        stacked.sum_dim(0).squeeze_dim(0)
    };
    Ok(first_argmax(votes))
}

/// The channel of the largest value, the first in a tie, as `[B, 1, X, Y, Z]`.
fn first_argmax(votes: Tensor<5>) -> Tensor<5> {
    let [batch, channels, x, y, z] = votes.dims();
    let device = votes.device();
    let is_max = votes.clone().equal(votes.max_dim(1).expand([batch, channels, x, y, z]));
    // Backends differ in which of several equal values their argmax returns; the smallest index
    // among the largest values is the same on all.
    let index = Tensor::<1, Int>::arange(0..channels as i64, &device).float().reshape([1, channels, 1, 1, 1]);
    let none = Tensor::<5>::full([batch, channels, x, y, z], channels as f64, &device);
    none.mask_where(is_max, index.expand([batch, channels, x, y, z])).min_dim(1)
}

/// Rounds half to even, written out because some backends round half away from zero.
fn round_half_even(x: Tensor<5>) -> Tensor<5> {
    let floor = x.clone().floor();
    let fraction = x - floor.clone();
    let odd = floor.clone() - (floor.clone() / 2.0).floor() * 2.0;
    let above = fraction.clone().greater_elem(0.5).float();
    let tie = fraction.equal_elem(0.5).float();
    floor + above + tie * odd
}
