//! Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and long
//! runs of uniform and normal numbers based on it.
//!
//! A number depends only on the key, the stream and its index, not on the number of threads or the
//! CPU's vector width.

use rayon::prelude::*;

use crate::math::log2;
use crate::simd::{self, widest};

/// The number of counters computed in parallel.
const LANES: usize = 16;
/// The number of values of one block: each counter yields four.
const BLOCK: usize = 4 * LANES;
/// The factors of a round.
const A: u32 = 0xD251_1F53;
const B: u32 = 0xCD9E_8D57;
/// The number of values per task, a multiple of a block.
const CHUNK: usize = 256 * BLOCK;

/// Computes ten rounds of `N` counters with one key. Both halves of a product are computed
/// separately, as registers have instructions for each: the upper halves of even and odd lanes, and
/// the lower halves of all.
#[inline(always)]
pub fn philox<const N: usize>(mut counter: [[u32; N]; 4], mut key: [u32; 2]) -> [[u32; N]; 4] {
    for _ in 0..10 {
        let c = counter;
        for i in 0..N {
            let high = |value: u32, factor: u32| ((u64::from(value) * u64::from(factor)) >> 32) as u32;
            counter[0][i] = high(c[2][i], B) ^ c[1][i] ^ key[0];
            counter[1][i] = c[2][i].wrapping_mul(B);
            counter[2][i] = high(c[0][i], A) ^ c[3][i] ^ key[1];
            counter[3][i] = c[0][i].wrapping_mul(A);
        }
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    counter
}

/// The source of a run of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The key.
    pub key: [u32; 2],
    /// The upper two words of the counter; runs with different words share no numbers.
    pub stream: [u32; 2],
}

impl Stream {
    /// Adds a normally distributed number to each value (Box and Muller), on all threads.
    pub fn add_normal(self, values: &mut [f32], mean: f32, std: f32) {
        self.blocks(
            values,
            #[inline(always)]
            |values, bits| {
                // Copied once: values behind a reference might change with each write.
                let (mean, std) = (mean, std);
                let [a, b, c, d] = bits;
                let ([a, b], [c, d]) = (normal_pairs(a, b), normal_pairs(c, d));
                for (values, normal) in values.as_chunks_mut::<LANES>().0.iter_mut().zip([a, b, c, d]) {
                    for (value, z) in values.iter_mut().zip(normal) {
                        *value += mean + std * z;
                    }
                }
            },
        );
    }

    /// Replaces each value by a uniform number between `low` and `high`, on all threads.
    pub fn fill_uniform(self, values: &mut [f32], low: f32, high: f32) {
        self.blocks(
            values,
            #[inline(always)]
            |values, bits| {
                let (low, high) = (low, high);
                for (values, bits) in values.as_chunks_mut::<LANES>().0.iter_mut().zip(bits) {
                    for (value, bits) in values.iter_mut().zip(bits) {
                        *value = low + (high - low) * ((bits >> 8) as i32 as f32 * (1.0 / 16_777_216.0));
                    }
                }
            },
        );
    }

    /// Calls `each` with every block of values and its random bits. The closure must always be
    /// inlined, since a called function is compiled for narrow registers.
    fn blocks(self, values: &mut [f32], each: impl Fn(&mut [f32; BLOCK], [[u32; LANES]; 4]) + Sync) {
        values.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
            widest(
                #[inline(always)]
                || {
                    let mut first = (chunk * (CHUNK / 4)) as u64;
                    let (whole, rest) = values.as_chunks_mut::<BLOCK>();
                    for values in whole {
                        each(values, self.bits(first));
                        first += LANES as u64;
                    }
                    if !rest.is_empty() {
                        let mut last = [0.0; BLOCK];
                        last[..rest.len()].copy_from_slice(rest);
                        each(&mut last, self.bits(first));
                        rest.copy_from_slice(&last[..rest.len()]);
                    }
                },
            );
        });
    }

    #[inline(always)]
    fn bits(self, first: u64) -> [[u32; LANES]; 4] {
        let at = |lane: usize| first + lane as u64;
        let low = simd::each(|lane| at(lane) as u32);
        let high = simd::each(|lane| (at(lane) >> 32) as u32);
        philox([low, high, [self.stream[0]; LANES], [self.stream[1]; LANES]], self.key)
    }
}

