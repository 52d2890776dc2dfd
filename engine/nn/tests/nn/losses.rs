//! The values of the recipes' table (recorded from MONAI), and the errors for wrong inputs.

use burn::tensor::{Tensor, activation};
use hearth_nn::losses::{
    BceWithLogitsLoss, ClassWeight, DiceCELoss, DiceFocalLoss, DiceLoss, FocalLoss, GeneralizedDiceLoss,
    GeneralizedWassersteinDiceLoss, Loss, LossConfig, LossError, MaskedDiceLoss, Reduction, SizeWeight, TverskyLoss,
    WassersteinWeighting, one_hot,
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
fn relatives_of_dice_give_monais_values() {
    let both = || one_hot(y(), 2);
    let square = GeneralizedDiceLoss { softmax: true, to_onehot_y: true, ..Default::default() };
    gives(&square, x(), y(), &[0.322906]);
    gives(&GeneralizedDiceLoss { w_type: SizeWeight::Simple, batch: true, ..square }, x(), y(), &[0.322907]);
    let tversky = TverskyLoss { softmax: true, to_onehot_y: true, alpha: 0.3, beta: 0.7, ..Default::default() };
    gives(&tversky, x(), y(), &[0.326825]);
    let brats = DiceFocalLoss { sigmoid: true, squared_pred: true, batch: true, ..Default::default() };
    gives(&brats, x(), both(), &[0.334227]);
    gives(&FocalLoss::default(), x(), both(), &[0.120112]);
    gives(&FocalLoss { reduction: Reduction::Sum, ..Default::default() }, x(), both(), &[0.480446]);
    gives(&FocalLoss { alpha: Some(ClassWeight::All(0.25)), ..Default::default() }, x(), both(), &[0.064324]);
    gives(&FocalLoss { use_softmax: true, ..Default::default() }, x(), both(), &[0.067778]);
    let foreground = FocalLoss { to_onehot_y: true, include_background: false, ..Default::default() };
    gives(&foreground, x(), y(), &[0.137184]);
}

/// With equal distances between all classes it equals Dice over the classes without the background.
#[test]
fn wasserstein_dice_of_equal_distances_is_dice() {
    let loss = GeneralizedWassersteinDiceLoss {
        smooth_nr: 0.0,
        smooth_dr: 0.0,
        weighting_mode: WassersteinWeighting::Default,
        ..GeneralizedWassersteinDiceLoss::new(vec![vec![0.0, 2.0], vec![2.0, 0.0]])
    };
    let foreground = values(activation::softmax(x(), 1).narrow(1, 1, 1));
    let labels = values(y());
    let expected: f32 = (0..2)
        .map(|item| {
            let voxels = item * 4..item * 4 + 4;
            let tp: f32 = voxels.clone().map(|i| foreground[i] * labels[i]).sum();
            let wrong: f32 = voxels.map(|i| (foreground[i] - labels[i]).abs()).sum();
            1.0 - 2.0 * tp / (2.0 * tp + wrong)
        })
        .sum();
    gives(&loss, x(), y(), &[expected / 2.0]);
    let error = GeneralizedWassersteinDiceLoss::new(vec![vec![0.0, 1.0]]).forward(x(), y()).expect_err("one row");
    assert!(error.to_string().contains("square"), "{error}");
}

#[test]
fn a_mask_leaves_out_what_it_hides() {
    let loss = MaskedDiceLoss(DiceLoss { sigmoid: true, ..DiceLoss::default() });
    let mask = batch(&[1.0, 1.0, 0.0, 0.0], [1, 1, 2, 2, 1]);
    let target = one_hot(y(), 2);
    let other = x().slice_fill([0..2, 0..2, 1..2, 0..2, 0..1], 9.0);
    let hidden = loss.forward_masked(x(), target.clone(), mask.clone()).expect("fits");
    assert_close(
        &values(loss.forward_masked(other, target.clone(), mask.clone()).expect("fits")),
        &values(hidden),
        1e-6,
    );
    let wide = batch(&[1.0; 8], [1, 2, 2, 2, 1]);
    let error = loss.forward_masked(x(), target, wide).expect_err("two channels");
    assert!(matches!(error, LossError::Mask { mask: [1, 2, 2, 2, 1], .. }), "{error}");
}

#[test]
fn values_that_are_not_finite_are_named() {
    let broken = x().slice_fill([1..2, 0..1, 1..2, 0..1, 0..1], f32::NAN);
    let error = softmax().forward(broken.clone(), y()).expect_err("one NaN");
    assert_eq!(
        error.to_string(),
        "DiceLoss: 1 of 16 values of the prediction are not finite, the first is NaN at [1, 0, 1, 0, 0] [batch, channel, x, y, z]"
    );
    assert!(DiceLoss { check_labels: Some(false), ..softmax() }.forward(broken.clone(), y()).is_ok());
    let every = r#"
        AsymmetricUnifiedFocalLoss = {}
        BCEWithLogitsLoss = {}
        DiceCELoss = {}
        DiceFocalLoss = {}
        FocalLoss = {}
        GeneralizedDiceFocalLoss = {}
        GeneralizedDiceLoss = {}
        HausdorffDTLoss = {}
        MSELoss = {}
        MaskedDiceLoss = {}
        SoftclDiceLoss = {}
        SoftDiceclDiceLoss = {}
        SSIMLoss = { spatial_dims = 2, win_size = 2 }
        TverskyLoss = {}
    "#;
    let every: toml::Table = every.parse().expect("a table");
    for (name, options) in every {
        let mut options = options.as_table().expect("options").clone();
        options.insert("name".to_owned(), name.clone().into());
        let loss = toml::Value::Table(options).try_into::<LossConfig>().expect("known").build().expect("consistent");
        let broken_target = one_hot(y(), 2).slice_fill([0..1, 1..2, 0..1, 0..1, 0..1], f32::INFINITY);
        for (input, target, what) in [(broken.clone(), one_hot(y(), 2), "prediction"), (x(), broken_target, "target")] {
            let error = loss.forward(input, target).expect_err(&name);
            assert!(matches!(&error, LossError::NonFinite { what: found, .. } if *found == what), "{name}: {error}");
        }
        let larger = batch(&[0.0; 24], [2, 3, 2, 2, 1]);
        assert!(matches!(loss.forward(x(), larger), Err(LossError::Shape { .. })), "{name}");
    }
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

/// Dice on raw logits of one channel, as in a published recipe: the softmax is ignored.
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

/// Recorded from nnunetv2 2.8.1: `DC_and_CE_loss` with `ignore_label=3`, `DC_and_BCE_loss` with
/// `use_ignore_label`; 1 is added, because the Dice part is negative there.
#[test]
fn what_is_not_annotated_counts_as_in_nnunet() {
    let logits: Vec<f32> = (0..72).map(|i| ((i * 37) % 29) as f32 / 8.0 - 1.75).collect();
    let logits = batch(&logits, [2, 3, 3, 2, 2]);
    let labels: Vec<f32> = (0..24).map(|i| ((i * 7) % 4) as f32).collect();
    let labels = batch(&labels, [2, 1, 3, 2, 2]);
    let classes = |batch| DiceCELoss {
        include_background: false,
        to_onehot_y: true,
        softmax: true,
        batch,
        ignore_index: Some(3),
        ..DiceCELoss::default()
    };
    gives(&classes(true), logits.clone(), labels.clone(), &[3.312_523]);
    gives(&classes(false), logits.clone(), labels.clone(), &[3.312_577_5]);
    // Without annotated voxels the loss is 0, and the gradient is finite.
    gives(&classes(true), logits.clone(), labels.full_like(3.0), &[0.0]);

    let is = |label: f32| labels.clone().equal_elem(label).float();
    let regions = Tensor::cat(vec![is(1.0) + is(2.0), is(2.0), is(3.0)], 1);
    let regional =
        |batch| DiceFocalLoss { sigmoid: true, gamma: 0.0, batch, ignore_index: Some(2), ..DiceFocalLoss::default() };
    let two = logits.clone().narrow(1, 0, 2);
    gives(&regional(true), two.clone(), regions.clone(), &[1.401_194_4]);
    gives(&regional(false), two, regions, &[1.401_314]);

    let error = DiceCELoss { to_onehot_y: false, ..classes(true) }.forward(logits, labels).expect_err("no one-hot");
    assert!(matches!(error, LossError::Option { key: "ignore_index", .. }), "{error}");
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
    for (text, word) in [
        ("name = \"DiceLoss\"\nsoftmax = true\nsigmoid = true", "sigmoid"),
        ("name = \"DiceLoss\"\nweight = [1.0, -1.0]", "weight"),
        ("name = \"DiceCELoss\"\nreduction = \"none\"", "reduction"),
        ("name = \"DiceCELoss\"\nlambda_ce = -1.0", "lambda_ce"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(word), "{error}");
    }
    let error = parse("name = \"DiceLoss\"\nsoft_max = true").expect_err("no such option");
    assert!(error.to_string().contains("soft_max"), "{error}");
    let weighted = DiceLoss { weight: Some(ClassWeight::Each(vec![1.0; 3])), ..softmax() };
    let error = weighted.forward(x(), y()).expect_err("three weights for two classes");
    assert!(error.to_string().contains("3 numbers for 2 classes"), "{error}");
    let loss = parse("name = \"DiceCELoss\"\nsoftmax = true\nto_onehot_y = true\nlambda_dice = 0.5");
    assert_eq!(loss.expect("known").build().expect("consistent").name(), "DiceCELoss");
}
