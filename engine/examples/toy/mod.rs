//! A trainer for examples that needs no files. It learns to find bright voxels.

use std::error::Error;

use hearth::prelude::*;
use hearth::train::BatchStream;

struct Stripes;

impl Loader for Stripes {
    fn batches(&self) -> Option<u64> {
        Some(10)
    }

    fn pass(&self, _pass: u64, skip: u64) -> BatchStream {
        let stripes = Tensor::<1>::from_floats([0.1, 0.9, 0.2, 0.8], &Device::default()).repeat(&[128]);
        let image = stripes.reshape([1, 1, 8, 8, 8]);
        let mut batch = Batch { cases: vec!["stripes".into()], ..Batch::default() };
        batch.tensors.insert("label".into(), image.clone().round());
        batch.tensors.insert("image".into(), image);
        Box::new((skip..10).map(move |_| Ok(batch.clone())))
    }
}

/// A small network on the CPU, 20 epochs of 10 steps.
pub fn trainer() -> Result<SupervisedTrainer<UNet>, Box<dyn Error>> {
    let device = device::parse("cpu")?;
    let net = UNetConfig::new(3, 1, 2, &[2, 4], &[2]).init(&device, 0)?;
    let loss = DiceLoss::default().softmax(true).to_onehot_y(true);
    Ok(SupervisedTrainer::builder(net, loss, AdamConfig::default(), Stripes).max_epochs(20).build()?)
}
