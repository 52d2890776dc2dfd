//! Patches of whole-slide images on the command line: generated slides, training, maps that continue,
//! FROC, and errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{errors, fail, hearth, plugins_are_built, run, succeed, text, wait_until};
use hearth_data::read_image;
use hearth_data::slides::{PyramidOptions, Slide, pyramid};
use serde_json::Value;

/// Two slides with tumours and two without, of 1024 pixels.
pub fn slides(dir: &Path) -> PathBuf {
    let data = dir.join("data");
    succeed(&["data", "phantom", "pathology", "--cases", "4", "--size", "1024", "--out", &text(&data)]);
    data
}

/// Trains a step or two.
pub fn train(data: &Path, out: &Path, seed: &str) {
    let small =
        ["data.layout.regions=4", "training.epochs=1", "data.layout.validation_fraction=0.5", "task.stride=16", seed];
    let mut words: Vec<String> =
        ["train", "demo-pathology", "--device", "cpu", "--data", &text(data), "--out", &text(out)]
            .map(str::to_owned)
            .to_vec();
    small.iter().for_each(|set| words.extend(["--set".to_owned(), (*set).to_owned()]));
    succeed(&words);
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("a file")).expect("JSON")
}

#[test]
fn slides_are_trained_on_mapped_and_measured() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let (data, out, maps) = (slides(dir.path()), dir.path().join("run"), dir.path().join("maps"));
    let names = ["normal_01.tif", "normal_03.tif", "tumor_00.tif", "tumor_00.xml", "tumor_02.geojson", "tumor_02.tif"];
    let mut found: Vec<String> = fs::read_dir(&data)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, names);
    let said = succeed(&["data", "verify", "demo-pathology", &text(&data), "--set", "data.layout.regions=4"]);
    for word in [" train, ", "images after the chain: ", "tumor", "0 errors"] {
        assert!(said.contains(word), "no {word:?} in\n{said}");
    }
    train(&data, &out, "training.seed=0");
    // A killed call continues.
    let words = ["predict", &text(&out), "--device", "cpu", "-i", &text(&data), "-o", &text(&maps)].map(str::to_owned);
    let mut child = hearth().args(&words).stderr(std::process::Stdio::null()).spawn().expect("the program starts");
    let partial = maps.join("normal_01.partial");
    let length = |path: &Path| fs::metadata(path).map_or(0, |facts| facts.len());
    wait_until("the first results", || length(&partial) > 1000 || maps.join("normal_01.npy").is_file());
    child.kill().expect("killed");
    child.wait().expect("ended");
    std::thread::sleep(Duration::from_millis(10));
    let began = partial.is_file();
    let output = run(&words);
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(!began || said.contains("tiles were done by an earlier call"), "{said}");
    assert!(said.contains("tiles/s"), "{said}");
    assert!(!partial.exists());
    for name in ["normal_01", "normal_03", "tumor_00", "tumor_02"] {
        let map = read_image(maps.join(format!("{name}.npy"))).expect("an array");
        assert_eq!(map.shape(), [64, 64, 1]);
        let values = map.to_vec();
        assert!(values.iter().all(|v| (0.0..=1.0).contains(v)) && values.contains(&0.0), "probabilities, and glass");
        assert!(values.iter().filter(|v| **v > 0.0).count() > 500, "{name}: tissue");
        let heat = Slide::open(maps.join(format!("{name}_heat.tif"))).expect("a pyramid");
        assert_eq!(heat.dimensions(), (64, 64));
        let grey = heat.read_region(0, 0, 0, 64, 64).expect("pixels");
        let expected: Vec<u8> = values.iter().map(|v| (f64::from(*v) * 255.0).round() as u8).collect();
        assert_eq!(grey.as_u8(), Some(&expected[..]));
        assert_eq!(json(&maps.join(format!("{name}.geojson")))["type"], "FeatureCollection");
        assert_eq!(&fs::read(maps.join(format!("{name}_picture.png"))).expect("a picture")[1..4], b"PNG");
    }
    // The same without an interruption.
    let whole = dir.path().join("whole");
    let slide = data.join("normal_01.tif");
    succeed(&["predict", &text(&out), "--device", "cpu", "-i", &text(&slide), "-o", &text(&whole)]);
    let bytes = |folder: &Path| fs::read(folder.join("normal_01.npy")).expect("a map");
    assert_eq!(bytes(&whole), bytes(&maps));
    // Again: nothing is left to do.
    let again = run(&words);
    assert!(
        again.status.success() && errors(&again).matches("done by an earlier call").count() == 4,
        "{}",
        errors(&again)
    );

    // Maps of another training differ, even if run, checkpoint and slides have the same names.
    fs::remove_dir_all(&out).expect("removed");
    train(&data, &out, "training.seed=1");
    let other = run(&words);
    assert!(errors(&other).contains("written by an earlier `hearth`"), "{}", errors(&other));

    let froc = dir.path().join("froc");
    // Tumours on such small slides count as isolated cells.
    let words = ["metrics", "froc", "--maps", &text(&maps), "--truth", &text(&data), "-o", &text(&froc)];
    let printed = succeed(&[&words[..], &["--itc-diameter", "0"]].concat());
    assert!(printed.contains("FROC score") && printed.contains("slides    4"), "{printed}");
    // The maps have records, which know their scale.
    let other = ["metrics", "froc", "--maps", &text(&maps), "--truth", &text(&data), "--scale", "8"];
    fail(&other, 1, &["--scale 8", "that of this map has 16"]);
    let summary = json(&froc.join("froc.json"));
    assert!((0.0..=1.0).contains(&summary["froc"].as_f64().expect("a score")), "{summary}");
    assert!(
        fs::read_to_string(froc.join("froc.csv"))
            .expect("a curve")
            .starts_with("false_positives_per_slide,sensitivity\n")
    );
    assert!(froc.join("froc.png").is_file());
    // Measured on the run's validation slides, patch by patch.
    let measured = succeed(&["evaluate", &text(&out), "--device", "cpu", "--data", &text(&data), "--json"]);
    let measured: Value = serde_json::from_str(&measured).expect("JSON");
    assert!((0.0..=1.0).contains(&measured["metrics"]["accuracy"]["value"].as_f64().unwrap_or(-1.0)), "{measured}");
}

