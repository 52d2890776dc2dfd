//! Every loss, metric, optimizer, schedule and inferer.

use hearth_handlers::Schedule;
use hearth_nn::inferers::Inferer;
use hearth_nn::losses::Loss;
use hearth_nn::metrics::Metric;
use hearth_nn::optim::OptimizerSpec;
use hearth_registry::{Kind, Registry};
use toml::{Table, Value, toml};

use crate::small::{Done, Learns, Volumes, example, step, with};

const SIZE: [usize; 3] = [16, 16, 16];
const IMAGES: Learns = Learns::Reconstruction([1, 16, 16, 16]);

/// Runs a recipe for each entry of a kind, and fails with all errors.
fn each<T: Kind + ?Sized>(recipe: impl Fn(&str, Table) -> Table, sound: impl Fn(&str, Done) -> Result<(), String>) {
    let volumes = Volumes::new(SIZE);
    let mut faults = Vec::new();
    for entry in Registry::<T>::new().entries() {
        let name = entry.name;
        let done = volumes.run(&recipe(name, example(entry)));
        if let Err(fault) = done.and_then(|done| done.is_sound().and_then(|()| sound(name, done))) {
            faults.push(format!("{name}: {fault}"));
        }
    }
    assert!(faults.is_empty(), "{} of kind {} cannot be reached:\n{}", faults.len(), T::WORD, faults.join("\n"));
}

fn put(learns: Learns, key: &str, table: impl Into<Value>) -> Table {
    with(learns.recipe(1, 3), key, table)
}

#[test]
fn every_loss_trains() {
    let recipe = |name: &str, loss: Table| {
        let learns = match name {
            "AsymmetricUnifiedFocalLoss"
            | "CrossEntropyLoss"
            | "DiceCELoss"
            | "DiceLoss"
            | "GeneralizedWassersteinDiceLoss" => Learns::Segmentation,
            "MSELoss" | "SSIMLoss" => IMAGES,
            // Vectors, and the vectors to which they should be close.
            "ContrastiveLoss" => Learns::Regression(8),
            _ => Learns::Regions,
        };
        let mut recipe = put(learns, "loss", loss);
        if name == "DeepSupervisionLoss" {
            let network = toml! {
                name = "SegResNetDS"
                spatial_dims = 3
                in_channels = 1
                out_channels = 1
                init_filters = 4
                blocks_down = [1, 1, 1]
                dsdepth = 2
            };
            recipe.insert("network".into(), network.into());
        }
        if name == "MaskedDiceLoss" {
            // The mask is a key of the case, as the label is.
            let mask = with(step("CopyItems", &["label"]), "names", vec!["mask"]);
            recipe["transforms"].as_array_mut().expect("a list").push(mask.into());
        }
        recipe
    };
    each::<dyn Loss>(recipe, |_, _| Ok(()));
}

#[test]
fn every_metric_measures() {
    let recipe = |name: &str, metric: Table| {
        let (learns, key) = match name {
            "Accuracy" | "AveragePrecisionMetric" | "ROCAUCMetric" => (Learns::Classification, "Accuracy"),
            "MAEMetric" | "MAPEMetric" | "MSEMetric" | "RMSEMetric" => (Learns::Regression(2), "MAEMetric"),
            "PSNRMetric" | "SSIMMetric" | "MultiScaleSSIMMetric" => (IMAGES, "MAEMetric"),
            _ => (Learns::Segmentation, "DiceMetric"),
        };
        // Some cannot be key metrics, because it depends whether higher or lower values are better.
        let metrics = Table::from_iter([
            ("key".to_owned(), "usual".into()),
            ("usual".to_owned(), with(Table::new(), "name", key).into()),
            ("asked".to_owned(), metric.into()),
        ]);
        put(learns, "metric", metrics)
    };
    let measured = |_: &str, done: Done| match done.metrics.iter().find(|(name, _)| name.starts_with("asked")) {
        Some((_, value)) if value.is_finite() => Ok(()),
        _ => Err(format!("{:?}", done.metrics)),
    };
    each::<dyn Metric>(recipe, measured);
}

#[test]
fn every_optimizer_trains() {
    each::<dyn OptimizerSpec>(|_, optimizer| put(Learns::Segmentation, "optimizer", optimizer), |_, _| Ok(()));
}

#[test]
fn every_schedule_sets_the_rate() {
    // The first step of a warm-up has a rate of 0; the second one changes weights.
    let recipe = |_: &str, schedule: Table| {
        let mut recipe = put(Learns::Segmentation, "schedule", schedule);
        recipe["training"].as_table_mut().expect("a table").insert("epochs".into(), 2.into());
        recipe
    };
    let set = |_: &str, done: Done| match done.rates[..] {
        [first, second] if first.is_finite() && second.is_finite() && second > 0.0 => Ok(()),
        _ => Err(format!("the learning rates are {:?}", done.rates)),
    };
    each::<dyn Schedule>(recipe, set);
}

#[test]
fn every_inferer_validates() {
    let recipe = |name: &str, inferer: Table| {
        let inferer = match name {
            "PatchInferer" => with(inferer, "splitter", toml! { patch_size = [8, 8, 8] }),
            "SlidingWindowInferer" => with(inferer, "roi_size", vec![8, 8, 8]),
            "SliceInferer" => with(inferer, "roi_size", vec![8, 8]),
            _ => inferer,
        };
        let mut recipe = put(Learns::Segmentation, "inferer", inferer);
        if name == "SliceInferer" {
            // It trains on slices, and is applied to the volume slice by slice.
            recipe["network"].as_table_mut().expect("a table").insert("spatial_dims".into(), 2.into());
            let crop = with(step("RandSpatialCrop", &["image", "label"]), "roi_size", vec![16, 16, 1]);
            let crop = with(with(crop, "random_size", false), "only", "train");
            recipe["transforms"].as_array_mut().expect("a list").push(crop.into());
        }
        recipe
    };
    let measured = |_: &str, done: Done| match done.metrics.get("mean_dice") {
        Some(dice) if dice.is_finite() => Ok(()),
        _ => Err(format!("{:?}", done.metrics)),
    };
    each::<dyn Inferer>(recipe, measured);
}
