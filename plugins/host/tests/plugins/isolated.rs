//! Isolated plugins: their results are the same, and their crash does not end the run.

use std::time::{Duration, Instant};

use hearth_engine::{Context, Engine, Event, Host, HostTensor, Level, RunEnd, State, not_offered};
use hearth_plugin_host::{Found, Origin, Plugin, PluginError, Search, isolate_with, load, load_isolated};
use hearth_registry::component::{ComponentKind, HostArray};

use crate::in_c::compile;
use crate::kinds::{does_all, runs_the_network};
use crate::toy::Toy;
use crate::{bundled, fixture, here, table};

fn isolated(path: std::path::PathBuf, limit: Duration) -> Result<Plugin, PluginError> {
    isolate_with([here().with_file_name("examples").join("fixture_process").into_os_string()]);
    load_isolated(&Found::File { path, origin: Origin::Given }, limit)
}

/// A run of two epochs with the plugin `ends`, and its plain counterpart.
fn ends(how: &str) -> (Engine, Toy, Result<RunEnd, String>) {
    let plugin = isolated(fixture("ends"), Duration::from_millis(700)).expect("it loads");
    let mut engine = Engine::new("trainer");
    engine.add_boxed(plugin.handler(table(&format!("how = '{how}'"))).expect("valid options")).expect("a handler");
    let mut toy = Toy::trainer(3);
    let end = engine.run(&mut toy, 2).map_err(|error| error.to_string());
    (engine, toy, end)
}

#[test]
fn what_ends_a_plugin_is_told_and_the_run_goes_on() {
    for (how, said) in [
        ("segfault", "its process ended: signal 11 (segmentation fault)"),
        ("abort", "its process ended: signal 6 (abort)"),
        ("exit", "its process ended: exit code 3"),
        ("hang", "its process did not answer in time, and was ended: it had 0.7 s, which `time_limit`"),
    ] {
        let (engine, toy, end) = ends(how);
        assert_eq!(end, Ok(RunEnd::Completed), "{how}");
        assert_eq!(engine.state().iteration, 6, "{how}: the run is complete");
        let told = toy.notes.iter().filter(|note| note.contains("ends")).collect::<Vec<_>>();
        assert_eq!(told.len(), 1, "{how}: {told:?}");
        assert!(
            told[0].contains("handler `ends` failed at iteration_completed and is not called again")
                && told[0].contains(said),
            "{how}: {}",
            told[0]
        );
    }
}

#[test]
fn one_that_prints_goes_on() {
    let (engine, toy, end) = ends("print");
    assert_eq!((end, toy.notes.len()), (Ok(RunEnd::Completed), 0));
    assert_eq!(engine.snapshot().handlers["ends"], [6]);
}

