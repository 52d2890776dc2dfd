//! Compares the table of tasks and the label cleaning with the recorded results of
//! TotalSegmentator's functions (`tests/golden/record_total_facts.py`).

use hearth_nnunet::Volume;
use hearth_nnunet::total::{
    Modality, ModelFacts, Region, Rough, TASKS, Task, keep_largest, matches, remove_small, separate_vertebrae,
    truncated,
};
use serde_json::{Value, json};

fn recorded(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is no list"))
}

/// Axes x y z of Python are z y x here.
fn zyx<T: serde::de::DeserializeOwned + Copy>(value: &Value) -> [T; 3] {
    let [x, y, z]: [T; 3] = serde_json::from_value(value.clone()).expect("three numbers");
    [z, y, x]
}

fn volume(case: &Value, key: &str) -> Volume<u16> {
    let digit = |letter: char| letter.to_digit(36).expect("a digit") as u16;
    let [z, y, x] = zyx::<usize>(&case["shape"]);
    let data = case[key].as_str().expect("digits").chars().map(digit).collect();
    Volume::new(1, [x, y, z], data).expect("all voxels").transposed([2, 1, 0])
}

#[test]
fn the_table_is_that_of_totalsegmentator() {
    let known = recorded(include_str!("recorded/total_tasks.json"));
    let known = list(&known, "tasks");
    assert_eq!(known.len(), TASKS.len());
    for task in &TASKS {
        let known = known.iter().find(|known| known["name"] == task.name).unwrap_or_else(|| panic!("{}", task.name));
        assert_eq!(known["modality"], task.modality.to_string(), "{}", task.name);
        assert_eq!(known["classes"], json!(task.classes().collect::<Vec<_>>()), "{}", task.name);
        let modes: Vec<Value> = task.models.iter().map(|models| {
            let voxels = models.voxels.map(|[z, y, x]| [x, y, z]);
            json!({"mode": models.mode.name(), "folders": models.folders, "voxels_xyz": voxels, "trainer": models.trainer,
                "configuration": models.configuration, "folds": if models.all_folds { Value::Null } else { json!([0]) }})
        }).collect();
        assert_eq!(known["models"], json!(modes), "{}", task.name);
        assert_eq!(known["crop"], json!(task.crop.map(|crop| crop.classes)), "{}", task.name);
        assert_eq!(parts(known), own_parts(task), "{}", task.name);
        check_rough(task, known);
    }
}

/// The labels of each model of the finest mode, with removed ones last.
fn parts(known: &Value) -> Value {
    let all = || list(known, "classes").iter().chain(list(known, "auxiliary")).cloned().collect();
    known.get("parts").cloned().unwrap_or_else(|| Value::Array(vec![Value::Array(all())]))
}

