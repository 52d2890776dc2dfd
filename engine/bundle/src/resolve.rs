//! [`Resolver`]: resolves items to values, lazily and in MONAI's order.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value as Item;

use crate::config::Config;
use crate::eval::{Effect, Scope, World};
use crate::fault::{Fault, FaultKind};
use crate::id;
use crate::syntax::{Statement, parse};
use crate::value::{Component, Value};

/// The longest chain of references.
const DEEPEST: usize = 200;

/// Keys of a component that are not passed to it.
const OWN_KEYS: [&str; 5] = ["_target_", "_requires_", "_disabled_", "_desc_", "_mode_"];

/// Functions that only print and need not be evaluated.
const PRINTED: [&str; 5] =
    ["output_transform", "iteration_print_logger", "epoch_print_logger", "name", "global_epoch_transform"];

/// Resolves the items of a config. Each item is resolved once; unused items are never evaluated.
#[derive(Debug)]
pub struct Resolver {
    config: Config,
    modules: Arc<BTreeMap<String, String>>,
    world: World,
    known: RefCell<HashMap<String, Value>>,
    doing: RefCell<Vec<String>>,
    /// The nesting depth of each known value, and the depth so far of those being resolved.
    heights: RefCell<HashMap<String, usize>>,
    rising: RefCell<Vec<usize>>,
    gathers: Cell<bool>,
    faults: RefCell<Vec<Fault>>,
}

type Resolved<T = Value> = Result<T, Fault>;

impl Resolver {
    /// Expands macros and relative ids, and collects imports. File names in expressions are
    /// relative to `folder`.
    ///
    /// # Errors
    /// A macro that refers to a missing item, or a relative id beyond the root.
    pub fn new(mut config: Config, folder: PathBuf) -> Resolved<Self> {
        config.expand()?;
        let mut modules = BTreeMap::new();
        imports(config.root(), &mut modules);
        Ok(Resolver {
            config,
            modules: Arc::new(modules),
            world: World::new(folder),
            known: RefCell::default(),
            heights: RefCell::default(),
            rising: RefCell::default(),
            doing: RefCell::default(),
            gathers: Cell::new(false),
            faults: RefCell::default(),
        })
    }

    /// Collects faults instead of stopping at the first: the value of a faulty item is
    /// [`Unknown`](Value::Unknown).
    #[must_use]
    pub fn gathering(self) -> Self {
        self.gathers.set(true);
        self
    }

