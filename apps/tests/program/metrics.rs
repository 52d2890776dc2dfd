//! `hearth metrics` over files and folders.

use std::path::{Path, PathBuf};

use crate::common::{errors, fail, run, succeed, text};
use hearth_data::{Image, WriteOptions, affine, host_device, write_image};
use serde_json::Value;

/// A label map of 8 x 8 x 8 voxels of 1 x 2 x 3 mm with boxes `(value, from, to)`.
fn boxes(path: &Path, boxes: &[(f32, [usize; 3], [usize; 3])]) {
    let mut values = vec![0.0; 512];
    for (value, from, to) in boxes {
        for x in from[0]..to[0] {
            for y in from[1]..to[1] {
                (from[2]..to[2]).for_each(|z| values[(x * 8 + y) * 8 + z] = *value);
            }
        }
    }
    write(path, values, 2.0);
}

fn write(path: &Path, values: Vec<f32>, y: f64) {
    let mut grid = affine::IDENTITY;
    (grid[1][1], grid[2][2]) = (y, 3.0);
    let image = Image::from_values(values, [1, 8, 8, 8], grid, &host_device());
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    write_image(path, &image, &WriteOptions::default()).expect("written");
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(arguments)).expect("JSON")
}

/// A folder with predictions and labels of two cases.
fn two_cases(dir: &Path) -> (PathBuf, PathBuf) {
    let (pred, label) = (dir.join("pred"), dir.join("label"));
    boxes(&label.join("a.nii.gz"), &[(1.0, [2, 2, 2], [4, 4, 4]), (2.0, [5, 5, 5], [7, 7, 7])]);
    boxes(&pred.join("a.nii.gz"), &[(1.0, [3, 2, 2], [5, 4, 4]), (2.0, [5, 5, 5], [7, 7, 7])]);
    boxes(&label.join("b.nii.gz"), &[(1.0, [2, 2, 2], [4, 4, 4])]);
    boxes(&pred.join("b_pred.nii.gz"), &[(1.0, [2, 3, 2], [4, 5, 4])]);
    (pred, label)
}

/// Half of the prediction lies where there is no annotation.
#[test]
fn ignored_voxels_count_nowhere() {
    let dir = tempfile::tempdir().expect("a folder");
    let (pred, label) = (dir.path().join("pred.nii.gz"), dir.path().join("label.nii.gz"));
    boxes(&pred, &[(1.0, [3, 2, 2], [5, 4, 4])]);
    boxes(&label, &[(1.0, [2, 2, 2], [4, 4, 4]), (9.0, [4, 2, 2], [5, 4, 4])]);
    let (pred, label) = (text(&pred), text(&label));
    let files = ["metrics", "-p", &pred, "-l", &label];
    let measured = ["-m", "dice", "-m", "accuracy", "-m", "hausdorff", "-m", "generalized_dice", "--csv"];
    let csv = succeed(&[&files[..], &measured, &["--ignore", "9"]].concat());
    let (both, found, drawn) = (4.0, 4.0, 8.0);
    let dice: f64 = 2.0 * both / (found + drawn);
    let right: f64 = (512.0 - 4.0 - 4.0) / (512.0 - 4.0);
    let of_class = csv.lines().find(|line| line.starts_with("pred,1,")).expect("a line");
    let values: Vec<f64> = of_class.split(',').filter_map(|value| value.parse().ok()).skip(1).collect();
    let wanted = [dice, right, 1.0];
    assert!(values.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-4) && values.len() >= 3, "{csv}");
    assert!(!csv.contains("pred,9,"), "{csv}");
    assert!(csv.contains("pred,all,,,,0.66666"), "{csv}");

    // A class that does not occur, and a case without counted voxels.
    let nothing = text(&dir.path().join("nothing.nii.gz"));
    boxes(Path::new(&nothing), &[(9.0, [0, 0, 0], [8, 8, 8])]);
    let empty = ["metrics", "-p", &pred, "-l", &nothing, "--ignore", "9"];
    fail(&[&empty[..], &measured].concat(), 1, &["no voxel of the label counts"]);
    let background = text(&dir.path().join("background.nii.gz"));
    boxes(Path::new(&background), &[(9.0, [0, 0, 0], [1, 1, 1])]);
    let flat = ["metrics", "-p", &background, "-l", &background, "--ignore", "9"];
    assert!(succeed(&[&flat[..], &measured].concat()).contains("background,all,,,,1"), "nothing, and rightly so");

    let other = run(&[&files[..], &["--ignore", "7"]].concat());
    assert!(other.status.success() && errors(&other).contains("--ignore 7: no label has this value"));
    assert!(!errors(&run(&[&files[..], &["--ignore", "9"]].concat())).contains("--ignore"));
    let nothing = succeed(&[&flat[..], &["-m", "dice"]].concat());
    assert!(nothing.contains("no class was measured") && nothing.contains("--include-background"), "{nothing}");
    assert!(!succeed(&files).contains("no class was measured"));

    fail(&[&files[..], &["-m", "mae", "--ignore", "9"]].concat(), 1, &["--ignore is for label maps"]);
    fail(&[&files[..], &["-m", "dice:ignore_index=9"]].concat(), 1, &["use --ignore LABEL"]);
}

