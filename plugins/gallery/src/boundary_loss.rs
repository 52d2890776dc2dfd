//! A Hearth plugin with a loss for borders: cross-entropy, and each class's probability times the distance to the
//! label's border, negative within (Kervadec et al. 2019, "Boundary loss for highly unbalanced segmentation").

use hearth_plugin::component::{Array, Loss, Valued};
use hearth_plugin::{Fault, HandlerError, export_components, options};

options! {
    /// Options of `Boundary` in a recipe.
    pub struct BoundaryOptions {
        /// The factor of the part for borders, next to cross-entropy.
        weight: f64 = 0.01,
    }
}

/// Both losses over the softmax of the channels; the first one is the background.
pub struct Boundary(f64);

impl Boundary {
    /// The loss with these options; fails if one is out of its range.
    pub fn new(BoundaryOptions { weight }: BoundaryOptions) -> Result<Self, Fault> {
        (weight >= 0.0).then_some(Self(weight)).ok_or_else(|| Fault::at("weight", "it must be 0 or more"))
    }
}

/// The distance in voxels from each voxel to the nearest one of a mask, huge without one: exact, axis by axis.
fn distances(mask: impl Fn(usize) -> bool, shape: [usize; 3]) -> impl Iterator<Item = f64> {
    let mut field: Vec<f64> = (0..shape.iter().product()).map(|at| if mask(at) { 0.0 } else { f64::MAX }).collect();
    for axis in 0..3 {
        let (count, step, old) = (shape[axis], shape[axis + 1..].iter().product::<usize>(), field.clone());
        for (at, square) in field.iter_mut().enumerate() {
            let i = at / step % count;
            for far in (1..count).take_while(|far| ((far * far) as f64) < old[at]) {
                for j in [i.wrapping_sub(far), i + far].into_iter().filter(|j| *j < count) {
                    *square = square.min(old[at + j * step - i * step] + (far * far) as f64);
                }
            }
        }
    }
    field.into_iter().map(f64::sqrt)
}

impl Loss for Boundary {
    fn loss(&self, pred: Array<'_>, label: Array<'_>) -> Result<Valued, HandlerError> {
        let Array { shape, values: logits, affine } = pred;
        let few = || HandlerError::new(format!("expected a channel for each class, not a prediction of {shape:?}"));
        let [_, classes @ (2..), x, y, z] = shape[..] else { return Err(few()) };
        let (voxels, all, known) = (x * y * z, label.values.len(), 0.0..classes as f32);
        if all * classes != logits.len() || !label.values.iter().all(|class| known.contains(class)) {
            return Err(HandlerError::new(format!("expected a label with one channel of numbers below {classes}")));
        }
        let (mut loss, mut gradient, part) = (0.0, vec![0.0; logits.len()], self.0 / (classes - 1) as f64);
        for (item, label) in label.values.chunks(voxels.max(1)).enumerate() {
            let mut far = vec![vec![0.0; voxels]];
            for class in 1..classes {
                let is = |at: usize| label[at] == class as f32;
                let both = distances(is, [x, y, z]).zip(distances(|at| !is(at), [x, y, z]));
                let signed = both.map(|(out, within)| if out > 0.0 { out } else { 1.0 - within });
                far.push(signed.map(|one| if one.abs() < 1e9 { one } else { 0.0 }).collect());
            }
            for at in 0..voxels {
                let place = |class: usize| (item * classes + class) * voxels + at;
                let top = (0..classes).map(|class| logits[place(class)]).fold(f32::NEG_INFINITY, f32::max);
                let exp: Vec<f64> = (0..classes).map(|class| f64::from(logits[place(class)] - top).exp()).collect();
                let p: Vec<f64> = exp.iter().map(|one| one / exp.iter().sum::<f64>()).collect();
                let mean: f64 = p.iter().zip(&far).map(|(p, far)| p * far[at]).sum();
                loss += (part * mean - p[label[at] as usize].max(f64::MIN_POSITIVE).ln()) / all as f64;
                for (class, p) in p.iter().enumerate() {
                    gradient[place(class)] = (p * (1.0 + part * (far[class][at] - mean)) / all as f64) as f32;
                }
                gradient[place(label[at] as usize)] -= 1.0 / all as f32;
            }
        }
        Ok(Valued { loss, gradient: Array { shape, values: gradient.into(), affine } })
    }
}

export_components!("boundary-loss", needs: [], {
    "Cross-entropy with the boundary loss (Kervadec et al. 2019)." loss Boundary(BoundaryOptions) = Boundary::new;
});
