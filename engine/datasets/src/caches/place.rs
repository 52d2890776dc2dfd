//! Where cached images are kept: [`CachePlace`].

use burn::tensor::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The place where cached images are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CachePlace {
    /// In host memory.
    #[default]
    Host,
    /// On the training device.
    Same,
}

impl CachePlace {
    /// The device that images are moved to, if they are moved.
    pub(crate) fn of(self, device: &Device) -> Option<Device> {
        (self == CachePlace::Same).then(|| device.clone())
    }
}
