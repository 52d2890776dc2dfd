//! The program's response to mistakes: one message, no panic, the exit code, nothing written.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use burn::tensor::Tensor;
use hearth_data::{Image, NiftiOptions, read_nifti, write_nifti};

use crate::common::{TINY, errors, fail, phantom, run, succeed, text, tiny_recipe};

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// `hearth train` with the tiny recipe's text changed; the error must contain these texts.
fn recipe_fails(from: &str, to: &str, words: &[&str]) {
    let dir = temporary();
    assert!(TINY.contains(from), "{from:?} is in the recipe");
    let recipe = dir.path().join("bad.toml");
    std::fs::write(&recipe, TINY.replacen(from, to, 1)).expect("the recipe is written");
    let out = dir.path().join("run");
    fail(&["train", &text(&recipe), "--data", "nowhere", "--out", &text(&out), "--dry-run"], 1, words);
    assert!(!out.exists(), "a bad recipe leaves no folder behind");
}

#[test]
fn sizes_that_the_network_cannot_take_are_pointed_at_before_anything_runs() {
    recipe_fails(
        "spatial_size = [16, 16, 16]",
        "spatial_size = [15, 16, 16]",
        &["divisible by [2, 2, 2]", "bad.toml:11:"],
    );
    recipe_fails("roi_size = [16, 16, 16]", "roi_size = [16, 16, 15]", &["divisible by [2, 2, 2]", "^^^^"]);
}

#[test]
fn typos_at_each_level_are_pointed_at() {
    recipe_fails("labels =", "lables =", &["bad.toml:3:1: unknown key \"lables\", did you mean \"labels\"?", "^^^^^^"]);
    recipe_fails("[data]", "[dat]", &["bad.toml:15:2: unknown key \"dat\", did you mean \"data\"?"]);
    recipe_fails("last = 1", "lst = 1", &["unknown word \"lst\", did you mean \"last\"?"]);
    recipe_fails("epochs = 6", "epohs = 6", &["unknown key \"epohs\", did you mean \"epochs\"?", "epohs = 6"]);
    recipe_fails(
        "\"Spacing\"",
        "\"Spacng\"",
        &["bad.toml:8:", "unknown transform \"Spacng\", did you mean \"Spacing\"?"],
    );
    recipe_fails("pixdim =", "pixdm =", &["bad.toml:8:", "\"pixdm\", did you mean \"pixdim\"?"]);
    recipe_fails("name = \"UNet\"", "name = \"UNte\"", &["unknown network \"UNte\", did you mean \"UNet\"?"]);
    recipe_fails("num_res_units", "num_res_unit", &["unknown key \"num_res_unit\", did you mean \"num_res_units\"?"]);
    recipe_fails("\"DiceCELoss\"", "\"DiceCEloss\"", &["did you mean \"DiceCELoss\"?"]);
    recipe_fails("to_onehot_y", "to_onehot", &["\"to_onehot\", did you mean \"to_onehot_y\"?"]);
    recipe_fails("momentum", "momentm", &["unknown key \"momentm\", did you mean \"momentum\"?", "momentm = 0.9"]);
    recipe_fails("\"SGD\"", "\"SDG\"", &["unknown optimizer \"SDG\", did you mean \"SGD\"?"]);
    recipe_fails("overlap =", "overlp =", &["\"overlp\", did you mean \"overlap\"?"]);
    recipe_fails("[data]", "[[handlers]]\nname = \"EarlyStp\"\n[data]", &["\"EarlyStp\", did you mean \"EarlyStop\"?"]);
    recipe_fails(
        "[data]",
        "[[plugins]]\nname = \"checkpont\"\n[data]",
        &["bad.toml:16:8: ", "`checkpont`", "did you mean `checkpoint`?", "looked in"],
    );
    recipe_fails(
        "[data]",
        "[[plugins]]\nname = \"checkpoint\"\noptions = { kep_last = 2 }\n[data]",
        &["kep_last", "keep_last"],
    );
}

