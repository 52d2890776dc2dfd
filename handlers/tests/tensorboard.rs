//! Event files: the framing checked by a reader in this file, the content by TensorBoard's.

#[path = "../../tests/clients.rs"]
mod clients;
mod mock;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use hearth_engine::{Better, Engine, Event, HandlerError, Snapshot};
use hearth_handlers::build;
use mock::Trainer;
use protobuf::Message;
use protobuf::well_known_types::Value_oneof_kind as Kind;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tensorboard_proto::event::Event as Record;
use tensorboard_proto::plugin_hparams::HParamsPluginData;

/// CRC-32C bit by bit, from its polynomial.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 & (crc & 1).wrapping_neg()))
    })
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[test]
fn the_checksum_of_the_tests_is_the_published_one() {
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
}

/// Reads a TFRecord file; every checksum must match and no bytes may remain.
fn records(path: &Path) -> Vec<Record> {
    let bytes = fs::read(path).unwrap();
    let (mut rest, mut records) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let (length, after) = rest.split_at(8);
        let size = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let word = |at: usize| u32::from_le_bytes(after[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), masked(length));
        let data = &after[4..4 + size];
        assert_eq!(word(4 + size), masked(data));
        records.push(Record::parse_from_bytes(data).unwrap());
        rest = &after[8 + size..];
    }
    records
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// (tag, step, value) of every scalar in a folder's only file.
fn scalars(folder: &Path) -> Vec<(String, i64, f32)> {
    let files = files(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let records = records(&files[0]);
    assert_eq!(records[0].get_file_version(), "brain.Event:2");
    let points = records.iter().flat_map(|r| r.get_summary().get_value().iter().map(move |v| (r.get_step(), v)));
    points
        .filter(|(_, v)| !v.has_image())
        .map(|(step, v)| (v.get_tag().to_owned(), step, v.get_simple_value()))
        .collect()
}

/// The content of a folder: for each tag, step and value, or step, width, height and bytes.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Reading {
    scalars: BTreeMap<String, Vec<(i64, f32)>>,
    images: BTreeMap<String, Vec<(i64, i32, i32, usize)>>,
}

/// Reads with the reader in this file.
fn reading(records: &[Record]) -> Reading {
    let mut reading = Reading::default();
    for (step, value) in records.iter().flat_map(|r| r.get_summary().get_value().iter().map(|v| (r.get_step(), v))) {
        let (tag, image) = (value.get_tag().to_owned(), value.get_image());
        match value.has_image() {
            true => reading.images.entry(tag).or_default().push((
                step,
                image.get_width(),
                image.get_height(),
                image.get_encoded_image_string().len(),
            )),
            false => reading.scalars.entry(tag).or_default().push((step, value.get_simple_value())),
        }
    }
    reading
}

/// Reads with TensorBoard.
const SCRIPT: &str = r#"
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0})
a.Reload()
tags = a.Tags()
print(json.dumps({
    "scalars": {t: [[e.step, e.value] for e in a.Scalars(t)] for t in tags["scalars"]},
    "images": {t: [[e.step, e.width, e.height, len(e.encoded_image_string)] for e in a.Images(t)] for t in tags["images"]},
}))"#;

