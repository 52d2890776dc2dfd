//! The cost of a call. The times are only printed (`--nocapture`), so that a busy machine fails no
//! test.

use std::hint::black_box;
use std::time::Instant;

use hearth_engine::{Context, Event, Handler, HandlerError, Host, Level, State, When, not_offered, trace};
use hearth_plugin_host::load;

use crate::{fixture, table};

struct Idle;

impl Handler for Idle {
    fn name(&self) -> &str {
        "idle"
    }
    fn subscriptions(&self) -> Vec<When> {
        Vec::new()
    }
    fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        black_box(cx.state);
        Ok(())
    }
}

struct NoHost;
impl Host for NoHost {
    fn log(&mut self, level: Level, message: &str) {
        trace(level, message);
    }
    not_offered! {
        requests, names, output, cases, numbers, texts, learning_rate, set_learning_rate, layer_statistics, run, tensor,
        put_tensor, combine
    }
}

fn nanoseconds(handler: &mut dyn Handler, mut change: impl FnMut(&mut State, u64)) -> f64 {
    let mut state = State::new("trainer");
    for name in ["dice", "dice_1", "dice_2", "hd95", "loss"] {
        state.observe(name, 0.5);
    }
    let calls = 200_000;
    let start = Instant::now();
    for iteration in 1..=calls {
        // In iteration 2 the fixture can be made to fail.
        state.iteration = iteration + 2;
        change(&mut state, iteration);
        let event = Event::IterationCompleted;
        handler.handle(event, &mut Context { event, state: &state, host: &mut NoHost }).expect("no error");
    }
    start.elapsed().as_secs_f64() * 1e9 / calls as f64
}

#[test]
fn a_call_through_the_boundary() {
    let plugin = load(&fixture("troubles")).expect("it loads well");
    let mut loaded = plugin.handler(table("")).expect("valid options");
    let linked = nanoseconds(&mut Idle, |_, _| {});
    let same = nanoseconds(&mut *loaded, |_, _| {});
    let changed = nanoseconds(&mut *loaded, |state, iteration| state.observe("loss", iteration as f64));
    println!("a call of a linked handler: {linked:.0} ns");
    println!("of a loaded one: {same:.0} ns; with 5 metrics, one of which changed: {changed:.0} ns");
    assert!(linked < 1e6 && same < 1e6 && changed < 1e6, "a call takes less than a millisecond");
}
