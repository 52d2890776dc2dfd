//! [`Entry`]: a name, its documentation and its constructor; [`entry!`](crate::entry).

use std::any::{Any, TypeId};

use schemars::Schema;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::node::Node;
use crate::parameters::{Parameter, parameters, table};
use crate::place::Place;
use crate::read::read;

/// A function that builds a plugin's component from its name and its table: [`Kind::FROM_PLUGIN`].
pub type FromPlugin<T> = fn(&str, &Node) -> Result<Box<T>, Fault>;

/// A kind of component that recipes name. Implemented for a trait object, such as `dyn Transform`. The
/// [crate](crate) has an example of a kind, an entry and what they build.
pub trait Kind: 'static {
    /// The name of the kind in messages and on the command line: `transform`.
    const WORD: &'static str;

    /// The key of a table that holds the name.
    const TAG: &'static str = "name";

    /// The entry that a table without a name means, for kinds that allow it.
    const DEFAULT: Option<&'static str> = None;

    /// Documentation of parameters that many entries of the kind share, for entries that do not
    /// document them.
    const SHARED: &'static [(&'static str, &'static str)] = &[];

    /// Keys that every table of the kind may have in addition to the entry's own, because the
    /// recipe reads them: the key, a description of its type, its default as TOML and its meaning.
    /// The reference lists them with the parameters.
    const COMMON: &'static [[&'static str; 4]] = &[];

    /// Builds a plugin's component from its name (`mine.Blur`) and its table without the name, for
    /// kinds that plugins can extend.
    const FROM_PLUGIN: Option<FromPlugin<Self>> = None;

    /// Whether a name in a recipe means the entry `known`. Kinds whose names have further spellings
    /// in other programs accept them here.
    fn is_spelt(known: &str, written: &str) -> bool {
        known == written
    }

    /// The place where the component works, for the reference; `None` for settings that only
    /// describe the course of a run.
    fn place(&self) -> Option<Place> {
        None
    }

    /// Further facts about the component: columns of a table of all entries of the kind in the
    /// reference, and the component's cells. The columns of a kind are the same for all.
    fn facts(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// Checks the parameters of a component that was built.
    ///
    /// # Errors
    /// The first invalid parameter.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// A name that recipes can use. [`entry!`](crate::entry) makes it.
pub struct Entry<T: ?Sized + 'static> {
    /// The name.
    pub name: &'static str,
    /// Alternative spellings.
    pub aliases: &'static [&'static str],
    /// The description, if the documentation of the type covers more than this name.
    pub about: &'static str,
    /// The publication, or an empty text.
    pub paper: &'static str,
    /// Parameters in a recipe, without the name: TOML that a test builds and runs.
    pub example: &'static str,
    /// The schema: documentation and parameters.
    pub schema: fn() -> Schema,
    /// Documentation of parameters whose fields have none, because a setter documents them.
    pub setters: &'static [(&'static str, &'static str)],
    /// Builds the component from its table, without `name`.
    pub build: fn(&Node) -> Result<Box<T>, Fault>,
}

/// An entry of any kind, as the linker collects it.
pub struct Registration {
    pub(crate) word: &'static str,
    pub(crate) name: &'static str,
    aliases: &'static [&'static str],
    pub(crate) kind: TypeId,
    pub(crate) entry: &'static (dyn Any + Send + Sync),
    pub(crate) describe: fn() -> Described,
}

impl Registration {
    /// Registers an entry; [`entry!`](crate::entry) calls it.
    pub const fn new<T: Kind + ?Sized>(entry: &'static Entry<T>, describe: fn() -> Described) -> Self {
        Self { word: T::WORD, name: entry.name, aliases: entry.aliases, kind: TypeId::of::<T>(), entry, describe }
    }

    /// Whether its name, or another of its spellings, is one of these.
    pub(crate) fn is_called(&self, names: &[&str]) -> bool {
        names.contains(&self.name) || self.aliases.iter().any(|alias| names.contains(alias))
    }
}

inventory::collect!(Registration);

/// The description of an entry in the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The kind: `transform`.
    pub kind: &'static str,
    /// The name.
    pub name: &'static str,
    /// Alternative spellings.
    pub aliases: &'static [&'static str],
    /// The description.
    pub doc: String,
    /// The publication.
    pub paper: &'static str,
    /// Parameters in a recipe, as TOML.
    pub example: &'static str,
    /// The place where the example works, for kinds that have one.
    pub place: Option<Place>,
    /// Columns and cells of the kind's table.
    pub facts: Vec<(&'static str, &'static str)>,
    /// All parameters.
    pub parameters: Vec<Parameter>,
    /// Whether the type itself refuses unknown keys.
    pub closed: bool,
    /// JSON Schema of the table in a recipe, without `name`.
    pub schema: Schema,
}

