//! The work of `monai_peer.py load|preprocess|crop`, with the same JSON fields. Ignored: it only
//! measures and asserts nothing.

use std::path::Path;
use std::time::Instant;

use hearth_data::transforms::*;
use hearth_data::{DrawKey, Item, OneOrMany, Pipeline, Sample, Transform, read_nifti, spatial::GridMode};

fn timed<T>(runs: usize, mut work: impl FnMut() -> T) -> (f64, f64, f64) {
    work();
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(work());
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[0], times[times.len() - 1])
}

fn deterministic() -> Vec<Box<dyn Transform>> {
    let keys = ["image", "label"];
    vec![
        Box::new(LoadImage::new(keys)),
        Box::new(EnsureChannelFirst::new(keys)),
        Box::new(Orientation::new(keys, "RAS")),
        Box::new(Spacing::new(keys, [1.5, 1.5, 2.0]).mode(OneOrMany::from([GridMode::Bilinear, GridMode::Nearest]))),
        Box::new(ScaleIntensityRange::new("image", -57.0, 164.0).b_min(Some(0.0)).b_max(Some(1.0)).clip(true)),
        Box::new(CropForeground::new(keys, "image").allow_smaller(true)),
    ]
}

#[test]
#[ignore = "measures; needs the folder of real files (HEARTH_REAL_DATA)"]
fn same_work_as_the_peer() {
    let folder = crate::common::real_data().join("spleen_ct");
    let (image, label) = (folder.join("case_a_ct.nii.gz"), folder.join("case_a_spleen.nii.gz"));
    let name = Path::new("case_a_ct.nii.gz").display();
    let (median, min, max) = timed(9, || read_nifti(&image).expect("readable"));
    println!(
        "{{\"bench\": \"load\", \"file\": \"{name}\", \"seconds\": {median:.5}, \"min\": {min:.5}, \"max\": {max:.5}}}"
    );
    let chain = Pipeline::new(deterministic()).expect("sound");
    let item = Item::new("a").with("image", &image).with("label", &label);
    let key = DrawKey::new(0, 0, 0);
    let out = chain.run(item.sample(), key).expect("it runs");
    let shape = out[0].image("image").expect("an image").data.dims();
    let (median, min, max) = timed(9, || chain.run(item.sample(), key).expect("it runs"));
    println!(
        "{{\"bench\": \"preprocess\", \"out\": {shape:?}, \"seconds\": {median:.5}, \"min\": {min:.5}, \"max\": {max:.5}}}"
    );
    let mut steps = deterministic();
    let keys = ["image", "label"];
    steps.push(Box::new(FgBgToIndices::new("label")));
    steps.push(Box::new(EnsureType::new(keys).track_meta(false)));
    let cached: Vec<Sample> = Pipeline::new(steps).expect("sound").run(item.sample(), key).expect("it runs");
    let random: Vec<Box<dyn Transform>> = vec![
        Box::new(
            RandCropByPosNegLabel::new(keys, "label", 64)
                .num_samples(4_usize)
                .fg_indices_key(Some("label_fg".to_owned()))
                .bg_indices_key(Some("label_bg".to_owned()))
                .allow_smaller(true),
        ),
        Box::new(RandFlip::new(keys).prob(0.5).spatial_axis(Some(0_i64.into()))),
        Box::new(RandRotate90::new(keys).prob(0.5)),
        Box::new(RandScaleIntensity::new("image", 0.1).prob(0.5)),
        Box::new(RandShiftIntensity::new("image", 0.1).prob(0.5)),
        Box::new(RandGaussianNoise::new("image").prob(0.5)),
    ];
    struct Known(Vec<Box<dyn Transform>>);
    let random = Known(random);
    let mut epoch = 0;
    let (median, min, max) = timed(40, || {
        epoch += 1;
        let mut samples = cached.clone();
        for (i, step) in random.0.iter().enumerate() {
            let mut next = Vec::new();
            for (part, sample) in samples.into_iter().enumerate() {
                next.extend(step.apply(sample, &DrawKey::new(0, epoch, 0).draw("a", i, part)).expect("it runs"));
            }
            samples = next;
        }
        hearth_data::collate(samples).expect("one size")
    });
    println!(
        "{{\"bench\": \"crop\", \"patch\": 64, \"patches_per_second\": {:.1}, \"seconds\": {median:.5}, \"min\": {min:.5}, \"max\": {max:.5}}}",
        4.0 / median
    );
}
