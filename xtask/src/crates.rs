//! The crates of a program, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use toml::Table;

use crate::build::{Features, Release};
use crate::{Outcome, output_of, root};

/// One crate.
#[derive(Clone, Debug)]
pub struct Crate {
    pub name: String,
    pub version: String,
    /// Its licence as an SPDX expression, if it has one.
    pub licence: Option<String>,
    pub description: Option<String>,
    pub repository: Option<String>,
    pub authors: Vec<String>,
    /// The folder of its sources.
    pub folder: PathBuf,
    /// The file in the crate that its manifest names as its licence.
    pub licence_file: Option<PathBuf>,
    /// The registry's checksum of its archive; `None` for a crate of this repository.
    pub sha256: Option<String>,
    /// The crates that it is linked with, as keys of [`Crates::all`].
    pub uses: BTreeSet<String>,
}

impl Crate {
    /// The key in [`Crates::all`], which is also the name of its folder of licences.
    pub fn key(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// All crates of the program, by key.
#[derive(Clone, Debug)]
pub struct Crates {
    pub all: BTreeMap<String, Crate>,
    /// The key of the program's own crate.
    pub program: String,
}

impl Crates {
    /// The crates of the program `hearth` for this system, including those that run at build time.
    pub fn of_program(features: Features, release: &Release) -> Outcome<Self> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &release.target]);
        command.arg("--manifest-path").arg(root().join("apps/Cargo.toml"));
        if let Some(feature) = features.feature() {
            command.args(["--features", feature]);
        }
        let metadata = serde_json::from_str(&output_of(&mut command)?)?;
        let lock: Table = std::fs::read_to_string(root().join("Cargo.lock"))?.parse()?;
        let mut crates = Self::of_metadata(&metadata, &checksums(&lock), "hearth-apps")?;
        crates.keep(&Self::in_tree(features, release)?);
        Ok(crates)
    }

    /// The keys of the crates that are compiled for the program. `cargo metadata` resolves features
    /// only for a whole workspace, so it also lists crates that only other programs of it use.
    fn in_tree(features: Features, release: &Release) -> Outcome<BTreeSet<String>> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["tree", "--locked", "--package", "hearth-apps", "--edges", "normal,build", "--prefix", "none"]);
        command.args(["--format", "{p}", "--target", &release.target]).current_dir(root());
        if let Some(feature) = features.feature() {
            command.arg("--features").arg(format!("hearth-apps/{feature}"));
        }
        // A line is `name v1.2.3 (folder, or kind of crate)`.
        let tree = output_of(&mut command)?;
        let keys = tree.lines().filter_map(|line| {
            let mut words = line.split(' ');
            Some(format!("{}-{}", words.next()?, words.next()?.strip_prefix('v')?))
        });
        Ok(keys.collect())
    }

    /// Keeps only the crates with these keys.
    fn keep(&mut self, keys: &BTreeSet<String>) {
        self.all.retain(|key, _| keys.contains(key));
        for one in self.all.values_mut() {
            one.uses.retain(|used| keys.contains(used));
        }
    }

    /// The crates that a package reaches in Cargo's metadata, by dependencies that are linked or that
    /// run at build time.
    pub fn of_metadata(metadata: &Value, sums: &BTreeMap<String, String>, program: &str) -> Outcome<Self> {
        let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
        let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata resolves nothing")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut by_id: BTreeMap<&str, Crate> = BTreeMap::new();
        for package in packages {
            let (Some(id), Some(name), Some(version), Some(manifest)) = (
                package["id"].as_str(),
                text(&package["name"]),
                text(&package["version"]),
                package["manifest_path"].as_str(),
            ) else {
                return Err("cargo metadata has a package without name, version and manifest".into());
            };
            let folder = Path::new(manifest).parent().unwrap_or(Path::new("")).to_owned();
            let authors = package["authors"].as_array().into_iter().flatten().filter_map(text).collect();
            let crate_ = Crate {
                sha256: sums.get(&format!("{name}-{version}")).cloned(),
                licence: text(&package["license"]),
                description: text(&package["description"]),
                repository: text(&package["repository"]),
                licence_file: package["license_file"].as_str().map(|file| folder.join(file)),
                uses: BTreeSet::new(),
                name,
                version,
                authors,
                folder,
            };
            by_id.insert(id, crate_);
        }
        let mut uses: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in nodes {
            let id = node["id"].as_str().ok_or("a node has no id")?;
            let linked = node["deps"].as_array().into_iter().flatten().filter(|dependency| {
                dependency["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"] != "dev")
            });
            uses.insert(id, linked.filter_map(|dependency| dependency["pkg"].as_str()).collect());
        }
        let start = by_id.iter().find(|(_, one)| one.name == program).map(|(id, _)| *id);
        let start = start.ok_or_else(|| format!("cargo metadata has no package {program}"))?;
        let (mut open, mut reached) = (vec![start], BTreeSet::from([start]));
        while let Some(id) = open.pop() {
            open.extend(uses.get(id).into_iter().flatten().filter(|used| reached.insert(**used)));
        }
        let keys: BTreeMap<&str, String> = by_id.iter().map(|(id, one)| (*id, one.key())).collect();
        let mut all = BTreeMap::new();
        for id in reached {
            let mut one = by_id.get(id).ok_or("a node is no package")?.clone();
            one.uses = uses.get(id).into_iter().flatten().filter_map(|used| keys.get(used).cloned()).collect();
            all.insert(one.key(), one);
        }
        Ok(Self { all, program: keys[start].clone() })
    }
}

