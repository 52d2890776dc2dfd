//! A custom network, loss, transform, metric and handler, trained and validated together. Each
//! implements one trait with at most three functions.
//!
//! `hearth data phantom spleen -o Task09_Spleen && cargo run --release -p hearth --example own_parts`

use hearth::nn::layers::{Convolution, ConvolutionOptions, Scope};
use hearth::nn::metrics::{count, read, same_shape};
use hearth::prelude::*;

/// A network with one level of downsampling.
#[derive(Module, Debug)]
struct Hourglass {
    down: Convolution,
    up: Convolution,
}

impl Hourglass {
    fn new(device: &Device, seed: u64) -> Result<Self, ConfigError> {
        let scope = Scope::new(device, seed);
        let down = ConvolutionOptions { stride: [2; 3], ..ConvolutionOptions::new([1, 8], [3; 3]) };
        let up = ConvolutionOptions { stride: [2; 3], transposed: true, ..ConvolutionOptions::new([8, 2], [3; 3]) };
        let down = Convolution::new(&scope.enter("down"), &down)?;
        Ok(Self { down, up: Convolution::new(&scope.enter("up"), &up)? })
    }
}

impl Network for Hourglass {
    fn spatial_dims(&self) -> usize {
        3
    }
    fn channels(&self) -> [usize; 2] {
        [1, 2]
    }
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.up.forward(self.down.forward(x))
    }
}

/// One minus the Jaccard index of the foreground's probability.
struct SoftJaccard;

impl Loss for SoftJaccard {
    fn check(&self) -> Result<(), LossError> {
        Ok(())
    }
    fn forward(&self, input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
        let p = burn::tensor::activation::softmax(input, 1).narrow(1, 1, 1);
        let both = (p.clone() * target.clone()).sum();
        Ok((both.clone() + 1e-5) / (p.sum() + target.sum() - both + 1e-5) * -1.0 + 1.0)
    }
}

/// Replaces values below a threshold by the threshold.
#[derive(Clone, Debug)]
struct Floor(Keys, f64);

impl Transform for Floor {
    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        for key in self.0.iter() {
            sample.update(key, |image| Ok(Image { data: image.data.clamp_min(self.1), ..image }))?;
        }
        Ok(vec![sample])
    }
}

/// The volume error of each class, relative to the label's volume.
struct VolumeError;

impl PerItem for VolumeError {
    fn measure(&self, pred: &Tensor<5>, label: &Tensor<5>, _: &[[f64; 3]]) -> Result<Vec<Vec<f32>>, MetricError> {
        same_shape("VolumeError", pred, label)?;
        let (classes, label) = (pred.dims()[1], count(label.clone()));
        let rows = read("VolumeError", (count(pred.clone()) - label.clone()).abs() / label)?;
        Ok(rows.chunks(classes).map(<[f32]>::to_vec).collect())
    }
    fn higher_is_better(&self) -> Option<bool> {
        Some(false)
    }
}

/// Ends the run when the loss is small enough.
struct GoodEnough(f64);

impl Handler for GoodEnough {
    fn name(&self) -> &str {
        "good_enough"
    }
    fn subscriptions(&self) -> Vec<When> {
        vec![Event::IterationCompleted.into()]
    }
    fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        if cx.host.output("loss")? < self.0 {
            cx.host.terminate("good enough");
        }
        Ok(())
    }
}

/// Trains in the current folder.
pub fn train() -> hearth::Result<RunEnd> {
    let (train, validate) = DecathlonDataset::open("Task09_Spleen")?.split_last(1)?;
    let load = LoadImage::new(["image", "label"]);
    let scale = ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0);
    let steps = Pipeline::new((load, Floor("image".into(), -57.0), scale))?;
    let train = DataLoader::new(train.cached(&steps)?, LoaderOptions::default().shuffle(true))?;
    let validate = DataLoader::new(validate.cached(&steps)?, LoaderOptions::default())?;
    let evaluator = SupervisedEvaluator::builder(validate)
        .post(Post::argmax(2), Post::onehot(2))
        .key_metric("volume_error", VolumeError.gathered())
        .build()?;
    let network = Hourglass::new(&device::parse("cpu")?, 0)?;
    Ok(SupervisedTrainer::builder(network, SoftJaccard, AdamConfig::default().lr(0.03), train)
        .max_epochs(30)
        .validation(evaluator)
        .handler(Validation::default())
        .handler(GoodEnough(0.9))
        .build()?
        .run()?)
}

fn main() -> hearth::Result<()> {
    println!("{:?}", train()?);
    Ok(())
}