#[test]
fn wrong_types_and_absurd_values_are_pointed_at() {
    recipe_fails("epochs = 6", "epochs = \"six\"", &["expected a whole number without a sign, not the text \"six\""]);
    recipe_fails("epochs = 6", "epochs = 0", &["epochs = 0", "give 1 or more"]);
    recipe_fails("batch_size = 1", "batch_size = 0", &["at least 1 case"]);
    recipe_fails("val_interval = 1", "val_interval = 0", &["1 or more"]);
    recipe_fails("lr = 0.02", "lr = nan", &["nan is not a number"]);
    recipe_fails("lr = 0.02", "lr = -1", &["a learning rate of -1 cannot train"]);
    recipe_fails("lr = 0.02", "lr = \"fast\"", &["lr = \"fast\""]);
    recipe_fails("last = 1", "last = 0", &["at least 1 case must validate"]);
    recipe_fails("last = 1", "fraction = 1.5", &["1.5 is not a fraction"]);
    recipe_fails("channels = [4, 8]", "channels = [4]", &["channels"]);
    recipe_fails("out_channels = 2", "out_channels = 3", &["out_channels", "2 labels"]);
    recipe_fails("overlap = 0.25", "overlap = 1.5", &["overlap"]);
    recipe_fails("task = \"tiny\"", "task = = \"tiny\"", &["bad.toml:2:8"]);
}

#[test]
fn post_processing_is_checked_with_the_recipe() {
    let post = |steps: &str, words: &[&str]| {
        recipe_fails("[inferer]", &format!("[post]\nprediction = [{steps}]\n[inferer]"), words);
    };
    post("{ name = \"AsDiscret\" }", &["unknown step \"AsDiscret\", did you mean \"AsDiscrete\"?", "^^^^"]);
    post("{ name = \"AsDiscrete\", argmx = true }", &["unknown key \"argmx\", did you mean \"argmax\"?"]);
    post("{ argmax = true }", &["the table has no `name`"]);
    post("{ name = \"FillHoles\", connectivty = 1 }", &["\"connectivty\", did you mean \"connectivity\"?"]);
    post("{ name = \"FillHoles\", connectivity = 7 }", &["connectivity", "7"]);
    post("{ name = \"FillHoles\", keys = [\"pred\"] }", &["remove `keys`"]);
    post("{ name = \"RandFlip\", prob = 0.5 }", &["RandFlip is random"]);
    post("{ name = \"Activations\", sigmoid = true, softmax = true }", &["sigmoid and softmax"]);
}

#[test]
fn caches_that_make_no_sense_are_pointed_at() {
    let fails = |cache: &str, words: &[&str]| recipe_fails("[data]\n", &format!("[data]\ncache = {cache}\n"), words);
    fails("{ rate = 1.5 }", &["bad.toml:16:18: 1.5 is not a fraction"]);
    fails("{ rate = \"all\" }", &["\"auto\""]);
    fails("{ kind = \"disk\" }", &["unknown cache \"disk\""]);
    fails("{ kind = \"persistent\" }", &["the key \"dir\" is missing"]);
    fails("{ dir = \"c\" }", &["kind = \"cache\" has no use for dir; it is for \"lmdb\", \"persistent\""]);
    fails("{ kind = \"none\", rate = 1.0 }", &["has no use for rate"]);
    fails("{ kind = \"smart\", rate = \"auto\" }", &["needs a fraction"]);
    fails("{ kind = \"smart\", replace_rate = 0.0 }", &["replace_rate = 0.0", "more than 0"]);
    fails("{ device = \"same\", storage = \"exact\" }", &["use f32 or f16"]);
    fails("{ rate = \"auto\", limit_gib = -1 }", &["-1 GiB"]);
    fails("{ rat = 1.0 }", &["unknown key \"rat\", did you mean \"rate\"?"]);
}