/// TensorBoard's result for `run.tfevents`, a file of `run_with_curves_and_pictures`.
#[derive(Serialize, Deserialize)]
struct Recorded {
    made_with: String,
    reading: Reading,
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

/// Its only event file.
fn run_with_curves_and_pictures(run: &Path) -> PathBuf {
    let mut engine = engine(run, 3);
    engine.add_boxed(build("TensorBoardImage", json!({"every": 2}), run).unwrap()).unwrap();
    engine.run(&mut with_volume(), 4).unwrap();
    let files = files(&run.join("tensorboard"));
    assert_eq!(files.len(), 1, "both handlers write to one file: {files:?}");
    files[0].clone()
}

/// Removes what differs between two runs and between two versions of a PNG encoder.
fn comparable(mut records: Vec<Record>) -> Vec<Record> {
    for record in &mut records {
        record.clear_wall_time();
        // A record without a summary is unchanged.
        let values = if record.has_summary() { record.mut_summary().mut_value().iter_mut() } else { [].iter_mut() };
        for value in values.filter(|value| value.has_image()) {
            let (.., pixels) = decode(value.get_image().get_encoded_image_string());
            value.mut_image().set_encoded_image_string(pixels.concat());
        }
    }
    records
}

#[test]
fn a_run_writes_what_tensorboard_read() {
    let text = fs::read_to_string(recorded("tensorboard.json")).unwrap();
    let said: Recorded = serde_json::from_str(&text).unwrap();
    let theirs = records(&recorded("run.tfevents"));
    assert_eq!(reading(&theirs), said.reading, "the reader of these tests is not TensorBoard's");
    assert_eq!((said.reading.scalars.len(), said.reading.images.len()), (5, 1));
    let run = tempfile::tempdir().unwrap();
    let ours = records(&run_with_curves_and_pictures(run.path()));
    let how = clients::how_to_record("hearth-handlers");
    assert_eq!(comparable(ours), comparable(theirs), "TensorBoard has not read this file. {how}");
}

#[test]
fn live_tensorboard() {
    let Some(client) = clients::find(&["tensorboard"], "a_run_writes_what_tensorboard_read") else { return };
    let run = tempfile::tempdir().unwrap();
    let file = run_with_curves_and_pictures(run.path());
    let said: Reading = serde_json::from_str(&client.run(SCRIPT, [file.parent().unwrap()])).unwrap();
    assert_eq!(said, reading(&records(&file)));
    if clients::recording() {
        fs::copy(&file, recorded("run.tfevents")).unwrap();
        let record = Recorded { made_with: client.versions(), reading: said };
        fs::write(recorded("tensorboard.json"), serde_json::to_string(&record).unwrap() + "\n").unwrap();
    }
}

/// Reads with the code of TensorBoard's page HPARAMS: the settings and the metrics of each session.
const SESSIONS: &str = r#"
import json, sys
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups
runs = plugin_event_multiplexer.EventMultiplexer()
runs.AddRunsFromDirectory(sys.argv[1])
runs.Reload()
provider = data_provider.MultiplexerDataProvider(runs, sys.argv[1])
context = backend_context.Context(base_plugin.TBContext(logdir=sys.argv[1], data_provider=provider))
experiment = get_experiment.Handler(RequestContext(), context, "runs", api_pb2.GetExperimentRequest()).run()
known = [api_pb2.STATUS_UNKNOWN, api_pb2.STATUS_SUCCESS, api_pb2.STATUS_FAILURE, api_pb2.STATUS_RUNNING]
request = api_pb2.ListSessionGroupsRequest(
    start_index=0, slice_size=9, allowed_statuses=known,
    col_params=[api_pb2.ColParams(metric=info.name) for info in experiment.metric_infos])
groups = list_session_groups.Handler(RequestContext(), context, "runs", request).run()
value = lambda v: getattr(v, v.WhichOneof("kind"))
print(json.dumps({
    "settings": sorted(info.name for info in experiment.hparam_infos),
    "sessions": {s.name: {
        "settings": {name: value(v) for name, v in g.hparams.items()},
        "metrics": {m.name.tag: [m.training_step, m.value] for m in s.metric_values},
        "status": api_pb2.Status.Name(s.status),
    } for g in groups.session_groups for s in g.sessions},
}))"#;

/// The sessions of a folder of runs.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sessions {
    /// The settings of any session.
    settings: Vec<String>,
    sessions: BTreeMap<String, Session>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Session {
    settings: BTreeMap<String, Value>,
    metrics: BTreeMap<String, (i64, f32)>,
    status: String,
}

/// TensorBoard's result for `first.tfevents` and `second.tfevents`, the files of runs as in `two_runs`.
#[derive(Serialize, Deserialize)]
struct RecordedSessions {
    made_with: String,
    read: Sessions,
}

/// Two runs of recipes with settings in common, one of which fails; the event file of each.
fn two_runs(runs: &Path) -> [PathBuf; 2] {
    let recipes = [
        json!({"network": {"name": "UNet", "channels": [16, 32]}, "optimizer": {"name": "Adam", "lr": 0.001}}),
        json!({"network": {"name": "UNet", "dropout": 0.5}, "optimizer": {"name": "SGD", "lr": 0.1, "nesterov": true}}),
    ];
    let mut runs = ["first", "second"].into_iter().zip(recipes).map(|(name, recipe)| {
        let run = runs.join(name);
        let mut engine = engine(&run, 0);
        engine.set_key_metric("dice", Better::Higher);
        engine.set_run_info(json!({"recipe": recipe, "world_size": 1}).to_string());
        if name == "second" {
            engine.on(Event::EpochCompleted.once(3), |_| Err(HandlerError::new("enough"))).unwrap();
        }
        assert_eq!(engine.run(&mut trainer(), 4).is_err(), name == "second");
        files(&run.join("tensorboard")).remove(0)
    });
    [(); 2].map(|()| runs.next().unwrap())
}

/// Reads sessions with the reader in this file.
fn sessions(files: &[PathBuf; 2]) -> Sessions {
    let mut found = BTreeMap::new();
    for (name, file) in ["first", "second"].into_iter().zip(files) {
        let mut session =
            Session { settings: BTreeMap::new(), metrics: BTreeMap::new(), status: "STATUS_RUNNING".into() };
        for record in records(file) {
            for value in record.get_summary().get_value() {
                if value.get_metadata().get_plugin_data().get_plugin_name() != "hparams" {
                    session.metrics.insert(value.get_tag().to_owned(), (record.get_step(), value.get_simple_value()));
                    continue;
                }
                let content = value.get_metadata().get_plugin_data().get_content();
                let data = HParamsPluginData::parse_from_bytes(content).unwrap();
                if data.has_session_end_info() {
                    session.status = format!("{:?}", data.get_session_end_info().get_status());
                }
                for (name, setting) in data.get_session_start_info().get_hparams() {
                    let setting = match setting.kind.clone().unwrap() {
                        Kind::number_value(number) => json!(number),
                        Kind::bool_value(value) => json!(value),
                        Kind::string_value(text) => json!(text),
                        other => panic!("{other:?}"),
                    };
                    session.settings.insert(name.clone(), setting);
                }
            }
        }
        found.insert(format!("{name}/tensorboard"), session);
    }
    let names: BTreeSet<&String> = found.values().flat_map(|session| session.settings.keys()).collect();
    Sessions { settings: names.into_iter().cloned().collect(), sessions: found }
}

#[test]
fn runs_are_sessions_that_tensorboard_compared() {
    let text = fs::read_to_string(recorded("hparams.json")).unwrap();
    let said: RecordedSessions = serde_json::from_str(&text).unwrap();
    let theirs = ["first.tfevents", "second.tfevents"].map(recorded);
    assert_eq!(sessions(&theirs), said.read, "the reader of these tests is not TensorBoard's");
    let runs = tempfile::tempdir().unwrap();
    let ours = sessions(&two_runs(runs.path()));
    assert_eq!(ours, said.read, "TensorBoard has not read these files. {}", clients::how_to_record("hearth-handlers"));
    let [first, second] = ["first", "second"].map(|name| &ours.sessions[&format!("{name}/tensorboard")]);
    assert_eq!((first.status.as_str(), second.status.as_str()), ("STATUS_SUCCESS", "STATUS_FAILURE"));
    assert_eq!(first.settings["network.channels"], "16, 32");
    assert_eq!((first.metrics["best/dice"], second.metrics["best/dice"]), ((4, 0.4), (3, 0.2)));
}

#[test]
fn live_tensorboard_sessions() {
    let Some(client) = clients::find(&["tensorboard"], "runs_are_sessions_that_tensorboard_compared") else { return };
    let runs = tempfile::tempdir().unwrap();
    let files = two_runs(runs.path());
    let said: Sessions = serde_json::from_str(&client.run(SESSIONS, [runs.path()])).unwrap();
    assert_eq!(said, sessions(&files));
    if clients::recording() {
        for (file, name) in files.iter().zip(["first.tfevents", "second.tfevents"]) {
            fs::copy(file, recorded(name)).unwrap();
        }
        let record = RecordedSessions { made_with: client.versions(), read: said };
        fs::write(recorded("hparams.json"), serde_json::to_string(&record).unwrap() + "\n").unwrap();
    }
}

#[test]
fn a_resumed_run_is_one_session() {
    let run = tempfile::tempdir().unwrap();
    let engine = || {
        let mut engine = engine(run.path(), 0);
        engine.set_run_info(json!({"recipe": {"optimizer": {"lr": 0.1}}}).to_string());
        engine
    };
    let mut first = trainer();
    engine().run(&mut first, 3).unwrap();
    let mut second = engine();
    second.restore(&saved(&first, 2)).unwrap();
    second.run(&mut trainer(), 4).unwrap();
    drop(second);
    let records = records(&files(&run.path().join("tensorboard"))[0]);
    let tags: Vec<&str> =
        records.iter().flat_map(|r| r.get_summary().get_value()).map(|value| value.get_tag()).collect();
    let count = |tag: &str| tags.iter().filter(|known| **known == tag).count();
    assert_eq!((count("_hparams_/session_start_info"), count("_hparams_/session_end_info")), (1, 1), "{tags:?}");
}

fn trainer() -> Trainer {
    let mut trainer = Trainer::new(4);
    trainer.metrics = |e| if e % 2 == 0 { vec![("dice", e as f64 / 10.0), ("loss/mean", 1.0)] } else { vec![] };
    trainer
}

fn engine(run: &Path, every: u64) -> Engine {
    let mut engine = Engine::new("trainer");
    engine
        .on(Event::EpochCompleted.once(3), |cx| {
            cx.host.scalar("lesions", 7.0);
            Ok(())
        })
        .unwrap();
    engine.add_boxed(build("TensorBoardStats", json!({"every_iterations": every}), run).unwrap()).unwrap();
    mock::checkpoints(&mut engine);
    engine
}

#[test]
fn curves() {
    let run = tempfile::tempdir().unwrap();
    engine(run.path(), 3).run(&mut trainer(), 4).unwrap();
    let folder = run.path().join("tensorboard");
    let found = scalars(&folder);
    let of = |tag: &str| found.iter().filter(|(t, ..)| t == tag).map(|(_, step, v)| (*step, *v)).collect::<Vec<_>>();
    assert_eq!(of("train/loss"), [3, 6, 9, 12, 15].map(|i| (i, (1.0 / i as f64) as f32)));
    assert_eq!(of("learning_rate"), [3, 6, 9, 12, 15].map(|i| (i, 0.1)));
    assert_eq!(of("dice"), [(2, 0.2), (4, 0.4)], "only where it was computed");
    assert_eq!(of("lesions"), [(12, 7.0)], "handed out once, written once");
}

fn saved(trainer: &Trainer, epoch: usize) -> Snapshot {
    trainer.saved.lock().unwrap()[epoch - 1].1.clone()
}

#[test]
fn a_resumed_run_goes_on_in_the_same_file_and_repeats_nothing() {
    let whole = tempfile::tempdir().unwrap();
    engine(whole.path(), 1).run(&mut trainer(), 5).unwrap();
    let wanted = scalars(&whole.path().join("tensorboard"));

    // Killed at the end of epoch 4, resumed from the checkpoint of epoch 2.
    let run = tempfile::tempdir().unwrap();
    let mut first = trainer();
    engine(run.path(), 1).run(&mut first, 4).unwrap();
    let mut second = engine(run.path(), 1);
    second.restore(&saved(&first, 2)).unwrap();
    second.run(&mut trainer(), 5).unwrap();
    drop(second);
    assert_eq!(scalars(&run.path().join("tensorboard")), wanted);

    // A file that was removed, and a checkpoint that names a file elsewhere: a new file is written,
    // and nothing else is changed.
    let other = tempfile::tempdir().unwrap();
    let stranger = other.path().join("stranger");
    fs::write(&stranger, "not yours").unwrap();
    let mut snapshot = saved(&first, 2);
    let mark = json!({"file": "../stranger", "length": 0}).to_string();
    snapshot.handlers.insert("tensorboard_stats".into(), mark.into_bytes());
    let mut third = engine(other.path(), 1);
    third.restore(&snapshot).unwrap();
    third.run(&mut trainer(), 5).unwrap();
    drop(third);
    assert_eq!(fs::read(&stranger).unwrap(), b"not yours");
    assert_eq!(scalars(&other.path().join("tensorboard")).first().map(|(_, step, _)| *step), Some(9));
}

#[test]
fn a_cut_off_record_of_a_crash_is_gone_after_the_resume() {
    let run = tempfile::tempdir().unwrap();
    let mut first = trainer();
    engine(run.path(), 1).run(&mut first, 3).unwrap();
    let file = files(&run.path().join("tensorboard")).remove(0);
    let length = fs::metadata(&file).unwrap().len();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length - 3).unwrap();
    let mut second = engine(run.path(), 1);
    second.restore(&saved(&first, 2)).unwrap();
    second.run(&mut trainer(), 3).unwrap();
    drop(second);
    assert_eq!(fs::metadata(&file).unwrap().len(), length);
    records(&file);
}