/// Compares the map of an ensemble with the merged maps of its runs.
#[test]
fn maps_of_several_runs_are_merged() {
    assert!(plugins_are_built());
    let dir = tempfile::tempdir().expect("a folder");
    let data = slides(dir.path());
    let at = |name: &str| text(&dir.path().join(name));
    for seed in ["1", "2", "3"] {
        train(&data, &dir.path().join(seed), &format!("training.seed={seed}"));
    }
    let runs = ["1", "2", "3"].map(at);
    let slide = text(&data.join("tumor_00.tif"));
    let values = |folder: &str, name: &str| -> Vec<f64> {
        let map = read_image(dir.path().join(folder).join(format!("tumor_00{name}.npy"))).expect("an array");
        assert_eq!(map.shape(), [64, 64, 1]);
        map.to_vec().into_iter().map(f64::from).collect()
    };
    let each: Vec<Vec<f64>> = runs
        .iter()
        .enumerate()
        .map(|(member, run)| {
            let folder = format!("one{member}");
            succeed(&["predict", run, "--device", "cpu", "-i", &slide, "-o", &at(&folder)]);
            values(&folder, "")
        })
        .collect();
    assert!(each[0] != each[1] && each[1] != each[2], "the runs learned the same");
    let tissue: Vec<usize> = (0..each[0].len()).filter(|at| each[0][*at] > 0.0).collect();
    assert!(tissue.len() > 500);
    let merge = |folder: &str, more: &[&str]| {
        let (out, [one, two, three]) = (at(folder), &runs);
        let words = ["ensemble", one, two, three, "--device", "cpu", "-i", &slide, "-o", &out];
        run(&[&words[..], more].concat())
    };
    let close = |folder: &str, name: &str, expected: &dyn Fn([f64; 3]) -> f64| {
        let found = values(folder, name);
        for place in 0..found.len() {
            let of_each = [each[0][place], each[1][place], each[2][place]];
            let wanted = if tissue.contains(&place) { expected(of_each) } else { 0.0 };
            assert!((found[place] - wanted).abs() < 2e-6, "{folder}{name}: {} for {of_each:?}", found[place]);
        }
    };
    let logit = |p: f64| (p / (1.0 - p)).ln();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for (folder, more) in [
        ("logits", &["--disagreement", "entropy,variance"][..]),
        ("even", &["--mean=probabilities"]),
        ("weighted", &["--mean=probabilities", "--weights", "1,2,5"]),
        ("vote", &["--vote"]),
    ] {
        let output = merge(folder, more);
        assert!(output.status.success(), "{folder}: {}", errors(&output));
        assert!(errors(&output).contains("tiles/s") && !dir.path().join(folder).join("tumor_00.partial").exists());
    }
    let mean = |p: [f64; 3]| (p[0] + p[1] + p[2]) / 3.0;
    close("logits", "", &|p| sigmoid(mean(p.map(logit))));
    close("even", "", &mean);
    close("weighted", "", &|p| (p[0] + 2.0 * p[1] + 5.0 * p[2]) / 8.0);
    close("vote", "", &|p| f64::from(u8::from(p.iter().filter(|p| **p >= 0.5).count() >= 2)));
    close("logits", "_variance", &|p| p.iter().map(|one| (one - mean(p)).powi(2)).sum::<f64>() / 3.0);
    close("logits", "_entropy", &|p| -(mean(p) * mean(p).ln() + (1.0 - mean(p)) * (1.0 - mean(p)).ln()));

    // The other files, as `predict` writes them.
    let merged = dir.path().join("logits");
    for (name, end, most) in
        [("", "", 1.0), ("_entropy", "_entropy", std::f64::consts::LN_2), ("_variance", "_variance", 0.25)]
    {
        let heat = Slide::open(merged.join(format!("tumor_00{name}_heat.tif"))).expect("a pyramid");
        let grey = heat.read_region(0, 0, 0, 64, 64).expect("pixels");
        let expected: Vec<u8> = values("logits", end).iter().map(|v| (v / most * 255.0).round() as u8).collect();
        assert_eq!(grey.as_u8(), Some(&expected[..]), "{name}");
    }
    assert_eq!(json(&merged.join("tumor_00.geojson"))["type"], "FeatureCollection");
    assert_eq!(&fs::read(merged.join("tumor_00_picture.png")).expect("a picture")[1..4], b"PNG");
    let facts = json(&merged.join("records/tumor_00.npy.hearth.json"));
    assert_eq!((facts["command"].as_str(), facts["ensemble"].as_array().map(Vec::len)), (Some("ensemble"), Some(3)));
    // Maps of disagreement are not probabilities of other slides.
    let froc = ["metrics", "froc", "--maps", &text(&merged), "--truth", &text(&data), "--itc-diameter", "0"];
    assert!(succeed(&froc).contains("slides    1"));

    // Finished maps are skipped; another method, other weights and `predict` give other maps.
    let again = merge("even", &["--mean=probabilities"]);
    assert!(again.status.success() && errors(&again).contains("done by an earlier call"), "{}", errors(&again));
    for other in [&["--vote"][..], &["--mean=probabilities", "--weights", "1,2,3"], &["--disagreement", "variance"]] {
        let output = merge("even", other);
        assert!(errors(&output).contains("written by an earlier `hearth`"), "{}", errors(&output));
    }
    fail(
        &["predict", &runs[0], "--device", "cpu", "-i", &slide, "-o", &at("even")],
        1,
        &["written by an earlier `hearth`"],
    );
    resumes(&runs, &slide, dir.path());
    refuses(&data, &runs, &slide, dir.path());
}

