//! Dice scores of the recipes' table (recorded from MONAI), and counting where it is delicate.

use burn::tensor::{Device, Tensor};
use hearth_nn::metrics::{DiceMetric, Metric, MetricError, MetricReduction};

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

/// More voxels than f32 counts one by one.
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
