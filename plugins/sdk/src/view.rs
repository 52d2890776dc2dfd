//! Converts the engine's types to those that cross the boundary, and back.

use std::time::Duration;

use abi_stable::std_types::{RCowSlice, ROption, RSlice, RStr, RString, RVec};
use hearth_engine::{
    Better, Combine, DType, HostError, HostTensor, LayerStatistics, LayerValues, Level, Metrics, NamesOf, Scalar, State,
};

use hearth_registry::Fault;
use hearth_registry::component::{Answer, ComponentKind, HostArray};

use crate::abi::{
    AbiAnswer, AbiArray, AbiCombine, AbiFault, AbiLayer, AbiMetric, AbiNumber, AbiObserved, AbiScalar, AbiState,
    AbiTensor, AbiText,
};

/// The named parts of a state that changed since the last call, collected so that they can be
/// borrowed.
#[derive(Default)]
pub struct Named<'a> {
    text: Option<Text<'a>>,
    scalars: Option<Vec<AbiScalar<'a>>>,
}

struct Text<'a> {
    state: &'a State,
    metrics: Vec<AbiNumber<'a>>,
    observed: Vec<AbiObserved<'a>>,
    times: Vec<AbiNumber<'a>>,
}

impl<'a> Named<'a> {
    /// Collects what changed; everything at the first call. A NaN metric differs from itself, so it
    /// is sent again.
    pub fn changed(state: &'a State, sent: Option<&State>) -> Self {
        let numbers = |map: &'a Metrics| {
            map.iter().map(|(name, value)| AbiNumber { name: name.as_str().into(), value: *value }).collect()
        };
        let same_text = sent.is_some_and(|sent| {
            state.metrics == sent.metrics
                && state.observed == sent.observed
                && state.times == sent.times
                && state.engine == sent.engine
                && state.key_metric == sent.key_metric
                && state.exception == sent.exception
        });
        let scalar = |(tag, scalar): (&'a String, &'a Scalar)| AbiScalar {
            tag: tag.as_str().into(),
            value: scalar.value,
            iteration: scalar.iteration,
        };
        let same_scalars = sent.is_some_and(|sent| state.scalars == sent.scalars);
        let observed = |(name, epoch): (&'a String, &'a u64)| AbiObserved { name: name.as_str().into(), epoch: *epoch };
        Self {
            text: (!same_text).then(|| Text {
                state,
                metrics: numbers(&state.metrics),
                observed: state.observed.iter().map(observed).collect(),
                times: numbers(&state.times),
            }),
            scalars: (!same_scalars).then(|| state.scalars.iter().map(scalar).collect()),
        }
    }

    /// Records in `sent` the parts that this sends.
    pub fn note(&self, sent: &mut State) {
        if let Some(Text { state, .. }) = &self.text {
            sent.metrics.clone_from(&state.metrics);
            sent.observed.clone_from(&state.observed);
            sent.times.clone_from(&state.times);
            sent.engine.clone_from(&state.engine);
            sent.key_metric.clone_from(&state.key_metric);
            sent.exception.clone_from(&state.exception);
        }
        if let Some(scalars) = &self.scalars {
            let entry = |s: &AbiScalar<'_>| (s.tag.to_string(), Scalar { value: s.value, iteration: s.iteration });
            sent.scalars = scalars.iter().map(entry).collect();
        }
    }

    /// The state to send.
    pub fn lend(&self, state: &State) -> AbiState<'_> {
        let text = self.text.as_ref().map(|Text { state, metrics, observed, times }| AbiText {
            engine: state.engine.as_str().into(),
            key_metric: state.key_metric.as_deref().map(RStr::from_str).into(),
            exception: state.exception.as_deref().map(RStr::from_str).into(),
            metrics: RSlice::from_slice(metrics),
            observed: RSlice::from_slice(observed),
            times: RSlice::from_slice(times),
        });
        AbiState {
            epoch: state.epoch,
            iteration: state.iteration,
            epoch_iteration: state.epoch_iteration,
            max_epochs: state.max_epochs,
            seed: state.seed,
            epoch_length: state.epoch_length.into(),
            best_epoch: state.best_epoch.into(),
            best_metric: state.best_metric.into(),
            rank: state.rank,
            world_size: state.world_size,
            pass_number: state.pass.number,
            pass_taken: state.pass.taken,
            pass_length: state.pass.length.into(),
            pass_open: state.pass.open,
            epoch_done: state.epoch_done,
            finished: state.finished,
            better: match state.better {
                Better::Higher => 0,
                Better::Lower => 1,
            },
            text: text.into(),
            scalars: self.scalars.as_deref().map(RSlice::from_slice).into(),
        }
    }
}

