//! Tensors and storages, as described in PyTorch's pickles.

use std::sync::Arc;

use crate::machine::Machine;
use crate::object::{Object, Place};
use crate::{PickleError, Result};

/// The largest number of axes of a tensor: PyTorch's limit.
const MOST_AXES: usize = 64;

/// The largest tensor, 10 GiB.
const LARGEST: usize = 10 << 30;

/// The type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Dtype {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    /// One byte, 0 or 1.
    Bool,
}

impl Dtype {
    /// The size of a value in bytes.
    pub fn size(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => 8,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::BF16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::I8 | Dtype::U8 | Dtype::Bool => 1,
        }
    }

    /// The type for the name of a storage class, such as `torch.FloatStorage`.
    pub(crate) fn of_storage(name: &str) -> Result<Self> {
        Ok(match name.rsplit('.').next().unwrap_or_default() {
            "DoubleStorage" => Dtype::F64,
            "FloatStorage" => Dtype::F32,
            "HalfStorage" => Dtype::F16,
            "BFloat16Storage" => Dtype::BF16,
            "LongStorage" => Dtype::I64,
            "IntStorage" => Dtype::I32,
            "ShortStorage" => Dtype::I16,
            "CharStorage" => Dtype::I8,
            "ByteStorage" => Dtype::U8,
            "BoolStorage" => Dtype::Bool,
            _ => return Err(unread(name)),
        })
    }

    /// The type for a name such as `torch.float32`.
    fn of_name(name: &str) -> Result<Self> {
        Ok(match name.strip_prefix("torch.").unwrap_or_default() {
            "float64" | "double" => Dtype::F64,
            "float32" | "float" => Dtype::F32,
            "float16" | "half" => Dtype::F16,
            "bfloat16" => Dtype::BF16,
            "int64" | "long" => Dtype::I64,
            "int32" | "int" => Dtype::I32,
            "int16" | "short" => Dtype::I16,
            "int8" => Dtype::I8,
            "uint64" => Dtype::U64,
            "uint32" => Dtype::U32,
            "uint16" => Dtype::U16,
            "uint8" => Dtype::U8,
            "bool" => Dtype::Bool,
            _ => return Err(unread(name)),
        })
    }
}

fn unread(name: &str) -> PickleError {
    format!("the pickle has tensors of {name}, which are not supported").into()
}

/// The storage of tensor values outside a pickle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The key among the storages of the file.
    pub key: String,
    /// The type of the values; `None` for an untyped storage of bytes.
    pub dtype: Option<Dtype>,
    /// The length in bytes.
    pub length: usize,
    /// The index of the first value, for a part of another storage.
    pub(crate) begin: usize,
    /// The end of the whole storage in bytes, which tensors must not exceed.
    pub(crate) reach: usize,
}

impl Storage {
    /// A storage from its id: `"storage"`, the class, the key, a device, the number of values; for
    /// a part, its range.
    pub(crate) fn named(machine: &Machine<'_>, id: Place) -> Result<Arc<Self>> {
        let wrong = |what: &str| PickleError::Invalid(format!("the pickle has a storage {what}"));
        let Object::Tuple(id) = machine.object(id) else { return Err(wrong("whose id is not a tuple")) };
        let id: Vec<&Object> = id.iter().take(7).map(|place| machine.object(*place)).collect();
        let [tag, class, key, _, count, part @ ..] = &id[..] else { return Err(wrong("whose id is too short")) };
        if tag.text() != Some("storage") {
            return Err(wrong("whose id does not begin with \"storage\""));
        }
        let class = match class {
            Object::Name(name) => &**name,
            other => other.text().ok_or_else(|| wrong("without a class"))?,
        };
        let dtype = match class.ends_with("UntypedStorage") {
            true => None,
            false => Some(Dtype::of_storage(class)?),
        };
        let size = dtype.map_or(1, Dtype::size);
        let key = key_of(key).ok_or_else(|| wrong("without a key"))?;
        let count = count.size().ok_or_else(|| wrong("without a size"))?;
        let length = count.checked_mul(size).ok_or_else(|| wrong("whose size overflows"))?;
        let (begin, reach) = match part {
            [] | [Object::None, ..] => (0, count),
            [Object::Tuple(part), ..] => {
                let sizes: Option<Vec<usize>> =
                    part.iter().take(4).skip(1).map(|place| machine.object(*place).size()).collect();
                let Some([begin, count_of_part]) = sizes.as_deref() else {
                    return Err(wrong("with an invalid part"));
                };
                let end = begin.checked_add(*count_of_part).filter(|end| *end <= count);
                (*begin, end.ok_or_else(|| wrong("with a part that exceeds the whole"))?)
            }
            _ => return Err(wrong("with an invalid part")),
        };
        Ok(Arc::new(Storage { key, dtype, length, begin, reach: reach * size }))
    }
}

/// A key is a text, or a number.
pub(crate) fn key_of(object: &Object) -> Option<String> {
    match object {
        Object::Number(crate::Number::Int(key)) => Some(key.to_string()),
        other => other.text().map(str::to_owned),
    }
}

