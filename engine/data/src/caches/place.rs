//! Where cached images are: [`CachePlace`].

use burn::tensor::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where cached images are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CachePlace {
    /// In this machine's memory.
    #[default]
    Host,
    /// On the device that trains.
    Same,
}

impl CachePlace {
    /// The device that images are moved to, where they are moved.
    pub(crate) fn of(self, device: &Device) -> Option<Device> {
        (self == CachePlace::Same).then(|| device.clone())
    }
}
