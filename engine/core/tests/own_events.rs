//! Events and timers of handlers, attachments as events, and information about the run.

mod mock;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearth_engine::{
    Attachment, Context, Engine, Event, Handler, HandlerError, NamesOf, OnError, RunEnd, RunErrorKind, When,
};
use mock::Mock;

type Lines = Arc<Mutex<Vec<String>>>;
type Call = Box<dyn FnMut(Event, &mut Context<'_>) -> Result<(), HandlerError> + Send>;

/// A handler whose parts are given.
struct Made {
    name: &'static str,
    events: Vec<&'static str>,
    whens: Vec<When>,
    call: Call,
    on_error: OnError,
}

impl Made {
    fn new(
        name: &'static str,
        whens: impl IntoIterator<Item = When>,
        call: impl FnMut(Event, &mut Context<'_>) -> Result<(), HandlerError> + Send + 'static,
    ) -> Self {
        let whens = whens.into_iter().collect();
        Self { name, events: Vec::new(), whens, call: Box::new(call), on_error: OnError::Stop }
    }

    fn fires(mut self, events: &[&'static str]) -> Self {
        self.events = events.to_vec();
        self
    }
}

impl Handler for Made {
    fn name(&self) -> &str {
        self.name
    }
    fn subscriptions(&self) -> Vec<When> {
        self.whens.clone()
    }
    fn events(&self) -> Vec<String> {
        self.events.iter().map(|event| (*event).to_owned()).collect()
    }
    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        (self.call)(event, cx)
    }
    fn on_error(&self) -> OnError {
        self.on_error
    }
}

fn noting(lines: &Lines, name: &'static str, whens: impl IntoIterator<Item = When>) -> Made {
    let lines = lines.clone();
    Made::new(name, whens, move |event, cx| {
        lines.lock().unwrap().push(format!("{name} {event} {}", cx.state.iteration));
        Ok(())
    })
}

#[test]
fn an_event_of_a_handler_reaches_others_after_its_own() {
    let lines = Lines::default();
    let mut engine = Engine::new("trainer");
    // It listens before the handler that fires is there.
    engine
        .add(noting(&lines, "early", [Event::custom("hard.found").into(), Event::IterationCompleted.into()]))
        .unwrap();
    let found = Made::new("hard", [Event::IterationCompleted.once(2)], |_, cx| Ok(cx.host.fire("hard.found")?));
    engine.add(found.fires(&["hard.found"])).unwrap();
    engine.add(noting(&lines, "late", [Event::custom("hard.found") | Event::IterationCompleted])).unwrap();
    engine.run(&mut Mock::new(2), 1).unwrap();
    let expected = [
        "early iteration_completed 1",
        "late iteration_completed 1",
        "early iteration_completed 2",
        "late iteration_completed 2",
        "early hard.found 2",
        "late hard.found 2",
    ];
    assert_eq!(*lines.lock().unwrap(), expected);
    assert_eq!(engine.event_counts()["hard.found"], 1);
}

#[test]
fn an_event_that_nobody_fires_is_an_error_before_the_run() {
    let lines = Lines::default();
    let mut engine = Engine::new("trainer");
    engine.add(noting(&lines, "a", [Event::custom("hard.fuond").into(), Event::Started.into()])).unwrap();
    let other = Made::new("hard", [Event::EpochStarted.into()], |_, _| Ok(())).fires(&["hard.found"]);
    engine.add(other).unwrap();
    assert!(engine.check_events().is_err());
    let error = engine.run(&mut Mock::new(1), 1).unwrap_err();
    assert!(matches!(&error.kind, RunErrorKind::NobodyFires { handler, .. } if handler == "a"));
    assert!(error.to_string().contains("`hard.fuond`, which no handler of this run fires; they fire hard.found"));
    assert!(lines.lock().unwrap().is_empty(), "no event came");
}

#[test]
fn names_and_events_of_others_are_refused() {
    let mut engine = Engine::new("trainer");
    for name in ["found", ".found", "hard.", "hard found.x", "a.b.c"] {
        let name: &'static str = name;
        let error = engine.add(Made::new("hard", [Event::Started.into()], |_, _| Ok(())).fires(&[name])).unwrap_err();
        assert!(error.to_string().contains("NAME.EVENT"), "{name}: {error}");
    }
    let other = Made::new("other", [Event::Started.into()], |_, cx| Ok(cx.host.fire("hard.found")?));
    engine.add(other.fires(&["other.seen"])).unwrap();
    engine.add(Made::new("hard", [Event::Started.into()], |_, _| Ok(())).fires(&["hard.found"])).unwrap();
    let error = engine.run(&mut Mock::new(1), 1).unwrap_err().to_string();
    assert!(error.ends_with("`hard.found` is not an event of this handler; its `events` are: `other.seen`"), "{error}");
}

#[test]
fn handlers_that_fire_each_others_events_come_to_an_end() {
    let mut engine = Engine::new("trainer");
    let ping =
        Made::new("ping", [Event::Started | Event::custom("pong.sent")], |_, cx| Ok(cx.host.fire("ping.sent")?));
    let pong = Made::new("pong", [Event::custom("ping.sent").into()], |_, cx| Ok(cx.host.fire("pong.sent")?));
    engine.add(ping.fires(&["ping.sent"])).unwrap();
    engine.add(pong.fires(&["pong.sent"])).unwrap();
    let error = engine.run(&mut Mock::new(1), 1).unwrap_err().to_string();
    assert!(error.contains("64 events followed one another"), "{error}");
}

#[test]
fn attached_files_are_told_once() {
    let lines = Lines::default();
    let mut engine = Engine::new("trainer");
    let seen = lines.clone();
    engine
        .on(Event::Attached, move |cx| {
            seen.lock().unwrap().push(format!("{} {:?}", cx.state.iteration, cx.host.names(NamesOf::Attachments)));
            Ok(())
        })
        .unwrap();
    let attach = |_: Event, cx: &mut Context<'_>| {
        assert!(cx.host.names(NamesOf::Attachments).is_empty());
        cx.host.attach("a", &Attachment::Text("# a"))?;
        cx.host.attach("b", &Attachment::File(b"b"))?;
        Ok(())
    };
    engine.add(Made::new("notes", [Event::IterationCompleted.every(2)], attach)).unwrap();
    engine.on_attach(Box::new(|handler, name, _| Ok(Some(format!("{handler}/{name}").into()))));
    engine.run(&mut Mock::new(4), 1).unwrap();
    assert_eq!(*lines.lock().unwrap(), [r#"2 ["notes/a", "notes/b"]"#, r#"4 ["notes/a", "notes/b"]"#]);
}

/// A handler that sets a timer at the first iteration and again in each of its calls.
fn timed(lines: &Lines, time: Duration) -> Made {
    let lines = lines.clone();
    Made::new("timed", [Event::IterationStarted.once(1)], move |event, cx| {
        if event == Event::Timer {
            lines.lock().unwrap().push(format!("timer {}", cx.state.iteration));
            let again = cx.host.call_after(time).err().map(|error| error.to_string());
            lines.lock().unwrap().extend(again);
            return Ok(());
        }
        Ok(cx.host.call_after(time)?)
    })
}

#[test]
fn a_timer_calls_its_handler_alone() {
    let lines = Lines::default();
    let mut engine = Engine::new("trainer");
    engine.add(timed(&lines, Duration::ZERO)).unwrap();
    engine.add(noting(&lines, "other", [Event::Timer | Event::IterationCompleted])).unwrap();
    assert_eq!(engine.run(&mut Mock::new(1), 1).unwrap(), RunEnd::Completed);
    let lines = lines.lock().unwrap();
    assert!(lines.iter().all(|line| line != "other timer 1"), "{lines:?}");
    assert!(lines.iter().filter(|line| *line == "timer 1").count() >= 2, "each time it asked: {lines:?}");
}

#[test]
fn timers_that_have_not_run_out_are_called_at_the_end() {
    let hour = Duration::from_secs(3600);
    let lines = Lines::default();
    let mut engine = Engine::new("trainer");
    engine.add(timed(&lines, hour)).unwrap();
    engine.add(noting(&lines, "other", [Event::Completed.into()])).unwrap();
    engine.run(&mut Mock::new(3), 1).unwrap();
    let refused = "call_after: the run ends, nothing is called after it";
    assert_eq!(*lines.lock().unwrap(), ["timer 3", refused, "other completed 3"]);

    // Also where the run fails or is interrupted.
    for (event, fails) in [(Event::ExceptionRaised, true), (Event::Interrupt, false)] {
        let lines = Lines::default();
        let mut engine = Engine::new("trainer");
        engine.add(timed(&lines, hour)).unwrap();
        engine.add(noting(&lines, "other", [event.into()])).unwrap();
        let stop = Made::new("stop", [Event::IterationCompleted.once(2)], move |_, cx| {
            if fails {
                return Err(HandlerError::new("no luck"));
            }
            cx.host.interrupt("enough");
            Ok(())
        });
        engine.add(stop).unwrap();
        assert_eq!(engine.run(&mut Mock::new(3), 1).is_err(), fails);
        assert_eq!(*lines.lock().unwrap(), ["timer 2".to_owned(), refused.to_owned(), format!("other {event} 2")]);
    }
}

#[test]
fn a_disabled_handler_gets_no_timer_and_a_failing_one_obeys_its_policy() {
    let mut engine = Engine::new("trainer");
    let calls = Lines::default();
    let noted = calls.clone();
    let mut fails = Made::new("fails", [Event::IterationStarted.into()], move |event, cx| {
        noted.lock().unwrap().push(event.to_string());
        cx.host.call_after(Duration::ZERO)?;
        if event == Event::Timer { Err(HandlerError::new("no luck")) } else { Ok(()) }
    });
    fails.on_error = OnError::Disable;
    engine.add(fails).unwrap();
    engine.run(&mut Mock::new(3), 1).unwrap();
    assert_eq!(*calls.lock().unwrap(), ["iteration_started", "timer"]);
    assert!(engine.handler_times()[0].disabled);
}

#[test]
fn the_information_about_the_run_is_what_was_set() {
    let said = Lines::default();
    for set in [false, true] {
        let mut engine = Engine::new("trainer");
        let said = said.clone();
        engine
            .on(Event::Started, move |cx| {
                said.lock().unwrap().push(cx.host.run_info().unwrap_or_else(|error| error.to_string()));
                Ok(())
            })
            .unwrap();
        if set {
            engine.set_run_info(r#"{"version":"1"}"#);
        }
        engine.run(&mut Mock::new(1), 1).unwrap();
    }
    assert_eq!(*said.lock().unwrap(), ["`run_info` is not supported", r#"{"version":"1"}"#]);
}
