//! Folders and files as users have them: the current folder, the root, names that are not UTF-8, files
//! in the way of results, series with gaps, runs that disappear.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::common::{TINY, errors, fail, hearth, phantom, plugins_are_built, succeed, text, tiny_recipe, wait_until};

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Arguments from texts and paths.
fn words(words: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

/// A run of one epoch, and its data.
fn trained(dir: &Path) -> (PathBuf, PathBuf) {
    assert!(plugins_are_built());
    let (recipe, data, out) = (tiny_recipe(dir), phantom(dir, 3), dir.join("run"));
    let train = ["train", &text(&recipe), "--data", &text(&data), "--out", &text(&out), "--epochs", "1"];
    succeed(&[&train[..], &["--device", "cpu"]].concat());
    (out, data)
}

/// A recipe of transforms that needs no label.
fn chain(folder: &Path) -> String {
    let path = folder.join("chain.toml");
    fs::write(&path, "[[transforms]]\nname = \"LoadImage\"\nkeys = [\"image\"]\n").expect("written");
    text(&path)
}

/// The names of a folder's entries.
fn names(folder: &Path) -> Vec<OsString> {
    let listed = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<OsString> = listed.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names
}

fn first(folder: &Path) -> PathBuf {
    folder.join(names(folder).swap_remove(0))
}

/// Runs the program in a folder.
fn there(folder: &Path, arguments: &[&str]) -> String {
    let output = hearth().current_dir(folder).args(arguments).output().expect("the program starts");
    assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn results_of_the_present_folder_have_its_name() {
    let dir = temporary();
    let (run, _) = trained(dir.path());
    let series = dir.path().join("scan 7");
    fs::create_dir_all(series.join("inside")).expect("a folder");
    crate::dicom::write_stack(&series, &[0.0, 2.0, 4.0]);
    let run = text(&run);
    let absolute = text(&series) + "/";
    for (number, (place, given)) in
        [(".", "."), (".", "./"), ("inside", ".."), ("inside", "../"), (".", &*absolute)].into_iter().enumerate()
    {
        let out = dir.path().join(format!("out{number}"));
        there(&series.join(place), &["predict", &run, "-i", given, "-o", &text(&out), "--device", "cpu"]);
        assert_eq!(names(&out), ["records", "scan 7_seg.nii.gz"], "{given}");
    }
    // The root contains no image; this is an error, and no file without a name is written.
    let out = dir.path().join("root");
    fail(&["predict", &run, "-i", "/", "-o", &text(&out), "--device", "cpu"], 1, &["/"]);
    assert!(!out.exists() || names(&out).is_empty());
}

#[test]
fn a_gap_in_a_series_is_accepted_as_the_error_says() {
    let dir = temporary();
    let (run, _) = trained(dir.path());
    let series = dir.path().join("gap");
    fs::create_dir(&series).expect("a folder");
    crate::dicom::write_stack(&series, &[0.0, 2.0, 4.0, 8.0, 10.0]);
    let (run, series, out) = (text(&run), text(&series), text(&dir.path().join("out")));
    let predict = ["predict", &run, "-i", &series, "-o", &out, "--device", "cpu"];
    let said = crate::common::run(&predict);
    let said = errors(&said);
    assert!(said.contains("--accept MissingSlices") && said.contains("accept = [\"MissingSlices\"]"), "{said}");
    succeed(&[&predict[..], &["--accept", "MissingSlices"]].concat());
    fail(&[&predict[..], &["--accept", "MissingSlice"]].concat(), 1, &["did you mean \"MissingSlices\"?"]);
    fail(&["data", "inspect", &series], 1, &["--accept MissingSlices"]);
    succeed(&["data", "inspect", &series, "--accept", "MissingSlices"]);
    let nifti = text(&dir.path().join("gap.nii.gz"));
    succeed(&["data", "convert", &series, &nifti, "--accept", "MissingSlices"]);
    // With a recipe.
    let recipe = TINY.replacen(
        "keys = [\"image\", \"label\"] }",
        "keys = [\"image\", \"label\"], accept = [\"MissingSlices\"] }",
        1,
    );
    let path = dir.path().join("accepting.toml");
    fs::write(&path, recipe).expect("the recipe is written");
    let out = text(&dir.path().join("pre"));
    succeed(&["preprocess", &text(&path), "--image", &series, "-o", &out]);
}

#[test]
fn segments_are_called_as_inspect_lists_them() {
    let dir = temporary();
    let path = dir.path().join("seg.dcm");
    let (first, second) = ([0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]);
    crate::dicom::segmentation(&[(3, "Liver"), (4, "tumour")], &[(3, 0.0, first), (4, 0.0, second)]).write(&path);
    let listed = succeed(&["data", "inspect", &text(&path)]);
    let shown: Vec<&str> = listed.lines().filter(|line| line.starts_with("     ")).map(str::trim).collect();
    assert_eq!(shown, ["3    Liver", "4    tumour"], "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&succeed(&["data", "inspect", &text(&path), "--json"])).expect("JSON");
    assert_eq!(json["regions"][1]["name"], "tumour");
    let steps = |segment: &str| {
        let load = format!("[[transforms]]\nname = \"LoadImage\"\nkeys = [\"image\"]\nsegments = [{segment:?}]\n");
        let chain = dir.path().join("chain.toml");
        fs::write(&chain, load).expect("written");
        let out = text(&dir.path().join(format!("{segment}.png")));
        crate::common::run(&["data", "preview", &text(&chain), "-i", &text(&path), "-o", &out])
    };
    for name in ["Liver", "liver", "3", "4", "tumour"] {
        let output = steps(name);
        assert!(output.status.success(), "{name}: {}", errors(&output));
    }
    assert!(!steps("7").status.success());
}

#[test]
fn paths_that_are_no_text_work_or_are_refused_at_once() {
    let dir = temporary();
    let odd = dir.path().join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).expect("a folder");
    let (run, data) = trained(dir.path());
    let before = names(dir.path());
    let recipe = text(&tiny_recipe(dir.path()));

    // A path that must become text is refused, and nothing is written.
    let at = odd.join("run");
    let data_text = text(&data);
    let train = words(&[&"train", &recipe, &"--data", &data_text, &"--device", &"cpu", &"--epochs", &"1"]);
    fail(&[&train[..], &words(&[&"--out", &at])].concat(), 1, &["--out", "not UTF-8"]);
    fail(&words(&[&"train", &"--data", &data_text, &"--out", &at, &"--resume"]), 1, &["--out", "not UTF-8"]);
    let other = dir.path().join("other");
    fail(&[&train[..], &words(&[&"--out", &other, &"--init", &odd])].concat(), 1, &["--init", "not UTF-8"]);
    assert!(!at.exists() && !other.exists());
    assert_eq!(names(dir.path()), before);

    // Data, images and results may be anywhere.
    let moved = odd.join("data");
    fs::rename(&data, &moved).expect("moved");
    let moved_run = odd.join("run");
    let out = dir.path().join("again");
    let train = words(&[&"train", &recipe, &"--data", &moved, &"--out", &out, &"--device", &"cpu", &"--epochs"]);
    succeed(&[&train[..], &words(&[&"1"])].concat());
    let resume = words(&[&"train", &"--data", &moved, &"--out", &out, &"--device", &"cpu", &"--epochs", &"2"]);
    succeed(&[&resume[..], &words(&[&"--resume"])].concat());
    fs::rename(&run, &moved_run).expect("moved");
    let evaluate = words(&[&"evaluate", &moved_run, &"--data", &moved, &"--device", &"cpu", &"--json", &"--all"]);
    let found: serde_json::Value = serde_json::from_str(&succeed(&evaluate)).expect("JSON");
    assert_eq!(found["cases"].as_array().map(Vec::len), Some(3));

    // Two names that look the same as text have two results.
    let image = first(&moved.join("imagesTr"));
    let twins = [odd.join(OsStr::from_bytes(b"a\xfe.nii.gz")), odd.join(OsStr::from_bytes(b"a\xff.nii.gz"))];
    for twin in &twins {
        fs::copy(&image, twin).expect("a copy");
    }
    let labels = odd.join("labels");
    let predict = words(&[&"predict", &moved_run, &"-o", &labels, &"--device", &"cpu", &"-i", &twins[0], &twins[1]]);
    succeed(&predict);
    let results: Vec<OsString> = names(&labels).into_iter().filter(|name| name.as_bytes().ends_with(b".gz")).collect();
    assert_eq!(results, [OsStr::from_bytes(b"a\xfe_seg.nii.gz"), OsStr::from_bytes(b"a\xff_seg.nii.gz")]);
    let pre = odd.join("pre");
    succeed(&words(&[&"preprocess", &recipe, &"--image", &twins[0], &"-o", &pre]));
    assert!(pre.join("image.nii.gz").is_file());
    let sheet = odd.join("sheet.png");
    succeed(&words(&[&"data", &"preview", &chain(dir.path()), &"-i", &twins[0], &"-o", &sheet, &"-n", &"1"]));
    assert!(sheet.is_file());
    succeed(&words(&[&"data", &"inspect", &twins[0], &"--json"]));
    succeed(&words(&[&"data", &"inspect", &labels, &"--json"]));
    let output = crate::common::run(&words(&[&"data", &"verify", &moved, &"--json"]));
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(), "{}", errors(&output));
    let (safe, weights) = (odd.join("w.safetensors"), &moved_run);
    succeed(&words(&[&"convert", &weights, &safe, &"--json"]));
    let result = labels.join(&results[0]);
    succeed(&words(&[&"metrics", &"-p", &result, &"-l", &result, &"--json"]));
}

#[test]
fn records_and_links_of_others_are_not_replaced() {
    let dir = temporary();
    let data = phantom(dir.path(), 1);
    let (recipe, image) = (text(&tiny_recipe(dir.path())), text(&first(&data.join("imagesTr"))));
    let out = dir.path().join("pre");
    let preprocess = ["preprocess", &recipe, "--image", &image, "-o", &text(&out)];
    fs::create_dir_all(out.join("records")).expect("a folder");
    let record = out.join("records/image.nii.gz.hearth.json");
    fs::write(&record, "notes of mine").expect("a file");
    fail(&[&preprocess[..], &["--overwrite"]].concat(), 1, &["image.nii.gz.hearth.json exists", "no record"]);
    assert_eq!(fs::read_to_string(&record).expect("a file"), "notes of mine");
    fs::remove_file(&record).expect("removed");
    let nowhere = dir.path().join("unplugged/disk.nii.gz");
    std::os::unix::fs::symlink(&nowhere, out.join("image.nii.gz")).expect("a link");
    fail(&[&preprocess[..], &["--overwrite"]].concat(), 1, &["exists and would be overwritten"]);
    assert_eq!(fs::read_link(out.join("image.nii.gz")).expect("a link"), nowhere);
    // Nor by commands that write without `--overwrite`.
    let link = dir.path().join("link.nii");
    std::os::unix::fs::symlink(&nowhere, &link).expect("a link");
    fail(&["data", "convert", &image, &text(&link)], 1, &["exists already"]);
    let sheet = dir.path().join("sheet.png");
    fs::write(&sheet, "a picture of mine").expect("a file");
    let preview = ["data", "preview", &chain(dir.path()), "-i", &image, "-o", &text(&sheet), "-n", "1"];
    fail(&[&preview[..], &["--overwrite"]].concat(), 1, &["only files that this program wrote"]);
    assert_eq!(fs::read_to_string(&sheet).expect("a file"), "a picture of mine");
}

#[test]
fn a_run_whose_folder_vanishes_fails() {
    let dir = temporary();
    assert!(plugins_are_built());
    let (recipe, data, out) = (tiny_recipe(dir.path()), phantom(dir.path(), 3), dir.path().join("run"));
    let child = hearth()
        .args(["train", &text(&recipe), "--data", &text(&data), "--out", &text(&out), "--epochs", "400"])
        .args(["--device", "cpu"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    wait_until("a row of metrics", || {
        fs::read_to_string(out.join("metrics.csv")).is_ok_and(|text| text.lines().count() > 1)
    });
    fs::rename(&out, dir.path().join("elsewhere")).expect("moved away");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let said = errors(&output);
    assert!(said.contains("was removed or emptied while the run wrote to it"), "{said}");
    assert!(!said.contains("panicked") && !said.contains("epoch 400/400"), "it ends at once: {said}");
}

/// A full disk, simulated by a file size limit, which also makes writes fail.
#[cfg(target_os = "linux")]
fn with_little_room(blocks: u32, arguments: &[&str]) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_hearth");
    let quoted: Vec<String> = std::iter::once(&program).chain(arguments).map(|word| format!("'{word}'")).collect();
    // The signal of the limit is ignored, so that the write returns an error.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec {}", quoted.join(" "));
    std::process::Command::new("sh").args(["-c", &script]).env("NO_COLOR", "1").output().expect("sh is there")
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_whole_leaves_nothing() {
    let dir = temporary();
    let (run, data) = trained(dir.path());
    let (run, image) = (text(&run), text(&first(&data.join("imagesTr"))));
    let (out, recipe) = (dir.path().join("out"), text(&tiny_recipe(dir.path())));
    let out_text = text(&out);
    let packed = text(&out.join("m.hearth"));
    let (nifti, safe, sheet) = (text(&out.join("a.nii")), text(&out.join("w.safetensors")), text(&out.join("s.png")));
    fs::create_dir(&out).expect("a folder");
    for arguments in [
        vec!["predict", &run, "-i", &image, "-o", &out_text, "--device", "cpu"],
        vec!["preprocess", &recipe, "--image", &image, "-o", &out_text],
        vec!["data", "convert", &image, &nifti],
        vec!["convert", &run, &safe],
        vec!["export", &run, &packed],
        vec!["data", "preview", &chain(dir.path()), "-i", &image, "-o", &sheet, "-n", "1"],
    ] {
        let output = with_little_room(0, &arguments);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("error:") && !said.contains("panicked"), "{arguments:?}: {said}");
        assert!(!said.contains("ZipWriter"), "{arguments:?}: {said}");
        assert!(names(&out).is_empty(), "{arguments:?} left {:?}", names(&out));
    }
    // The file that cannot be written is named, not the package that is read.
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet/organs_legacy_nomirror/model");
    let [package, store] = ["organs.hearth", "store"].map(|name| text(&dir.path().join(name)));
    let said = errors(&with_little_room(0, &["export", &text(&model), &package]));
    // Its record comes first.
    let record = text(&dir.path().join("records/organs.hearth.hearth.json"));
    assert!(said.contains(&format!("cannot write {record}")), "{said}");
    succeed(&["export", &text(&model), &package]);
    let said = errors(&with_little_room(0, &["models", "add", &package, "--name", "organs", "--store", &store]));
    assert!(said.contains(&format!("cannot write {store}")), "{said}");
}
