//! What can happen in a run: [`Event`], a `u32` with a name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, RwLock};

use serde::{Deserialize, Serialize};

use crate::when::When;

/// Something that happens in a run.
///
/// An event is a number, so that a plugin built against an older Hearth can receive an event it
/// does not know and ignore it. The associated constants are the events of ignite and of MONAI's
/// iteration events; names of your own come from [`Event::custom`] and must be registered with the
/// engine before they can fire.
///
/// ```
/// use hearth_engine::Event;
/// assert_eq!(Event::EpochCompleted.name(), "epoch_completed");
/// let sampled = Event::custom("latents_sampled");
/// assert_eq!(sampled, Event::custom("latents_sampled"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[non_exhaustive]
pub struct Event(u32);

/// The bit that distinguishes a custom event from a built-in one.
const CUSTOM: u32 = 0x8000_0000;

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $text:literal;)*) => {
        #[allow(non_upper_case_globals, reason = "events are named as variants are")]
        impl Event {
            $($(#[$doc])* pub const $name: Event = Event($id);)*

            /// Every built-in event, in the order of their numbers.
            pub const BUILT_IN: &'static [Event] = &[$(Event($id)),*];

            fn built_in_name(self) -> Option<&'static str> {
                match self.0 { $($id => Some($text),)* _ => None }
            }
        }
    };
}

events! {
    /// The run starts; a checkpoint is loaded here.
    Started = 1, "started";
    /// An epoch starts; `state.epoch` already counts it.
    EpochStarted = 2, "epoch_started";
    /// The next batch is about to be fetched.
    GetBatchStarted = 3, "get_batch_started";
    /// The batch was fetched.
    GetBatchCompleted = 4, "get_batch_completed";
    /// An iteration starts; `state.iteration` already counts it.
    IterationStarted = 5, "iteration_started";
    /// The network has predicted.
    ForwardCompleted = 6, "forward_completed";
    /// The loss is computed (trainers only).
    LossCompleted = 7, "loss_completed";
    /// Gradients are computed, the optimizer has not stepped yet (trainers only).
    BackwardCompleted = 8, "backward_completed";
    /// The optimizer has stepped; predictions are decollated and post-processed.
    ModelCompleted = 9, "model_completed";
    /// The iteration is over.
    IterationCompleted = 10, "iteration_completed";
    /// The epoch is over: metrics are computed, the best one compared.
    EpochCompleted = 11, "epoch_completed";
    /// The run is over.
    Completed = 12, "completed";
    /// A handler requested the end of the run.
    Terminate = 13, "terminate";
    /// A handler requested the end of the epoch.
    TerminateSingleEpoch = 14, "terminate_single_epoch";
    /// A pause was requested: the next `run` resumes in mid-epoch.
    Interrupt = 15, "interrupt";
    /// An error ended the run; `state.exception` says which.
    ExceptionRaised = 16, "exception_raised";
    /// The loader is exhausted and is started again.
    DataLoaderStopIteration = 17, "dataloader_stop_iteration";
    /// For a user's own inner loop; never fired by the built-in trainers.
    InnerIterationStarted = 18, "inner_iteration_started";
    /// For a user's own inner loop; never fired by the built-in trainers.
    InnerIterationCompleted = 19, "inner_iteration_completed";
    /// Adversarial trainer: reconstruction loss is computed.
    ReconstructionLossCompleted = 20, "reconstruction_loss_completed";
    /// Adversarial trainer: the generator has predicted.
    GeneratorForwardCompleted = 21, "generator_forward_completed";
    /// Adversarial trainer: the discriminator has judged the generator's output.
    GeneratorDiscriminatorForwardCompleted = 22, "generator_discriminator_forward_completed";
    /// Adversarial trainer: the generator's loss is computed.
    GeneratorLossCompleted = 23, "generator_loss_completed";
    /// Adversarial trainer: the generator's gradients are computed.
    GeneratorBackwardCompleted = 24, "generator_backward_completed";
    /// Adversarial trainer: the generator's optimizer has stepped.
    GeneratorModelCompleted = 25, "generator_model_completed";
    /// Adversarial trainer: the discriminator has judged real images.
    DiscriminatorRealsForwardCompleted = 26, "discriminator_reals_forward_completed";
    /// Adversarial trainer: the discriminator has judged fakes.
    DiscriminatorFakesForwardCompleted = 27, "discriminator_fakes_forward_completed";
    /// Adversarial trainer: the discriminator's loss is computed.
    DiscriminatorLossCompleted = 28, "discriminator_loss_completed";
    /// Adversarial trainer: the discriminator's gradients are computed.
    DiscriminatorBackwardCompleted = 29, "discriminator_backward_completed";
    /// Adversarial trainer: the discriminator's optimizer has stepped.
    DiscriminatorModelCompleted = 30, "discriminator_model_completed";
    /// Handlers have attached files: see [`Host::attach`](crate::Host::attach). At this event
    /// [`NamesOf::Attachments`](crate::NamesOf::Attachments) are their paths.
    Attached = 31, "attached";
    /// The time that one handler requested with [`Host::call_after`](crate::Host::call_after) has
    /// passed. Only that handler is called, without a subscription.
    Timer = 32, "timer";
}

