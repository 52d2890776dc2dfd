//! The two passes on the CPU: a task for each piece of a channel; sums are combined in a fixed
//! order.

use std::mem::MaybeUninit;

use burn::backend::{Flex, tensor::FloatTensor};
use rayon::prelude::*;

use super::Focal;
use super::ops::SigmoidSumsOps;
use super::shape::{SUMS, Shape};
use crate::flex::{floats, with};
use crate::math;
use crate::ranges::kernel;
use crate::simd::widest;

/// The number of positions of a task.
const TASK: usize = 16 << 10;

/// The number of values summed in f32 before they are added to a sum in f64.
const RUN: usize = 2048;

/// The number of parallel sums, so that the loops fill registers.
const LANES: usize = 16;

impl SigmoidSumsOps for Flex {
    fn sigmoid_sums(logits: FloatTensor<Self>, targets: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self> {
        let _range = kernel!("sigmoid sums", [logits, targets]);
        let sums = with([logits, targets], |[logits, targets]| forward(logits, targets, &shape));
        floats(sums, [shape.batch, shape.channels, SUMS])
    }

    fn sigmoid_sums_gradient(
        logits: FloatTensor<Self>,
        targets: FloatTensor<Self>,
        of_sums: FloatTensor<Self>,
        shape: Shape,
        of_targets: bool,
    ) -> FloatTensor<Self> {
        let _range = kernel!("sigmoid sums gradient", [logits, targets, logits]);
        let dims = logits.layout().shape().to_vec();
        let gradient = with([logits, targets, of_sums], |[x, t, g]| match of_targets {
            false => backward::<false>(x, t, g, &shape),
            true => backward::<true>(x, t, g, &shape),
        });
        floats(gradient, dims)
    }
}

/// The target of logits: the values themselves, or whether a label equals a class.
trait Target: Copy {
    /// The target that a value encodes, and whether it is valid.
    fn of(self, value: f32) -> (f32, bool);
}

#[derive(Clone, Copy)]
struct Values;

impl Target for Values {
    #[inline(always)]
    fn of(self, value: f32) -> (f32, bool) {
        (value, value.is_finite())
    }
}

#[derive(Clone, Copy)]
struct Indices {
    class: f32,
    classes: f32,
}

impl Target for Indices {
    #[inline(always)]
    fn of(self, value: f32) -> (f32, bool) {
        let whole = value.trunc();
        let known = (value == whole) & (value >= 0.0) & (value < self.classes);
        (if whole == self.class { 1.0 } else { 0.0 }, known)
    }
}

/// The term that is summed in addition to the overlap.
trait Term: Copy {
    fn value(self, s: Logit, t: f32) -> f32;
    /// The derivative with respect to the logit, or to the target.
    fn slope<const OF_TARGET: bool>(self, s: Logit, t: f32) -> f32;
}

#[derive(Clone, Copy)]
struct Nothing;

impl Term for Nothing {
    #[inline(always)]
    fn value(self, _: Logit, _: f32) -> f32 {
        0.0
    }

    #[inline(always)]
    fn slope<const OF_TARGET: bool>(self, _: Logit, _: f32) -> f32 {
        0.0
    }
}

impl Term for Focal {
    #[inline(always)]
    fn value(self, s: Logit, t: f32) -> f32 {
        let Focused { weight, power, entropy, .. } = Focused::at(self, s, t);
        weight * power * entropy
    }

    #[inline(always)]
    fn slope<const OF_TARGET: bool>(self, s: Logit, t: f32) -> f32 {
        let Focused { weight, power, entropy, off } = Focused::at(self, s, t);
        let steeper = self.gamma * off.rest * entropy;
        if OF_TARGET {
            // The two logarithms differ by the logit.
            let rise = (self.pos_weight - 1.0) * s.without() - s.x;
            power * (weight * (rise - 2.0 * s.x * steeper) + (self.present - self.absent) * entropy)
        } else {
            let rise = (1.0 - t) * s.sigmoid - self.pos_weight * t * s.rest;
            power * weight * (rise + (1.0 - 2.0 * t) * steeper)
        }
    }
}

/// [`Focal`] at one position.
#[derive(Clone, Copy)]
struct Focused {
    weight: f32,
    /// The distance of the prediction from the target.
    off: Logit,
    /// The distance's sigmoid to the power of gamma.
    power: f32,
    entropy: f32,
}

impl Focused {
    #[inline(always)]
    fn at(focal: Focal, s: Logit, t: f32) -> Self {
        let weight = focal.absent + (focal.present - focal.absent) * t;
        let off = Logit::new(s.x * (1.0 - 2.0 * t));
        let power = if focal.gamma == 0.0 { 1.0 } else { math::exp_of::<false>(-focal.gamma * off.without()) };
        let entropy = focal.pos_weight * t * s.without() + (1.0 - t) * s.within();
        Focused { weight, off, power, entropy }
    }
}

/// A piece of a channel of an item.
struct Piece<'a> {
    plane: usize,
    logits: &'a [f32],
    targets: &'a [f32],
    /// The number of classes and the class, where the targets are class indices.
    indices: Option<Indices>,
}