/// A tensor: values of a storage, from an offset on, at strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The type of its values.
    pub dtype: Dtype,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The storage of the values.
    pub storage: Arc<Storage>,
    /// Steps along each axis, in values.
    pub(crate) stride: Vec<usize>,
    /// The first value.
    pub(crate) offset: usize,
    /// The end of the range of values in the storage.
    pub(crate) end: usize,
}

impl Tensor {
    /// The size of the values in bytes.
    pub fn bytes(&self) -> usize {
        self.count() * self.dtype.size()
    }

    pub(crate) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// Checks that a tensor lies within its storage.
    pub(crate) fn new(
        storage: Arc<Storage>,
        dtype: Dtype,
        offset: usize,
        shape: Vec<usize>,
        stride: Vec<usize>,
    ) -> Result<Self> {
        let wrong = |what: String| PickleError::Invalid(format!("the pickle has a tensor of shape {shape:?} {what}"));
        if shape.len() != stride.len() || shape.len() > MOST_AXES {
            return Err(wrong(format!("with {} strides", stride.len())));
        }
        let huge = || wrong("whose size overflows".to_owned());
        let count = shape.iter().try_fold(1_usize, |count, length| count.checked_mul(*length)).ok_or_else(huge)?;
        let bytes = count.checked_mul(dtype.size()).filter(|bytes| *bytes <= LARGEST).ok_or_else(huge)?;
        let offset = offset.checked_add(storage.begin).ok_or_else(huge)?;
        let last = || {
            let mut steps = shape.iter().zip(&stride);
            steps.try_fold(offset, |last, (length, step)| last.checked_add((length - 1).checked_mul(*step)?))
        };
        let end = if bytes == 0 { Some(offset) } else { last().and_then(|last| last.checked_add(1)) };
        let end = end.ok_or_else(huge)?;
        let there = storage.reach / dtype.size();
        if end > there {
            return Err(wrong(format!("that needs {end} values of storage {}, which has {there}", storage.key)));
        }
        Ok(Tensor { dtype, shape, storage, stride, offset, end })
    }

    /// Whether the values are contiguous.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1_usize;
        for (length, step) in self.shape.iter().zip(&self.stride).rev() {
            if *length > 1 && *step != expected {
                return false;
            }
            expected = expected.saturating_mul(*length);
        }
        true
    }

    /// The values in row-major order, from the bytes between offset and end.
    pub(crate) fn gathered(&self, window: Vec<u8>) -> Vec<u8> {
        let size = self.dtype.size();
        let mut values = window;
        if !self.is_contiguous() {
            let mut at = vec![0; self.shape.len()];
            let mut place = 0;
            let mut gathered = Vec::with_capacity(self.bytes());
            for _ in 0..self.count() {
                gathered.extend_from_slice(&values[place * size..(place + 1) * size]);
                // Advances the index, the last axis first.
                for axis in (0..at.len()).rev() {
                    at[axis] += 1;
                    place += self.stride[axis];
                    if at[axis] < self.shape[axis] {
                        break;
                    }
                    place -= at[axis] * self.stride[axis];
                    at[axis] = 0;
                }
            }
            values = gathered;
        }
        if self.dtype == Dtype::Bool {
            values.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        values
    }
}

/// The versions of the function that creates tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rebuild {
    /// Storage, offset, shape, strides.
    First,
    /// Additionally whether gradients are required, and hooks.
    Second,
    /// Additionally the type, for an untyped storage.
    Third,
}

/// A tensor from the arguments of such a function.
pub(crate) fn rebuild(machine: &Machine<'_>, given: &[Place], kind: Rebuild) -> Result<Arc<Tensor>> {
    let wrong = |what: &str| PickleError::Invalid(format!("the pickle has a tensor {what}"));
    let given: Vec<&Object> = given.iter().take(8).map(|place| machine.object(*place)).collect();
    let [Object::Storage(storage), offset, shape, stride, rest @ ..] = &given[..] else {
        return Err(wrong("without a storage"));
    };
    let sizes = |object: &Object, what: &str| {
        let places = match object {
            Object::Tuple(places) => &places[..],
            Object::List(places) => &places[..],
            _ => return Err(wrong(what)),
        };
        let sizes = places.iter().take(MOST_AXES + 1).map(|place| machine.object(*place).size());
        sizes.collect::<Option<Vec<usize>>>().ok_or_else(|| wrong(what))
    };
    let offset = offset.size().ok_or_else(|| wrong("with an invalid offset"))?;
    let (shape, stride) = (sizes(shape, "with an invalid shape")?, sizes(stride, "with invalid strides")?);
    let dtype = match (kind, rest, storage.dtype) {
        (Rebuild::Third, [_, _, Object::Name(name), ..], _) => Dtype::of_name(name)?,
        (Rebuild::First | Rebuild::Second, _, Some(dtype)) => dtype,
        _ => return Err(wrong("without a type")),
    };
    if storage.dtype.is_some_and(|of| of != dtype) {
        return Err(wrong("of another type than its storage"));
    }
    Tensor::new(storage.clone(), dtype, offset, shape, stride).map(Arc::new)
}