#[test]
fn a_task_that_is_not_there_is_told_before_anything_is_fetched() {
    let dir = temporary();
    let out = text(&dir.path().join("out"));
    fail(&["data", "download", "Task09_Splen", "--out", &out], 1, &["did you mean \"Task09_Spleen\"?"]);
    assert!(!dir.path().join("out").exists());
}

/// `train --download` gets what the folder's name says.
#[test]
fn a_training_downloads_by_the_name_of_its_folder() {
    let dir = temporary();
    let at = |name: &str| text(&dir.path().join(name));
    let train = |data: &str, words: &[&str]| {
        fail(&["train", "demo", "--data", &at(data), "--out", &at("run"), "--download"], 1, words);
        assert!(!dir.path().join("run").exists() && !dir.path().join(data).exists());
    };
    train("spleen", &["--download", "give --data", &at("Task09_Spleen")]);
    train("Task09_Splen", &["--download", "did you mean \"Task09_Spleen\"?"]);
    // A folder with something in it is read, not replaced.
    std::fs::create_dir(dir.path().join("Task09_Spleen")).expect("a folder");
    std::fs::write(dir.path().join("Task09_Spleen/notes.txt"), "mine").expect("written");
    fail(&["train", "demo", "--data", &at("Task09_Spleen"), "--out", &at("run"), "--download"], 1, &["Task09_Spleen"]);
    assert_eq!(std::fs::read_dir(dir.path().join("Task09_Spleen")).expect("a folder").count(), 1);
}

#[test]
fn a_collection_without_what_is_asked_for_is_told() {
    // A server that answers with nothing, as the archive does if it has no result.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let from = format!("http://{}", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut request = String::new();
        let mut lines = BufReader::new(stream.try_clone().expect("a stream"));
        while lines.read_line(&mut request).expect("a line") > 2 {}
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").expect("sent");
        request
    });
    let dir = temporary();
    let out = text(&dir.path().join("out"));
    let collection = ["data", "download", "--tcia", "Lung CT", "--out", &out];
    let asked = [&collection[..], &["--from", &from, "--modality", "RTSTRUCT"]].concat();
    fail(&asked, 1, &["cannot get the collection Lung CT", "no series of modality RTSTRUCT"]);
    let request = server.join().expect("no panic");
    assert!(request.starts_with("GET /getSeries?Collection=Lung%20CT&Modality=RTSTRUCT "), "{request}");
    assert!(!dir.path().join("out").exists());
    fail(&[&collection[..], &["spleen"]].concat(), 2, &["cannot be used with"]);
    fail(&[&collection[..], &["--limit", "0"]].concat(), 2, &["--limit"]);
    fail(&["data", "download", "spleen", "--limit", "3", "--out", &out], 2, &["--limit", "cannot be used with"]);
}

#[test]
fn overrides_are_checked_like_the_recipe() {
    let dir = temporary();
    let recipe = text(&tiny_recipe(dir.path()));
    let out = text(&dir.path().join("run"));
    let base = ["train", &recipe, "--data", "nowhere", "--out", &out, "--dry-run"];
    let check = |extra: &[&str], code: i32, words: &[&str]| {
        let arguments: Vec<&str> = base.iter().copied().chain(extra.iter().copied()).collect();
        fail(&arguments, code, words);
    };
    check(&["--set", "training.epohs=3"], 1, &["--set training.epohs=3", "did you mean \"epochs\"?"]);
    check(&["--set", "training.epochs=three"], 1, &["--set training.epochs=three", "expected a whole number"]);
    check(&["--set", "training"], 1, &["expected key=value"]);
    check(&["--set", "transforms.Spacng.pixdim=[1,1,1]"], 1, &["did you mean \"Spacing\"?"]);
    check(&["--set", "transforms.99.pixdim=[1,1,1]"], 1, &["there is no element 99"]);
    check(&["--set", "optimizer.lr=nan"], 1, &["--set optimizer.lr=nan: nan is not a number"]);
    check(&["--epochs", "0"], 1, &["give 1 or more"]);
    check(&["--epochs", "-3"], 1, &["--epochs -3"]);
    check(&["--seed", "x"], 1, &["seed"]);
    check(&["--precision", "fp61"], 1, &["\"fp61\", did you mean \"fp16\"?"]);
    check(&["--device", "cudda"], 1, &["cudda"]);
    check(&["--device", "cpu:7"], 1, &["cpu:7"]);
    check(&["--plugin", "/no/such/plugin.so"], 1, &["/no/such/plugin.so", "known are", "nvtx"]);
    check(&["--plugin", "nvtz"], 1, &["--plugin nvtz", "did you mean nvtx?", "checkpoint, ensemble, nvtx"]);
}

