//! Folders of `nnUNet_preprocessed`: `tests/golden/nnunet/preprocessed`, which `tests/golden/record_preprocessed.py`
//! recorded with nnU-Net's own preprocessor.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_data::{DrawKey, Sample};
use hearth_models::nnunet::{preprocessed_recipe, training_recipe};
use hearth_models::run::Trained;
use hearth_models::run::segment::Wanted;
use hearth_nnunet::{DatasetJson, parse_json};
use hearth_recipe::recipe::Document;
use hearth_run::folders::open_run;
use hearth_run::{Cases, Plan, Session};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/nnunet/preprocessed")
}

fn json_of(path: &Path) -> Value {
    parse_json(&fs::read_to_string(path).expect("JSON")).expect("JSON")
}

/// The recipe for the arrays, or that for the raw data set.
fn recipe(preprocessed: bool, data: &Path, more: &[&str]) -> Result<Plan, String> {
    let dataset = DatasetJson::read(&data.join("dataset.json")).expect("a data set");
    let plans = json_of(&root().join("preprocessed/Dataset011_Blobs/nnUNetPlans.json"));
    let write = if preprocessed { preprocessed_recipe } else { training_recipe };
    let text = write(&plans, &dataset, "3d_fullres").expect("a recipe");
    let mut document = Document::parse("plan.toml", text).unwrap_or_else(|fault| panic!("{fault}"));
    for assignment in ["training.device=cpu", "data.workers=0"].iter().chain(more) {
        document.set(assignment).unwrap_or_else(|fault| panic!("{assignment}: {fault}"));
    }
    Plan::new(document).map_err(|error| error.to_string())
}

/// The arrays have the same content that the recipe makes from the raw data set.
#[test]
fn arrays_of_nnunet_are_what_a_recipe_prepares() {
    let (made, raw) = (root().join("preprocessed/Dataset011_Blobs"), root().join("raw/Dataset011_Blobs"));
    let prepared = |preprocessed: bool, data: &Path| -> Vec<Sample> {
        let plan = recipe(preprocessed, data, &[]).unwrap_or_else(|error| panic!("{error}"));
        let items = Cases::all(data, &plan.recipe).unwrap_or_else(|error| panic!("{error}"));
        let ready = |sample: Sample| plan.training.run_deterministic(sample).unwrap_or_else(|error| panic!("{error}"));
        items.iter().map(|item| ready(item.sample()).remove(0)).collect()
    };
    let (theirs, ours) = (prepared(true, &made), prepared(false, &raw));
    assert_eq!((theirs.len(), ours.len()), (4, 4));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(theirs.case, ours.case);
        for key in ["image", "label"] {
            let [theirs, ours] = [theirs, ours].map(|sample| sample.image(key).expect("an image"));
            assert_eq!((theirs.channels(), theirs.shape()), (ours.channels(), ours.shape()), "{key}");
            let pairs = theirs.to_vec().into_iter().zip(ours.to_vec());
            let wrong = pairs.filter(|(a, b)| (a - b).abs() > 2e-5 + 2e-5 * a.abs()).count();
            assert_eq!(wrong, 0, "{key} of {}", ours.meta.path.as_deref().unwrap_or(Path::new("")).display());
        }
        let labels = theirs.image("label").expect("labels").to_vec();
        assert!(labels.contains(&-1.0) && labels.contains(&2.0), "what the image does not show is marked");
    }
}

/// A data set with Blosc2 arrays, in a separate folder.
fn of_blosc2(folder: &Path) -> PathBuf {
    let (made, data) = (root().join("preprocessed/Dataset011_Blobs"), folder.join("Dataset011_Blobs"));
    let arrays = data.join("nnUNetPlans_3d_fullres");
    fs::create_dir_all(&arrays).expect("a folder");
    fs::copy(made.join("dataset.json"), data.join("dataset.json")).expect("a copy");
    for file in fs::read_dir(made.join("of_blosc2")).expect("arrays").flatten() {
        fs::copy(file.path(), arrays.join(file.file_name())).expect("a copy");
    }
    data
}

/// Blosc2 arrays and archives of the same arrays: the cases, and the patches that a training draws
/// from them, are equal to the last bit.
#[test]
fn arrays_of_blosc2_make_the_batches_of_archives() {
    let (made, folder) = (root().join("preprocessed/Dataset011_Blobs"), tempfile::tempdir().expect("a folder"));
    let drawn = |data: &Path| -> Vec<Sample> {
        let plan = recipe(true, data, &[]).unwrap_or_else(|error| panic!("{error}"));
        let items = Cases::all(data, &plan.recipe).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(items.len(), 4);
        let draw = |key: DrawKey| {
            let of = |sample: Sample| plan.training.run(sample, key).unwrap_or_else(|error| panic!("{error}"));
            items.iter().flat_map(|item| of(item.sample())).collect::<Vec<_>>()
        };
        let prepared = items
            .iter()
            .map(|item| item.sample())
            .flat_map(|sample| plan.training.run_deterministic(sample).unwrap_or_else(|error| panic!("{error}")));
        prepared.chain(draw(DrawKey::new(3, 0, 0))).chain(draw(DrawKey::new(3, 1, 0))).collect()
    };
    let (archives, arrays) = (drawn(&made), drawn(&of_blosc2(folder.path())));
    assert_eq!(archives.len(), arrays.len());
    assert!(archives.len() >= 12, "{}", archives.len());
    for (archive, array) in archives.iter().zip(&arrays) {
        assert_eq!(archive.case, array.case);
        for key in ["image", "label"] {
            let [a, b] = [archive, array].map(|sample| sample.image(key).expect("an image"));
            assert_eq!((a.channels(), a.shape()), (b.channels(), b.shape()), "{key} of {}", array.case);
            let (a, b) = (a.to_vec(), b.to_vec());
            assert!(a.iter().zip(&b).all(|(a, b)| a.to_bits() == b.to_bits()), "{key} of {}", array.case);
        }
    }
}