/// Updates a copy of a state.
pub fn update_state(state: &mut State, view: &AbiState<'_>) {
    state.epoch = view.epoch;
    state.iteration = view.iteration;
    state.epoch_iteration = view.epoch_iteration;
    state.max_epochs = view.max_epochs;
    state.seed = view.seed;
    state.epoch_length = view.epoch_length.into();
    state.best_epoch = view.best_epoch.into();
    state.best_metric = view.best_metric.into();
    state.rank = view.rank;
    state.world_size = view.world_size;
    state.pass.number = view.pass_number;
    state.pass.taken = view.pass_taken;
    state.pass.length = view.pass_length.into();
    state.pass.open = view.pass_open;
    state.epoch_done = view.epoch_done;
    state.finished = view.finished;
    state.better = if view.better == 1 { Better::Lower } else { Better::Higher };
    if let ROption::RSome(text) = view.text {
        let numbers = |list: RSlice<'_, AbiNumber<'_>>| {
            list.iter().map(|n| (n.name.as_str().to_owned(), n.value)).collect::<Metrics>()
        };
        state.engine = text.engine.as_str().to_owned();
        state.key_metric = text.key_metric.map(|name| name.as_str().to_owned()).into();
        state.exception = text.exception.map(|words| words.as_str().to_owned()).into();
        state.metrics = numbers(text.metrics);
        state.observed = text.observed.iter().map(|o| (o.name.as_str().to_owned(), o.epoch)).collect();
        state.times = numbers(text.times);
    }
    if let ROption::RSome(scalars) = view.scalars {
        let entry = |s: &AbiScalar<'_>| (s.tag.as_str().to_owned(), Scalar { value: s.value, iteration: s.iteration });
        state.scalars = scalars.iter().map(entry).collect();
    }
}

