//! What a bundle says about the images of its training: its preprocessing, and its metadata.

use hearth_bundle::Metadata;
use hearth_recipe::warning;
use hearth_run::{Fingerprint, Span, Typical, modality_of};
use serde_json::Value;

use super::chain::Chain;

/// The key of `metadata.json` with the fingerprint of a run that was exported as a bundle.
pub(crate) const OF_RUN: &str = "hearth_fingerprint";

/// Axes of images whose order is that of the world: left to right, back to front, feet to head.
const WORLD: [[char; 2]; 3] = [['L', 'R'], ['P', 'A'], ['I', 'S']];

/// Steps that bring the values of an image to those of the network, whatever they were.
const SCALING: [&str; 6] = [
    "NormalizeIntensity",
    "ScaleIntensity",
    "ScaleIntensityRange",
    "ScaleIntensityRangePercentiles",
    "HistogramNormalize",
    "ScaleIntensityFixedMean",
];

/// The fingerprint of the run of which the bundle was made; otherwise what the chain of a case's image says:
/// the voxel size to which it is resampled, and the range from which its values are scaled. Without any
/// scaling, the metadata's range of values counts.
pub(crate) fn fingerprint_of(chain: &Chain, key: &str, metadata: Option<&Metadata>) -> Fingerprint {
    if let Some(found) = metadata.and_then(|metadata| metadata.whole.get(OF_RUN)) {
        match serde_json::from_value::<Fingerprint>(found.clone()) {
            Ok(found) => return found,
            Err(error) => {
                let what = "is damaged, so images are compared with its configs alone";
                warning!("{OF_RUN} of the bundle's metadata.json {what}: {error}");
            }
        }
    }
    let mut found = Fingerprint { modality: modality(metadata), ..Fingerprint::unknown() };
    let (mut in_world, mut scales) = (false, false);
    for (name, table) in chain.parameters(key) {
        match name {
            "Orientation" => in_world = is_of_world(&table),
            "Spacing" => found.typical = found.typical.or(spacing(&table, in_world).map(Typical::Resampled)),
            "ScaleIntensityRange" if !scales => {
                found.scaled_from = table["a_min"].as_f64().zip(table["a_max"].as_f64()).and_then(range);
            }
            _ => {}
        }
        scales |= SCALING.contains(&name);
    }
    if !scales {
        found.scaled_from = metadata.and_then(|metadata| metadata.inputs.first()?.value_range).and_then(range);
    }
    found
}

/// The DICOM modality in the metadata, if it is one.
pub(crate) fn modality(metadata: Option<&Metadata>) -> Option<String> {
    let named = metadata?.inputs.first()?.modality.clone()?;
    modality_of(&[named])
}

fn range((least, most): (f64, f64)) -> Option<Span> {
    (least < most).then_some([least, most])
}

/// Whether an `Orientation` gives the axes the order of the world.
fn is_of_world(table: &Value) -> bool {
    let codes: Vec<char> = table["axcodes"].as_str().unwrap_or_default().chars().collect();
    codes.len() == 3 && codes.iter().zip(WORLD).all(|(code, axis)| axis.contains(&code.to_ascii_uppercase()))
}

/// The voxel size of a `Spacing` along the world axes. Before axes are turned, it is not known which one
/// becomes which, and the largest size counts for all.
fn spacing(table: &Value, in_world: bool) -> Option<[f64; 3]> {
    let given = &table["pixdim"];
    let sizes: Vec<f64> = match given.as_array() {
        Some(axes) => axes.iter().filter_map(Value::as_f64).collect(),
        None => vec![given.as_f64()?; 3],
    };
    // An axis without a size keeps its own.
    let sizes = <[f64; 3]>::try_from(sizes).ok()?;
    let most = sizes.into_iter().fold(0.0, f64::max);
    match in_world {
        true => Some(sizes),
        false if sizes.iter().all(|size| *size > 0.0) => Some([most; 3]),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn voxels_are_along_the_world_axes_only_after_axes_were_turned() {
        let table = json!({ "pixdim": [1.5, 1.5, 2.0] });
        assert_eq!(spacing(&table, true), Some([1.5, 1.5, 2.0]));
        assert_eq!(spacing(&table, false), Some([2.0; 3]));
        assert_eq!(spacing(&json!({ "pixdim": 1.0 }), false), Some([1.0; 3]));
        assert_eq!(spacing(&json!({ "pixdim": [1.0, -1.0, 2.0] }), true), Some([1.0, -1.0, 2.0]));
        assert_eq!(spacing(&json!({ "pixdim": [1.0, -1.0, 2.0] }), false), None);
        assert!(is_of_world(&json!({ "axcodes": "LPS" })) && !is_of_world(&json!({ "axcodes": "SRA" })));
    }

    #[test]
    fn the_metadata_names_a_modality_and_a_range_of_values() {
        let of = |modality: &str| {
            let input = json!({ "modality": modality, "value_range": [0, 1] });
            Metadata::new(json!({ "network_data_format": { "inputs": { "image": input } } }))
        };
        assert_eq!(modality(Some(&of("MRI"))).as_deref(), Some("MR"));
        assert_eq!(modality(Some(&of("n/a"))), None);
        let found = fingerprint_of(&Chain::default(), "image", Some(&of("CT")));
        assert_eq!((found.modality.as_deref(), found.scaled_from), (Some("CT"), Some([0.0, 1.0])));
    }
}