#[test]
fn wrong_calls_are_errors_and_what_clap_cannot_parse_is_a_usage_error() {
    fail(&["trian"], 2, &["trian", "train"]);
    fail(&["train"], 2, &["--data", "--out"]);
    fail(&["train", "spleeen", "--data", "d", "--out", "o"], 1, &["did you mean \"spleen\"?"]);
    fail(&["recipes", "show", "hipocampus"], 1, &["did you mean \"hippocampus\"?"]);
    fail(&["data", "phantom", "spleen", "--out", "o"], 2, &["--cases"]);
    fail(&["bench", "load"], 1, &["bench load needs"]);
    fail(&["bench", "step", "--runs", "0"], 2, &["--runs"]);
    fail(&["bench", "import", "--runs", "4294967295"], 2, &["--runs", "1000000"]);
    fail(&["bench", "step", "--patch", "4294967295"], 2, &["--patch"]);
    fail(&["bench", "step", "--size", "8"], 1, &["--size", "bench step", "--net, --patch, --batch"]);
    fail(&["bench", "load", "x.nii", "--batch", "8"], 1, &["--batch", "bench load"]);
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("hearth demo"));
}

#[test]
fn missing_and_wrong_paths_are_named() {
    let dir = temporary();
    let recipe = text(&tiny_recipe(dir.path()));
    let at = |name: &str| text(&dir.path().join(name));
    let out = at("run");
    fail(&["train", "no/such.toml", "--data", "d", "--out", &out], 1, &["no/such.toml"]);
    fail(&["train", &text(dir.path()).replace('\\', "/"), "--data", "d", "--out", &out], 1, &["is a folder"]);
    fail(&["train", &recipe, "--data", &at("missing"), "--out", &out], 1, &["missing"]);
    fail(&["train", &recipe, "--data", &recipe, "--out", &out], 1, &["tiny.toml"]);
    std::fs::create_dir(dir.path().join("nothing")).expect("a folder");
    let words = ["nothing", "no dataset.json", "holds no DICOM"];
    fail(&["train", &recipe, "--data", &at("nothing"), "--out", &out], 1, &words);
    let sampling = ["--set", "data.lazy_sampling={image={}}"];
    let words = ["lazy_sampling", "`lazy = \"on\"`"];
    fail(&[&["train", &recipe, "--data", &at("nothing"), "--out", &out][..], &sampling[..]].concat(), 1, &words);
    let data = phantom(dir.path(), 2);
    std::fs::write(at("file"), "x").expect("a file");
    fail(&["train", &recipe, "--data", &text(&data), "--out", &at("file")], 1, &["is a file"]);
    std::fs::create_dir(at("full")).expect("a folder");
    std::fs::write(at("full/notes.txt"), "x").expect("a file");
    fail(&["train", &recipe, "--data", &text(&data), "--out", &at("full")], 1, &["is not empty", "empty folder"]);
    fail(&["train", "--data", &text(&data), "--out", &at("full"), "--resume"], 1, &["recipe.toml"]);
    fail(&["evaluate", &at("nowhere"), "--data", &text(&data)], 1, &["nowhere"]);
    fail(&["evaluate", &recipe, "--data", &text(&data)], 1, &["is a file"]);
    fail(&["predict", &at("full"), "-i", "x.nii.gz", "-o", &at("labels")], 1, &["recipe.toml"]);
    fail(&["preprocess", &recipe, "--image", &at("no.nii.gz"), "-o", &at("pre")], 1, &["no.nii.gz"]);
    fail(&["preprocess", &recipe, "--image", &recipe, "-o", &at("pre")], 1, &["tiny.toml"]);
    fail(&["data", "phantom", "spleen", "--cases", "1", "--out", &at("full")], 1, &["is not empty"]);
    fail(&["data", "phantom", "spleen", "--cases", "0", "--out", &at("none")], 2, &["--cases"]);
}

