//! Training images of which a network would see next to a single value: [`without_contrast`].

use hearth_data::Pipeline;
use serde_json::Value as Json;

use super::{Fingerprint, ImageFacts, number, span};

/// Remarks about images of which a network would see next to a single value: every image that was read has
/// one in a channel, or lies outside of the values that the chain scales.
pub(super) fn without_contrast(chain: &Pipeline, images: &[ImageFacts]) -> Vec<String> {
    let read: Vec<&ImageFacts> = images.iter().filter(|facts| !facts.channels.is_empty()).collect();
    let Some(first) = read.first() else { return Vec::new() };
    let mut found = Vec::new();
    for (channel, values) in first.channels.iter().enumerate() {
        let single = |facts: &&ImageFacts| facts.channels.get(channel).is_some_and(|own| own.low == own.high);
        if read.iter().all(single) {
            found.push(format!("99 % of the voxels of channel {channel} have the value {}", number(values.median)));
        }
    }
    let window = |described: &Json| {
        let bound = |key: &str| described.get(key).and_then(Json::as_f64);
        let clips = described.get("clip").and_then(Json::as_bool) == Some(true);
        Some([bound("a_min")?, bound("a_max")?]).filter(|[least, most]| clips && least < most)
    };
    let ranges = chain.steps().iter().filter(|step| step.name() == "ScaleIntensityRange");
    for window in ranges.filter_map(|step| window(&step.describe())) {
        let scaled = Fingerprint { scaled_from: Some(window), ..Fingerprint::unknown() };
        if read.iter().all(|facts| scaled.outside_of_scale(facts).is_some()) {
            let [low, high] = [first.channels[0].low, first.channels[0].high].map(number);
            let (first, window) = (format!("{low} to {high}"), span(window));
            found.push(format!("values such as {first} are next to one value after ScaleIntensityRange of {window}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Percentiles;

    #[test]
    fn images_without_contrast_are_named() {
        let scale =
            "name = \"ScaleIntensityRange\"\nkeys = [\"image\"]\na_min = -57\na_max = 164\nb_min = 0\nb_max = 1";
        let chain = |clip: bool| {
            let node: hearth_registry::Node = toml::from_str(&format!("{scale}\nclip = {clip}")).expect("a table");
            Pipeline::from_nodes(&[node]).expect("a chain")
        };
        let of = |low: f64, high: f64| ImageFacts {
            spacing_mm: [1.0; 3],
            extent_mm: [100.0; 3],
            channels: vec![Percentiles { low, median: low, high }],
        };
        let said = |images: &[ImageFacts]| without_contrast(&chain(true), images);
        assert_eq!(said(&[of(-1024.0, 900.0), of(0.0, 1.0)]), Vec::<String>::new());
        let expected = ["values such as 0 to 1 are next to one value after ScaleIntensityRange of -57 to 164"];
        assert_eq!(said(&[of(0.0, 1.0), of(0.1, 0.9)]), expected);
        assert_eq!(without_contrast(&chain(false), &[of(0.0, 1.0)]), Vec::<String>::new());
        assert_eq!(said(&[of(40.0, 40.0)])[0], "99 % of the voxels of channel 0 have the value 40");
        assert_eq!(said(&[of(40.0, 40.0), of(-100.0, 900.0)]), Vec::<String>::new());
    }
}
