//! MixUp (Zhang et al., <https://arxiv.org/abs/1710.09412>): a classifier is trained with weighted
//! means of two images and with the same mean of the losses of their labels.
//!
//! `cargo run --release -p hearth --example step_mixup`

mod discs;

use std::sync::{Arc, Mutex};

use discs::{Discs, Label, agreement, classes};
use hearth::nn::networks::ClassifierConfig;
use hearth::prelude::*;

/// The accuracy on images that were not trained on, and the largest difference between the loss of an
/// iteration and its formula, computed from the prediction, the labels and the weight of the images.
pub fn run() -> hearth::Result<(f64, f64)> {
    let network = ClassifierConfig::new(&[1, 16, 16], 2, &[4, 8], &[2, 2]).init(&device::parse("cpu")?, 0)?;
    let worst = Arc::new(Mutex::new(0.0_f64));
    let own = worst.clone();
    let data = Discs(Label::Size);
    let mut trainer =
        SupervisedTrainer::builder(network, CrossEntropyLoss::default(), AdamConfig::default().lr(5e-3), data)
            .max_epochs(8)
            .step(|net, batch, cx| {
                let (image, label) = (batch.image()?, batch.label()?);
                let share = cx.draw().uniform();
                cx.note("share", &Tensor::from_floats([share as f32], &cx.device()))?;
                // The first image of the batch is mixed with the last, and so on.
                let pred = net.forward(image.clone() * share + image.flip([0]) * (1.0 - share))?;
                let (first, second) = (cx.loss(pred.clone(), label.clone())?, cx.loss(pred, label.flip([0]))?);
                Ok(first * share + second * (1.0 - share))
            })
            .on(Event::LossCompleted, move |cx| {
                let (share, loss) = (cx.host.output("share")?, cx.host.output("loss")?);
                let (pred, label) = (cx.host.tensor("pred")?.to_f32()?, cx.host.tensor("label")?.to_f32()?);
                let of = |item: usize, label: f32| {
                    let logits = [pred[2 * item], pred[2 * item + 1]].map(f64::from);
                    (logits[0].exp() + logits[1].exp()).ln() - logits[label as usize]
                };
                let count = label.len();
                let items = (0..count)
                    .map(|item| share * of(item, label[item]) + (1.0 - share) * of(item, label[count - 1 - item]));
                let difference = (loss - items.sum::<f64>() / count as f64).abs();
                let mut worst = own.lock().map_err(|_| HandlerError::new("another thread failed"))?;
                *worst = worst.max(difference);
                Ok(())
            })
            .build()?;
    trainer.run()?;
    let (image, label) = data.fresh()?;
    let accuracy = agreement(classes(trainer.network().ok_or("the last step failed")?.valid().forward(image)), label);
    let worst = *worst.lock().map_err(|_| "another thread failed")?;
    Ok((accuracy, worst))
}

fn main() -> hearth::Result<()> {
    let (accuracy, worst) = run()?;
    println!("accuracy {accuracy:.3}; the loss differs from its formula by at most {worst:.1e}");
    Ok(())
}
