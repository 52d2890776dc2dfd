//! Options that their type describes: [`Described`].

use hearth_registry::schemars::{JsonSchema, schema_for};
use hearth_registry::{Fault, Parameter};
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::options::{OptionInfo, PluginOptions, node};

/// Options of a type that `serde` reads and `schemars` describes, such as those of an existing
/// handler. With the feature `described`:
/// `export_plugin!("validation", Described<ValidationOptions>, |options| Validation::new(options.0))`.
#[derive(Clone, Debug)]
pub struct Described<T>(pub T);

impl<T: DeserializeOwned + JsonSchema> PluginOptions for Described<T> {
    fn list() -> Vec<OptionInfo> {
        let known = hearth_registry::parameters(&schema_for!(T), &[]);
        let option = |Parameter { name, kind, default, required, doc }: Parameter| OptionInfo {
            name,
            kind,
            default,
            required,
            help: doc.replace('\n', " "),
        };
        known.into_iter().map(option).collect()
    }

    fn from_table(table: Table) -> Result<Self, Fault> {
        hearth_registry::read(&node(Value::Table(table))).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// Options of an existing handler.
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(crate = "serde", default, deny_unknown_fields)]
    #[schemars(crate = "hearth_registry::schemars")]
    struct Elsewhere {
        /// Epochs between
        /// two lines.
        every: u64,
    }

    impl Default for Elsewhere {
        fn default() -> Self {
            Self { every: 3 }
        }
    }

    #[test]
    fn options_of_a_type_that_describes_itself() {
        let list = Described::<Elsewhere>::list();
        let [OptionInfo { name, kind, default, required, help }] = &list[..] else { panic!("{list:?}") };
        assert_eq!(
            (name.as_str(), kind.as_str(), help.as_str()),
            ("every", "whole number", "Epochs between two lines.")
        );
        assert_eq!((default.as_deref(), *required), (Some("3"), false));
        assert_eq!(Described::<Elsewhere>::from_toml("").expect("a default").0.every, 3);
        let fault = Described::<Elsewhere>::from_toml("evry = 1").expect_err("unknown");
        assert_eq!((fault.path.as_str(), fault.suggestion.as_deref()), ("evry", Some("every")), "{fault}");
    }
}