/// A killed call continues, and gives the same map.
fn resumes(runs: &[String; 3], slide: &str, dir: &Path) {
    let (out, [one, two, three]) = (dir.join("killed"), runs);
    let words = ["ensemble", one, two, three, "--device", "cpu", "-i", slide, "-o", &text(&out)];
    let words: Vec<&str> = [&words[..], &["--disagreement", "entropy,variance"]].concat();
    let mut child = hearth().args(&words).stderr(std::process::Stdio::null()).spawn().expect("the program starts");
    let partial = out.join("tumor_00.partial");
    let length = |path: &Path| fs::metadata(path).map_or(0, |facts| facts.len());
    wait_until("the first results", || length(&partial) > 2000 || out.join("tumor_00.npy").is_file());
    child.kill().expect("killed");
    child.wait().expect("ended");
    let began = partial.is_file();
    let output = run(&words);
    let said = errors(&output);
    assert!(output.status.success(), "{said}");
    assert!(!began || said.contains("tiles were done by an earlier call"), "{said}");
    for name in ["", "_entropy", "_variance"] {
        let bytes = |folder: &str| fs::read(dir.join(folder).join(format!("tumor_00{name}.npy"))).expect("a map");
        assert_eq!(bytes("killed"), bytes("logits"), "{name}");
    }
}

