//! The plugin in a rehearsed run, without a host.

use hearth_gallery::lr_finder::{LrFinder, Options};
use hearth_plugin::PluginOptions;
use hearth_plugin::testkit::{Call, Rehearsal};

/// A search over these losses, until the plugin ends it.
fn search(options: &str, loss: impl Fn(f64) -> f64) -> (Rehearsal<LrFinder>, Result<(), String>) {
    let options = Options::from_toml(options).expect("valid options");
    let mut run = Rehearsal::new(LrFinder::new(options).expect("valid values"));
    run.host.learning_rate = Some(0.5);
    for step in 0..200 {
        run.host.outputs.insert("loss".into(), loss(f64::from(step)));
        if let Err(error) = run.iteration() {
            return (run, Err(error.to_string()));
        }
        if run.host.calls.iter().any(|call| matches!(call, Call::Terminate(_))) {
            return (run, Ok(()));
        }
    }
    panic!("the search has no end");
}

/// A logistic descent around step 40, and a rise around step 80.
fn curve(step: f64) -> f64 {
    1.0 + 1.0 / (1.0 + ((step - 40.0) / 4.0).exp()) + ((step - 80.0) / 3.0).exp()
}

#[test]
fn the_steepest_descent_is_proposed() {
    let (run, end) = search("from = 1e-6\nto = 1.0\nsmooth = 1.0", curve);
    end.expect("a proposal");
    let rates: Vec<f64> = run
        .host
        .calls
        .iter()
        .filter_map(|call| if let Call::SetLearningRate(rate) = call { Some(*rate) } else { None })
        .collect();
    let rate = |step: i32| 1e-6 * 1e6_f64.powf(f64::from(step) / 99.0);
    assert!(rates.iter().zip(0..).all(|(is, step)| (is / rate(step) - 1.0).abs() < 1e-9), "{rates:?}");
    // 1 + exp((step - 80) / 3) is above five times the lowest loss, 1.01, at step 85.
    assert_eq!(rates.len(), 86);
    let proposal = format!(": the proposed learning rate is {:.2e}", rate(40));
    assert!(run.host.messages()[0].ends_with(&proposal), "{:?}, expected {proposal}", run.host.messages());
    let file = run.host.calls.iter().find_map(|call| if let Call::Attach(_, text) = call { Some(text) } else { None });
    let file = String::from_utf8(file.expect("a file").clone()).expect("text");
    assert!(file.starts_with("learning_rate,loss\n1e-6,") && file.lines().count() == 86, "{file}");
}

/// The smoothed loss of a jump from 1 to 0 falls by the same factor in each step.
#[test]
fn losses_are_smoothed() {
    let (run, end) = search("steps = 12\nsmooth = 0.25", |step| if step < 2.0 { 1.0 } else { 0.0 });
    end.expect("a proposal");
    let file = run.host.calls.iter().find_map(|call| if let Call::Attach(_, text) = call { Some(text) } else { None });
    let file = String::from_utf8(file.expect("a file").clone()).expect("text");
    let losses = file.lines().skip(1).map(|line| line.split_once(',').expect("two columns").1.parse::<f64>());
    for (step, loss) in losses.map(|loss| loss.expect("a number")).enumerate() {
        assert!((loss - 0.75_f64.powi(step.saturating_sub(1) as i32)).abs() < 1e-12, "{step} {loss}");
    }
}

#[test]
fn what_cannot_be_searched_is_an_error() {
    assert!(search("steps = 20", |step| 1.0 + step / 100.0).1.is_err_and(|why| why.contains("does not fall")));
    assert!(search("", |step| if step < 3.0 { 1.0 } else { f64::NAN }).1.is_err_and(|why| why.contains("lower")));
    for (options, key) in
        [("from = 0.0", "from"), ("to = 1e-9", "to"), ("steps = 2", "steps"), ("smooth = 0.0", "smooth")]
    {
        let fault = LrFinder::new(Options::from_toml(options).expect("numbers")).err().expect(options);
        assert_eq!(fault.path, key);
    }
}
