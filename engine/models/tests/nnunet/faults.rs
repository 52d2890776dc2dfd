//! Unusable models and images: each error names the file and the reason.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_models::nnunet::{Folds, NnunetEnsemble, NnunetOptions, NnunetPredictor};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A copy of a recorded case, to be damaged.
struct Copy(TempDir);

impl Copy {
    fn of(case: &str) -> Self {
        let copy = Copy(tempfile::tempdir().expect("a folder"));
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet").join(case);
        copied(&own, copy.0.path());
        copy
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let path = self.path(name);
        let mut value = serde_json::from_str(&fs::read_to_string(&path).expect("JSON")).expect("JSON");
        change(&mut value);
        fs::write(path, value.to_string()).expect("written");
    }

    fn predict(&self, model: &str, options: &NnunetOptions, previous: Option<&Path>) -> Result<(), String> {
        let predictor = NnunetPredictor::open(&self.path(model), options).map_err(|error| error.line())?;
        for case in predictor.cases(&self.path("input")).map_err(|error| error.line())? {
            predictor.predict(&case, previous).map_err(|error| error.line())?;
        }
        Ok(())
    }

    /// Checks that opening fails with all of these words.
    fn refuses(&self, said: &[&str]) {
        let error = self.predict("model", &NnunetOptions::default(), None).expect_err("an error");
        said.iter().for_each(|said| assert!(error.contains(said), "{error}\nlacks {said:?}"));
    }
}

pub(super) fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copied(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("a copy")),
        }
    }
}

const ORGANS: &str = "organs_legacy_nomirror";
const CHECKPOINT: &str = "model/fold_0/checkpoint_final.pth";

#[test]
fn images_that_do_not_fit_the_model() {
    let case = Copy::of("mr_resenc_masked_2ch");
    fs::remove_file(case.path("input/mr_01_0001.nii.gz")).expect("a file");
    case.refuses(&["case mr_01 lacks mr_01_0001.nii.gz", "2 channels"]);

    let case = Copy::of("mr_resenc_masked_2ch");
    let other = Copy::of(ORGANS);
    fs::copy(other.path("input/s01_0000.nii.gz"), case.path("input/mr_01_0001.nii.gz")).expect("a copy");
    case.refuses(&["mr_01_0001.nii.gz", "voxels (z, y, x)", "must agree"]);

    let case = Copy::of(ORGANS);
    fs::copy(case.path("input/s01_0000.nii.gz"), case.path("input/s01_0001.nii.gz")).expect("a copy");
    case.refuses(&["s01_0001.nii.gz", "takes 1 channels"]);

    let case = Copy::of(ORGANS);
    let bytes = fs::read(case.path("input/s01_0000.nii.gz")).expect("an image");
    fs::write(case.path("input/s01_0000.nii.gz"), &bytes[..bytes.len() / 2]).expect("written");
    case.refuses(&["s01_0000.nii.gz"]);

    let case = Copy::of(ORGANS);
    fs::remove_dir_all(case.path("input")).expect("a folder");
    fs::create_dir(case.path("input")).expect("a folder");
    case.refuses(&["there is no image", "NAME_0000.nii.gz"]);
}

#[test]
fn plans_that_cannot_be_followed() {
    let case = Copy::of("ct_aniso_separate_z");
    case.edit("model/plans.json", |plans| {
        plans["configurations"]["3d_fullres"]["architecture"]["network_class_name"] = json!("nets.PrimusM");
    });
    case.refuses(&["plans.json", "configurations.3d_fullres.architecture.network_class_name", "nets.PrimusM"]);

    let case = Copy::of(ORGANS);
    case.edit("model/plans.json", |plans| {
        plans["configurations"]["3d_fullres"]["inherits_from"] = json!("other");
        plans["configurations"]["other"] = json!({"inherits_from": "3d_fullres"});
    });
    case.refuses(&["inherits from itself"]);

    for (key, value, said) in [
        ("patch_size", json!([16, 24]), "spacing"),
        ("spacing", json!([0.0, 1.0, 1.0]), "above 0"),
        ("patch_size", json!([4096, 4096, 4096]), "more voxels than the limit"),
        ("unet_max_num_features", json!(60_000), "more than the limit"),
        ("normalization_schemes", json!(["Other"]), "Other is not supported"),
        ("resampling_fn_data", json!("my_resampling"), "my_resampling is not supported"),
        ("n_conv_per_stage_encoder", json!([2, 2]), "n_conv_per_stage_encoder"),
        ("conv_kernel_sizes", json!([[3, 3, 3], [3, 3], 3]), "conv_kernel_sizes"),
        ("UNet_class_name", Value::Null, "UNet_class_name"),
    ] {
        let case = Copy::of(ORGANS);
        case.edit("model/plans.json", |plans| {
            let own = &mut plans["configurations"]["3d_fullres"];
            if key == "unet_max_num_features" {
                own["UNet_base_num_features"] = json!(60_000);
            }
            own[key] = value;
        });
        case.refuses(&["plans.json", "configurations.3d_fullres", said]);
    }

    let case = Copy::of(ORGANS);
    case.edit("model/dataset.json", |dataset| dataset["channel_names"] = json!({"0": "CT", "1": "PET"}));
    case.refuses(&["dataset.json names 2 channels, and plans.json has 1"]);

    let case = Copy::of(ORGANS);
    case.edit("model/dataset.json", |dataset| dataset["labels"] = json!({"background": 0, "a": 2}));
    case.refuses(&["dataset.json", "there is no label 1"]);

    let case = Copy::of(ORGANS);
    fs::write(case.path("model/plans.json"), "{").expect("written");
    case.refuses(&["plans.json"]);
}

