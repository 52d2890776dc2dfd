//! The plugin in a rehearsed run, without a host.

use hearth_gallery::noise_scale::{NoiseScale, Options};
use hearth_plugin::component::Draw;
use hearth_plugin::testkit::{Call, Rehearsal};
use hearth_plugin::{Event, HostTensor, PluginOptions};

fn rehearsal(options: &str, cases: usize) -> Rehearsal<NoiseScale> {
    let options = Options::from_toml(options).expect("valid options");
    let mut run = Rehearsal::new(NoiseScale::new(options).expect("valid values"));
    run.host.cases = vec!["case".into(); cases];
    run.state.world_size = 1;
    run
}

/// Ends a backward pass with this gradient of two layers.
fn step(run: &mut Rehearsal<NoiseScale>, gradient: &[f32]) {
    let (a, b) = gradient.split_at(1);
    for (name, values) in [("gradients.a", a), ("gradients.b", b)] {
        run.host.give(name, HostTensor::from_f32(vec![values.len()], values).expect("a tensor"));
    }
    run.fire(Event::BackwardCompleted).expect("no error");
    run.state.epoch_iteration += 1;
}

fn scales(run: &Rehearsal<NoiseScale>) -> Vec<f64> {
    let scale = |call: &Call| if let Call::Scalar(_, value) = call { Some(*value) } else { None };
    run.host.calls.iter().filter_map(scale).collect()
}

/// Batches of 4 with the gradients (3, 1) and (1, 1): squared lengths 10 and 2, the mean's 5. Signal 2 * 5 - 6 = 4,
/// noise (6 - 5) * 4 * 2 = 8.
#[test]
fn the_scale_is_noise_by_signal() {
    let mut run = rehearsal("batches = 2\ndecay = 0.5", 4);
    step(&mut run, &[3.0, 1.0]);
    step(&mut run, &[1.0, 1.0]);
    assert_eq!(scales(&run), [2.0]);
    // Gradients without noise, of squared length 8: the averages are 6 and 4.
    step(&mut run, &[2.0, 2.0]);
    step(&mut run, &[2.0, 2.0]);
    assert_eq!(scales(&run)[1], 4.0 / 6.0);
}

/// Gradients with mean G and covariance S / 4 of batches of 4: the scale is trace(S) / |G|^2.
#[test]
fn the_estimate_is_that_of_a_known_distribution() {
    let mut run = rehearsal("batches = 4\ndecay = 0.9995", 4);
    let mut draw = Draw::new(7);
    for _ in 0..64_000 {
        let gradient: Vec<f32> = (0..20).map(|i| (0.25 + draw.normal() * f64::from(i % 4) / 2.0) as f32).collect();
        step(&mut run, &gradient);
    }
    // S is 4 * (0, 1/4, 1, 9/4) five times over, |G|^2 is 20 / 16.
    let (expected, found) = (4.0 * 5.0 * 3.5 / 1.25, scales(&run));
    assert!((found.last().expect("a scale") / expected - 1.0).abs() < 0.1, "{:?}, expected {expected}", found.last());
}

#[test]
fn a_resumed_run_continues_its_averages() {
    let mut run = rehearsal("batches = 2\ndecay = 0.5", 4);
    step(&mut run, &[3.0, 1.0]);
    step(&mut run, &[1.0, 1.0]);
    let mut resumed = rehearsal("batches = 2\ndecay = 0.5", 4);
    resumed.host.kept = run.host.kept.clone();
    for each in [&mut run, &mut resumed] {
        each.state.epoch_iteration = 0;
        step(each, &[2.0, 2.0]);
        step(each, &[2.0, 2.0]);
    }
    assert_eq!(scales(&run).last(), scales(&resumed).last());
}

#[test]
fn what_it_cannot_measure_is_an_error() {
    let mut run = rehearsal("", 1);
    assert!(run.fire(Event::BackwardCompleted).is_err(), "there are no gradients");
    run.state.world_size = 2;
    assert!(run.fire(Event::BackwardCompleted).is_err_and(|error| error.to_string().contains("ranks")));
    for (options, key) in [("batches = 1", "batches"), ("decay = 1.0", "decay")] {
        let fault = NoiseScale::new(Options::from_toml(options).expect("numbers")).err().expect(options);
        assert_eq!(fault.path, key);
    }
}
