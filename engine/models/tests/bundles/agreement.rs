//! A run rejects exactly what the list of needs names. Covers configs that failed after an empty
//! list, and those of the zoo.

use std::error::Error;
use std::path::Path;

use hearth_models::bundle::{Bundle, ConfigNeeds, RunOptions, needs, run};
use serde_json::{Value, json};

use crate::mistakes::bundle;
use crate::needs::configs;

type Tested = Result<(), Box<dyn Error>>;

/// The needs of a config, as `hearth bundle check` lists them.
fn checked(bundle: &Bundle, options: &RunOptions) -> Result<ConfigNeeds, String> {
    let all = needs(bundle, options).map_err(|error| error.line())?;
    all.into_iter().next().ok_or_else(|| "no config".to_owned())
}

fn options(config: &str) -> RunOptions {
    RunOptions { config_files: vec![config.to_owned()], ..RunOptions::default() }
}

/// The errors of the list, and the error of a run, if any.
fn both(folder: &Path, options: &RunOptions) -> Result<(Option<String>, Option<String>), Box<dyn Error>> {
    let bundle = Bundle::open(folder)?;
    let listed = match checked(&bundle, options) {
        Ok(config) => {
            let lines: Vec<String> = config.refusals().map(ToString::to_string).collect();
            Some(lines.join("\n")).filter(|_| !lines.is_empty())
        }
        Err(error) => Some(error),
    };
    let results = tempfile::tempdir()?;
    let options = RunOptions { results: Some(results.path().to_owned()), random_weights: true, ..options.clone() };
    let ran = run(&bundle, &options, &mut |_| {}).err().map(|error| error.line());
    Ok((listed, ran))
}

fn lambda(text: &str) -> Value {
    json!({"_target_": "Lambdad", "keys": "pred", "func": text})
}

type Change = fn(&mut Value);

/// Changes that both reject, with a part of both messages.
const REFUSED: [(&str, Change, &str); 20] = [
    (
        "an index by a text",
        |c| c["postprocessing"]["transforms"][0] = lambda("$lambda x: x['a']"),
        "an index by a text",
    ),
    ("index_select", |c| c["postprocessing"]["transforms"][0] = lambda("$lambda x: x.index_select(0)"), "index_select"),
    ("five axes", |c| c["postprocessing"]["transforms"][0] = lambda("$lambda x: x[0, 0, 0, 0, 0]"), "5 indices"),
    (
        "a slice outside",
        |c| c["postprocessing"]["transforms"][0] = lambda("$lambda x: [0][x]"),
        "index of a value that is not a tensor",
    ),
    ("a trainer", |c| c["evaluator"]["_target_"] = "SupervisedTrainer".into(), "trains"),
    ("no case", |c| c["data"] = json!([]), "the list of images is empty"),
    ("a missing image", |c| c["data"] = json!([{"image": "in.png"}, {"image": "none.png"}]), "none.png"),
    ("a case without its key", |c| c["data"] = json!([{"label": "in.png"}]), "has no `image`"),
    ("a GPU", |c| c["device"] = "$torch.device('gpu9')".into(), "gpu9"),
    ("a device of the engine", |c| c["evaluator"]["device"] = "gpu9".into(), "gpu9"),
    (
        "weights of two networks",
        |c| {
            c["evaluator"]["val_handlers"] = json!([{"_target_": "CheckpointLoader", "load_path": "in.png",
                "load_dict": {"a": "@network", "b": "@network"}}]);
        },
        "load_dict must name one network",
    ),
    (
        "weights without a file",
        |c| c["evaluator"]["val_handlers"] = json!([{"_target_": "CheckpointLoader", "load_dict": {"a": "@network"}}]),
        "has no load_path",
    ),
    (
        "a loader without a path",
        |c| {
            c["load"] = json!({"_target_": "CheckpointLoader", "load_dict": {"a": "@network"}});
            c["initialize"] = json!(["$@load(@evaluator)"]);
        },
        "has no load_path",
    ),
    ("a width of 0", |c| c["network_def"]["features"] = json!([0, 4, 4, 4, 4, 4]), "features"),
    ("too few features", |c| c["network_def"]["features"] = json!([4, 4]), "features"),
    (
        "an ambiguous truth",
        |c| {
            c["imports"] = json!(["$import os", "$import pandas"]);
            c["network"] = "$@network_def if pandas.read_csv('t.csv') else None".into();
        },
        "is ambiguous",
    ),
    (
        "an evaluator that only initialize runs",
        |c| {
            c["initialize"] = c["run"].clone();
            c.as_object_mut().map(|table| table.remove("run"));
        },
        "",
    ),
    ("no engine", |c| c["run"] = json!(["$None"]), "runs no evaluator"),
    ("a missing id", |c| c["run"] = json!(["$@evaluatr.run()"]), "evaluatr"),
    ("a name as of an unknown value", |c| c["network"] = json!({"_target_": "an unknown value"}), "an unknown value"),
];

