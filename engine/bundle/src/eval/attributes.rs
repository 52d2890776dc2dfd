//! Attributes and methods of values.

use std::sync::Arc;

use super::{Effect, Eval, Scope, bound, files, names, operators};
use crate::fault::{Fault, FaultKind};
use crate::value::{CallValue, Component, Value};

impl Scope<'_> {
    /// Evaluates `value.name`.
    pub(super) fn attribute(&self, value: &Value, name: &str) -> Eval {
        match value {
            Value::Name(module) => {
                let dotted = format!("{module}.{name}");
                Ok(names::constant(&dotted).unwrap_or_else(|| Value::Name(dotted.into())))
            }
            Value::Table(columns) => match columns.iter().find(|(known, _)| known == name) {
                Some((_, column)) => Ok(column.clone()),
                None => Err(Fault::value(format!("the table has no column {name}"))),
            },
            Value::Path(path) => match name {
                "name" => Ok(Value::text(path.rsplit('/').next().unwrap_or_default())),
                "parent" => Ok(Value::Path(path.rsplit_once('/').map_or(".", |(parent, _)| parent).into())),
                _ => Err(Fault::outside(format!("{name} of a path is not evaluated"))),
            },
            Value::Column(_) if name == "values" => Ok(value.clone()),
            Value::Unknown => Ok(Value::Unknown),
            other => Err(Fault::outside(format!("{name} of {} is not evaluated", other.kind()))),
        }
    }

    /// Evaluates `value.name(...)`.
    pub(super) fn method(&self, value: &Value, name: &str, given: CallValue) -> Eval {
        let opened = match name {
            "get" | "keys" | "values" | "items" => self.opened(value.clone())?,
            _ => value.clone(),
        };
        let value = &opened;
        match value {
            Value::Unknown => return Ok(Value::Unknown),
            Value::Component(component) => return self.component_method(component, value, name, given),
            // The methods that depend on the kind of value.
            Value::Table(_) | Value::Dict(_) if matches!(name, "get" | "keys" | "values" | "items") => {
                return dict_method(value, name, &given);
            }
            Value::Text(text) => return self.text_method(text, name, &given),
            Value::Path(path) => return self.path_method(path, name, &given),
            Value::Column(_) if matches!(name, "tolist" | "to_list") => return Ok(operators::listed(value)),
            Value::List(_) | Value::Tuple(_) if matches!(name, "index" | "count") => {
                let wanted = given.get(0, "value").cloned().unwrap_or(Value::None);
                let items = operators::elements(value)?;
                let count = items.iter().filter(|item| item.equals(&wanted)).count();
                let place = items.iter().position(|item| item.equals(&wanted));
                return match (name, place) {
                    ("count", _) => Ok(Value::Int(count as i64)),
                    (_, Some(place)) => Ok(Value::Int(place as i64)),
                    (_, None) => Err(Fault::value("index of a value that the list does not have")),
                };
            }
            Value::Column(_) if matches!(name, "numpy" | "detach" | "clone" | "copy") => return Ok(value.clone()),
            // Devices, arrays and kept calls: their device does not matter here.
            _ if matches!(name, "to" | "cpu" | "cuda" | "float") => return Ok(value.clone()),
            _ => {}
        }
        if let Value::Call(call) = value
            && call.name == "datetime.datetime.now"
            && name == "strftime"
        {
            let format = given.get(0, "format").and_then(Value::as_str).unwrap_or_default();
            return files::now(format).map(Value::text);
        }
        if let Value::Call(call) = value {
            match name {
                // NumPy arrays and tensors are the same here.
                "numpy" | "detach" | "clone" => return Ok(value.clone()),
                "transpose" => {
                    let args = std::iter::once(value.clone()).chain(given.args).collect();
                    let call = CallValue { name: "transpose".to_owned(), args, named: given.named };
                    return Ok(Value::Call(Arc::new(call)));
                }
                "save" if call.name == "PIL.Image.fromarray" => {
                    let args = std::iter::once(value.clone()).chain(given.args).collect();
                    let call = CallValue { name: "PIL.Image.save".to_owned(), args, named: given.named };
                    self.world.effects.borrow_mut().push(Effect::Call(Arc::new(call)));
                    return Ok(Value::None);
                }
                _ => {}
            }
        }
        Err(Fault::outside(format!("{name} of {} is not evaluated", value.kind())))
    }

    fn component_method(&self, component: &Arc<Component>, value: &Value, name: &str, given: CallValue) -> Eval {
        let of = component.name();
        match name {
            "to" | "eval" | "train" | "cpu" | "cuda" | "float" => return Ok(value.clone()),
            // A chain records the seed of its random transforms.
            "set_random_state" if of == "Compose" => {
                let Component { id, file, target, args, callable } = &**component;
                let (id, file, target, callable) = (id.clone(), file.clone(), target.clone(), *callable);
                let seed = given.get(0, "seed").cloned().unwrap_or(Value::None);
                let args = args.iter().cloned().chain([(name.to_owned(), seed)]).collect();
                return Ok(Value::Component(Arc::new(Component { id, file, target, args, callable })));
            }
            "set_random_state" => return Ok(value.clone()),
            "close" => return Ok(Value::None),
            "run" if ["Evaluator", "Trainer", "Workflow"].iter().any(|kind| of.ends_with(kind)) => {
                self.world.effects.borrow_mut().push(Effect::Run(component.clone()));
                return Ok(Value::None);
            }
            "parameters" => {
                let args = vec![value.clone()];
                return Ok(Value::Call(Arc::new(CallValue { name: "parameters".to_owned(), args, named: Vec::new() })));
            }
            "create_dataset" if of == "CreateImageLabelList" => return self.image_label_list(component, &given),
            "run" if of == "LDMSampler" => return Ok(self.does("LDMSampler.run", component, given)),
            "sampling_fn" if of == "LDMSampler" => {
                return Ok(Value::Call(Arc::new(bound("LDMSampler.sampling_fn", component, given))));
            }
            "set_timesteps" => {
                let steps = given.get(0, "num_inference_steps").and_then(Value::as_int);
                let steps = steps.ok_or_else(|| Fault::value("set_timesteps without a number of steps"))?;
                self.world.effects.borrow_mut().push(Effect::Timesteps(component.clone(), steps));
                return Ok(Value::None);
            }
            "load_state_dict" | "load_old_state_dict" => {
                let path = match given.args.first() {
                    Some(Value::Call(call)) if call.name == "torch.load" => call.get(0, "f").and_then(Value::as_str),
                    _ => None,
                };
                let what = "takes weights other than torch.load(FILE)";
                let path = path.ok_or_else(|| Fault::outside(format!("{name} {what}")))?.to_owned();
                let (network, old) = (component.clone(), name == "load_old_state_dict");
                self.world.effects.borrow_mut().push(Effect::Weights { network, path, old });
                return Ok(Value::None);
            }
            _ => {}
        }
        Err(Fault::outside(format!("{name} of a {of} is not evaluated")))
    }

    /// Reads the images and the labels of a group from a list file next to the config
    /// (`scripts.createList`).
    fn image_label_list(&self, component: &Component, given: &CallValue) -> Eval {
        let path = component.get("filename").and_then(Value::as_str);
        let path = path.ok_or_else(|| Fault::value("CreateImageLabelList without a filename"))?;
        let group = given.get(0, "grp").and_then(Value::as_str);
        let group = group.ok_or_else(|| Fault::value("create_dataset without the name of a group"))?;
        let list = files::read_json(self.world, path)?;
        let wrong = |what: &str| Fault::new(FaultKind::File, format!("{path} {what} {group:?}"));
        let items = list.key(group).and_then(Value::as_slice).ok_or_else(|| wrong("has no list"))?;
        let of = |key: &str| {
            let values = items.iter().map(|item| item.key(key).cloned());
            values
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| wrong(&format!("has an entry without {key:?} in the list")))
        };
        Ok(Value::Tuple([Value::List(of("image")?.into()), Value::List(of("label")?.into())].into()))
    }

    fn text_method(&self, text: &Arc<str>, name: &str, given: &CallValue) -> Eval {
        let arg = |place: usize| given.args.get(place).and_then(Value::as_str);
        let need = |place: usize| arg(place).ok_or_else(|| Fault::value(format!("{name} of a text without a text")));
        Ok(match name {
            "replace" => {
                let (from, to) = (need(0)?, need(1)?);
                self.world.take(text.matches(from).count().saturating_mul(to.len()))?;
                Value::text(text.replace(from, to))
            }
            "lower" => Value::text(text.to_lowercase()),
            "upper" => Value::text(text.to_uppercase()),
            "strip" => Value::text(text.trim()),
            "startswith" => Value::Bool(text.starts_with(need(0)?)),
            "endswith" => Value::Bool(text.ends_with(need(0)?)),
            "split" => match arg(0) {
                Some("") => return Err(Fault::value("split by an empty text")),
                Some(by) => Value::list(text.split(by).map(Value::text)),
                None => Value::list(text.split_whitespace().map(Value::text)),
            },
            "join" => {
                let parts = operators::elements(given.args.first().unwrap_or(&Value::None))?;
                let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
                let parts = parts.ok_or_else(|| Fault::value("join of what are no texts"))?;
                let bytes: usize = parts.iter().map(|part| part.len() + text.len()).sum();
                self.world.take(bytes)?;
                Value::text(parts.join(text))
            }
            _ => return Err(Fault::outside(format!("{name} of a text is not evaluated"))),
        })
    }

    fn path_method(&self, path: &Arc<str>, name: &str, given: &CallValue) -> Eval {
        match name {
            "read_text" | "read" => files::read(self.world, path).map(Value::text),
            "exists" => Ok(Value::Bool(self.world.path(path).exists())),
            "is_file" => Ok(Value::Bool(self.world.path(path).is_file())),
            "close" => Ok(Value::None),
            "mkdir" => {
                self.world.effects.borrow_mut().push(Effect::MakeFolder(path.to_string()));
                Ok(Value::None)
            }
            "joinpath" => {
                let part = given.get(0, "other").and_then(Value::as_str);
                let part = part.ok_or_else(|| Fault::value("joinpath without a text"))?;
                Ok(Value::Path(files::join(path, part).as_str().into()))
            }
            _ => Err(Fault::outside(format!("{name} of a path is not evaluated"))),
        }
    }
}

fn dict_method(value: &Value, name: &str, given: &CallValue) -> Eval {
    let Some(entries) = value.as_dict() else {
        return Err(Fault::outside(format!("{name} of {} is not evaluated", value.kind())));
    };
    Ok(match name {
        "keys" => Value::list(entries.iter().map(|(key, _)| key.clone())),
        "values" => Value::list(entries.iter().map(|(_, value)| value.clone())),
        "items" => Value::list(entries.iter().map(|(key, value)| Value::Tuple([key.clone(), value.clone()].into()))),
        _ => {
            let key = given.get(0, "key").ok_or_else(|| Fault::value("get without a key"))?;
            let found = entries.iter().find(|(known, _)| known.equals(key)).map(|(_, value)| value.clone());
            found.or_else(|| given.get(1, "default").cloned()).unwrap_or(Value::None)
        }
    })
}