#[test]
fn a_truncated_volume_is_named_with_its_case() {
    let dir = temporary();
    let recipe = text(&tiny_recipe(dir.path()));
    let data = phantom(dir.path(), 3);
    let victim = first_volume(&data.join("imagesTr"));
    let bytes = std::fs::read(&victim).expect("the volume");
    std::fs::write(&victim, &bytes[..bytes.len() / 2]).expect("half a volume");
    let name = victim.file_name().map(|name| name.to_string_lossy().into_owned()).expect("a name");
    let out = text(&dir.path().join("pre"));
    fail(&["preprocess", &recipe, "--image", &text(&victim), "-o", &out], 1, &[&name]);
    let run = text(&dir.path().join("run"));
    fail(&["train", &recipe, "--data", &text(&data), "--out", &run, "--epochs", "1"], 1, &[&name]);
    assert!(!Path::new(&run).exists(), "a run that cannot begin leaves no folder behind");
}

fn first_volume(folder: &Path) -> std::path::PathBuf {
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files.swap_remove(0)
}

#[test]
fn bundled_recipes_are_listed_shown_and_dry_run() {
    let list = succeed(&["recipes", "list"]);
    for name in ["spleen", "spleen-regular", "hippocampus", "lung", "demo"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
        let shown = succeed(&["recipes", "show", name]);
        assert!(shown.lines().count() <= 80, "{name} has {} lines", shown.lines().count());
    }
}

