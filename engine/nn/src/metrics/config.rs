//! Metrics as a recipe names them.

use serde::{Deserialize, Serialize};

use super::{
    Accuracy, AveragePrecisionMetric, ConfusionMatrixMetric, DiceMetric, FBetaScore, GeneralizedDiceScore,
    HausdorffDistanceMetric, MaeMetric, MapeMetric, MeanIoU, Metric, MetricError, MseMetric, MultiScaleSsimMetric,
    PsnrMetric, RmseMetric, RocAucMetric, SsimMetric, SurfaceDiceMetric, SurfaceDistanceMetric,
};

/// A metric by name, as a recipe gives it: `name = "HausdorffDistanceMetric"` and its own parameters.
///
/// ```
/// # use hearth_nn::metrics::MetricConfig;
/// let metric: MetricConfig = toml::from_str("name = \"HausdorffDistanceMetric\"\npercentile = 95")?;
/// assert_eq!(metric.build().name(), "HausdorffDistanceMetric");
/// assert!(toml::from_str::<MetricConfig>("name = \"MeanIoU\"\npercentile = 95").is_err());
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name")]
pub enum MetricConfig {
    /// [`Accuracy`]
    Accuracy(Accuracy),
    /// [`AveragePrecisionMetric`]
    AveragePrecisionMetric(AveragePrecisionMetric),
    /// [`ConfusionMatrixMetric`]
    ConfusionMatrixMetric(ConfusionMatrixMetric),
    /// [`DiceMetric`]
    #[serde(alias = "MeanDice")]
    DiceMetric(DiceMetric),
    /// [`FBetaScore`]
    FBetaScore(FBetaScore),
    /// [`GeneralizedDiceScore`]
    GeneralizedDiceScore(GeneralizedDiceScore),
    /// [`HausdorffDistanceMetric`]
    HausdorffDistanceMetric(HausdorffDistanceMetric),
    /// [`MaeMetric`]
    #[serde(rename = "MAEMetric")]
    MaeMetric(MaeMetric),
    /// [`MapeMetric`]
    #[serde(rename = "MAPEMetric")]
    MapeMetric(MapeMetric),
    /// [`MeanIoU`]
    MeanIoU(MeanIoU),
    /// [`MseMetric`]
    #[serde(rename = "MSEMetric")]
    MseMetric(MseMetric),
    /// [`MultiScaleSsimMetric`]
    #[serde(rename = "MultiScaleSSIMMetric")]
    MultiScaleSsimMetric(MultiScaleSsimMetric),
    /// [`PsnrMetric`]
    #[serde(rename = "PSNRMetric")]
    PsnrMetric(PsnrMetric),
    /// [`RmseMetric`]
    #[serde(rename = "RMSEMetric")]
    RmseMetric(RmseMetric),
    /// [`RocAucMetric`]
    #[serde(rename = "ROCAUCMetric")]
    RocAucMetric(RocAucMetric),
    /// [`SsimMetric`]
    #[serde(rename = "SSIMMetric")]
    SsimMetric(SsimMetric),
    /// [`SurfaceDiceMetric`]
    SurfaceDiceMetric(SurfaceDiceMetric),
    /// [`SurfaceDistanceMetric`]
    SurfaceDistanceMetric(SurfaceDistanceMetric),
}

impl MetricConfig {
    /// Whether a larger value is better; nothing where that depends, as of several rates of a confusion matrix at once.
    pub fn higher_is_better(&self) -> Option<bool> {
        match self {
            MetricConfig::HausdorffDistanceMetric(_)
            | MetricConfig::MaeMetric(_)
            | MetricConfig::MapeMetric(_)
            | MetricConfig::MseMetric(_)
            | MetricConfig::RmseMetric(_)
            | MetricConfig::SurfaceDistanceMetric(_) => Some(false),
            MetricConfig::ConfusionMatrixMetric(metric) => {
                let mut names = metric.metric_name.iter().map(|name| name.higher_is_better());
                let first = names.next().flatten();
                first.filter(|_| names.all(|name| name == first))
            }
            _ => Some(true),
        }
    }

