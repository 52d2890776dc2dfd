use std::collections::BTreeSet;

use burn::tensor::Device;
use hearth_image::TransformError;
use hearth_registry::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::params::Keys;
use crate::transform::{Transform, describe};
use crate::{Draw, Sample};

/// The target device: in a recipe `"run"` (the run's device) or `"cpu"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Where {
    /// Device of the run.
    #[default]
    Run,
    /// The CPU.
    Cpu,
}

/// Moves images to a device; later steps run there. Indices stay on the CPU.
///
/// In a recipe `device` is `"run"` (default) or `"cpu"`; the run selects the accelerator.
///
/// ```
/// # use hearth_image::host_device;
/// # use hearth_transforms::{tiny, transforms::ToDevice};
/// let image = tiny::apply(ToDevice::new("image", host_device()), tiny::line([1.0, 2.0]))?;
/// assert_eq!(image.data.device(), host_device());
/// # Ok::<(), hearth_image::TransformError>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToDevice {
    keys: Keys,
    /// The target device: the device of the run, or the CPU.
    #[serde(default)]
    device: Where,
    #[serde(default)]
    allow_missing_keys: bool,
    #[serde(skip)]
    target: Option<Device>,
}

impl ToDevice {
    /// Creates the transform: moves images to this device.
    pub fn new(keys: impl Into<Keys>, device: Device) -> Self {
        ToDevice { keys: keys.into(), device: Where::Run, allow_missing_keys: false, target: Some(device) }
    }
}

setters!(ToDevice {
    /// Skip keys that a sample does not have.
    allow_missing_keys: bool,
});

pub(super) fn choose(place: Where, run: Option<&Device>) -> Option<Device> {
    match place {
        Where::Run => run.cloned(),
        Where::Cpu => Some(hearth_image::host_device()),
    }
}

impl Transform for ToDevice {
    fn name(&self) -> &'static str {
        "ToDevice"
    }

    fn apply(&self, mut sample: Sample, _: &Draw) -> Result<Vec<Sample>, TransformError> {
        if let Some(device) = &self.target {
            for (_, key) in self.keys.of(&sample, self.allow_missing_keys) {
                sample.update(key, |image| Ok(image.to_device(device)))?;
            }
        }
        Ok(vec![sample])
    }

    fn check(&self, known: &mut BTreeSet<String>) -> Result<(), Fault> {
        self.keys.check(known)
    }

    fn place(&mut self, run: Option<&Device>) {
        self.target = choose(self.device, run);
    }

    fn describe(&self) -> serde_json::Value {
        describe(self.name(), self)
    }
}

transform_entry!(
    ToDevice,
    r#"keys = ["image", "label"]
device = "run""#
);
