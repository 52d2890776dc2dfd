//! Converts a network's outputs to a label map in the image's own axes.

use half::f16;
use rayon::prelude::*;

use crate::labels::{LabelManager, Writes};
use crate::plans::{Configuration, Plans};
use crate::preprocess::Bounds;
use crate::resample::{Heads, separate_axis};
use crate::volume::{Axes3, Volume};

/// The geometry of an image before preprocessing; all axes are transposed.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The voxel size of the image in mm.
    pub spacing: Axes3<f64>,
    /// The size of the image in voxels.
    pub shape_before_cropping: Axes3,
    /// The part of the image that was used.
    pub bounds: Bounds,
}

/// The outputs, resampled to the size of the used part of the image.
pub fn heads<'a>(configuration: &Configuration, logits: &'a Volume<f16>, origin: &Origin) -> Heads<'a> {
    let resampling = &configuration.resampling_probabilities;
    let current = configuration.target_spacing(origin.spacing);
    let axis = separate_axis(resampling, current, origin.spacing);
    resampling.heads(logits, origin.bounds.shape(), axis)
}

/// The label map of the outputs: the first of the largest heads, or regions written in order.
pub fn labels(plans: &Plans, manager: &LabelManager, heads: &Heads<'_>, origin: &Origin) -> Volume<u16> {
    let voxels = heads.shape().iter().product();
    let mut found = vec![0_u16; voxels];
    match &manager.writes {
        Writes::Winner => {
            let mut best: Vec<f32> = Vec::new();
            for head in 0..heads.len() {
                let values = heads.head(head);
                if head == 0 {
                    best = values;
                    continue;
                }
                let all = found.par_iter_mut().zip(best.par_iter_mut().zip(values));
                all.for_each(|(label, (best, value))| {
                    if value > *best {
                        (*best, *label) = (value, head as u16);
                    }
                });
            }
        }
        Writes::Regions(order) => {
            for (head, label) in order.iter().enumerate().take(heads.len()) {
                let values = heads.head(head);
                let all = found.par_iter_mut().zip(values);
                all.filter(|(_, value)| sigmoid(*value) > 0.5).for_each(|(found, _)| *found = *label);
            }
        }
    }
    placed(plans, Volume { channels: 1, shape: heads.shape(), data: found }, origin, 0)
}

/// Places a map of the used part in the whole image, in the axes of the file.
pub(crate) fn placed<T>(plans: &Plans, part: Volume<T>, origin: &Origin, outside: T) -> Volume<T>
where
    T: Copy + Send + Sync + Default,
{
    let whole = match part.shape == origin.shape_before_cropping {
        true => part,
        false => part.placed(origin.shape_before_cropping, origin.bounds.start, outside),
    };
    whole.transposed(plans.transpose_backward)
}

pub(crate) fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + (-value).exp())
}