    /// The collected faults, in the order in which they were found.
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.borrow().clone()
    }

    /// The config, with macros expanded.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The folder for file names in expressions.
    pub fn folder(&self) -> &std::path::Path {
        &self.world.folder
    }

    /// Resolves the value of an id.
    ///
    /// # Errors
    /// An unknown id, a circular reference, or an expression that is not supported or fails.
    pub fn get(&self, id: &str) -> Resolved {
        let id = id::normal(id);
        if let Some(value) = self.already(&id) {
            return Ok(value);
        }
        let Some(item) = id::find(self.config.root(), &id) else {
            let near = self.config.ids().find(|known| known.eq_ignore_ascii_case(&id));
            let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(Fault::new(FaultKind::Config, format!("the config has no item {id}{hint}")));
        };
        self.resolve(&id, item)
    }

    /// Evaluates an expression or a list of them, and returns their effects in order.
    ///
    /// # Errors
    /// Same as [`get`](Self::get).
    pub fn run(&self, id: &str) -> Resolved<Vec<Effect>> {
        let id = id::normal(id);
        let Some(item) = id::find(self.config.root(), &id) else {
            return Err(Fault::new(FaultKind::Config, format!("the config has no item {id}")));
        };
        match item {
            Item::Array(list) => {
                for (place, item) in list.iter().enumerate() {
                    self.fresh(&id::join(&id, &place.to_string()), item)?;
                }
            }
            item => drop(self.fresh(&id, item)?),
        }
        Ok(self.world.effects.take())
    }

    /// Resolves an item without caching its own result.
    fn fresh(&self, id: &str, item: &Item) -> Resolved {
        let value = self.resolve(id, item);
        self.known.borrow_mut().remove(id);
        value
    }

    fn resolve(&self, at: &str, item: &Item) -> Resolved {
        if let Some(value) = self.already(at) {
            return Ok(value);
        }
        let (circle, deep) = {
            let doing = self.doing.borrow();
            (doing.iter().position(|other| other == at).map(|start| doing[start..].join(" -> ")), doing.len() > DEEPEST)
        };
        if circle.is_some() || deep {
            let what = match circle {
                Some(way) => format!("refers to itself: {way} -> {at}"),
                None => format!("is nested more than {DEEPEST} levels deep"),
            };
            let fault = Fault::at(FaultKind::Config, at, what).in_file(self.config.file_of(at));
            return self.or_unknown(fault);
        }
        self.doing.borrow_mut().push(at.to_owned());
        self.rising.borrow_mut().push(0);
        let made = self.make(at, item);
        self.doing.borrow_mut().pop();
        let height = self.rising.borrow_mut().pop().unwrap_or(0);
        // Code that follows a value is recursive, whatever the order in which its parts are resolved.
        let made = match height > DEEPEST {
            true => Err(Fault::new(FaultKind::Config, format!("is nested more than {DEEPEST} levels deep"))),
            false => made,
        };
        self.raise(height);
        self.heights.borrow_mut().insert(at.to_owned(), height);
        let value = match made {
            Ok(value) => value,
            Err(fault) => {
                let text = item.as_str().unwrap_or_default();
                self.or_unknown(fault.placed(at, text).in_file(self.config.file_of(at)))?
            }
        };
        self.known.borrow_mut().insert(at.to_owned(), value.clone());
        Ok(value)
    }

    /// The cached value of an id.
    fn already(&self, id: &str) -> Option<Value> {
        let value = self.known.borrow().get(id).cloned()?;
        self.raise(self.heights.borrow().get(id).copied().unwrap_or(0));
        Some(value)
    }

    /// Records that the item being resolved contains a value of this depth.
    fn raise(&self, height: usize) {
        if let Some(above) = self.rising.borrow_mut().last_mut() {
            *above = (*above).max(height + 1);
        }
    }

    fn or_unknown(&self, fault: Fault) -> Resolved {
        if !self.gathers.get() {
            return Err(fault);
        }
        let mut faults = self.faults.borrow_mut();
        if !faults.contains(&fault) {
            faults.push(fault);
        }
        Ok(Value::Unknown)
    }

    fn make(&self, at: &str, item: &Item) -> Resolved {
        match item {
            Item::String(text) => self.text(at, text),
            Item::Array(list) => {
                let mut items = Vec::with_capacity(list.len());
                for (place, item) in list.iter().enumerate() {
                    let value = self.resolve(&id::join(at, &place.to_string()), item)?;
                    if !(is_component(item) && matches!(value, Value::None)) {
                        items.push(value);
                    }
                }
                Ok(Value::List(items.into()))
            }
            Item::Object(table) if table.contains_key("_target_") => self.component(at, table),
            Item::Object(table) => {
                let mut entries = Vec::with_capacity(table.len());
                for (key, item) in table {
                    let value = self.resolve(&id::join(at, key), item)?;
                    if !(is_component(item) && matches!(value, Value::None)) {
                        entries.push((Value::text(key), value));
                    }
                }
                Ok(Value::Dict(entries.into()))
            }
            plain => Ok(Value::from_json(plain)),
        }
    }

    fn text(&self, at: &str, text: &str) -> Resolved {
        if let Some(expression) = text.strip_prefix('$') {
            return self.expression(at, text, expression);
        }
        match whole_reference(text) {
            Some(id) => self.reference(id),
            None => Ok(Value::text(text)),
        }
    }

    fn reference(&self, id: &str) -> Resolved {
        if id::find(self.config.root(), id).is_none() {
            return Err(Fault::new(FaultKind::Config, format!("refers to @{id}, which the config does not have")));
        }
        self.get(id)
    }

    fn expression(&self, at: &str, text: &str, expression: &str) -> Resolved {
        let parsed = parse(expression).map_err(|what| Fault::outside(format!("the expression {what}")))?;
        let expr = match parsed {
            Statement::Import { module, .. } => return Ok(Value::Name(module.into())),
            Statement::Expression(expr) => expr,
        };
        let mut references = BTreeMap::new();
        for id in expr.references() {
            let value = self.reference(&id)?;
            references.insert(id, value);
        }
        let file = self.config.file_of(at);
        let scope = Scope {
            names: BTreeMap::new(),
            references: &references,
            modules: &self.modules,
            text,
            place: (file, at),
            world: &self.world,
        };
        scope.eval(&expr)
    }

    fn component(&self, at: &str, table: &serde_json::Map<String, Item>) -> Resolved {
        let part = |key: &str| table.get(key).map(|item| self.resolve(&id::join(at, key), item)).transpose();
        let target = part("_target_")?.unwrap_or(Value::None);
        let prints = matches!(&target, Value::Text(name) if name.ends_with("StatsHandler"));
        part("_requires_")?;
        let disabled = match part("_disabled_")? {
            Some(Value::Text(text)) => text.trim().eq_ignore_ascii_case("true"),
            Some(Value::Unknown) | None => false,
            Some(value) => value.truth().unwrap_or(false),
        };
        if disabled {
            return Ok(Value::None);
        }
        let mut args = Vec::new();
        for (key, item) in table.iter().filter(|(key, _)| !OWN_KEYS.contains(&key.as_str())) {
            if prints && PRINTED.contains(&key.as_str()) {
                continue;
            }
            args.push((key.clone(), self.resolve(&id::join(at, key), item)?));
        }
        let target = match target {
            Value::Text(name) => self.full_name(&name),
            Value::Name(name) => name.to_string(),
            Value::Unknown => return Ok(Value::Unknown),
            // A component or function that is returned or called unchanged.
            value @ (Value::Component(_) | Value::Function(_)) if args.is_empty() => return Ok(value),
            other => return Err(Fault::outside(format!("_target_ is {}; expected the name of a class", other.kind()))),
        };
        let mode = part("_mode_")?;
        let callable = match mode.as_ref().and_then(Value::as_str) {
            None | Some("default") => false,
            Some("callable") => true,
            Some("debug") => return Err(Fault::outside("_mode_ debug opens Python's debugger")),
            Some(other) => return Err(Fault::value(format!("_mode_ is {other}; expected default, callable or debug"))),
        };
        if target == "torch.device" && !callable {
            let device = args.iter().find(|(key, _)| key == "device" || key == "type").map(|(_, value)| value);
            return match device {
                Some(device @ Value::Device(_)) => Ok(device.clone()),
                Some(Value::Text(name)) => Ok(Value::Device(name.clone())),
                _ => Err(Fault::value("torch.device without a name")),
            };
        }
        let file = self.config.file_of(at).to_owned();
        Ok(Value::Component(Arc::new(Component { id: at.to_owned(), file, target, args, callable })))
    }

    /// A target with its first name replaced by the imported module.
    fn full_name(&self, target: &str) -> String {
        let (first, rest) = target.split_once('.').unwrap_or((target, ""));
        match self.modules.get(first) {
            Some(module) if !rest.is_empty() => format!("{module}.{rest}"),
            Some(module) => module.clone(),
            None => target.to_owned(),
        }
    }
}

fn is_component(item: &Item) -> bool {
    item.get("_target_").is_some()
}

/// The id, if the text is only a reference.
fn whole_reference(text: &str) -> Option<&str> {
    let id = text.strip_prefix('@')?;
    let word = |part: &str| part.chars().all(|c| c.is_alphanumeric() || c == '_');
    (!id.is_empty() && id.split("::").all(|part| !part.is_empty() && word(part))).then_some(id)
}

/// Collects the imports of all items.
fn imports(item: &Item, modules: &mut BTreeMap<String, String>) {
    match item {
        Item::String(text) => {
            let statement =
                text.strip_prefix('$').filter(|text| text.starts_with("import ") || text.starts_with("from "));
            if let Some(Ok(Statement::Import { module, name })) = statement.map(parse) {
                modules.insert(name, module);
            }
        }
        Item::Array(list) => list.iter().for_each(|item| imports(item, modules)),
        Item::Object(table) => table.values().for_each(|item| imports(item, modules)),
        _ => {}
    }
}
