//! What other programs read in the files of the plugins: MLflow, wandb, pynrrd and SimpleITK.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_gallery::nrrd_writer::Nhdr;
use hearth_plugin::component::{Array, Writer};
use hearth_plugin::serde_json::{Value, from_str, json, to_string_pretty};

use crate::{clients, mlflow, wandb};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn temporary(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gallery-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// All files of a folder with their contents.
fn contents(folder: &Path, below: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            found.extend(contents(&entry.path(), &format!("{name}/")));
        } else {
            found.push((name, fs::read_to_string(entry.path()).expect("text")));
        }
    }
    found
}

/// The same without the times at which they were written; what is JSON is read.
fn without_times(files: Vec<(String, String)>) -> Value {
    let line = |line: &str| format!("{}\n", line.split_once(' ').map_or("", |(_, rest)| rest));
    let content = |name: &str, text: &str| match from_str(text) {
        Ok(Value::Object(mut meta)) => {
            meta.remove("end_time");
            Value::Object(meta)
        }
        _ if name.contains("/metrics/") => text.lines().map(line).collect::<String>().into(),
        _ => text.into(),
    };
    files.iter().map(|(name, text)| (name.clone(), content(name, text))).collect()
}

/// What a client read, next to the files that it read.
fn record(name: &str, made_with: &str, reading: &Value, files: &Value) {
    let record = json!({"made_with": made_with, "reading": reading, "files": files});
    fs::create_dir_all(recorded("")).expect("a folder");
    fs::write(recorded(name), to_string_pretty(&record).expect("JSON") + "\n").expect("written");
}

fn record_of(name: &str) -> Value {
    from_str(&fs::read_to_string(recorded(name)).expect("a record")).expect("JSON")
}

const READ_MLFLOW: &str = r#"
import json, os, sys
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow.tracking import MlflowClient
client = MlflowClient("file://" + sys.argv[1])
experiment = client.get_experiment_by_name("spleen")
[run] = client.search_runs([experiment.experiment_id])
history = lambda name: [[m.step, m.value if m.value == m.value else "NaN"] for m in client.get_metric_history(run.info.run_id, name)]
print(json.dumps({
    "run": [run.info.run_id, run.info.status, run.info.run_name, run.info.artifact_uri, run.info.start_time],
    "ended": run.info.end_time >= run.info.start_time,
    "parameters": run.data.params,
    "metrics": {name: history(name) for name in sorted(run.data.metrics)},
}))"#;

fn mlflow_files() -> (PathBuf, Value) {
    let folder = temporary("mlflow");
    mlflow::rehearse(&folder);
    let files = without_times(contents(&folder, ""));
    (folder, files)
}

