//! Norms that have a single value to normalize: [`SingleValueNorm`].

use std::cell::RefCell;

use burn::module::ModuleVisitor;
use burn::tensor::Tensor;

use super::LayerPath;
use crate::cost;
use crate::networks::Network;

/// A norm that had one value for each mean. Whatever that value is, the norm's output is its offset, so that
/// nothing before it learns. PyTorch refuses this ("Expected more than 1 value per channel when training").
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {norm} norm `{layer}` has a single value for each {unit} (its input is {input:?}: batch, channel, x, y, z), so \
     that its output does not depend on the image and the layers before it do not learn: {advice}"
)]
pub struct SingleValueNorm {
    /// `batch`, `instance` or `group`.
    pub norm: &'static str,
    /// The layer's path, as state dicts have it.
    pub layer: String,
    /// The shape of its input, `[batch, channel, x, y, z]`.
    pub input: [usize; 5],
    unit: &'static str,
    advice: &'static str,
}

thread_local! {
    static FOUND: RefCell<Option<SingleValueNorm>> = const { RefCell::new(None) };
}

/// Takes the first such norm that ran on this thread since the last call.
pub fn take_single_value_norm() -> Option<SingleValueNorm> {
    FOUND.take()
}

/// Finds such a norm of a network for an input `[batch, channel, x, y, z]`, without computing its products.
pub fn find_single_value_norm<N: Network>(net: &N, input: [usize; 5]) -> Option<SingleValueNorm> {
    // Outside training a batch norm uses its running statistics.
    let net = net.valid();
    let device = net.devices().into_iter().next().unwrap_or_default();
    let earlier = FOUND.take();
    cost::without_products(|| net.forward_all(Tensor::zeros(input, &device)));
    FOUND.replace(earlier)
}

/// Whether a network has batch norms, which cannot train on a batch of one image where they have one voxel.
pub fn has_batch_norm<N: Network>(net: &N) -> bool {
    struct Find(bool);
    impl ModuleVisitor for Find {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.0 |= name == "running_var";
        }
    }
    let mut find = Find(false);
    net.visit(&mut find);
    find.0
}

/// Keeps a batch norm that trains on a single value.
pub(crate) fn check_batch_norm(path: &LayerPath, input: [usize; 5]) {
    let [batch, _, x, y, z] = input;
    let advice = "use a larger batch_size, or training.drop_last, which leaves out an incomplete last batch; or larger crops or fewer \
                  strides";
    note(batch * x * y * z, || ("batch", "channel", advice), path, input);
}

/// Keeps an instance or group norm with a single value.
pub(crate) fn check_group_norm(path: &LayerPath, input: [usize; 5], groups: usize) {
    let [_, channels, x, y, z] = input;
    let of = || {
        let advice = "use larger crops, or fewer or smaller strides";
        if groups == channels { ("instance", "channel", advice) } else { ("group", "group", advice) }
    };
    note(channels / groups.max(1) * x * y * z, of, path, input);
}

fn note(
    values: usize,
    of: impl FnOnce() -> (&'static str, &'static str, &'static str),
    path: &LayerPath,
    input: [usize; 5],
) {
    if values != 1 {
        return;
    }
    FOUND.with_borrow_mut(|found| {
        found.get_or_insert_with(|| {
            let (norm, unit, advice) = of();
            SingleValueNorm { norm, layer: path.name().to_owned(), input, unit, advice }
        });
    });
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::layers::Scope;
    use crate::layers::{BatchNorm, GroupNorm, InstanceNorm};

    fn zeros(shape: [usize; 5]) -> Tensor<5> {
        Tensor::zeros(shape, &Device::flex())
    }

    /// As PyTorch's `_verify_spatial_size` and `_verify_batch_size` decide.
    #[test]
    fn norms_of_one_value_are_found_where_pytorch_refuses_them() {
        let scope = Scope::new(&Device::flex(), 0);
        let instance = InstanceNorm::new(&scope, 4, 1e-5, true);
        instance.forward(zeros([2, 4, 1, 1, 2]));
        assert_eq!(take_single_value_norm(), None);
        instance.forward(zeros([2, 4, 1, 1, 1]));
        let found = take_single_value_norm().expect("a norm of one value");
        assert_eq!((found.norm, found.input), ("instance", [2, 4, 1, 1, 1]));
        assert_eq!(take_single_value_norm(), None);

        let group = GroupNorm::new(&scope, 2, 4, 1e-5, true).expect("a norm");
        group.forward(zeros([1, 4, 1, 1, 1]));
        assert_eq!(take_single_value_norm(), None);
        let each = GroupNorm::new(&scope, 4, 4, 1e-5, true).expect("a norm");
        each.forward(zeros([1, 4, 1, 1, 1]));
        assert!(take_single_value_norm().is_some());

        let batch = BatchNorm::new(&scope, 4, 1e-5, 0.1, true);
        batch.forward(zeros([1, 4, 1, 1, 1]));
        assert_eq!(take_single_value_norm(), None, "in evaluation the running statistics count");
        batch.forward(zeros([2, 4, 1, 1, 1]).autodiff());
        assert_eq!(take_single_value_norm(), None);
        batch.forward(zeros([1, 4, 1, 1, 1]).autodiff());
        let found = take_single_value_norm().expect("a norm of one value");
        assert!(found.norm == "batch" && found.to_string().contains("drop_last"), "{found}");
    }
}
