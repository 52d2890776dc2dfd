//! Components of every kind in the commands: a plugin in C that has them and a handler.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_data::{ReadOptions, read_image, read_image_with};

use crate::common::{TINY, errors, fail, hearth, phantom, succeed, text};
use crate::plugins_in_c::compile;

const SOURCE: &str = include_str!("../../../plugins/host/tests/fixtures/c/kinds.c");

/// A recipe with a crop of a plugin after the resampling, and more lines before `[inferer]`.
fn recipe(folder: &Path, name: &str, crop: &str, more: &str) -> String {
    let path = folder.join(name);
    let chain =
        TINY.replace("    { name = \"FgBgToIndices\"", &format!("    {crop},\n    {{ name = \"FgBgToIndices\""));
    assert_ne!(chain, TINY);
    fs::write(&path, chain.replace("[inferer]", &format!("{more}\n[inferer]"))).unwrap();
    text(&path)
}

const CROP: &str = "{ name = \"kinds.Crop\", keys = [\"image\", \"label\"], share = 0.9 }";

/// The images of a phantom.
fn images(data: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = data.join("imagesTr").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.to_string_lossy().ends_with(".nii.gz"));
    all.sort();
    all
}

/// The weights of the last checkpoint of a run.
fn weights(run: &Path) -> Vec<u8> {
    let all = run.join("checkpoints").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
    all.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let newest = all.pop().expect("a checkpoint");
    let mut files: Vec<PathBuf> = newest.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "safetensors"));
    files.sort();
    assert!(!files.is_empty(), "{}", newest.display());
    files.iter().flat_map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn a_crop_of_a_plugin_is_undone_in_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "kinds", SOURCE);
    let data = phantom(folder.path(), 3);
    let recipe = recipe(folder.path(), "crop.toml", CROP, "");
    let run = folder.path().join("run");
    let out = text(&run);
    let train = ["train", &recipe, "--data", &text(&data), "--out", &out, "--epochs", "2", "--device", "cpu"];
    let output = hearth().args(train).args(["--plugin", &library]).output().unwrap();
    let said = errors(&output);
    assert!(output.status.success() && said.contains("epochs so far: 2"), "{said}");
    let image = images(&data).remove(0);
    let predicted = folder.path().join("predicted");
    let predict = ["predict", &out, "-i", &text(&image), "--out", &text(&predicted), "--allow-plugin", "kinds"];
    succeed(&predict);
    let made = predicted.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let made = made.into_iter().find(|path| path.to_string_lossy().ends_with(".nii.gz")).expect("a label map");
    let (made, image) = (read_image(made).unwrap(), read_image(image).unwrap());
    assert_eq!((made.shape(), made.affine), (image.shape(), image.affine));

    let info = succeed(&["plugin", "info", &library, "--allow-plugin", &library]);
    for words in ["map_transform kinds.Crop", "share = 0.5", "inferer       kinds.Once", "epoch_completed"] {
        assert!(info.contains(words), "{words}: {info}");
    }
}

#[test]
fn a_sampler_that_reads_losses_resumes_to_the_bit_and_isolated_components_do_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "kinds", SOURCE);
    let data = text(&phantom(folder.path(), 5));
    let sampler = TINY.replace("[data]\n", "[data]\nsampler = { name = \"kinds.Losses\" }\n");
    let random =
        sampler.replace("    { name = \"FgBgToIndices\"", &format!("    {CROP},\n    {{ name = \"FgBgToIndices\""));
    let file = text(&folder.path().join("losses.toml"));
    let run = |name: &str, epochs: &str, more: &[&str]| {
        let out = text(&folder.path().join(name));
        let words = ["train", &file, "--data", &data, "--out", &out, "--epochs", epochs, "--device", "cpu"];
        let output = hearth().args(words).args(["--allow-plugin", "kinds"]).args(more).output().unwrap();
        assert!(output.status.success(), "{name}: {}", errors(&output));
        folder.path().join(name)
    };
    let listed = |isolated: bool| {
        let usual =
            ["validation", "stats", "checkpoint"].map(|name| format!("[[plugins]]\nname = \"{name}\"\n")).concat();
        format!("{usual}[[plugins]]\nname = \"kinds\"\npath = \"{library}\"\nisolated = {isolated}\n")
    };
    fs::write(&file, format!("{random}{}", listed(false))).unwrap();
    let whole = run("whole", "3", &[]);
    run("parts", "1", &[]);
    let parts = folder.path().join("parts");
    let resume =
        ["train", "--data", &data, "--out", &text(&parts), "--resume", "--epochs", "3", "--allow-plugin", "kinds"];
    let output = hearth().args(resume).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert!(weights(&whole) == weights(&parts), "a resumed run has other weights");
    // The order depends on the losses at all.
    fs::write(&file, format!("{random}{}", listed(false)).replace("kinds.Losses", "kinds.Backwards")).unwrap();
    assert!(weights(&run("other", "3", &[])) != weights(&whole), "the losses have no effect");
    #[cfg(target_os = "linux")]
    {
        fs::write(&file, format!("{random}{}", listed(true))).unwrap();
        assert!(weights(&run("apart", "3", &[])) == weights(&whole), "isolated components compute something else");
    }
}