/// A tensor to send; its elements are not copied.
pub fn lend_tensor(tensor: HostTensor<'_>) -> AbiTensor<'_> {
    let bytes = match tensor.bytes {
        std::borrow::Cow::Borrowed(bytes) => RCowSlice::Borrowed(RSlice::from_slice(bytes)),
        std::borrow::Cow::Owned(bytes) => RCowSlice::Owned(RVec::from(bytes)),
    };
    AbiTensor { dtype: tensor.dtype as u8, shape: tensor.shape.into(), bytes }
}

/// A tensor to send, borrowed.
pub fn borrow_tensor<'a>(tensor: &'a HostTensor<'_>) -> AbiTensor<'a> {
    let bytes = RCowSlice::Borrowed(RSlice::from_slice(&tensor.bytes));
    AbiTensor { dtype: tensor.dtype as u8, shape: tensor.shape.clone().into(), bytes }
}

/// A received tensor, which the other side owns.
pub fn receive_tensor<'a>(tensor: &'a AbiTensor<'_>) -> Result<HostTensor<'a>, HostError> {
    let shape = tensor.shape.to_vec();
    let bytes = match &tensor.bytes {
        RCowSlice::Borrowed(bytes) => bytes.as_slice(),
        RCowSlice::Owned(bytes) => bytes.as_slice(),
    };
    let dtype = check_tensor(tensor.dtype, &shape, bytes.len())?;
    Ok(HostTensor { dtype, shape, bytes: bytes.into() })
}

/// The element type of this number, after checking that the bytes fill the shape.
pub fn check_tensor(dtype: u8, shape: &[usize], bytes: usize) -> Result<DType, HostError> {
    let dtype = [DType::F32, DType::F64, DType::I64, DType::U8]
        .into_iter()
        .find(|known| *known as u8 == dtype)
        .ok_or_else(|| HostError::new(format!("element type {dtype} is unknown: rebuild the plugin")))?;
    let needed = shape.iter().try_fold(dtype.size(), |product, n| product.checked_mul(*n));
    if needed != Some(bytes) {
        return Err(HostError::new(format!("a tensor of {dtype:?} and shape {shape:?} does not fit {bytes} bytes")));
    }
    Ok(dtype)
}

/// An array to send, borrowed.
pub fn lend_array<'a>(array: &'a HostArray<'_>) -> AbiArray<'a> {
    let values = RCowSlice::Borrowed(RSlice::from_slice(&array.values));
    AbiArray { shape: array.shape.clone().into(), values, affine: flat(&array.affine) }
}

/// An array to send, with its own values.
pub fn send_array(array: HostArray<'static>) -> AbiArray<'static> {
    let HostArray { shape, values, affine } = array;
    AbiArray { shape: shape.into(), values: RCowSlice::Owned(values.into_owned().into()), affine: flat(&affine) }
}

/// A received array.
pub fn receive_array<'a>(array: &'a AbiArray<'_>) -> Result<HostArray<'a>, String> {
    let values = match &array.values {
        RCowSlice::Borrowed(values) => values.as_slice(),
        RCowSlice::Owned(values) => values.as_slice(),
    };
    let mut affine = [[0.0; 4]; 4];
    affine.iter_mut().flatten().zip(array.affine).for_each(|(to, from)| *to = from);
    let array = HostArray { shape: array.shape.to_vec(), values: values.into(), affine };
    array.check().map(|()| array)
}

/// A received array, with its own values.
pub fn own_array(array: &AbiArray<'_>) -> Result<HostArray<'static>, String> {
    let HostArray { shape, values, affine } = receive_array(array)?;
    Ok(HostArray { shape, values: values.into_owned().into(), affine })
}

/// The answer of a component to send.
pub fn send_answer(answer: Answer) -> AbiAnswer {
    AbiAnswer { arrays: answer.arrays.into_iter().map(send_array).collect(), text: answer.text.into() }
}

/// A received answer of a component.
pub fn receive_answer(answer: AbiAnswer) -> Result<Answer, String> {
    let arrays = answer.arrays.iter().map(own_array).collect::<Result<Vec<_>, _>>()?;
    Ok(Answer { arrays, text: answer.text.into_string() })
}

fn flat(affine: &[[f64; 4]; 4]) -> [f64; 16] {
    let mut all = [0.0; 16];
    all.iter_mut().zip(affine.iter().flatten()).for_each(|(to, from)| *to = *from);
    all
}

/// The kind of component of this number.
pub fn component_kind(number: u8) -> Option<ComponentKind> {
    ComponentKind::ALL.into_iter().find(|kind| *kind as u8 == number)
}

/// Metrics to send.
pub fn send_metrics(metrics: Metrics) -> RVec<AbiMetric> {
    metrics.into_iter().map(|(name, value)| AbiMetric { name: name.into(), value }).collect()
}

/// Received metrics.
pub fn receive_metrics(metrics: RVec<AbiMetric>) -> Metrics {
    metrics.into_iter().map(|metric| (metric.name.into_string(), metric.value)).collect()
}

/// A combination method to send.
pub fn lend_combine(how: &Combine) -> AbiCombine<'_> {
    match how {
        Combine::Mean { weights } => AbiCombine::Mean { weights: weights.as_deref().map(RSlice::from_slice).into() },
        Combine::Vote { num_classes } => AbiCombine::Vote { num_classes: (*num_classes).into() },
    }
}

/// A received combination method.
pub fn receive_combine(how: &AbiCombine<'_>) -> Combine {
    match how {
        AbiCombine::Mean { weights } => Combine::Mean { weights: weights.map(|list| list.as_slice().to_vec()).into() },
        AbiCombine::Vote { num_classes } => Combine::Vote { num_classes: (*num_classes).into() },
    }
}

/// Statistics of layers to send.
pub fn send_layers(layers: Vec<LayerStatistics>) -> RVec<AbiLayer> {
    let send = |LayerStatistics { name, count, mean, std, min, max, non_finite }: LayerStatistics| AbiLayer {
        name: name.into(),
        count,
        mean,
        std,
        min,
        max,
        non_finite,
    };
    layers.into_iter().map(send).collect()
}

/// Received statistics of layers.
pub fn receive_layers(layers: RVec<AbiLayer>) -> Vec<LayerStatistics> {
    let receive = |AbiLayer { name, count, mean, std, min, max, non_finite }: AbiLayer| LayerStatistics {
        name: name.into_string(),
        count,
        mean,
        std,
        min,
        max,
        non_finite,
    };
    layers.into_iter().map(receive).collect()
}

/// A fault of an option to send; the other side knows its position in the file.
pub fn send_fault(fault: Fault) -> AbiFault {
    let Fault { path, message, suggestion, .. } = fault;
    AbiFault { path: path.into(), message: message.into(), suggestion: suggestion.map(RString::from).into() }
}

/// A received fault.
pub fn receive_fault(fault: AbiFault) -> Fault {
    let suggestion: Option<RString> = fault.suggestion.into();
    Fault::at(fault.path, fault.message).meaning(suggestion)
}

/// The values of layers of this number.
pub fn layer_values(number: u8) -> Result<LayerValues, HostError> {
    let known = [LayerValues::Weights, LayerValues::Gradients].into_iter().find(|known| *known as u8 == number);
    known.ok_or_else(|| HostError::new(format!("values of layers of kind {number} are unknown")))
}

/// The kind of names of this number.
pub fn name_kind(number: u8) -> Option<NamesOf> {
    let kinds =
        [NamesOf::Outputs, NamesOf::Tensors, NamesOf::Numbers, NamesOf::Texts, NamesOf::Engines, NamesOf::Attachments];
    kinds.into_iter().find(|known| *known as u8 == number)
}

/// A time of this number of seconds.
pub fn time(seconds: f64) -> Result<Duration, HostError> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| HostError::new(format!("{seconds} s is no time to wait: {error}")))
}