/// Names of custom events seen in this process, used in messages only: events are equal if their
/// numbers are.
static CUSTOM_NAMES: LazyLock<RwLock<BTreeMap<u32, String>>> = LazyLock::new(Default::default);

impl Event {
    /// An event of your own. The number is a hash of the name, so that a plugin and its host agree
    /// on it without sharing a table. Register it with `Engine::register_event` before it fires.
    pub fn custom(name: &str) -> Event {
        // FNV-1a: tiny and stable. Registration refuses two names with the same hash.
        let hash = name.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
        let event = Event(hash | CUSTOM);
        let mut names = CUSTOM_NAMES.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        names.entry(event.0).or_insert_with(|| name.to_owned());
        event
    }

    /// The event of this number, known or not.
    pub const fn from_id(id: u32) -> Event {
        Event(id)
    }

    /// The event's number, stable between releases.
    pub const fn id(self) -> u32 {
        self.0
    }

    /// The event's name in snake case, `event_<number>` for one this build does not know.
    pub fn name(self) -> Cow<'static, str> {
        if let Some(name) = self.built_in_name() {
            return name.into();
        }
        let names = CUSTOM_NAMES.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        names.get(&self.0).map_or_else(|| format!("event_{:#x}", self.0).into(), |name| name.clone().into())
    }

    /// The built-in event of this name.
    pub fn from_name(name: &str) -> Option<Event> {
        Event::BUILT_IN.iter().copied().find(|event| event.built_in_name() == Some(name))
    }

    /// Whether this is a custom event.
    pub const fn is_custom(self) -> bool {
        self.0 & CUSTOM != 0
    }

    /// The counter of the state with which filters on this built-in event compare.
    pub fn counter(self) -> Option<Counter> {
        match self {
            Event::Started | Event::Completed | Event::EpochStarted | Event::EpochCompleted => Some(Counter::Epoch),
            Event::GetBatchStarted | Event::GetBatchCompleted | Event::IterationStarted | Event::IterationCompleted => {
                Some(Counter::Iteration)
            }
            _ => None,
        }
    }

    /// This event, every `n`-th time: when its counter is a multiple of `n` (with a bound, counted
    /// from there: see [`Filter::passes`](crate::Filter::passes)). Registration refuses 0, and for an
    /// event without a counter anything but 1.
    pub fn every(self, n: u64) -> When {
        When::from(self).every(n)
    }

    /// This event when its counter is `k`, from 1.
    pub fn once(self, k: u64) -> When {
        When::from(self).once(k)
    }

    /// This event when its counter is below `b`.
    pub fn before(self, b: u64) -> When {
        When::from(self).before(b)
    }

    /// This event when its counter is above `a`.
    pub fn after(self, a: u64) -> When {
        When::from(self).after(a)
    }

    /// This event when the function returns true; it receives the state and the event's counter.
    pub fn filter(self, accept: impl Fn(&crate::State, u64) -> bool + Send + Sync + 'static) -> When {
        When::from(self).filter(accept)
    }
}

/// The counter of the state that an event is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// `state.epoch`.
    Epoch,
    /// `state.iteration`.
    Iteration,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.name())
    }
}
