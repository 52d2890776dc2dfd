//! The metrics in the notation of the command line.

use hearth_nn::metrics::{ConfusionName, MetricConfig};
use hearth_registry::unknown_name;
use serde_json::{Map, Value, json};

use crate::error::{Context, Failure, Outcome};

/// The list of metrics for `--help`.
pub const HELP: &str = "\
Label maps:  dice, iou, hausdorff, hd95, surface_distance, surface_dice:tolerance=2, f_beta:beta=2, generalized_dice,
             lesion_dice and lesion_hd95 (BraTS 2023; lesion_dice:dilation_factor=1,lesion_volume_thresh=2 for
             metastases), and the rates of the confusion matrix: sensitivity, specificity, precision, f1_score, ...
Images:      mae, mse, rmse, mape, psnr:max_val=255, ssim:data_range=1, ms_ssim
Options are those of MONAI's metrics: hausdorff:percentile=95,directed=true  surface_distance:symmetric=true
Distances are in millimetres, by the affine of the label.";

/// The inputs of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One class at a time.
    Class,
    /// All classes together.
    Classes,
    /// The values of the images, without classes.
    Image,
}

/// One metric.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The text given on the command line, which is the title of its column.
    pub text: String,
    /// Its inputs.
    pub kind: Kind,
    /// MONAI's name and options.
    options: Map<String, Value>,
}

/// Short names, MONAI's names, and the inputs of each.
const NAMES: [(&str, &str, Kind); 17] = [
    ("dice", "DiceMetric", Kind::Class),
    ("iou", "MeanIoU", Kind::Class),
    ("hausdorff", "HausdorffDistanceMetric", Kind::Class),
    ("hd95", "HausdorffDistanceMetric", Kind::Class),
    ("surface_distance", "SurfaceDistanceMetric", Kind::Class),
    ("surface_dice", "SurfaceDiceMetric", Kind::Class),
    ("f_beta", "FBetaScore", Kind::Class),
    ("lesion_dice", "LesionWiseMetric", Kind::Class),
    ("lesion_hd95", "LesionWiseMetric", Kind::Class),
    ("generalized_dice", "GeneralizedDiceScore", Kind::Classes),
    ("mae", "MAEMetric", Kind::Image),
    ("mse", "MSEMetric", Kind::Image),
    ("rmse", "RMSEMetric", Kind::Image),
    ("mape", "MAPEMetric", Kind::Image),
    ("psnr", "PSNRMetric", Kind::Image),
    ("ssim", "SSIMMetric", Kind::Image),
    ("ms_ssim", "MultiScaleSSIMMetric", Kind::Image),
];

/// Splits at commas that are not inside brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_i32, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[start..]);
    found.retain(|part| !part.trim().is_empty());
    found
}

impl Spec {
    /// Parses `name` or `name:option=value,...`, and checks the metric and its options.
    pub fn read(text: &str) -> Outcome<Self> {
        let (name, given) = text.split_once(':').unwrap_or((text, ""));
        let plain = name.trim().to_lowercase().replace('-', "_");
        let mut options = Map::new();
        let known = NAMES.iter().find(|(short, monai, _)| *short == plain || monai.eq_ignore_ascii_case(&plain));
        let kind = match (known, ConfusionName::try_from(plain.clone())) {
            (Some((_, monai, kind)), _) => {
                options.insert("name".into(), (*monai).into());
                *kind
            }
            (None, Ok(rate)) => {
                options.insert("name".into(), "ConfusionMatrixMetric".into());
                options.insert("metric_name".into(), rate.name().into());
                Kind::Class
            }
            (None, Err(_)) => {
                let names: Vec<&str> = NAMES.iter().map(|(short, ..)| *short).chain(ConfusionName::names()).collect();
                return Err(Failure::new(unknown_name("metric", name, &names)));
            }
        };
        if plain == "hd95" {
            options.insert("percentile".into(), json!(95.0));
        }
        if plain == "lesion_hd95" {
            options.insert("score".into(), json!("hausdorff"));
        }
        for part in parts(given) {
            let said = || format!("--metric {text}");
            let (key, value) = part.split_once('=').ok_or_else(|| {
                Failure::new(format!("{part:?} is not an option: expected key=value")).context(said())
            })?;
            let value: toml::Table = toml::from_str(&format!("v = {value}"))
                .or_else(|_| toml::from_str(&format!("v = {:?}", value.trim())))
                .while_doing(said)?;
            let key = if key.trim() == "tolerance" { "class_thresholds" } else { key.trim() };
            options.insert(key.to_owned(), serde_json::to_value(&value["v"])?);
        }
        if options.contains_key("ignore_index") {
            let what =
                "ignore_index is an index of channels, and classes are measured one at a time: use --ignore LABEL";
            return Err(Failure::new(what).context(format!("--metric {text}")));
        }
        let spec = Self { text: text.to_owned(), kind, options };
        let metric = spec.config(3, 1).and_then(|config| Ok(config.build()?));
        // One class at a time, unless it takes all.
        let channels = if kind == Kind::Classes { 2 } else { 1 };
        metric.and_then(|metric| Ok(metric.check_for(channels)?)).while_doing(|| format!("--metric {text}"))?;
        Ok(spec)
    }

