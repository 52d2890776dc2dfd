//! The cost of an event: without a subscriber, with a linked handler, with a plugin in Rust, with
//! one in C.
//!
//! `cargo bench -p hearth-plugin-host -p build-once --bench events`

#[path = "../tests/plugins/toy.rs"]
#[allow(dead_code, reason = "a test has the rest of it")]
mod toy;

use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};
use hearth_engine::{Context, Engine, Event, Handler, HandlerError, When};
use hearth_plugin::{NoOptions, export_plugin};
use hearth_plugin_host::{HEADER, load, load_linked};
use toy::Toy;

/// Reads a number of the state, as most handlers do.
struct Reads(f64);

impl Handler for Reads {
    fn name(&self) -> &str {
        "reads"
    }

    fn subscriptions(&self) -> Vec<When> {
        vec![Event::LossCompleted.into()]
    }

    fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        self.0 += cx.state.iteration as f64;
        Ok(())
    }
}

export_plugin!("reads", NoOptions, |_| Reads(0.0), needs: []);

const IN_C: &str = r#"#include "hearth_plugin.h"
HEARTH_PLUGIN("reads-c", "0.1.0", "reads a number", HEARTH_DECLARED);
static double sum;
static int32_t create(const hearth_setup *setup, void **self) {
    hearth_when when = {sizeof(hearth_when), "loss_completed", 0, 0, 0, 0, 0, 0};
    *self = &sum;
    return setup->listen(setup, &when);
}
static int32_t handle(void *self, const hearth_event *event, const hearth_host *host) {
    (void)host;
    *(double *)self += (double)event->iteration;
    return HEARTH_OK;
}
static const hearth_plugin plugin = {sizeof(hearth_plugin), 0, create, 0, handle, 0, 0, 0, 0, 0, 0, 0};
const hearth_plugin *hearth_plugin_main(const hearth_call *call) { (void)call; return &plugin; }
"#;

/// A plugin built by the machine's C compiler.
fn in_c() -> Box<dyn Handler> {
    let folder = tempfile::tempdir().expect("a folder").keep();
    std::fs::write(folder.join("hearth_plugin.h"), HEADER).expect("the header");
    std::fs::write(folder.join("reads.c"), IN_C).expect("the source");
    let arguments = ["-O2", "-fPIC", "-shared", "-o", "libreads.so", "reads.c"];
    let status = Command::new("cc").args(arguments).current_dir(&folder).status().expect("a C compiler");
    assert!(status.success(), "the plugin in C is built");
    load(&folder.join("libreads.so")).expect("it loads").handler(toml::Table::new()).expect("no options")
}

/// An engine in the middle of a run, with five metrics.
fn engine(handler: Option<Box<dyn Handler>>) -> Engine {
    let mut engine = Engine::new("trainer");
    engine.on(Event::EpochCompleted, |_| Ok(())).expect("a valid handler");
    if let Some(handler) = handler {
        engine.add_boxed(handler).expect("a valid handler");
    }
    for name in ["dice", "dice_1", "dice_2", "hd95", "loss"] {
        engine.state_mut().observe(name, 0.5);
    }
    engine
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("event");
    let linked =
        || load_linked(&PLUGIN).expect("it lists its options").handler(toml::Table::new()).expect("no options");
    let cases: [(&str, Option<Box<dyn Handler>>); 4] = [
        ("no subscriber", None),
        ("a handler of the program", Some(Box::new(Reads(0.0)))),
        ("a plugin in Rust", Some(linked())),
        ("a plugin in C", Some(in_c())),
    ];
    for (name, handler) in cases {
        let mut engine = engine(handler);
        let mut toy = Toy::trainer(1);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                engine.state_mut().iteration += 1;
                engine.fire(Event::LossCompleted, &mut toy).expect("no error");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
