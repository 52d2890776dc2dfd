//! A custom training loop without an engine. Networks, losses, optimizers and loaders are plain
//! values.
//!
//! `cargo run --release -p hearth --example custom_loop`

use hearth::nn::optim::Gradients;
use hearth::prelude::*;

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let items = DecathlonDataset::open("Task09_Spleen")?.training;
    let both = ["image", "label"];
    let crop = RandCropByPosNegLabel::new(both, "label", 16);
    let steps = Pipeline::new((LoadImage::new(both), EnsureChannelFirst::new(both), crop))?.seed(3);
    let loader = DataLoader::new(items.cached(&steps)?, LoaderOptions::default().batch_size(2).shuffle(true))?;

    let device = device::parse("cpu")?;
    let loss = DiceCELoss::default().softmax(true).to_onehot_y(true);
    let mut optimizer = SgdConfig::default().momentum(0.9).build()?;
    let mut network = UNetConfig::new(3, 1, 2, &[4, 8], &[2]).norm("batch").init(&device, 0)?.train();
    let mut last = f32::INFINITY;
    for epoch in 1..=4 {
        let mut sum = 0.0;
        for batch in loader.epoch(epoch, 0) {
            let batch = batch?.to_device(&device);
            let (image, label) = (batch.tensor("image")?.clone().autodiff(), batch.tensor("label")?.clone());
            // Seeds dropout, so that a run can be repeated.
            network.set_draw(3, epoch);
            let value = loss.forward(network.forward(image / 1000.0), label)?;
            sum += value.clone().into_scalar::<f32>();
            let gradients = Gradients::of(&network, &value);
            network = optimizer.step(network, gradients.clip_norm(1.0), 0.05)?;
        }
        println!("epoch {epoch}: loss {:.4}", sum / loader.len() as f32);
        last = sum;
    }
    weights::save(&network, "network.safetensors")?;
    if last.is_finite() { Ok(()) } else { Err("the loss is not finite".into()) }
}
