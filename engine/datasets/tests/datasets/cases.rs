//! Tests of phantom cases, a recipe for them, and the resulting data set.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hearth_datasets::{Dataset, DecathlonDataset, Item, PersistentDataset, StoreOptions};
use hearth_image::TransformError;
use hearth_phantom::{self as phantom, SpleenOptions};
use hearth_registry::Fault;
use hearth_transforms::transforms::*;
use hearth_transforms::{Draw, Pipeline, Sample, Transform, Value};

pub const KEYS: [&str; 2] = ["image", "label"];

pub fn phantom(cases: usize) -> (tempfile::TempDir, Vec<Item>) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut options = SpleenOptions::default();
    options.size = 24;
    phantom::spleen(dir.path(), cases, &options).expect("written");
    let items = DecathlonDataset::open(dir.path()).expect("a data set").training;
    (dir, items)
}

pub fn crop(size: i64) -> RandCropByPosNegLabel {
    RandCropByPosNegLabel::new(KEYS, "label", size)
        .num_samples(2_usize)
        .fg_indices_key(Some("label_fg".to_owned()))
        .bg_indices_key(Some("label_bg".to_owned()))
}

pub fn steps(a_max: f64) -> Vec<Box<dyn Transform>> {
    vec![
        Box::new(LoadImage::new(KEYS)),
        Box::new(Orientation::new(KEYS, "RAS")),
        Box::new(ScaleIntensityRange::new("image", -57.0, a_max).b_min(Some(0.0)).b_max(Some(1.0)).clip(true)),
        Box::new(FgBgToIndices::new("label")),
        Box::new(crop(8)),
        Box::new(RandFlip::new(KEYS).prob(0.5)),
    ]
}

pub fn pipeline() -> Arc<Pipeline> {
    Arc::new(Pipeline::new(steps(164.0)).expect("sound"))
}

/// Everything a sample holds, for comparison.
pub fn contents(dataset: &dyn Dataset, epochs: std::ops::Range<u64>) -> Vec<String> {
    let mut out = Vec::new();
    for epoch in epochs {
        for index in 0..dataset.len() {
            out.extend(dataset.get(index, epoch).expect("samples").iter().map(describe));
        }
    }
    out
}

pub fn describe(sample: &Sample) -> String {
    let mut out = sample.case.clone();
    for (key, value) in &sample.values {
        match value {
            Value::Image(image) => {
                let bits: Vec<u8> = image.to_vec().iter().flat_map(|v| v.to_bits().to_le_bytes()).collect();
                let hash = blake3::hash(&bits);
                out += &format!(" {key}: {:?} {:?} {:?} {hash}", image.data.dims(), image.affine, image.meta);
            }
            other => out += &format!(" {key}: {other:?}"),
        }
    }
    out
}

pub fn persistent(items: &[Item], pipeline: Arc<Pipeline>, dir: &Path) -> PersistentDataset {
    PersistentDataset::new(items.to_vec(), seeded(pipeline, 7), dir, StoreOptions::default()).expect("a folder")
}

/// A step without effect, before the random ones; it only counts.
#[derive(Debug)]
pub struct Count(Arc<AtomicUsize>);

impl Transform for Count {
    fn name(&self) -> &'static str {
        "Count"
    }

    fn apply(&self, sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(vec![sample])
    }

    fn check(&self, _: &mut BTreeSet<String>) -> Result<(), Fault> {
        Ok(())
    }

    fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "name": "Count" })
    }
}

/// A pipeline that counts the cases it processed.
pub fn counting(a_max: f64) -> (Arc<Pipeline>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let mut steps = steps(a_max);
    steps.insert(1, Box::new(Count(count.clone())));
    (Arc::new(Pipeline::new(steps).expect("sound")), count)
}

/// The same steps, drawing with this seed.
pub fn seeded(pipeline: Arc<Pipeline>, seed: u64) -> Arc<Pipeline> {
    Arc::new(Arc::unwrap_or_clone(pipeline).seed(seed))
}