/// The registry's checksums in a lock file.
pub fn checksums(lock: &Table) -> BTreeMap<String, String> {
    let packages = lock.get("package").and_then(|packages| packages.as_array()).into_iter().flatten();
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    packages
        .filter_map(|package| {
            let key = format!("{}-{}", text(package, "name")?, text(package, "version")?);
            Some((key, text(package, "checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_use_is_not_of_the_program() {
        let package = |name: &str| {
            serde_json::json!({
                "id": name, "name": name, "version": "1.0.0", "manifest_path": format!("/src/{name}/Cargo.toml"), "authors": ["A"],
            })
        };
        let metadata = serde_json::json!({
            "packages": [package("app"), package("used"), package("builds"), package("tested"), package("other")],
            "resolve": { "nodes": [
                { "id": "app", "deps": [
                    { "pkg": "used", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "tested", "dep_kinds": [{ "kind": "dev" }] },
                ] },
                { "id": "used", "deps": [{ "pkg": "builds", "dep_kinds": [{ "kind": "build" }] }] },
                { "id": "builds", "deps": [] }, { "id": "tested", "deps": [] }, { "id": "other", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n".parse().unwrap();
        let crates = Crates::of_metadata(&metadata, &checksums(&lock), "app").unwrap();
        assert_eq!(crates.all.keys().collect::<Vec<_>>(), ["app-1.0.0", "builds-1.0.0", "used-1.0.0"]);
        assert_eq!(crates.all["used-1.0.0"].sha256.as_deref(), Some("abc"));
        assert_eq!(crates.all["app-1.0.0"].uses, BTreeSet::from(["used-1.0.0".to_owned()]));
        assert_eq!(crates.program, "app-1.0.0");
        let mut fewer = crates.clone();
        fewer.keep(&BTreeSet::from(["app-1.0.0".to_owned(), "builds-1.0.0".to_owned()]));
        assert_eq!(fewer.all.keys().collect::<Vec<_>>(), ["app-1.0.0", "builds-1.0.0"]);
        assert!(fewer.all["app-1.0.0"].uses.is_empty());
        assert!(Crates::of_metadata(&metadata, &BTreeMap::new(), "none").is_err());
        assert!(Crates::of_metadata(&serde_json::json!({}), &BTreeMap::new(), "app").is_err());
    }
}