fn own_parts(task: &Task) -> Value {
    let classes: Vec<&str> = task.classes().collect();
    let part = |part: usize| {
        let labels = task.part(task.models[0].mode, part);
        for (name, label) in &labels {
            let known = classes.iter().position(|class| class == name).map_or(0, |place| place as u16 + 1);
            assert_eq!(*label, known, "{name} of {}", task.name);
        }
        labels.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    json!((0..task.models[0].folders.len()).map(part).collect::<Vec<_>>())
}

/// The rough model is the fast one where TotalSegmentator calls a crop robust.
fn check_rough(task: &Task, known: &Value) {
    let Some(crop) = task.crop else { return };
    let total = crop.rough == Rough::Total;
    let expected = match (known["crop_model"].as_str(), known["robust"] == true || task.modality == Modality::Mr) {
        (Some(_), _) => !total && crop.margin == 10.0,
        (None, robust) => total != (robust || crop.classes == ["body_trunc"]) && crop.margin == 20.0,
    };
    assert!(expected, "{}: {crop:?}", task.name);
}

fn facts(task: &Task, mode: usize, part: usize, dataset: &str) -> ModelFacts {
    let models = &task.models[mode];
    let labels = task.part(models.mode, part);
    ModelFacts {
        datasets: vec![dataset.to_owned()],
        labels: labels.into_iter().map(|(name, _)| name.to_owned()).collect(),
        voxels: models.voxels.or(Some([1.3, 0.9, 0.9])),
        modality: task.modality,
    }
}

fn found(facts: &ModelFacts) -> Vec<(&'static str, &'static str, usize)> {
    matches(facts).iter().map(|one| (one.task.name, one.models.mode.name(), one.part)).collect()
}

#[test]
fn every_model_is_found_by_its_files() {
    for task in &TASKS {
        for (mode, models) in task.models.iter().enumerate() {
            for (part, folder) in models.folders.iter().enumerate() {
                let expected = vec![(task.name, models.mode.name(), part)];
                assert_eq!(found(&facts(task, mode, part, folder)), expected);
                // The label names of a data set may differ.
                let mut other = facts(task, mode, part, folder);
                other.labels = (0..other.labels.len()).map(|label| format!("class_{label}")).collect();
                assert_eq!(found(&other), expected);
                // In a folder with another name, labels, voxels and modality decide, except for the
                // version of `total`.
                let renamed = found(&facts(task, mode, part, "Dataset999_Mine"));
                assert!(renamed.contains(&expected[0]), "{renamed:?}");
                let version = |name: &str| name == "total" || name == "total_v3";
                assert!(renamed.len() == 1 || renamed.iter().all(|(name, ..)| version(name)), "{renamed:?}");
            }
        }
    }
}

#[test]
fn other_models_are_not_those_of_a_task() {
    let vessels = TASKS.iter().find(|task| task.name == "liver_vessels").expect("a task");
    let mut own = facts(vessels, 0, 0, "Dataset008_Hippocampus");
    own.labels = vec!["anterior".to_owned(), "posterior".to_owned()];
    assert_eq!(found(&own), []);
    // Voxels of no mode.
    let total = &TASKS[0];
    let mut coarse = facts(total, 1, 0, "Dataset700_Mine");
    coarse.voxels = Some([2.0; 3]);
    assert_eq!(found(&coarse), []);
    // The number of a data set distinguishes versions, whatever the rest of its name.
    assert_eq!(found(&facts(total, 0, 0, "Dataset831_Small")), [("total_v3", "default", 0)]);
    assert_eq!(found(&facts(total, 0, 0, "Dataset291_Small")), [("total", "default", 0)]);
}

#[test]
fn components_are_removed_as_by_totalsegmentator() {
    let known = recorded(include_str!("recorded/total_cleaning.json"));
    for case in list(&known, "blobs") {
        let (spacing, size) = (zyx::<f64>(&case["spacing"]), case["size"].as_f64().expect("a size"));
        let mut largest = volume(case, "data");
        keep_largest(&mut largest, 1).expect("small");
        assert_eq!(largest, volume(case, "largest_1"), "{spacing:?}");
        for (key, label) in [("small_2", Some(2)), ("small_all", None)] {
            let mut labels = volume(case, "data");
            remove_small(&mut labels, label, size, spacing).expect("small");
            assert_eq!(labels, volume(case, key), "{spacing:?} {key}");
        }
    }
}

#[test]
fn vertebrae_are_separated_as_by_totalsegmentator() {
    let known = recorded(include_str!("recorded/total_cleaning.json"));
    for (place, case) in list(&known, "vertebrae").iter().enumerate() {
        let mut labels = volume(case, "data");
        separate_vertebrae(&mut labels, [1.5; 3]).expect("small");
        assert_eq!(labels, volume(case, "found"), "case {place}");
    }
}

#[test]
fn crops_are_those_of_totalsegmentator() {
    let known = recorded(include_str!("recorded/total_cleaning.json"));
    for case in list(&known, "crops") {
        let (shape, spacing) = (zyx::<usize>(&case["shape"]), zyx::<f64>(&case["spacing"]));
        let mut mask = Volume::<u16>::zeros(1, shape);
        let place = |z: usize, y: usize, x: usize| (z * shape[1] + y) * shape[2] + x;
        (4..7).for_each(|z| (3..5).for_each(|y| (4..6).for_each(|x| mask.data[place(z, y, x)] = 1)));
        let margin = case["margin"].as_f64().expect("a margin");
        let region = Region::around(&mask, |label| label == 1, margin, spacing).expect("a region");
        let all = Volume::new(1, shape, (0..mask.data.len()).map(|index| index as u32).collect()).expect("all");
        let part = region.of(&all);
        let boxed: [[usize; 2]; 3] = serde_json::from_value(case["box"].clone()).expect("a box");
        let [x, y, z] = boxed;
        assert_eq!(part.data.first(), Some(&(place(z[0], y[0], x[0]) as u32)), "{case}");
        assert_eq!(part.data.last(), Some(&(place(z[1] - 1, y[1] - 1, x[1] - 1) as u32)), "{case}");
        let values: Vec<f32> = serde_json::from_value(case["values"].clone()).expect("values");
        let line = Volume::new(1, [1, 1, values.len()], values).expect("a line");
        let kept: Vec<f32> = serde_json::from_value(case["truncated"].clone()).expect("values");
        assert!(truncated(line).data.iter().zip(&kept).all(|(a, b)| a == b), "{case}");
    }
}
