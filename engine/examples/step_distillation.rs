//! Distillation (Hinton et al., <https://arxiv.org/abs/1503.02531>): a small network learns from the
//! probabilities of a larger one, and never sees a label.
//!
//! `cargo run --release -p hearth --example step_distillation`

mod discs;

use burn::tensor::activation::softmax;
use discs::{Discs, Label, agreement, classes};
use hearth::prelude::*;

/// By how much the logits of both networks are divided.
const TEMPERATURE: f64 = 2.0;

/// The share of pixels of images that were not trained on for which the student gives the teacher's
/// class: before and after the distillation.
pub fn run() -> hearth::Result<(f64, f64)> {
    let (device, data) = (device::parse("cpu")?, Discs(Label::Mask));
    let teacher = UNetConfig::new(2, 1, 2, &[8, 16], &[2]).init(&device, 0)?;
    let loss = DiceCELoss::default().softmax(true).to_onehot_y(true);
    let mut trainer =
        SupervisedTrainer::builder(teacher, loss, AdamConfig::default().lr(1e-2), data).max_epochs(5).build()?;
    trainer.run()?;
    let teacher = trainer.network().ok_or("the last step failed")?.valid();

    let (image, _) = data.fresh()?;
    let expected = classes(teacher.forward(image.clone()));
    let student = UNetConfig::new(2, 1, 2, &[2, 4], &[2]).init(&device, 1)?;
    let before = agreement(classes(student.valid().forward(image.clone())), expected.clone());
    let mut trainer =
        SupervisedTrainer::builder(student, CrossEntropyLoss::default(), AdamConfig::default().lr(2e-2), data)
            .max_epochs(12)
            .step_with(Fixed::new("teacher", teacher), |net, teacher, batch, cx| {
                let image = batch.image()?;
                let target = softmax(teacher.forward(image.clone())? / TEMPERATURE, 1);
                let loss = cx.loss(net.forward(image)? / TEMPERATURE, target)?;
                // The gradients of softened probabilities are smaller by this factor.
                Ok(loss * TEMPERATURE.powi(2))
            })
            .build()?;
    trainer.run()?;
    let student = trainer.network().ok_or("the last step failed")?.valid();
    Ok((before, agreement(classes(student.forward(image)), expected)))
}

fn main() -> hearth::Result<()> {
    let (before, after) = run()?;
    println!("the student agrees with its teacher for {before:.3} of the pixels before, {after:.3} after");
    Ok(())
}
