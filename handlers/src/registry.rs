//! Built-in handlers by name, as in recipes: [`build`].

use std::path::Path;

use hearth_engine::Handler;
use hearth_registry::{Fault, Kind, Node, Registry};
use serde::Deserialize;
use serde::de::Deserializer;

/// A handler's checked options, from which it is built once the run's folder is known.
pub struct HandlerSpec(Box<Make>);

type Make = dyn Fn(&Path) -> Result<Box<dyn Handler>, Fault> + Send + Sync;

impl HandlerSpec {
    /// A handler that `make` builds for a run's folder. With an empty path `make` only checks the
    /// options, so that nothing is written before the run starts.
    pub fn new<H: Handler + 'static>(make: impl Fn(&Path) -> Result<H, Fault> + Send + Sync + 'static) -> Self {
        Self(Box::new(move |run| make(run).map(|handler| Box::new(handler) as Box<dyn Handler>)))
    }

    /// Builds the handler. Its files are written to `run`, the folder of the run.
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn make(&self, run: &Path) -> Result<Box<dyn Handler>, Fault> {
        (self.0)(run)
    }
}

impl Kind for HandlerSpec {
    const WORD: &'static str = "handler";

    const COMMON: &'static [[&'static str; 4]] = &[[
        "engine",
        "\"train\" or \"validation\"",
        "\"train\"",
        "Whose events it listens to: the trainer's, or the evaluator's in each validation and in `hearth evaluate`. In a validation it writes into the folder `validation` of the run.",
    ]];

    fn check(&self) -> Result<(), Fault> {
        self.make(Path::new("")).map(drop)
    }
}

/// Checks that a path of a recipe stays in the run's folder: a recipe may come from others, and a handler
/// empties its files.
pub(crate) fn within_run(key: &str, path: &Path) -> Result<(), Fault> {
    use std::path::Component::{CurDir, Normal};
    if path.components().all(|part| matches!(part, Normal(_) | CurDir)) {
        return Ok(());
    }
    let what = format!("handlers write into the run's folder, so `{key}` cannot be {path:?}; give a path within it");
    Err(Fault::at(key, what))
}

/// Registers a handler with its options, of which `files` are paths: `new` takes them, and the run's folder.
macro_rules! handler_entry {
    ($options:ty => $name:literal, $(files: [$($file:ident),+],)? paper: $paper:literal, about: $about:literal, example: $example:literal, $new:expr) => {
        hearth_registry::entry!(
            crate::registry::HandlerSpec => $options,
            name: $name,
            about: $about,
            paper: $paper,
            example: $example,
            build: |node| {
                let options: $options = hearth_registry::read(node)?;
                $($(crate::registry::within_run(stringify!($file), &options.$file)?;)+)?
                Ok(Box::new(crate::registry::HandlerSpec::new(move |run| {
                    // Some handlers do not write into the run's folder.
                    let _: &std::path::Path = run;
                    let new: fn($options, &std::path::Path) -> _ = $new;
                    new(options.clone(), run)
                })))
            }
        );
    };
}

/// Builds a handler from its name and the table of its options (the recipe's table without `name`).
/// Its files are written to `run`, the folder of the run.
///
/// ```
/// use hearth_handlers::build;
/// let options: toml::Table = toml::from_str("patience = 10")?;
/// let handler = build("EarlyStop", toml::Value::Table(options), "runs/one".as_ref())?;
/// assert_eq!(handler.name(), "early_stop");
/// let error = build("EarlyStopp", toml::Value::Table(toml::Table::new()), "".as_ref()).err().unwrap();
/// assert!(error.to_string().contains("did you mean \"EarlyStop\"?"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the name is unknown, or options are unknown or invalid.
pub fn build<'de, D: Deserializer<'de>>(name: &str, options: D, run: &Path) -> Result<Box<dyn Handler>, Fault> {
    let options = Node::deserialize(options).map_err(|error| Fault::new(error.to_string()))?;
    let (registry, table) = (Registry::<HandlerSpec>::new(), options.with("name", name));
    registry.entry(&table)?;
    // The name identifies the handler, because the options have no position in a file.
    let named = |fault: Fault| Fault { message: format!("{name}: {}", fault.message), ..fault };
    registry.build(&table).and_then(|spec| spec.make(run)).map_err(named)
}

/// The name of [`Better`](hearth_engine::Better) in a recipe.
pub(crate) fn better_words(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "enum": ["higher", "lower"] })
}
