//! The number of a loader's threads does not change batches.

use std::sync::Arc;

use hearth_datasets::{DataError, DataLoader, Dataset, LoaderOptions};
use hearth_image::{Affine, Image, affine, host_device};
use hearth_transforms::transforms::*;
use hearth_transforms::{DrawKey, Pipeline, Sample, Transform};
use proptest::prelude::*;

/// An oblique affine.
fn tilted() -> Affine {
    let (s, c) = 0.2_f64.sin_cos();
    [[0.0, -1.1, 0.0, 30.0], [0.9 * c, 0.0, -2.2 * s, -12.0], [0.9 * s, 0.0, 2.2 * c, 4.0], affine::IDENTITY[3]]
}

/// Voxels that are all different, none 0.
fn counting(shape: [usize; 4]) -> Image {
    let values = (0..shape.iter().product::<usize>()).map(|v| v as f32 + 1.0).collect();
    Image::from_values(values, shape, tilted(), &host_device())
}

/// Generated cases, with every random crop.
struct Cut(Pipeline);

impl Dataset for Cut {
    fn len(&self) -> usize {
        6
    }

    fn case(&self, index: usize) -> &str {
        ["a", "b", "c", "d", "e", "f"][index]
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let image = counting([1, 9, 8, 7]);
        let label: Vec<f32> = (0..504).map(|v| ((v / 3 + index) % 5) as f32).collect();
        let label = Image::from_values(label, [1, 9, 8, 7], tilted(), &host_device());
        let sample = Sample::new(self.case(index)).with_image("image", image).with_image("label", label);
        Ok(self.0.run(sample, DrawKey::new(7, epoch, 0))?)
    }
}

#[test]
fn workers_change_no_crop() {
    let keys = ["image", "label"];
    let chain = || -> Vec<Box<dyn Transform>> {
        vec![
            Box::new(ClassesToIndices::new("label").num_classes(Some(5))),
            Box::new(RandScaleCrop::new(keys, 0.9)),
            Box::new(RandAxisFlip::new(keys).prob(0.5)),
            Box::new(RandCropByLabelClasses::new(keys, "label", 6).num_classes(Some(5)).num_samples(2_usize)),
            Box::new(RandWeightedCrop::new(keys, "label", 5)),
            Box::new(RandSpatialCrop::new(keys, 4)),
            Box::new(RandGridPatch::new(keys, [2, 2, 2]).num_patches(Some(3)).sort_fn(Some(PatchOrder::Random))),
        ]
    };
    let batches = |workers: usize| -> Vec<Vec<f32>> {
        let dataset = Arc::new(Cut(Pipeline::new(chain()).expect("sound")));
        let options = LoaderOptions { batch_size: 2, workers, ..LoaderOptions::default() };
        let loader = DataLoader::new(dataset, options).expect("a loader");
        loader
            .epoch(3, 0)
            .map(|batch| {
                let batch = batch.expect("a batch");
                assert_eq!(batch.len(), 2 * 2 * 3);
                batch.tensor("image").expect("images").clone().try_into_vec_as::<f32>().expect("values")
            })
            .collect()
    };
    let alone = batches(0);
    assert_eq!(alone.len(), 3);
    assert_eq!(alone, batches(1));
    assert_eq!(alone, batches(4));
}

/// Steps that move voxels without losing any; `n` is from 0 to 1.
fn moves(which: usize, n: f64) -> Box<dyn Transform> {
    let key = "image";
    match which {
        0 => Box::new(Flip::new(key)),
        1 => Box::new(Rotate90::new(key).k((n * 4.0) as i64)),
        2 => Box::new(RandFlip::new(key).prob(n)),
        3 => Box::new(RandAxisFlip::new(key).prob(n)),
        4 => Box::new(RandRotate90::new(key).prob(n)),
        _ => Box::new(SpatialPad::new(key, (n * 12.0) as i64)),
    }
}

/// Generated cases, with every kind of draw.
struct Moved(Pipeline, Vec<String>);

impl Dataset for Moved {
    fn len(&self) -> usize {
        self.1.len()
    }

    fn case(&self, index: usize) -> &str {
        &self.1[index]
    }

    fn get(&self, index: usize, epoch: u64) -> Result<Vec<Sample>, DataError> {
        let sample = Sample::new(self.case(index)).with_image("image", counting([1, 7 + index % 3, 8, 6]));
        Ok(self.0.run(sample, DrawKey::new(5, epoch, 0))?)
    }
}

fn batches(cases: usize, steps: &[(usize, f64)], options: &LoaderOptions, epoch: u64) -> Vec<(Vec<String>, Vec<f32>)> {
    let drawn: Vec<Box<dyn Transform>> = vec![
        Box::new(RandAffine::new("image").prob(0.7).rotate_range([0.4]).translate_range([1.0, 2.0])),
        Box::new(RandGaussianNoise::new("image").prob(0.5)),
        Box::new(ResizeWithPadOrCrop::new("image", 9)),
        Box::new(RandSpatialCropSamples::new("image", 5, 2).random_size(false)),
    ];
    let chain = steps.iter().map(|(which, n)| moves(*which, *n)).chain(drawn).collect::<Vec<Box<dyn Transform>>>();
    let names = (0..cases).map(|i| format!("case {i}")).collect();
    let dataset = Arc::new(Moved(Pipeline::new(chain).expect("sound"), names));
    let loader = DataLoader::new(dataset, options.clone()).expect("a loader");
    let batches = loader.epoch(epoch, 0).map(|batch| {
        let batch = batch.expect("a batch");
        let values = batch.tensor("image").expect("images").clone().try_into_vec_as().expect("values");
        (batch.cases, values)
    });
    batches.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// With any number of threads and any options of the loader.
    #[test]
    fn workers_do_not_change_a_batch(
        cases in 1usize..9, steps in prop::collection::vec((0..6_usize, 0.0..1.0f64), 0..3), batch_size in 1usize..5,
        shuffle: bool, drop_last: bool, repeats in 1usize..3, buffer in 1usize..4, seed in any::<u64>(), epoch in 0u64..9,
    ) {
        let of = |workers: usize| {
            let options = LoaderOptions { batch_size, shuffle, workers, buffer, seed, drop_last, repeats, ..LoaderOptions::default() };
            batches(cases, &steps, &options, epoch)
        };
        let alone = of(0);
        prop_assert_eq!(alone.len(), repeats * if drop_last { cases / batch_size } else { cases.div_ceil(batch_size) });
        for workers in [1, 2, 4] {
            prop_assert_eq!(&of(workers), &alone, "{} workers", workers);
        }
    }
}