/// Box and Muller's transformation of uniform bits to two independent normal numbers.
#[inline(always)]
fn normal_pairs(a: [u32; LANES], b: [u32; LANES]) -> [[f32; LANES]; 2] {
    let mut out = [[0.0; LANES]; 2];
    for i in 0..LANES {
        // (0, 1], so that the logarithm is finite.
        let u = ((a[i] >> 1) as i32 as f32 + 1.0) * (1.0 / 2_147_483_648.0);
        let radius = (log2::<false>(u) * (-2.0 * std::f32::consts::LN_2)).sqrt();
        // The upper two bits choose a quarter of the circle, the others an angle of at most 45
        // degrees from its middle.
        let quarter = b[i] >> 30;
        let angle = ((b[i] & 0x3fff_ffff) as i32 - 0x2000_0000) as f32 * (std::f32::consts::TAU / 4_294_967_296.0);
        let (sin, cos) = sin_cos_near_zero(angle);
        let exchanged = quarter & 1 == 1;
        let (x, y) = if exchanged { (sin, cos) } else { (cos, sin) };
        // Rotated by the quarters: (c, s), (-s, c), (-c, -s), (s, -c).
        let x_sign = ((quarter ^ (quarter >> 1)) & 1) << 31;
        let y_sign = (quarter >> 1) << 31;
        out[0][i] = radius * f32::from_bits(x.to_bits() ^ x_sign);
        out[1][i] = radius * f32::from_bits(y.to_bits() ^ y_sign);
    }
    out
}

/// Sine and cosine for -pi/4..pi/4, by the first terms of their series, exact to the last place or
/// two.
#[inline(always)]
fn sin_cos_near_zero(x: f32) -> (f32, f32) {
    let x2 = x * x;
    let sin = ((x2 * (-1.0 / 5040.0) + 1.0 / 120.0) * x2 - 1.0 / 6.0) * x2 * x + x;
    let cos = (((x2 * (1.0 / 40320.0) - 1.0 / 720.0) * x2 + 1.0 / 24.0) * x2 - 0.5) * x2 + 1.0;
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the Random123 distribution (kat_vectors, philox4x32 10).
    #[test]
    fn philox_known_answers() {
        let one = |c: [u32; 4], k| philox(c.map(|c| [c]), k).map(|[c]| c);
        assert_eq!(one([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(one([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let pi = one([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        assert_eq!(pi, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn pairs_lie_where_their_bits_say() {
        let bits = |n: u64| {
            let words: Vec<u32> = (0..LANES as u64).map(|i| (((n + i) * 0x9E37_79B9_7F4A_7C15) >> 32) as u32).collect();
            <[u32; LANES]>::try_from(words).expect("as many")
        };
        for round in 0..200 {
            let (a, b) = (bits(round * 100), bits(round * 100 + 50));
            let [x, y] = normal_pairs(a, b);
            for i in 0..LANES {
                let u = f64::from((a[i] >> 1) as f32 + 1.0) / 2_147_483_648.0;
                let radius = (-2.0 * u.ln()).sqrt();
                // The middle of a quarter is 45 degrees after its start.
                let angle = f64::from(b[i]) / 4_294_967_296.0 * std::f64::consts::TAU - std::f64::consts::FRAC_PI_4;
                let near = |got: f32, expected: f64| (f64::from(got) - expected).abs() < 2e-6;
                assert!(near(x[i], radius * angle.cos()) && near(y[i], radius * angle.sin()), "{} {}", x[i], y[i]);
            }
        }
    }

    #[test]
    fn numbers_depend_on_their_place_only() {
        let stream = Stream { key: [1, 2], stream: [3, 4] };
        let run = |threads: usize, n: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let mut values = vec![0.0; n];
            pool.install(|| stream.add_normal(&mut values, 0.5, 2.0));
            values
        };
        let long = run(1, 3 * CHUNK + 37);
        assert_eq!(run(3, 3 * CHUNK + 37), long);
        assert_eq!(run(1, CHUNK + 5), long[..CHUNK + 5]);
    }

    #[test]
    fn noise_has_the_moments_of_the_normal_distribution() {
        let mut values = vec![0.0; 1 << 20];
        Stream { key: [7, 8], stream: [0, 1] }.add_normal(&mut values, 0.0, 1.0);
        let moment = |p: i32| values.iter().map(|v| f64::from(*v).powi(p)).sum::<f64>() / values.len() as f64;
        // Five standard deviations of each estimate.
        for (p, expected, deviation) in [(1, 0.0, 1.0_f64), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let error = (moment(p) - expected).abs();
            assert!(error < 5.0 * (deviation / values.len() as f64).sqrt(), "moment {p} is off by {error}");
        }
        let lag = values.windows(2).map(|w| f64::from(w[0]) * f64::from(w[1])).sum::<f64>() / values.len() as f64;
        assert!(lag.abs() < 5e-3, "neighbours correlate by {lag}");
    }
}
