//! The small language of tensors for lambdas in `Lambdad`.

use std::path::Path;

use burn::tensor::{Bool, DType, Int, Tensor, TensorData, activation};
use hearth_bundle::syntax::{Arg, Binary, Compare, Constant, Expr, Unary};
use hearth_bundle::{Fault, FaultKind, Function, Value, slice_places};

/// The type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Bool,
    Int,
    Float,
}

/// A tensor with the remaining axes in order: an index may have removed some.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub data: Tensor<4>,
    pub kind: Kind,
    pub axes: Vec<usize>,
}

impl Field {
    /// Wraps an item with channels and this number of spatial axes.
    pub fn new(data: Tensor<4>, spatial_dims: usize, kind: Kind) -> Self {
        Field { data: data.cast(DType::F32), kind, axes: (0..=spatial_dims.clamp(1, 3)).collect() }
    }
}

#[allow(clippy::large_enum_variant, reason = "one lives for an operation, on the stack")]
enum Operand {
    Tensor(Field),
    Plain(Value),
}

type Eval<T> = Result<T, Fault>;

fn outside<T>(what: impl Into<String>) -> Eval<T> {
    Err(Fault::new(FaultKind::Outside, what))
}

/// A fault that depends on the tensor: another one may be valid.
fn unfit<T>(what: impl Into<String>) -> Eval<T> {
    Err(Fault::new(FaultKind::Tensor, what))
}

/// Calls a lambda on a tensor.
///
/// # Errors
/// Syntax outside of the language, with file, id and text.
pub(crate) fn apply(function: &Function, field: Field) -> Eval<Field> {
    let placed = |mut fault: Fault| {
        let (file, id) = &function.place;
        if fault.id.is_empty() {
            fault.id = id.to_string();
            fault.text = function.text.to_string();
        }
        fault.in_file(file)
    };
    let lambda = &function.lambda;
    let Some((name, _)) = lambda.parameters.first() else {
        return outside("a lambda without a parameter is called on a tensor").map_err(placed);
    };
    if lambda.parameters.iter().skip(1).any(|(_, default)| default.is_none()) {
        return outside("a lambda of several parameters is called on one tensor").map_err(placed);
    }
    let machine = Machine { function, name, input: field };
    match machine.eval(&lambda.body).map_err(placed)? {
        Operand::Tensor(field) => Ok(field),
        Operand::Plain(value) => {
            let what = format!("the lambda gives {} and no tensor", value.kind());
            Err(placed(Fault::new(FaultKind::Outside, what).about(&value)))
        }
    }
}

struct Machine<'a> {
    function: &'a Function,
    name: &'a str,
    input: Field,
}

