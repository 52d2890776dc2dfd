//! Metrics by name, as in a recipe.

use hearth_registry::{Fault, FromPlugin, Kind, Named, Place};

use super::{Metric, MetricError};

/// A metric by name, as in a recipe: `name = "HausdorffDistanceMetric"` and the metric's
/// parameters.
///
/// ```
/// # use hearth_nn::metrics::MetricConfig;
/// let metric: MetricConfig = toml::from_str("name = \"HausdorffDistanceMetric\"\npercentile = 95")?;
/// assert_eq!(metric.build().map(|metric| metric.name()), Ok("HausdorffDistanceMetric"));
/// assert!(toml::from_str::<MetricConfig>("name = \"MeanIoU\"\npercentile = 95").is_err());
/// # Ok::<(), toml::de::Error>(())
/// ```
pub type MetricConfig = Named<dyn Metric>;

impl Kind for dyn Metric {
    const WORD: &'static str = "metric";

    const FROM_PLUGIN: Option<FromPlugin<Self>> = Some(super::of_plugin::build);

    fn place(&self) -> Option<Place> {
        Some(Place::AnyDevice)
    }
}

impl From<MetricError> for Fault {
    fn from(error: MetricError) -> Self {
        match &error {
            MetricError::Option { key, .. } => Fault::at(*key, error.to_string()),
            _ => Fault::new(error.to_string()),
        }
    }
}