/// Compares all requests of a plugin in this process with those of an isolated one.
#[test]
fn requests_and_answers_are_those_of_a_plugin_in_the_process() {
    let run = |plugin: &Plugin| {
        let mut engine = Engine::new("trainer");
        let sampled = engine.register_event("sampled", None).expect("a new event");
        let options = "word = 'hello'\nnumbers = [1, 2.5, inf]\ntimer = true";
        engine.add_boxed(plugin.handler(table(options)).expect("valid")).expect("a handler");
        engine.set_key_metric("dice", hearth_engine::Better::Higher);
        engine.set_run_info(r#"{"version": "0.1.0"}"#);
        engine.on_attach(Box::new(|_, name, _| Ok(Some(name.into()))));
        let mut toy = Toy::trainer(3);
        (toy.dice, toy.custom) = (vec![0.25, 0.75], Some(sampled));
        let image = HostTensor::from_f32(vec![1, 1, 2, 1, 1], &[1.5, -2.0]).expect("two values");
        toy.tensors.insert("image".to_owned(), image);
        assert_eq!(engine.run(&mut toy, 2).expect("no error"), RunEnd::Completed);
        let mut state = engine.state().clone();
        state.times.clear();
        let without_times = |note: &String| note.split("times: {").next().unwrap_or_default().to_owned();
        let notes = toy.notes.iter().map(without_times).collect::<Vec<_>>();
        let pred = toy.tensors["pred"].to_f32().expect("floats");
        let snapshot = engine.snapshot();
        let kept = (snapshot.handlers, snapshot.store);
        (notes, pred, toy.rate, format!("{state:?} {kept:?}"))
    };
    let plain = run(&load(&fixture("good")).expect("it loads"));
    let apart = run(&isolated(fixture("good"), Duration::from_secs(20)).expect("it loads"));
    assert_eq!(plain, apart);
    assert!(plain.0.len() > 20, "{:?}", plain.0);
}

#[test]
fn the_bundled_ones_do_the_same() {
    let run = |plugins: &[Plugin]| {
        let mut engine = Engine::new("trainer");
        for plugin in plugins {
            let options = if plugin.identity().name == "checkpoint" { "dir = 'somewhere'" } else { "" };
            engine.add_boxed(plugin.handler(table(options)).expect("valid")).expect("a handler");
        }
        let mut toy = Toy::trainer(3);
        engine.run(&mut toy, 3).expect("no error");
        (toy.notes, engine.snapshot().handlers)
    };
    let names = ["validation", "stats", "checkpoint"];
    let plain = names.map(|name| load(&bundled(name)).expect("it loads"));
    let apart = names.map(|name| isolated(bundled(name), Duration::from_secs(20)).expect("it loads"));
    let linked = names.map(|name| {
        let built_in = Search::empty().with(hearth_plugin_host::Origin::BuiltIn, "hearth");
        load_isolated(&built_in.find(name).expect("bundled"), Duration::from_secs(20)).expect("it loads")
    });
    let expected = run(&plain);
    assert!(expected.0.iter().any(|note| note.starts_with("checkpoint somewhere")), "{:?}", expected.0);
    assert_eq!(run(&apart), expected);
    assert_eq!(run(&linked), expected, "as the program links them");
}

#[test]
fn what_cannot_be_loaded_is_told() {
    let error = isolated(fixture("crashes"), Duration::from_secs(5)).expect_err("it aborts").to_string();
    assert_eq!(error, "plugin `crashes`: while it was loaded, its process ended: signal 6 (abort)");
    let good = isolated(fixture("good"), Duration::from_secs(5)).expect("it loads");
    assert_eq!(good.options().len(), 4);
    let fault = match good.handler(table("word = 1")).err() {
        Some(PluginError::Options { fault, .. }) => *fault,
        other => panic!("{other:?}"),
    };
    assert_eq!(fault.path, "word");
    let error = isolated(fixture("other_abi"), Duration::from_secs(5)).expect_err("another interface").to_string();
    assert!(error.contains("rebuild it with"), "{error}");
}

/// Files, networks and programs are blocked for a plugin that does not declare them.
#[test]
fn the_system_holds_a_plugin_to_what_it_declares() {
    let file = std::env::temp_dir().join("hearth-oversteps");
    let _ = std::fs::remove_file(&file);
    let run = |plugin: &Plugin, what: &str| {
        let mut engine = Engine::new("trainer");
        engine.add_boxed(plugin.handler(table(&format!("what = '{what}'"))).expect("valid")).expect("a handler");
        engine.run(&mut Toy::trainer(2), 1).map_err(|error| error.to_string())
    };
    let apart = isolated(fixture("oversteps"), Duration::from_secs(20)).expect("it loads");
    assert!(run(&apart, "nothing of the kind").is_ok());
    let whats = ["a file", "the network", "a program"];
    for what in whats {
        let offered = what != "a file" || landlock_is_there();
        match run(&apart, what) {
            Err(error) => assert!(offered && error.contains("denied"), "{what}: {error}"),
            Ok(_) => assert!(!offered, "{what} is within reach"),
        }
    }
    assert_eq!(file.exists(), !landlock_is_there());
    let plain = load(&fixture("oversteps")).expect("it loads");
    for what in whats {
        assert_eq!(run(&plain, what), Ok(RunEnd::Completed), "in the program's own process nothing is held");
    }
}

fn landlock_is_there() -> bool {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call only returns a number.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) > 0 }
}

struct Lends(HostTensor<'static>);
impl Host for Lends {
    fn tensor(&mut self, _: &str) -> Result<HostTensor<'_>, hearth_engine::HostError> {
        Ok(HostTensor { dtype: self.0.dtype, shape: self.0.shape.clone(), bytes: (&*self.0.bytes).into() })
    }
    fn put_tensor(&mut self, _: &str, _: HostTensor<'_>) -> Result<(), hearth_engine::HostError> {
        Ok(())
    }
    fn combine(&mut self, _: &[&str], _: &hearth_engine::Combine, _: &str) -> Result<(), hearth_engine::HostError> {
        Ok(())
    }
    fn log(&mut self, _: Level, _: &str) {}
    fn set_metric(&mut self, _: &str, _: f64) {}
    not_offered! {
        terminate, terminate_epoch, interrupt, save_checkpoint, load_checkpoint, scalar, remember, recall, attach,
        run_info, fire, call_after, names, output, cases, numbers, texts, learning_rate, set_learning_rate, layer_statistics, run
    }
}

