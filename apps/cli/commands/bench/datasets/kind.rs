//! The kinds of data sets that are compared.

use std::path::Path;

use clap::ValueEnum;
use hearth_data::caches::Cache;
use hearth_registry::{Node, Origin, Registry};

use crate::error::Outcome;

/// A kind of data set, by its name in MONAI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Nothing is kept: all transforms run in every epoch
    Dataset,
    /// A file for each case
    Persistent,
    /// One database for all cases
    Lmdb,
    /// All cases in memory
    Cache,
    /// Four of five cases in memory, a quarter of which is replaced each epoch
    Smart,
}

impl Kind {
    /// All kinds, in the order of the table.
    pub const ALL: [Kind; 5] = [Kind::Dataset, Kind::Persistent, Kind::Lmdb, Kind::Cache, Kind::Smart];

    /// MONAI's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Dataset => "Dataset",
            Kind::Persistent => "PersistentDataset",
            Kind::Lmdb => "LMDBDataset",
            Kind::Cache => "CacheDataset",
            Kind::Smart => "SmartCacheDataset",
        }
    }

    /// The name on the command line.
    pub fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether the cases outlive the program, so that a second start finds them.
    pub fn outlives(self) -> bool {
        matches!(self, Kind::Persistent | Kind::Lmdb)
    }

    /// The cache as a recipe has it, in `[data] cache`.
    fn table(self, folder: &Path, threads: usize) -> toml::Table {
        let mut table = toml::Table::new();
        let mut set = |key: &str, value: toml::Value| table.insert(key.to_owned(), value);
        set("kind", self.name().into());
        if self.outlives() {
            set("dir", folder.display().to_string().into());
        }
        if self != Kind::Dataset {
            set("workers", i64::try_from(threads).unwrap_or(i64::MAX).into());
        }
        if self == Kind::Smart {
            set("rate", 0.8.into());
            set("replace_rate", 0.25.into());
        }
        table
    }

    /// The cache, with cases on disk in a folder.
    pub fn cache(self, folder: &Path, threads: usize) -> Outcome<Box<dyn Cache>> {
        let table = toml::Value::Table(self.table(folder, threads));
        Ok(Registry::<dyn Cache>::new().build(&Node::from_toml(table, &Origin::Unknown))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind is the cache of MONAI's class of that name, with the guide's rates.
    #[test]
    fn every_kind_is_a_cache_of_recipes() {
        let folder = Path::new("cases");
        let caches = Kind::ALL
            .map(|kind| kind.cache(folder, 3).unwrap_or_else(|failure| panic!("{}: {}", kind.name(), failure.line())));
        assert_eq!(caches.each_ref().map(|cache| cache.kept(10)), [0, 10, 10, 10, 8]);
        assert_eq!(caches.each_ref().map(|cache| cache.dir().is_some()), Kind::ALL.map(Kind::outlives));
        assert_eq!(caches.each_ref().map(|cache| cache.moves()), [false, false, false, false, true]);
    }
}