#[test]
fn checkpoints_that_are_damaged_missing_or_of_another_network() {
    let case = Copy::of(ORGANS);
    let bytes = fs::read(case.path(CHECKPOINT)).expect("a checkpoint");
    for share in [0, 1, 2, 3] {
        fs::write(case.path(CHECKPOINT), &bytes[..bytes.len() * share / 4]).expect("written");
        case.refuses(&["checkpoint_final.pth"]);
    }

    let case = Copy::of(ORGANS);
    let other = Copy::of("mr_resenc_masked_2ch");
    fs::copy(other.path(CHECKPOINT), case.path(CHECKPOINT)).expect("a copy");
    case.refuses(&["checkpoint_final.pth", "does not fit PlainConvUNet", "missing: encoder.stages.0.0.convs.0"]);

    let case = Copy::of(ORGANS);
    case.edit("model/dataset.json", |dataset| {
        drop(dataset["labels"].as_object_mut().expect("labels").remove("organ_11"))
    });
    case.refuses(&["decoder.seg_layers", "[13", "[12"]);

    let case = Copy::of(ORGANS);
    let fold = |folds: &[&str]| {
        let folds = Folds::These(folds.iter().map(ToString::to_string).collect());
        case.predict("model", &NnunetOptions { folds, ..NnunetOptions::default() }, None).expect_err("no such fold")
    };
    assert!(fold(&["0", "3"]).contains("there is no fold_3; it has folds 0"), "{}", fold(&["0", "3"]));
    let best = NnunetOptions { checkpoint: "checkpoint_best.pth".to_owned(), ..NnunetOptions::default() };
    let error = case.predict("model", &best, None).expect_err("no such file");
    assert!(error.contains("fold_0 has no checkpoint_best.pth; it has checkpoint_final.pth"), "{error}");
    fs::remove_dir_all(case.path("model/fold_0")).expect("a folder");
    case.refuses(&["there is no fold_0"]);
}

#[test]
fn options_and_stages_that_cannot_be() {
    let case = Copy::of(ORGANS);
    for step_size in [0.0, -1.0, 1.5, f64::NAN] {
        let options = NnunetOptions { step_size, ..NnunetOptions::default() };
        let error = case.predict("model", &options, None).expect_err("no step");
        assert!(error.contains("step size"), "{error}");
    }
    let other = Copy::of("ct_aniso_separate_z");
    let models = [case.path("model"), other.path("model")];
    let error = NnunetEnsemble::open(&models, &NnunetOptions::default()).map(|_| ()).expect_err("other labels").line();
    assert!(error.contains("differ in their labels"), "{error}");

    let cascade = Copy::of("cascade");
    let options = NnunetOptions::default();
    let error = cascade.predict("model_cascade", &options, None).expect_err("no earlier stage");
    assert!(error.contains("3d_lowres") && error.contains("--previous-stage"), "{error}");
    let error = cascade.predict("model_cascade", &options, Some(&cascade.path("input"))).expect_err("no labels");
    assert!(error.contains("c01.nii.gz"), "{error}");
    fs::copy(case.path("expected/s01.nii.gz"), cascade.path("lowres/expected/c01.nii.gz")).expect("a copy");
    let previous = cascade.path("lowres/expected");
    let error = cascade.predict("model_cascade", &options, Some(&previous)).expect_err("another size");
    assert!(error.contains("labels of the previous stage"), "{error}");
}
