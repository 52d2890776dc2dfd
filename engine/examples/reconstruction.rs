//! Denoising, from image to image. `CopyItems` keeps a copy of each crop, noise is added to the
//! original, and the network learns to remove it.
//!
//! `cargo run --release -p hearth --example reconstruction`

use hearth::nn::losses::MseLoss;
use hearth::nn::metrics::PsnrMetric;
use hearth::prelude::*;

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let (train, validate) = DecathlonDataset::open("Task09_Spleen")?.split_last(1)?;
    let steps = Pipeline::new((
        LoadImage::new("image"),
        EnsureChannelFirst::new("image"),
        ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true),
        RandSpatialCrop::new("image", [16, 16, 16]).random_size(false),
        CopyItems::new("image"),
        RandGaussianNoise::new("image").prob(1.0).std(0.1),
    ))?;
    let train = DataLoader::new(train.cached(&steps)?, LoaderOptions::default().batch_size(2).shuffle(true))?;
    // Validation also adds noise, because the metric measures its removal. The draws are the same
    // in each epoch.
    let validate = DataLoader::new(validate.cached(&steps)?, LoaderOptions::default())?;
    let network = UNetConfig::new(3, 1, 1, &[4, 8], &[2]).init(&device::parse("cpu")?, 0)?;
    let evaluator = SupervisedEvaluator::builder(validate)
        .keys("image", "image_0")
        .key_metric("psnr", PsnrMetric::new(1.0))
        .build()?;
    SupervisedTrainer::builder(network, MseLoss::default(), AdamConfig::default(), train)
        .keys("image", "image_0")
        .max_epochs(3)
        .validation(evaluator)
        .handler(Validation::default())
        .build()?
        .run()?;
    Ok(())
}
