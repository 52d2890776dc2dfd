//! A closure as a handler: [`handler_fn`].

use std::panic::Location;

use crate::error::HandlerError;
use crate::event::Event;
use crate::handler::{Context, Handler};
use crate::when::When;

struct Closure<F> {
    name: String,
    when: When,
    call: F,
}

impl<F> Handler for Closure<F>
where
    F: FnMut(&mut Context<'_>) -> Result<(), HandlerError> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![self.when.clone()]
    }

    fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        (self.call)(cx)
    }
}

/// A closure as a handler of these events. Messages name it by the file and line of this call. An
/// error of the closure ends the run ([`OnError::Stop`](crate::OnError::Stop)); it has no saved
/// state.
///
/// ```
/// use hearth_engine::{Engine, Event, handler_fn};
/// let often = handler_fn(Event::EpochCompleted.every(2), |cx| {
///     cx.host.terminate("two epochs are enough");
///     Ok(())
/// });
/// assert!(often.name().starts_with("closure at "));
/// Engine::new("trainer").add_boxed(often)?;
/// # Ok::<(), hearth_engine::RegisterError>(())
/// ```
#[track_caller]
pub fn handler_fn<F>(when: impl Into<When>, call: F) -> Box<dyn Handler>
where
    F: FnMut(&mut Context<'_>) -> Result<(), HandlerError> + Send + 'static,
{
    let place = Location::caller();
    let name = format!("closure at {}:{}", place.file(), place.line());
    Box::new(Closure { name, when: when.into(), call })
}
