//! [`Sampler`].

use std::collections::BTreeMap;

use hearth_engine::HandlerError;

use super::Draw;

/// The order of the cases of each epoch.
///
/// ```
/// use std::collections::BTreeMap;
/// use hearth_plugin::HandlerError;
/// use hearth_plugin::component::{Draw, Epoch, Sampler};
///
/// /// The cases with the largest last loss first; new cases before them.
/// struct HardestFirst;
///
/// impl Sampler for HardestFirst {
///     fn order(&self, epoch: &Epoch<'_>, _: Draw) -> Result<Vec<usize>, HandlerError> {
///         let loss = |case: usize| epoch.losses.get(&epoch.cases[case]).copied().unwrap_or(f64::INFINITY);
///         let mut order: Vec<usize> = (0..epoch.cases.len()).collect();
///         order.sort_by(|a, b| loss(*b).total_cmp(&loss(*a)));
///         Ok(order)
///     }
/// }
///
/// let cases = ["a".to_owned(), "b".to_owned()];
/// let losses = BTreeMap::from([("a".to_owned(), 0.2), ("b".to_owned(), 0.7)]);
/// let order = HardestFirst.order(&Epoch { cases: &cases, number: 1, losses: &losses }, Draw::new(0))?;
/// assert_eq!(order, [1, 0]);
/// # Ok::<(), HandlerError>(())
/// ```
pub trait Sampler: Send + Sync {
    /// Returns the indices of the cases of an epoch, in their order. A case may occur several times, and is
    /// then cropped and augmented differently each time. All epochs have the same number of cases, at least
    /// one.
    ///
    /// # Errors
    /// The reason why there is no order.
    fn order(&self, epoch: &Epoch<'_>, draw: Draw) -> Result<Vec<usize>, HandlerError>;
}

/// An epoch whose order is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Epoch<'a> {
    /// The names of all cases.
    pub cases: &'a [String],
    /// The number of the epoch: from 1 in a training, and 0 where the program asks for the number of
    /// cases before it.
    pub number: u64,
    /// The last loss of each case, as far as it is known.
    pub losses: &'a BTreeMap<String, f64>,
}
