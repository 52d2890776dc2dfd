//! The plugin in a rehearsed run, without a host.

use hearth_gallery::mixup::{Mixup, Options};
use hearth_plugin::testkit::Rehearsal;
use hearth_plugin::{Event, HostTensor, PluginOptions};

fn rehearsal(options: &str) -> Rehearsal<Mixup> {
    Rehearsal::new(Mixup::new(Options::from_toml(options).expect("valid options")).expect("valid values"))
}

/// A batch of four items in an iteration: the image of item `i` has the values 10 i and 10 i + 1, its label is
/// one-hot `i`.
fn batch(run: &mut Rehearsal<Mixup>, iteration: u64) -> (Vec<f32>, Vec<f32>) {
    run.state.iteration = iteration;
    let image: Vec<f32> = (0..4).flat_map(|i| [10.0 * i as f32, 10.0 * i as f32 + 1.0]).collect();
    let label: Vec<f32> = (0..16).map(|at| f32::from(u8::from(at / 4 == at % 4))).collect();
    run.host.give("image", HostTensor::from_f32(vec![4, 1, 2, 1, 1], &image).expect("a tensor"));
    run.host.give("label", HostTensor::from_f32(vec![4, 4, 1, 1, 1], &label).expect("a tensor"));
    run.fire(Event::IterationStarted).expect("no error");
    let read = |name: &str| run.host.tensors[name].to_f32().expect("floats");
    (read("image"), read("label"))
}

/// What the labels say: the image is the same mixture. Weights are of Beta(a, a): mean 1/2, variance 1 / (8 a + 4).
#[test]
fn images_and_labels_are_mixed_alike() {
    let mut run = rehearsal("alpha = 0.5");
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    for iteration in 1..=2000 {
        let (image, label) = batch(&mut run, iteration);
        let mut used = [0; 4];
        for (item, weights) in label.chunks(4).enumerate() {
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
            let expected: f32 = weights.iter().zip(0..).map(|(weight, i)| weight * 10.0 * i as f32).sum();
            let found = &image[item * 2..][..2];
            assert!((found[0] - expected).abs() < 1e-4 && (found[1] - expected - 1.0).abs() < 1e-4, "{found:?}");
            if let Some(other) = (0..4).find(|other| *other != item && weights[*other] > 0.0) {
                used[other] += 1;
                let weight = f64::from(1.0 - weights[other]);
                (sum, squares, count) = (sum + weight, squares + weight * weight, count + 1.0);
            }
        }
        assert!(used.iter().all(|times| *times <= 1), "the partners are a permutation");
    }
    let (mean, square) = (sum / count, squares / count);
    assert!((mean - 0.5).abs() < 0.02 && (square - mean * mean - 0.125).abs() < 0.01, "{mean} {square}");
}

#[test]
fn a_resumed_run_draws_the_same() {
    let (mut run, mut resumed) = (rehearsal(""), rehearsal(""));
    batch(&mut run, 6);
    assert_eq!(batch(&mut run, 7), batch(&mut resumed, 7));
    assert_ne!(batch(&mut run, 7), batch(&mut resumed, 8));
    (resumed.state.seed, run.state.rank) = (1, 1);
    assert_ne!(batch(&mut run, 7), batch(&mut resumed, 7));
}

#[test]
fn class_numbers_and_other_sizes_are_errors() {
    let mut run = rehearsal("");
    run.host.give("image", HostTensor::from_f32(vec![2, 1], &[0.0, 1.0]).expect("a tensor"));
    for (shape, values, why) in [(vec![2, 1], vec![0.0, 3.0], "one-hot"), (vec![1, 2], vec![0.0, 1.0], "2 images")] {
        run.host.give("label", HostTensor::from_f32(shape, &values).expect("a tensor"));
        assert!(run.fire(Event::IterationStarted).is_err_and(|error| error.to_string().contains(why)), "{why}");
    }
    let fault = Mixup::new(Options::from_toml("alpha = 0.0").expect("a number")).err().expect("no distribution");
    assert_eq!(fault.path, "alpha");
}
