//! Schedules of plugins: components in this process, next to the built-in ones of the same form.

mod mock;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

use hearth_engine::{Engine, Event};
use hearth_handlers::{LrSchedule, LrScheduleOptions, PolynomialLr, Schedule, ScheduleConfig, StepBy};
use hearth_registry::component::texts::RateCall;
use hearth_registry::component::{self, Answer, Component, ComponentKind, HostArray, Network};
use hearth_registry::{Fault, Node};
use mock::Trainer;

/// Components by their name.
struct Part(String);

static CALLS: AtomicUsize = AtomicUsize::new(0);

impl Component for Part {
    fn run(&self, _: &[HostArray<'_>], _: &str) -> Result<Vec<HostArray<'static>>, String> {
        Err("a schedule is called".to_owned())
    }

    fn call(
        &self,
        operation: &str,
        _: &[HostArray<'_>],
        text: &str,
        _: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        assert_eq!(operation, "rate");
        if self.0 == "test.Counted" {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        let RateCall { step, steps, base } = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let steps = steps.ok_or("the length of the run is unknown")?;
        let rate = match &self.0[..] {
            // The polynomial of the whole run, with exponent 0.9.
            "test.Poly" => (base * (1.0 - step as f64 / steps as f64).powf(0.9)).to_string(),
            "test.Late" if step == 7 => "null".to_owned(),
            "test.Below" if step + 1 == steps => "-0.5".to_owned(),
            "test.Fails" if step == 5 => return Err("five is right out".to_owned()),
            _ => "0.1".to_owned(),
        };
        Ok(Answer { text: format!("{{\"rate\": {rate}}}"), ..Answer::default() })
    }

    fn version(&self) -> String {
        "test 1".to_owned()
    }
}

fn schedule(name: &str) -> ScheduleConfig {
    static PROVIDED: Once = Once::new();
    PROVIDED.call_once(|| {
        component::provide(Arc::new(|kinds: &[ComponentKind], name: &str, _: &Node| match name {
            "test.Absent" => Err(Fault::at("name", "plugin `test` has no schedule Absent")),
            _ => Ok((kinds[0], Arc::new(Part(name.to_owned())) as Arc<dyn Component>)),
        }));
    });
    ScheduleConfig::new(&Node::named(name)).unwrap_or_else(|fault| panic!("{fault}"))
}

fn handler(name: &str, step_by: StepBy) -> LrSchedule {
    let options = LrScheduleOptions { schedule: schedule(name), step_by, base_lr: None };
    LrSchedule::new(options).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn a_schedule_of_a_plugin_gives_the_rates_of_the_built_in_one() {
    for (step_by, steps) in [(StepBy::Epoch, 4), (StepBy::Iteration, 12)] {
        let (mut engine, mut trainer) = (Engine::new("trainer"), Trainer::new(3));
        engine.add(handler("test.Poly", step_by)).unwrap();
        engine.run(&mut trainer, 4).unwrap();
        let ours = PolynomialLr { total_iters: steps, power: 0.9 };
        let wanted = (0..12).map(|iteration| ours.at(0.1, if steps == 4 { iteration / 3 } else { iteration }));
        for (got, wanted) in trainer.rates.iter().zip(wanted) {
            assert!((got - wanted).abs() <= 1e-15, "{step_by:?}: {got} {wanted}");
        }
        assert_eq!(trainer.rates.len(), 12);
    }
}

#[test]
fn it_resumes_in_the_middle_of_an_epoch() {
    for step_by in [StepBy::Epoch, StepBy::Iteration] {
        let (mut engine, mut trainer) = (Engine::new("trainer"), Trainer::new(3));
        engine.add(handler("test.Poly", step_by)).unwrap();
        let pause = |cx: &mut hearth_engine::Context<'_>| {
            cx.host.interrupt("pause");
            Ok(())
        };
        engine.on(Event::IterationCompleted.once(7), pause).unwrap();
        engine.run(&mut trainer, 4).unwrap();
        let snapshot = engine.snapshot();
        engine.run(&mut trainer, 4).unwrap();

        let (mut other, mut rest) = (Engine::new("trainer"), Trainer::new(3));
        other.add(handler("test.Poly", step_by)).unwrap();
        other.restore(&snapshot).unwrap();
        rest.learning_rate = trainer.rates[6];
        other.run(&mut rest, 4).unwrap();
        assert_eq!(rest.rates, trainer.rates[7..], "{step_by:?}");
    }
}

#[test]
fn a_rate_that_cannot_be_used_ends_the_run_before_it_trains() {
    for (name, says) in [
        ("test.Late", "test.Late has no rate for step 7: the plugin returned a number that is not finite"),
        ("test.Below", "test.Below has no rate for step 11: the plugin returned -0.5: expected 0 or more"),
        ("test.Fails", "test.Fails has no rate for step 5: the plugin reports: five is right out"),
    ] {
        let (mut engine, mut trainer) = (Engine::new("trainer"), Trainer::new(3));
        engine.add(handler(name, StepBy::Iteration)).unwrap();
        let error = engine.run(&mut trainer, 4).expect_err(name);
        let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let said = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert!(said.contains(says), "{said}");
        assert!(trainer.rates.is_empty(), "{:?}", trainer.rates);
    }
}

#[test]
fn a_long_run_asks_for_a_thousand_rates_and_the_last() {
    schedule("test.Counted").check_rates(0.1, 0, 10_000_000).expect("sound rates");
    assert_eq!(CALLS.load(Ordering::Relaxed), 1001);
    assert!(schedule("test.Below").check_rates(0.1, 0, 10_000_001).is_err(), "the last rate");
    assert!(schedule("test.Below").check_rates(0.1, 3, 3).is_ok(), "nothing is left to run");
}

#[test]
fn it_is_loaded_by_the_handler_and_not_by_the_recipe() {
    let absent = schedule("test.Absent");
    let options = LrScheduleOptions { schedule: absent, ..LrScheduleOptions::default() };
    let fault = LrSchedule::new(options).expect_err("no such schedule");
    assert_eq!(
        (fault.path.as_str(), fault.message.as_str()),
        ("schedule.name", "plugin `test` has no schedule Absent")
    );
}
