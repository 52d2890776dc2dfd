//! With the kernels turned off, other operations give the same values. A separate process: the
//! switch is global.

use burn::tensor::{Device, Distribution, Tensor};
use hearth_kernels::conv3d::{ConvShape, conv3d};
use hearth_kernels::{gelu, use_kernels, uses_kernels};

#[test]
fn turned_off_kernels_give_the_same_values() {
    let device = Device::flex().autodiff();
    device.seed(3);
    let random = |shape: [usize; 5]| Tensor::<5>::random(shape, Distribution::Normal(0.0, 1.0), &device);
    let (x, weight) = (random([2, 3, 9, 8, 7]).require_grad(), random([4, 3, 3, 3, 3]).require_grad());
    let shape = ConvShape { stride: [2, 1, 1], padding: [1; 3], ..ConvShape::default() };
    let both = || {
        let y = gelu(conv3d(x.clone(), weight.clone(), None, shape));
        let gradients = (y.clone() * y.clone()).sum().backward();
        let of = |t: &Tensor<5>| t.grad(&gradients).expect("a gradient").into_data();
        (y.into_data(), of(&x), of(&weight))
    };
    assert!(uses_kernels());
    let with = both();
    use_kernels(false);
    assert!(!uses_kernels());
    let without = both();
    use_kernels(true);
    for (a, b) in [(with.0, without.0), (with.1, without.1), (with.2, without.2)] {
        let (a, b) = (a.try_to_vec::<f32>().expect("f32"), b.try_to_vec::<f32>().expect("f32"));
        let most = a.iter().map(|v| v.abs()).fold(0.0, f32::max);
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart <= 1e-5 * most, "{apart} of {most}");
    }
}
