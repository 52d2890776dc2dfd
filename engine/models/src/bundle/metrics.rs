//! Metrics of an evaluator.

use hearth_bundle::{Component, Fault, Value};
use hearth_nn::metrics::Metric;
use hearth_registry::Registry;

use crate::bundle::case::Case;
use crate::bundle::nodes::{components, fault, table, texts};
use hearth_recipe::{Outcome, RecipeError};

/// A metric, with its name and the keys of prediction and label.
pub(crate) struct Measure {
    pub name: String,
    keys: [String; 2],
    metric: Box<dyn Metric>,
}

/// MONAI's handlers and metrics, with their names here.
const NAMES: [(&str, &str); 8] = [
    ("Accuracy", "Accuracy"),
    ("ConfusionMatrix", "ConfusionMatrixMetric"),
    ("MeanDice", "DiceMetric"),
    ("MeanIoUHandler", "MeanIoU"),
    ("ROCAUC", "RocAucMetric"),
    ("AveragePrecision", "AveragePrecisionMetric"),
    ("HausdorffDistance", "HausdorffDistanceMetric"),
    ("SurfaceDistance", "SurfaceDistanceMetric"),
];

impl Measure {
    /// The metrics of an evaluator, the key metric first.
    ///
    /// # Errors
    /// Unsupported metrics.
    pub fn all(evaluator: &Component) -> Result<Vec<Self>, Fault> {
        let mut all = Vec::new();
        for group in ["key_val_metric", "additional_metrics"] {
            let Some(given) = evaluator.get(group) else { continue };
            let wrong = || fault(evaluator, format!("{group} is {}", given.kind())).about(given);
            let entries = given.as_dict().ok_or_else(wrong)?;
            for (name, metric) in entries {
                let name = name.as_str().unwrap_or_default().to_owned();
                for component in components(Some(metric)).unwrap_or_default() {
                    all.push(Measure::new(name.clone(), &component)?);
                }
            }
        }
        Ok(all)
    }

    fn new(name: String, component: &Component) -> Result<Self, Fault> {
        let known = NAMES.iter().find(|(theirs, _)| *theirs == component.name());
        let Some((_, ours)) = known else { return Err(fault(component, "is a metric that is not supported")) };
        let keys = match component.get("output_transform") {
            Some(Value::Call(call)) if call.name == "from_engine" => call.get(0, "keys").and_then(texts),
            _ => None,
        };
        let Some(Ok(keys)) = keys.map(<[String; 2]>::try_from) else {
            let what = "output_transform must be monai.handlers.from_engine(['pred', 'label'])";
            return Err(fault(component, what));
        };
        let without = ["output_transform", "save_details", "device", "skip_unrolling"];
        let metric = Registry::<dyn Metric>::new().build(&table(component, ours, &without, false)?);
        let metric = metric.map_err(|error| fault(component, error.to_string()))?;
        Ok(Measure { name, keys, metric })
    }

    /// Measures a case after its post-processing.
    pub fn add(&mut self, case: &mut Case) -> Outcome {
        let [pred, label] = self.keys.clone();
        case.numbers_to_image(&label);
        let item = |case: &Case, key: &str| Ok::<_, RecipeError>(case.sample.image(key)?.data.clone().unsqueeze::<5>());
        let (pred, label) = (item(case, &pred)?, item(case, &label)?);
        let label = label.to_device(&pred.device());
        self.metric.update(&pred, &label).map_err(RecipeError::from_error)?;
        Ok(())
    }

    /// The value over all cases: a single number, or one for each class.
    pub fn value(&self) -> Outcome<Vec<f64>> {
        let aggregate = self.metric.aggregate().map_err(RecipeError::from_error)?;
        Ok(aggregate.value.values.into_iter().map(f64::from).collect())
    }
}