impl<'a> Piece<'a> {
    /// The piece `number` of a plane (item and channel).
    fn of(logits: &'a [f32], targets: &'a [f32], shape: &Shape, plane: usize, number: usize) -> Self {
        let volume = shape.volume;
        let (item, channel) = (plane / shape.channels, plane % shape.channels);
        let of_targets = if shape.indices { item } else { plane };
        let range = number * TASK..((number + 1) * TASK).min(volume);
        Piece {
            plane,
            logits: &logits[plane * volume..][..volume][range.clone()],
            targets: &targets[of_targets * volume..][..volume][range],
            indices: shape.indices.then_some(Indices { class: channel as f32, classes: shape.channels as f32 }),
        }
    }

    /// The piece's contribution to the sums; a separate loop for each case, without inner branches.
    fn sums(&self, shape: &Shape) -> [f64; SUMS] {
        match (self.indices, shape.focal) {
            (None, None) => self.added(shape.squared, Values, Nothing),
            (None, Some(focal)) => self.added(shape.squared, Values, focal),
            (Some(indices), None) => self.added(shape.squared, indices, Nothing),
            (Some(indices), Some(focal)) => self.added(shape.squared, indices, focal),
        }
    }

    fn added(&self, squared: bool, target: impl Target, term: impl Term) -> [f64; SUMS] {
        let (logits, targets) = (self.logits, self.targets);
        widest(
            #[inline(always)]
            move || {
                let mut all = [0.0_f64; SUMS];
                for (x, t) in logits.chunks(RUN).zip(targets.chunks(RUN)) {
                    let mut lanes = [[0.0_f32; LANES]; SUMS];
                    let ((x, x_rest), (t, t_rest)) = (x.as_chunks::<LANES>(), t.as_chunks::<LANES>());
                    for (x, t) in x.iter().zip(t) {
                        for i in 0..LANES {
                            let parts = parts(x[i], t[i], squared, target, term);
                            for part in 0..SUMS {
                                lanes[part][i] += parts[part];
                            }
                        }
                    }
                    for (sum, lanes) in all.iter_mut().zip(&lanes) {
                        *sum += lanes.iter().map(|lane| f64::from(*lane)).sum::<f64>();
                    }
                    for (x, t) in x_rest.iter().zip(t_rest) {
                        let parts = parts(*x, *t, squared, target, term);
                        all.iter_mut().zip(parts).for_each(|(sum, part)| *sum += f64::from(part));
                    }
                }
                all
            },
        )
    }

    /// Writes the gradient with respect to the logits or the targets; `g` is that of the sums.
    fn gradient<const OF_TARGETS: bool>(&self, out: &mut [MaybeUninit<f32>], g: &[f32], shape: &Shape) {
        match (self.indices, shape.focal) {
            (None, None) => self.written::<OF_TARGETS>(out, g, shape.squared, Values, Nothing),
            (None, Some(focal)) => self.written::<OF_TARGETS>(out, g, shape.squared, Values, focal),
            (Some(indices), None) => self.written::<OF_TARGETS>(out, g, shape.squared, indices, Nothing),
            (Some(indices), Some(focal)) => self.written::<OF_TARGETS>(out, g, shape.squared, indices, focal),
        }
    }