    /// Whether it only counts voxels, regardless of their positions.
    pub fn counts_voxels(&self) -> bool {
        let of_places = ["HausdorffDistanceMetric", "SurfaceDistanceMetric", "SurfaceDiceMetric", "LesionWiseMetric"];
        !self.options["name"].as_str().is_some_and(|name| of_places.contains(&name))
    }

    /// The metric for images with this number of axes; `class` is the class's index among those that
    /// are measured.
    pub fn config(&self, spatial_dims: usize, class: usize) -> Outcome<MetricConfig> {
        let mut options = self.options.clone();
        let name = options["name"].as_str().unwrap_or_default().to_owned();
        match name.as_str() {
            "DiceMetric"
            | "MeanIoU"
            | "FBetaScore"
            | "HausdorffDistanceMetric"
            | "SurfaceDistanceMetric"
            | "SurfaceDiceMetric"
            | "LesionWiseMetric"
            | "GeneralizedDiceScore"
            | "ConfusionMatrixMetric" => {
                // The metric only gets the measured classes.
                options.insert("include_background".into(), true.into());
            }
            "SSIMMetric" | "MultiScaleSSIMMetric" => {
                options.entry("spatial_dims").or_insert(spatial_dims.into());
            }
            _ => {}
        }
        if name == "SurfaceDiceMetric" {
            let own = match options.get("class_thresholds") {
                None => {
                    return Err(Failure::new(
                        "surface_dice needs a tolerance in millimetres: surface_dice:tolerance=2",
                    ));
                }
                Some(Value::Array(all)) => {
                    all.get(class - 1).or_else(|| all.first().filter(|_| all.len() == 1)).cloned()
                }
                Some(one) => Some(one.clone()),
            };
            let own = own
                .ok_or_else(|| Failure::new(format!("there is no tolerance for class {class} of those that count")))?;
            options.insert("class_thresholds".into(), json!([own]));
        }
        if name == "PSNRMetric" && !options.contains_key("max_val") {
            return Err(Failure::new("psnr needs the largest possible value: psnr:max_val=255"));
        }
        Ok(serde_json::from_value(Value::Object(options))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_with_their_options() {
        let spec = |text: &str| Spec::read(text).unwrap_or_else(|failure| panic!("{text}: {}", failure.line()));
        assert_eq!(spec("hd95").options["percentile"], 95.0);
        assert_eq!(spec("Hausdorff:percentile=90,directed=true").options["directed"], true);
        assert_eq!(spec("recall").options["metric_name"], "sensitivity");
        assert_eq!(spec("surface_dice:tolerance=[1,2.5]").options["class_thresholds"], json!([1, 2.5]));
        assert_eq!(spec("surface_distance:distance_metric=taxicab").options["distance_metric"], "taxicab");
        assert_eq!((spec("ssim").kind, spec("generalized_dice").kind), (Kind::Image, Kind::Classes));
        let fails = |text: &str, word: &str| {
            let failure = Spec::read(text).err().map(|failure| failure.line()).unwrap_or_default();
            assert!(failure.contains(word), "{text}: {failure}");
        };
        fails("dise", "did you mean \"dice\"");
        fails("dice:percentile=95", "percentile");
        fails("hausdorff:percentile", "key=value");
        fails("hausdorff:percentile=195", "expected 0 to 100");
        fails("lesion_hd95:percentile=-1", "expected 0 to 100");
        fails("surface_dice", "tolerance");
        fails("psnr", "max_val");
        fails("dice:ignore_index=2", "--ignore LABEL");
    }
}
