//! A few voxels of known classes, on which losses and metrics are tried: [`Scene`].

use burn::tensor::{Tensor, TensorData};
use hearth_data::host_device;
use hearth_recipe::recipe::Output;

/// Voxels along each axis of the images.
const SIDE: usize = 6;

/// The number of images.
const IMAGES: usize = 2;

/// A few voxels of known classes.
pub(super) struct Scene {
    /// The channels of the network's output.
    pub channels: usize,
    /// Voxels along the last axis.
    depth: usize,
    /// The kind of the predictions.
    pub output: Output,
}

/// A class, and the one that takes its place, or none.
pub(super) type Replaced = (usize, Option<usize>);

/// The form of a target.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// Class indices in one channel.
    Indices,
    /// A channel for each class.
    OneHot,
}

impl Scene {
    /// Voxels for a network with these channels and axes.
    pub fn new(channels: usize, spatial_dims: usize, output: Output) -> Self {
        Self { channels, depth: if spatial_dims == 3 { SIDE } else { 1 }, output }
    }

    /// The forms that a target may have, the usual one first: a chain may have made channels of labels.
    pub fn forms(&self) -> [Form; 2] {
        match self.output {
            Output::Labels => [Form::Indices, Form::OneHot],
            _ => [Form::OneHot, Form::Indices],
        }
    }

    /// The number of classes; a single channel is that of class 1.
    fn classes(&self) -> usize {
        self.channels.max(2)
    }

    fn voxels(&self) -> usize {
        SIDE * SIDE * self.depth
    }

    fn tensor(&self, values: Vec<f32>, channels: usize) -> Tensor<5> {
        let shape = [IMAGES, channels, SIDE, SIDE, self.depth];
        Tensor::from_data(TensorData::new(values, shape), &host_device())
    }

    /// The class of a voxel, `shift` classes further.
    fn class(&self, image: usize, voxel: usize, shift: usize) -> usize {
        (voxel / 3 + image + shift) % self.classes()
    }

    /// The classes of which there is a voxel.
    pub fn present(&self) -> usize {
        self.classes().min(self.voxels().div_ceil(3) + IMAGES - 1)
    }

    /// One-hot form of the classes, of which one may be replaced.
    pub fn one_hot(&self, shift: usize, high: f32, replaced: Option<Replaced>) -> Tensor<5> {
        let (voxels, channels) = (self.voxels(), self.channels);
        let values = (0..IMAGES * channels * voxels).map(|at| {
            let (image, channel) = (at / (channels * voxels), at / voxels % channels);
            let class = self.class(image, at % voxels, shift);
            let shown = match replaced {
                Some((from, to)) if from == class => to,
                _ => Some(class),
            };
            if shown == Some(if channels == 1 { 1 } else { channel }) { high } else { 0.0 }
        });
        self.tensor(values.collect(), channels)
    }

    /// The labels, `shift` classes further.
    pub fn target(&self, form: Form, shift: usize) -> Tensor<5> {
        match form {
            Form::OneHot => self.one_hot(shift, 1.0, None),
            Form::Indices => {
                let voxels = self.voxels();
                let indices = (0..IMAGES * voxels).map(|at| self.class(at / voxels, at % voxels, shift) as f32);
                self.tensor(indices.collect(), 1)
            }
        }
    }

    /// Outputs between -1 and 1.
    pub fn unsure(&self) -> Tensor<5> {
        let count = IMAGES * self.channels * self.voxels();
        let values = (0..count).map(|at| ((at * 7919 % 1009) as f32 / 504.5) - 1.0);
        self.tensor(values.collect(), self.channels)
    }
}