    fn written<const OF_TARGETS: bool>(
        &self,
        out: &mut [MaybeUninit<f32>],
        g: &[f32],
        squared: bool,
        target: impl Target,
        term: impl Term,
    ) {
        let (logits, targets) = (self.logits, self.targets);
        let (of_both, of_prediction, of_target, of_term) = (g[0], g[1], g[2], g[3]);
        widest(
            #[inline(always)]
            move || {
                for ((out, x), t) in out.iter_mut().zip(logits).zip(targets) {
                    let (t, _) = target.of(*t);
                    let s = Logit::new(*x);
                    let own = if OF_TARGETS { t } else { s.sigmoid };
                    let rise = if squared { 2.0 * own } else { 1.0 };
                    let of_overlap = if OF_TARGETS {
                        of_both * s.sigmoid + of_target * rise
                    } else {
                        (of_both * t + of_prediction * rise) * s.sigmoid * s.rest
                    };
                    out.write(of_overlap + of_term * term.slope::<OF_TARGETS>(s, t));
                }
            },
        );
    }
}

/// The contribution of one position to the sums.
#[inline(always)]
fn parts(x: f32, value: f32, squared: bool, target: impl Target, term: impl Term) -> [f32; SUMS] {
    let (t, known) = target.of(value);
    let s = Logit::new(x);
    let (prediction, given) = if squared { (s.sigmoid * s.sigmoid, t * t) } else { (s.sigmoid, t) };
    let odd = if known & x.is_finite() { 0.0 } else { 1.0 };
    [s.sigmoid * t, prediction, given, term.value(s, t), odd]
}

/// A logit, its sigmoid, one minus the sigmoid, and `log(1 + exp(-|x|))`.
#[derive(Clone, Copy)]
struct Logit {
    x: f32,
    sigmoid: f32,
    rest: f32,
    tail: f32,
}

impl Logit {
    #[inline(always)]
    fn new(x: f32) -> Self {
        let small = math::exp_of::<false>(-x.abs());
        let (near, far) = (1.0 / (1.0 + small), small / (1.0 + small));
        let (sigmoid, rest) = if x > 0.0 { (near, far) } else { (far, near) };
        Logit { x, sigmoid, rest, tail: math::log_1p::<false>(small) }
    }

    /// `-log sigmoid(x)`
    #[inline(always)]
    fn without(self) -> f32 {
        self.tail - if self.x < 0.0 { self.x } else { 0.0 }
    }

    /// `-log (1 - sigmoid(x))`
    #[inline(always)]
    fn within(self) -> f32 {
        self.tail + if self.x > 0.0 { self.x } else { 0.0 }
    }
}

/// Computes the sums by item and channel.
fn forward(logits: &[f32], targets: &[f32], shape: &Shape) -> Vec<f32> {
    let (planes, pieces) = (shape.batch * shape.channels, shape.volume.div_ceil(TASK));
    let parts: Vec<[f64; SUMS]> = (0..planes * pieces)
        .into_par_iter()
        .map(|task| Piece::of(logits, targets, shape, task / pieces, task % pieces).sums(shape))
        .collect();
    let of_plane = |parts: &[[f64; SUMS]]| {
        let add = |sums: [f64; SUMS], part: &[f64; SUMS]| std::array::from_fn(|i| sums[i] + part[i]);
        parts.iter().fold([0.0; SUMS], add)
    };
    parts.chunks(pieces).flat_map(of_plane).map(|sum| sum as f32).collect()
}

/// The gradient with respect to the logits or the targets, from those of the sums (`[B, C, SUMS]`).
fn backward<const OF_TARGETS: bool>(logits: &[f32], targets: &[f32], of_sums: &[f32], shape: &Shape) -> Vec<f32> {
    let mut out: Vec<f32> = Vec::with_capacity(logits.len());
    let places = &mut out.spare_capacity_mut()[..logits.len()];
    let tasks: Vec<_> = places
        .chunks_mut(shape.volume)
        .enumerate()
        .flat_map(|(plane, places)| {
            let piece = move |(first, places)| (Piece::of(logits, targets, shape, plane, first), places);
            places.chunks_mut(TASK).enumerate().map(piece)
        })
        .collect();
    tasks.into_par_iter().for_each(|(piece, places)| {
        piece.gradient::<OF_TARGETS>(places, &of_sums[piece.plane * SUMS..][..SUMS], shape);
    });
    // SAFETY: the pieces cover all positions of all planes.
    unsafe { out.set_len(logits.len()) };
    out
}
