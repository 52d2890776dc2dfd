//! Convolutions outside training, fused with the operations around them: two tensors are read
//! without being concatenated, and a norm with its activation and a residual sum are applied to the
//! outputs before they are written.

use burn::tensor::{DType, Tensor};

use super::{ConvShape, conv_transpose3d, conv3d};
use crate::normalize::{self, Over, Slope};
use crate::rectify::rectified_sum;

/// The input of a convolution, `[B, I, X, Y, Z]`.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "lives for one call, and a box would be one more allocation for each")]
pub enum Channels {
    /// All channels in one tensor.
    One(Tensor<5>),
    /// Two tensors, concatenated along the channels, with the same batch and size; both are
    /// converted to the type of the second.
    Two(Tensor<5>, Tensor<5>),
}

impl Channels {
    /// Returns one tensor, `[B, C, X, Y, Z]`; the channels of two are concatenated.
    ///
    /// # Panics
    /// Where batch or size of the two differ, as in Burn's concatenation.
    pub fn joined(self) -> Tensor<5> {
        match self {
            Channels::One(x) => x,
            Channels::Two(x, y) => {
                let dtype = y.dtype();
                Tensor::cat(vec![x.cast(dtype), y], 1)
            }
        }
    }

    /// Whether any part is in an autodiff graph.
    pub fn is_autodiff(&self) -> bool {
        self.parts().any(Tensor::is_autodiff)
    }

    /// Whether all parts are f32.
    pub fn is_f32(&self) -> bool {
        self.parts().all(|part| part.dtype() == DType::F32)
    }

    fn parts(&self) -> impl Iterator<Item = &Tensor<5>> {
        let (x, y) = match self {
            Channels::One(x) => (x, None),
            Channels::Two(x, y) => (x, Some(y)),
        };
        [x].into_iter().chain(y)
    }
}

/// A norm and an activation after a convolution.
#[derive(Clone, Debug)]
pub struct NormAct {
    /// The norm.
    pub norm: NormBehind,
    /// The slope of the activation.
    pub slope: Slope,
}

/// A norm after a convolution, `O` channels.
#[derive(Clone, Debug)]
pub enum NormBehind {
    /// A norm with known statistics, a batch norm outside training: `scale x + offset` by channel.
    Given {
        /// `[O]`
        scale: Tensor<1>,
        /// `[O]`
        offset: Tensor<1>,
    },
    /// A norm with the outputs' own statistics, by item and group of channels.
    OfGroups {
        /// The number of groups, which divides `O`; `None` for as many groups as channels, an
        /// instance norm.
        groups: Option<usize>,
        /// Weight and bias, `[O]` each.
        affine: Option<(Tensor<1>, Tensor<1>)>,
        /// Added to the variance.
        eps: f64,
    },
}

/// The epilogue of a convolution, in this order.
#[derive(Clone, Debug, Default)]
pub struct Then {
    /// A norm and an activation.
    pub norm_act: Option<NormAct>,
    /// A tensor of the output's shape that is added to it, such as the shortcut of a residual
    /// block.
    pub plus: Option<Tensor<5>>,
}

impl Then {
    fn apply(self, y: Tensor<5>) -> Tensor<5> {
        let y = match self.norm_act {
            Some(NormAct { norm: NormBehind::Given { scale, offset }, slope }) => {
                normalize::scale(y, scale, offset, &slope)
            }
            Some(NormAct { norm: NormBehind::OfGroups { groups, affine, eps }, slope }) => {
                let over = Over::Groups(groups.unwrap_or(y.dims()[1]));
                normalize::normalize(y, affine, &slope, over, eps).output
            }
            None => y,
        };
        match self.plus {
            Some(plus) => rectified_sum(y, plus, 1.0),
            None => y,
        }
    }
}

/// [`conv3d`] with an epilogue; on the CPU, outside an autodiff graph, in one pass.
///
/// # Panics
/// Same as [`conv3d`].
pub fn conv3d_then(x: Channels, weight: Tensor<5>, bias: Option<Tensor<1>>, shape: ConvShape, then: Then) -> Tensor<5> {
    if let Some(y) = cpu::forward(&x, &weight, bias.as_ref(), &shape, &then) {
        return y;
    }
    then.apply(conv3d(x.joined(), weight, bias, shape))
}

/// [`conv_transpose3d`] with an epilogue; on the CPU, outside an autodiff graph, in one pass.
///
/// # Panics
/// Same as [`conv_transpose3d`].
pub fn conv_transpose3d_then(
    x: Channels,
    weight: Tensor<5>,
    bias: Option<Tensor<1>>,
    shape: ConvShape,
    output_padding: [usize; 3],
    then: Then,
) -> Tensor<5> {
    if let Some(y) = cpu::transposed(&x, &weight, bias.as_ref(), &shape, output_padding, &then) {
        return y;
    }
    then.apply(conv_transpose3d(x.joined(), weight, bias, shape, output_padding))
}

/// The fused pass. It returns `None` for everything that it does not support, which then runs, or
/// fails, operation by operation.
mod cpu {
    use std::sync::OnceLock;

    use burn::backend::{Flex, tensor::FloatTensor};
    use burn::tensor::Tensor;

    use super::{Channels, ConvShape, NormAct, NormBehind, Then};
    use crate::conv3d::blocked::{Behind, Epilogue, Loops, Source};
    use crate::conv3d::cpu;
    use crate::conv3d::geometry::{self, Geometry};
    use crate::flex::{floats, has_floats, with};
    use crate::host;
    use crate::normalize::{self, Over, Slope};
    use crate::rectify::rectified_sum;