#[test]
fn wrong_components_are_found_by_a_dry_run() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "kinds", SOURCE);
    let data = text(&phantom(folder.path(), 3));
    let refused = |crop: &str, sampler: &str, words: &[&str]| {
        let file = recipe(folder.path(), "wrong.toml", crop, "");
        let source = fs::read_to_string(&file).unwrap();
        fs::write(&file, source.replace("[data]\n", &format!("[data]\n{sampler}\n"))).unwrap();
        let out = text(&folder.path().join("run"));
        fail(&["train", &file, "--data", &data, "--out", &out, "--dry-run", "--plugin", &library], 1, words);
    };
    refused(
        CROP,
        "sampler = { name = \"kinds.Backward\" }",
        &["wrong.toml:", "no sampler Backward", "kinds.Backwards"],
    );
    refused(
        CROP,
        "sampler = { name = \"kinds.Crop\" }",
        &["wrong.toml:", "kinds.Crop is a map_transform, not a sampler"],
    );
    refused(&CROP.replace("share", "shar"), "", &["wrong.toml:", "unknown option `shar`", "share"]);
    refused(
        &CROP.replace("kinds.Crop", "kinds.Square"),
        "",
        &["wrong.toml:", "kinds.Square is a loss, not a transform"],
    );
}

/// A voxel of the result in each line, as the plugin of the test writes.
#[test]
fn results_are_written_by_a_writer_of_a_plugin_too() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "kinds", SOURCE);
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet/organs_legacy_nomirror");
    let (image, out) = (text(&model.join("input/s01_0000.nii.gz")), folder.path().join("out"));
    let predict = |writer: &str| {
        let words = ["predict", &text(&model.join("model")), "-i", &image, "-o", &text(&out), "--device", "cpu"];
        let writer = ["--writer", writer];
        hearth().env("HEARTH_PLUGIN_PATH", &library).args(words).args(writer).output().unwrap()
    };
    let refused = predict("kinds.Crop");
    assert!(errors(&refused).contains("--writer kinds.Crop"), "{}", errors(&refused));
    assert!(!out.exists());
    let output = predict("kinds.Text");
    assert!(output.status.success(), "{}", errors(&output));
    let labels = read_image(out.join("s01.nii.gz")).unwrap().to_vec();
    let written = fs::read_to_string(out.join("s01.txt")).unwrap();
    let written: Vec<f32> = written.lines().map(|line| line.parse().unwrap()).collect();
    assert!(written == labels && labels.iter().any(|label| *label > 0.0));
    assert!(errors(&predict("kinds.Text")).contains("done by an earlier call"));
}

/// The plugin with a second file next to each result, `NAME.size`, announced or not.
fn with_side_files(announced: bool) -> String {
    let closed = "    return fclose(file) ? work->fail(work, \"the file cannot be written\") : HEARTH_OK;";
    let endings = "{\\\"endings\\\": [\\\".txt\\\"]}";
    assert!(SOURCE.contains(closed) && SOURCE.contains(endings));
    let second = "    if (fclose(file)) return work->fail(work, \"the file cannot be written\");\n    \
                  strcpy(strrchr(path, '.'), \".size\");\n    file = fopen(path, \"w\");\n    \
                  if (!file) return work->fail(work, \"the second file cannot be opened\");\n    \
                  fprintf(file, \"%lu\\n\", (unsigned long)n);\n    \
                  return fclose(file) ? work->fail(work, \"no size\") : HEARTH_OK;";
    let sides = "{\\\"endings\\\": [\\\".txt\\\"], \\\"sides\\\": [\\\".size\\\"]}";
    SOURCE.replace(closed, second).replace(endings, if announced { sides } else { endings })
}

