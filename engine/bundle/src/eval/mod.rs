//! The interpreter of expressions. It returns values, and records the effects that a run performs.

mod attributes;
mod builtins;
mod decathlon;
mod files;
mod glob;
mod names;
mod operators;
mod pickled;
mod torch_file;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fault::Fault;
use crate::syntax::{Arg, Clause, Compare, Constant, Expr, Makes, Target, Unary};
use crate::value::{CallValue, Component, Function, Value};
pub use names::dtype_name;
pub use operators::places as slice_places;

/// An effect of an expression, besides its value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Effect {
    /// `@evaluator.run()`
    Run(Arc<Component>),
    /// `@checkpointloader(@evaluator)`
    Load {
        /// The loader.
        loader: Arc<Component>,
        /// The engine with which it is called.
        engine: Value,
    },
    /// `@network.load_state_dict(torch.load(path))`
    Weights {
        /// The network.
        network: Arc<Component>,
        /// The file.
        path: String,
        /// Whether its keys use an older layout (`load_old_state_dict`).
        old: bool,
    },
    /// `@scheduler.set_timesteps(num_inference_steps=50)`
    Timesteps(Arc<Component>, i64),
    /// `Path(..).mkdir(exist_ok=True)`
    MakeFolder(String),
    /// A seed: `monai.utils.set_determinism(seed=123)`.
    Seed(i64),
    /// A described call that returns nothing and writes something: `LDMSampler.run`, whose first
    /// argument is the sampler; `SaveImage.__call__`, whose first argument is the saver; or
    /// `PIL.Image.save`, whose first argument is the picture.
    Call(Arc<CallValue>),
}

/// Values of names and ids, and the imports.
pub(crate) struct Scope<'a> {
    pub names: BTreeMap<String, Value>,
    pub references: &'a BTreeMap<String, Value>,
    pub modules: &'a Arc<BTreeMap<String, String>>,
    pub text: &'a str,
    pub place: (&'a str, &'a str),
    pub world: &'a World,
}

/// The folder for file names, and the effects so far.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub folder: PathBuf,
    pub effects: RefCell<Vec<Effect>>,
    /// Results of `torch.load`, by path.
    pub loaded: RefCell<BTreeMap<String, Value>>,
    /// The number of values that may still be created, so that a short expression cannot fill the
    /// memory.
    pub room: std::cell::Cell<usize>,
    /// The current depth of the evaluation.
    depth: std::cell::Cell<usize>,
}

/// The number of values that the expressions of a config may create together. With the JSON made
/// from them they take half a gigabyte.
pub(crate) const ROOM: usize = 4_000_000;

/// The largest nesting depth of expressions and the lambdas that they call.
const DEEPEST: usize = 120;

/// The size of a value in bytes; larger things count as several values.
const VALUE: usize = size_of::<Value>();

impl World {
    pub fn new(folder: PathBuf) -> Self {
        World { folder, room: std::cell::Cell::new(ROOM), ..World::default() }
    }

    /// The path of a file named in an expression.
    pub fn path(&self, written: &str) -> PathBuf {
        self.folder.join(written)
    }

    pub fn take(&self, values: usize) -> Result<(), Fault> {
        match self.room.get().checked_sub(values) {
            Some(left) => {
                self.room.set(left);
                Ok(())
            }
            None => Err(Fault::value(format!("makes more than {ROOM} values"))),
        }
    }
}

type Eval<T = Value> = Result<T, Fault>;

/// Calls a lambda with values. File names are relative to `folder`.
///
/// # Errors
/// An operation of the lambda that is not supported, or that fails.
pub fn call(function: &Function, args: &[Value], folder: &Path) -> Result<Value, Fault> {
    let world = World::new(folder.to_owned());
    call_in(function, args, &world).map_err(|fault| {
        let (file, id) = &function.place;
        fault.placed(id, &function.text).in_file(file)
    })
}

