//! Calls the component, without a host.

use std::collections::BTreeMap;

use hearth_gallery::hard_cases::{ByLoss, ByLossOptions};
use hearth_plugin::PluginOptions;
use hearth_plugin::component::{Draw, Epoch, Sampler};

fn sampler(options: &str) -> ByLoss {
    ByLoss::new(ByLossOptions::from_toml(options).expect("valid options")).expect("valid values")
}

/// The part of each case in 4000 epochs.
fn parts(options: &str, losses: &[(&str, f64)]) -> Vec<f64> {
    let cases = ["a", "b", "c", "d"].map(String::from);
    let losses: BTreeMap<String, f64> = losses.iter().map(|(case, loss)| ((*case).to_owned(), *loss)).collect();
    let (sampler, mut counts) = (sampler(options), vec![0.0; 4]);
    for number in 0..4000 {
        let epoch = Epoch { cases: &cases, number, losses: &losses };
        let order = sampler.order(&epoch, Draw::new(number)).expect("an order");
        assert_eq!(order.len(), 4);
        assert_eq!(order, sampler.order(&epoch, Draw::new(number)).expect("an order"), "the draw decides");
        order.into_iter().for_each(|case| counts[case] += 1.0 / 16_000.0);
    }
    counts
}

#[test]
fn cases_come_by_their_loss() {
    let near = |found: Vec<f64>, expected: [f64; 4]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.015), "{found:?}, expected {expected:?}");
    };
    // A case without a loss counts as the mean, 2.
    let losses = [("a", 1.0), ("b", 2.0), ("c", 3.0)];
    near(parts("share = 1.0", &losses), [1.0, 2.0, 3.0, 2.0].map(|loss| loss / 8.0));
    near(parts("share = 1.0\npower = 2.0", &losses), [1.0, 4.0, 9.0, 4.0].map(|square| square / 18.0));
    near(parts("share = 0.5", &losses), [1.0, 2.0, 3.0, 2.0].map(|loss| loss / 16.0 + 0.125));
    near(parts("share = 1.0\npower = 0.0", &losses), [0.25; 4]);
    near(parts("share = 1.0", &[("a", f64::NAN), ("b", 0.0)]), [0.25; 4]);
    near(parts("share = 1.0", &[("a", 1.0), ("b", 0.0), ("c", 0.0), ("d", f64::INFINITY)]), [0.75, 0.0, 0.0, 0.25]);
}

#[test]
fn without_a_share_each_case_comes_once() {
    let each = parts("share = 0.0", &[("a", 9.0)]);
    assert!(each.iter().all(|part| (part - 0.25).abs() < 1e-9), "{each:?}");
    let epoch = Epoch { cases: &[], number: 0, losses: &BTreeMap::new() };
    assert!(sampler("").order(&epoch, Draw::new(0)).expect("no case").is_empty());
}

#[test]
fn values_without_a_meaning_are_refused() {
    for (options, key) in [("power = -1.0", "power"), ("share = 1.5", "share")] {
        let fault = ByLoss::new(ByLossOptions::from_toml(options).expect("numbers")).err().expect(options);
        assert_eq!(fault.path, key);
    }
}