/// Only printed (`--nocapture`), so that a busy machine fails no test.
#[test]
fn what_it_costs() {
    let state = State::new("trainer");
    let time = |calls: u32, work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..calls).for_each(|_| work());
        start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
    };
    let start = Instant::now();
    let plugin = isolated(fixture("ends"), Duration::from_secs(20)).expect("it loads");
    let mut handler = plugin.handler(table("")).expect("valid");
    println!("two processes started, the plugin loaded in each: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let mut host = Lends(HostTensor::from_f32(vec![64, 64, 64], &vec![0.5; 64 * 64 * 64]).expect("a MiB"));
    let event = Event::IterationCompleted;
    let call = time(2000, &mut || {
        handler.handle(event, &mut Context { event, state: &state, host: &mut host }).expect("no error");
    });
    println!("an event: {call:.1} us");
    for (what, plugin) in [
        ("in the process", load(&fixture("good")).expect("it loads")),
        ("in its own", isolated(fixture("good"), Duration::from_secs(20)).expect("it loads")),
    ] {
        let mut handler = plugin.handler(table("word = ''")).expect("valid");
        let event = Event::ForwardCompleted;
        let call = time(20, &mut || {
            handler.handle(event, &mut Context { event, state: &state, host: &mut host }).expect("no error");
        });
        println!("1 MiB read twice, 1 MiB made of it and sent, {what}: {:.2} ms", call / 1e3);
    }
}

/// Components of a plugin in C, each in a process of its own.
#[test]
fn components_do_the_same_and_their_end_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = include_str!("../fixtures/c/kinds.c");
    let plugin = isolated(compile(folder.path(), "kinds", source), Duration::from_secs(20)).expect("it loads");
    assert_eq!(plugin.components().len(), 7);
    does_all(&plugin, folder.path());
    runs_the_network(&plugin);
    let fault = |options: &str| {
        plugin.component(ComponentKind::MapTransform, "Crop", table(options)).err().expect("a wrong option")
    };
    assert_eq!(fault("shar = 1").suggestion.as_deref(), Some("share"));
    // Several threads take turns.
    let loss = plugin.component(ComponentKind::Loss, "Square", table("")).expect("no options");
    std::thread::scope(|scope| {
        for value in 1..5_u8 {
            let loss = &loss;
            scope.spawn(move || {
                let pred = HostArray::new(vec![1, 1, 1, 1], vec![f32::from(value)]).expect("an image");
                let label = HostArray::new(vec![1, 1, 1, 1], vec![0.0]).expect("an image");
                for _ in 0..20 {
                    let answer = loss.call("loss", &[pred.clone(), label.clone()], "{}", None).expect("no error");
                    assert_eq!(*answer.arrays[0].values, [f32::from(value)]);
                }
            });
        }
    });

    let crash = source.replace("static int32_t call(void *component,", CRASH).replace("\"kinds\"", "\"crashes\"");
    let plugin = isolated(compile(folder.path(), "crashes", &crash), Duration::from_millis(700)).expect("it loads");
    for (kind, name, said) in [
        (ComponentKind::Loss, "Square", "its process ended: signal 6 (abort)"),
        (ComponentKind::Sampler, "Backwards", "its process did not answer in time, and was ended: it had 0.7 s"),
    ] {
        let component = plugin.component(kind, name, table("")).expect("no options");
        for _ in 0..2 {
            let why = component.call("any", &[], "", None).expect_err("its process is over");
            assert!(why.contains(said), "{why}");
        }
    }
}

/// Crashes for a loss, and hangs for a sampler.
const CRASH: &str = "static int32_t work_of(void *, const char *, const hearth_work *);
static int32_t call(void *component, const char *operation, const hearth_work *work) {
    if (((part *)component)->kind == 'S') abort();
    volatile int hangs = ((part *)component)->kind == 'B';
    while (hangs) {}
    return work_of(component, operation, work);
}
static int32_t work_of(void *component,";
