//! A UNet, trained, validated and checkpointed on a folder in the layout of the Medical
//! Segmentation Decathlon. The sizes are small, so that it finishes in seconds on generated data.
//! Real data needs crops of 96, channels from 16 to 256, and hundreds of epochs.
//!
//! `hearth data phantom spleen -o Task09_Spleen && cargo run --release -p hearth --example train`

use hearth::prelude::*;

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let (train, validate) = DecathlonDataset::open("Task09_Spleen")?.split_last(1)?;
    let both = ["image", "label"];
    let steps = Pipeline::new((
        LoadImage::new(both),
        EnsureChannelFirst::new(both),
        Orientation::new(both, "RAS"),
        Spacing::new(both, [2.0, 2.0, 3.0]).mode([GridMode::Bilinear, GridMode::Nearest]),
        ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true),
        RandCropByPosNegLabel::new(both, "label", 16).num_samples(2_usize),
    ))?;
    let batches = LoaderOptions::default().batch_size(2).shuffle(true).workers(2);
    let train = DataLoader::new(train.cached(&steps)?, batches)?;
    let validate = DataLoader::new(validate.cached(&steps.without_random())?, LoaderOptions::default())?;

    let network = UNetConfig::new(3, 1, 2, &[4, 8, 16], &[2, 2]).num_res_units(2).init(&device::parse("cpu")?, 0)?;
    let loss = DiceCELoss::default().softmax(true).to_onehot_y(true);
    let evaluator = SupervisedEvaluator::builder(validate)
        .inferer(SlidingWindowInferer::new(&[16, 16, 16]))
        .post(Post::argmax(2), Post::onehot(2))
        .key_metric("mean_dice", DiceMetric::default().include_background(false))
        .build()?;
    SupervisedTrainer::builder(network, loss, NovogradConfig::default().lr(1e-3), train)
        .max_epochs(3)
        .validation(evaluator)
        .handler(Validation::default())
        .handler(Checkpoints::default())
        .build()?
        .run()?;
    Ok(())
}
