//! Compares STAPLE with SimpleITK's filter (`recorded/staple.py`).

use hearth_train::{CombineError, staple};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).expect("numbers")
}

#[test]
fn staple_is_itks() {
    let recorded: Value = serde_json::from_str(include_str!("../recorded/staple.json")).expect("JSON");
    let cases = recorded["cases"].as_array().expect("cases");
    assert!(cases.len() >= 6);
    for (number, case) in cases.iter().enumerate() {
        let marked = |rater: &Value| numbers(rater).into_iter().map(|value| value > 0.5).collect::<Vec<bool>>();
        let raters: Vec<Vec<bool>> = case["raters"].as_array().expect("raters").iter().map(marked).collect();
        let found = staple(&raters.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("sound raters");
        for (made, key) in [
            (&found.probability, "probability"),
            (&found.sensitivity, "sensitivity"),
            (&found.specificity, "specificity"),
        ] {
            let expected = numbers(&case[key]);
            assert_eq!(made.len(), expected.len());
            for (made, expected) in made.iter().zip(expected) {
                assert!((made - expected).abs() < 1e-6, "case {number}, {key}: {made} instead of {expected}");
            }
        }
    }
}

/// Raters with known rates are recovered, as far as this many voxels allow.
#[test]
fn the_rates_of_raters_are_recovered() {
    // A truth of 4096 of 16384 voxels, and raters whose errors are spread by coprime steps.
    let truth: Vec<bool> = (0..16_384).map(|i| i % 128 < 32).collect();
    let with = |step: usize, offset: usize| -> Vec<bool> {
        truth.iter().enumerate().map(|(i, t)| if (i + offset).is_multiple_of(step) { !t } else { *t }).collect()
    };
    let raters = [with(11, 0), with(7, 3), with(5, 1), with(13, 5)];
    let found = staple(&raters.each_ref().map(Vec::as_slice)).expect("sound raters");
    for (rater, step) in [11.0, 7.0, 5.0, 13.0].into_iter().enumerate() {
        let rate = 1.0 - 1.0 / step;
        let (p, q) = (found.sensitivity[rater], found.specificity[rater]);
        assert!((p - rate).abs() < 0.03 && (q - rate).abs() < 0.03, "rater {rater}: {p} and {q} instead of {rate}");
    }
    let wrong = truth.iter().zip(&found.probability).filter(|(t, p)| **t != (**p > 0.5)).count();
    assert!(wrong < 500, "{wrong} voxels are wrong");
}

#[test]
fn where_nothing_is_marked_nothing_is_estimated() {
    let (none, all) = ([false; 4], [true; 4]);
    let found = staple(&[&none, &none]).expect("sound raters");
    assert_eq!(found.probability, [0.0; 4]);
    assert!(found.sensitivity.iter().all(|p| p.is_nan()) && found.specificity == [1.0, 1.0]);
    assert_eq!(staple(&[&all, &all]).expect("sound raters").probability, [1.0; 4]);
    let found = staple(&[&all, &none]).expect("sound raters");
    assert!(found.probability.iter().all(|p| p.is_finite()));
    assert_eq!(staple(&[]), Err(CombineError::Empty));
    assert!(matches!(staple(&[&none, &none[..2]]), Err(CombineError::Shape { index: 1, .. })));
}
