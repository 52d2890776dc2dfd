//! What follows the handlers of an event: timers that are due, the events that handlers fired, and
//! `Attached`.

use std::time::Instant;

use crate::engine::Engine;
use crate::event::Event;
use crate::run_error::RunError;
use crate::workflow::Workflow;

/// The largest number of events that may follow one event, so that two handlers which fire each
/// other's events do not run forever.
const MOST_IN_A_ROW: usize = 64;

impl Engine {
    /// Calls the handlers whose timers are due, then fires what handlers have caused.
    pub(crate) fn follow(&mut self, workflow: &mut dyn Workflow, lenient: bool) -> Result<(), RunError> {
        if !self.requests.timers.is_empty() {
            let now = Instant::now();
            let due = self.requests.timers.extract_if(.., |(due, _)| *due <= now).collect::<Vec<_>>();
            self.ring(due, workflow, lenient)?;
        }
        for _ in 0..MOST_IN_A_ROW {
            let fired = std::mem::take(&mut self.requests.fired);
            self.attachments = std::mem::take(&mut self.requests.attached);
            if fired.is_empty() && self.attachments.is_empty() {
                return Ok(());
            }
            if !self.attachments.is_empty() {
                self.dispatch(Event::Attached, workflow, lenient)?;
            }
            for (_, event) in fired {
                self.dispatch(event, workflow, lenient)?;
            }
        }
        let by = self.requests.fired.first().map_or(self.requests.attached_by, |(index, _)| *index);
        let event = self.requests.fired.first().map_or(Event::Attached, |(_, event)| *event);
        self.requests.fired.clear();
        self.requests.attached.clear();
        let what =
            format!("{MOST_IN_A_ROW} events followed one another; a handler of `{event}` must not fire it again");
        self.judge(by, event, &what, workflow, lenient)
    }

    /// Calls the handlers whose timers have not run out, because the run ends.
    pub(crate) fn ring_all(&mut self, workflow: &mut dyn Workflow, lenient: bool) -> Result<(), RunError> {
        let rest = std::mem::take(&mut self.requests.timers);
        self.requests.ending = true;
        let result = self.ring(rest, workflow, lenient).and_then(|()| self.follow(workflow, lenient));
        self.requests.ending = false;
        result
    }

    fn ring(
        &mut self,
        timers: Vec<(Instant, usize)>,
        workflow: &mut dyn Workflow,
        lenient: bool,
    ) -> Result<(), RunError> {
        for (_, index) in timers {
            if !self.entries[index].disabled {
                self.call(index, Event::Timer, workflow, lenient)?;
            }
        }
        Ok(())
    }
}
