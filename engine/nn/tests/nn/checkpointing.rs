//! `use_checkpoint` gives the same values and gradients, although inner values are recomputed.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Gradients, Tensor};
use hearth_nn::freeze;
use hearth_nn::networks::{AnyNetwork, Network, SwinUNETRConfig};

use crate::precision::Kernels;
use crate::{draw, values};

/// The gradient of every parameter, in order; empty for a parameter without one.
struct All<'a>(&'a Gradients, Vec<Option<Vec<f32>>>);

impl ModuleVisitor for All<'_> {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        self.1.push(parameter.base().grad(self.0).map(values));
    }
}

fn gradients(net: &impl Module, of: &Gradients) -> Vec<Option<Vec<f32>>> {
    let mut all = All(of, Vec::new());
    net.visit(&mut all);
    all.1
}

/// Two passes before one backward pass, with dropout of all kinds and learned inputs.
fn step(use_checkpoint: bool, use_v2: bool, dtype: Option<DType>) -> (Vec<f32>, Vec<Option<Vec<f32>>>, Vec<f32>) {
    let device = Device::default().autodiff();
    let config = SwinUNETRConfig {
        feature_size: 12,
        depths: vec![2, 2, 1, 1],
        num_heads: vec![2; 4],
        drop_rate: 0.1,
        attn_drop_rate: 0.1,
        dropout_path_rate: 0.3,
        use_checkpoint,
        use_v2,
        ..SwinUNETRConfig::new(3, 1, 2)
    };
    let net = AnyNetwork::new(config.init(&device, 7).expect("sound"));
    let net = match dtype {
        Some(dtype) => net.apply_reparameterization(Kernels(dtype)),
        None => net,
    };
    // Frozen parameters get no gradient with or without checkpointing.
    let (net, _) = freeze(net, &["swinViT.layers1.0.blocks.0.mlp.*".to_owned()]).expect("known");
    net.set_draw(3, 5);
    let x = draw([1, 1, 32, 32, 32], 1, &device).require_grad();
    let y = net.forward(x.clone());
    let again = net.forward(x.clone() * 0.5);
    let found = ((y.clone() - 0.3).powi_scalar(2).mean() + again.powi_scalar(2).mean()).backward();
    (values(y), gradients(&net, &found), x.grad(&found).map(values).expect("a learned input"))
}

#[test]
fn checkpointing_changes_neither_values_nor_gradients() {
    for (use_v2, dtype) in [(false, None), (true, None), (false, Some(DType::BF16))] {
        let (plain, again) = (step(false, use_v2, dtype), step(true, use_v2, dtype));
        assert_eq!(plain.0, again.0);
        assert!(plain.1.iter().filter(|gradient| gradient.is_some()).count() > 100);
        assert!(plain.1.iter().any(Option::is_none));
        for (i, (a, b)) in plain.1.iter().zip(&again.1).enumerate() {
            assert_eq!(a, b, "parameter {i}");
        }
        assert_eq!(plain.2, again.2);
    }
}
