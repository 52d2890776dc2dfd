//! [`Bundle`]: a folder with configs, metadata and a licence.

use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::fault::{Fault, FaultKind};
use crate::metadata::Metadata;
use crate::tree;

/// The folder of a bundle.
#[derive(Clone, Debug)]
pub struct Bundle {
    root: PathBuf,
    configs: Vec<ConfigFile>,
    metadata: Option<Metadata>,
}

/// A config file of a bundle.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// The name without the extension: `inference`.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
}

impl Bundle {
    /// Whether a folder looks like a bundle.
    pub fn is_one(folder: &Path) -> bool {
        let configs = folder.join("configs");
        configs.is_dir()
            && std::fs::read_dir(&configs)
                .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| is_config(&entry.path()))))
    }

    /// Opens the folder of a bundle.
    ///
    /// # Errors
    /// A folder without `configs`, or metadata that cannot be read.
    pub fn open(folder: &Path) -> Result<Self, Fault> {
        let name = folder.display().to_string();
        let fail = |what: String| Fault::new(FaultKind::File, what).in_file(&name);
        if !folder.is_dir() {
            return Err(fail("is no folder".to_owned()));
        }
        let entries = std::fs::read_dir(folder.join("configs"))
            .map_err(|error| fail(format!("has no folder `configs`, which every bundle has ({error})")))?;
        let mut configs: Vec<ConfigFile> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| is_config(path) && path.is_file())
            .map(|path| ConfigFile { name: stem(&path), path })
            .filter(|config| config.name != "metadata")
            .collect();
        configs.sort_by(|a, b| a.path.cmp(&b.path));
        let metadata = ["json", "yaml", "yml"].map(|ending| folder.join(format!("configs/metadata.{ending}")));
        let metadata = metadata.into_iter().find(|path| path.is_file());
        let metadata = metadata.map(|path| tree::read(&path).map(|tree| Metadata::new(tree.root))).transpose()?;
        Ok(Bundle { root: folder.to_owned(), configs, metadata })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The configs, by name.
    pub fn configs(&self) -> &[ConfigFile] {
        &self.configs
    }

    /// The metadata, if the bundle has them.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The path and text of the first licence file.
    pub fn licence(&self) -> Option<(PathBuf, String)> {
        let files = ["LICENSE", "LICENSE.txt", "LICENSE.md", "docs/data_license.txt"].map(|name| self.root.join(name));
        files.into_iter().find_map(|path| {
            let text = hearth_files::read_to_string(&path).ok()?;
            Some((path, text))
        })
    }

    /// The config of this name.
    ///
    /// # Errors
    /// An unknown name.
    pub fn config(&self, name: &str) -> Result<&ConfigFile, Fault> {
        self.configs.iter().find(|config| config.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.configs.iter().map(|config| config.name.as_str()).collect();
            let what = format!("has no config {name:?}; there are {}", names.join(", "));
            Fault::new(FaultKind::File, what).in_file(&self.root.join("configs").display().to_string())
        })
    }

    /// Finds a config by name (`inference`), or by a path relative to the working directory or the
    /// bundle.
    ///
    /// # Errors
    /// A missing file.
    pub fn find(&self, written: &str) -> Result<PathBuf, Fault> {
        if let Ok(config) = self.config(written) {
            return Ok(config.path.clone());
        }
        let places = [PathBuf::from(written), self.root.join(written), self.root.join("configs").join(written)];
        let found = places.into_iter().find(|path| path.is_file());
        found.ok_or_else(|| {
            let names: Vec<&str> = self.configs.iter().map(|config| config.name.as_str()).collect();
            let (root, names) = (self.root.display(), names.join(", "));
            let what = format!("is neither a config of {root} nor a file; its configs are {names}");
            Fault::new(FaultKind::File, what).in_file(written)
        })
    }

    /// Loads and merges these files, with the bundle's metadata. `bundle_root` is set to the
    /// folder, unless the config has a relative path, which is resolved against the folder anyway.
    ///
    /// # Errors
    /// Same as [`Config::load`].
    pub fn load(&self, files: &[PathBuf]) -> Result<Config, Fault> {
        let mut config = Config::load(files, &self.root)?;
        if let Some(metadata) = &self.metadata {
            config.set_metadata(metadata.whole.clone());
        }
        let foreign =
            config.item("bundle_root").and_then(serde_json::Value::as_str).is_some_and(|root| root.starts_with('/'));
        if foreign {
            config.set("bundle_root", ".".into())?;
        }
        Ok(config)
    }

    /// Path and URL of each weight file that `large_files.yml` lists for the user to download.
    pub fn large_files(&self) -> Vec<(String, String)> {
        let files = ["large_files.yml", "large_files.yaml", "large_files.json"].map(|name| self.root.join(name));
        let Some(tree) = files.into_iter().find_map(|path| tree::read(&path).ok()) else { return Vec::new() };
        let list = tree.root.get("large_files").and_then(serde_json::Value::as_array).cloned().unwrap_or_default();
        let text =
            |file: &serde_json::Value, key: &str| file.get(key).and_then(|text| text.as_str()).map(str::to_owned);
        list.iter().filter_map(|file| Some((text(file, "path")?, text(file, "url").unwrap_or_default()))).collect()
    }
}

fn is_config(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    matches!(ending.as_deref(), Some("json" | "yaml" | "yml"))
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
