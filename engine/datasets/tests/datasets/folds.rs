//! Folds and test images compared with recorded values of scikit-learn, MONAI and numpy
//! (`recorded/folds.py`).

use hearth_datasets::numpy::RandomState;
use hearth_datasets::{
    PartitionOptions, group_k_fold, k_fold, partition_dataset, stratified_group_k_fold, stratified_k_fold,
};
use hearth_phantom::{SpheresOptions, spheres_case};
use serde_json::Value;

fn recorded() -> Value {
    serde_json::from_str(include_str!("../recorded/folds.json")).expect("JSON")
}

fn folds(value: &Value) -> Vec<Vec<usize>> {
    serde_json::from_value(value.clone()).expect("lists of indices")
}

fn words(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).expect("a list of words")
}

#[test]
fn folds_are_those_of_scikit_learn_and_monai() {
    let recorded = recorded();
    let cases = recorded["cases"].as_array().expect("cases");
    assert!(cases.len() >= 15);
    for case in cases {
        let number = case["folds"].as_u64().expect("a number") as usize;
        let seed = case["seed"].as_u64().map(|seed| seed as u32);
        let (classes, groups) = (words(&case["classes"]), words(&case["groups"]));
        let what = |name: &str| format!("{name}, {} cases, {number} folds, seed {seed:?}", classes.len());
        let made = k_fold(classes.len(), number, seed).expect("folds");
        assert_eq!(made, folds(&case["KFold"]), "{}", what("KFold"));
        let made = stratified_k_fold(&classes, number, seed).expect("folds");
        assert_eq!(made, folds(&case["StratifiedKFold"]), "{}", what("StratifiedKFold"));
        let made = group_k_fold(&groups, number, seed).expect("folds");
        assert_eq!(made, folds(&case["GroupKFold"]), "{}", what("GroupKFold"));
        let made = stratified_group_k_fold(&classes, &groups, number, seed).expect("folds");
        assert_eq!(made, folds(&case["StratifiedGroupKFold"]), "{}", what("StratifiedGroupKFold"));
        let options =
            PartitionOptions { shuffle: seed.is_some(), seed: seed.unwrap_or(0), ..PartitionOptions::default() };
        let made = partition_dataset(classes.len(), number, options).expect("folds");
        assert_eq!(made, folds(&case["partition_dataset"]), "{}", what("partition_dataset"));
    }
}

/// MONAI's cross-validation notebook: 50 cases, 5 folds, seed 12345.
#[test]
fn the_notebooks_folds() {
    let options = PartitionOptions { shuffle: true, seed: 12345, ..PartitionOptions::default() };
    let made = partition_dataset(50, 5, options).expect("folds");
    assert_eq!(made[0][..5], [8, 33, 2, 39, 15]);
    assert_eq!(made, folds(&recorded()["notebook"]));
}

#[test]
fn too_many_folds_are_refused_in_words() {
    let text = |made: Result<Vec<Vec<usize>>, hearth_datasets::DataError>| made.expect_err("refused").to_string();
    assert!(text(k_fold(3, 4, None)).contains("3 cases cannot be dealt to 4 folds"));
    assert!(text(k_fold(3, 1, None)).contains("give 2 or more"));
    assert!(text(group_k_fold(&["a", "a", "b", "b"], 3, None)).contains("2 groups cannot be dealt to 3 folds"));
    assert!(text(stratified_k_fold(&[0, 0, 1, 1], 3, None)).contains("no class has a case for each of 3 folds"));
    assert!(text(stratified_group_k_fold(&[0, 0], &[1], 2, None)).contains("2 classes for 1 groups"));
}

#[test]
fn spheres_are_monais() {
    for case in recorded()["spheres"].as_array().expect("cases") {
        let number = |key: &str| case[key].as_f64().expect("a number");
        let options = SpheresOptions::default()
            .size(number("size") as usize)
            .rad_max(number("rad_max") as usize)
            .rad_min(number("rad_min") as usize)
            .noise_max(number("noise_max"))
            .classes(number("num_seg_classes") as usize);
        let mut random = RandomState::new(0);
        spheres_case(&mut random, &options);
        let (image, label) = spheres_case(&mut random, &options);
        let step = options.size.pow(3) / 97;
        for (made, key, sum) in [(&image, "some", "image_sum"), (&label, "labels", "label_sum")] {
            let made = made.to_vec();
            let every: Vec<f32> = made.iter().step_by(step).copied().collect();
            let expected: Vec<f32> = serde_json::from_value(case[key].clone()).expect("numbers");
            assert_eq!(every, expected, "{key} of {options:?}");
            let total: f64 = made.iter().map(|value| f64::from(*value)).sum();
            assert!((total - number(sum)).abs() < 1e-3, "{total} instead of {}", number(sum));
        }
    }
}