#[test]
fn folders_are_paired_and_measured_by_class() {
    let dir = tempfile::tempdir().expect("a folder");
    let (pred, label) = two_cases(dir.path());
    let (pred, label) = (text(&pred), text(&label));
    let metrics = [
        "-m",
        "dice",
        "-m",
        "hausdorff",
        "-m",
        "surface_dice:tolerance=1.5",
        "-m",
        "sensitivity",
        "-m",
        "generalized_dice",
    ];
    let found = json(
        &[&["metrics", "-p", &pred, "-l", &label, "--labels", "background,one,two", "--json"][..], &metrics].concat(),
    );
    let value = |case: usize, class: &str, metric: &str| found["cases"][case]["classes"][class][metric].clone();
    // Half of a box of 2^3 voxels overlaps; it was moved by 1 mm in one case, by 2 mm in the other.
    assert_eq!([value(0, "one", "dice"), value(1, "one", "dice")], [0.5, 0.5]);
    assert_eq!([value(0, "one", "hausdorff"), value(1, "one", "hausdorff")], [1.0, 2.0]);
    assert_eq!(
        [value(0, "one", "surface_dice:tolerance=1.5"), value(1, "one", "surface_dice:tolerance=1.5")],
        [1.0, 0.5]
    );
    assert_eq!(value(0, "two", "dice"), 1.0);
    assert!(value(1, "two", "dice").is_null());
    assert_eq!(value(0, "one", "sensitivity"), 0.5);
    assert_eq!(value(0, "all", "generalized_dice"), 0.75);
    assert_eq!(found["cases"][1]["case"], "b");
    let one = &found["classes"]["one"]["hausdorff"];
    assert_eq!((one["mean"].as_f64(), one["count"].as_u64()), (Some(1.5), Some(2)));
    assert!((one["std"].as_f64().expect("a number") - 0.5_f64.sqrt()).abs() < 1e-12);
    let table = succeed(&["metrics", "-p", &pred, "-l", &label]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("case") && lines[0].ends_with("dice"), "{table}");
    // The mean of 0.75 and 0.5: `two` has no value in the second case.
    let all = lines.iter().find(|line| line.contains("of all")).expect("the mean over everything");
    assert!(all.ends_with("0.6250") && table.contains("2 cases"), "{table}");
    let csv = succeed(&["metrics", "-p", &pred, "-l", &label, "--csv", "-m", "hausdorff:percentile=95,directed=true"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "case,class,\"hausdorff:percentile=95,directed=true\"");
    assert_eq!((lines[1], lines.len()), ("a,1,1", 4));
    // One pair of files.
    let file = |folder: &str, name: &str| text(&Path::new(folder).join(name));
    let one = json(&["metrics", "-p", &file(&pred, "a.nii.gz"), "-l", &file(&label, "a.nii.gz"), "--json"]);
    assert_eq!(one["cases"][0]["classes"]["1"]["dice"], 0.5);
}

#[test]
fn images_are_measured_by_their_values() {
    let dir = tempfile::tempdir().expect("a folder");
    let (a, b) = (dir.path().join("a.nii.gz"), dir.path().join("b.nii.gz"));
    write(&a, (0..512).map(|v| v as f32 / 4.0).collect(), 1.0);
    write(&b, (0..512).map(|v| v as f32 / 4.0 + 0.5).collect(), 1.0);
    let metrics =
        ["-m", "mae", "-m", "mse", "-m", "rmse", "-m", "psnr:max_val=128", "-m", "ssim:data_range=128,win_size=7"];
    let (a, b) = (text(&a), text(&b));
    let found = json(&[&["metrics", "-p", &a, "-l", &b, "--json"][..], &metrics].concat());
    let all = &found["cases"][0]["classes"]["all"];
    assert_eq!((all["mae"].as_f64(), all["mse"].as_f64(), all["rmse"].as_f64()), (Some(0.5), Some(0.25), Some(0.5)));
    let psnr = 20.0 * 128.0_f64.log10() - 10.0 * 0.25_f64.log10();
    assert!((all["psnr:max_val=128"].as_f64().expect("a number") - psnr).abs() < 1e-4, "{all}");
    assert!(all["ssim:data_range=128,win_size=7"].as_f64().is_some_and(|ssim| ssim > 0.99 && ssim < 1.0), "{all}");
    fail(&["metrics", "-p", &a, "-l", &b], 1, &["not a label map", "0.25"]);
}

#[test]
fn what_cannot_be_measured_is_told_and_the_rest_is_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let (pred, label) = two_cases(dir.path());
    boxes(&pred.join("alone.nii.gz"), &[]);
    boxes(&label.join("lonely.nii.gz"), &[]);
    let (p, l) = (text(&pred), text(&label));
    let said = run(&["metrics", "-p", &p, "-l", &l]);
    // Maps next to a result are no cases.
    boxes(&pred.join("a_prob.nii.gz"), &[]);
    boxes(&pred.join("b_std.nii.gz"), &[]);
    assert!(!errors(&run(&["metrics", "-p", &p, "-l", &l])).contains("_prob"));
    // The others are measured, and two cases were asked for and are not.
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stdout).contains("2 cases"));
    let told = errors(&said);
    assert!(told.contains("alone.nii.gz has no label") && told.contains("lonely.nii.gz has no prediction"), "{told}");
    assert!(told.contains("1 of the predictions has no label; 1 of the labels has no prediction"), "{told}");
    // Another grid.
    write(&pred.join("a.nii.gz"), vec![0.0; 512], 2.5);
    let said = run(&["metrics", "-p", &p, "-l", &l, "--json"]);
    assert_eq!(said.status.code(), Some(1));
    let told = errors(&said);
    let words = ["case a", "different grids", "1.000 x 2.500 x 3.000 mm", "1.000 x 2.000 x 3.000 mm", "1 of 2 cases"];
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    let found: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(found["cases"].as_array().map(Vec::len), Some(1));
    assert_eq!((&found["failed"][0]["case"], found["unpaired"].as_array().map(Vec::len)), (&"a".into(), Some(2)));
    let b =
        ["metrics", "-p", &text(&pred.join("b_pred.nii.gz")), "-l", &text(&label.join("b.nii.gz"))].map(str::to_owned);
    let with = |more: &[&str]| b.iter().cloned().chain(more.iter().map(|word| (*word).to_owned())).collect::<Vec<_>>();
    fail(&with(&["--labels", "background"]), 1, &["the label value 1 is not among the classes", "0 background"]);
    fail(&with(&["--labels", "1=a,1=b"]), 1, &["twice"]);
    fail(&with(&["-m", "dise"]), 1, &["unknown metric \"dise\"", "\"dice\""]);
    fail(&with(&["-m", "dice:percentile=95"]), 1, &["--metric dice:percentile=95", "unknown key"]);
    fail(&with(&["-m", "psnr"]), 1, &["max_val"]);
    fail(&["metrics", "-p", &p, "-l", &text(&label.join("b.nii.gz"))], 1, &["two files or two folders"]);
    fail(&["metrics", "-p", "missing", "-l", &l], 1, &["-p missing"]);
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).expect("a folder");
    fail(&["metrics", "-p", &text(&empty), "-l", &l], 1, &["no file of"]);
}

