//! The spans a profiler sees: one for the run, each epoch, each iteration, each fetch of a batch
//! and each call of a handler, nested and balanced.

mod mock;

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use hearth_engine::{Engine, Event};
use mock::{Counting, Mock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// Records when spans are entered and left, as `> run > epoch 1 <`.
#[derive(Default)]
struct Notes {
    names: Mutex<Vec<String>>,
    text: Arc<Mutex<String>>,
    open: Mutex<Vec<u64>>,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() != "engine" {
            self.0.push_str(&format!(" {value:?}"));
        }
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut name = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut name));
        let mut names = self.names.lock().unwrap();
        names.push(name);
        Id::from_u64(names.len() as u64)
    }
    fn enter(&self, id: &Id) {
        let name = self.names.lock().unwrap()[id.into_u64() as usize - 1].clone();
        self.open.lock().unwrap().push(id.into_u64());
        self.text.lock().unwrap().push_str(&format!("> {name} "));
    }
    fn exit(&self, id: &Id) {
        assert_eq!(self.open.lock().unwrap().pop(), Some(id.into_u64()), "spans are left inside out");
        self.text.lock().unwrap().push_str("< ");
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
}

fn spans(batches: u64, epochs: u64, prepare: impl FnOnce(&mut Engine)) -> String {
    let notes = Notes::default();
    let text = notes.text.clone();
    tracing::subscriber::with_default(notes, || {
        let mut engine = Engine::new("trainer");
        prepare(&mut engine);
        engine.run(&mut Mock::new(batches), epochs).unwrap();
    });
    text.lock().unwrap().trim_end().to_owned()
}

#[test]
fn nested_and_balanced() {
    let counting = Counting::new("counting", Event::Started | Event::ForwardCompleted | Event::EpochCompleted);
    let text = spans(1, 2, |engine| assert!(engine.add(counting).is_ok()));
    let call = |event: &str| format!("> handler \"counting\" {event} <");
    // In the second epoch the first fetch returns no batch: the pass is over, and another one
    // begins.
    let asks = ["> fetch <", "> fetch < > fetch <"];
    let epoch = |e: usize| {
        let (forward, ends) = (call("forward_completed"), call("epoch_completed"));
        format!("> epoch {e} > iteration {e} {} {forward} < {ends} <", asks[e - 1])
    };
    assert_eq!(text, format!("> run {} {} {} <", call("started"), epoch(1), epoch(2)));
}

#[test]
fn a_run_that_ends_in_its_middle_leaves_no_span_open() {
    for what in ["terminate", "terminate_epoch", "interrupt"] {
        let text = spans(2, 2, |engine| {
            let ask = move |cx: &mut hearth_engine::Context<'_>| {
                match what {
                    "terminate" => cx.host.terminate("asked"),
                    "interrupt" => cx.host.interrupt("asked"),
                    _ => cx.host.terminate_epoch("asked"),
                }
                Ok(())
            };
            engine.on(Event::IterationStarted.once(1), ask).unwrap();
        });
        assert_eq!(text.matches('>').count(), text.matches('<').count(), "{what}: {text}");
        assert!(text.starts_with("> run > epoch 1 > iteration 1 > fetch < > handler"), "{text}");
    }
}
