//! Dropout on GPUs: a unit for each value computes its own draw, with the generator of
//! [`counter_rng`](crate::counter_rng) in words of 32 bits, which every GPU supports.

use burn::backend::tensor::FloatTensor;
use burn_cubecl::CubeBackend;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

use super::Drops;
use super::ops::DropoutOps;
use crate::gpu::{each, element, empty_like, ordered};

impl DropoutOps for CubeBackend {
    fn drop_out(x: FloatTensor<Self>, drops: Drops) -> FloatTensor<Self> {
        let [x] = ordered([x]);
        let out = empty_like(&x);
        let (client, of) = (x.client.clone(), element(&x));
        let (count, dim) = each(&client, out.meta.num_elements());
        let [kept, dropped] = drops.offsets;
        dropout_kernel::launch(
            &client,
            count,
            dim,
            x.into_tensor_arg(),
            out.clone().into_tensor_arg(),
            ScalarsLaunch {
                run: drops.run as u32,
                key: words(drops.key.number()),
                threshold: words(drops.threshold()),
                scale: drops.scale,
                kept,
                dropped,
            },
            of,
        );
        out
    }
}

/// A number of 64 bits.
#[derive(CubeLaunch, CubeType)]
struct Words {
    low: u32,
    high: u32,
}

fn words(number: u64) -> WordsLaunch {
    WordsLaunch { low: number as u32, high: (number >> 32) as u32 }
}

#[derive(CubeLaunch, CubeType)]
struct Scalars {
    /// The number of neighbouring values that share a draw.
    run: u32,
    key: Words,
    threshold: Words,
    scale: f32,
    /// The offset of kept and of dropped values.
    kept: f32,
    dropped: f32,
}

/// The lower 64 bits of a product, the lower word first.
#[cube]
fn product(low: u32, high: u32, by_low: u32, by_high: u32) -> (u32, u32) {
    (low * by_low, low.mul_hi(by_low) + low * by_high + high * by_low)
}

/// `z ^ (z >> bits)`
#[cube]
fn folded(low: u32, high: u32, #[comptime] bits: u32) -> (u32, u32) {
    let back = comptime!(32 - bits);
    let shifted = (low >> bits) | (high << back);
    (low ^ shifted, high ^ (high >> bits))
}

/// The generator's 53 bits at an index.
#[cube]
fn draw(index: u32, key_low: u32, key_high: u32) -> (u32, u32) {
    let (step_low, step_high) = product(index + 1, 0, 0x7F4A_7C15, 0x9E37_79B9);
    let low = key_low + step_low;
    let carry = select(low < step_low, 1u32, 0u32);
    let (low, high) = folded(low, key_high + step_high + carry, 30u32);
    let (low, high) = product(low, high, 0x1CE4_E5B9, 0xBF58_476D);
    let (low, high) = folded(low, high, 27u32);
    let (low, high) = product(low, high, 0x1331_11EB, 0x94D0_49BB);
    let (low, high) = folded(low, high, 31u32);
    ((low >> 11u32) | (high << 21u32), high >> 11u32)
}

#[cube(launch)]
fn dropout_kernel<F: Float>(x: &Tensor<F>, out: &mut Tensor<F>, by: &Scalars, #[define(F)] _of: ElemType) {
    let at = ABSOLUTE_POS;
    if at >= out.len() {
        terminate!();
    }
    let (low, high) = draw((at / by.run as usize) as u32, by.key.low, by.key.high);
    let drops = high < by.threshold.high || (high == by.threshold.high && low < by.threshold.low);
    let value = f32::cast_from(x[at]) * select(drops, 0.0f32, by.scale);
    out[at] = F::cast_from(value + select(drops, by.dropped, by.kept));
}