/// Conflicting options are reported before a slide is read.
fn refuses(data: &Path, runs: &[String; 3], slide: &str, dir: &Path) {
    let none = text(&dir.join("none"));
    let refused = |second: &str, more: &[&str], said: &[&str]| {
        let words = ["ensemble", &runs[0], second, "--device", "cpu", "-i", slide, "-o", &none];
        fail(&[&words[..], more].concat(), 1, said);
        assert!(!dir.join("none").exists(), "{more:?} left a folder");
    };
    refused(&runs[1], &["--staple"], &["STAPLE", "patch by patch", "a mean or a vote"]);
    refused(&runs[1], &["--tta", "flips"], &["--tta maps predictions", "predicts numbers: remove it"]);
    let disagreement = ["--disagreement", "entropy", "--probabilities"];
    refused(&runs[1], &disagreement, &["--probabilities writes", "maps of whole slides (NAME_entropy.npy, "]);
    refused(&runs[1], &["--weights", "1,2,3"], &["2 runs of 1 classes"]);
    let coarse = dir.join("coarse");
    train(data, &coarse, "task.stride=64");
    let coarse = text(&coarse);
    refused(&coarse, &[], &["differ in their patches", "stride = 16", "stride = 64", &runs[0], &coarse]);
}

/// Maps with a known result: a detection in each tumour, and one outside.
#[test]
fn froc_of_made_up_maps_is_what_it_must_be() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("maps")).expect("made");
    fs::create_dir_all(at("truth")).expect("made");
    // Two tumours of 30 x 30 pixels of the map.
    let square = |left: usize, top: usize| {
        let [l, t, r, b] = [left, top, left + 30, top + 30].map(|v| (v * 64) as f64);
        format!("[[[{l},{t}],[{r},{t}],[{r},{b}],[{l},{b}],[{l},{t}]]]")
    };
    let feature = |rings: String| {
        format!(
            r#"{{"type":"Feature","geometry":{{"type":"Polygon","coordinates":{rings}}},"properties":{{"classification":{{"name":"Tumor"}}}}}}"#
        )
    };
    let both = format!(
        r#"{{"type":"FeatureCollection","features":[{},{}]}}"#,
        feature(square(10, 10)),
        feature(square(120, 10))
    );
    fs::write(at("truth/a.geojson"), &both).expect("written");
    let map = |name: &str, peaks: &[(usize, usize, f64)]| {
        let mut values = vec![0.0; 100 * 200];
        peaks.iter().for_each(|(row, column, p)| values[row * 200 + column] = *p);
        fs::write(at(&format!("maps/{name}.npy")), hearth_models::slides::npy(&values, [100, 200])).expect("written");
    };
    map("a", &[(20, 20, 0.9), (20, 130, 0.7), (90, 190, 0.8)]);
    map("b", &[(50, 50, 0.6), (50, 52, 0.55)]);
    let words = |more: &[&str]| {
        let mut words = ["metrics", "froc", "--maps", &text(&at("maps")), "--truth", &text(&at("truth"))]
            .map(str::to_owned)
            .to_vec();
        words.extend(more.iter().map(|word| (*word).to_owned()));
        words
    };
    let printed = succeed(&words(&[]));
    // False positives 0.8 and 0.6, hits 0.9 and 0.7 of two tumours on two slides: the curve is
    // (0.5, 1), (0.5, 0.5), (0, 0.5), (0, 0).
    assert!(printed.contains("tumours   2") && printed.contains("slides    2"), "{printed}");
    assert!(printed.contains("0.25 false positives per slide  0.5000"), "{printed}");
    assert!(printed.contains("1    false positives per slide  1.0000"), "{printed}");
    // The same tumours as a mask with one level, with four pixels per pixel of the map.
    let masks = at("masks");
    fs::create_dir_all(&masks).expect("made");
    let inside = |x: u32, y: u32| (40..160).contains(&y) && ((40..160).contains(&x) || (480..600).contains(&x));
    let one_level = PyramidOptions { smallest: 1000, ..PyramidOptions::default() };
    let mask = |width: u32| {
        let pixels: Vec<u8> = (0..width * 400).map(|at| u8::from(inside(at % width, at / width))).collect();
        let file = pyramid(&pixels, width as usize, 400, &one_level).expect("a mask");
        fs::write(masks.join("a_mask.tif"), file).expect("written");
    };
    mask(800);
    let of_masks = ["metrics", "froc", "--maps", &text(&at("maps")), "--truth", &text(&masks)];
    assert_eq!(succeed(&of_masks), printed);
    mask(700);
    fail(&of_masks, 1, &["a_mask.tif", "700 x 400", "no mask of a slide of 12800 x 6400 pixels", "200 x 100"]);
    let fewer = succeed(&words(&["--threshold", "0.75"]));
    assert!(fewer.contains("FROC score  0.5000"), "{fewer}");

    fail(&words(&["--itc-diameter", "1000000"]), 1, &["no slide has a tumour that counts"]);
    fail(&words(&["--classes", "Stroma"]), 1, &["a.geojson", "\"Tumor\"", "--classes"]);
    fail(&words(&["--scale", "0"]), 1, &["--scale is 0"]);
    fail(&words(&["--threshold", "1"]), 1, &["--threshold is 1", "probabilities are 0 to 1"]);
    fail(&words(&["--grow=-1"]), 1, &["--grow is -1"]);
    let (folder, file, truth) = (text(&at("maps")), text(&at("maps/a.npy")), text(&at("truth")));
    let twice = ["metrics", "froc", "--maps", &folder, &file, "--truth", &truth];
    fail(&twice, 1, &["a.npy", "a slide counts once"]);
    // Files of the user are never replaced, and those of an earlier call on request.
    let out = text(&at("froc"));
    succeed(&words(&["-o", &out]));
    fail(&words(&["-o", &out]), 1, &["froc.csv exists", "--overwrite"]);
    succeed(&words(&["-o", &out, "--overwrite"]));
    fs::write(at("froc/froc.json"), "mine").expect("written");
    fail(&words(&["-o", &out, "--overwrite"]), 1, &["froc.json was changed"]);
    fail(&words(&["--scale", "32"]), 1, &["a.geojson", "beyond the edge", "6400 x 3200"]);
    fail(&["metrics", "froc", "--maps", &text(&at("truth")), "--truth", &text(&at("truth"))], 1, &["no .npy"]);
    fail(&["metrics", "froc", "--maps", &text(&at("maps")), "--truth", &text(&at("none"))], 1, &["no such folder"]);
    fail(&["metrics", "--pred", "x"], 2, &["--label"]);
    fs::write(at("maps/a.npy"), "no array").expect("written");
    fail(&words(&[]), 1, &["a.npy"]);
}

