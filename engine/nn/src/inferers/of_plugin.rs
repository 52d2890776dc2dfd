//! Inferers of plugins, which call the network with windows in host memory: `mine.Flip`.

use burn::tensor::{DType, Device, Tensor, TensorData};
use hearth_kernels::device_error::reason;
use hearth_registry::component::{self, ComponentKind, HostArray, IDENTITY, Late};
use hearth_registry::{Fault, Node};

use super::{InferError, Inferer, check_stop};

/// An inferer that a plugin decides.
struct OfPlugin(Late);

/// Builds the inferer for a name with a dot, from its table without the name.
pub(super) fn build(name: &str, table: &Node) -> Result<Box<dyn Inferer>, Fault> {
    Ok(Box::new(OfPlugin(Late::new(ComponentKind::Inferer, name, table.clone()))))
}

impl OfPlugin {
    fn failed(&self, reason: impl Into<String>) -> InferError {
        InferError::Plugin { inferer: self.name(), reason: reason.into() }
    }

    /// The tensor's values in host memory.
    fn array(&self, x: Tensor<5>) -> Result<HostArray<'static>, InferError> {
        let shape = x.dims().to_vec();
        let values = x.cast(DType::F32).try_into_vec_as::<f32>();
        let values =
            values.map_err(|error| self.failed(format!("reading from the device failed: {}", reason(&error))))?;
        Ok(HostArray { shape, values: values.into(), affine: IDENTITY })
    }

    /// A tensor of an array that the plugin made: a window, or its output.
    fn tensor(&self, array: HostArray<'_>, what: &str, device: &Device) -> Result<Tensor<5>, InferError> {
        array.check().map_err(|why| self.failed(format!("the plugin made an invalid {what}: {why}")))?;
        let shape = <[usize; 5]>::try_from(&array.shape[..]).ok().filter(|shape| !shape.contains(&0));
        let shape = shape.ok_or_else(|| {
            let got = &array.shape;
            self.failed(format!("the plugin made {what} of shape {got:?}: expected [N, C, X, Y, Z] and no empty axis"))
        })?;
        Ok(Tensor::from_data(TensorData::new(array.values.into_owned(), shape), device))
    }
}

impl Inferer for OfPlugin {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn check(&self) -> Result<(), InferError> {
        Ok(())
    }

    fn load(&self) -> Result<(), Fault> {
        self.0.get().map(drop)
    }

    fn through_host(&self) -> bool {
        true
    }

    fn infer(&self, x: Tensor<5>, net: &dyn Fn(Tensor<5>) -> Tensor<5>) -> Result<Tensor<5>, InferError> {
        if x.is_autodiff() {
            let why = "an inferer of a plugin gives no gradients, so that it cannot be used in training steps";
            return Err(self.failed(why));
        }
        check_stop()?;
        let component = self.0.get().map_err(|fault| self.failed(fault.to_string()))?;
        let (device, batch) = (x.device(), x.dims()[0]);
        let image = self.array(x)?;
        // The plugin may report the network's error in words of its own, or none.
        let mut problem = None;
        let mut network = |window: HostArray<'_>| {
            let run = || {
                check_stop()?;
                self.array(net(self.tensor(window, "a window", &device)?))
            };
            run().map_err(|error| {
                let words = error.to_string();
                problem.get_or_insert(error);
                words
            })
        };
        let answer = component.call("infer", &[image], "", Some(&mut network));
        if let Some(error) = problem {
            return Err(error);
        }
        let answer = answer.map_err(|why| self.failed(component::reports(&why)))?;
        let [output] = <[_; 1]>::try_from(answer.arrays).map_err(|arrays| {
            self.failed(format!("the plugin returned {} arrays: expected the output alone", arrays.len()))
        })?;
        let output = self.tensor(output, "an output", &device)?;
        match output.dims()[0] {
            items if items == batch => Ok(output),
            items => Err(self.failed(format!("the plugin returned {items} outputs for {batch} images"))),
        }
    }
}
