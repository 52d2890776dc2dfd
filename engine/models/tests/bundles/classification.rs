//! Classification with Inception v3: the range of its input, its list and its table.

use std::error::Error;
use std::path::Path;

use hearth_models::bundle::{Bundle, RunOptions, Told, needs, run};

use crate::replay::{all_weights, copy, stored};

type Tested<T = ()> = Result<T, Box<dyn Error>>;

const NAME: &str = "breast_density_classification";

fn options(overrides: &[(&str, &str)]) -> RunOptions {
    let config_files = vec!["configs/inference.json".to_owned(), "configs/replay.json".to_owned()];
    let overrides = overrides.iter().map(|(id, value)| ((*id).to_owned(), (*value).to_owned())).collect();
    RunOptions { config_files, overrides, overwrite: true, random_weights: true, ..RunOptions::default() }
}

/// The network's output for the first image.
fn first(folder: &Path, overrides: &[(&str, &str)]) -> Tested<Vec<f32>> {
    let mut outputs = Vec::new();
    let mut tell = |told: Told<'_>| {
        if let Told::Case(seen) = told {
            outputs.push(seen.output.clone().into_data().iter::<f32>().collect::<Vec<_>>());
        }
    };
    run(&Bundle::open(folder)?, &options(overrides), &mut tell).map_err(|error| error.line())?;
    Ok(outputs.swap_remove(0))
}

#[test]
fn a_pretrained_network_changes_the_range_of_its_input() -> Tested {
    let folder = tempfile::tempdir()?;
    copy(&stored().join(NAME), folder.path())?;
    all_weights(&stored().join(NAME), folder.path())?;
    let overlay = folder.path().join("configs/replay.json");
    let text = std::fs::read_to_string(&overlay)?;
    // Without this option in the recorded case, torchvision decides by `pretrained`.
    std::fs::write(&overlay, text.replace("\"network_def::transform_input\": true,", ""))?;
    let [plain, pretrained] =
        ["False", "True"].map(|value| first(folder.path(), &[("network_def::pretrained", value)]));
    let (plain, pretrained) = (plain?, pretrained?);
    std::fs::write(&overlay, text)?;
    let recorded = first(folder.path(), &[])?;
    assert_eq!(pretrained, recorded);
    assert_ne!(plain, recorded);
    Ok(())
}

#[test]
fn what_the_list_or_the_table_lacks_is_told() -> Tested {
    let folder = tempfile::tempdir()?;
    copy(&stored().join(NAME), folder.path())?;
    let missing = |overrides: &[(&str, &str)]| -> Tested<String> {
        let all = needs(&Bundle::open(folder.path())?, &options(overrides)).map_err(|error| error.line())?;
        let found = all.first().ok_or("no config")?;
        Ok(found.missing.iter().map(|fault| format!("{}: {fault}\n", fault.kind.word())).collect())
    };
    // Only the weights are missing, which the tests that run it make.
    let alone = missing(&[])?;
    assert!(alone.starts_with("file: ") && alone.contains("model.pt") && alone.lines().count() == 1, "{alone}");
    for (id, value, part) in [
        ("test_imagelist", "$@data.create_dataset('Tests')[0]", "has no list \"Tests\""),
        ("data::filename", "configs/none.json", "configs/none.json"),
        ("handlers::2::output_transform", "$monai.handlers.from_engine(['label'])", "from_engine(['pred'])"),
        ("network_def::model_name", "inception_v4", "inception_v4"),
        ("network_def::pool", "['avg', {'kernel_size': 7}]", "keeps its own"),
        ("network_def::use_conv", "True", "use_conv"),
    ] {
        let told = missing(&[(id, value)])?;
        // Options of a network are read when it is built, which is before a case is read.
        let told = match told.contains(part) {
            true => told,
            false => {
                all_weights(&stored().join(NAME), folder.path())?;
                run(&Bundle::open(folder.path())?, &options(&[(id, value)]), &mut |_| {}).err().ok_or(part)?.line()
            }
        };
        assert!(told.contains(part), "{id}: {told}");
        assert!(!folder.path().join("output/predictions.csv").exists(), "{id}");
    }
    Ok(())
}
