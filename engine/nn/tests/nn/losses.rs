//! The values of the recipes' table (recorded from MONAI), and what wrong inputs give.

use burn::tensor::Tensor;
use hearth_nn::losses::{
    BceWithLogitsLoss, ClassWeight, DiceCELoss, DiceLoss, Loss, LossConfig, LossError, Reduction, one_hot,
};

use crate::{assert_close, batch, values};

fn x() -> Tensor<5> {
    let values = [
        1.0, -1.0, 0.5, 2.0, 0.0, 1.0, -0.5, -2.0, // item 0
        0.2, 0.4, -1.0, 0.0, -0.2, 0.1, 1.0, 0.0, // item 1
    ];
    batch(&values, [2, 2, 2, 2, 1])
}

fn y() -> Tensor<5> {
    batch(&[0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0], [2, 1, 2, 2, 1])
}

fn softmax() -> DiceLoss {
    DiceLoss { softmax: true, to_onehot_y: true, ..DiceLoss::default() }
}

#[track_caller]
fn gives(loss: &impl Loss, x: Tensor<5>, y: Tensor<5>, expected: &[f32]) {
    let got = loss.forward(x, y).expect("these shapes fit");
    assert_close(&values(got), expected, 2e-6);
}

#[test]
fn dice_gives_monais_values() {
    gives(&softmax(), x(), y(), &[0.326272]);
    gives(&DiceLoss { include_background: false, ..softmax() }, x(), y(), &[0.337286]);
    gives(&DiceLoss { squared_pred: true, ..softmax() }, x(), y(), &[0.187906]);
    let fast = DiceLoss { include_background: false, squared_pred: true, batch: true, ..softmax() };
    gives(&fast, x(), y(), &[0.195217]);
    gives(&DiceLoss { jaccard: true, ..softmax() }, x(), y(), &[0.489970]);
    gives(&DiceLoss { reduction: Reduction::Sum, ..softmax() }, x(), y(), &[1.305088]);
    gives(&DiceLoss { weight: Some(ClassWeight::Each(vec![1.0, 3.0])), ..softmax() }, x(), y(), &[0.663558]);
    let none = DiceLoss { reduction: Reduction::None, ..softmax() };
    gives(&none, x(), y(), &[0.249201, 0.330898, 0.381314, 0.343675]);
    let brats = DiceLoss { sigmoid: true, squared_pred: true, smooth_nr: 0.0, ..DiceLoss::default() };
    gives(&brats, x(), one_hot(y(), 2), &[0.216607]);
}

#[test]
fn dice_and_cross_entropy_give_monais_value() {
    let spleen = DiceCELoss {
        softmax: true,
        to_onehot_y: true,
        include_background: false,
        squared_pred: true,
        batch: true,
        lambda_dice: 0.5,
        lambda_ce: 0.5,
        ..DiceCELoss::default()
    };
    gives(&spleen, x(), y(), &[0.326299]);
}

/// Dice on raw logits of one channel, as a published recipe has it: the softmax is passed over.
#[test]
fn one_channel_passes_over_softmax_and_one_hot() {
    let x = x().narrow(1, 1, 1);
    gives(&softmax(), x.clone(), y(), &[-0.344818]);
    gives(
        &BceWithLogitsLoss { pos_weight: Some(ClassWeight::All(5.0)), ..Default::default() },
        x.clone(),
        y(),
        &[1.703919],
    );
    let both = DiceCELoss {
        softmax: true,
        to_onehot_y: true,
        weight: Some(vec![5.0]),
        lambda_dice: 1.5,
        ..DiceCELoss::default()
    };
    gives(&both, x, y(), &[1.186692]);
}

#[test]
fn logits_of_any_size_give_finite_losses() {
    let x = x() * 1e4;
    for loss in [&softmax() as &dyn Loss, &DiceCELoss { softmax: true, to_onehot_y: true, ..DiceCELoss::default() }] {
        assert!(values(loss.forward(x.clone(), y()).expect("these shapes fit"))[0].is_finite());
    }
    let bce = BceWithLogitsLoss::default().forward(x, one_hot(y(), 2)).expect("these shapes fit");
    assert!(values(bce)[0].is_finite());
}