impl<T: Kind + ?Sized> Entry<T> {
    /// The table of its example, without `name`.
    ///
    /// # Errors
    /// When the example is not TOML; a test of each kind checks this.
    pub fn example_table(&self) -> Result<Node, Fault> {
        let table: toml::Table = toml::from_str(self.example).map_err(|error| Fault::new(error.to_string()))?;
        Ok(Node::from(toml::Value::Table(table)))
    }

    /// The description of the entry in the reference.
    pub fn describe(&self) -> Described {
        let schema = (self.schema)();
        let doc = match self.about {
            "" => schema.get("description").and_then(|doc| doc.as_str()).unwrap_or_default().to_owned(),
            about => about.to_owned(),
        };
        let own = parameters(&schema, &[self.setters, T::SHARED].concat()).into_iter();
        let closed = table(schema.as_value())["additionalProperties"] == false;
        let built = self.example_table().and_then(|table| (self.build)(&table)).ok();
        Described {
            closed,
            kind: T::WORD,
            name: self.name,
            aliases: self.aliases,
            doc,
            paper: self.paper,
            example: self.example,
            place: built.as_deref().and_then(T::place),
            facts: built.as_deref().map(T::facts).unwrap_or_default(),
            parameters: own.chain(T::COMMON.iter().map(Parameter::common)).collect(),
            schema,
        }
    }
}

/// The descriptions of all linked entries, by kind and name.
pub fn described() -> Vec<Described> {
    let mut all: Vec<Described> = inventory::iter::<Registration>().map(|found| (found.describe)()).collect();
    all.sort_by_key(|entry| (entry.kind, entry.name.to_lowercase(), entry.name));
    all
}

/// The names of all kinds that have entries.
pub fn kinds() -> Vec<&'static str> {
    let mut words: Vec<&str> = inventory::iter::<Registration>().map(|found| found.word).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// Builds a type from its fields: the default of [`entry!`](crate::entry).
///
/// # Errors
/// A parameter that is unknown, missing or of another type.
pub fn build_by_reading<C: DeserializeOwned>(node: &Node) -> Result<C, Fault> {
    read(node)
}

/// Registers a type under a name, next to its definition.
///
/// `entry!(dyn Transform => Spacing, example: "keys = [\"image\"]\npixdim = [1, 1, 1]");`
///
/// The arguments come in this order; all but the first and `example` are optional: `name` (by
/// default the type's), `aliases`, `about` (the description, if it is not the type's
/// documentation), `paper`, `example`, `setters` (documentation of parameters that is not on the
/// fields), `build` (`fn(&Node) -> Result<Box<dyn Kind>, Fault>`; by default the type is read from
/// its table).
///
/// The type implements `serde::Deserialize` and `schemars::JsonSchema`; its doc comment is its
/// description in the reference.
#[macro_export]
macro_rules! entry {
    (
        $kind:ty => $type:ty
        $(, name: $name:expr)?
        $(, aliases: $aliases:expr)?
        $(, about: $about:expr)?
        $(, paper: $paper:expr)?
        , example: $example:expr
        $(, setters: $setters:expr)?
        $(, build: $build:expr)?
        $(,)?
    ) => {
        const _: () = {
            static ENTRY: $crate::Entry<$kind> = $crate::Entry {
                name: $crate::entry!(@or $($name)?, $crate::entry!(@last $type)),
                aliases: $crate::entry!(@or $($aliases)?, &[]),
                about: $crate::entry!(@or $($about)?, ""),
                paper: $crate::entry!(@or $($paper)?, ""),
                example: $example,
                schema: || $crate::schemars::schema_for!($type),
                setters: $crate::entry!(@or $($setters)?, &[]),
                build: $crate::entry!(@or $($build)?, |node| {
                    $crate::build_by_reading::<$type>(node).map(|value| Box::new(value) as Box<$kind>)
                }),
            };
            $crate::inventory::submit! { $crate::Registration::new::<$kind>(&ENTRY, || ENTRY.describe()) }
        };
    };
    (@or $given:expr, $default:expr) => { $given };
    (@or , $default:expr) => { $default };
    (@last $type:ty) => { stringify!($type) };
}
