//! [`Value`]: the values of items and expressions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::syntax::Lambda;

/// A Python value, as far as configs need them. Components and functions of libraries stay
/// descriptions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// `None`
    None,
    /// `True`, `False`
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// A list.
    List(Arc<[Value]>),
    /// A tuple.
    Tuple(Arc<[Value]>),
    /// A set, in insertion order.
    Set(Arc<[Value]>),
    /// A dictionary, in insertion order.
    Dict(Arc<[(Value, Value)]>),
    /// An item with a `_target_`.
    Component(Arc<Component>),
    /// A lambda.
    Function(Arc<Function>),
    /// A member of a library by its dotted name: `torch.float32`, `monai.data.PILReader`.
    Name(Arc<str>),
    /// An unevaluated call of a library: `torch.rand(64)`.
    Call(Arc<CallValue>),
    /// A device by name: `cpu`, `cuda:0`.
    Device(Arc<str>),
    /// An opened file, or a path of `pathlib`.
    Path(Arc<str>),
    /// A pandas table: its columns.
    Table(Arc<[(String, Value)]>),
    /// A column of a table, or an array, with element-wise operations. An array of several axes is
    /// a column of columns.
    Column(Arc<[Value]>),
    /// A slice of an index.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    /// A value that could not be evaluated, where faults are collected instead of returned.
    Unknown,
}

/// An item with a `_target_`, which another crate builds by calling the target with the arguments.
#[derive(Debug)]
pub struct Component {
    /// The id of the item.
    pub id: String,
    /// The file that holds the item.
    pub file: String,
    /// The `_target_`, as a dotted or short name.
    pub target: String,
    /// The arguments, in order.
    pub args: Vec<(String, Value)>,
    /// Whether the class itself or a partial call is meant (`_mode_: callable`).
    pub callable: bool,
}

impl Component {
    /// The last part of the target: `UNet` of `monai.networks.nets.UNet`.
    pub fn name(&self) -> &str {
        self.target.rsplit('.').next().unwrap_or(&self.target)
    }

    /// An argument, unless it is missing or `None`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.args.iter().find(|(key, value)| key == name && !matches!(value, Value::None)).map(|(_, value)| value)
    }

    /// Whether the argument is given, even as `None`.
    pub fn has(&self, name: &str) -> bool {
        self.args.iter().any(|(key, _)| key == name)
    }
}

/// A lambda with its captured values.
pub struct Function {
    /// Parameters and body.
    pub lambda: Arc<Lambda>,
    /// Values of the captured names.
    pub names: BTreeMap<String, Value>,
    /// Values of the ids to which it refers.
    pub references: BTreeMap<String, Value>,
    /// Modules by the names under which they were imported.
    pub modules: Arc<BTreeMap<String, String>>,
    /// Defaults of the parameters.
    pub defaults: Vec<Option<Value>>,
    /// The source text that contains it.
    pub text: Arc<str>,
    /// Its place: file and id.
    pub place: (Arc<str>, Arc<str>),
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An unevaluated call.
#[derive(Debug)]
pub struct CallValue {
    /// The dotted name of the function.
    pub name: String,
    /// Arguments by position.
    pub args: Vec<Value>,
    /// Arguments by name.
    pub named: Vec<(String, Value)>,
}

impl CallValue {
    /// An argument by position or name.
    pub fn get(&self, place: usize, name: &str) -> Option<&Value> {
        self.args.get(place).or_else(|| self.named.iter().find(|(key, _)| key == name).map(|(_, value)| value))
    }
}

impl Value {
    /// Makes a text.
    pub fn text(text: impl AsRef<str>) -> Self {
        Value::Text(text.as_ref().into())
    }

    /// Makes a list.
    pub fn list(items: impl IntoIterator<Item = Value>) -> Self {
        Value::List(items.into_iter().collect())
    }

    /// Converts a plain item of a file.
    pub fn from_json(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Value::None,
            serde_json::Value::Bool(truth) => Value::Bool(*truth),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(whole) => Value::Int(whole),
                None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::text(text),
            serde_json::Value::Array(list) => Value::list(list.iter().map(Value::from_json)),
            serde_json::Value::Object(table) => {
                Value::Dict(table.iter().map(|(key, value)| (Value::text(key), Value::from_json(value))).collect())
            }
        }
    }