/// All files of a plugin's writer are results: those that it announces are checked before the prediction, and
/// `--overwrite` replaces what this program wrote, and nothing else.
#[test]
fn files_next_to_a_plugin_s_result_are_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/nnunet/organs_legacy_nomirror");
    let image = text(&model.join("input/s01_0000.nii.gz"));
    for announced in [true, false] {
        let at = folder.path().join(if announced { "announced" } else { "not" });
        fs::create_dir(&at).unwrap();
        let library = compile(&at, "kinds", &with_side_files(announced));
        let predict = |out: &str, more: &[&str]| {
            let out = text(&at.join(out));
            let words = ["predict", &text(&model.join("model")), "-i", &image, "-o", &out, "--device", "cpu"];
            let writer = ["--writer", "kinds.Text"];
            hearth().env("HEARTH_PLUGIN_PATH", &library).args(words).args(writer).args(more).output().unwrap()
        };
        let output = predict("out", &[]);
        assert!(output.status.success(), "{}", errors(&output));
        let voxels = read_image(at.join("out/s01.nii.gz")).unwrap().to_vec().len();
        let size = || fs::read_to_string(at.join("out/s01.size")).unwrap();
        assert_eq!(size().trim(), voxels.to_string());
        assert!(at.join("out/records/s01.size.hearth.json").is_file());
        assert!(errors(&predict("out", &[])).contains("done by an earlier call"));
        let again = predict("out", &["--overwrite"]);
        assert!(again.status.success(), "{}", errors(&again));
        // A file of someone else.
        fs::create_dir(at.join("other")).unwrap();
        fs::write(at.join("other/s01.size"), "mine").unwrap();
        let refused = predict("other", &["--overwrite"]);
        let said = errors(&refused);
        assert!(!refused.status.success() && said.contains("s01.size exists and would be overwritten"), "{said}");
        assert_eq!(fs::read_to_string(at.join("other/s01.size")).unwrap(), "mine");
        let left = fs::read_dir(at.join("other")).unwrap().count();
        assert!(!announced || left == 1, "it is refused before the prediction");
    }
}

#[test]
fn images_are_converted_by_a_writer_of_a_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let library = compile(folder.path(), "kinds", SOURCE);
    let data = phantom(folder.path(), 1);
    let image = text(&images(&data).remove(0));
    let convert = |out: &str, more: &[&str]| {
        let out = text(&folder.path().join(out));
        let words = ["data", "convert", &image, &out, "--writer"];
        hearth().env("HEARTH_PLUGIN_PATH", &library).args(words).args(more).output().unwrap()
    };
    let output = convert("image.txt", &["kinds.Text"]);
    assert!(output.status.success(), "{}", errors(&output));
    let written = fs::read_to_string(folder.path().join("image.txt")).unwrap();
    let values = read_image_with(&image, &ReadOptions::default()).unwrap().to_vec();
    assert_eq!(written.lines().count(), values.len());
    // The plugin prints six digits.
    let first: Vec<f32> = written.lines().take(100).map(|line| line.parse().unwrap()).collect();
    assert!(first.iter().zip(&values).all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0)), "{first:?}");
    for (out, more, words) in [
        ("image.xyz", &["kinds.Text"][..], "kinds.Text writes files that end in .txt"),
        ("other.txt", &["Text"], "--writer Text: expected PLUGIN.NAME"),
        ("other.txt", &["kinds.Crop"], "kinds.Crop is a map_transform, not a writer"),
        (
            "other.txt",
            &["kinds.Text", "--segment", "1=liver"],
            "--segment names labels, which --writer does not pass on",
        ),
    ] {
        let output = convert(out, more);
        let said = errors(&output);
        assert!(!output.status.success() && said.contains(words), "{words}: {said}");
        assert!(!folder.path().join(out).exists());
    }
}
