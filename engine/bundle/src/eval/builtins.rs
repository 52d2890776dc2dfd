//! Functions by name: Python's built-ins, those of a few modules, and those that stay unevaluated
//! calls.

use std::sync::Arc;

use super::{Effect, Eval, Scope, call_in, decathlon, files, glob, names, operators};
use crate::fault::Fault;
use crate::value::{CallValue, Component, Value};

impl Scope<'_> {
    /// Calls a function by its dotted name.
    pub(super) fn call_name(&self, name: &str, given: CallValue) -> Eval {
        if given
            .args
            .iter()
            .chain(given.named.iter().map(|(_, value)| value))
            .any(|value| matches!(value, Value::Unknown))
            && !name.starts_with("monai.")
        {
            return Ok(Value::Unknown);
        }
        if names::is_builtin(name) {
            return self.call_builtin(name, &given);
        }
        let text = |place: usize, key: &str| -> Eval<String> {
            let value = given.get(place, key).and_then(Value::as_str).map(str::to_owned);
            value.ok_or_else(|| Fault::value(format!("{name} without a path")))
        };
        let kept = |name: &str| {
            let CallValue { args, named, .. } = &given;
            Value::Call(Arc::new(CallValue { name: name.to_owned(), args: args.clone(), named: named.clone() }))
        };
        let world = self.world;
        let short = name.rsplit('.').next().unwrap_or(name);
        Ok(match name {
            "os.path.join" => {
                let parts: Option<Vec<&str>> = given.args.iter().map(Value::as_str).collect();
                let parts = parts.ok_or_else(|| Fault::value("os.path.join of what is no text"))?;
                let joined = parts
                    .split_first()
                    .map(|(first, rest)| rest.iter().fold((*first).to_owned(), |a, b| files::join(&a, b)));
                Value::text(joined.ok_or_else(|| Fault::value("os.path.join of nothing"))?)
            }
            "os.path.exists" => Value::Bool(world.path(&text(0, "path")?).exists()),
            "os.path.isfile" => Value::Bool(world.path(&text(0, "path")?).is_file()),
            "os.path.isdir" => Value::Bool(world.path(&text(0, "path")?).is_dir()),
            "os.path.basename" => Value::text(text(0, "p")?.rsplit('/').next().unwrap_or_default()),
            "os.path.dirname" => Value::text(text(0, "p")?.rsplit_once('/').map_or("", |(folder, _)| folder)),
            "os.listdir" => Value::list(files::list(world, &text(0, "path")?)?.into_iter().map(Value::text)),
            "os.makedirs" | "os.mkdir" => {
                world.effects.borrow_mut().push(Effect::MakeFolder(text(0, "name")?));
                Value::None
            }
            "glob.glob" => {
                let recursive = given.get(1, "recursive").and_then(Value::truth).unwrap_or(false);
                let found = glob::glob(&world.folder, &text(0, "pathname")?, recursive);
                world.take(found.len())?;
                Value::list(found.into_iter().map(Value::text))
            }
            "json.load" => match given.get(0, "fp") {
                Some(Value::Path(path)) => files::read_json(world, path)?,
                _ => return Err(Fault::value("json.load of what is no opened file")),
            },
            "json.loads" => {
                let text = text(0, "s")?;
                let parsed =
                    serde_json::from_str(&text).map_err(|error| Fault::value(format!("json.loads: {error}")))?;
                Value::from_json(&parsed)
            }
            "pathlib.Path" | "pathlib.PurePath" => Value::Path(text(0, "path")?.as_str().into()),
            "pandas.read_csv" => files::read_csv(world, &text(0, "filepath_or_buffer")?)?,
            "torch.cuda.is_available" => Value::Bool(false),
            "torch.device" => match given.get(0, "device").or_else(|| given.get(0, "type")) {
                Some(device @ Value::Device(_)) => device.clone(),
                Some(Value::Text(device)) => Value::Device(device.clone()),
                _ => return Err(Fault::value("torch.device without a name")),
            },
            // Arrays and tensors are the same here.
            "torch.from_numpy" if given.args.len() == 1 => given.args[0].clone(),
            "torch.load"
            | "torch.rand"
            | "torch.randn"
            | "torch.ones"
            | "torch.zeros"
            | "numpy.load"
            | "PIL.Image.fromarray"
            | "scripts.utils.visualize_2d_image"
            | "datetime.datetime.now" => kept(name),
            "monai.transforms.concatenate" | "monai.transforms.utils_pytorch_numpy_unification.concatenate" => {
                kept("monai.transforms.concatenate")
            }
            "monai.utils.first" | "monai.utils.misc.first" => kept("monai.utils.first"),
            "copy.deepcopy" | "copy.copy" => given.get(0, "x").cloned().unwrap_or(Value::None),
            // Without TensorRT, MONAI returns the network as well.
            "monai.networks.trt_compile" | "monai.networks.trt_compiler.trt_compile" => {
                given.get(0, "model").cloned().ok_or_else(|| Fault::value("trt_compile without a network"))?
            }
            "functools.partial" => kept(name),
            "sys.path.append" | "sys.path.insert" | "torch.cuda.set_device" | "monai.config.print_config" => {
                Value::None
            }
            "monai.data.load_decathlon_datalist" | "monai.data.decathlon_datalist.load_decathlon_datalist" => {
                decathlon::load(world, &given)?
            }
            _ if name.starts_with("monai.") && short == "set_determinism" => {
                if let Some(seed) = given.get(0, "seed").and_then(Value::as_int) {
                    world.effects.borrow_mut().push(Effect::Seed(seed));
                }
                Value::None
            }
            _ if name.starts_with("monai.") && short == "from_engine" => kept(short),
            // Files with this extension are written by this class.
            "monai.data.register_writer" | "monai.data.image_writer.register_writer" => {
                match (given.get(0, "ext_name").and_then(Value::as_str), given.args.get(1)) {
                    (Some("json" | ".json"), Some(Value::Name(writer)))
                        if &**writer == "scripts.ClassificationWriter" =>
                    {
                        Value::None
                    }
                    (ending, writer) => {
                        let (ending, writer) =
                            (ending.unwrap_or("?"), writer.map_or("nothing".to_owned(), Value::kind));
                        return Err(Fault::outside(format!(
                            "a writer of {ending} files that is not supported: {writer}"
                        )));
                    }
                }
            }
            _ if name.starts_with("torch.backends.") || name.starts_with("logging.") => Value::None,
            // A class of MONAI that is called instead of written as a component.
            _ if name.starts_with("monai.")
                && short.starts_with(|c: char| c.is_uppercase())
                && given.args.is_empty() =>
            {
                Value::Component(Arc::new(Component {
                    id: self.place.1.to_owned(),
                    file: self.place.0.to_owned(),
                    target: name.to_owned(),
                    args: given.named,
                    callable: false,
                }))
            }
            _ => return Err(Fault::outside(format!("{name}(...) is not evaluated"))),
        })
    }

    fn call_builtin(&self, name: &str, given: &CallValue) -> Eval {
        let first = given.args.first();
        let need = || first.ok_or_else(|| Fault::value(format!("{name}() without a value")));
        let all = || operators::elements(need()?);
        let number =
            |value: &Value| value.as_float().ok_or_else(|| Fault::value(format!("{name}() of {}", value.kind())));
        Ok(match name {
            "list" => Value::List(first.map_or(Ok(Vec::new()), operators::elements)?.into()),
            "tuple" => Value::Tuple(first.map_or(Ok(Vec::new()), operators::elements)?.into()),
            "set" => operators::set(first.map_or(Ok(Vec::new()), operators::elements)?),
            "dict" => self.dict_of(given)?,
            "sorted" => {
                let items = all()?;
                self.sorted(items, given)?
            }
            "len" => match need()? {
                Value::Text(text) => Value::Int(text.chars().count() as i64),
                other => Value::Int(operators::elements(other)?.len() as i64),
            },
            "range" => {
                let ends: Option<Vec<i64>> = given.args.iter().map(Value::as_int).collect();
                let ends = ends.ok_or_else(|| Fault::value("range() of what are no whole numbers"))?;
                let (start, end, step) = match ends[..] {
                    [end] => (0, end, 1),
                    [start, end] => (start, end, 1),
                    [start, end, step] if step != 0 => (start, end, step),
                    _ => return Err(Fault::value("range() takes one to three numbers, the last not 0")),
                };
                let span = if step > 0 { end.saturating_sub(start) } else { start.saturating_sub(end) }.max(0);
                let count = span.unsigned_abs().div_ceil(step.unsigned_abs());
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                self.world.take(count)?;
                Value::list((0..count).map(|place| Value::Int(start + place as i64 * step)))
            }
            "int" => match need()? {
                Value::Text(text) => {
                    let number = text.trim().parse().map(Value::Int);
                    number.map_err(|_| Fault::value(format!("int() of the text {text:?}")))?
                }
                value => Value::Int(number(value)?.trunc() as i64),
            },
            "float" => match need()? {
                Value::Text(text) => {
                    let number = text.trim().parse().map(Value::Float);
                    number.map_err(|_| Fault::value(format!("float() of the text {text:?}")))?
                }
                value => Value::Float(number(value)?),
            },
            "str" => match need()? {
                Value::Text(text) | Value::Path(text) | Value::Device(text) => Value::Text(text.clone()),
                Value::Int(number) => Value::text(number.to_string()),
                Value::Bool(true) => Value::text("True"),
                Value::Bool(false) => Value::text("False"),
                Value::None => Value::text("None"),
                other => return Err(Fault::outside(format!("str() of {} is not evaluated", other.kind()))),
            },
            "bool" => operators::truth(need()?)?.map_or(Value::Unknown, Value::Bool),
            "abs" => match need()? {
                Value::Int(number) => Value::Int(number.saturating_abs()),
                value => Value::Float(number(value)?.abs()),
            },
            "round" => match (need()?, given.args.get(1).and_then(Value::as_int)) {
                (Value::Int(number), _) => Value::Int(*number),
                (value, None) => Value::Int(number(value)?.round_ties_even() as i64),
                (value, Some(digits)) => {
                    let scale = 10f64.powi(i32::try_from(digits).unwrap_or(0));
                    Value::Float((number(value)? * scale).round_ties_even() / scale)
                }
            },
            "min" | "max" => {
                let items = if given.args.len() > 1 { given.args.clone() } else { all()? };
                let mut items = items.into_iter();
                let mut best = items.next().ok_or_else(|| Fault::value(format!("{name}() of nothing")))?;
                for item in items {
                    let order = operators::order(&item, &best)?;
                    if (name == "min" && order.is_lt()) || (name == "max" && order.is_gt()) {
                        best = item;
                    }
                }
                best
            }
            "sum" => {
                let start = given.args.get(1).cloned().unwrap_or(Value::Int(0));
                let add =
                    |sum: Value, item: Value| operators::binary(crate::syntax::Binary::Add, &sum, &item, self.world);
                all()?.into_iter().try_fold(start, add)?
            }
            // Streams of images are combined later.
            "zip" if given.args.iter().any(|value| matches!(value, Value::Component(_))) => keep("zip", given),
            "map" => match (first, given.args.get(1)) {
                (Some(Value::Function(_)), Some(Value::Call(call))) if call.name == "zip" => keep("map", given),
                (Some(Value::Function(function)), Some(items)) if given.args.len() == 2 => {
                    let items = operators::elements(items)?;
                    self.world.take(items.len())?;
                    let made = items.iter().map(|item| call_in(function, std::slice::from_ref(item), self.world));
                    Value::List(made.collect::<Eval<Vec<Value>>>()?.into())
                }
                _ => return Err(Fault::outside("map() of other than a lambda and one list is not evaluated")),
            },
            "zip" => {
                let lists: Eval<Vec<Vec<Value>>> = given.args.iter().map(operators::elements).collect();
                let lists = lists?;
                let count = lists.iter().map(Vec::len).min().unwrap_or(0);
                self.world.take(count)?;
                let at = |place: usize| lists.iter().map(|list| list[place].clone()).collect();
                Value::list((0..count).map(|place| Value::Tuple(at(place))))
            }
            "enumerate" => {
                let start = given.get(1, "start").and_then(Value::as_int).unwrap_or(0);
                let items = all()?.into_iter().enumerate();
                Value::list(items.map(|(place, item)| Value::Tuple([Value::Int(start + place as i64), item].into())))
            }
            "filter" => {
                let items = operators::elements(given.args.get(1).unwrap_or(&Value::None))?;
                let mut kept = Vec::new();
                for item in items {
                    let fits = match need()? {
                        Value::Function(function) => {
                            operators::truth(&call_in(function, std::slice::from_ref(&item), self.world)?)?
                        }
                        _ => operators::truth(&item)?,
                    };
                    match fits {
                        Some(true) => kept.push(item),
                        Some(false) => {}
                        None => return Ok(Value::Unknown),
                    }
                }
                Value::List(kept.into())
            }
            "open" => {
                let path = need()?.as_str().ok_or_else(|| Fault::value("open() without a path"))?;
                let mode = given.get(1, "mode").and_then(Value::as_str).unwrap_or("r");
                if mode.contains(['w', 'a', 'x', '+']) {
                    return Err(Fault::outside("open() of a file to be written is not evaluated"));
                }
                files::check(self.world, path)?;
                Value::Path(path.into())
            }
            "print" | "setattr" => Value::None,
            other => return Err(Fault::outside(format!("{other}() is not evaluated"))),
        })
    }

    fn dict_of(&self, given: &CallValue) -> Eval {
        let mut entries = match given.args.first() {
            Some(Value::Dict(entries)) => entries.to_vec(),
            Some(pairs) => {
                let mut entries = Vec::new();
                for pair in operators::elements(pairs)? {
                    match pair.as_slice() {
                        Some([key, value]) => operators::insert(&mut entries, key.clone(), value.clone()),
                        _ => return Err(Fault::value("dict() of what are no pairs")),
                    }
                }
                entries
            }
            None => Vec::new(),
        };
        for (key, value) in &given.named {
            operators::insert(&mut entries, Value::text(key), value.clone());
        }
        Ok(Value::Dict(entries.into()))
    }

    fn sorted(&self, items: Vec<Value>, given: &CallValue) -> Eval {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let key = match given.get(1, "key") {
                Some(Value::Function(function)) => call_in(function, std::slice::from_ref(&item), self.world)?,
                Some(Value::None) | None => item.clone(),
                Some(other) => return Err(Fault::outside(format!("sorted() by {} is not evaluated", other.kind()))),
            };
            keyed.push((key, item));
        }
        let reverse = given.get(2, "reverse").and_then(Value::truth).unwrap_or(false);
        let keyed = merge_sorted(keyed, &mut |a, b| {
            let order = operators::order(&a.0, &b.0)?;
            Ok(if reverse { order.is_lt() } else { order.is_gt() })
        })?;
        Ok(Value::list(keyed.into_iter().map(|(_, item)| item)))
    }
}

/// A stable merge sort. Values of different kinds cannot be compared, and NaN has no order, for
/// which the sort of the standard library may panic.
fn merge_sorted<T>(mut items: Vec<T>, is_after: &mut dyn FnMut(&T, &T) -> Eval<bool>) -> Eval<Vec<T>> {
    if items.len() < 2 {
        return Ok(items);
    }
    let right = items.split_off(items.len() / 2);
    let (left, right) = (merge_sorted(items, is_after)?, merge_sorted(right, is_after)?);
    let mut sorted = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = if is_after(a, b)? { right.next() } else { left.next() };
        sorted.extend(next);
    }
    sorted.extend(left);
    sorted.extend(right);
    Ok(sorted)
}

/// Makes a call that stays unevaluated.
fn keep(name: &str, given: &CallValue) -> Value {
    let CallValue { args, named, .. } = given;
    Value::Call(Arc::new(CallValue { name: name.to_owned(), args: args.clone(), named: named.clone() }))
}
