//! Classification of whole images: whether a scan shows much of the organ. The class is a field of
//! a case. `csv_items` reads it from a column of a table; this example computes it from the label
//! maps.
//!
//! `cargo run --release -p hearth --example classification`

use hearth::data::Field;
use hearth::nn::metrics::Accuracy;
use hearth::nn::networks::DenseNetConfig;
use hearth::prelude::*;

/// The cases, with a class in place of a label map.
fn classes(items: Vec<Item>) -> hearth::Result<Vec<Item>> {
    let volume = |item: &Item| Ok(read_image(&item.files["label"])?.data.sum().into_scalar::<f32>());
    let volumes = items.iter().map(volume).collect::<hearth::Result<Vec<f32>>>()?;
    let mean = volumes.iter().sum::<f32>() / volumes.len() as f32;
    let class = |(item, volume): (&Item, f32)| {
        let class = Field::Number(if volume > mean { 1.0 } else { 0.0 });
        Item::new(&item.case).with("image", &item.files["image"]).with_field("label", class)
    };
    Ok(items.iter().zip(volumes).map(class).collect())
}

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let mut train = classes(DecathlonDataset::open("Task09_Spleen")?.training)?;
    let validate = train.split_off(train.len() - 2);
    let steps = Pipeline::new((
        LoadImage::new("image"),
        EnsureChannelFirst::new("image"),
        ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true),
        RandFlip::new("image").prob(0.5),
    ))?;
    let train = DataLoader::new(train.cached(&steps)?, LoaderOptions::default().batch_size(2).shuffle(true))?;
    let validate = DataLoader::new(validate.cached(&steps.without_random())?, LoaderOptions::default())?;
    let network = DenseNetConfig::new(3, 1, 2).init_features(8).growth_rate(4).block_config([2, 2]);
    let evaluator = SupervisedEvaluator::builder(validate).key_metric("accuracy", Accuracy::default()).build()?;
    let network = network.init(&device::parse("cpu")?, 0)?;
    SupervisedTrainer::builder(network, CrossEntropyLoss::default(), AdamConfig::default(), train)
        .max_epochs(3)
        .validation(evaluator)
        .handler(Validation::default())
        .build()?
        .run()?;
    Ok(())
}
