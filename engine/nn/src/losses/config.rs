//! Losses as a recipe names them.

use serde::{Deserialize, Serialize};

use super::{
    AsymmetricUnifiedFocalLoss, BceWithLogitsLoss, ContrastiveLoss, CrossEntropyLoss, DeepSupervisionLoss, DiceCELoss,
    DiceFocalLoss, DiceLoss, FocalLoss, GeneralizedDiceFocalLoss, GeneralizedDiceLoss, GeneralizedWassersteinDiceLoss,
    HausdorffDtLoss, LogHausdorffDtLoss, Loss, LossError, MaskedDiceLoss, MseLoss, SoftClDiceLoss, SoftDiceClDiceLoss,
    SsimLoss, TverskyLoss,
};

/// A loss by name, as a recipe gives it: `name = "DiceLoss"` and its own parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name")]
pub enum LossConfig {
    /// [`AsymmetricUnifiedFocalLoss`]
    AsymmetricUnifiedFocalLoss(AsymmetricUnifiedFocalLoss),
    /// [`BceWithLogitsLoss`]
    #[serde(rename = "BCEWithLogitsLoss")]
    BceWithLogitsLoss(BceWithLogitsLoss),
    /// [`ContrastiveLoss`]
    ContrastiveLoss(ContrastiveLoss),
    /// [`CrossEntropyLoss`]
    CrossEntropyLoss(CrossEntropyLoss),
    /// [`DeepSupervisionLoss`]
    DeepSupervisionLoss(DeepSupervisionLoss),
    /// [`DiceCELoss`]
    DiceCELoss(DiceCELoss),
    /// [`DiceFocalLoss`]
    DiceFocalLoss(DiceFocalLoss),
    /// [`DiceLoss`]
    DiceLoss(DiceLoss),
    /// [`FocalLoss`]
    FocalLoss(FocalLoss),
    /// [`GeneralizedDiceFocalLoss`]
    GeneralizedDiceFocalLoss(GeneralizedDiceFocalLoss),
    /// [`GeneralizedDiceLoss`]
    GeneralizedDiceLoss(GeneralizedDiceLoss),
    /// [`GeneralizedWassersteinDiceLoss`]
    GeneralizedWassersteinDiceLoss(GeneralizedWassersteinDiceLoss),
    /// [`HausdorffDtLoss`]
    #[serde(rename = "HausdorffDTLoss")]
    HausdorffDtLoss(HausdorffDtLoss),
    /// [`LogHausdorffDtLoss`]
    #[serde(rename = "LogHausdorffDTLoss")]
    LogHausdorffDtLoss(LogHausdorffDtLoss),
    /// [`MaskedDiceLoss`]
    MaskedDiceLoss(MaskedDiceLoss),
    /// [`MseLoss`]
    #[serde(rename = "MSELoss")]
    MseLoss(MseLoss),
    /// [`SoftClDiceLoss`]
    #[serde(rename = "SoftclDiceLoss")]
    SoftClDiceLoss(SoftClDiceLoss),
    /// [`SoftDiceClDiceLoss`]
    #[serde(rename = "SoftDiceclDiceLoss")]
    SoftDiceClDiceLoss(SoftDiceClDiceLoss),
    /// [`SsimLoss`]
    #[serde(rename = "SSIMLoss")]
    SsimLoss(SsimLoss),
    /// [`TverskyLoss`]
    TverskyLoss(TverskyLoss),
}

impl LossConfig {
    /// The loss, its options checked.
    pub fn build(&self) -> Result<Box<dyn Loss>, LossError> {
        Ok(match self.clone() {
            LossConfig::AsymmetricUnifiedFocalLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::BceWithLogitsLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::ContrastiveLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::CrossEntropyLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::DeepSupervisionLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::DiceCELoss(loss) => checked(loss.check(), loss)?,
            LossConfig::DiceFocalLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::DiceLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::FocalLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::GeneralizedDiceFocalLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::GeneralizedDiceLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::GeneralizedWassersteinDiceLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::HausdorffDtLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::LogHausdorffDtLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::MaskedDiceLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::MseLoss(loss) => Box::new(loss),
            LossConfig::SoftClDiceLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::SoftDiceClDiceLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::SsimLoss(loss) => checked(loss.check(), loss)?,
            LossConfig::TverskyLoss(loss) => checked(loss.check(), loss)?,
        })
    }
}

fn checked<L: Loss + 'static>(check: Result<(), LossError>, loss: L) -> Result<Box<dyn Loss>, LossError> {
    check.map(|()| Box::new(loss) as Box<dyn Loss>)
}
