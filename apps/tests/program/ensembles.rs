//! Folds and ensembles on the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::common::{errors, fail, plugins_are_built, succeed, text};
use hearth_data::{NiftiOptions, read_nifti, write_nifti};
use serde_json::Value;

/// Trains in seconds; predictions are on the images' own grid.
const SPHERES: &str = r#"# Spheres
task = "spheres"
labels = ["sphere"]
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
    { name = "ScaleIntensity", keys = ["image"] },
    { name = "RandCropByPosNegLabel", keys = ["image", "label"], label_key = "label", spatial_size = [16, 16, 16], num_samples = 2 },
]
[network]
name = "UNet"
spatial_dims = 3
in_channels = 1
out_channels = 1
channels = [4, 8]
strides = [2]
num_res_units = 1
[loss]
name = "DiceLoss"
sigmoid = true
[optimizer]
name = "Adam"
lr = 0.01
[training]
epochs = 2
batch_size = 2
device = "cpu"
[inferer]
name = "SlidingWindowInferer"
roi_size = [16, 16, 16]
overlap = 0.25
[post]
prediction = [{ name = "Activations", sigmoid = true }, { name = "AsDiscrete", threshold = 0.5 }]
[[handlers]]
name = "MetricLog"
engine = "validation"
[[handlers]]
name = "TensorBoardImage"
engine = "validation"
"#;

struct Bench {
    dir: tempfile::TempDir,
    recipe: String,
    data: PathBuf,
}