#[test]
fn a_closed_pipe_is_not_a_panic() {
    let child = crate::common::hearth()
        .args(["recipes", "show", "spleen"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .map(|mut child| {
            drop(child.stdout.take());
            child.wait_with_output()
        });
    let output = child.expect("the program starts").expect("it ends");
    assert_eq!(crate::common::errors(&output), "");
}

#[test]
fn help_comes_at_once() {
    let _ = run(&["--help"]);
    let best = (0..5)
        .map(|_| {
            let start = std::time::Instant::now();
            assert!(run(&["--help"]).status.success());
            start.elapsed()
        })
        .min()
        .expect("five runs");
    assert!(best.as_millis() < 50, "hearth --help took {best:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_goes_on_when_its_notes_cannot_be_written_and_is_resumed_only_as_itself() {
    assert!(crate::common::plugins_are_built());
    let dir = temporary();
    let (recipe, data) = (text(&tiny_recipe(dir.path())), phantom(dir.path(), 4));
    let (run, data) = (dir.path().join("run"), text(&data));
    let out = text(&run);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let status = crate::common::hearth()
        .args(["train", &recipe, "--data", &data, "--out", &out, "--epochs", "2", "--device", "cpu"])
        .stderr(full)
        .status();
    assert!(status.expect("the program starts").success());
    let read = |name: &str| std::fs::read_to_string(run.join(name)).expect("a file of the run");
    let before = (read("summary.json"), read("recipe.toml"));
    let resume = ["train", "--data", &data, "--out", &out, "--device", "cpu", "--resume"];
    fail(&[&resume[..], &["--epochs", "1"]].concat(), 1, &["in epoch 2 already"]);
    assert_eq!(before, (read("summary.json"), read("recipe.toml")), "nothing is written");
    assert!(before.1.contains("lr = 0.02"), "{}", before.1);
    std::fs::write(run.join("recipe.toml"), before.1.replace("lr = 0.02", "lr = 0.5")).expect("another recipe");
    fail(&resume, 1, &["optimizer.lr is 0.5", "it was 0.02"]);
    std::fs::write(run.join("recipe.toml"), &before.1).expect("the recipe");
    let more = dir.path().join("more");
    std::fs::create_dir(&more).expect("a folder");
    let other = text(&phantom(&more, 5));
    fail(&["train", "--data", &other, "--out", &out, "--resume"], 1, &["other cases to train", "4 cases, it had 3"]);
    let (zero, labels) = ("/dev/zero", text(&dir.path().join("labels")));
    fail(
        &["predict", &out, "-i", zero, "-o", &labels, "--device", "cpu"],
        1,
        &["/dev/zero: it is a device; expected a regular file"],
    );
    // The folder cannot be created, which is reported before the cases are prepared.
    let said = fail(&["train", &recipe, "--data", &data, "--out", "/proc/hearth/run"], 1, &["cannot make the folder"]);
    assert!(!said.contains("cases train"), "{said}");
}

/// Files are the results of a prediction; the lines about them only report it.
#[cfg(target_os = "linux")]
#[test]
fn a_prediction_does_its_work_when_no_one_reads_its_lines() {
    assert!(crate::common::plugins_are_built());
    let dir = temporary();
    let (recipe, data) = (text(&tiny_recipe(dir.path())), phantom(dir.path(), 4));
    let at = |name: &str| text(&dir.path().join(name));
    let images = text(&data.join("imagesTr"));
    succeed(&["train", &recipe, "--data", &text(&data), "--out", &at("run"), "--epochs", "1", "--device", "cpu"]);
    let written = |folder: &str| {
        let names = std::fs::read_dir(dir.path().join(folder)).expect("results").flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with("_seg.nii.gz")).count()
    };
    let predict = |folder: &str, more: &[&str]| {
        let mut command = crate::common::hearth();
        command.args(["predict", &at("run"), "-i", &images, "-o", &at(folder), "--device", "cpu"]).args(more);
        command.stderr(std::process::Stdio::piped());
        command
    };
    // As `| head -0` does.
    let mut child = predict("closed", &["--json"]).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    assert!(child.wait().expect("it ends").success());
    assert_eq!(written("closed"), 4);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = predict("full", &[]).stdout(full).output().expect("it starts");
    assert_eq!((output.status.code(), written("full")), (Some(1), 4));
    let said = errors(&output);
    assert!(said.matches("cannot write to standard output: No space left").count() == 1, "{said}");
}

/// Changes the list of a data set.
fn dataset(data: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let path = data.join("dataset.json");
    let mut list = serde_json::from_slice(&std::fs::read(&path).expect("a list")).expect("JSON");
    change(&mut list);
    std::fs::write(path, list.to_string()).expect("written");
}

/// The first file of a folder of a data set.
fn first(data: &Path, folder: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(data.join(folder)).expect("a folder");
    entries.map(|entry| entry.expect("an entry").path()).min().expect("a file")
}

/// Changes the values of the first file of a folder.
fn values(data: &Path, folder: &str, change: impl FnOnce(Tensor<4>) -> Tensor<4>) {
    let path = first(data, folder);
    let image = read_nifti(&path).expect("a volume");
    let image = Image { data: change(image.data.clone()), ..image };
    write_nifti(&path, &image, NiftiOptions::default()).expect("written");
}

type Damage = fn(&Path);

/// Images and labels in folders of the usual names need no list.
fn no_list(data: &Path) {
    std::fs::remove_file(data.join("dataset.json")).expect("removed");
    std::fs::rename(data.join("labelsTr"), data.join("drawn")).expect("renamed");
}

/// Data sets that cannot be used, and parts of the error.
const DAMAGES: [(&str, Damage, &[&str]); 8] = [
    ("no folder", |data| std::fs::remove_dir_all(data).expect("removed"), &["no such file or folder"]),
    ("no list", no_list, &["no dataset.json"]),
    ("a damaged list", |data| std::fs::write(data.join("dataset.json"), "{").expect("written"), &["dataset.json"]),
    ("no cases", |data| dataset(data, |list| list["training"] = serde_json::json!([])), &["names no case"]),
    ("a missing file", |data| std::fs::remove_file(first(data, "labelsTr")).expect("removed"), &["labelsTr"]),
    (
        "other classes",
        |data| dataset(data, |list| list["labels"] = serde_json::json!({"0": "background", "1": "a", "2": "b"})),
        &["labels up to 2", "knows 2"],
    ),
    ("a label beyond the classes", |data| values(data, "labelsTr", |data| data * 7.0), &["other values: 7"]),
    ("two channels", |data| values(data, "imagesTr", |data| data.repeat_dim(0, 2)), &["2 channels"]),
];

/// A dry run ends like the training: with exit code 1, and the fault of the data.
#[test]
fn a_dry_run_fails_where_the_data_cannot_be_used() {
    for (name, damage, words) in DAMAGES {
        let dir = temporary();
        let (data, recipe) = (phantom(dir.path(), 3), text(&tiny_recipe(dir.path())));
        damage(&data);
        let out = text(&dir.path().join("run"));
        let train = ["train", &recipe, "--data", &text(&data), "--out", &out, "--device", "cpu"];
        // Only the error, without the notes before it.
        let error = |more: &[&str]| {
            let output = run(&[&train[..], more].concat());
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(1), "{name}: {said}");
            said.lines().skip_while(|line| !line.starts_with("error")).collect::<Vec<_>>().join("\n")
        };
        let dry = error(&["--dry-run"]);
        words.iter().for_each(|word| assert!(dry.contains(word), "{name}: {word:?} is not in {dry}"));
        assert_eq!(dry, error(&[]), "{name}");
    }
}

/// `--plugin` accepts the name of a bundled plugin wherever it accepts a path.
#[test]
fn a_plugin_is_given_by_its_name() {
    let dir = temporary();
    let (data, recipe) = (text(&phantom(dir.path(), 2)), text(&tiny_recipe(dir.path())));
    let out = text(&dir.path().join("run"));
    let train = ["train", &recipe, "--data", &data, "--out", &out, "--device", "cpu", "--dry-run"];
    let plugins = |more: &[&str]| -> Vec<String> {
        let shown = succeed(&[&train[..], more].concat());
        let list =
            shown.lines().skip_while(|line| *line != "plugins").skip(1).take_while(|line| line.starts_with("  "));
        list.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    };
    let without = plugins(&[]);
    assert!(!without.contains(&"nvtx".to_owned()), "{without:?}");
    assert_eq!(plugins(&["--plugin", "nvtx"]), [without.clone(), vec!["nvtx".to_owned()]].concat());
    // A plugin that the recipe already lists is not added again.
    assert_eq!(plugins(&["--plugin", "stats"]), without);
    assert_eq!(plugins(&["--plugin", "nvtx", "--isolated=nvtx"]).last().map(String::as_str), Some("nvtx"));
    assert!(succeed(&["plugin", "list", "--plugin", "nvtx"]).contains("nvtx"));
    fail(&["plugin", "list", "--plugin", "nvtz"], 1, &["did you mean nvtx?"]);
    fail(&["profile", &recipe, "--data", &data, "--out", &out, "--plugin", "nvtz"], 1, &["did you mean nvtx?"]);
}
