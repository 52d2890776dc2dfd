//! Overlapping regions, each with its own sigmoid: tumour core, whole tumour and enhancing tumour,
//! as defined by BraTS. On generated volumes, whose only label is 1, the third region is empty.
//!
//! `cargo run --release -p hearth --example regions`

use hearth::prelude::*;

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let (train, validate) = DecathlonDataset::open("Task09_Spleen")?.split_last(1)?;
    let both = ["image", "label"];
    let steps = Pipeline::new((
        LoadImage::new(both),
        EnsureChannelFirst::new(both),
        ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true),
        // The regions of a case are three channels of its label.
        ConvertToMultiChannelBasedOnBratsClasses::new("label"),
        RandSpatialCrop::new(both, [16, 16, 16]).random_size(false),
    ))?;
    let train = DataLoader::new(train.cached(&steps)?, LoaderOptions::default().batch_size(2).shuffle(true))?;
    let validate = DataLoader::new(validate.cached(&steps.without_random())?, LoaderOptions::default())?;
    let network = UNetConfig::new(3, 1, 3, &[4, 8], &[2]).init(&device::parse("cpu")?, 0)?;
    let evaluator = SupervisedEvaluator::builder(validate)
        .inferer(SlidingWindowInferer::new(&[16, 16, 16]))
        .post(Post::sigmoid_threshold(), Vec::new())
        .key_metric("mean_dice", DiceMetric::default().reduction(MetricReduction::MeanBatch))
        .build()?;
    SupervisedTrainer::builder(network, DiceLoss::default().sigmoid(true), AdamConfig::default(), train)
        .max_epochs(2)
        .validation(evaluator)
        .handler(Validation::default())
        .build()?
        .run()?;
    Ok(())
}
