//! The files for containers: what they name exists, and their commands are of this program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hearth_bundle::Config;
use serde_json::Value;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The features that a package can be made of: those of `cargo xtask dist`.
const FEATURES: [&str; 4] = ["cpu", "cuda", "rocm", "vulkan"];

/// Replaces `${NAME:-default}` and `${NAME:?why}` as compose does, with these values.
fn substituted(text: &str, values: &BTreeMap<&str, &str>) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once('}').ok_or_else(|| format!("{text}: no closing brace"))?;
        let (name, otherwise) = inside.split_once(':').ok_or_else(|| format!("{text}: no default"))?;
        found += match (values.get(name), otherwise.strip_prefix('-')) {
            (Some(value), _) => value,
            (None, Some(default)) => default,
            (None, None) => return Err(format!("{name} is required")),
        };
        found += rest;
    }
    Ok(found)
}

fn services() -> Value {
    let text = read(&packaging().join("compose.yaml"));
    let config = Config::parse("compose.yaml", &text).unwrap_or_else(|fault| panic!("{fault}"));
    config.root()["services"].clone()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|word| word.as_str().expect("a text")).collect()
}

#[test]
fn every_containerfile_names_the_archive_and_the_program() {
    for feature in FEATURES {
        let text = read(&packaging().join(format!("{feature}.Containerfile")));
        for words in [
            format!("ADD hearth-*-linux-gnu-{feature}.tar.gz /opt/"),
            format!("ln --symbolic /opt/hearth-*-{feature}/bin/hearth /usr/local/bin/hearth"),
            format!("podman build --tag hearth:{feature} --file packaging/{feature}.Containerfile target/dist"),
            "ENTRYPOINT [\"/usr/local/bin/hearth\"]".to_owned(),
        ] {
            assert!(text.contains(&words), "{feature}: no {words}");
        }
        let dist = if feature == "cpu" { String::new() } else { format!(" --features {feature}") };
        assert!(text.contains(&format!("cargo xtask dist{dist} --glibc 2.28")), "{feature}");
        let run = text.lines().find(|line| line.contains("podman run")).expect("how it is run");
        let words = run.rsplit_once(&format!("hearth:{feature} ")).expect("a command").1;
        let parsed = hearth_apps::cli::command().try_get_matches_from(["hearth"].into_iter().chain(words.split(' ')));
        assert!(parsed.is_ok(), "{words}");
    }
}

#[test]
fn the_compose_file_has_a_service_for_each_containerfile() {
    let services = services();
    let services = services.as_object().expect("services");
    let mut names: Vec<&str> = services.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, FEATURES);
    let data = BTreeMap::from([("DATA", "/somewhere/Task09_Spleen")]);
    for (name, service) in services {
        assert_eq!(
            (texts(&service["profiles"]), service["image"].as_str()),
            (vec![name.as_str()], Some(&*format!("hearth:{name}")))
        );
        let build = &service["build"];
        let context = packaging().join(build["context"].as_str().expect("a folder"));
        assert_eq!(context.file_name(), Some("dist".as_ref()));
        // A path of the file is relative to the folder of the build.
        let file =
            build["dockerfile"].as_str().expect("a path").strip_prefix("../../packaging/").expect("a file of ours");
        assert!(packaging().join(file).is_file(), "{file}");
        assert!(file.starts_with(name.as_str()), "{name}: {file}");
        let command: Vec<String> =
            texts(&service["command"]).iter().map(|word| substituted(word, &data).expect("a value")).collect();
        let words = std::iter::once("hearth").chain(command.iter().map(String::as_str));
        let parsed = hearth_apps::cli::command().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{}", parsed.err().map(|error| error.to_string()).unwrap_or_default());
        let after = |option: &str| command.iter().skip_while(|word| *word != option).nth(1).map(String::as_str);
        assert_eq!(after("--device"), Some(name.as_str()));
        // What the command reads and writes is in a volume.
        let volumes: Vec<String> =
            texts(&service["volumes"]).iter().map(|volume| substituted(volume, &data).expect("a value")).collect();
        assert_eq!(volumes, ["/somewhere/Task09_Spleen:/data:ro", "./runs:/runs"]);
        assert_eq!((after("--data"), after("--out")), (Some("/data"), Some("/runs/first")));
        assert!(hearth_apps::recipe::bundled::open(&command[1]).is_ok(), "{}", command[1]);
        assert_eq!(substituted("${DATA:?why}", &BTreeMap::new()), Err("DATA is required".to_owned()));
    }
    let devices = |name: &str| -> Vec<String> {
        let listed = texts(&services[name]["devices"]);
        listed.into_iter().map(|device| substituted(device, &BTreeMap::new()).expect("a default")).collect()
    };
    assert_eq!(devices("rocm"), ["/dev/kfd", "/dev/dri"]);
    assert_eq!(
        (devices("cuda"), devices("vulkan")),
        (vec!["nvidia.com/gpu=all".to_owned()], vec!["/dev/dri".to_owned()])
    );
    assert!(services["cpu"].get("devices").is_none());
}