    /// Converts a plain value to JSON; `None` for others.
    pub fn to_json(&self) -> Option<serde_json::Value> {
        Some(match self {
            Value::None => serde_json::Value::Null,
            Value::Bool(truth) => (*truth).into(),
            Value::Int(number) => (*number).into(),
            Value::Float(number) => serde_json::Number::from_f64(*number).map(serde_json::Value::Number)?,
            Value::Text(text) | Value::Path(text) => (**text).into(),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::Column(items) => {
                // Reserve the space for all, because growing would take twice as much.
                let mut array = Vec::with_capacity(items.len());
                for item in items.iter() {
                    array.push(item.to_json()?);
                }
                serde_json::Value::Array(array)
            }
            Value::Dict(items) => {
                let entry = |(key, value): &(Value, Value)| Some((key.to_key()?, value.to_json()?));
                serde_json::Value::Object(items.iter().map(entry).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// The text of a dictionary key.
    fn to_key(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.to_string()),
            Value::Int(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The text, if the value is a text or a path.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) | Value::Path(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a list, a tuple, a set or a column.
    pub fn as_slice(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) | Value::Tuple(items) | Value::Set(items) | Value::Column(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a dictionary.
    pub fn as_dict(&self) -> Option<&[(Value, Value)]> {
        match self {
            Value::Dict(items) => Some(items),
            _ => None,
        }
    }

    /// The value under a key of a dictionary.
    pub fn key(&self, name: &str) -> Option<&Value> {
        self.as_dict()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
    }

    /// The component, if the value is one.
    pub fn as_component(&self) -> Option<&Arc<Component>> {
        match self {
            Value::Component(component) => Some(component),
            _ => None,
        }
    }

    /// The value as an integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            Value::Bool(truth) => Some(i64::from(*truth)),
            _ => None,
        }
    }

    /// The value as a floating-point number.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(number) => Some(*number),
            _ => self.as_int().map(|number| number as f64),
        }
    }

    /// Python's truth value; `None` if it is unknown.
    pub fn truth(&self) -> Option<bool> {
        Some(match self {
            Value::None => false,
            Value::Bool(truth) => *truth,
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(items) | Value::Tuple(items) | Value::Set(items) => !items.is_empty(),
            Value::Dict(items) => !items.is_empty(),
            Value::Unknown | Value::Table(_) | Value::Column(_) => return None,
            _ => true,
        })
    }

    /// Whether Python's `==` holds.
    pub fn equals(&self, other: &Value) -> bool {
        let all = |a: &[Value], b: &[Value]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b));
        match (self, other) {
            (Value::None, Value::None) => true,
            (Value::Text(a) | Value::Path(a), Value::Text(b) | Value::Path(b)) => a == b,
            (Value::Name(a), Value::Name(b)) | (Value::Device(a), Value::Device(b)) => a == b,
            (Value::List(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => all(a, b),
            (Value::Set(a), Value::Set(b)) => a.len() == b.len() && a.iter().all(|a| b.iter().any(|b| a.equals(b))),
            (Value::Dict(a), Value::Dict(b)) => {
                let has = |(key, value): &(Value, Value)| b.iter().any(|(k, v)| key.equals(k) && value.equals(v));
                a.len() == b.len() && a.iter().all(has)
            }
            (Value::Component(a), Value::Component(b)) => Arc::ptr_eq(a, b),
            _ => match (self.as_float(), other.as_float()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
        }
    }

    /// Whether the value or one of its elements could not be evaluated.
    pub fn has_unknown(&self) -> bool {
        match self {
            Value::Unknown => true,
            Value::Dict(entries) => entries.iter().any(|(key, value)| key.has_unknown() || value.has_unknown()),
            other => other.as_slice().is_some_and(|items| items.iter().any(Value::has_unknown)),
        }
    }

    /// The kind of value, for messages.
    pub fn kind(&self) -> String {
        match self {
            Value::None => "None".to_owned(),
            Value::Bool(_) => "a truth value".to_owned(),
            Value::Int(_) => "a whole number".to_owned(),
            Value::Float(_) => "a number".to_owned(),
            Value::Text(_) => "a text".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Tuple(_) => "a tuple".to_owned(),
            Value::Set(_) => "a set".to_owned(),
            Value::Dict(_) => "a dictionary".to_owned(),
            Value::Component(component) => format!("a {}", component.name()),
            Value::Function(_) => "a lambda".to_owned(),
            Value::Name(name) => name.to_string(),
            Value::Call(call) => format!("{}(...)", call.name),
            Value::Device(_) => "a device".to_owned(),
            Value::Path(_) => "a path".to_owned(),
            Value::Table(_) => "a table".to_owned(),
            Value::Column(_) => "an array".to_owned(),
            Value::Slice(..) => "a slice".to_owned(),
            Value::Unknown => "an unknown value".to_owned(),
        }
    }
}