impl Machine<'_> {
    fn eval(&self, expr: &Expr) -> Eval<Operand> {
        Ok(match expr {
            Expr::Name(name) if name == self.name => Operand::Tensor(self.input.clone()),
            Expr::Name(name) => match (self.function.names.get(name), self.function.modules.get(name)) {
                (Some(value), _) => Operand::Plain(value.clone()),
                (None, Some(module)) => Operand::Plain(Value::Name(module.as_str().into())),
                (None, None) if matches!(name.as_str(), "np" | "numpy") => Operand::Plain(Value::Name("numpy".into())),
                (None, None) if name == "torch" => Operand::Plain(Value::Name("torch".into())),
                (None, None) => return outside(format!("the name {name} is not known")),
            },
            Expr::Reference(id) => match self.function.references.get(id) {
                Some(value) => Operand::Plain(value.clone()),
                None => return outside(format!("@{id} has no value")),
            },
            Expr::Constant(constant) => Operand::Plain(match constant {
                Constant::None => Value::None,
                Constant::Bool(truth) => Value::Bool(*truth),
                Constant::Int(number) => Value::Int(*number),
                Constant::Float(number) => Value::Float(*number),
                Constant::Text(text) => Value::text(text),
                Constant::Ellipsis => return outside("`...` is not evaluated"),
            }),
            Expr::List(items) | Expr::Tuple(items) => {
                let mut values = Vec::new();
                for item in items {
                    let Arg::Plain(item) = item else { return outside("a list is unpacked") };
                    match self.eval(item)? {
                        Operand::Plain(value) => values.push(value),
                        Operand::Tensor(_) => return outside("a list of tensors"),
                    }
                }
                Operand::Plain(Value::List(values.into()))
            }
            Expr::Unary(op, of) => match (op, self.eval(of)?) {
                (Unary::Neg, Operand::Tensor(field)) => Operand::Tensor(Field { data: field.data.neg(), ..field }),
                (Unary::Pos, operand) => operand,
                (Unary::Invert, Operand::Tensor(field)) if field.kind == Kind::Bool => {
                    Operand::Tensor(Field { data: field.data.neg().add_scalar(1.0), ..field })
                }
                (Unary::Neg, Operand::Plain(Value::Int(number))) => Operand::Plain(Value::Int(-number)),
                (Unary::Neg, Operand::Plain(Value::Float(number))) => Operand::Plain(Value::Float(-number)),
                _ => return outside("a sign before what is neither a number nor a tensor"),
            },
            Expr::Binary(op, a, b) => self.binary(*op, self.eval(a)?, self.eval(b)?)?,
            Expr::Compare(first, rest) => match rest.as_slice() {
                [(op, second)] => self.compare(*op, self.eval(first)?, self.eval(second)?)?,
                _ => return outside("a chain of comparisons of tensors"),
            },
            Expr::Attribute(of, name) => match self.eval(of)? {
                Operand::Plain(Value::Name(module)) => Operand::Plain(Value::Name(format!("{module}.{name}").into())),
                _ => return outside(format!("{name} of a tensor is not evaluated")),
            },
            Expr::Index(of, index) => match self.eval(of)? {
                Operand::Tensor(field) => Operand::Tensor(self.index(field, index)?),
                Operand::Plain(_) => return outside("an index of a value that is not a tensor"),
            },
            Expr::Call(function, args) => self.call(function, args)?,
            Expr::Formatted(_) | Expr::Lambda(_) | Expr::Comprehension { .. } | Expr::Set(_) | Expr::Dict(_) => {
                return outside("the lambda has a part that is not evaluated on tensors");
            }
            Expr::And(..) | Expr::Or(..) | Expr::If { .. } => return outside("a decision by a tensor's truth"),
            Expr::Slice(..) => return outside("a slice outside of an index"),
        })
    }

    fn field(&self, operand: Operand) -> Eval<Field> {
        match operand {
            Operand::Tensor(field) => Ok(field),
            Operand::Plain(value) => {
                let kind = match value {
                    Value::Float(_) => Kind::Float,
                    Value::Int(_) => Kind::Int,
                    Value::Bool(_) => Kind::Bool,
                    _ => {
                        let what = format!("{} stands where a tensor is needed", value.kind());
                        return Err(Fault::new(FaultKind::Outside, what).about(&value));
                    }
                };
                let number = value.as_float().unwrap_or_default() as f32;
                let device = self.input.data.device();
                let data = Tensor::from_data(TensorData::new(vec![number], [1, 1, 1, 1]), &device);
                Ok(Field { data, kind, axes: Vec::new() })
            }
        }
    }

    /// Broadcasts two operands to one shape.
    fn pair(&self, a: Operand, b: Operand) -> Eval<(Field, Field)> {
        let (mut a, mut b) = (self.field(a)?, self.field(b)?);
        let (from, to) = (a.data.dims(), b.data.dims());
        let mut shape = [0; 4];
        for axis in 0..4 {
            shape[axis] = match (from[axis], to[axis]) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return unfit(format!("tensors of shapes {from:?} and {to:?} meet")),
            };
        }
        let axes = if a.axes.len() >= b.axes.len() { a.axes.clone() } else { b.axes.clone() };
        a = Field { data: a.data.expand(shape), axes: axes.clone(), ..a };
        b = Field { data: b.data.expand(shape), axes, ..b };
        Ok((a, b))
    }

    fn binary(&self, op: Binary, a: Operand, b: Operand) -> Eval<Operand> {
        let (a, b) = self.pair(a, b)?;
        let mut kind = a.kind.max(b.kind);
        let (x, y) = (a.data, b.data);
        let data = match op {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div => {
                kind = Kind::Float;
                x / y
            }
            Binary::FloorDiv => (x / y).floor(),
            Binary::Mod => x.clone() - (x / y.clone()).floor() * y,
            Binary::Pow => x.powf(y),
            Binary::And if kind == Kind::Bool => x * y,
            Binary::Or if kind == Kind::Bool => x.max_pair(y),
            Binary::And | Binary::Or => return outside("& and | of tensors that are no truth values"),
        };
        if kind == Kind::Bool && matches!(op, Binary::Add | Binary::Mul | Binary::Sub | Binary::Pow) {
            kind = Kind::Int;
        }
        Ok(Operand::Tensor(Field { data, kind, axes: a.axes }))
    }

    fn compare(&self, op: Compare, a: Operand, b: Operand) -> Eval<Operand> {
        let (a, b) = self.pair(a, b)?;
        let (x, y) = (a.data, b.data);
        let truth: Tensor<4, Bool> = match op {
            Compare::Eq => x.equal(y),
            Compare::Ne => x.not_equal(y),
            Compare::Lt => x.lower(y),
            Compare::Le => x.lower_equal(y),
            Compare::Gt => x.greater(y),
            Compare::Ge => x.greater_equal(y),
            Compare::In | Compare::NotIn | Compare::Is | Compare::IsNot => return outside("`in` or `is` of tensors"),
        };
        Ok(Operand::Tensor(Field { data: truth.float().cast(DType::F32), kind: Kind::Bool, axes: a.axes }))
    }

    fn index(&self, field: Field, index: &Expr) -> Eval<Field> {
        let parts: Vec<&Expr> = match index {
            Expr::Tuple(items) => {
                let plain = items.iter().map(|item| match item {
                    Arg::Plain(expr) => Ok(expr),
                    _ => outside("an index is unpacked"),
                });
                plain.collect::<Eval<_>>()?
            }
            expr => vec![expr],
        };
        if parts.len() > field.axes.len() {
            return outside(format!("{} indices of a tensor of {} axes", parts.len(), field.axes.len()));
        }
        let Field { mut data, kind, axes } = field;
        let mut dropped = Vec::new();
        for (axis, part) in axes.iter().zip(parts) {
            let len = data.dims()[*axis];
            let (places, drops) = self.places(part, len)?;
            if drops {
                dropped.push(*axis);
            }
            if places.len() == len && places.iter().enumerate().all(|(at, place)| at == *place) {
                continue;
            }
            if places.is_empty() {
                return unfit("an empty slice of a tensor");
            }
            let contiguous = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
            data = match contiguous {
                true => data.narrow(*axis, places[0], places.len()),
                false => {
                    let places: Vec<i64> = places.iter().map(|place| *place as i64).collect();
                    let count = places.len();
                    let device = data.device();
                    data.clone().select(*axis, Tensor::<1, Int>::from_data(TensorData::new(places, [count]), &device))
                }
            };
        }
        let axes = axes.into_iter().filter(|axis| !dropped.contains(axis)).collect();
        Ok(Field { data, kind, axes })
    }

    /// The indices of an axis that an index selects, and whether the axis is removed.
    fn places(&self, part: &Expr, len: usize) -> Eval<(Vec<usize>, bool)> {
        let whole = |value: &Value| match value.as_int() {
            Some(at) => {
                let place = if at < 0 { at + len as i64 } else { at };
                let place = usize::try_from(place).ok().filter(|place| *place < len);
                place.map_or_else(|| unfit(format!("the index {at} of an axis of {len}")), Ok)
            }
            None => Err(Fault::new(FaultKind::Outside, format!("an index by {}", value.kind())).about(value)),
        };
        if let Expr::Slice(start, end, step) = part {
            let number = |part: &Option<Box<Expr>>| -> Eval<Option<i64>> {
                let Some(expr) = part else { return Ok(None) };
                match self.eval(expr)? {
                    Operand::Plain(Value::None) => Ok(None),
                    Operand::Plain(value) if value.as_int().is_some() => Ok(value.as_int()),
                    _ => outside("a slice by a value that is not a whole number"),
                }
            };
            let places = slice_places(len, number(start)?, number(end)?, number(step)?)?;
            return Ok((places, false));
        }
        match self.eval(part)? {
            Operand::Plain(Value::List(items)) => Ok((items.iter().map(whole).collect::<Eval<_>>()?, false)),
            Operand::Plain(value) => Ok((vec![whole(&value)?], true)),
            Operand::Tensor(_) => outside("an index by a tensor"),
        }
    }

    fn call(&self, function: &Expr, args: &[Arg]) -> Eval<Operand> {
        let mut given = Vec::new();
        let mut named = Vec::new();
        for arg in args {
            match arg {
                Arg::Plain(expr) => given.push(self.eval(expr)?),
                Arg::Named(name, expr) => named.push((name.as_str(), self.eval(expr)?)),
                _ => return outside("arguments are unpacked"),
            }
        }
        let name = match function {
            Expr::Attribute(of, name) => match self.eval(of)? {
                Operand::Plain(Value::Name(module)) => format!("{module}.{name}"),
                operand => {
                    given.insert(0, operand);
                    name.clone()
                }
            },
            Expr::Name(name) => name.clone(),
            _ => return outside("a called value that is not a name"),
        };
        let short = name.rsplit('.').next().unwrap_or(&name).to_owned();
        let number = |place: usize, key: &str| {
            let named = named.iter().find(|(name, _)| *name == key).map(|(_, operand)| operand);
            match named.or_else(|| given.get(place)) {
                Some(Operand::Plain(value)) => value.as_float(),
                _ => None,
            }
        };
        let dim = number(1, "dim").or_else(|| number(1, "axis"));
        let mut operands = given.iter();
        let mut next = || match operands.next() {
            Some(Operand::Tensor(field)) => Ok(Operand::Tensor(field.clone())),
            Some(Operand::Plain(value)) => Ok(Operand::Plain(value.clone())),
            None => outside(format!("{name} without a tensor")),
        };
        let known = name.starts_with("torch.") || name.starts_with("numpy.") || !name.contains('.');
        if !known {
            return outside(format!("{name}(...) is not evaluated on tensors"));
        }
        let made = match short.as_str() {
            "where" => {
                let (condition, a, b) = (next()?, next()?, next()?);
                let (a, b) = self.pair(a, b)?;
                let kind = a.kind.max(b.kind);
                let (condition, a) = self.pair(condition, Operand::Tensor(a))?;
                let (condition, b) = self.pair(Operand::Tensor(condition), Operand::Tensor(b))?;
                let (a, _) = self.pair(Operand::Tensor(a), Operand::Tensor(b.clone()))?;
                let chosen = condition.data.not_equal_elem(0.0);
                Field { data: b.data.mask_where(chosen, a.data), kind, axes: b.axes }
            }
            "nan_to_num" => {
                let field = self.field(next()?)?;
                let fill = number(1, "nan").unwrap_or(0.0);
                let nan = field.data.clone().is_nan();
                let data = field.data.mask_fill(nan, fill).clamp(f32::MIN, f32::MAX);
                Field { data, ..field }
            }
            "abs" | "absolute" => {
                let field = self.field(next()?)?;
                Field { data: field.data.abs(), ..field }
            }
            "round" => {
                let field = self.field(next()?)?;
                Field { data: field.data.round(), ..field }
            }
            "clamp" | "clip" => {
                let field = self.field(next()?)?;
                let low = number(1, "min").unwrap_or(f64::from(f32::MIN));
                let high = number(2, "max").unwrap_or(f64::from(f32::MAX));
                Field { data: field.data.clamp(low, high), ..field }
            }
            "sigmoid" | "tanh" | "relu" | "exp" | "logsigmoid" => {
                let field = self.field(next()?)?;
                let data = match short.as_str() {
                    "sigmoid" => activation::sigmoid(field.data),
                    "tanh" => field.data.tanh(),
                    "relu" => activation::relu(field.data),
                    "exp" => field.data.exp(),
                    _ => activation::log_sigmoid(field.data),
                };
                Field { data, kind: Kind::Float, ..field }
            }
            "argmax" => {
                let field = self.field(next()?)?;
                let axis = axis_of(&field, dim)?;
                let keeps = named
                    .iter()
                    .any(|(name, operand)| *name == "keepdim" && matches!(operand, Operand::Plain(Value::Bool(true))));
                let data = field.data.argmax(axis).float().cast(DType::F32);
                let axes = field.axes.into_iter().filter(|at| keeps || *at != axis).collect();
                Field { data, kind: Kind::Int, axes }
            }
            "softmax" => {
                let field = self.field(next()?)?;
                let axis = axis_of(&field, dim)?;
                Field { data: activation::softmax(field.data, axis), kind: Kind::Float, ..field }
            }
            "float" | "FloatTensor" | "as_tensor" | "tensor" | "astype" | "to" | "contiguous" | "clone" | "detach"
            | "cpu" => {
                let field = self.field(next()?)?;
                let dtype = named.iter().map(|(_, operand)| operand).chain(given.get(1));
                let mut dtype = dtype.filter_map(|operand| match operand {
                    Operand::Plain(value) => hearth_bundle::dtype_name(value),
                    Operand::Tensor(_) => None,
                });
                match (short.as_str(), dtype.next_back()) {
                    ("float" | "FloatTensor", _) => Field { kind: Kind::Float, ..field },
                    (_, Some(dtype)) => cast(field, &dtype),
                    (_, None) => field,
                }
            }
            "long" | "int" => cast(self.field(next()?)?, "int64"),
            "bool" => cast(self.field(next()?)?, "bool"),
            _ => return outside(format!("{name}(...) is not evaluated on tensors")),
        };
        Ok(Operand::Tensor(made))
    }
}

fn axis_of(field: &Field, dim: Option<f64>) -> Eval<usize> {
    let dim = dim.unwrap_or(0.0) as i64;
    let count = field.axes.len() as i64;
    let at = usize::try_from(if dim < 0 { dim + count } else { dim }).ok();
    at.and_then(|at| field.axes.get(at).copied())
        .map_or_else(|| outside(format!("the axis {dim} of a tensor of {count}")), Ok)
}

/// Casts values to a numeric type.
pub(crate) fn cast(field: Field, dtype: &str) -> Field {
    let Field { data, axes, .. } = field;
    match dtype {
        "bool" => Field { data: data.not_equal_elem(0.0).float().cast(DType::F32), kind: Kind::Bool, axes },
        name if name.contains("int") => Field { data: data.trunc(), kind: Kind::Int, axes },
        _ => Field { data, kind: Kind::Float, axes },
    }
}

/// The path that a lambda returns for a text, for lists of files.
pub(crate) fn text(function: &Function, value: &Value, folder: &Path) -> Eval<Value> {
    hearth_bundle::call(function, std::slice::from_ref(value), folder)
}