/// A run that was trained on Blosc2 arrays predicts images.
#[test]
fn a_run_on_arrays_predicts_images() {
    let (out, raw) = (tempfile::tempdir().expect("a folder"), root().join("raw/Dataset011_Blobs"));
    let made = of_blosc2(out.path());
    let plan = recipe(
        true,
        &made,
        &[
            "network.features_per_stage=[4, 8]",
            "training.epochs=1",
            "training.val_interval=1",
            "schedule.total_iters=1",
            "data.sampler.num_samples=4",
            "data.validation={ cases = [\"blob_3\"] }",
        ],
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let mut session = Session::new(plan, &made, &[]).unwrap_or_else(|error| panic!("{error}"));
    session.start(&out.path().join("run")).expect("a run");
    session.run().unwrap_or_else(|error| panic!("{error}"));
    let metrics = session.trainer_mut().engine().state().metrics.clone();
    assert!(metrics.iter().any(|(name, value)| name.contains("dice") && value.is_finite()), "{metrics:?}");
    drop(session);
    let run = open_run(&out.path().join("run")).expect("a run");
    let trained = Trained::open(&run, "best", "cpu", None).unwrap_or_else(|error| panic!("{error}"));
    let inputs =
        hearth_models::cases::CaseFinder::of_recipe(&trained.plan.recipe).find(&raw.join("imagesTr"), None.into());
    let inputs = inputs.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(inputs.len(), 4);
    let found = trained.segment(inputs[0].sample(), Wanted::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.image.shape(), [18, 20, 10]);
}

#[test]
fn what_cannot_be_read_is_named() {
    let copy = tempfile::tempdir().expect("a folder");
    let data = copy.path().join("Dataset011_Blobs");
    let arrays = data.join("nnUNetPlans_3d_fullres");
    fs::create_dir_all(&arrays).expect("a folder");
    let made = root().join("preprocessed/Dataset011_Blobs");
    fs::copy(made.join("dataset.json"), data.join("dataset.json")).expect("a copy");
    let cases = || {
        let plan = recipe(true, &data, &[]).unwrap_or_else(|error| panic!("{error}"));
        Cases::all(&data, &plan.recipe).map(|items| items.len()).map_err(|error| error.line())
    };
    let error = cases().expect_err("none");
    assert!(error.contains("there is no case") && error.contains("CASE.b2nd") && error.contains("CASE.npz"), "{error}");
    // Labels alone are not a case, and an image without them is incomplete.
    let [image, labels] = ["blob_0.b2nd", "blob_0_seg.b2nd"];
    fs::copy(made.join("of_blosc2").join(labels), arrays.join(labels)).expect("a copy");
    assert!(cases().expect_err("labels").contains("there is no case"));
    fs::copy(made.join("of_blosc2").join(image), arrays.join(image)).expect("a copy");
    assert_eq!(cases(), Ok(1));
    let whole = fs::read(arrays.join(image)).expect("an image");
    fs::write(arrays.join(image), &whole[..whole.len() / 2]).expect("written");
    let error = cases().expect_err("half an image");
    assert!(error.contains("blob_0.b2nd") && error.contains("it is incomplete"), "{error}");
    fs::write(arrays.join(image), &whole).expect("written");
    fs::remove_file(arrays.join(labels)).expect("a copy");
    let error = cases().expect_err("no labels");
    assert!(error.contains("blob_0_seg.b2nd"), "{error}");
    fs::copy(made.join("of_blosc2").join(labels), arrays.join(labels)).expect("a copy");
    fs::copy(made.join("nnUNetPlans_3d_fullres/blob_0.npz"), arrays.join("blob_0.npz")).expect("a copy");
    let error = cases().expect_err("both");
    assert!(error.contains(".b2nd files (1) and .npz files (1)"), "{error}");
    for file in [image, labels] {
        fs::remove_file(arrays.join(file)).expect("a copy");
    }
    let bytes = fs::read(made.join("nnUNetPlans_3d_fullres/blob_0.npz")).expect("arrays");
    fs::write(arrays.join("blob_0.npz"), &bytes[..bytes.len() / 2]).expect("written");
    let error = cases().expect_err("half a file");
    assert!(error.contains("blob_0.npz"), "{error}");
    fs::write(arrays.join("blob_0.npz"), &bytes).expect("written");
    assert_eq!(cases(), Ok(1));
    // Channels that the data set does not have.
    let dataset = fs::read_to_string(data.join("dataset.json"))
        .expect("JSON")
        .replace("\"1\": \"T2\"", "\"1\": \"T2\", \"2\": \"T3\"");
    fs::remove_file(data.join("dataset.json")).expect("a copy");
    fs::write(data.join("dataset.json"), dataset).expect("written");
    let error = cases().expect_err("three channels");
    assert!(error.contains("expected 3 channels"), "{error}");
}
