//! What a network's weights take, before any of them is drawn: [`rehearse`].

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Shape, Tensor};
use hearth_machine::{Allowance, readable};
use tracing::subscriber::{NoSubscriber, with_default};

use super::ConfigError;

/// The most weights, each of any size, that a network may have. The largest networks have a few
/// thousand; more than this is a number that was mistyped.
const MOST_WEIGHTS: usize = 20_000;

/// What is counted while a network is rehearsed.
struct Tally {
    allowance: Allowance,
    bytes: u64,
    weights: usize,
}

thread_local! {
    static OPEN: RefCell<Option<Tally>> = const { RefCell::new(None) };
}

/// Builds a network whose weights are only counted: bytes of all of them in f32, and the network. Constructors of
/// layers do not fail, so one that exceeds the memory of this process leaves them by unwinding,
/// without a panic's message.
///
/// # Errors
/// Those of `build`, and [`ConfigError::TooLarge`].
pub(crate) fn rehearse<T>(
    allowance: Allowance,
    build: impl FnOnce() -> Result<T, ConfigError>,
) -> Result<(u64, T), ConfigError> {
    /// A panic inside must not leave the tally open: later networks would have no weights.
    struct Close;
    impl Drop for Close {
        fn drop(&mut self) {
            OPEN.take();
        }
    }
    OPEN.set(Some(Tally { allowance, bytes: 0, weights: 0 }));
    let _close = Close;
    // What a network says of its parameters, it says when it is built.
    match catch_unwind(AssertUnwindSafe(|| with_default(NoSubscriber::new(), build))) {
        Ok(built) => built.map(|built| (OPEN.take().map_or(0, |tally| tally.bytes), built)),
        Err(payload) => Err(too_large(payload)),
    }
}

/// The error that left a constructor; any other panic goes on.
fn too_large(payload: Box<dyn Any + Send>) -> ConfigError {
    match payload.downcast::<ConfigError>() {
        Ok(error) => *error,
        Err(panic) => resume_unwind(panic),
    }
}

/// Counts a weight, where a network is rehearsed; says whether one is. `path` is its state-dict key.
pub(crate) fn count(path: impl FnOnce() -> String, shape: &[usize]) -> bool {
    let refused = OPEN.with_borrow_mut(|open| {
        let tally = open.as_mut()?;
        let values = shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length as u64));
        tally.bytes = tally.bytes.saturating_add(values.map_or(u64::MAX, |values| values.saturating_mul(4)));
        tally.weights += 1;
        let mut shape = shape.to_vec();
        let reason = if tally.weights > MOST_WEIGHTS {
            let reason = format!("the network has more than {MOST_WEIGHTS} weights, `{}` among them", path());
            // It is not this one that is too large.
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

/// A weight of a network that is rehearsed: it has a shape, and no values until somebody asks.
pub(crate) fn unwritten<const D: usize>(shape: [usize; D], device: &Device) -> Param<Tensor<D>> {
    let values = move |device: &Device, _: bool| Tensor::zeros(shape, device);
    Param::uninitialized(ParamId::new(), values, device.clone(), true, Shape::from(shape))
}