/// Values of another numbering, or of an organ that is never found: each has a Dice of 0, and a reason.
#[test]
fn classes_that_only_predictions_or_only_labels_have_are_noted() {
    let dir = tempfile::tempdir().expect("a folder");
    let (pred, label) = two_cases(dir.path());
    let (p, l) = (text(&pred), text(&label));
    let words = ["metrics", "-p", &p, "-l", &l];
    let notes = |more: &[&str]| json(&[&words[..], more, &["--json"]].concat())["notes"].clone();
    assert_eq!(notes(&[]), serde_json::json!([]), "class 2 is on both sides in one case");
    // The second class is called 3 by the predictions.
    boxes(&pred.join("a.nii.gz"), &[(1.0, [3, 2, 2], [5, 4, 4]), (3.0, [5, 5, 5], [7, 7, 7])]);
    let found = notes(&["--labels", "1=one,2=two,3=three"]);
    let text = |at: usize| found[at].as_str().expect("a note").to_owned();
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
    assert!(text(0).contains("two is in the labels of 1 of 2 cases, and in no prediction"), "{found}");
    assert!(text(1).contains("three is in the predictions of 1 of 2 cases, and in no label"), "{found}");
    assert!(succeed(&words).contains("3 is in the predictions of 1 of 2 cases"));
    let said = run(&[&words[..], &["--csv"]].concat());
    assert!(errors(&said).contains("2 is in the labels of 1 of 2 cases"), "{}", errors(&said));
    assert!(!String::from_utf8_lossy(&said.stdout).contains("in no prediction"));
    // Regions hold what their labels hold.
    let found = notes(&["--regions", "whole=1+2+3,core=2"]);
    assert!(found[0].as_str().is_some_and(|text| text.starts_with("core is in the labels")), "{found}");
}