/// Changes that both accept.
const TAKEN: [(&str, Change); 7] = [
    ("as it is", |_| {}),
    ("a channel of the tensor's", |c| c["postprocessing"]["transforms"][0] = lambda("$lambda x: x[1:2]")),
    ("an index beyond the sizes of a check", |c| {
        c["postprocessing"]["transforms"][0] = lambda("$lambda x: x[:1, 9:20]")
    }),
    ("halves that meet", |c| c["postprocessing"]["transforms"][0] = lambda("$lambda x: x[:1, :16] + x[:1, 16:]")),
    ("a handler that changes nothing", |c| c["evaluator"]["val_handlers"] = json!([{"_target_": "TerminateOnNan"}])),
    ("an option that changes nothing", |c| c["evaluator"]["amp_kwargs"] = json!({"_target_": "Wiggled"})),
    ("a key that a case may lack", |c| {
        c["preprocessing"]["transforms"][0]["keys"] = json!(["image", "label"]);
        c["preprocessing"]["transforms"][0]["allow_missing_keys"] = true.into();
    }),
];

#[test]
fn the_list_and_the_run_refuse_the_same() -> Tested {
    for (name, change, part) in REFUSED {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("t.csv"), "a,b\n1,2\n3,4\n")?;
        bundle(folder.path(), change)?;
        let (listed, ran) = both(folder.path(), &options("inference"))?;
        let (listed, ran) = (listed.ok_or(format!("{name}: listed")), ran.ok_or(format!("{name}: it ran")));
        let (listed, ran) = (listed?, ran?);
        assert!(listed.contains(part) && ran.contains(part), "{name}: {listed}\n{ran}");
    }
    Ok(())
}

#[test]
fn the_list_and_the_run_take_the_same() -> Tested {
    for (name, change) in TAKEN {
        let folder = tempfile::tempdir()?;
        bundle(folder.path(), change)?;
        let (listed, ran) = both(folder.path(), &options("inference"))?;
        assert!(listed.is_none() && ran.is_none(), "{name}: {listed:?}\n{ran:?}");
    }
    Ok(())
}

/// A run id that the config does not have, and a missing config.
#[test]
fn options_are_refused_by_both() -> Tested {
    let folder = tempfile::tempdir()?;
    bundle(folder.path(), |_| {})?;
    let no_id = RunOptions { run_id: Some("walk".to_owned()), ..options("inference") };
    let no_file = options("infer");
    for options in [no_id, no_file] {
        let (listed, ran) = both(folder.path(), &options)?;
        assert!(listed.is_some() && ran.is_some(), "{options:?}: {listed:?}\n{ran:?}");
    }
    Ok(())
}

#[test]
#[ignore = "reads real configs"]
fn every_config_of_the_zoo_is_refused_by_both_or_by_none() -> Tested {
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(configs())? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let bundle = Bundle::open(&path)?;
        for config in bundle.configs() {
            count += 1;
            let (listed, ran) = both(&path, &options(&config.name))?;
            if listed.is_some() != ran.is_some() {
                wrong.push(format!("{} {}: listed {listed:?}, ran {ran:?}", path.display(), config.name));
            }
        }
    }
    assert!(count > 100, "{count} configs");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}
