//! The options of a plugin: a typed struct that is filled from the recipe's table. See [`options!`](crate::options!).

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// What is known of one option: `hearth plugin info` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionInfo {
    /// The key in the recipe's table.
    pub name: String,
    /// What it holds, in words: `integer`, `list of text`.
    pub kind: String,
    /// The value it has when it is not given, as it would be written in a recipe.
    pub default: Option<String>,
    /// Whether it has to be given.
    pub required: bool,
    /// What it is for: the documentation of the field.
    pub help: String,
}

/// One line: `every = 1   integer   Every so many epochs.`
impl fmt::Display for OptionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = match (&self.default, self.required) {
            (_, true) => format!("{} (required)", self.name),
            (Some(default), _) => format!("{} = {default}", self.name),
            (None, _) => self.name.clone(),
        };
        write!(f, "{given:<28} {:<16} {}", self.kind, self.help)
    }
}

/// An option that is unknown, missing or of another type. Its text lists the valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError(String);

impl OptionsError {
    /// An error of these words.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionsError {}

/// A struct that is filled from a table of the recipe. [`options!`](crate::options!) writes the implementation.
pub trait PluginOptions: Sized {
    /// Every option, in the order of the fields.
    fn list() -> Vec<OptionInfo>;

    /// The options from a table; fails for a key that is unknown, missing or of another type.
    fn from_table(table: Table) -> Result<Self, OptionsError>;

