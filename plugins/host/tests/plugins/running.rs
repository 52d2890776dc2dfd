//! A loaded handler in a real engine is like one that is linked in.

use std::sync::{Arc, Mutex};

use hearth_engine::{Attachment, Engine, Event, HostTensor, RunEnd};
use hearth_plugin_host::load;

use crate::toy::Toy;
use crate::{fixture, table};

#[test]
fn everything_a_handler_can_ask_for_crosses() {
    let plugin = load(&fixture("good")).expect("a good plugin");
    let options = table("word = 'hello'\nnumbers = [1, 2.5, inf]\ntimer = true");
    let handler = plugin.handler(options).expect("valid options");
    let mut engine = Engine::new("trainer");
    assert!(
        engine.add_boxed(plugin.handler(table("word = ''")).expect("valid")).is_err(),
        "`sampled` is not registered"
    );
    let sampled = engine.register_event("sampled", None).expect("a new event");
    engine.add_boxed(handler).expect("a valid handler");
    engine.set_run_info(r#"{"version": "0.1.0"}"#);
    let attached = Arc::new(Mutex::new(Vec::new()));
    let list = attached.clone();
    engine.on_attach(Box::new(move |handler, name, attachment| {
        let what = match attachment {
            Attachment::File(content) => format!("{} bytes", content.len()),
            Attachment::Image(image) => format!("{:?} {:?} {} bytes", image.shape, image.dtype, image.bytes.len()),
            Attachment::Text(text) => format!("{text:?}"),
        };
        list.lock().expect("no panic").push(format!("{handler} {name} {what}"));
        Ok(Some(name.into()))
    }));
    let mut toy = Toy::trainer(3);
    toy.dice = vec![0.25, 0.75];
    toy.custom = Some(sampled);
    let image = HostTensor::from_f32(vec![1, 1, 2, 1, 1], &[1.5, -2.0]).expect("two values");
    toy.tensors.insert("image".to_owned(), image);
    assert_eq!(engine.run(&mut toy, 2).expect("no error"), RunEnd::Completed);

    let pred = toy.tensors["pred"].to_f32().expect("floats");
    assert_eq!(pred, [3.0, -4.0]);
    assert_eq!(toy.rate, Some(0.25));
    let state = engine.state();
    assert_eq!((state.metrics["first"], state.metrics["copied"], state.metrics["dice"]), (3.0, 0.75, 0.75));
    assert_eq!(state.scalars["rate"].value, 0.25);
    let notes = toy.notes.iter().filter(|note| !note.starts_with("Debug: ")).map(String::as_str).collect::<Vec<_>>();
    let step = "combine pred+pred Mean { weights: Some([1.0, 3.0]) } both";
    let expected = [
        vec![step, "Info: sampled in iteration 1"],
        vec![step, "Info: sampled in iteration 2", "Info: iteration_completed in iteration 2"],
        vec![step, "Info: sampled in iteration 3"],
        vec![step, "Info: sampled in iteration 4"],
        vec![step, "Info: sampled in iteration 5"],
        vec![step, "Info: sampled in iteration 6"],
        vec!["run validation", "checkpoint somewhere good Some(2)"],
        vec!["Info: timer in iteration 6"],
        vec!["Info: 16 calls, case_1.nii+case_2.nii, loss 0.125", "Warn: there is no tensor `nothing`"],
        vec!["Info: [1.0, 2.5, inf]"],
        vec![
            "Info: Outputs+é Tensors+é Numbers+é Texts+é Engines+é",
            "Info: ages [[61.5], []] and [], sites [\"Köln\", \"\"]",
            "Warn: `weight` is not supported, `ward` is not supported, there are no gradients now",
            "Info: conv.weight 27 0.25 0.5 -1 1.5 2; conv.bias 27 NaN 0.5 -1 1.5 2",
            "Info: None Some([1]), a key has 1 to 200 bytes, not 0",
            "Info: an attachment has a name of letters, digits, `-`, `_` and `.`, in folders or not (`slices/epoch_1`), \
             not \"../up\"",
            "Info: {\"version\": \"0.1.0\"}; `good.other` is not an event of this handler; its `events` are: `good.done`; \
             18446744073709552000 s is no time to wait: cannot convert float seconds to Duration: value is either too \
             big or NaN",
            "Info: good.done in iteration 6",
        ],
    ];
    assert_eq!(notes, expected.concat());
    let expected = ["good notes.txt 4 bytes", "good picture [1, 2] F32 8 bytes", "good text \"# text\""];
    assert_eq!(*attached.lock().expect("no panic"), expected);
    assert_eq!(engine.snapshot().store["good"]["count"], [1]);
}

#[test]
fn the_state_arrives_as_the_engine_has_it() {
    let mut engine = Engine::new("trainer");
    engine.register_event("sampled", None).expect("a new event");
    engine.state_mut().seed = 17;
    let plugin = load(&fixture("good")).expect("a good plugin");
    // A linked handler right before the loaded one writes the same line.
    let linked = Event::EpochCompleted.every(2) | Event::Completed | Event::ForwardCompleted;
    engine
        .on(linked, |cx| {
            cx.host.log(hearth_engine::Level::Debug, &format!("{} {:?}", cx.event, cx.state));
            Ok(())
        })
        .expect("a valid filter");
    engine.add_boxed(plugin.handler(table("word = ''")).expect("valid")).expect("a valid handler");
    let mut toy = Toy::trainer(2);
    toy.tensors.insert("image".to_owned(), HostTensor::from_f32(vec![1], &[f32::NAN]).expect("one value"));
    engine.set_key_metric("dice", hearth_engine::Better::Higher);
    engine.on_attach(Box::new(|_, name, _| Ok(Some(name.into()))));
    engine.run(&mut toy, 4).expect("no error");
    let lines = toy
        .notes
        .iter()
        .filter(|n| n.starts_with("Debug: ") && !n.contains("iteration_completed "))
        .collect::<Vec<_>>();
    assert_eq!(lines.len(), 2 * (8 + 2 + 1));
    for pair in lines.chunks(2) {
        assert_eq!(pair[0], pair[1]);
    }
    assert!(lines.iter().any(|line| line.contains("NaN")), "a metric that is not a number crosses too");
}

#[test]
fn what_a_handler_saves_comes_back() {
    let plugin = load(&fixture("good")).expect("a good plugin");
    let handler = || plugin.handler(table("word = 'hello'")).expect("valid options");
    let run = |engine: &mut Engine, epochs: u64| {
        engine.register_event("sampled", None).expect("an event");
        engine.on_attach(Box::new(|_, name, _| Ok(Some(name.into()))));
        let mut toy = Toy::trainer(1);
        toy.tensors.insert("image".to_owned(), HostTensor::from_f32(vec![1], &[1.0]).expect("one value"));
        engine.run(&mut toy, epochs).expect("no error");
        toy
    };
    let mut first = Engine::new("trainer");
    first.register_event("sampled", None).expect("a new event");
    first.add_boxed(handler()).expect("a valid handler");
    run(&mut first, 2);
    let snapshot = first.snapshot();
    assert_eq!(snapshot.handlers["good"], b"hello 4");
    let mut second = Engine::new("trainer");
    second.register_event("sampled", None).expect("a new event");
    second.add_boxed(handler()).expect("a valid handler");
    second.restore(&snapshot).expect("its own state");
    let toy = run(&mut second, 3);
    assert!(toy.notes.contains(&"Info: 6 calls, case_1.nii+case_2.nii, loss 0.125".to_owned()), "{:?}", toy.notes);
    let mut broken = snapshot.clone();
    broken.handlers.insert("good".to_owned(), b"nonsense".to_vec());
    let error = second.restore(&broken).expect_err("not its state").to_string();
    assert!(error.contains("good") && error.contains("not my state"), "{error}");
}

#[test]
fn a_handler_acts_on_the_ranks_it_says() {
    let plugin = load(&fixture("good")).expect("a good plugin");
    let mut engine = Engine::new("trainer");
    engine.register_event("sampled", None).expect("a new event");
    engine.add_boxed(plugin.handler(table("word = ''")).expect("valid")).expect("a valid handler");
    (engine.state_mut().rank, engine.state_mut().world_size) = (1, 2);
    let mut toy = Toy::trainer(2);
    engine.run(&mut toy, 2).expect("no error: it is not called, and misses no tensor");
    assert!(toy.notes.is_empty(), "{:?}", toy.notes);
}
