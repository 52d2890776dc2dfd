//! The common parameters of caches on disk: [`OnDisk`].

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CachePlace, CacheRun, two};
use crate::{Identity, Storage, StoreOptions};

/// The parameters of a cache on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct OnDisk {
    /// Folder of the cache.
    pub dir: PathBuf,
    /// Number of threads that fill the cache.
    #[serde(default = "two")]
    pub workers: usize,
    /// Where images are kept: `host`, or `same` for the training device.
    #[serde(default)]
    pub device: CachePlace,
    /// The type of cached values: `f32`, `exact` (the narrowest lossless type) or `f16`.
    #[serde(default = "exact")]
    pub storage: Storage,
    /// Whether to fill at the first use of each case instead of before the training.
    #[serde(default)]
    pub runtime: bool,
    /// How a changed source file is detected: `content`, or `stat` (path, size, time).
    #[serde(default)]
    pub identity: Identity,
}

fn exact() -> Storage {
    Storage::Exact
}

impl OnDisk {
    /// The options of the data set that keeps the cases.
    pub(super) fn options(&self, run: &CacheRun) -> StoreOptions {
        let (identity, storage, device) = (self.identity, self.storage, self.device.of(&run.device));
        StoreOptions { identity, storage, device, ..StoreOptions::default() }
    }
}

/// Implements [`Cache`](super::Cache) for a type that holds [`OnDisk`], with the data set that
/// keeps the cases.
macro_rules! on_disk_cache {
    ($type:ident, $dataset:ident) => {
        impl super::Cache for $type {
            fn dataset(
                &self,
                cases: Vec<crate::Item>,
                steps: std::sync::Arc<hearth_transforms::Pipeline>,
                run: &super::CacheRun,
            ) -> Result<std::sync::Arc<dyn crate::Dataset>, crate::DataError> {
                let dataset = crate::$dataset::new(cases, steps, &self.0.dir, self.0.options(run))?;
                if !self.0.runtime {
                    dataset.fill(self.0.workers, run.progress)?;
                }
                Ok(std::sync::Arc::new(dataset))
            }

            fn kept(&self, cases: usize) -> usize {
                cases
            }

            fn dir(&self) -> Option<&std::path::Path> {
                Some(&self.0.dir)
            }

            fn storage(&self) -> crate::Storage {
                self.0.storage
            }

            fn on_device(&self) -> bool {
                self.0.device == super::CachePlace::Same
            }
        }
    };
}

pub(super) use on_disk_cache;

#[cfg(test)]
mod tests {
    use hearth_registry::{Node, Origin, Registry};

    use super::super::Cache;

    fn table(text: &str) -> Node {
        Node::from_toml(toml::Value::Table(toml::from_str(text).expect("TOML")), &Origin::Unknown)
    }

    /// Both caches have the parameters of the reference, with their defaults.
    #[test]
    fn both_caches_have_the_parameters_of_the_reference() {
        let registry = Registry::<dyn Cache>::new();
        for kind in ["lmdb", "persistent"] {
            let described = registry.find(kind).expect("an entry").describe();
            let found: Vec<(&str, Option<&str>)> =
                described.parameters.iter().map(|p| (p.name.as_str(), p.default.as_deref())).collect();
            assert_eq!(
                found,
                [
                    ("dir", None),
                    ("workers", Some("2")),
                    ("device", Some("\"host\"")),
                    ("storage", Some("\"exact\"")),
                    ("runtime", Some("false")),
                    ("identity", Some("\"content\"")),
                ]
            );
            assert!(described.closed && described.doc.contains("cache outlives the run"), "{}", described.doc);
        }
    }

    #[test]
    fn a_table_is_read_and_an_unknown_key_is_refused() {
        let registry = Registry::<dyn Cache>::new();
        let cache = registry.build(&table("kind = 'lmdb'\ndir = 'here'\ndevice = 'same'")).expect("a cache");
        assert_eq!((cache.dir(), cache.on_device()), (Some(std::path::Path::new("here")), true));
        let fault =
            registry.build(&table("kind = 'persistent'\ndir = 'here'\nworker = 3")).expect_err("a typing error");
        assert!(fault.to_string().contains("unknown key \"worker\", did you mean \"workers\"?"), "{fault}");
    }
}
