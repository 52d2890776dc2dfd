//! The occurrences of an event that a handler is called for: [`When`].

use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use crate::event::Event;
use crate::state::State;

/// A function that decides whether a handler is called: it receives the state and the event's
/// counter (0 for an event without one).
pub type Accept = Arc<dyn Fn(&State, u64) -> bool + Send + Sync>;

/// One or more events, each with a filter. Built from an [`Event`]:
///
/// ```
/// use hearth_engine::Event;
/// let often = Event::EpochCompleted.every(2) | Event::Completed;
/// let early = Event::IterationCompleted.before(6).every(2); // 1, 3, 5: the phase starts at the open bound
/// assert!(often.check().is_ok() && early.check().is_ok());
/// assert!(Event::EpochCompleted.every(0).check().is_err());
/// ```
#[derive(Clone, Debug)]
pub struct When {
    alternatives: Vec<(Event, Filter)>,
}

/// The accepted occurrences of one event. `once`, a function, and the group
/// `every`/`before`/`after` exclude each other; [`When::check`] finds that.
///
/// ```
/// use hearth_engine::{Filter, State};
/// let filter = Filter { every: Some(2), before: Some(6), ..Filter::default() };
/// let state = State::new("trainer");
/// let accepted: Vec<u64> = (0..8).filter(|counter| filter.passes(&state, *counter)).collect();
/// assert_eq!(accepted, [1, 3, 5]);
/// ```
#[derive(Clone, Default)]
pub struct Filter {
    /// Every n-th occurrence.
    pub every: Option<u64>,
    /// Only these counter values.
    pub once: Option<Vec<u64>>,
    /// Only when the counter is below this value.
    pub before: Option<u64>,
    /// Only when the counter is above this value.
    pub after: Option<u64>,
    /// Only when the function returns true.
    pub accept: Option<Accept>,
}

/// An error: a filter contradicts itself. The text names the event and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhenError(String);

impl fmt::Display for WhenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WhenError {}

impl Filter {
    /// Whether the filter accepts the event's counter. A filter with both `every` and a bound
    /// counts from the bound, as in ignite: `every 2, before 6` accepts 1, 3, 5 and
    /// `every 2, after 1` accepts 2, 4, 6. Without `after` the lower bound is 0, so `before` alone
    /// rejects 0 (`Started` of a new run), while `every` alone accepts it.
    pub fn passes(&self, state: &State, counter: u64) -> bool {
        if let Some(accept) = &self.accept {
            return accept(state, counter);
        }
        if let Some(once) = &self.once {
            return once.contains(&counter);
        }
        let after = self.after.unwrap_or(0);
        let bounded = self.after.is_some() || self.before.is_some();
        if bounded && (counter <= after || self.before.is_some_and(|before| counter >= before)) {
            return false;
        }
        match self.every {
            None => true,
            Some(n) if bounded => (counter - after - 1).is_multiple_of(n),
            Some(n) => counter.is_multiple_of(n),
        }
    }

    /// Whether the filter compares with the event's counter.
    pub fn counts(&self) -> bool {
        self.once.is_some() || self.before.is_some() || self.after.is_some() || self.every.is_some_and(|n| n > 1)
    }

    /// Whether the filter accepts every occurrence.
    pub fn is_plain(&self) -> bool {
        matches!(self, Filter { every: None | Some(1), once: None, before: None, after: None, accept: None })
    }

    fn check(&self, event: Event) -> Result<(), WhenError> {
        let groups = [self.accept.is_some(), self.once.is_some(), self.every.or(self.before).or(self.after).is_some()];
        if groups.iter().filter(|given| **given).count() > 1 {
            return Err(WhenError(format!("{event}: `filter`, `once` and `every/before/after` exclude each other")));
        }
        if self.every == Some(0) {
            return Err(WhenError(format!("{event}: `every(0)` never fires; give 1 or more")));
        }
        if self.once.as_ref().is_some_and(|list| list.is_empty() || list.contains(&0)) {
            return Err(WhenError(format!("{event}: `once` counts from 1")));
        }
        let after = self.after.unwrap_or(0);
        if let Some(before) = self.before
            && before <= after.saturating_add(1)
        {
            return Err(WhenError(format!("{event}: nothing lies after {after} and before {before}")));
        }
        Ok(())
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Filter");
        if let Some(n) = self.every {
            s.field("every", &n);
        }
        if let Some(list) = &self.once {
            s.field("once", list);
        }
        if let Some(n) = self.before {
            s.field("before", &n);
        }
        if let Some(n) = self.after {
            s.field("after", &n);
        }
        if self.accept.is_some() {
            s.field("accept", &"fn");
        }
        s.finish()
    }
}

impl From<Event> for When {
    fn from(event: Event) -> Self {
        Self { alternatives: vec![(event, Filter::default())] }
    }
}

impl When {
    /// An event with a filter that was assembled elsewhere (by a plugin's host).
    pub fn from_filter(event: Event, filter: Filter) -> Self {
        Self { alternatives: vec![(event, filter)] }
    }

    /// The events and filters.
    pub fn alternatives(&self) -> &[(Event, Filter)] {
        &self.alternatives
    }

    /// Checks that no filter contradicts itself. Registration calls it.
    ///
    /// # Errors
    /// If one does; the error names the event and the reason.
    pub fn check(&self) -> Result<(), WhenError> {
        self.alternatives.iter().try_for_each(|(event, filter)| filter.check(*event))
    }

    fn each(mut self, change: impl Fn(&mut Filter)) -> Self {
        self.alternatives.iter_mut().for_each(|(_, filter)| change(filter));
        self
    }

    /// Accepts every n-th occurrence: see [`Filter::passes`]. [`check`](Self::check) refuses 0.
    pub fn every(self, n: u64) -> Self {
        self.each(|f| f.every = Some(n))
    }

    /// Accepts the occurrence whose counter is `k`, from 1; call again for further values.
    pub fn once(self, k: u64) -> Self {
        self.each(|f| f.once.get_or_insert_default().push(k))
    }

    /// Accepts occurrences whose counter is below `b`.
    pub fn before(self, b: u64) -> Self {
        self.each(|f| f.before = Some(b))
    }

    /// Accepts occurrences whose counter is above `a`.
    pub fn after(self, a: u64) -> Self {
        self.each(|f| f.after = Some(a))
    }

    /// Accepts occurrences for which the function returns true; it receives the state and the counter.
    pub fn filter(self, accept: impl Fn(&State, u64) -> bool + Send + Sync + 'static) -> Self {
        let accept: Accept = Arc::new(accept);
        self.each(|f| f.accept = Some(accept.clone()))
    }
}

impl<T: Into<When>> BitOr<T> for When {
    type Output = When;
    fn bitor(mut self, other: T) -> When {
        self.alternatives.extend(other.into().alternatives);
        self
    }
}

impl<T: Into<When>> BitOr<T> for Event {
    type Output = When;
    fn bitor(self, other: T) -> When {
        When::from(self) | other
    }
}
