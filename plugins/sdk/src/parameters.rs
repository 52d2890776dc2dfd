//! All weights or gradients of the network: read, changed and replaced as a whole.

use hearth_engine::{HandlerError, Host, HostError, HostTensor, NamesOf};

/// All weights of the network in training, or their gradients, as f32 in host memory.
///
/// ```
/// use hearth_plugin::Parameters;
/// use hearth_plugin::testkit::FakeHost;
/// use hearth_plugin::{Host, HostTensor};
///
/// let mut host = FakeHost::default();
/// host.give("weights.conv.bias", HostTensor::from_f32(vec![2], &[1.0, 3.0])?);
/// host.engine("validation", &[("mean_dice", 0.5)]);
///
/// // Validates with half of each weight, then continues with the whole weights.
/// let mut half = Parameters::weights(&mut host)?;
/// half.values_mut().for_each(|value| *value *= 0.5);
/// let metrics = half.swapped(&mut host, |host| Ok(host.run("validation")?))?;
/// assert_eq!(metrics["mean_dice"], 0.5);
/// assert_eq!(host.tensor("weights.conv.bias")?.to_f32()?, [1.0, 3.0]);
/// # Ok::<(), hearth_plugin::HandlerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// `weights.` or `gradients.`.
    prefix: &'static str,
    /// Each parameter: its name in the network's state dict, its shape, its values.
    pub all: Vec<(String, Vec<usize>, Vec<f32>)>,
}

impl Parameters {
    /// The weights, by name.
    ///
    /// # Errors
    /// Where the host has none: an evaluator.
    pub fn weights(host: &mut dyn Host) -> Result<Self, HostError> {
        Self::read(host, "weights.")
    }

    /// The gradients, by name, at `BackwardCompleted`: of the parameters that have one.
    ///
    /// # Errors
    /// At another event, and where several ranks sum gradients during the backward pass.
    pub fn gradients(host: &mut dyn Host) -> Result<Self, HostError> {
        Self::read(host, "gradients.")
    }

    fn read(host: &mut dyn Host, prefix: &'static str) -> Result<Self, HostError> {
        let names = host.names(NamesOf::Tensors).into_iter().filter(|name| name.starts_with(prefix));
        let mut all = Vec::new();
        for name in names.collect::<Vec<_>>() {
            let tensor = host.tensor(&name)?;
            let (shape, values) = (tensor.shape.clone(), tensor.to_f32()?);
            all.push((name[prefix.len()..].to_owned(), shape, values));
        }
        if all.is_empty() {
            return Err(HostError::new(format!("there are no {} here", prefix.trim_end_matches('.'))));
        }
        Ok(Self { prefix, all })
    }

    /// All values, one parameter after another.
    pub fn values(&self) -> impl Iterator<Item = f32> {
        self.all.iter().flat_map(|(_, _, values)| values.iter().copied())
    }

    /// All values, to change them.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut f32> {
        self.all.iter_mut().flat_map(|(_, _, values)| values)
    }

    /// Replaces the network's values by these: weights from the next forward pass on, gradients for
    /// the next step. On several ranks every rank must put the same weights.
    ///
    /// # Errors
    /// A name or a shape that the network does not have, or a host without such parameters.
    pub fn put(&self, host: &mut dyn Host) -> Result<(), HostError> {
        self.all.iter().try_for_each(|(name, shape, values)| {
            host.put_tensor(&format!("{}{name}", self.prefix), HostTensor::from_f32(shape.clone(), values)?)
        })
    }

    /// Puts these values for the duration of `between`, and then the present ones again, to the bit,
    /// also if it fails: a validation with averaged weights.
    ///
    /// # Errors
    /// Those of `between` and of [`put`](Self::put).
    pub fn swapped<T>(
        &self,
        host: &mut dyn Host,
        between: impl FnOnce(&mut dyn Host) -> Result<T, HandlerError>,
    ) -> Result<T, HandlerError> {
        let present = Self::read(host, self.prefix)?;
        let result = self.put(host).map_err(HandlerError::from).and_then(|()| between(host));
        present.put(host)?;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeHost;

    fn host() -> FakeHost {
        let mut host = FakeHost::default();
        for (name, values) in [("image", [9.0, 9.0]), ("weights.a", [1.0, 2.0]), ("weights.b.c", [3.0, 4.0])] {
            host.give(name, HostTensor::from_f32(vec![1, 2], &values).expect("two values"));
        }
        host
    }

    #[test]
    fn weights_are_read_and_put_by_name() {
        let mut host = host();
        let mut weights = Parameters::weights(&mut host).expect("weights");
        assert_eq!(weights.all[1], ("b.c".to_owned(), vec![1, 2], vec![3.0, 4.0]));
        weights.values_mut().for_each(|value| *value += 1.0);
        weights.put(&mut host).expect("put");
        assert_eq!(host.tensors["weights.b.c"].to_f32().expect("floats"), [4.0, 5.0]);
        assert_eq!(host.tensors["image"].to_f32().expect("floats"), [9.0, 9.0]);
        assert!(Parameters::gradients(&mut host).is_err_and(|error| error.to_string().contains("no gradients")));
    }

    #[test]
    fn what_is_swapped_comes_back_after_an_error_too() {
        let mut host = host();
        let mut zero = Parameters::weights(&mut host).expect("weights");
        zero.values_mut().for_each(|value| *value = 0.0);
        let failed = zero.swapped(&mut host, |host| {
            assert_eq!(Parameters::weights(host)?.values().sum::<f32>(), 0.0);
            Err::<(), _>(HandlerError::new("no luck"))
        });
        assert!(failed.is_err());
        assert_eq!(Parameters::weights(&mut host).expect("weights").values().sum::<f32>(), 10.0);
    }
}
