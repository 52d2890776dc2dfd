//! A custom network, loss, transform, metric and handler, trained and validated together in 60 lines.
//! The network implements a trait of two functions, the others are functions and closures.
//!
//! `hearth data phantom spleen -o Task09_Spleen && cargo run --release -p hearth --example own_parts`

use hearth::nn::metrics::count;
use hearth::prelude::*;

/// A network with one level of downsampling.
#[derive(Module, Debug)]
struct Hourglass {
    down: Convolution,
    up: Convolution,
}

fn hourglass(device: &Device, seed: u64) -> Result<Hourglass, ConfigError> {
    let scope = Scope::new(device, seed);
    let down = ConvolutionOptions::new([1, 8], [3; 3]).stride([2; 3]).build(&scope.enter("down"))?;
    let up = ConvolutionOptions::new([8, 2], [3; 3]).stride([2; 3]).transposed(true).build(&scope.enter("up"))?;
    Ok(Hourglass { down, up })
}

impl Network for Hourglass {
    fn channels(&self) -> [usize; 2] {
        [1, 2]
    }
    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.up.forward(self.down.forward(x))
    }
}

/// One minus the Jaccard index of the foreground's probability.
fn soft_jaccard(input: Tensor<5>, target: Tensor<5>) -> Result<Tensor<1>, LossError> {
    let p = burn::tensor::activation::softmax(input, 1).narrow(1, 1, 1);
    let both = (p.clone() * target.clone()).sum();
    Ok((both.clone() + 1e-5) / (p.sum() + target.sum() - both + 1e-5) * -1.0 + 1.0)
}

/// The volume error of each class, relative to the label's volume.
fn volume_error(pred: Tensor<5>, label: Tensor<5>) -> Result<Tensor<2>, MetricError> {
    let label = count(label);
    Ok((count(pred) - label.clone()).abs() / label)
}

/// Trains in the current folder.
pub fn train() -> hearth::Result<RunEnd> {
    let (train, validate) = DecathlonDataset::open("Task09_Spleen")?.split_last(1)?;
    // Replaces values below a threshold by the threshold.
    let floor = image_fn("Floor", "image", -57.0, |least, image| Ok(image.map(|values| values.clamp_min(*least))));
    let scale = ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0).b_max(1);
    let steps = Pipeline::new((LoadImage::new(["image", "label"]), floor, scale))?;
    let train = DataLoader::new(train.cached(&steps)?, LoaderOptions::default().shuffle(true))?;
    let validate = DataLoader::new(validate.cached(&steps)?, LoaderOptions::default())?;
    let evaluator = SupervisedEvaluator::builder(validate)
        .post(Post::argmax(2), Post::onehot(2))
        .key_metric("volume_error", metric_fn("VolumeError", volume_error))
        .better(Better::Lower)
        .build()?;
    let (network, loss) = (hourglass(&device::parse("cpu")?, 0)?, loss_fn("SoftJaccard", soft_jaccard));
    Ok(SupervisedTrainer::builder(network, loss, AdamConfig::default().lr(0.03), train)
        .max_epochs(30)
        .validation(evaluator)
        .handler(Validation::default())
        .on(Event::IterationCompleted, |cx| {
            // Ends the run when the loss is small enough.
            if cx.host.output("loss")? < 0.9 {
                cx.host.terminate("good enough");
            }
            Ok(())
        })
        .build()?
        .run()?)
}

fn main() -> hearth::Result<()> {
    println!("{:?}", train()?);
    Ok(())
}
