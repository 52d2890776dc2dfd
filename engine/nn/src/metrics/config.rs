//! Metrics as a recipe names them.

use serde::{Deserialize, Serialize};

use super::{
    Accuracy, AveragePrecisionMetric, ConfusionMatrixMetric, DiceMetric, FBetaScore, GeneralizedDiceScore,
    HausdorffDistanceMetric, MaeMetric, MapeMetric, MeanIoU, Metric, MseMetric, MultiScaleSsimMetric, PsnrMetric,
    RmseMetric, RocAucMetric, SsimMetric, SurfaceDiceMetric, SurfaceDistanceMetric,
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