/// A volume `[2, 1, 6, 4, 5]` whose value encodes the position, its label, and a prediction of
/// three channels.
fn with_volume() -> Trainer {
    let mut trainer = trainer();
    let shape = vec![2, 1, 6, 4, 5];
    let mut image = Vec::new();
    for b in 0..2 {
        for x in 0..6 {
            for y in 0..4 {
                image.extend((0..5).map(|z| (b * 1000 + x * 40 + y * 5) as f32 + if z == 2 { 0.0 } else { 500.0 }));
            }
        }
    }
    let label: Vec<f32> = (0..240).map(|i| if i / 20 % 6 == 5 { 1.0 } else { 0.0 }).collect();
    let mut pred = vec![0.0; 2 * 3 * 120];
    // Channel 2 of item 0 is the largest everywhere.
    pred[240..360].fill(0.9);
    trainer.tensors.insert("image", (shape.clone(), image));
    trainer.tensors.insert("label", (shape, label));
    trainer.tensors.insert("pred", (vec![2, 3, 6, 4, 5], pred));
    trainer
}

fn decode(png: &[u8]) -> (usize, usize, Vec<[u8; 3]>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    (info.width as usize, info.height as usize, bytes.as_chunks().0.to_vec())
}

#[test]
fn pictures() {
    let run = tempfile::tempdir().unwrap();
    let mut engine = engine(run.path(), 0);
    engine.add_boxed(build("TensorBoardImage", json!({"every": 2}), run.path()).unwrap()).unwrap();
    engine.run(&mut with_volume(), 4).unwrap();
    let folder = run.path().join("tensorboard");
    let files = files(&folder);
    assert_eq!(files.len(), 1, "both handlers write to one file: {files:?}");
    let records = records(&files[0]);
    let pictures: Vec<_> =
        records.iter().filter(|r| r.get_summary().get_value().iter().any(|v| v.has_image())).collect();
    assert_eq!(pictures.iter().map(|r| r.get_step()).collect::<Vec<_>>(), [2, 4]);
    let value = &pictures[0].get_summary().get_value()[0];
    assert_eq!(value.get_tag(), "image | label | prediction");
    let (width, height, pixels) = decode(value.get_image().get_encoded_image_string());
    assert_eq!((value.get_image().get_width() as usize, value.get_image().get_height() as usize), (width, height));
    assert_eq!((width, height), (3 * 6 + 2 * 2, 4));
    let at = |x: usize, row: usize| pixels[row * width + x];
    // The slice z = 2 of item 0 from black at x 0, y 0 (bottom left) to white at x 5, y 3 (top
    // right).
    assert_eq!((at(0, 3), at(5, 0)), ([0; 3], [255; 3]));
    let grey = |x: usize, y: usize| ((x * 40 + y * 5) as f32 / 215.0 * 255.0).round() as u8;
    assert_eq!((at(2, 2), at(4, 0)), ([grey(2, 1); 3], [grey(4, 3); 3]));
    // The gap, the label's last column, the prediction's class 2.
    assert_eq!(at(6, 1), [96; 3]);
    assert_eq!((at(8 + 4, 0), at(8 + 5, 0)), ([0, 0, 0], [230, 159, 0]));
    assert_eq!(at(16, 0), [86, 180, 233]);
}