#[test]
fn a_run_is_what_mlflow_read() {
    let (folder, files) = mlflow_files();
    let said = record_of("mlflow.json");
    assert_eq!(files, said["files"], "MLflow has not read these. {}", clients::how_to_record("hearth-gallery"));
    assert_eq!(said["reading"]["run"][1], "FINISHED");
    assert_eq!(said["reading"]["metrics"]["mean_dice"].to_string(), r#"[[1,0.5],[2,"NaN"]]"#);
    assert_eq!(said["reading"]["parameters"]["network.name"], "UNet");
    fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn live_mlflow() {
    let Some(client) = clients::find(&["mlflow"], "a_run_is_what_mlflow_read") else { return };
    let (folder, files) = mlflow_files();
    let reading: Value = from_str(&client.run(READ_MLFLOW, [&folder])).expect("JSON");
    if clients::recording() {
        record("mlflow.json", &client.versions(), &reading, &files);
    }
    assert_eq!(reading, record_of("mlflow.json")["reading"]);
    fs::remove_dir_all(folder).expect("removed");
}

/// Needs a version with the reader in Python, before 0.20: newer ones read in Go.
const READ_WANDB: &str = r#"
import json, sys, wandb
wandb._set_internal_process(disable=True)
from wandb.proto.wandb_internal_pb2 import Record
from wandb.sdk.internal.datastore import DataStore
store = DataStore()
store.open_for_scan(sys.argv[1])
items = lambda list: {item.key: json.loads(item.value_json) for item in list}
read = []
while (data := store.scan_data()) is not None:
    record = Record()
    record.ParseFromString(data)
    kind = record.WhichOneof("record_type")
    if kind == "run":
        run = record.run
        config = {key: value if len(str(value)) < 100 else len(value) for key, value in items(run.config.update).items()}
        read.append([kind, run.run_id, run.project, config])
    elif kind == "history":
        read.append([kind, record.history.step.num, items(record.history.item)])
    elif kind == "summary":
        read.append([kind, items(record.summary.update)])
    else:
        read.append([kind, record.exit.exit_code])
print(json.dumps(read))"#;

/// The log of a run whose recipe needs two blocks, and its letters that are not `x`.
fn wandb_log() -> (Vec<u8>, Value) {
    let (_, log) = wandb::rehearse(&"x".repeat(33_000));
    let letters: Vec<u8> = log.iter().copied().filter(|byte| *byte != b'x').collect();
    let hex: String = letters.iter().map(|byte| format!("{byte:02x}")).collect();
    (log, Value::from(hex))
}

#[test]
fn a_log_is_what_wandb_read() {
    let (log, hex) = wandb_log();
    let said = record_of("wandb.json");
    assert_eq!(hex, said["files"], "wandb has not read this. {}", clients::how_to_record("hearth-gallery"));
    assert!(log.len() > 33_000);
    let reading = &said["reading"];
    let recipe = json!({"network": {"name": "UNet"}, "note": 33_000});
    assert_eq!(reading[0], json!(["run", "0123abcd", "spleen", recipe]));
    assert_eq!(reading[2], json!(["history", 1, {"mean_dice": 0.5, "lr": 0.125, "loss": 0.75, "_step": 1}]));
    assert_eq!(reading[5], json!(["exit", 0]));
}

#[test]
fn live_wandb() {
    let Some(client) = clients::find(&["wandb", "wandb.sdk.internal.datastore"], "a_log_is_what_wandb_read") else {
        return;
    };
    let folder = temporary("wandb");
    let (log, hex) = wandb_log();
    fs::write(folder.join("run.wandb"), log).expect("written");
    let reading: Value = from_str(&client.run(READ_WANDB, [folder.join("run.wandb")])).expect("JSON");
    if clients::recording() {
        record("wandb.json", &client.run("import wandb; print('wandb', wandb.__version__)", [""; 0]), &reading, &hex);
    }
    assert_eq!(reading, record_of("wandb.json")["reading"]);
    fs::remove_dir_all(folder).expect("removed");
}

const READ_NRRD: &str = r#"
import json, sys, nrrd, numpy, SimpleITK
data, header = nrrd.read(sys.argv[1])
image = SimpleITK.ReadImage(sys.argv[1])
print(json.dumps({
    "pynrrd": [list(data.shape), data.flatten().tolist(), numpy.nan_to_num(header["space directions"]).tolist(), header["space origin"].tolist()],
    "SimpleITK": [image.GetSize(), image.GetNumberOfComponentsPerPixel(), numpy.ravel(SimpleITK.GetArrayFromImage(image)).tolist(),
                  image.GetSpacing(), image.GetDirection(), image.GetOrigin()],
}))"#;

/// An image of two channels, 2 x 1 x 2 voxels of 2 x 3 x 4 mm, and the files of the plugin.
fn nrrd_files() -> (PathBuf, Value) {
    let folder = temporary("nrrd");
    let affine = [[2.0, 0.0, 0.0, -10.0], [0.0, 3.0, 0.0, 20.0], [0.0, 0.0, 4.0, 30.0], [0.0, 0.0, 0.0, 1.0]];
    let values: Vec<f32> = (0..8).map(|value| value as f32).collect();
    let image = Array { affine, ..Array::new(vec![2, 2, 1, 2], values).expect("eight values") };
    let files = Nhdr.write(image, &folder.join("case.nhdr"), "case").expect("written");
    let header = fs::read_to_string(&files[0]).expect("text");
    let hex: String = fs::read(&files[1]).expect("bytes").iter().map(|byte| format!("{byte:02x}")).collect();
    (folder, json!([header, hex]))
}

#[test]
fn an_image_is_what_pynrrd_and_simpleitk_read() {
    let (folder, files) = nrrd_files();
    let said = record_of("nrrd.json");
    assert_eq!(files, said["files"], "they have not read these. {}", clients::how_to_record("hearth-gallery"));
    let (pynrrd, itk) = (&said["reading"]["pynrrd"], &said["reading"]["SimpleITK"]);
    // pynrrd has the axes c, x, y, z; the values are in that order, so they are those of the image.
    assert_eq!(pynrrd[0].to_string(), "[2,2,1,2]");
    assert_eq!(pynrrd[1].to_string(), "[0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0]");
    // ITK has z, y, x, c, and LPS: the signs of x and y differ.
    assert_eq!((itk[0].to_string(), itk[1].to_string()), ("[2,1,2]".into(), "2".into()));
    assert_eq!(itk[2].to_string(), "[0.0,4.0,2.0,6.0,1.0,5.0,3.0,7.0]");
    assert_eq!((itk[3].to_string(), itk[5].to_string()), ("[2.0,3.0,4.0]".into(), "[10.0,-20.0,30.0]".into()));
    fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn live_nrrd() {
    let Some(client) = clients::find(&["nrrd", "SimpleITK", "numpy"], "an_image_is_what_pynrrd_and_simpleitk_read")
    else {
        return;
    };
    let (folder, files) = nrrd_files();
    let reading: Value = from_str(&client.run(READ_NRRD, [folder.join("case.nhdr")])).expect("JSON");
    if clients::recording() {
        record("nrrd.json", &client.versions(), &reading, &files);
    }
    assert_eq!(reading, record_of("nrrd.json")["reading"]);
    fs::remove_dir_all(folder).expect("removed");
}
