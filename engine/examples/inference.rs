//! Predicts the label map of one image, on the image's own grid, with weights from a training run.
//!
//! `cargo run --release -p hearth --example inference`

use hearth::prelude::*;

/// Runs the example in the current folder.
pub fn main() -> hearth::Result<()> {
    let network = UNetConfig::new(3, 1, 2, &[4, 8, 16], &[2, 2]).num_res_units(2).init(&device::parse("cpu")?, 0)?;
    let (network, _) = weights::load(network, "network.safetensors")?;
    let read = (LoadImage::new("image"), EnsureChannelFirst::new("image"), Orientation::new("image", "RAS"));
    let space = Spacing::new("image", [2.0, 2.0, 3.0]);
    let scale = ScaleIntensityRange::new("image", -57.0, 164.0).b_min(0.0).b_max(1.0).clip(true);
    let predictor = Predictor::new(network, Pipeline::new((read, space, scale))?).post(Post::labels());
    let predictor = predictor.inferer(SlidingWindowInferer::new(&[16, 16, 16]));
    write_image("labels.nii.gz", &predictor.predict("image.nii.gz")?, &WriteOptions::default())?;
    Ok(())
}
