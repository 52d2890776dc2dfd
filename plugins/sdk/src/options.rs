//! The options of a plugin: a typed struct that is filled from the recipe's table. See
//! [`options!`](crate::options!).

use std::fmt;

use hearth_registry::{Fault, Node, Origin, nearest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// The description of one option, which `hearth plugin info` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionInfo {
    /// The key in the recipe's table.
    pub name: String,
    /// The type in words: `integer`, `list of text`.
    pub kind: String,
    /// The default value, as written in a recipe.
    pub default: Option<String>,
    /// Whether it is required.
    pub required: bool,
    /// Its purpose: the documentation of the field.
    pub help: String,
}

/// Formats one line: `every = 1   integer   Epochs between two lines.`
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

/// A struct that is filled from a table of the recipe. [`options!`](crate::options!) writes the
/// implementation, and has an example.
pub trait PluginOptions: Sized {
    /// Every option, in the order of the fields.
    fn list() -> Vec<OptionInfo>;

    /// Reads the options from a table.
    ///
    /// # Errors
    /// If a key is unknown, missing or of another type: the fault names it.
    fn from_table(table: Table) -> Result<Self, Fault>;

    /// Reads the options from TOML text, as in a recipe: `Options::from_toml("every = 2")`.
    ///
    /// # Errors
    /// If the text is not TOML, and as [`from_table`](Self::from_table).
    fn from_toml(text: &str) -> Result<Self, Fault> {
        let table = text.parse::<Table>().map_err(|e| Fault::new(format!("the options are not TOML: {e}")))?;
        Self::from_table(table)
    }
}

/// Declares the options of a plugin: a struct with documented fields. A field with a default is
/// optional.
///
/// The documentation of a field is the help that `hearth plugin info` prints. A field's type may be
/// any that serde can read and write. A field without a default is required.
///
/// ```
/// use hearth_plugin::PluginOptions;
///
/// hearth_plugin::options! {
///     /// Options of the plugin.
///     pub struct Options {
///         /// Epochs between two lines.
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
/// let fault = Options::from_toml("metrics = ['dice']\nevry = 2").unwrap_err();
/// assert_eq!(fault.path, "evry");
/// assert_eq!(fault.text(), "unknown option `evry`, did you mean \"every\"?");
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

            fn from_table(table: $crate::toml::Table) -> ::core::result::Result<Self, $crate::Fault> {
                #[allow(unused_mut, unused_variables, reason = "a plugin may have no option")]
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
    /// Options of a plugin without options.
    pub struct NoOptions {}
}

/// One entry of [`PluginOptions::list`].
pub fn describe<T: Serialize>(name: &str, ty: &str, default: Option<T>, help: &[&str]) -> OptionInfo {
    // TOML cannot express `None`: the key is omitted instead.
    let shown = default.as_ref().and_then(|value| Value::try_from(value).ok()).map(|value| value.to_string());
    let help = help.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    OptionInfo { name: name.to_owned(), kind: kind_of(ty), required: default.is_none(), default: shown, help }
}

/// The name of a Rust type for authors of recipes.
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

/// A value of a table without a position in a file.
pub(crate) fn node(value: Value) -> Node {
    Node::from_toml(value, &Origin::Unknown)
}

/// A table from which options are read, after its keys were checked.
pub struct Given {
    table: Table,
}

impl Given {
    /// Fails for an unknown key, and for a missing required option.
    pub fn new(table: Table, list: Vec<OptionInfo>) -> Result<Self, Fault> {
        let names = || list.iter().map(|option| option.name.as_str());
        if let Some(unknown) = table.keys().find(|key| names().all(|name| name != **key)) {
            let near = nearest(unknown, names());
            let valid = if near.is_none() { valid(&list) } else { String::new() };
            return Err(Fault::at(unknown, format!("unknown option `{unknown}`{valid}")).meaning(near));
        }
        if let Some(missing) = list.iter().find(|option| option.required && !table.contains_key(&option.name)) {
            let message = format!("option `{}` is missing{}", missing.name, valid(&list));
            return Err(Fault::at(&missing.name, message));
        }
        Ok(Self { table })
    }

    /// The value of an option, or its default; fails for a value of another type.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str, default: Option<T>) -> Result<T, Fault> {
        match self.table.remove(name) {
            Some(value) => hearth_registry::read(&node(value)).map_err(|fault| fault.under(name)),
            None => default.ok_or_else(|| Fault::at(name, format!("option `{name}` is missing"))),
        }
    }
}

/// The list of valid options, as the end of a message.
fn valid(list: &[OptionInfo]) -> String {
    if list.is_empty() {
        return "; this plugin has no options".to_owned();
    }
    let names = list.iter().map(|option| option.name.as_str()).collect::<Vec<_>>();
    format!("; valid options: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    options! {
        struct Sample {
            /// Epochs between
            /// two lines.
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
        assert_eq!(list[0].help, "Epochs between two lines.");
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
    fn each_mistake_has_its_key_and_says_what_is_valid() {
        let fault = |options: &str| Sample::from_toml(options).expect_err("a mistake");
        let unknown = fault("metrics = []\nmetricks = []");
        assert_eq!((unknown.path.as_str(), unknown.suggestion.as_deref()), ("metricks", Some("metrics")), "{unknown}");
        assert_eq!(unknown.text(), "unknown option `metricks`, did you mean \"metrics\"?");
        let far = fault("metrics = []\nxyz = 1");
        assert_eq!(far.text(), "unknown option `xyz`; valid options: every, metrics, floor, how");
        let missing = fault("");
        assert_eq!(missing.path, "metrics");
        assert!(missing.text().starts_with("option `metrics` is missing; valid options:"), "{missing}");
        let kind = fault("metrics = []\nevery = 'often'");
        assert_eq!(kind.to_string(), "every: expected a whole number without a sign, not the text \"often\"");
        assert_eq!(fault("metrics = []\nevery = -1").path, "every");
        assert_eq!(fault("metrics = ['dice', 3]").path, "metrics.1", "the very value is meant");
        let none = NoOptions::from_toml("a = 1").expect_err("no options");
        assert_eq!(none.text(), "unknown option `a`; this plugin has no options");
        assert!(Sample::from_toml("= 3").is_err());
    }
}
