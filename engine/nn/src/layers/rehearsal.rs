//! Rehearsals, which count the memory of a network's weights before any weight is drawn:
//! [`rehearse`].

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Shape, Tensor};
use hearth_machine::{Allowance, readable};
use tracing::subscriber::{NoSubscriber, with_default};

use super::ConfigError;

/// The largest number of weight tensors, of any size, that a network may have. The largest networks
/// have a few thousand; more than this is a mistyped number.
const MOST_WEIGHTS: usize = 20_000;

/// The counts of a rehearsal.
struct Tally {
    allowance: Allowance,
    bytes: u64,
    weights: usize,
}

thread_local! {
    static OPEN: RefCell<Option<Tally>> = const { RefCell::new(None) };
}

/// Builds a network whose weights are only counted. Returns the number of bytes of all weights in
/// f32, and the network. Constructors of layers return no errors, so a network that exceeds the
/// memory of this process unwinds out of them, without a panic message.
///
/// # Errors
/// Returns the errors of `build`, and [`ConfigError::TooLarge`].
pub(crate) fn rehearse<T>(
    allowance: Allowance,
    build: impl FnOnce() -> Result<T, ConfigError>,
) -> Result<(u64, T), ConfigError> {
    /// Closes the tally on drop. A panic in `build` must not leave it open: later networks would
    /// have no weights.
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            OPEN.take();
        }
    }
    OPEN.set(Some(Tally { allowance, bytes: 0, weights: 0 }));
    let _close = Close;
    // Parameters log their messages when the network is built for use, so they are silenced here.
    match catch_unwind(AssertUnwindSafe(|| with_default(NoSubscriber::new(), build))) {
        Ok(built) => built.map(|built| (OPEN.take().map_or(0, |tally| tally.bytes), built)),
        Err(payload) => Err(too_large(payload)),
    }
}

/// The error that a constructor unwound with; any other panic is resumed.
fn too_large(payload: Box<dyn Any + Send>) -> ConfigError {
    match payload.downcast::<ConfigError>() {
        Ok(error) => *error,
        Err(panic) => resume_unwind(panic),
    }
}

/// Counts a weight, if a rehearsal is in progress; returns whether one is. `path` is the weight's
/// state-dict key.
pub(crate) fn count(path: impl FnOnce() -> String, shape: &[usize]) -> bool {
    let refused = OPEN.with_borrow_mut(|open| {
        let tally = open.as_mut()?;
        let values = shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length as u64));
        tally.bytes = tally.bytes.saturating_add(values.map_or(u64::MAX, |values| values.saturating_mul(4)));
        tally.weights += 1;
        let mut shape = shape.to_vec();
        let reason = if tally.weights > MOST_WEIGHTS {
            let reason = format!("the network has more than {MOST_WEIGHTS} weights, `{}` among them", path());
            // The limit is on the number of weights, not on the size of this one.
            shape.clear();
            reason
        } else if tally.bytes > tally.allowance.bytes {
            let (bytes, lengths) = (readable(tally.bytes), shape.iter().map(usize::to_string).collect::<Vec<_>>());
            let (path, lengths) = (path(), lengths.join(" x "));
            format!(
                "the network's weights take {bytes} or more (with `{path}` of {lengths}), but this process may use {}",
                tally.allowance
            )
        } else {
            return Some(None);
        };
        Some(Some(ConfigError::TooLarge { shape, reason }))
    });
    match refused {
        Some(Some(error)) => resume_unwind(Box::new(error)),
        counted => counted.is_some(),
    }
}

/// A weight in a rehearsal: it has a shape, and no values until they are read.
pub(crate) fn unwritten<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    let values = move |device: &Device, _: bool| Tensor::zeros(shape, device);
    Param::uninitialized(ParamId::new(), values, device.clone(), true, Shape::from(shape))
}
