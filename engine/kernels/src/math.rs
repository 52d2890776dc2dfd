//! Powers and exponentials of many f32 values at once, on the CPU.
//!
//! The functions of the standard library take one value at a time. These are plain arithmetic,
//! which the compiler vectorizes; with AVX2 and FMA they are about ten times faster. Errors are a
//! few units in the last place.

/// Calls one of three copies of a loop: compiled for AVX-512 or for AVX2 with FMA where the CPU
/// supports them, otherwise for any CPU.
macro_rules! for_this_processor {
    ($name:ident, [$widest:ident, $wide:ident], $loop:ident, ($($argument:ident : $type:ty),*) -> $result:ty) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,fma")]
        fn $widest($($argument: $type),*) -> $result {
            $loop::<true>($($argument),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $wide($($argument: $type),*) -> $result {
            $loop::<true>($($argument),*)
        }

        fn $name($($argument: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("fma") {
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: the CPU has both.
                    return unsafe { $widest($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the CPU has both.
                    return unsafe { $wide($($argument),*) };
                }
            }
            $loop::<false>($($argument),*)
        }
    };
}

/// Replaces each value by its exponential. Below -87 the result is about 1e-38 and not 0; above 88
/// it is about 2e38 and not infinite.
pub fn exp(values: &mut [f32]) {
    exp_here(values);
}

for_this_processor!(exp_here, [exp_widest, exp_wide], exp_loop, (values: &mut [f32]) -> ());

#[inline(always)]
fn exp_loop<const FUSED: bool>(values: &mut [f32]) {
    for v in values {
        *v = exp_of::<FUSED>(*v);
    }
}

/// Replaces each value by `exp(value - less)`, where `less` is the largest value, and returns the
/// sum. Exponentials below 2e-22 become 0. That does not change the sum, and it avoids subnormal
/// products, for which a CPU takes a hundred times as long.
pub(crate) fn exp_less(values: &mut [f32], less: f32) -> f32 {
    exp_less_here(values, less)
}

for_this_processor!(exp_less_here, [exp_less_widest, exp_less_wide], exp_less_loop, (values: &mut [f32], less: f32) -> f32);

#[inline(always)]
fn exp_less_loop<const FUSED: bool>(values: &mut [f32], less: f32) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (chunks, rest) = values.as_chunks_mut::<16>();
    for chunk in chunks {
        for (sum, v) in sums.iter_mut().zip(chunk) {
            *v = exp_or_zero::<FUSED>(*v - less);
            *sum += *v;
        }
    }
    for (sum, v) in sums.iter_mut().zip(rest) {
        *v = exp_or_zero::<FUSED>(*v - less);
        *sum += *v;
    }
    sums.iter().sum()
}

#[inline(always)]
fn exp_or_zero<const FUSED: bool>(v: f32) -> f32 {
    let result = exp_of::<FUSED>(v);
    if v < -50.0 { 0.0 } else { result }
}

/// The exponential, with the limits of [`exp`] for large and small values.
#[inline(always)]
pub(crate) fn exp_of<const FUSED: bool>(v: f32) -> f32 {
    /// ln 2 in two parts: products with the first are exact.
    const LN2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = keep_within(v, -87.0, 88.0);
    let (n, shifted) = nearest(x * std::f32::consts::LOG2_E);
    let rest = fma::<FUSED>(n, -LN2[1], fma::<FUSED>(n, -LN2[0], x));
    let result = times_power_of_two(exp_near_zero::<FUSED>(rest), shifted);
    // NaN stays NaN.
    if v.is_nan() { v } else { result }
}

/// Replaces each value by its power. Values must not be negative or subnormal (0 and NaN are
/// unchanged), and the exponent must be positive.
pub fn power(values: &mut [f32], exponent: f32) {
    power_here(values, exponent);
}

for_this_processor!(power_here, [power_widest, power_wide], power_loop, (values: &mut [f32], exponent: f32) -> ());

#[inline(always)]
fn power_loop<const FUSED: bool>(values: &mut [f32], exponent: f32) {
    for v in values {
        let y = keep_within(exponent * log2::<FUSED>(*v), -126.0, 127.0);
        let (n, shifted) = nearest(y);
        let result = times_power_of_two(exp_near_zero::<FUSED>((y - n) * std::f32::consts::LN_2), shifted);
        *v = if *v > 0.0 { result } else { *v };
    }
}

/// Binary logarithm of a positive normal number: exponent, and `2 atanh((m - 1) / (m + 1))` of a
/// mantissa m around 1.
#[inline(always)]
pub(crate) fn log2<const FUSED: bool>(x: f32) -> f32 {
    /// The bits of sqrt(1/2), the smallest mantissa.
    const LEAST: u32 = 0x3f35_04f3;
    let bits = x.to_bits();
    let exponent = (bits.wrapping_sub(LEAST) as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((exponent << 23) as u32));
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let series = [1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0];
    let sum = series.iter().fold(0.0, |sum, c| fma::<FUSED>(sum, s2, *c));
    fma::<FUSED>(sum, s * (2.0 * std::f32::consts::LOG2_E), exponent as f32)
}

/// `log(1 + x)` for `0..=1`, to a few units in the last place of the result:
/// `2 atanh(x / (2 + x))`.
#[inline(always)]
pub(crate) fn log_1p<const FUSED: bool>(x: f32) -> f32 {
    let s = x / (2.0 + x);
    let s2 = s * s;
    let series = [1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0];
    2.0 * s * series.iter().fold(0.0, |sum, c| fma::<FUSED>(sum, s2, *c))
}

/// `exp` for -0.35..0.35, by eight terms of its series.
#[inline(always)]
fn exp_near_zero<const FUSED: bool>(x: f32) -> f32 {
    let series = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    series.iter().fold(0.0, |sum, c| fma::<FUSED>(sum, x, *c))
}

/// The nearest whole number, and the bits of the shifted value, whose lowest ones are that number.
#[inline(always)]
fn nearest(x: f32) -> (f32, u32) {
    /// Numbers of this size have no fraction bits.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x + SHIFT;
    (shifted - SHIFT, shifted.to_bits())
}

/// Adds the whole number in the lowest bits of `shifted` to the exponent of `x`.
#[inline(always)]
fn times_power_of_two(x: f32, shifted: u32) -> f32 {
    f32::from_bits(x.to_bits().wrapping_add(shifted << 23))
}

#[inline(always)]
fn keep_within(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > low { x } else { low };
    if x < high { x } else { high }
}

#[inline(always)]
fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(
        apply: impl Fn(&mut [f32]),
        portable: impl Fn(&mut [f32]),
        inputs: &[f32],
        truth: impl Fn(f64) -> f64,
        tolerance: f64,
    ) {
        let (mut here, mut anywhere) = (inputs.to_vec(), inputs.to_vec());
        apply(&mut here);
        portable(&mut anywhere);
        for ((x, a), b) in inputs.iter().zip(&here).zip(&anywhere) {
            let expected = truth(f64::from(*x));
            for got in [a, b] {
                let error = (f64::from(*got) - expected).abs();
                assert!(error <= tolerance * expected + 1e-37, "{got} for {expected} at {x}");
            }
        }
    }

    #[test]
    fn exponentials_are_those_of_f64() {
        let inputs: Vec<f32> = (-86_000..88_000).map(|i| i as f32 / 1000.0).collect();
        both(exp, exp_loop::<false>, &inputs, f64::exp, 3e-7);
        let mut odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0];
        exp(&mut odd);
        assert!(odd[0].is_nan() && odd[1] > 1e38 && odd[2] < 1e-37 && odd[3] == 1.0, "{odd:?}");
    }

    #[test]
    fn logarithms_of_one_and_more_are_those_of_f64() {
        let inputs = (0..=100_000).map(|i| i as f32 / 1e5).chain((0..40).map(|i| 0.5_f32.powi(i)));
        for x in inputs {
            let expected = f64::from(x).ln_1p();
            for got in [log_1p::<false>(x), log_1p::<true>(x)] {
                assert!((f64::from(got) - expected).abs() <= 3e-7 * expected, "{got} for {expected} at {x}");
            }
        }
        assert!(log_1p::<false>(f32::NAN).is_nan());
    }

    #[test]
    fn exponentials_that_count_for_nothing_are_zero() {
        let mut values = [0.0, -49.0, -51.0, -187.0, f32::NEG_INFINITY];
        let sum = exp_less(&mut values, 0.0);
        assert!(sum == 1.0 && values[0] == 1.0 && values[1] > 0.0 && values[2..] == [0.0; 3], "{values:?}");
        let mut values = [f32::NAN, 1.0];
        assert!(exp_less(&mut values, 1.0).is_nan() && values[0].is_nan() && values[1] == 1.0, "{values:?}");
    }

    #[test]
    fn powers_are_those_of_f64() {
        let inputs: Vec<f32> = (1..100_000).map(|i| i as f32 / 70_000.0).chain([1e-30, 1e30, 1.0]).collect();
        for exponent in [0.2_f32, 0.5, 1.0, 2.0, 3.7] {
            // The error grows with the logarithm of the result, up to 16 here.
            let truth = |x: f64| x.powf(f64::from(exponent));
            let inputs: Vec<f32> =
                inputs.iter().copied().filter(|x| (1e-36..1e36).contains(&truth(f64::from(*x)))).collect();
            both(|v| power(v, exponent), |v| power_loop::<false>(v, exponent), &inputs, truth, 6e-6);
            let middle: Vec<f32> =
                inputs.iter().copied().filter(|x| (0.05..1.5).contains(&truth(f64::from(*x)))).collect();
            both(|v| power(v, exponent), |v| power_loop::<false>(v, exponent), &middle, truth, 6e-7);
        }
        let mut odd = [0.0, 1.0, f32::NAN];
        power(&mut odd, 0.01);
        assert!(odd[0] == 0.0 && odd[1] == 1.0 && odd[2].is_nan(), "{odd:?}");
    }
}
