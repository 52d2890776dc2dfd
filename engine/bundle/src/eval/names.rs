//! The values of names: modules, constants, enumerations and numeric types.

use super::{Eval, Scope};
use crate::fault::Fault;
use crate::value::Value;

/// Functions that need no import.
const BUILTINS: [&str; 23] = [
    "list",
    "sorted",
    "len",
    "range",
    "int",
    "float",
    "str",
    "bool",
    "min",
    "max",
    "sum",
    "tuple",
    "dict",
    "set",
    "zip",
    "enumerate",
    "abs",
    "round",
    "open",
    "print",
    "setattr",
    "filter",
    "map",
];

/// MONAI's enumerations whose values are the lower-case names of their members.
const ENUMS: [&str; 16] = [
    "InterpolateMode",
    "GridSampleMode",
    "GridSamplePadMode",
    "PytorchPadMode",
    "NumpyPadMode",
    "BlendMode",
    "MetricReduction",
    "LossReduction",
    "CommonKeys",
    "UpsampleMode",
    "SplineMode",
    "NdimageMode",
    "Average",
    "Weight",
    "ChannelMatching",
    "SkipMode",
];

impl Scope<'_> {
    /// The value of a name.
    pub(super) fn name(&self, name: &str) -> Eval {
        if let Some(value) = self.names.get(name) {
            return Ok(value.clone());
        }
        if let Some(module) = self.modules.get(name) {
            return Ok(constant(module).unwrap_or_else(|| Value::Name(module.as_str().into())));
        }
        match name {
            "np" | "numpy" => Ok(Value::Name("numpy".into())),
            "monai" | "torch" => Ok(Value::Name(name.into())),
            _ if BUILTINS.contains(&name) => Ok(Value::Name(name.into())),
            _ => Err(Fault::outside(format!("the name {name} is not known: no import in the config has it"))),
        }
    }
}

/// Whether a name without a dot is a built-in function of Python.
pub fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name)
}

/// The value of a constant of a library.
pub fn constant(name: &str) -> Option<Value> {
    Some(match name {
        "numpy.pi" | "math.pi" | "torch.pi" => Value::Float(std::f64::consts::PI),
        "math.e" | "numpy.e" => Value::Float(std::f64::consts::E),
        "numpy.inf" | "math.inf" | "torch.inf" => Value::Float(f64::INFINITY),
        "numpy.nan" | "math.nan" | "torch.nan" => Value::Float(f64::NAN),
        "os.sep" => Value::text("/"),
        _ => {
            let (class, member) = name.rsplit_once('.')?;
            let class = class.rsplit('.').next()?;
            let upper = member.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            let of_monai = name.starts_with("monai.") && ENUMS.contains(&class) && upper;
            of_monai.then(|| Value::text(member.to_lowercase()))?
        }
    })
}

/// The NumPy name of a numeric type in any spelling: `torch.float`, `np.uint8`, `"int"`.
///
/// ```
/// use hearth_bundle::{Value, dtype_name};
///
/// assert_eq!(dtype_name(&Value::Name("torch.float".into())).as_deref(), Some("float32"));
/// assert_eq!(dtype_name(&Value::text("uint8")).as_deref(), Some("uint8"));
/// assert_eq!(dtype_name(&Value::Int(3)), None);
/// ```
pub fn dtype_name(value: &Value) -> Option<String> {
    let (torch, name) = match value {
        Value::Name(name) => (name.starts_with("torch."), name.rsplit('.').next()?),
        Value::Text(name) => (false, &**name),
        _ => return None,
    };
    let known = match (name, torch) {
        ("float32" | "single", _) | ("float", true) => "float32",
        ("float64" | "double" | "float" | "float_", _) => "float64",
        ("float16" | "half", _) => "float16",
        ("bfloat16", _) => "bfloat16",
        ("int64" | "long", _) | ("int" | "int_", false) => "int64",
        ("int32" | "int", _) => "int32",
        ("int16" | "short", _) => "int16",
        ("int8", _) => "int8",
        ("uint8", _) => "uint8",
        ("uint16", _) => "uint16",
        ("uint32", _) => "uint32",
        ("uint64", _) => "uint64",
        ("bool" | "bool_", _) => "bool",
        _ => return None,
    };
    Some(known.to_owned())
}
