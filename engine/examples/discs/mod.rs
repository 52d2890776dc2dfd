//! Generated images for the examples of steps: a bright disc in noise, 16 x 16, small or large.
#![allow(dead_code, reason = "each example uses a part of it")]

use burn::tensor::TensorData;
use hearth::data::DrawKey;
use hearth::prelude::*;
use hearth::train::BatchStream;

/// The length of an image's axes.
const SIDE: usize = 16;

/// What the label of an image is.
#[derive(Clone, Copy, PartialEq)]
pub enum Label {
    /// 1 in the disc, 0 elsewhere.
    Mask,
    /// 1 for a large disc, 0 for a small one.
    Size,
}

/// Ten batches of 8 images, other ones in each epoch.
#[derive(Clone, Copy)]
pub struct Discs(pub Label);

impl Discs {
    /// A batch; those of epoch 0 are for evaluation.
    pub fn make(self, epoch: u64, index: u64, count: usize) -> Batch {
        let (mut images, mut labels) = (Vec::new(), Vec::new());
        for item in 0..count {
            let draw = DrawKey::new(0, epoch, 0).draw("disc", index as usize, item);
            let large = draw.happens(0.5);
            let radius = if large { draw.between(4.0, 5.0) } else { draw.between(2.0, 3.0) };
            let centre = [draw.between(5.0, 10.0), draw.between(5.0, 10.0)];
            for place in 0..SIDE * SIDE {
                let (x, y) = ((place / SIDE) as f64, (place % SIDE) as f64);
                let inside = (x - centre[0]).hypot(y - centre[1]) <= radius;
                images.push(if inside { 1.0 } else { 0.0 } + draw.between(-0.3, 0.3) as f32);
                if self.0 == Label::Mask {
                    labels.push(f32::from(u8::from(inside)));
                }
            }
            if self.0 == Label::Size {
                labels.push(f32::from(u8::from(large)));
            }
        }
        let side = if self.0 == Label::Mask { SIDE } else { 1 };
        let tensor =
            |values, side| Tensor::from_data(TensorData::new(values, [count, 1, side, side, 1]), &Device::default());
        let mut batch =
            Batch { cases: (0..count).map(|item| format!("disc {index}-{item}")).collect(), ..Batch::default() };
        batch.tensors.insert("image".into(), tensor(images, SIDE));
        batch.tensors.insert("label".into(), tensor(labels, side));
        batch
    }

    /// 64 images that are not trained on, and their labels.
    pub fn fresh(self) -> hearth::Result<(Tensor<5>, Tensor<5>)> {
        let batch = self.make(0, 0, 64);
        Ok((batch.tensor("image")?.clone(), batch.tensor("label")?.clone()))
    }
}

impl Loader for Discs {
    fn batches(&self) -> Option<u64> {
        Some(10)
    }

    fn pass(&self, pass: u64, skip: u64) -> BatchStream {
        let discs = *self;
        Box::new((skip..10).map(move |index| Ok(discs.make(pass, index, 8))))
    }
}

/// The class of each item or voxel: the channel with the largest value.
pub fn classes(logits: Tensor<5>) -> Tensor<5> {
    logits.argmax(1).float()
}

/// The share of equal values.
pub fn agreement(a: Tensor<5>, b: Tensor<5>) -> f64 {
    f64::from(a.equal(b).float().mean().into_scalar::<f32>())
}
