//! Listeners of events: [`Handler`], and the [`Context`] it is called with.

use serde::{Deserialize, Serialize};

use crate::error::HandlerError;
use crate::event::Event;
use crate::host::Host;
use crate::state::State;
use crate::when::When;

/// The effect of a handler's error on the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum OnError {
    /// The run ends with the error.
    #[default]
    Stop = 0,
    /// The handler is not called again; the run continues.
    Disable = 1,
    /// The error is logged; the run continues.
    Log = 2,
}

/// The processes of a distributed run that a handler acts in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Ranks {
    /// In every process.
    #[default]
    All = 0,
    /// In the first process only.
    First = 1,
}

/// Listens to the events of a run.
///
/// ```
/// use hearth_engine::{Context, Event, Handler, HandlerError, When};
///
/// struct Patience { left: u32 }
///
/// impl Handler for Patience {
///     fn name(&self) -> &str { "patience" }
///     fn subscriptions(&self) -> Vec<When> { vec![Event::EpochCompleted.every(2)] }
///     fn handle(&mut self, _event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
///         if !cx.state.is_best() { self.left = self.left.saturating_sub(1); }
///         if self.left == 0 { cx.host.terminate("patience ran out"); }
///         Ok(())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a closure is one with its event: `.on(Event::EpochCompleted, |cx| ...)` of a builder or an engine, or \
            `handler_fn(Event::EpochCompleted, |cx| ...)`; a type of your own implements `Handler`"
)]
pub trait Handler: Send {
    /// The name used in messages, times and checkpoints.
    fn name(&self) -> &str;

    /// The events that the handler is called for. Read once, at registration.
    fn subscriptions(&self) -> Vec<When>;

    /// The custom events that the handler fires with [`Host::fire`]: `NAME.EVENT`, where NAME says
    /// whose they are. Read once, at registration. Handlers before and after it can subscribe to
    /// them.
    fn events(&self) -> Vec<String> {
        Vec::new()
    }

    /// Called for every event subscribed to, in the order of registration.
    ///
    /// # Errors
    /// If the handler cannot do its work. [`on_error`](Self::on_error) decides what becomes of the
    /// run.
    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError>;

    /// What an error of this handler does to the run.
    fn on_error(&self) -> OnError {
        OnError::Stop
    }

    /// The processes of a distributed run that the handler acts in.
    fn ranks(&self) -> Ranks {
        Ranks::All
    }

    /// The state to store in checkpoints; `None` (the default) stores nothing. A handler that
    /// returns a state must be registered when the run is resumed, or be given up with
    /// [`Engine::restore_without`](crate::Engine::restore_without).
    fn save_state(&self) -> Option<Vec<u8>> {
        None
    }

    /// Restores what `save_state` returned. The default ignores it.
    ///
    /// # Errors
    /// If the bytes are not a state of this handler; the run is then not resumed.
    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        let _ = state;
        Ok(())
    }
}

/// The arguments of a handler's call: what happened, how far the run is, and the host that carries out
/// requests.
///
/// ```
/// use hearth_engine::{Engine, Event};
/// Engine::new("trainer").on(Event::LossCompleted, |cx| {
///     let loss = cx.host.output("loss")?;
///     cx.host.scalar("train/loss", loss);
///     if !loss.is_finite() { cx.host.terminate(&format!("{}: loss {loss}", cx.event)); }
///     Ok(())
/// })?;
/// # Ok::<(), hearth_engine::RegisterError>(())
/// ```
pub struct Context<'a> {
    /// The event that happened.
    pub event: Event,
    /// The state of the run.
    pub state: &'a State,
    /// The trainer or evaluator that runs the engine.
    pub host: &'a mut dyn Host,
}