impl Bench {
    fn new() -> Self {
        assert!(plugins_are_built());
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (recipe, data) = (dir.path().join("spheres.toml"), dir.path().join("data"));
        std::fs::write(&recipe, SPHERES).expect("the recipe is written");
        let words = "data phantom spheres --cases 6 --test 2 --size 24 --noise 0.8 --out";
        succeed(&words.split(' ').map(str::to_owned).chain([text(&data)]).collect::<Vec<_>>());
        Self { dir, recipe: text(&recipe), data }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn train(&self, out: &str, more: &[&str]) -> Vec<String> {
        self.train_on(&self.data, out, more)
    }

    fn train_on(&self, data: &Path, out: &str, more: &[&str]) -> Vec<String> {
        let words = ["train", &self.recipe, "--data", &text(data), "--out", &text(&self.at(out))];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
}

fn folds(path: &Path) -> Vec<Vec<String>> {
    serde_json::from_value(json(path)["folds"].clone()).expect("lists of names")
}

fn weights(run: &Path) -> Vec<u8> {
    let list = std::fs::read_dir(run.join("checkpoints")).expect("checkpoints");
    let mut found: Vec<PathBuf> =
        list.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    found.sort();
    std::fs::read(found.pop().expect("a checkpoint").join("network.safetensors")).expect("weights")
}

fn voxels(path: &Path) -> Vec<f32> {
    read_nifti(path).expect("an image").to_vec()
}

/// One cross-validation is shared by all checks, because training takes most of the time.
#[test]
fn folds_are_trained_resumed_evaluated_and_merged() {
    let bench = Bench::new();
    let out = bench.at("cv");
    let printed = succeed(&bench.train("cv", &["--folds", "3"]));
    assert!(printed.contains("fold 2") && printed.contains("±"), "{printed}");

    // numpy: RandomState(0).shuffle(range(6)) is 5 2 1 3 0 4, dealt in turn.
    let named = |fold: &[usize]| fold.iter().map(|case| format!("spheres_{case:02}")).collect::<Vec<_>>();
    assert_eq!(folds(&out.join("folds.json")), [named(&[5, 3]), named(&[2, 0]), named(&[1, 4])]);
    let record = json(&out.join("fold1/run.json"));
    assert_eq!(record["validation"].as_array().map(Vec::len), Some(2));
    assert_eq!(record["training"].as_array().map(Vec::len), Some(4));

    // The table: each case once, means that can be checked by hand.
    let table = json(&out.join("cross_validation.json"));
    let cases: BTreeMap<&str, f64> = table["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| {
            (case["case"].as_str().expect("a name"), case["metrics"]["mean_dice"]["value"].as_f64().expect("a Dice"))
        })
        .collect();
    assert_eq!(cases.len(), 6);
    let pooled = cases.values().sum::<f64>() / 6.0;
    let found = &table["metrics"]["mean_dice"]["mean"]["pooled"];
    assert!((found["mean"].as_f64().expect("a mean") - pooled).abs() < 1e-9 && found["cases"] == 6);
    let csv = std::fs::read_to_string(out.join("cross_validation_cases.csv")).expect("a list");
    assert_eq!(csv.lines().count(), 1 + 2 * 6);
    assert!(
        std::fs::read_to_string(out.join("cross_validation.csv"))
            .expect("a table")
            .contains("fold0,fold1,fold2,mean,std")
    );

    resumes(&bench, &out);
    merges(&bench, &out);
    measures(&bench, &out);
    reused(&bench, &out);
    differing(&bench, &out);
}

/// A fold that was removed is trained again, to the same weights; the others are unchanged.
fn resumes(bench: &Bench, out: &Path) {
    let (kept, gone) = (weights(&out.join("fold0")), weights(&out.join("fold2")));
    std::fs::remove_dir_all(out.join("fold2")).expect("removed");
    std::fs::remove_file(out.join("fold1/validation.json")).expect("removed");
    std::fs::remove_file(out.join("cross_validation.csv")).expect("removed");
    let resume = ["train", "--data", &text(&bench.data), "--out", &text(out), "--resume"];
    succeed(&resume);
    assert!(weights(&out.join("fold0")) == kept && weights(&out.join("fold2")) == gone);
    assert!(out.join("cross_validation.csv").is_file() && out.join("fold1/validation.json").is_file());
    let more = |words: &[&'static str]| resume.iter().copied().chain(words.iter().copied()).collect::<Vec<&str>>();
    fail(&more(&["--folds", "3"]), 1, &["cannot be given with --resume"]);
    fail(&more(&["--fold", "3"]), 1, &["--fold 3", "from 0 to 2"]);
    fail(&bench.train("cv", &["--folds", "3"]), 1, &["holds the folds", "--resume"]);
    fail(&bench.train("cv", &["--folds", "3", "--fold", "1"]), 1, &["fold1 exists already"]);
    fail(&bench.train("cv", &["--folds", "2", "--fold", "1"]), 1, &["3 folds, not 2"]);
    fail(&bench.train("cv", &["--fold", "1", "--set", "optimizer.lr=0.5"]), 1, &["another recipe"]);
}

/// Compares the output of the command with the merged predictions of each run.
fn merges(bench: &Bench, out: &Path) {
    let images = text(&bench.data.join("test"));
    for fold in 0..3 {
        let run = text(&out.join(format!("fold{fold}")));
        succeed(&["predict", &run, "-i", &images, "-o", &text(&bench.at(&format!("one{fold}"))), "--device", "cpu"]);
    }
    let merged = |name: &str, more: &[&str]| {
        let dir = bench.at(name);
        let words = ["ensemble", &text(out), "-i", &images, "-o", &text(&dir), "--device", "cpu"];
        succeed(&words.iter().chain(more).map(|word| (*word).to_owned()).collect::<Vec<_>>());
        dir
    };
    let file = "spheres_06_seg.nii.gz";
    let each: Vec<Vec<f32>> = (0..3).map(|fold| voxels(&bench.at(&format!("one{fold}")).join(file))).collect();
    assert!(each[0] != each[1] && each[1] != each[2], "the folds learned the same");
    let majority: Vec<f32> =
        (0..each[0].len()).map(|i| f32::from(u8::from(each.iter().map(|one| one[i]).sum::<f32>() > 1.5))).collect();
    assert_eq!(voxels(&merged("vote", &["--vote"]).join(file)), majority);
    let marked: Vec<Vec<bool>> = each.iter().map(|one| one.iter().map(|value| *value > 0.5).collect()).collect();
    let marked: Vec<&[bool]> = marked.iter().map(Vec::as_slice).collect();
    let staple = hearth_train::staple(&marked).expect("sound raters").probability;
    let staple: Vec<f32> = staple.into_iter().map(|p| f32::from(u8::from(p >= 0.5))).collect();
    assert_eq!(voxels(&merged("staple", &["--staple"]).join(file)), staple);
    assert_eq!(voxels(&merged("first", &["--weights", "1,0,0"]).join(file)), each[0]);

    let mean = merged("mean", &["--disagreement", "entropy,variance", "--picture"]);
    let plain = voxels(&mean.join(file));
    assert_eq!(voxels(&merged("even", &["--mean", "--weights", "2,2,2"]).join(file)), plain);
    let dice = voxels(&merged("dice", &["--mean=probabilities", "--weights", "dice"]).join(file));
    assert_eq!(dice.len(), plain.len());
    let entropy = voxels(&mean.join("spheres_06_entropy.nii.gz"));
    assert!(entropy.iter().all(|value| (-1e-6..=0.6932).contains(value)) && entropy.iter().any(|value| *value > 0.01));
    let variance = voxels(&mean.join("spheres_06_variance.nii.gz"));
    assert!(variance.iter().all(|value| (0.0..=0.25).contains(value)) && variance.iter().any(|value| *value > 0.0));
    assert!(mean.join("spheres_06_picture.png").is_file());
    let facts = json(&mean.join(format!("records/{file}.hearth.json")));
    assert_eq!(facts["ensemble"].as_array().map(Vec::len), Some(3));

    let data = text(&bench.data);
    let (run, fold) = (text(out), text(&out.join("fold0")));
    fail(&["evaluate", &run, "--data", &data, "--device", "cpu"], 1, &["was trained on by one of the runs", "--all"]);
    fail(&["evaluate", &fold, "--data", &data, "--vote"], 1, &["merge runs: give several"]);
    let again = text(&out.join(".").join("fold0").join(".").join("../fold0"));
    for fold in [&fold, &again] {
        fail(&["evaluate", &run, fold, "--data", &data], 1, &["fold0 is given twice"]);
    }
    let ensemble = |more: &[&str]| {
        let words = ["ensemble", &run, "-i", &images, "-o", &text(&bench.at("none")), "--device", "cpu"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    fail(&ensemble(&["--weights", "1,2"]), 1, &["3 runs of 1 classes"]);
    fail(&ensemble(&["--weights", "1,-1,0"]), 1, &["must not sum to 0"]);
    let negative = ["--mean=probabilities", "--weights", "1,2,-1"];
    fail(&ensemble(&negative), 1, &["-1", "no probability"]);
    fail(&ensemble(&["--verify-key", "key.pem"]), 1, &["--verify-key", "is no package"]);
    fail(&ensemble(&["--vote", "--weights", "dice"]), 2, &["cannot be used with"]);
    assert!(!bench.at("none").exists());
}

/// `evaluate` measures what `ensemble` writes, for every merging method, and the run's handlers are
/// called.
fn measures(bench: &Bench, out: &Path) {
    let (images, run) = (text(&bench.data.join("test")), text(out));
    let measured = |more: &[&str]| -> f64 {
        let words = ["evaluate", &run, "--data", &images, "--device", "cpu", "--json"];
        let found: Value = serde_json::from_str(&succeed(&[&words[..], more].concat())).expect("JSON");
        found["mean_dice"].as_f64().expect("a Dice")
    };
    let written = |folder: &Path| {
        let dice = |case: &str| {
            let truth = voxels(&bench.data.join(format!("test/labelsTr/{case}.nii.gz")));
            let found = voxels(&folder.join(format!("{case}_seg.nii.gz")));
            let both = truth.iter().zip(&found).filter(|(a, b)| **a > 0.5 && **b > 0.5).count() as f64;
            let marked = |values: &[f32]| values.iter().filter(|value| **value > 0.5).count();
            2.0 * both / (marked(&truth) + marked(&found)) as f64
        };
        (dice("spheres_06") + dice("spheres_07")) / 2.0
    };
    let log = out.join("evaluation/ensemble/metrics.csv");
    for (name, how) in [
        ("mean", &["--mean"][..]),
        ("weighted", &["--weights", "1,0.5,2"]),
        ("probabilities", &["--mean=probabilities"]),
        ("vote", &["--vote"]),
        ("staple", &["--staple"]),
    ] {
        let folder = bench.at(name);
        if !folder.is_dir() {
            let words = ["ensemble", &run, "-i", &images, "-o", &text(&folder), "--device", "cpu"];
            succeed(&[&words[..], how].concat());
        }
        let (expected, found) = (written(&folder), measured(how));
        assert!((found - expected).abs() < 1e-5, "{name}: {found} instead of {expected}");
        // A handler of the recipe received the same values.
        let rows = std::fs::read_to_string(&log).expect("what a handler wrote");
        let logged = rows.lines().nth(1).and_then(|row| row.split(',').nth(3)).map(str::parse::<f64>);
        assert!(logged.is_some_and(|dice| dice.is_ok_and(|dice| (dice - found).abs() < 1e-6)), "{name}: {rows}");
        let original = measured(&[&["--grid", "original"], how].concat());
        assert!((original - expected).abs() < 1e-5, "{name}: {original} instead of {expected}");
    }
    let boards = out.join("evaluation/ensemble/tensorboard");
    assert!(std::fs::read_dir(boards).expect("pictures of a handler").count() > 0);
    assert!(!out.join("fold0/evaluation/ensemble").exists(), "files of the ensemble are not a run's");
}

/// The program without the libraries next to it.
#[test]
fn runs_are_merged_by_the_plugin_and_by_nothing_else() {
    let bench = Bench::new();
    for seed in ["1", "2"] {
        succeed(&bench.train(seed, &["--epochs", "1", "--set", &format!("training.seed={seed}")]));
    }
    let alone = bench.at("alone");
    std::fs::create_dir(&alone).expect("a folder");
    let program = alone.join("hearth");
    std::fs::copy(env!("CARGO_BIN_EXE_hearth"), &program).expect("copied");
    let (one, two) = (text(&bench.at("1")), text(&bench.at("2")));
    let (images, folder) = (text(&bench.data.join("test")), text(&bench.at("labels")));
    let call = |more: &[&str], path: &str| {
        let words = ["ensemble", &one, &two, "-i", &images, "-o", &folder, "--device", "cpu"];
        let mut command = std::process::Command::new(&program);
        command.args(words).args(more).env("HEARTH_PLUGIN_PATH", path).env("XDG_DATA_HOME", &alone);
        command.output().expect("the program starts")
    };
    // A library of that name that cannot be loaded is an error, and not skipped.
    let broken = alone.join("broken");
    std::fs::create_dir(&broken).expect("a folder");
    let file = format!("{}hearth_ensemble{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    std::fs::write(broken.join(&file), "no library").expect("a file");
    let refused = call(&["--vote"], &text(&broken));
    let said = errors(&refused);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("runs are merged by the plugin `ensemble`") && said.contains(&file), "{said}");
    assert!(!bench.at("labels").exists());
    // The program alone is sufficient.
    let output = call(&["--vote"], "");
    assert!(output.status.success(), "{}", errors(&output));
    // A library in any searched folder is used; STAPLE is built into the program.
    let beside = Path::new(env!("CARGO_BIN_EXE_hearth")).parent().expect("a folder");
    let folders = format!("{}:{}", beside.join("deps").display(), beside.display());
    let output = call(&["--vote", "--overwrite"], &folders);
    assert!(output.status.success(), "{}", errors(&output));
    let output = call(&["--staple", "--overwrite"], "");
    assert!(output.status.success(), "{}", errors(&output));
}

/// Folds from a file, and one at a time.
fn reused(bench: &Bench, out: &Path) {
    let file = text(&out.join("folds.json"));
    succeed(&bench.train("again", &["--folds", &file, "--fold", "1"]));
    let again = bench.at("again");
    assert!(again.join("fold1").is_dir() && !again.join("fold0").exists());
    assert!(weights(&again.join("fold1")) == weights(&out.join("fold1")));
    let table = json(&again.join("cross_validation.json"));
    assert_eq!((&table["folds"], &table["measured"]), (&3.into(), &serde_json::json!([1])));
    assert_eq!(folds(&again.join("folds.json")), folds(&out.join("folds.json")));
}

/// Runs that do not fit together are reported.
fn differing(bench: &Bench, out: &Path) {
    let images = text(&bench.data.join("test"));
    let first = text(&out.join("fold0"));
    for (name, change, said) in [
        ("labels", "labels=[\"ball\"]", "differ in their labels: sphere and ball"),
        ("scaled", "transforms.ScaleIntensity.maxv=2.0", "`maxv` of ScaleIntensity"),
        ("window", "inferer.overlap=0.5", "differ in the inferer"),
    ] {
        succeed(&bench.train(name, &["--epochs", "1", "--set", change]));
        let other = text(&bench.at(name));
        fail(
            &["ensemble", &first, &other, "-i", &images, "-o", &text(&bench.at("none")), "--device", "cpu"],
            1,
            &[said, &first, &other],
        );
    }
}

#[test]
fn folds_that_make_no_sense_are_refused_before_training() {
    let bench = Bench::new();
    let refused = |more: &[&str], words: &[&str]| {
        fail(&bench.train("none", more), 1, words);
        assert!(!bench.at("none").exists(), "{more:?} left a folder");
    };
    refused(&["--folds", "7"], &["6 cases", "7"]);
    refused(&["--folds", "1"], &["2 or more"]);
    refused(&["--folds", "3", "--fold", "3"], &["--fold 3", "from 0 to 2"]);
    refused(&["--folds", "nofile.json"], &["nofile.json", "neither a number of folds nor a file"]);
    refused(&["--fold", "0"], &["add --folds N"]);
    refused(&["--group-by", "site"], &["add --folds N"]);
    refused(&["--folds", "2", "--group-by", "site"], &["no column \"site\""]);
    refused(&["--folds", "2", "--group-by", "patient"], &["spheres_00", "patient"]);
    refused(&["--folds", "2", "--set", "data.folds.method=jackknife"], &["monai", "scikit"]);

    let list = bench.at("list.json");
    let with = |folds: &str, words: &[&str]| {
        std::fs::write(&list, folds).expect("written");
        refused(&["--folds", &text(&list)], words);
    };
    with(r#"{"folds": [["spheres_00"], ["spheres_01"]]}"#, &["4 of 6 labelled cases are in no fold", "spheres_02"]);
    with(r#"{"folds": [["spheres_00"], ["spheres_00"]]}"#, &["spheres_00 is in fold 0 and in fold 1"]);
    with(r#"{"folds": [["spheres_00"], ["sphere_01"]]}"#, &["fold 1", "spheres_01"]);
    with(r#"{"folds": [["spheres_00"], []]}"#, &["fold 1 has no case"]);
    with(r#"[{"train": ["spheres_00"], "val": ["spheres_00"]}]"#, &["trains on spheres_00"]);
    with("{", &["cannot read the folds"]);

    // Labels without a sphere, both in one fold.
    for case in ["spheres_03", "spheres_05"] {
        let path = bench.data.join(format!("labelsTr/{case}.nii.gz"));
        let mut label = read_nifti(&path).expect("a label");
        label.data = label.data.zeros_like();
        write_nifti(&path, &label, NiftiOptions::label()).expect("written");
    }
    refused(&["--folds", "3"], &["fold 0 has no positive", "spheres_03", "fewer folds"]);
}

/// A cross-validation that ended before a fold started does not stop the next one.
#[test]
fn a_list_of_folds_that_never_started_is_replaced() {
    let bench = Bench::new();
    let image = bench.data.join("imagesTr/spheres_03.nii.gz");
    let whole = std::fs::read(&image).expect("an image");
    std::fs::write(&image, "no image").expect("written");
    fail(&bench.train("cv", &["--folds", "3", "--epochs", "1"]), 1, &["fold 0", "spheres_03"]);
    assert!(!bench.at("cv").exists());
    // With one of its folds, other commands may be preparing the others.
    fail(&bench.train("cv", &["--folds", "3", "--fold", "0", "--epochs", "1"]), 1, &["spheres_03"]);
    assert_eq!(folds(&bench.at("cv/folds.json")).len(), 3);
    std::fs::write(&image, whole).expect("written");
    succeed(&bench.train("cv", &["--folds", "2", "--fold", "0", "--epochs", "1", "--seed", "4"]));
    let list = folds(&bench.at("cv/folds.json"));
    assert_eq!(list.len(), 2);
    let base = std::fs::read_to_string(bench.at("cv/base.toml")).expect("a recipe");
    assert!(base.contains("seed = 4"), "{base}");

    // Now a fold has started, and the others must fit it.
    let other = bench.at("other.json");
    let moved: Vec<&[String]> = vec![&list[1], &list[0]];
    std::fs::write(&other, serde_json::json!({ "folds": moved }).to_string()).expect("written");
    let more = |folds: &str| {
        let words = ["--folds", folds, "--fold", "1", "--epochs", "1", "--seed", "4"];
        bench.train("cv", &words)
    };
    fail(&more(&text(&other)), 1, &["holds folds of other cases", "folds.json", "--fold K"]);
    fail(&more("3"), 1, &["holds 2 folds, not 3"]);
    succeed(&more(&text(&bench.at("cv/folds.json"))));
    assert!(bench.at("cv/fold1/recipe.toml").is_file());

    // The same command again continues the same folds, and no others.
    let again = |more: &[&str]| bench.train("cv", &[&["--continue", "--epochs", "1"], more].concat());
    succeed(&again(&["--folds", "2"]));
    for folds in ["3", &text(&other)] {
        fail(&again(&["--folds", folds]), 1, &["--folds asks for other folds", "folds.json"]);
    }
    fail(&again(&["--folds", "2", "--group-by", "patient"]), 1, &["--group-by asks for other folds"]);
}

/// A table with patients and sites.
#[test]
fn patients_stay_together_and_sites_are_stratified() {
    let bench = Bench::new();
    let rows: String = [(0, "p1", "a"), (1, "p1", "a"), (2, "p2", "b"), (3, "p3", "b"), (4, "p3", "a"), (5, "p4", "b")]
        .iter()
        .map(|(case, patient, site)| {
            format!("data/imagesTr/spheres_{case:02}.nii.gz,data/labelsTr/spheres_{case:02}.nii.gz,{patient},{site}\n")
        })
        .collect();
    let table = bench.at("table.csv");
    std::fs::write(&table, format!("image,label,patient,site\n{rows}")).expect("written");
    let dealt = |out: &str, more: &[&str]| {
        let words: Vec<&str> = ["--folds", "2", "--epochs", "1", "--fold", "0"].iter().chain(more).copied().collect();
        succeed(&bench.train_on(&table, out, &words));
        folds(&bench.at(out).join("folds.json"))
    };
    let grouped = dealt("grouped", &["--group-by", "patient"]);
    let patient = |case: &String| ["p1", "p1", "p2", "p3", "p3", "p4"][case[8..].parse::<usize>().expect("a number")];
    let of = |fold: &[String]| fold.iter().map(patient).collect::<BTreeSet<_>>();
    assert!(of(&grouped[0]).is_disjoint(&of(&grouped[1])), "{grouped:?}");
    // scikit-learn: GroupKFold(2) on these groups.
    assert_eq!(grouped[0], ["spheres_03", "spheres_04", "spheres_05"].map(str::to_owned));

    let stratified = dealt("stratified", &["--stratify-by", "site"]);
    let a = |fold: &[String]| fold.iter().filter(|case| ["0", "1", "4"].contains(&&case[9..])).count();
    assert!(stratified.iter().all(|fold| (1..=2).contains(&a(fold))), "{stratified:?}");
    let words = ["--folds", "5", "--group-by", "patient"];
    fail(&bench.train_on(&table, "none", &words), 1, &["4 groups cannot be dealt to 5 folds"]);
}