    /// Whether the background counts as a class of its own.
    pub fn includes_background(&self) -> bool {
        match self {
            MetricConfig::ConfusionMatrixMetric(metric) => metric.include_background,
            MetricConfig::DiceMetric(metric) => metric.include_background && !metric.per_component,
            MetricConfig::FBetaScore(metric) => metric.include_background,
            MetricConfig::GeneralizedDiceScore(metric) => metric.include_background,
            MetricConfig::HausdorffDistanceMetric(metric) => metric.include_background,
            MetricConfig::MeanIoU(metric) => metric.include_background,
            MetricConfig::SurfaceDiceMetric(metric) => metric.include_background,
            MetricConfig::SurfaceDistanceMetric(metric) => metric.include_background,
            _ => true,
        }
    }

    /// Whether the options make sense for so many classes, before anything is measured.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self, classes: usize) -> Result<(), MetricError> {
        match self {
            MetricConfig::ConfusionMatrixMetric(metric) if metric.metric_name.iter().next().is_none() => {
                let reason = "`metric_name` is empty: name at least one rate".to_owned();
                Err(MetricError::Option { metric: "ConfusionMatrixMetric", reason })
            }
            MetricConfig::DiceMetric(metric) => {
                metric.check()?;
                match metric.per_component && classes != 2 {
                    true => {
                        let reason = format!("`per_component` is for a background and one class, not for {classes}");
                        Err(MetricError::Option { metric: "DiceMetric", reason })
                    }
                    false => Ok(()),
                }
            }
            MetricConfig::FBetaScore(metric) if !(metric.beta.is_finite() && metric.beta > 0.0) => {
                let reason = format!("`beta` is {}: expected a number above 0", metric.beta);
                Err(MetricError::Option { metric: "FBetaScore", reason })
            }
            MetricConfig::HausdorffDistanceMetric(metric) => metric.check(),
            MetricConfig::MultiScaleSsimMetric(metric) => metric.check(),
            MetricConfig::SsimMetric(metric) => metric.check(),
            MetricConfig::SurfaceDiceMetric(metric) => {
                metric.check(classes.saturating_sub(usize::from(!metric.include_background)))
            }
            _ => Ok(()),
        }
    }

    /// The metric, without rows.
    pub fn build(&self) -> Box<dyn Metric> {
        match self.clone() {
            MetricConfig::Accuracy(metric) => Box::new(metric),
            MetricConfig::AveragePrecisionMetric(metric) => Box::new(metric),
            MetricConfig::ConfusionMatrixMetric(metric) => Box::new(metric),
            MetricConfig::DiceMetric(metric) => Box::new(metric),
            MetricConfig::FBetaScore(metric) => Box::new(metric),
            MetricConfig::GeneralizedDiceScore(metric) => Box::new(metric),
            MetricConfig::HausdorffDistanceMetric(metric) => Box::new(metric),
            MetricConfig::MaeMetric(metric) => Box::new(metric),
            MetricConfig::MapeMetric(metric) => Box::new(metric),
            MetricConfig::MeanIoU(metric) => Box::new(metric),
            MetricConfig::MseMetric(metric) => Box::new(metric),
            MetricConfig::MultiScaleSsimMetric(metric) => Box::new(metric),
            MetricConfig::PsnrMetric(metric) => Box::new(metric),
            MetricConfig::RmseMetric(metric) => Box::new(metric),
            MetricConfig::RocAucMetric(metric) => Box::new(metric),
            MetricConfig::SsimMetric(metric) => Box::new(metric),
            MetricConfig::SurfaceDiceMetric(metric) => Box::new(metric),
            MetricConfig::SurfaceDistanceMetric(metric) => Box::new(metric),
        }
    }
}
