//! Dice scores of the recipes' table (recorded from MONAI), and counts at the limits of f32.

use burn::tensor::{Device, Tensor};
use hearth_nn::metrics::{
    Accuracy, ConfusionMatrixMetric, DiceMetric, HausdorffDistanceMetric, Metric, MetricConfig, MetricError,
    MetricReduction, RocAucMetric, SurfaceDiceMetric, SurfaceDistanceMetric,
};

use crate::{assert_close, batch};

/// Two items, two classes: scores [[2/3, NaN], [2/3, 0]].
fn recorded(metric: &mut DiceMetric) {
    let pred =
        batch(&[1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [2, 2, 4, 1, 1]);
    let label =
        batch(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [2, 2, 4, 1, 1]);
    metric.update(&pred, &label).expect("these shapes fit");
}

#[test]
fn reductions_give_monais_values() {
    let third = 2.0 / 3.0;
    let cases: [(MetricReduction, &[f32], &[f32]); 7] = [
        (MetricReduction::None, &[third, f32::NAN, third, 0.0], &[1.0, 0.0, 1.0, 1.0]),
        (MetricReduction::Mean, &[0.5], &[2.0]),
        (MetricReduction::Sum, &[2.0 * third], &[3.0]),
        (MetricReduction::MeanBatch, &[third, 0.0], &[2.0, 1.0]),
        (MetricReduction::SumBatch, &[2.0 * third, 0.0], &[2.0, 1.0]),
        (MetricReduction::MeanChannel, &[third, third / 2.0], &[1.0, 2.0]),
        (MetricReduction::SumChannel, &[third, third], &[1.0, 2.0]),
    ];
    for (reduction, expected, counts) in cases {
        let mut metric = DiceMetric { reduction, ..DiceMetric::default() };
        recorded(&mut metric);
        let result = metric.aggregate().expect("two items");
        assert_close(&result.value.values, expected, 1e-6);
        assert_close(&result.not_nans.values, counts, 0.0);
    }
}

#[test]
fn an_absent_class_counts_where_asked() {
    let mut metric = DiceMetric { ignore_empty: false, ..DiceMetric::default() };
    recorded(&mut metric);
    assert_close(&[metric.aggregate().expect("two items").scalar()], &[1.0 / 3.0], 1e-6);
}

#[test]
fn maps_of_class_indices_score_as_their_one_hot_form() {
    let device = Device::default();
    let (pred, label) = (crate::labels([2, 1, 5, 4, 3], 4, 1, &device), crate::labels([2, 1, 5, 4, 3], 4, 2, &device));
    let mut maps = DiceMetric { num_classes: Some(4), ..DiceMetric::default() };
    let mut channels = DiceMetric::default();
    let hot = |map: &Tensor<5>| hearth_nn::losses::one_hot(map.clone(), 4);
    let rows = maps.update(&pred, &label).expect("fits").to_vec();
    assert_eq!(rows, channels.update(&hot(&pred), &hot(&label)).expect("fits"));
    assert_eq!(rows, DiceMetric::default().update(&hot(&pred), &label).expect("fits"));
    assert_eq!(rows[0].len(), 4);
}

/// More voxels than f32 can count one by one.
#[test]
fn counts_of_large_volumes_are_exact() {
    let ones = Tensor::<5>::ones([1, 1, 260, 260, 260], &Device::default());
    let mut metric = DiceMetric::default();
    assert_eq!(metric.update(&ones, &ones).expect("fits"), [[1.0]]);
    let mut without_one = ones.clone();
    without_one = without_one.slice_assign([0..1, 0..1, 7..8, 9..10, 11..12], Tensor::zeros([1; 5], &ones.device()));
    let voxels = 17_576_000.0_f64;
    let expected = (2.0 * (voxels - 1.0) / (2.0 * voxels - 1.0)) as f32;
    assert_close(&metric.update(&without_one, &ones).expect("fits")[0], &[expected], 6e-8);
}

#[test]
fn rows_gather_over_batches_and_ranks() {
    let mut metric = DiceMetric::default();
    recorded(&mut metric);
    recorded(&mut metric);
    assert_eq!(metric.rows().len(), 4);
    metric.merge(vec![vec![1.0, 1.0]]).expect("two classes");
    assert_close(&[metric.aggregate().expect("five items").scalar()], &[3.0 / 5.0], 1e-6);
    assert!(matches!(metric.merge(vec![vec![1.0]]), Err(MetricError::Row { got: 1, expected: 2, .. })));
    metric.reset();
    assert!(matches!(metric.aggregate(), Err(MetricError::Empty { .. })));
}

#[test]
fn misfits_are_named() {
    let mut metric = DiceMetric { num_classes: Some(5), ..DiceMetric::default() };
    let three = Tensor::<5>::zeros([1, 3, 2, 2, 2], &Device::default());
    let error = metric.update(&three, &three).expect_err("three channels for five classes");
    assert!(error.to_string().contains("at least 5"), "{error}");
    let larger = Tensor::<5>::zeros([1, 3, 2, 2, 3], &Device::default());
    assert!(matches!(DiceMetric::default().update(&three, &larger), Err(MetricError::Shape { .. })));
}

/// Two balls of radius 40 whose centres are 10 mm apart, in voxels of 1 x 1 x 2 mm.
fn balls(size: usize) -> (Tensor<5>, Tensor<5>) {
    let ball = |shift: f32| {
        let inside = |i: usize| {
            let [x, y, z] = [i / size / size, i / size % size, i % size].map(|v| v as f32 - size as f32 / 2.0);
            let far = (x - shift).powi(2) + y.powi(2) + (2.0 * z).powi(2);
            if far <= 40.0 * 40.0 { 1.0 } else { 0.0 }
        };
        let values: Vec<f32> = (0..size.pow(3)).map(inside).collect();
        batch(&values, [1, 1, size, size, size])
    };
    (ball(0.0), ball(10.0))
}

/// The largest distance is that of the centres; the others were recorded from MONAI.
#[test]
fn surfaces_of_balls_are_as_far_apart_as_monai_says() {
    let (first, second) = balls(100);
    let measure = |metric: &mut dyn Metric, expected: f32| {
        assert_close(&metric.update_spaced(&first, &second, &[[1.0, 1.0, 2.0]]).expect("fits")[0], &[expected], 1e-4);
    };
    measure(&mut HausdorffDistanceMetric::default(), 10.0);
    let mut directed = HausdorffDistanceMetric { directed: true, percentile: Some(95.0), ..Default::default() };
    measure(&mut directed, 9.1652);
    measure(&mut SurfaceDistanceMetric { symmetric: true, ..Default::default() }, 4.2812);
    measure(&mut SurfaceDiceMetric { use_subvoxels: true, ..SurfaceDiceMetric::new(&[5.0]) }, 0.5956);
}

/// A volume of 256 voxels a side, half full.
#[test]
fn the_95th_percentile_of_a_large_volume_takes_seconds() {
    let (first, second) = balls(256);
    let mut metric = HausdorffDistanceMetric { percentile: Some(95.0), ..Default::default() };
    let start = std::time::Instant::now();
    metric.update(&first, &second).expect("fits");
    let (whole, other) = (first.ones_like(), second);
    metric.update(&whole, &other).expect("fits");
    println!("two pairs of masks in {:?}", start.elapsed());
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn ranks_with_uneven_numbers_of_items_come_to_the_same() {
    let device = Device::default();
    let draw = |seed| crate::draw([7, 2, 1, 1, 1], seed, &device);
    let (scores, labels) = (draw(1), draw(2).greater_elem(0.0).float());
    let masks = |x: Tensor<5>| x.greater_elem(0.0).float();
    let (pred, label) =
        (masks(crate::draw([7, 2, 5, 4, 3], 3, &device)), masks(crate::draw([7, 2, 5, 4, 3], 4, &device)));
    let metrics = [
        "name = \"Accuracy\"",
        "name = \"AveragePrecisionMetric\"",
        "name = \"ConfusionMatrixMetric\"\nmetric_name = [\"f1 score\", \"accuracy\"]",
        "name = \"HausdorffDistanceMetric\"\ninclude_background = true",
        "name = \"MeanIoU\"\nreduction = \"mean_batch\"",
        "name = \"ROCAUCMetric\"\naverage = \"micro\"",
        "name = \"RMSEMetric\"\nreduction = \"none\"",
    ];
    for text in metrics {
        let config: MetricConfig = toml::from_str(text).expect("known");
        let curve = ["AveragePrecisionMetric", "ROCAUCMetric"].contains(&config.build().expect("checked").name());
        let (pred, label) = if curve { (&scores, &labels) } else { (&pred, &label) };
        let mut whole = config.build().expect("checked");
        whole.update(pred, label).expect("fits");
        let part = |first: usize, count: usize| {
            let mut part = config.build().expect("checked");
            part.update(&pred.clone().narrow(0, first, count), &label.clone().narrow(0, first, count)).expect("fits");
            part
        };
        let (mut first, second) = (part(0, 5), part(5, 2));
        first.merge(second.rows().to_vec()).expect("the same metric");
        assert_eq!(first.aggregate().expect("items"), whole.aggregate().expect("items"), "{text}");
        first.reset();
        assert!(matches!(first.aggregate(), Err(MetricError::Empty { .. })));
    }
}

#[test]
fn accuracy_counts_answers() {
    let mut classes = Accuracy::default();
    let scores = batch(&[0.1, 0.9, 0.8, 0.2, 0.3, 0.6], [3, 2, 1, 1, 1]);
    classes.update(&scores, &batch(&[1.0, 1.0, 1.0], [3, 1, 1, 1, 1])).expect("fits");
    assert_close(&[classes.aggregate().expect("items").scalar()], &[2.0 / 3.0], 1e-6);
    let mut labels = Accuracy { is_multilabel: true, ..Default::default() };
    let pred = batch(&[1.0, 0.0, 1.0, 1.0], [2, 2, 1, 1, 1]);
    labels.update(&pred, &batch(&[1.0, 1.0, 1.0, 1.0], [2, 2, 1, 1, 1])).expect("fits");
    assert_close(&[labels.aggregate().expect("items").scalar()], &[0.5], 0.0);
}

#[test]
fn wrong_options_and_inputs_are_named() {
    let mask = batch(&[1.0; 8], [1, 2, 2, 2, 1]);
    let fails = |metric: &mut dyn Metric, word: &str| {
        let error = metric.update_spaced(&mask, &mask, &[[1.0; 3]; 2]).expect_err(word);
        assert!(error.to_string().contains(word), "{error}");
    };
    fails(&mut HausdorffDistanceMetric { percentile: Some(101.0), ..Default::default() }, "percentile");
    fails(&mut HausdorffDistanceMetric::default(), "2 spacings for 1 items");
    fails(&mut SurfaceDiceMetric::new(&[1.0, 2.0]), "2 `class_thresholds` for 1 classes");
    fails(&mut RocAucMetric::default(), "[items, classes, 1, 1, 1]");
    let one = batch(&[1.0; 4], [1, 1, 2, 2, 1]);
    for metric in [&mut ConfusionMatrixMetric::default() as &mut dyn Metric, &mut HausdorffDistanceMetric::default()] {
        assert!(matches!(metric.update(&mask, &one), Err(MetricError::Shape { .. })));
    }
    let error = toml::from_str::<MetricConfig>("name = \"ConfusionMatrixMetric\"\nmetric_name = \"luck\"");
    assert!(error.is_err());
}

/// The metrics of recipes, and the direction in which each improves.
#[test]
fn directions_and_options_are_known_before_anything_is_measured() {
    let read = |text: &str| toml::from_str::<MetricConfig>(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    for (text, higher) in [
        ("name = \"DiceMetric\"", Some(true)),
        ("name = \"HausdorffDistanceMetric\"", Some(false)),
        ("name = \"SurfaceDistanceMetric\"", Some(false)),
        ("name = \"SurfaceDiceMetric\"\nclass_thresholds = [1.0]", Some(true)),
        ("name = \"RMSEMetric\"", Some(false)),
        ("name = \"PSNRMetric\"\nmax_val = 1.0", Some(true)),
        ("name = \"ConfusionMatrixMetric\"\nmetric_name = \"fpr\"", Some(false)),
        ("name = \"ConfusionMatrixMetric\"\nmetric_name = [\"recall\", \"precision\"]", Some(true)),
        ("name = \"ConfusionMatrixMetric\"\nmetric_name = [\"recall\", \"fpr\"]", None),
    ] {
        assert_eq!(read(text).higher_is_better(), higher, "{text}");
        assert!(read(text).check_for(2).is_ok(), "{text}");
    }
    for (text, word) in [
        ("name = \"HausdorffDistanceMetric\"\npercentile = 101", "percentile"),
        ("name = \"SurfaceDiceMetric\"\nclass_thresholds = [1.0, 1.0]", "class_thresholds"),
        ("name = \"FBetaScore\"\nbeta = 0", "beta"),
        ("name = \"SSIMMetric\"\nspatial_dims = 4", "spatial_dims"),
        ("name = \"ConfusionMatrixMetric\"\nmetric_name = []", "metric_name"),
        ("name = \"MultiScaleSSIMMetric\"\nspatial_dims = 3\nweights = []", "weights"),
    ] {
        // Options that are invalid for any number of classes are reported when they are read.
        let read = toml::from_str::<MetricConfig>(text).map_err(|error| error.to_string());
        let error = read.and_then(|metric| metric.check_for(2).map_err(|error| error.to_string())).expect_err(text);
        assert!(error.contains(word), "{error}");
    }
    let components = read("name = \"DiceMetric\"\nper_component = true");
    assert!(components.check_for(2).is_ok() && components.check_for(3).is_err());
}

/// Rows that hold counts are converted to values.
#[test]
fn a_row_gives_the_values_of_its_item() {
    let (pred, label) = (
        batch(&[1.0, 1.0, 0.0, 0.0, 0.0, 1.0], [1, 2, 3, 1, 1]),
        batch(&[1.0, 0.0, 0.0, 1.0, 0.0, 1.0], [1, 2, 3, 1, 1]),
    );
    let values = |metric: &mut dyn Metric| {
        let row = metric.update(&pred, &label).expect("fits")[0].clone();
        metric.values_of(&row)
    };
    let mut precision: ConfusionMatrixMetric = toml::from_str("metric_name = \"precision\"").expect("a rate");
    assert_close(&values(&mut precision), &[0.5, 1.0], 0.0);
    assert_close(&values(&mut Accuracy::default()), &[4.0 / 6.0], 1e-6);
    assert_close(&values(&mut DiceMetric::default()), &[2.0 / 3.0, 2.0 / 3.0], 1e-6);
    let mut both: ConfusionMatrixMetric = toml::from_str("metric_name = [\"precision\", \"recall\"]").expect("rates");
    assert!(values(&mut both).is_empty(), "which of the two?");
}