pub(crate) fn call_in(function: &Function, args: &[Value], world: &World) -> Eval {
    let lambda = &function.lambda;
    let mut names = function.names.clone();
    let count = lambda.parameters.len();
    for (place, (name, _)) in lambda.parameters.iter().enumerate() {
        let value = args.get(place).cloned().or_else(|| function.defaults.get(place).cloned().flatten());
        let value = value.ok_or_else(|| Fault::value(format!("the lambda needs a value for {name}")))?;
        names.insert(name.clone(), value);
    }
    match &lambda.rest {
        Some(rest) => drop(names.insert(rest.clone(), Value::Tuple(args.iter().skip(count).cloned().collect()))),
        None if args.len() > count => {
            return Err(Fault::value(format!("the lambda takes {count} values, and is given {}", args.len())));
        }
        None => {}
    }
    if let Some(rest) = &lambda.named_rest {
        names.insert(rest.clone(), Value::Dict(Arc::from([])));
    }
    let scope = Scope {
        names,
        references: &function.references,
        modules: &function.modules,
        text: &function.text,
        place: (&function.place.0, &function.place.1),
        world,
    };
    scope.eval(&lambda.body)
}

impl Scope<'_> {
    fn inner(&self) -> Scope<'_> {
        Scope { names: self.names.clone(), ..*self }
    }

    /// Evaluates an expression.
    pub fn eval(&self, expr: &Expr) -> Eval {
        let depth = self.world.depth.get();
        if depth >= DEEPEST {
            return Err(Fault::value(format!("goes more than {DEEPEST} levels deep: does a lambda call itself?")));
        }
        self.world.depth.set(depth + 1);
        let value = self.evaluated(expr);
        self.world.depth.set(depth);
        value
    }

    fn evaluated(&self, expr: &Expr) -> Eval {
        match expr {
            Expr::Constant(constant) => Ok(match constant {
                Constant::None => Value::None,
                Constant::Bool(truth) => Value::Bool(*truth),
                Constant::Int(number) => Value::Int(*number),
                Constant::Float(number) => Value::Float(*number),
                Constant::Text(text) => Value::text(text),
                Constant::Ellipsis => Value::Name("Ellipsis".into()),
            }),
            Expr::Name(name) => self.name(name),
            Expr::Reference(id) => {
                self.references.get(id).cloned().ok_or_else(|| Fault::value(format!("@{id} has no value yet")))
            }
            Expr::List(items) => Ok(Value::List(self.elements(items)?.into())),
            Expr::Tuple(items) => Ok(Value::Tuple(self.elements(items)?.into())),
            Expr::Set(items) => Ok(operators::set(self.elements(items)?)),
            Expr::Dict(entries) => self.dict(entries),
            Expr::Unary(Unary::Not, of) => Ok(self.truth(of)?.map_or(Value::Unknown, |truth| Value::Bool(!truth))),
            Expr::Unary(op, of) => operators::unary(*op, &self.eval(of)?),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                self.counted(operators::binary(*op, &a, &b, self.world)?)
            }
            Expr::Compare(first, rest) => self.compare(first, rest),
            Expr::And(a, b) => {
                let left = self.eval(a)?;
                match operators::truth(&left)? {
                    Some(true) => self.eval(b),
                    Some(false) => Ok(left),
                    None => Ok(Value::Unknown),
                }
            }
            Expr::Or(a, b) => {
                let left = self.eval(a)?;
                match operators::truth(&left)? {
                    Some(true) => Ok(left),
                    Some(false) => self.eval(b),
                    None => Ok(Value::Unknown),
                }
            }
            Expr::If { condition, then, otherwise } => match self.truth(condition)? {
                Some(true) => self.eval(then),
                Some(false) => self.eval(otherwise),
                None => Ok(Value::Unknown),
            },
            Expr::Attribute(of, name) => self.attribute(&self.eval(of)?, name),
            Expr::Index(of, index) => operators::index(&self.opened(self.eval(of)?)?, &self.eval(index)?),
            Expr::Slice(start, end, step) => {
                let part = |part: &Option<Box<Expr>>| -> Eval<Option<i64>> {
                    let Some(expr) = part else { return Ok(None) };
                    match self.eval(expr)? {
                        Value::None => Ok(None),
                        value => value.as_int().map(Some).ok_or_else(|| {
                            Fault::value(format!("an end of a slice is {}; expected a whole number", value.kind()))
                        }),
                    }
                };
                Ok(Value::Slice(part(start)?, part(end)?, part(step)?))
            }
            Expr::Call(function, args) => self.call(function, args),
            Expr::Lambda(lambda) => {
                // A lambda keeps the text around it, and the names.
                let names = 32 * (self.names.len() + self.references.len());
                self.world.take(16 + self.text.len() / VALUE + names)?;
                let defaults =
                    lambda.parameters.iter().map(|(_, default)| default.as_ref().map(|e| self.eval(e)).transpose());
                Ok(Value::Function(Arc::new(Function {
                    lambda: lambda.clone(),
                    names: self.names.clone(),
                    references: self.references.clone(),
                    modules: self.modules.clone(),
                    defaults: defaults.collect::<Eval<_>>()?,
                    text: self.text.into(),
                    place: (self.place.0.into(), self.place.1.into()),
                })))
            }
            Expr::Comprehension { makes, key, value, clauses } => {
                self.comprehension(*makes, key.as_deref(), value, clauses)
            }
            Expr::Formatted(_) => Err(Fault::outside("a formatted text (f'...') is not evaluated")),
        }
    }

    /// Reads the result of a `torch.load` call; other values are returned unchanged. Weight files
    /// are passed on as paths; only a file whose content is used is read here.
    pub(super) fn opened(&self, value: Value) -> Eval {
        match &value {
            Value::Call(call) if call.name == "torch.load" => match call.get(0, "f").and_then(Value::as_str) {
                Some(path) => torch_file::load(self.world, path),
                None => Err(Fault::value("torch.load without a path")),
            },
            _ => Ok(value),
        }
    }

    /// Counts the elements of a new value against the limit.
    fn counted(&self, value: Value) -> Eval {
        self.world.take(match &value {
            Value::Text(text) | Value::Path(text) => text.len() / VALUE,
            Value::Dict(entries) => 2 * entries.len(),
            other => other.as_slice().map_or(0, <[Value]>::len),
        })?;
        Ok(value)
    }

    fn truth(&self, expr: &Expr) -> Eval<Option<bool>> {
        operators::truth(&self.eval(expr)?)
    }

    fn elements(&self, items: &[Arg]) -> Eval<Vec<Value>> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Arg::Plain(expr) => out.push(self.eval(expr)?),
                Arg::Star(expr) => out.extend(operators::elements(&self.eval(expr)?)?),
                Arg::Named(..) | Arg::StarStar(_) => return Err(Fault::outside("a named argument stands in a list")),
            }
        }
        self.world.take(out.len())?;
        Ok(out)
    }

    fn dict(&self, entries: &[(Option<Expr>, Expr)]) -> Eval {
        let mut out = Vec::new();
        for (key, value) in entries {
            match key {
                Some(key) => operators::insert(&mut out, self.eval(key)?, self.eval(value)?),
                None => match self.eval(value)? {
                    Value::Dict(more) => {
                        more.iter().for_each(|(key, value)| operators::insert(&mut out, key.clone(), value.clone()));
                    }
                    Value::Unknown => return Ok(Value::Unknown),
                    other => return Err(Fault::value(format!("** takes in a dictionary, not {}", other.kind()))),
                },
            }
        }
        Ok(Value::Dict(out.into()))
    }

    fn compare(&self, first: &Expr, rest: &[(Compare, Expr)]) -> Eval {
        let mut left = self.eval(first)?;
        for (op, right) in rest {
            let right = self.eval(right)?;
            match operators::compare(*op, &left, &right)? {
                Some(true) => left = right,
                Some(false) => return Ok(Value::Bool(false)),
                None => return Ok(Value::Unknown),
            }
        }
        Ok(Value::Bool(true))
    }

    fn comprehension(&self, makes: Makes, key: Option<&Expr>, value: &Expr, clauses: &[Clause]) -> Eval {
        let (mut items, mut entries) = (Vec::new(), Vec::new());
        let mut scope = self.inner();
        let known = scope.run_clauses(clauses, &mut |scope| {
            self.world.take(1)?;
            match key {
                Some(key) => operators::insert(&mut entries, scope.eval(key)?, scope.eval(value)?),
                None => items.push(scope.eval(value)?),
            }
            Ok(())
        })?;
        Ok(match makes {
            _ if !known => Value::Unknown,
            Makes::List => Value::List(items.into()),
            Makes::Set => operators::set(items),
            Makes::Dict => Value::Dict(entries.into()),
        })
    }

    /// Runs the loops of a comprehension; returns whether all iterables and conditions are known.
    fn run_clauses(&mut self, clauses: &[Clause], each: &mut dyn FnMut(&Self) -> Eval<()>) -> Eval<bool> {
        let Some((clause, rest)) = clauses.split_first() else {
            each(self)?;
            return Ok(true);
        };
        let through = self.eval(&clause.iter)?;
        if matches!(through, Value::Unknown) {
            return Ok(false);
        }
        for element in operators::elements(&through)? {
            self.bind(&clause.target, element)?;
            let mut fits = true;
            for condition in &clause.conditions {
                match self.truth(condition)? {
                    Some(truth) => fits &= truth,
                    None => return Ok(false),
                }
                if !fits {
                    break;
                }
            }
            if fits && !self.run_clauses(rest, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn bind(&mut self, target: &Target, value: Value) -> Eval<()> {
        match target {
            Target::Name(name) => {
                self.names.insert(name.clone(), value);
                Ok(())
            }
            Target::Tuple(targets) => {
                if matches!(value, Value::Unknown) {
                    return targets.iter().try_for_each(|target| self.bind(target, Value::Unknown));
                }
                let parts = operators::elements(&value)?;
                if parts.len() != targets.len() {
                    let what = format!("{} values are unpacked to {} names", parts.len(), targets.len());
                    return Err(Fault::value(what));
                }
                targets.iter().zip(parts).try_for_each(|(target, part)| self.bind(target, part))
            }
        }
    }

    fn call(&self, function: &Expr, args: &[Arg]) -> Eval {
        // `x.method(...)`
        if let Expr::Attribute(of, method) = function {
            let of = self.eval(of)?;
            if !matches!(of, Value::Name(_)) {
                return self.counted(self.method(&of, method, self.arguments(args)?)?);
            }
        }
        match self.eval(function)? {
            Value::Name(name) => self.counted(self.call_name(&name, self.arguments(args)?)?),
            Value::Function(lambda) => {
                let given = self.arguments(args)?;
                call_in(&lambda, &given.args, self.world)
            }
            Value::Component(component) => self.call_component(&component, self.arguments(args)?),
            Value::Unknown => Ok(Value::Unknown),
            other => Err(Fault::outside(format!("{} is called", other.kind()))),
        }
    }

    fn arguments(&self, args: &[Arg]) -> Eval<CallValue> {
        let mut given = CallValue { name: String::new(), args: Vec::new(), named: Vec::new() };
        for arg in args {
            match arg {
                Arg::Plain(expr) => given.args.push(self.eval(expr)?),
                Arg::Named(name, expr) => given.named.push((name.clone(), self.eval(expr)?)),
                Arg::Star(expr) => given.args.extend(operators::elements(&self.eval(expr)?)?),
                Arg::StarStar(expr) => match self.eval(expr)? {
                    Value::Dict(entries) => {
                        for (key, value) in entries.iter() {
                            let key = key.as_str().ok_or_else(|| Fault::value("** takes in names"))?;
                            given.named.push((key.to_owned(), value.clone()));
                        }
                    }
                    other => return Err(Fault::value(format!("** takes in a dictionary, not {}", other.kind()))),
                },
            }
        }
        Ok(given)
    }

    fn call_component(&self, component: &Arc<Component>, given: CallValue) -> Eval {
        if component.callable {
            let mut args = component.args.clone();
            args.extend(given.named);
            let made = Component {
                id: component.id.clone(),
                file: component.file.clone(),
                target: component.target.clone(),
                args,
                callable: false,
            };
            return Ok(Value::Component(Arc::new(made)));
        }
        if component.name() == "CheckpointLoader" {
            let engine = given.get(0, "engine").cloned().unwrap_or(Value::None);
            self.world.effects.borrow_mut().push(Effect::Load { loader: component.clone(), engine });
            return Ok(Value::None);
        }
        // Things that are computed or written later are only described now.
        if component.name() == "SaveImage" {
            return Ok(self.does("SaveImage.__call__", component, given));
        }
        if component.name() == "AutoencoderKL" {
            return Ok(Value::Call(Arc::new(bound("AutoencoderKL.__call__", component, given))));
        }
        Err(Fault::outside(format!("a {} is called", component.name())))
    }

    /// Records a call of a component that has an effect.
    pub(crate) fn does(&self, name: &str, component: &Arc<Component>, given: CallValue) -> Value {
        self.world.effects.borrow_mut().push(Effect::Call(Arc::new(bound(name, component, given))));
        Value::None
    }
}

/// A call of a component, with the component as the first argument.
pub(crate) fn bound(name: &str, component: &Arc<Component>, given: CallValue) -> CallValue {
    let CallValue { args, named, .. } = given;
    let args = std::iter::once(Value::Component(component.clone())).chain(args).collect();
    CallValue { name: name.to_owned(), args, named }
}
