//! The plugin in a rehearsed run, without a host.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_gallery::mlflow::{Mlflow, Options};
use hearth_plugin::serde_json::{Value, from_str};
use hearth_plugin::testkit::Rehearsal;
use hearth_plugin::{Event, Metrics, PluginOptions};

/// A run of two epochs.
pub fn rehearse(folder: &Path) -> Rehearsal<Mlflow> {
    let options = format!("folder = '{}'\nexperiment = 'spleen'", folder.display());
    let options = Options::from_toml(&options).expect("valid options");
    let mut run = Rehearsal::new(Mlflow::new(options).expect("valid values"));
    run.host.run_info = r#"{"run_folder": "/runs/first", "recipe":
        {"task": "segmentation", "network": {"name": "UNet", "channels": [8, 16]}, "epochs": 2, "seed": null}}"#
        .into();
    run.host.learning_rate = Some(0.125);
    run.host.outputs.insert("mean_loss".into(), 0.75);
    run.host.kept.insert("start".into(), b"1700000000000".to_vec());
    run.metrics = [0.5, f64::NAN].map(|dice| Metrics::from([("mean_dice".to_owned(), dice)])).to_vec();
    run.epochs(2, 1).expect("no error");
    run
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("mlflow-{name}-{}", std::process::id()))
}

fn meta(run: &Path) -> Value {
    from_str(&fs::read_to_string(run.join("meta.yaml")).expect("a file")).expect("JSON")
}

#[test]
fn a_run_is_written_in_the_layout_of_mlflow() {
    let folder = temporary("layout");
    let mut rehearsal = rehearse(&folder);
    let run = folder.join("spleen").join(format!("{:032x}", 1_700_000_000_000_u64));
    let read = |file: &str| fs::read_to_string(run.join(file)).expect(file);
    assert_eq!(meta(&folder.join("spleen"))["experiment_id"], "spleen");
    assert_eq!((&meta(&run)["status"], &meta(&run)["artifact_uri"]), (&Value::from(3), &Value::from("/runs/first")));
    let names = ["params/network.name", "params/network.channels", "params/epochs", "params/seed"];
    assert_eq!(names.map(read), ["UNet", "[8,16]", "2", "null"]);
    let lines = read("metrics/mean_dice");
    let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.split(' ').skip(1).collect()).collect();
    assert_eq!(lines, [["0.5", "1"], ["NaN", "2"]]);
    assert!(read("metrics/loss").lines().all(|line| line.contains(" 0.75 ")));
    assert!(read("metrics/learning_rate").lines().count() == 2);
    // The state of a checkpoint: a resumed run adds to the same one.
    rehearsal.metrics.push(Metrics::from([("mean_dice".to_owned(), 0.875)]));
    rehearsal.epochs(3, 1).expect("no error");
    assert!(read("metrics/mean_dice").ends_with(" 0.875 3\n"));
    rehearsal.fire(Event::ExceptionRaised).expect("no error");
    assert_eq!(meta(&run)["status"], 4);
    fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn one_process_writes_and_names_are_checked() {
    let folder = temporary("ranks");
    let options = format!("folder = '{}'", folder.display());
    let handler = Mlflow::new(Options::from_toml(&options).expect("valid options")).expect("valid values");
    let mut run = Rehearsal::new(handler);
    run.state.rank = 1;
    run.epochs(1, 1).expect("no error");
    assert!(!folder.exists());
    run.state.rank = 0;
    assert!(run.epochs(2, 1).is_err(), "without information about the run");
    let fault = Mlflow::new(Options::from_toml("experiment = 'a/b'").expect("a text")).err().expect("no folder");
    assert_eq!(fault.path, "experiment");
}
