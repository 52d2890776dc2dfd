//! A mean teacher (Tarvainen and Valpola, <https://arxiv.org/abs/1703.01780>): of each batch only two
//! images have a label; for all of them the network agrees with the moving average of its own weights.
//!
//! `cargo run --release -p hearth --example step_mean_teacher`

mod discs;

use burn::tensor::activation::softmax;
use discs::{Discs, Label, agreement, classes};
use hearth::nn::losses::MseLoss;
use hearth::prelude::*;

/// The Dice of teacher and student on images that were not trained on, and the share of pixels for
/// which both give the same class.
pub fn run() -> hearth::Result<(f64, f64, f64)> {
    let network = UNetConfig::new(2, 1, 2, &[4, 8], &[2]).init(&device::parse("cpu")?, 0)?;
    let loss = DiceCELoss::default().softmax(true).to_onehot_y(true);
    let (data, noise) = (Discs(Label::Mask), Latents::new(&[1, 16, 16])?);
    let mut trainer = SupervisedTrainer::builder(network, loss, AdamConfig::default().lr(1e-2), data)
        .max_epochs(12)
        .step_with(Averaged::new("teacher", 0.9), move |net, teacher, batch, cx| {
            let (image, label) = (batch.image()?, batch.label()?);
            let state = cx.state;
            let view = |number| {
                let noise = noise.draw(state.seed, &[state.iteration, number], image.dims()[0], &image.device());
                image.clone() + noise * 0.1
            };
            let student = net.forward(view(0))?;
            let target = softmax(teacher.forward(view(1))?, 1);
            let labelled = cx.loss(student.clone().narrow(0, 0, 2), label.narrow(0, 0, 2))?;
            let consistency = MseLoss::default().forward(softmax(student, 1), target)?;
            cx.note("consistency", &consistency)?;
            Ok(labelled + consistency * (state.epoch as f64 / 6.0).min(1.0))
        })
        .build()?;
    trainer.run()?;
    let (image, label) = data.fresh()?;
    let teacher = trainer.companion::<UNet>("teacher").ok_or("there is no teacher")?;
    let student = trainer.network().ok_or("the last step failed")?.valid();
    let [teacher, student] = [teacher, &student].map(|network| classes(network.forward(image.clone())));
    let dice = |pred: &Tensor<5>| {
        let both = (pred.clone() * label.clone()).sum() * 2.0;
        f64::from((both / (pred.clone().sum() + label.clone().sum())).into_scalar::<f32>())
    };
    Ok((dice(&teacher), dice(&student), agreement(teacher, student)))
}

fn main() -> hearth::Result<()> {
    let (teacher, student, agreement) = run()?;
    println!("Dice of the teacher {teacher:.3}, of the student {student:.3}; equal pixels {agreement:.3}");
    Ok(())
}