#[test]
fn ignored_voxels_do_not_count() {
    // The second half of each item carries the sentinel; the first half alone gives the same.
    let (b, n) = (2, 4);
    let full =
        batch(&[0.3, -1.0, 0.2, 0.8, 0.5, 0.1, -0.7, 2.0, 0.9, -0.2, 0.4, 1.1, 0.0, 0.6, -0.3, 0.7], [b, 2, n, 1, 1]);
    let target = batch(&[1.0, 0.0, 255.0, 255.0, 0.0, 1.0, 255.0, 255.0], [b, 1, n, 1, 1]);
    let half = |t: &Tensor<5>| t.clone().narrow(2, 0, 2);
    let ignoring = DiceLoss { ignore_index: Some(255), ..softmax() };
    let expected = values(softmax().forward(half(&full), half(&target)).expect("these shapes fit"));
    gives(&ignoring, full, target, &expected);
}

#[test]
fn misfits_are_named() {
    let flat = batch(&[0.0; 4], [1, 1, 2, 2, 1]);
    let error = softmax().forward(x(), flat).expect_err("one item for two");
    assert!(error.to_string().contains("[1, 2, 2, 2, 1]") || error.to_string().contains("[1, 1, 2, 2, 1]"), "{error}");
    let error = DiceLoss::default().forward(x(), y()).expect_err("no one-hot");
    assert!(error.to_string().contains("to_onehot_y"), "{error}");
    let error = DiceCELoss::default().forward(x(), batch(&[0.0; 24], [2, 3, 2, 2, 1])).expect_err("three channels");
    assert!(matches!(error, LossError::Shape { .. }), "{error}");
}

#[test]
fn labels_are_checked_where_asked() {
    let wrong = batch(&[0.0, 1.0, 7.0, 0.0, 0.0, 0.0, 1.0, 1.0], [2, 1, 2, 2, 1]);
    let unchecked = DiceLoss { check_labels: Some(false), ..softmax() };
    assert!(unchecked.forward(x(), wrong.clone()).is_ok());
    assert!(softmax().forward(x(), wrong.clone()).is_err(), "on the CPU it costs little");
    let error = DiceLoss { check_labels: Some(true), ..softmax() }.forward(x(), wrong.clone()).expect_err("label 7");
    assert_eq!(error, LossError::Label { label: 7.0, classes: 2 });
    assert!(DiceLoss { check_labels: Some(true), ignore_index: Some(7), ..softmax() }.forward(x(), wrong).is_ok());
    let half = batch(&[0.5; 8], [2, 1, 2, 2, 1]);
    assert!(DiceLoss { check_labels: Some(true), ..softmax() }.forward(x(), half).is_err());
}

#[test]
fn options_that_exclude_each_other_are_errors() {
    let parse = |text: &str| toml::from_str::<LossConfig>(text);
    assert!(parse("name = \"DiceLoss\"\nsoftmax = true\nsigmoid = true").expect("known").build().is_err());
    assert!(parse("name = \"DiceLoss\"\nweight = [1.0, -1.0]").expect("known").build().is_err());
    assert!(parse("name = \"DiceCELoss\"\nreduction = \"none\"").expect("known").build().is_err());
    assert!(parse("name = \"DiceCELoss\"\nlambda_ce = -1.0").expect("known").build().is_err());
    let error = parse("name = \"DiceLoss\"\nsoft_max = true").expect_err("no such option");
    assert!(error.to_string().contains("soft_max"), "{error}");
    let weighted = DiceLoss { weight: Some(ClassWeight::Each(vec![1.0; 3])), ..softmax() };
    let error = weighted.forward(x(), y()).expect_err("three weights for two classes");
    assert!(error.to_string().contains("3 numbers for 2 classes"), "{error}");
    let loss = parse("name = \"DiceCELoss\"\nsoftmax = true\nto_onehot_y = true\nlambda_dice = 0.5");
    assert_eq!(loss.expect("known").build().expect("consistent").name(), "DiceCELoss");
}