    /// The options from TOML text, as in a recipe: `Options::from_toml("every = 2")`.
    fn from_toml(text: &str) -> Result<Self, OptionsError> {
        let table = text.parse::<Table>().map_err(|e| OptionsError::new(format!("the options are not TOML: {e}")))?;
        Self::from_table(table)
    }
}

/// Declares the options of a plugin: a struct whose fields are documented, with a default where they may be left out.
///
/// The documentation of a field is the help that `hearth plugin info` prints. A field's type is anything that serde can
/// read and write. A field without a default has to be given.
///
/// ```
/// use hearth_plugin::PluginOptions;
///
/// hearth_plugin::options! {
///     /// Options of the plugin.
///     pub struct Options {
///         /// Every so many epochs.
///         every: u64 = 1,
///         /// What to measure.
///         metrics: Vec<String>,
///         /// Stop below this value.
///         floor: Option<f64> = None,
///     }
/// }
///
/// let options = Options::from_toml("metrics = ['dice']").unwrap();
/// assert_eq!((options.every, options.floor), (1, None));
/// let error = Options::from_toml("metrics = ['dice']\nevry = 2").unwrap_err().to_string();
/// assert!(error.starts_with("unknown option `evry`, did you mean `every`?"), "{error}");
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident {
            $($(#[doc = $help:expr])+ $field:ident : $ty:ty $(= $default:expr)?),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $Name {
            $($(#[doc = $help])+ pub $field: $ty,)*
        }

        impl $crate::PluginOptions for $Name {
            fn list() -> ::std::vec::Vec<$crate::OptionInfo> {
                ::std::vec![$($crate::__private::describe::<$ty>(
                    ::core::stringify!($field),
                    ::core::stringify!($ty),
                    $crate::__option_default!($ty $(, $default)?),
                    &[$($help),+],
                )),*]
            }

            fn from_table(table: $crate::toml::Table) -> ::core::result::Result<Self, $crate::OptionsError> {
                #[allow(unused_mut, unused_variables)]
                let mut given = $crate::__private::Given::new(table, <Self as $crate::PluginOptions>::list())?;
                ::core::result::Result::Ok(Self {
                    $($field: given.take::<$ty>(
                        ::core::stringify!($field),
                        $crate::__option_default!($ty $(, $default)?),
                    )?,)*
                })
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __option_default {
    ($ty:ty) => {
        ::core::option::Option::<$ty>::None
    };
    ($ty:ty, $default:expr) => {{
        let default: $ty = $default;
        ::core::option::Option::Some(default)
    }};
}

options! {
    /// For a plugin that has nothing to choose.
    pub struct NoOptions {}
}

/// One entry of [`PluginOptions::list`].
pub fn describe<T: Serialize>(name: &str, ty: &str, default: Option<T>, help: &[&str]) -> OptionInfo {
    // `None` has no spelling in TOML: leaving the key out is how it is given.
    let shown = default.as_ref().and_then(|value| Value::try_from(value).ok()).map(|value| value.to_string());
    let help = help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    OptionInfo { name: name.to_owned(), kind: kind_of(ty), required: default.is_none(), default: shown, help }
}

/// A Rust type in the words of somebody who writes a recipe.
fn kind_of(ty: &str) -> String {
    let ty = ty.replace(char::is_whitespace, "");
    let inner =
        |generic: &str| ty.strip_suffix('>')?.split_once('<').filter(|(n, _)| n.ends_with(generic)).map(|p| p.1);
    if let Some(inner) = inner("Option") {
        return kind_of(inner);
    }
    if let Some(inner) = inner("Vec") {
        return format!("list of {}", kind_of(inner));
    }
    match ty.rsplit("::").next().unwrap_or(&ty) {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize" => "integer",
        "f32" | "f64" => "number",
        "bool" => "true or false",
        "String" => "text",
        "PathBuf" => "path",
        other => other,
    }
    .to_owned()
}

/// A table that options are taken from, once its keys are known to be valid.
pub struct Given {
    table: Table,
    list: Vec<OptionInfo>,
}

impl Given {
    /// Fails for a key that no option has, and for a required option without a key.
    pub fn new(table: Table, list: Vec<OptionInfo>) -> Result<Self, OptionsError> {
        if let Some(unknown) = table.keys().find(|key| list.iter().all(|option| option.name != **key)) {
            let meant = nearest(unknown, list.iter().map(|option| option.name.as_str()))
                .map_or_else(String::new, |name| format!(", did you mean `{name}`?"));
            return Err(OptionsError::new(format!("unknown option `{unknown}`{meant}{}", valid(&list))));
        }
        if let Some(missing) = list.iter().find(|option| option.required && !table.contains_key(&option.name)) {
            return Err(OptionsError::new(format!("option `{}` is missing{}", missing.name, valid(&list))));
        }
        Ok(Self { table, list })
    }

    /// The value of an option, its default where it is not given; fails for a value of another type.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str, default: Option<T>) -> Result<T, OptionsError> {
        let Some(value) = self.table.remove(name) else {
            return default
                .ok_or_else(|| OptionsError::new(format!("option `{name}` is missing{}", valid(&self.list))));
        };
        let shown = value.to_string();
        value.try_into::<T>().map_err(|error| {
            let kind = self.list.iter().find(|option| option.name == name).map_or("", |option| option.kind.as_str());
            let reason = error.to_string();
            OptionsError::new(format!("option `{name}` = {shown}: {}; it takes: {kind}", reason.trim()))
        })
    }
}

/// The valid options as the end of a message.
fn valid(list: &[OptionInfo]) -> String {
    if list.is_empty() {
        return "; this plugin has no options".to_owned();
    }
    let lines = list.iter().map(|option| format!("\n  {option}")).collect::<String>();
    format!("; valid options:{lines}")
}

/// The name that somebody who wrote `given` may have meant.
pub fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (strsim::damerau_levenshtein(given, name), name))
        .filter(|(distance, name)| *distance <= (name.len().max(given.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    options! {
        struct Sample {
            /// Every so many
            /// epochs.
            every: u64 = 1,
            /// What to measure.
            metrics: Vec<String>,
            /// Stop below this.
            floor: Option<f64> = None,
            /// How.
            how: String = "mean".into(),
        }
    }

    #[test]
    fn the_list_says_what_a_recipe_may_hold() {
        let list = Sample::list();
        let kinds = list.iter().map(|o| (o.name.as_str(), o.kind.as_str(), o.required)).collect::<Vec<_>>();
        assert_eq!(
            kinds,
            [
                ("every", "integer", false),
                ("metrics", "list of text", true),
                ("floor", "number", false),
                ("how", "text", false)
            ]
        );
        assert_eq!(list[0].help, "Every so many epochs.");
        let defaults = list.iter().map(|o| o.default.as_deref()).collect::<Vec<_>>();
        assert_eq!(defaults, [Some("1"), None, None, Some("\"mean\"")]);
    }

    #[test]
    fn values_replace_defaults() {
        let all = Sample::from_toml("every = 3\nmetrics = ['dice']\nfloor = 0.5\nhow = 'vote'").expect("valid");
        assert_eq!((all.every, all.floor, all.how.as_str()), (3, Some(0.5), "vote"));
        assert_eq!(all.metrics, ["dice"]);
    }

    #[test]
    fn each_mistake_says_what_is_valid() {
        let unknown = Sample::from_toml("metrics = []\nmetricks = []").expect_err("unknown key").to_string();
        assert!(unknown.starts_with("unknown option `metricks`, did you mean `metrics`?; valid options:"), "{unknown}");
        assert!(unknown.contains("every = 1") && unknown.contains("metrics (required)"), "{unknown}");
        let far = Sample::from_toml("metrics = []\nxyz = 1").expect_err("unknown key").to_string();
        assert!(far.starts_with("unknown option `xyz`; valid options:"), "{far}");
        let missing = Sample::from_toml("").expect_err("missing key").to_string();
        assert!(missing.starts_with("option `metrics` is missing; valid options:"), "{missing}");
        let kind = Sample::from_toml("metrics = []\nevery = 'often'").expect_err("wrong type").to_string();
        assert!(kind.contains("option `every` = \"often\"") && kind.contains("it takes: integer"), "{kind}");
        let negative = Sample::from_toml("metrics = []\nevery = -1").expect_err("out of range").to_string();
        assert!(negative.contains("option `every` = -1"), "{negative}");
        let none = NoOptions::from_toml("a = 1").expect_err("no options").to_string();
        assert_eq!(none, "unknown option `a`; this plugin has no options");
        assert!(Sample::from_toml("= 3").is_err());
    }
}