#[test]
fn what_is_wrong_is_said_before_hours_are_spent() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = slides(dir.path());
    let out = dir.path().join("run");
    let train = |data: &Path, words: &[&str]| {
        fail(&["train", "pathology", "--device", "cpu", "--data", &text(data), "--out", &text(&out)], 1, words);
        let verified = run(&["data", "verify", "pathology", &text(data)]);
        let said = String::from_utf8_lossy(&verified.stdout);
        assert!(verified.status.code() == Some(1) && said.contains("not usable"), "{said}");
        assert!(!out.exists(), "nothing was written");
    };
    let list = data.join("regions.csv");
    fs::write(&list, "tumor_00,500,500,1,1,1,1,1,1,1,1,1\ntumor_09,5,5,0,0,0,0,0,0,0,0,0\n").expect("written");
    train(&list, &["regions.csv", "no slide \"tumor_09\""]);
    fs::write(&list, "tumor_00,500,500,1,1,1,1,1,1,1,1,1\nnormal_01,1024,5,0,0,0,0,0,0,0,0,0\n").expect("written");
    train(&list, &["regions.csv", "normal_01: x 1024, y 5", "1024 x 1024"]);
    fs::write(&list, "tumor_00,500,500,1,1,1,1,1,1,1,1,1\nnormal_01,5,5,0,0,0,0,0,0,0,0,0\n").expect("written");
    train(&list, &["only slide with positive labels"]);
    fs::remove_file(&list).expect("removed");
    let annotations = data.join("tumor_02.geojson");
    let sound = fs::read_to_string(&annotations).expect("read");
    fs::write(&annotations, sound.replacen("[[[", "[[[1,2],[", 1)).expect("written");
    train(&data, &["tumor_02.geojson", "not closed"]);
    fs::write(&annotations, sound).expect("written");
    let set = |change: &str, words: &[&str]| {
        let all =
            ["train", "pathology", "--device", "cpu", "--data", &text(&data), "--out", &text(&out), "--set", change];
        fail(&all, 1, words);
    };
    set("transforms.4.batch=false", &["RandRotate90", "transforms.2", "whole batches"]);
    set("transforms.4.batch=3", &["true or false"]);
    set("task.stride=0", &["at least 1"]);
    set("labels=[\"a\",\"b\"]", &["there are 2"]);
    set("data.layout.grid=2", &["data.layout.grid = 2", "4 labels"]);
    assert!(!out.exists());
}

