//! What is kept of the cases after the deterministic transforms: `[data] cache = { ... }`.

use std::fmt;
use std::path::PathBuf;

use hearth_data::{Identity, Storage};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use hearth_registry::{Document, Fault};

/// What is kept of the cases after the deterministic transforms. A key that the kind has no use for is an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Where and how: `none`, `cache`, `persistent`, `lmdb`, `smart`.
    pub kind: CacheKind,
    /// Which part of the cases, 0 to 1, or `auto`: as many as fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// At most so many cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num: Option<usize>,
    /// Threads that fill it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Where images are: `host`, or `same` for the device that trains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<CacheDevice>,
    /// In which type values are kept: `f32`, `exact`, `f16`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Fill at the first use of each case rather than before the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<bool>,
    /// GiB that `rate = "auto"` may take, where not what is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_gib: Option<f64>,
    /// The folder on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// How a source file is known again: `content`, or `stat` (path, size, time).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Share of the cached cases that is replaced each epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_rate: Option<f64>,
    /// Whether the list is shuffled before the window moves over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<bool>,
}

/// Where cases are kept, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Nowhere.
    None,
    /// In memory.
    #[default]
    Cache,
    /// In a file each.
    Persistent,
    /// In one database.
    Lmdb,
    /// A part of them in memory, another part each epoch.
    Smart,
}

impl CacheKind {
    /// The keys it has a use for.
    fn keys(self) -> &'static [&'static str] {
        match self {
            CacheKind::None => &[],
            CacheKind::Cache => &["rate", "num", "workers", "device", "storage", "runtime", "limit_gib"],
            CacheKind::Persistent | CacheKind::Lmdb => &["workers", "device", "storage", "runtime", "dir", "identity"],
            CacheKind::Smart => &["rate", "num", "workers", "device", "storage", "replace_rate", "shuffle"],
        }
    }

    fn word(self) -> &'static str {
        match self {
            CacheKind::None => "none",
            CacheKind::Cache => "cache",
            CacheKind::Persistent => "persistent",
            CacheKind::Lmdb => "lmdb",
            CacheKind::Smart => "smart",
        }
    }

    /// Whether cases are kept on disk.
    pub fn is_on_disk(self) -> bool {
        matches!(self, CacheKind::Persistent | CacheKind::Lmdb)
    }
}

/// Where cached images are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheDevice {
    /// In this machine's memory.
    #[default]
    Host,
    /// On the device that trains.
    Same,
}

/// How many cases are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// This part of them.
    Part(f64),
    /// As many as fit.
    Auto,
}

impl Rate {
    /// The part that is tried.
    pub fn part(self) -> f64 {
        match self {
            Rate::Part(part) => part,
            Rate::Auto => 1.0,
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Rate::Part(part) => out.serialize_f64(*part),
            Rate::Auto => out.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct PartOrAuto;
        impl Visitor<'_> for PartOrAuto {
            type Value = Rate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 1, or \"auto\"")
            }

            fn visit_f64<E: de::Error>(self, part: f64) -> Result<Rate, E> {
                Ok(Rate::Part(part))
            }

            fn visit_i64<E: de::Error>(self, part: i64) -> Result<Rate, E> {
                Ok(Rate::Part(part as f64))
            }

            fn visit_u64<E: de::Error>(self, part: u64) -> Result<Rate, E> {
                Ok(Rate::Part(part as f64))
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Rate, E> {
                if word == "auto" { Ok(Rate::Auto) } else { Err(E::invalid_value(de::Unexpected::Str(word), &self)) }
            }
        }
        from.deserialize_any(PartOrAuto)
    }
}

impl Cache {
    /// Writes the defaults of its kind.
    pub(super) fn fill_in(&mut self) {
        let kind = self.kind;
        let has = |key: &str| kind.keys().contains(&key);
        fn set<T>(value: &mut Option<T>, used: bool, default: T) {
            if used {
                value.get_or_insert(default);
            }
        }
        set(&mut self.rate, has("rate"), Rate::Part(1.0));
        set(&mut self.workers, has("workers"), 2);
        set(&mut self.device, has("device"), CacheDevice::Host);
        let storage = if kind.is_on_disk() { Storage::Exact } else { Storage::F32 };
        set(&mut self.storage, has("storage"), storage);
        set(&mut self.runtime, has("runtime"), false);
        set(&mut self.identity, has("identity"), Identity::Content);
        set(&mut self.replace_rate, has("replace_rate"), 0.1);
        set(&mut self.shuffle, has("shuffle"), true);
    }

    /// Fails for values that make no sense, alone or together.
    pub(super) fn check(&self, document: &Document) -> Result<(), Fault> {
        let demand = |holds: bool, key: &str, message: String| {
            if holds { Ok(()) } else { Err(document.fault(&format!("data.cache.{key}"), message)) }
        };
        let kind = self.kind;
        let written = document.find("data").field("cache");
        for entry in written.map_or(&[][..], |cache| cache.node.fields()) {
            let key = entry.key.as_str();
            if key != "kind" && !kind.keys().contains(&key) {
                let kinds = [CacheKind::Cache, CacheKind::Persistent, CacheKind::Lmdb, CacheKind::Smart];
                let users: Vec<String> =
                    kinds.iter().filter(|k| k.keys().contains(&key)).map(|k| format!("{:?}", k.word())).collect();
                let message = format!("kind = {:?} has no use for {key}; it is for {}", kind.word(), users.join(", "));
                return Err(document.fault(&format!("data.cache.{key}"), message));
            }
        }
        if let Some(Rate::Part(part)) = self.rate {
            demand((0.0..=1.0).contains(&part), "rate", format!("{part} is not a part; give 0 to 1, or \"auto\""))?;
        }
        let auto = self.rate == Some(Rate::Auto);
        demand(!(auto && kind == CacheKind::Smart), "rate", "a moving window needs a part, 0 to 1, or num".into())?;
        if let Some(limit) = self.limit_gib {
            demand(limit > 0.0 && limit.is_finite(), "limit_gib", format!("{limit} GiB hold nothing"))?;
        }
        demand(
            !kind.is_on_disk() || self.dir.is_some(),
            "kind",
            format!("{:?} needs a dir to keep files in", kind.word()),
        )?;
        if let Some(rate) = self.replace_rate {
            let message = format!("{rate} is not a part; give more than 0 and at most 1, or kind = \"cache\"");
            demand(rate > 0.0 && rate <= 1.0, "replace_rate", message)?;
        }
        let exact_on_device = self.storage == Some(Storage::Exact) && self.device == Some(CacheDevice::Same);
        let message = "exact is for a cache in this machine's memory; with device = \"same\" use f32 or f16";
        demand(!exact_on_device || kind.is_on_disk(), "storage", message.into())
    }
}