/// The level of this number; an unknown one is a warning.
pub fn level(number: u8) -> Level {
    let known = [Level::Debug, Level::Info, Level::Notice, Level::Error];
    known.into_iter().find(|known| *known as u8 == number).unwrap_or(Level::Warn)
}

/// A text to send.
pub fn words(text: impl std::fmt::Display) -> RString {
    text.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state in which no field has its default value.
    fn full() -> State {
        let mut state = State::new("trainer");
        (state.epoch, state.iteration, state.epoch_iteration, state.max_epochs) = (3, 25, 5, 40);
        (state.epoch_length, state.best_epoch, state.best_metric) = (Some(10), Some(2), Some(0.75));
        (state.rank, state.world_size, state.seed, state.finished) = (1, 4, 99, true);
        state.metrics = [("dice".to_owned(), 0.5), ("hd".to_owned(), f64::INFINITY)].into();
        state.observed = [("dice".to_owned(), 2)].into();
        state.times = [("epoch_completed".to_owned(), 1.5)].into();
        (state.key_metric, state.better) = (Some("dice".to_owned()), Better::Lower);
        state.exception = Some("no luck".to_owned());
        (state.pass.number, state.pass.taken, state.pass.length, state.pass.open) = (3, 5, Some(11), true);
        state.epoch_done = true;
        state.scalars = [("loss".to_owned(), Scalar { value: 0.25, iteration: 24 })].into();
        state
    }

    #[test]
    fn a_state_arrives_as_it_was_sent() {
        let sent = full();
        let untouched = serde_json::to_value(State::default()).expect("a state serializes");
        let full_json = serde_json::to_value(&sent).expect("a state serializes");
        // `terminated` is newer than the layout of `AbiState`, which plugins of older versions have.
        let sent_fields = untouched.as_object().expect("an object").iter().filter(|(field, _)| *field != "terminated");
        for (field, value) in sent_fields {
            assert_ne!(&full_json[field], value, "`{field}` of State is not covered: does it cross?");
        }
        let mut received = State::default();
        update_state(&mut received, &Named::changed(&sent, None).lend(&sent));
        assert_eq!(received, sent);
    }

    #[test]
    fn names_that_did_not_change_are_kept() {
        let mut sent = State::default();
        let mut state = full();
        let mut received = State::default();
        let mut send = |state: &State| {
            let named = Named::changed(state, Some(&sent));
            let view = named.lend(state);
            let crossed = (view.text.is_some(), view.scalars.is_some());
            update_state(&mut received, &view);
            named.note(&mut sent);
            assert_eq!(format!("{received:?}"), format!("{state:?}"));
            crossed
        };
        assert_eq!(send(&state), (true, true));
        state.iteration += 1;
        assert_eq!(send(&state), (false, false));
        state.scalars.insert("loss".to_owned(), Scalar { value: 0.125, iteration: 25 });
        assert_eq!(send(&state), (false, true));
        state.metrics.insert("dice".to_owned(), f64::NAN);
        assert_eq!(send(&state), (true, false));
        assert_eq!(send(&state), (true, false), "a NaN is sent again");
    }

    #[test]
    fn a_tensor_that_lies_about_its_size_is_refused() {
        assert_eq!(check_tensor(0, &[2, 3], 24), Ok(DType::F32));
        assert_eq!(check_tensor(3, &[0, 3], 0), Ok(DType::U8));
        for (dtype, shape, bytes) in [(0, vec![2, 3], 23), (9, vec![1], 4), (1, vec![usize::MAX, 2], 8)] {
            assert!(check_tensor(dtype, &shape, bytes).is_err(), "{dtype} {shape:?} {bytes}");
        }
    }
}
