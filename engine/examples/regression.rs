//! Regression of a number per image: here, the fraction of a scan that the organ fills.
//!
//! `cargo run --release -p hearth --example regression`

use hearth::data::Field;
use hearth::nn::losses::MseLoss;
use hearth::nn::metrics::MaeMetric;
use hearth::nn::networks::RegressorConfig;
use hearth::prelude::*;

/// The case with a number in place of a label map.
fn share(item: &Item) -> hearth::Result<Item> {
    let share = f64::from(read_image(&item.files["label"])?.data.mean().into_scalar::<f32>());
    Ok(Item::new(&item.case).with("image", &item.files["image"]).with_field("label", Field::Number(share)))
}

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let items = DecathlonDataset::open("Task09_Spleen")?.training;
    let mut train = items.iter().map(share).collect::<hearth::Result<Vec<Item>>>()?;
    let validate = train.split_off(train.len() - 1);
    let steps = Pipeline::new((
        LoadImage::new("image"),
        EnsureChannelFirst::new("image"),
        ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true),
        Resize::new("image", [16, 16, 16]),
    ))?;
    let train = DataLoader::new(train.cached(&steps)?, LoaderOptions::default().batch_size(2).shuffle(true))?;
    let validate = DataLoader::new(validate.cached(&steps)?, LoaderOptions::default())?;
    let network = RegressorConfig::new(&[1, 16, 16, 16], &[1], &[4, 8], &[2, 2]).init(&device::parse("cpu")?, 0)?;
    let evaluator = SupervisedEvaluator::builder(validate).key_metric("mae", MaeMetric::default()).build()?;
    SupervisedTrainer::builder(network, MseLoss::default(), AdamConfig::default(), train)
        .max_epochs(3)
        .validation(evaluator)
        .handler(Validation::default())
        .build()?
        .run()?;
    Ok(())
}
