//! The plugin in a rehearsed run, without a host.

use hearth_gallery::worst_cases::{Options, WorstCases};
use hearth_plugin::testkit::{Call, Rehearsal};
use hearth_plugin::{Event, HostTensor, PluginOptions};

fn rehearsal(options: &str) -> Rehearsal<WorstCases> {
    Rehearsal::new(WorstCases(Options::from_toml(options).expect("valid options"), Vec::new()))
}

/// A batch of cases with these values of the metric. Images are 2 x 1 x 2 voxels: the label has the left voxel of the
/// second slice, the prediction the right one.
fn batch(run: &mut Rehearsal<WorstCases>, cases: &[(&str, &[f64])]) {
    let count = cases.len();
    run.host.cases = cases.iter().map(|(case, _)| (*case).to_owned()).collect();
    run.host.numbers.insert("dice".into(), cases.iter().map(|(_, row)| row.to_vec()).collect());
    for (name, channels, one) in [
        ("image", 1, &[0.0, -50.0, 0.0, 50.0][..]),
        ("label", 1, &[0.0, 1.0, 0.0, 0.0]),
        ("pred", 2, &[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
    ] {
        let tensor = HostTensor::from_f32(vec![count, channels, 2, 1, 2], &one.repeat(count)).expect("a tensor");
        run.host.give(name, tensor);
    }
    run.fire(Event::IterationCompleted).expect("no error");
}

/// The attached pictures and texts of an epoch.
fn attached(run: &mut Rehearsal<WorstCases>) -> Vec<(String, Vec<u8>)> {
    run.host.calls.clear();
    run.fire(Event::EpochCompleted).expect("no error");
    let attached =
        |call: &Call| if let Call::Attach(name, content) = call { Some((name.clone(), content.clone())) } else { None };
    run.host.calls.iter().filter_map(attached).collect()
}

fn table(attached: &[(String, Vec<u8>)]) -> String {
    String::from_utf8(attached.last().expect("a table").1.clone()).expect("text")
}

#[test]
fn the_worst_cases_are_drawn() {
    let mut run = rehearsal("metric = 'dice'\ncount = 2");
    batch(&mut run, &[("a", &[0.9]), ("b", &[0.5, 0.7])]);
    batch(&mut run, &[("c", &[f64::NAN]), ("d", &[0.2, f64::NAN])]);
    let all = attached(&mut run);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["worst_1", "worst_2", "worst"]);
    assert_eq!(table(&all), "| case | dice |\n|---|---|\n| d | 0.2000 |\n| b | 0.6000 |\n");
    // A row of two pixels: the label's is black and green, the prediction's white and red.
    let pixels: Vec<f32> = all[0].1.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
    assert_eq!(pixels, [0.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    assert_eq!(table(&attached(&mut run)), "| case | dice |\n|---|---|\n", "an epoch has its own cases");
}

#[test]
fn a_high_value_may_be_bad() {
    let mut run = rehearsal("metric = 'dice'\ncount = 1\nhigher_is_better = false");
    batch(&mut run, &[("a", &[3.0]), ("b", &[-5.0])]);
    assert!(table(&attached(&mut run)).ends_with("| a | 3.0000 |\n"));
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let mut run = rehearsal("metric = 'hausdorff'");
    assert!(run.fire(Event::IterationCompleted).is_err(), "there is no such metric");
    assert!(Options::from_toml("").is_err_and(|fault| fault.path == "metric"));
    let mut run = rehearsal("metric = 'dice'");
    batch(&mut run, &[("a", &[1.0])]);
    run.host.give("pred", HostTensor::from_f32(vec![1, 1, 1, 1, 1], &[0.0]).expect("a tensor"));
    assert!(run.fire(Event::IterationCompleted).is_err_and(|error| error.to_string().contains("of one size")));
}