    /// Dimensions of the input; `None` where it is in an autodiff graph, is not f32 on the CPU, or
    /// its two parts do not fit each other.
    fn dims(x: &Channels) -> Option<[usize; 5]> {
        if !x.parts().all(|part| has_floats(part) && !part.is_autodiff()) {
            return None;
        }
        match x {
            Channels::One(x) => Some(x.dims()),
            Channels::Two(x, y) => {
                let (x, y) = (x.dims(), y.dims());
                let mut both = y;
                both[1] = x[1];
                (both == x).then(|| {
                    both[1] += y[1];
                    both
                })
            }
        }
    }

    pub fn forward(
        x: &Channels,
        weight: &Tensor<5>,
        bias: Option<&Tensor<1>>,
        shape: &ConvShape,
        then: &Then,
    ) -> Option<Tensor<5>> {
        let g = geometry::convolution(dims(x)?, weight.dims(), shape)?;
        let [_, channels] = g.channels();
        run(x, weight, bias, then, &g, (channels, g.output), |source, weight, behind| {
            cpu::forward(Loops::here(), source, weight, behind, &g)
        })
    }

    pub fn transposed(
        x: &Channels,
        weight: &Tensor<5>,
        bias: Option<&Tensor<1>>,
        shape: &ConvShape,
        output_padding: [usize; 3],
        then: &Then,
    ) -> Option<Tensor<5>> {
        let g = geometry::transposed(dims(x)?, weight.dims(), shape, output_padding)?;
        let [channels, _] = g.channels();
        run(x, weight, bias, then, &g, (channels, g.input), |source, weight, behind| {
            cpu::input_gradient(Loops::here(), source, weight, behind, &g)
        })
    }

    /// Scales, offsets and slopes as values; `None` where they are on another device or do not fit.
    fn values(behind: &NormAct, channels: usize) -> Option<[Vec<f32>; 3]> {
        let read = |values: &Tensor<1>| host::read(values, <[f32]>::to_vec);
        let slope = match &behind.slope {
            Slope::Fixed(slope) => vec![*slope as f32],
            Slope::Learned(slope) => read(slope)?,
        };
        let [scale, offset] = match &behind.norm {
            NormBehind::Given { scale, offset } => [read(scale)?, read(offset)?],
            NormBehind::OfGroups { groups: Some(groups), .. } if !channels.is_multiple_of(*groups) => return None,
            NormBehind::OfGroups { affine: Some((weight, bias)), .. } => [read(weight)?, read(bias)?],
            NormBehind::OfGroups { affine: None, .. } => [vec![1.0; channels], vec![0.0; channels]],
        };
        let fits = [scale.len(), offset.len()] == [channels; 2] && [1, channels].contains(&slope.len());
        fits.then_some([scale, offset, slope])
    }

    fn flex(t: &Tensor<5>) -> Option<FloatTensor<Flex>> {
        (has_floats(t) && !t.is_autodiff()).then(|| t.clone().try_into_primitive::<Flex>().ok()).flatten()
    }

    fn run(
        x: &Channels,
        weight: &Tensor<5>,
        bias: Option<&Tensor<1>>,
        then: &Then,
        g: &Geometry,
        (channels, size): (usize, [usize; 3]),
        sums: impl FnOnce(Source<'_>, &[f32], Behind<'_>) -> Vec<f32>,
    ) -> Option<Tensor<5>> {
        if bias.is_some_and(Tensor::is_autodiff) {
            return None;
        }
        let bias = match bias {
            Some(bias) => Some(host::read(bias, <[f32]>::to_vec).filter(|bias| bias.len() == channels)?),
            None => None,
        };
        let norm_act = match &then.norm_act {
            Some(behind) => Some((&behind.norm, values(behind, channels)?)),
            None => None,
        };
        let mut behind = Behind { bias: bias.as_deref(), ..Behind::default() };
        let found = OnceLock::new();
        match &norm_act {
            Some((NormBehind::Given { .. }, [scale, offset, slope])) => {
                behind.epilogue = Some(Epilogue { scale, offset, slope });
            }
            Some((NormBehind::OfGroups { .. }, _)) => behind.moments = Some(&found),
            None => {}
        }
        let dims = [g.batch, channels, size[0], size[1], size[2]];
        let weight = flex(weight)?;
        let mut plus = match &then.plus {
            Some(plus) if plus.dims() == dims => Some(flex(plus)?),
            Some(_) => return None,
            None => None,
        };
        // Statistics are those of the outputs before anything is added to them.
        let after = if behind.moments.is_some() { plus.take() } else { None };
        let of = |source: Source<'_>, w: &[f32]| match plus {
            Some(plus) => with([plus], |[plus]| sums(source, w, Behind { plus: Some(plus), ..behind })),
            None => sums(source, w, behind),
        };
        let mut out = match x {
            Channels::One(x) => with([flex(x)?, weight], |[x, w]| of(x.into(), w)),
            // Two parts of several groups do not split as the groups do.
            Channels::Two(..) if g.groups > 1 => return None,
            Channels::Two(x, y) => {
                let split = x.dims()[1];
                with([flex(x)?, flex(y)?, weight], |[x, y, w]| of(Source::two(x, y, split), w))
            }
        };
        if let Some((NormBehind::OfGroups { groups, eps, .. }, [weight, bias, slope])) = &norm_act {
            let (volume, over) = (size.iter().product(), Over::Groups(groups.unwrap_or(channels)));
            let shape = normalize::Shape { batch: g.batch, channels, volume, over, eps: *eps };
            normalize::in_place_of(&mut out, found.get().map(Vec::as_slice), [weight, bias, slope], &shape);
        }
        let y = Tensor::from_primitive::<Flex>(floats(out, dims));
        Some(match after {
            Some(plus) => rectified_sum(y, Tensor::from_primitive::<Flex>(plus), 1.0),
            None => y,
        })
    }
}