#[test]
fn pictures_of_other_axes_flat_images_and_what_cannot_be_drawn() {
    let draw = |options: Value, trainer: &mut Trainer| {
        let run = tempfile::tempdir().unwrap();
        let mut engine = Engine::new("validation");
        engine.add_boxed(build("TensorBoardImage", options, run.path()).unwrap()).unwrap();
        let result = engine.run(trainer, 1).map_err(|error| error.to_string());
        result.map(|_| {
            let records = records(&files(&run.path().join("tensorboard"))[0]);
            decode(records[1].get_summary().get_value()[0].get_image().get_encoded_image_string())
        })
    };
    // Across X: Y to the right (4), Z up (5).
    let (width, height, _) = draw(json!({"axis": 0, "tensors": ["image"]}), &mut with_volume()).unwrap();
    assert_eq!((width, height), (4, 5));
    // Without a label only the other two are shown.
    let mut predicting = with_volume();
    predicting.tensors.remove("label");
    assert_eq!(draw(json!({}), &mut predicting).unwrap().0, 14);
    // Flat images, as [B, C, X, Y] and with a depth of 1, for any axis.
    for shape in [vec![1, 1, 3, 2], vec![1, 1, 3, 2, 1]] {
        let mut flat = trainer();
        flat.tensors.insert("image", (shape, vec![0.0, 0.5, f32::NAN, 0.2, 0.1, 1.0]));
        let (width, height, pixels) = draw(json!({"axis": 1}), &mut flat).unwrap();
        assert_eq!((width, height), (3, 2));
        assert_eq!((pixels[3], pixels[2]), ([0; 3], [255; 3]));
    }
    // A probability is grey, not a class.
    let mut probability = trainer();
    probability.tensors.insert("image", (vec![1, 1, 2, 1], vec![0.0, 1.0]));
    probability.tensors.insert("pred", (vec![1, 1, 2, 1], vec![0.25, 0.75]));
    assert_eq!(draw(json!({}), &mut probability).unwrap().2[4..], [[0; 3], [255; 3]]);
    for (shape, options, says) in [
        (vec![6], json!({}), "not [B, C, X, Y]"),
        (vec![1, 1, 6, 1], json!({"item": 3}), "item 3 was requested, but the batch has 1"),
        (vec![1, 6, 1, 1], json!({"tensors": ["lable"]}), "none of the tensors lable is available"),
    ] {
        let mut bad = trainer();
        bad.tensors.insert("image", (shape, vec![0.0; 6]));
        let error = draw(options, &mut bad).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let run = tempfile::tempdir().unwrap();
    fs::write(run.path().join("tensorboard"), "a file").unwrap();
    let error = engine(run.path(), 1).run(&mut trainer(), 1).unwrap_err().to_string();
    assert!(error.contains("the TensorBoard file in ") && error.contains("cannot be written"), "{error}");
}