/// The results of `monai.metrics` 1.6.1 for the same files.
const MONAI: &str = include_str!("../monai_metrics.json");

/// A label moved by some voxels (with wrap-around), without every seventh voxel of its last class: a
/// prediction to measure.
fn moved(source: &Path, out: &Path, by: [i64; 3]) {
    let label = hearth_data::read_image(source).expect("a label");
    let ([nx, ny, nz], values) = (label.shape(), label.to_vec());
    let last = values.iter().copied().fold(0.0, f32::max);
    let from = |at: usize, by: i64, n: usize| (at as i64 - by).rem_euclid(n as i64) as usize;
    let mut moved = vec![0.0; values.len()];
    for x in 0..nx {
        for y in 0..ny {
            for z in 0..nz {
                let value = values[(from(x, by[0], nx) * ny + from(y, by[1], ny)) * nz + from(z, by[2], nz)];
                let lost = value == last && (x + y + z) % 7 == 0;
                moved[(x * ny + y) * nz + z] = if lost { 0.0 } else { value };
            }
        }
    }
    let image = Image::from_values(moved, [1, nx, ny, nz], label.affine, &host_device());
    write_image(out, &image, &WriteOptions::default()).expect("written");
}

#[test]
#[ignore = "reads HEARTH_REAL_DATA"]
fn real_volumes_have_monais_values() {
    let root = std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    let dir = tempfile::tempdir().expect("a folder");
    let recorded: Value = serde_json::from_str(MONAI).expect("JSON");
    let hippocampus = root.join("brain_mri/hippocampus_msd/labels/hippocampus_075.nii.gz");
    let spleen = root.join("spleen_ct/case_a_spleen.nii.gz");
    let moved_to = |source: &Path, name: &str, by: [i64; 3]| {
        let out = dir.path().join(name);
        moved(source, &out, by);
        out
    };
    let brain = root.join("brain_mri/brats2013_by-nc-sa");
    let pairs = [
        ("hippocampus", moved_to(&hippocampus, "hippocampus.nii.gz", [1, -2, 0]), hippocampus),
        ("spleen", moved_to(&spleen, "spleen.nii.gz", [2, 0, 1]), spleen),
        ("flair_t1c", brain.join("pat03_flair.nii.gz"), brain.join("pat03_t1c.nii.gz")),
    ];
    for (name, pred, label) in pairs {
        let expected = recorded[name].as_object().expect("a case");
        let mut words =
            vec!["metrics".to_owned(), "-p".into(), text(&pred), "-l".into(), text(&label), "--json".into()];
        for metric in expected.keys() {
            words.extend(["-m".to_owned(), metric.clone()]);
        }
        let found: Value = serde_json::from_str(&succeed(&words)).expect("JSON");
        let classes = &found["cases"][0]["classes"];
        for (metric, expected) in expected {
            let one = [expected.clone()];
            let expected = expected.as_array().map_or(&one[..], Vec::as_slice);
            let of = |class: &str| classes[class][metric.as_str()].as_f64();
            let got: Vec<Option<f64>> = match of("all") {
                Some(value) => vec![Some(value)],
                None => (1..=expected.len()).map(|class| of(&class.to_string())).collect(),
            };
            assert_eq!(got.len(), expected.len(), "{name} {metric}");
            for (got, expected) in got.iter().zip(expected) {
                let (got, expected) = (got.expect("a number"), expected.as_f64().expect("a number"));
                assert!(
                    (got - expected).abs() <= 2e-5 * expected.abs().max(1.0),
                    "{name} {metric}: {got} for {expected}"
                );
            }
        }
    }
}
