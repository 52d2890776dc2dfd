//! The sources of the SDK, embedded in every host, so that a new plugin can be built on a machine
//! with only Cargo and the program.

use std::collections::BTreeSet;

use toml::{Table, Value};

/// The files of these crates: their paths in the workspace, and their texts.
macro_rules! sources {
    ($($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../../../", $path)))),*]
    };
}

/// Every source of the SDK and of the crates of this workspace that it uses.
pub const SOURCES: &[(&str, &str)] = sources![
    "LICENSE",
    "engine/core/Cargo.toml",
    "engine/core/src/closure.rs",
    "engine/core/src/dispatch.rs",
    "engine/core/src/engine.rs",
    "engine/core/src/error.rs",
    "engine/core/src/event.rs",
    "engine/core/src/followed.rs",
    "engine/core/src/handler.rs",
    "engine/core/src/host.rs",
    "engine/core/src/lib.rs",
    "engine/core/src/not_offered.rs",
    "engine/core/src/run.rs",
    "engine/core/src/run_error.rs",
    "engine/core/src/saves.rs",
    "engine/core/src/snapshot.rs",
    "engine/core/src/state.rs",
    "engine/core/src/store.rs",
    "engine/core/src/when.rs",
    "engine/core/src/workflow.rs",
    "engine/registry/Cargo.toml",
    "engine/registry/src/component/kind.rs",
    "engine/registry/src/component/late.rs",
    "engine/registry/src/component/mod.rs",
    "engine/registry/src/component/texts.rs",
    "engine/registry/src/counted.rs",
    "engine/registry/src/document.rs",
    "engine/registry/src/entry.rs",
    "engine/registry/src/fault.rs",
    "engine/registry/src/lib.rs",
    "engine/registry/src/monai.rs",
    "engine/registry/src/monai.txt",
    "engine/registry/src/named.rs",
    "engine/registry/src/nearest.rs",
    "engine/registry/src/node.rs",
    "engine/registry/src/overrides.rs",
    "engine/registry/src/parameters.rs",
    "engine/registry/src/place.rs",
    "engine/registry/src/read.rs",
    "engine/registry/src/registry.rs",
    "engine/registry/src/type_name.rs",
    "plugins/sdk/Cargo.toml",
    "plugins/sdk/build.rs",
    "plugins/sdk/src/abi.rs",
    "plugins/sdk/src/background.rs",
    "plugins/sdk/src/component/draw.rs",
    "plugins/sdk/src/component/inferer.rs",
    "plugins/sdk/src/component/layout.rs",
    "plugins/sdk/src/component/loss.rs",
    "plugins/sdk/src/component/made.rs",
    "plugins/sdk/src/component/map_transform.rs",
    "plugins/sdk/src/component/mod.rs",
    "plugins/sdk/src/component/sampler.rs",
    "plugins/sdk/src/component/schedule.rs",
    "plugins/sdk/src/component/writer.rs",
    "plugins/sdk/src/described.rs",
    "plugins/sdk/src/export.rs",
    "plugins/sdk/src/guard.rs",
    "plugins/sdk/src/guest.rs",
    "plugins/sdk/src/identity.rs",
    "plugins/sdk/src/lib.rs",
    "plugins/sdk/src/options.rs",
    "plugins/sdk/src/parameters.rs",
    "plugins/sdk/src/testkit.rs",
    "plugins/sdk/src/view.rs",
];

/// The crates of [`SOURCES`], by their folders in the workspace.
const CRATES: [&str; 3] = ["engine/core", "engine/registry", "plugins/sdk"];

const WORKSPACE: &str = include_str!("../../../Cargo.toml");
const LOCK: &str = include_str!("../../../Cargo.lock");

/// The manifest of a workspace of these crates, with only the settings that they inherit. `None` if
/// the manifests of this repository cannot be read; a test checks this.
pub fn manifest() -> Option<String> {
    let from: Table = WORKSPACE.parse().ok()?;
    let from = from.get("workspace")?.as_table()?;
    let mut wanted = BTreeSet::new();
    for (_, text) in SOURCES.iter().filter(|(path, _)| path.ends_with("/Cargo.toml")) {
        let manifest: Table = text.parse().ok()?;
        wanted.extend(manifest.get("dependencies")?.as_table()?.keys().cloned());
        // Cargo reads them too, although it does not build them.
        wanted.extend(
            manifest.get("dev-dependencies").and_then(Value::as_table).into_iter().flat_map(Table::keys).cloned(),
        );
    }
    let mut workspace = Table::new();
    workspace.insert("resolver".into(), from.get("resolver")?.clone());
    workspace.insert("members".into(), Value::Array(CRATES.map(Value::from).to_vec()));
    for part in ["package", "lints"] {
        workspace.insert(part.into(), from.get(part)?.clone());
    }
    let mut dependencies = from.get("dependencies")?.as_table()?.clone();
    dependencies.retain(|name, _| wanted.contains(name));
    workspace.insert("dependencies".into(), dependencies.into());
    toml::to_string(&Table::from_iter([("workspace".to_owned(), Value::Table(workspace))])).ok()
}

/// The lock file of a plugin: the versions that this host was built with, for the SDK's
/// dependencies.
pub fn lock_file() -> Option<String> {
    let mut lock: Table = LOCK.parse().ok()?;
    let packages = lock.get("package")?.as_array()?.clone();
    let name_of = |package: &Value| package.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut wanted = BTreeSet::from(["hearth-plugin".to_owned()]);
    let mut open = vec!["hearth-plugin".to_owned()];
    while let Some(name) = open.pop() {
        for package in packages.iter().filter(|package| name_of(package).as_ref() == Some(&name)) {
            let uses = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
            // The name is followed by a version if there are several; all of them are kept, and
            // Cargo removes unused ones.
            for used in uses.filter_map(Value::as_str).filter_map(|used| used.split(' ').next()) {
                if wanted.insert(used.to_owned()) {
                    open.push(used.to_owned());
                }
            }
        }
    }
    let kept = packages.into_iter().filter(|package| name_of(package).is_some_and(|name| wanted.contains(&name)));
    let kept = kept.collect::<Vec<_>>();
    lock.insert("package".into(), Value::Array(kept));
    toml::to_string(&lock).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn files(folder: &Path, found: &mut BTreeSet<String>) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for entry in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
            let path = folder.join(entry.file_name());
            if !entry.path().is_dir() {
                found.insert(path.to_str().unwrap().to_owned());
            } else if !["tests", "benches", "examples"].iter().any(|skipped| path.ends_with(skipped)) {
                files(&path, found);
            }
        }
    }

    #[test]
    fn no_source_is_forgotten() {
        let mut found = BTreeSet::from(["LICENSE".to_owned()]);
        CRATES.iter().for_each(|folder| files(Path::new(folder), &mut found));
        let listed: BTreeSet<String> = SOURCES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(listed, found);
    }

    #[test]
    fn the_workspace_has_what_its_crates_inherit() {
        let text = manifest().expect("the manifests can be read");
        let table: Table = text.parse().unwrap();
        let dependencies = table["workspace"]["dependencies"].as_table().unwrap();
        assert!(dependencies.contains_key("abi_stable") && !dependencies.contains_key("burn"), "{text}");
        assert_eq!(dependencies["hearth-engine"]["path"].as_str(), Some("engine/core"));
        let lock: Table = lock_file().expect("the lock file can be read").parse().unwrap();
        let names: Vec<&str> =
            lock["package"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"abi_stable") && !names.contains(&"burn"), "{names:?}");
    }
}
