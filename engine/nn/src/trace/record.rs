//! The record of a pass, filled by the layers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use burn::tensor::{DType, Tensor};
use hearth_kernels::cast;
use hearth_kernels::conv3d::Channels;

use super::{Call, Op, Weight, tap};

/// The state of a recording.
#[derive(Default)]
struct Record {
    calls: Vec<Call>,
    /// The latest value with these contents.
    known: HashMap<(Vec<usize>, u64), usize>,
    /// The layer that read an unknown value.
    lost: Option<String>,
}

thread_local! {
    static OPEN: RefCell<Option<Record>> = const { RefCell::new(None) };
}

/// The contents of the inputs of a call to record.
pub(crate) struct Taken(Vec<(Vec<usize>, u64)>);

fn contents<const D: usize>(x: &Tensor<D>) -> (Vec<usize>, u64) {
    let mut hasher = DefaultHasher::new();
    x.to_data().iter::<f32>().for_each(|value| hasher.write_u32(value.to_bits()));
    (x.dims().to_vec(), hasher.finish())
}

/// Runs a pass over the input. Returns the output, the calls (or the layer that read an unknown
/// value), and the number of the output value.
pub(super) fn while_open(
    input: Tensor<5>,
    forward: impl FnOnce(Tensor<5>) -> Tensor<5>,
) -> (Tensor<5>, Result<Vec<Call>, String>, Option<usize>) {
    /// Closes the record on drop, also after a panic in `forward`.
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            OPEN.take();
        }
    }
    let known = HashMap::from([(contents(&input), 0)]);
    OPEN.set(Some(Record { known, ..Record::default() }));
    let close = Close;
    let output = forward(input);
    let record = OPEN.take().unwrap_or_default();
    drop(close);
    let result = record.known.get(&contents(&output)).copied();
    let calls = match record.lost {
        Some(layer) => Err(layer),
        None => Ok(record.calls),
    };
    (output, calls, result)
}

/// Whether a pass is being recorded, or the outputs of its layers are listed; if so, fused layers run one by
/// one.
pub(crate) fn is_open() -> bool {
    is_recording() || tap::is_open()
}

fn is_recording() -> bool {
    OPEN.with_borrow(Option::is_some)
}

/// Reads the inputs of a layer before the layer consumes them; `None` unless a pass is recorded.
pub(crate) fn inputs<const N: usize>(tensors: [&Tensor<5>; N]) -> Option<Taken> {
    is_recording().then(|| Taken(tensors.into_iter().map(contents).collect()))
}

/// Records the output of a layer for the inputs from [`inputs`], and returns it: another layer continues with
/// what is returned.
pub(crate) fn note(taken: Option<Taken>, path: &str, op: impl FnOnce() -> Op, output: Tensor<5>) -> Tensor<5> {
    let output = tap::pass(path, output);
    let Some(Taken(taken)) = taken else { return output };
    let op = op();
    OPEN.with_borrow_mut(|open| {
        let Some(record) = open.as_mut() else { return };
        let inputs: Option<Vec<usize>> = taken.iter().map(|contents| record.known.get(contents).copied()).collect();
        let Some(inputs) = inputs else {
            let layer = if path.is_empty() { format!("a layer ({op:.40?})") } else { format!("the layer {path}") };
            record.lost.get_or_insert(layer);
            return;
        };
        record.calls.push(Call { path: path.to_owned(), op, inputs });
        record.known.insert(contents(&output), record.calls.len());
    });
    output
}

impl Weight {
    /// The values of a tensor.
    pub(crate) fn of<const D: usize>(tensor: &Tensor<D>) -> Self {
        let values = tensor.to_data().iter::<f32>().collect::<Vec<f32>>().into();
        Weight { shape: tensor.dims().to_vec(), values }
    }
}

/// Concatenates two tensors along the channels, both converted to `dtype`.
pub(crate) fn concat(x: Tensor<5>, y: Tensor<5>, dtype: DType) -> Tensor<5> {
    let taken = inputs([&x, &y]);
    note(taken, "", || Op::Concat, Tensor::cat(vec![cast(x, dtype), cast(y, dtype)], 1))
}

/// [`Channels::joined`].
pub(crate) fn joined(x: Channels) -> Tensor<5> {
    match x {
        Channels::One(x) => x,
        Channels::Two(x, y) => {
            let dtype = y.dtype();
            concat(x, y, dtype)
        }
    }
}
