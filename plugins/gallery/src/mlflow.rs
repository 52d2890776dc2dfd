//! A Hearth plugin that logs a run in the files of MLflow: `mlflow ui` shows them (since MLflow 3 with
//! MLFLOW_ALLOW_FILE_STORE=true), and `mlflow migrate-filestore` moves them to a data base. JSON is YAML.

use std::{fs, io, io::Write, path::Path, path::PathBuf, time::UNIX_EPOCH};

use hearth_plugin::serde_json::{self, Value, json};
use hearth_plugin::{Context, Event, Fault, Handler, HandlerError, When, export_plugin, options};

options! {
    /// Options in a recipe.
    pub struct Options {
        /// The folder that `mlflow ui --backend-store-uri` names.
        folder: PathBuf = "mlruns".into(),
        /// The experiment: letters, digits, `-` and `_`.
        experiment: String = "hearth".into(),
    }
}

/// Adds epochs to a run. Its start is kept in checkpoints, so that a resumed run is the same one.
pub struct Mlflow(Options);

impl Mlflow {
    /// The handler with these options; fails if the experiment is not a name of a folder that MLflow reads.
    pub fn new(options: Options) -> Result<Self, Fault> {
        let plain = options.experiment.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        plain.then_some(Self(options)).ok_or_else(|| Fault::at("experiment", "use letters, digits, `-` and `_`"))
    }
}

fn parameters(to: &Path, name: &str, value: &Value) -> io::Result<()> {
    let Value::Object(map) = value else { return fs::write(to.join(name), value.to_string().trim_matches('"')) };
    map.iter().try_for_each(|(key, value)| parameters(to, format!("{name}.{key}").trim_start_matches('.'), value))
}

impl Handler for Mlflow {
    fn name(&self) -> &str {
        "mlflow"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![(Event::EpochCompleted | Event::Completed | Event::ExceptionRaised).filter(|state, _| state.rank == 0)]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let info: Value = serde_json::from_str(&cx.host.run_info()?)?;
        let now = UNIX_EPOCH.elapsed()?.as_millis() as u64;
        let start: u64 = cx.host.recall("start").map_or(Ok(now), |text| String::from_utf8_lossy(&text).parse())?;
        cx.host.remember("start", start.to_string().as_bytes())?;
        let (id, name, folder) = (format!("{start:032x}"), &self.0.experiment, &info["run_folder"]);
        let run = self.0.folder.join(name).join(&id);
        if !run.exists() {
            ["params", "metrics", "artifacts"].iter().try_for_each(|name| fs::create_dir_all(run.join(name)))?;
            parameters(&run.join("params"), "", &info["recipe"])?;
            let meta =
                json!({"experiment_id": name, "name": name, "artifact_location": "", "lifecycle_stage": "active"});
            fs::write(run.with_file_name("meta.yaml"), meta.to_string())?;
        }
        let status = if event == Event::EpochCompleted {
            1
        } else if event == Event::Completed {
            3
        } else {
            4
        };
        let meta = json!({"run_id": id, "run_uuid": id, "run_name": folder, "artifact_uri": folder, "experiment_id": name,
            "status": status, "start_time": start, "end_time": (status > 1).then_some(now), "user_id": ""});
        fs::write(run.join("meta.yaml"), meta.to_string())?;
        let more = [("learning_rate", cx.host.learning_rate()), ("loss", cx.host.output("mean_loss").ok())];
        let numbers = cx.state.metrics.iter().map(|(name, value)| (name.as_str(), Some(*value))).chain(more);
        for (name, value) in numbers.filter(|(_, value)| value.is_some() && status == 1) {
            let line = format!("{now} {} {}\n", value.unwrap_or(f64::NAN), cx.state.epoch);
            let file = run.join("metrics").join(name.replace('/', "_"));
            fs::File::options().create(true).append(true).open(file)?.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

export_plugin!("mlflow", Options, Mlflow::new, needs: [FILES]);