/// The table of real slides: an annotation is drawn over each, so that there is something to learn.
#[test]
#[ignore = "reads HEARTH_REAL_DATA and trains for a minute or two"]
fn real_slides_train_and_are_mapped() {
    assert!(plugins_are_built());
    let real = std::env::var_os("HEARTH_REAL_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from)
        .join("wsi");
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("data");
    fs::create_dir(&data).expect("made");
    let slides = [
        ("cmu_a.svs", "cmu-1-small-region.svs"),
        ("cmu_b.tif", "derived/cmu_pyramid_jpeg.tif"),
        ("tcga.svs", "tcga-cr-7395.svs"),
        ("control.dcm", "dicom/sm_image_control.dcm"),
    ];
    for (name, source) in slides {
        fs::copy(real.join(source), data.join(name)).expect("copied");
        let (width, height) = Slide::open(data.join(name)).expect("a slide").dimensions();
        let (right, bottom) = (width as f64 / 2.0, height as f64);
        let ring = format!(
            r#"{{"type":"Polygon","coordinates":[[[0,0],[{right},0],[{right},{bottom}],[0,{bottom}],[0,0]]]}}"#
        );
        fs::write(data.join(name).with_extension("geojson"), ring).expect("written");
    }
    let (out, maps) = (dir.path().join("run"), dir.path().join("maps"));
    let mut words: Vec<String> =
        ["train", "demo-pathology", "--device", "cpu", "--data", &text(&data), "--out", &text(&out)]
            .map(str::to_owned)
            .to_vec();
    for set in ["data.layout.regions=8", "training.epochs=1", "data.layout.validation_fraction=0.5", "task.stride=64"] {
        words.extend(["--set".to_owned(), set.to_owned()]);
    }
    succeed(&words);
    succeed(&["predict", &text(&out), "--device", "cpu", "-i", &text(&data), "-o", &text(&maps)]);
    assert!(maps.join("control.npy").is_file(), "a slide without much tissue has a map, too");
    for name in ["cmu_a", "cmu_b", "tcga"] {
        let map = read_image(maps.join(format!("{name}.npy"))).expect("a map");
        assert!(map.to_vec().iter().any(|value| *value > 0.0), "{name} has tissue");
    }
    succeed(&["metrics", "froc", "--maps", &text(&maps), "--truth", &text(&data), "--itc-diameter", "0"]);
}

/// Sizes that do not match would train with the labels of other tissue.
#[test]
fn sizes_that_do_not_belong_together_are_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (data, out) = (text(&dir.path().join("data")), text(&dir.path().join("run")));
    succeed(&["data", "phantom", "pathology", "--cases", "2", "--out", &data]);
    for (set, words) in [
        ("data.layout.region_size=768", ["data.layout.region_size", "LoadRegion reads 192 x 192"]),
        ("task.patch_size=512", ["task.patch_size", "patches of 64 x 64"]),
    ] {
        let train = ["train", "demo-pathology", "--data", &data, "--out", &out, "--device", "cpu", "--set", set];
        fail(&[&train[..], &["--dry-run"]].concat(), 1, &words);
        fail(&train, 1, &words);
    }
    assert!(!Path::new(&out).exists());
}
