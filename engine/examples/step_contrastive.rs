//! Contrastive learning (SimCLR; Chen et al., <https://arxiv.org/abs/2002.05709>): two noisy views of
//! an image get similar vectors, those of different images do not.
//!
//! `cargo run --release -p hearth --example step_contrastive`

mod discs;

use discs::{Discs, Label};
use hearth::nn::losses::ContrastiveLoss;
use hearth::nn::networks::ClassifierConfig;
use hearth::prelude::*;

/// The share of 64 images that were not trained on whose view is nearest to the other view of the same
/// image: before and after the training. 1/64 is chance.
pub fn run() -> hearth::Result<(f64, f64)> {
    let encoder = ClassifierConfig::new(&[1, 16, 16], 16, &[8, 16], &[2, 2]).init(&device::parse("cpu")?, 0)?;
    let (data, noise) = (Discs(Label::Size), Latents::new(&[1, 16, 16])?);
    let view = move |image: &Tensor<5>, key: [u64; 2]| {
        image.clone() + noise.draw(0, &key, image.dims()[0], &image.device()) * 0.5
    };
    let (image, _) = data.fresh()?;
    let views = [view(&image, [0, 0]), view(&image, [0, 1])];
    let accuracy = |network: &dyn Fn(Tensor<5>) -> Tensor<5>| {
        let [a, b] = views.clone().map(|view| {
            let vectors = network(view).reshape([64, 16]);
            vectors.clone() / vectors.powf_scalar(2.0).sum_dim(1).sqrt()
        });
        let nearest = a.matmul(b.transpose()).argmax(1).float().reshape([64]);
        let own = Tensor::<1, burn::tensor::Int>::arange(0..64, &nearest.device()).float();
        f64::from(nearest.equal(own).float().mean().into_scalar::<f32>())
    };
    let valid = encoder.valid();
    let before = accuracy(&|x| valid.forward(x));
    let mut trainer =
        SupervisedTrainer::builder(encoder, ContrastiveLoss::default(), AdamConfig::default().lr(5e-3), data)
            .max_epochs(12)
            .step(move |net, batch, cx| {
                let image = batch.image()?;
                let seen = |number| net.forward(view(&image, [cx.state.iteration, number]));
                cx.loss(seen(0)?, seen(1)?)
            })
            .build()?;
    trainer.run()?;
    let valid = trainer.network().ok_or("the last step failed")?.valid();
    Ok((before, accuracy(&|x| valid.forward(x))))
}

fn main() -> hearth::Result<()> {
    let (before, after) = run()?;
    println!("the nearest view is that of the same image for {before:.3} of the images before, {after:.3} after");
    Ok(())
}
