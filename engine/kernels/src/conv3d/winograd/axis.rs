//! The transforms along one axis of a tile, written once for every kind of [`Lanes`].
//!
//! `O` sums of `K` taps each, `y[o] = d[o] g[0] + d[o + 1] g[1] + ...`, take `I = O + K - 1`
//! `O` sums of `K` taps each, `y[o] = d[o] g[0] + d[o + 1] g[1] + ...`, take `I = O + K - 1`
//! products instead of `O K`: the product of two polynomials, computed pointwise at `I` points.
//! With the points 0, 1, -1 and infinity, two sums of three taps take four products instead of six
//! ([`Four`]):
//!
//! ```text
//! m0 = (d0 - d2) g0                    y0 = m0 + m1 + m2
//! m1 = (d1 + d2) (g0 + g1 + g2) / 2    y1 = m1 - m2 - m3
//! m2 = (d2 - d1) (g0 - g1 + g2) / 2
//! m3 = (d1 - d3) g2
//! ```
//!
//! Six points ([`Six`]) make four sums of three taps, or two of five.
//!
//! A sum of three taps at stride 2 is the sum of two taps over the even values, plus a single tap
//! over the odd values. With two sums of two taps from three products ([`PairOfTwo`]) it takes five
//! products instead of six, with three sums from four products ([`PairOfThree`]) seven instead of
//! nine. The same holds for its transpose, whose outputs alternate between sums of two taps and
//! single taps.

#![expect(clippy::needless_range_loop, reason = "the indices are numbers of coefficients, the same in several arrays")]

use crate::lanes::Lanes;

// SAFETY (all blocks below): the caller guarantees the instructions of this kind of lanes.

/// The transforms along one axis: of `S` rows of the source, `I` components, `O` rows of outputs
/// and `K` taps.
pub trait Axis<const S: usize, const I: usize, const O: usize, const K: usize> {
    /// The number of rows of the source between tiles.
    const STEP: usize = O;
    /// Whether the first and the last component include a share of every row of the source that
    /// nothing cancels.
    const ENDS: bool = true;

    /// Transforms rows of the source to components.
    ///
    /// # Safety
    /// For all functions of this trait: the CPU must have the instructions of this kind of lanes.
    unsafe fn spread<L: Lanes>(d: [L; S]) -> [L; I];
    /// Transforms components to outputs.
    unsafe fn gathered<L: Lanes>(m: [L; I]) -> [L; O];
    /// Transforms output gradients to components: the transpose of `gathered`.
    unsafe fn widened<L: Lanes>(y: [L; O]) -> [L; I];
    /// Transforms taps to components.
    unsafe fn of_taps<L: Lanes>(g: [L; K]) -> [L; I];
    /// The transpose of `of_taps`.
    unsafe fn to_taps<L: Lanes>(m: [L; I]) -> [L; K];
}

/// An axis along which the kernel has one tap.
pub struct Whole;

impl Axis<1, 1, 1, 1> for Whole {
    #[inline(always)]
    unsafe fn spread<L: Lanes>(d: [L; 1]) -> [L; 1] {
        d
    }

    #[inline(always)]
    unsafe fn gathered<L: Lanes>(m: [L; 1]) -> [L; 1] {
        m
    }

    #[inline(always)]
    unsafe fn widened<L: Lanes>(y: [L; 1]) -> [L; 1] {
        y
    }

    #[inline(always)]
    unsafe fn of_taps<L: Lanes>(g: [L; 1]) -> [L; 1] {
        g
    }

    #[inline(always)]
    unsafe fn to_taps<L: Lanes>(m: [L; 1]) -> [L; 1] {
        m
    }
}

/// Two outputs of three taps; the points are 0, 1, -1 and infinity.
pub struct Four;

impl Axis<4, 4, 2, 3> for Four {
    #[inline(always)]
    unsafe fn spread<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 4] {
        // SAFETY: as above.
        unsafe { [a.sub(c), b.add(c), c.sub(b), b.sub(d)] }
    }

    #[inline(always)]
    unsafe fn gathered<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 2] {
        // SAFETY: as above.
        unsafe { [a.add(b).add(c), b.sub(c).sub(d)] }
    }

    #[inline(always)]
    unsafe fn widened<L: Lanes>([a, b]: [L; 2]) -> [L; 4] {
        // SAFETY: as above.
        unsafe { [a, a.add(b), a.sub(b), L::zero().sub(b)] }
    }

    #[inline(always)]
    unsafe fn of_taps<L: Lanes>([a, b, c]: [L; 3]) -> [L; 4] {
        // SAFETY: as above.
        unsafe {
            let (half, ends) = (L::splat(&0.5), a.add(c));
            [a, L::zero().fma(half, ends.add(b)), L::zero().fma(half, ends.sub(b)), c]
        }
    }

    #[inline(always)]
    unsafe fn to_taps<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 3] {
        // SAFETY: as above.
        unsafe {
            let half = L::splat(&0.5);
            let both = L::zero().fma(half, b.add(c));
            [a.add(both), L::zero().fma(half, b.sub(c)), both.add(d)]
        }
    }
}

/// Four outputs of three taps, or two of five; the points are 0, 3/4, -3/4, 3/2, -3/2 and infinity.
/// Rounding errors are 1.8 and 1.2 times those of the plain sum (root mean square over 96 channels
/// of normal numbers), about half of those with the usual points 1 and 2. The reasons are in B.
/// Barabasz
/// Networks", 2020.
pub struct Six;

/// The points that are used with both signs.
const A: f32 = 0.75;
const B: f32 = 1.5;

/// The divisor of the value at a point: the product of its distances to the others.
const OF_ZERO: f32 = A * A * B * B;
const OF_A: f32 = 2.0 * A * A * (A * A - B * B);
const OF_B: f32 = 2.0 * B * B * (B * B - A * A);

/// The power of `point` with exponent `count`.
#[inline(always)]
const fn power(point: f32, count: usize) -> f32 {
    let (mut product, mut n) = (1.0, 0);
    while n < count {
        product *= point;
        n += 1;
    }
    product
}

/// `plus + by * value`.
#[inline(always)]
unsafe fn scaled<L: Lanes>(plus: L, by: f32, value: L) -> L {
    // SAFETY: as above.
    unsafe { plus.fma(L::splat(&by), value) }
}

/// The values at `point` and `-point` of the polynomial with these coefficients, divided by `of`.
#[inline(always)]
unsafe fn at_both<L: Lanes, const N: usize>(coefficients: [L; N], point: f32, of: f32) -> [L; 2] {
    // SAFETY: as above.
    unsafe {
        let [mut even, mut odd] = [L::zero(); 2];
        for n in 0..N {
            let by = power(point, n) / of;
            if n == 0 && of == 1.0 {
                even = coefficients[n];
            } else if n % 2 == 0 {
                even = scaled(even, by, coefficients[n]);
            } else {
                odd = scaled(odd, by, coefficients[n]);
            }
        }
        [even.add(odd), even.sub(odd)]
    }
}

/// The transpose of [`at_both`]: adds to each coefficient its share of both values.
#[inline(always)]
unsafe fn from_both<L: Lanes, const N: usize>(to: &mut [L; N], [plus, minus]: [L; 2], point: f32, of: f32) {
    // SAFETY: as above.
    unsafe {
        let (even, odd) = (plus.add(minus), plus.sub(minus));
        for n in 0..N {
            let value = if n % 2 == 0 { even } else { odd };
            to[n] = if n == 0 && of == 1.0 { to[n].add(value) } else { scaled(to[n], power(point, n) / of, value) };
        }
    }
}

impl<const O: usize, const K: usize> Axis<6, 6, O, K> for Six {
    #[inline(always)]
    unsafe fn spread<L: Lanes>([a, b, c, d, e, f]: [L; 6]) -> [L; 6] {
        const SQUARES: f32 = A * A + B * B;
        // SAFETY: as above.
        unsafe {
            let (even, odd) = (scaled(e, -B * B, c), scaled(d, -B * B, b));
            let (even_b, odd_b) = (scaled(e, -A * A, c), scaled(d, -A * A, b));
            [
                scaled(scaled(e, -SQUARES, c), OF_ZERO, a),
                scaled(even, A, odd),
                scaled(even, -A, odd),
                scaled(even_b, B, odd_b),
                scaled(even_b, -B, odd_b),
                scaled(scaled(f, -SQUARES, d), OF_ZERO, b),
            ]
        }
    }

    #[inline(always)]
    unsafe fn gathered<L: Lanes>([zero, a, minus_a, b, minus_b, infinity]: [L; 6]) -> [L; O] {
        // SAFETY: as above.
        unsafe {
            let mut y = [L::zero(); O];
            y[0] = zero;
            y[O - 1] = infinity;
            from_both(&mut y, [a, minus_a], A, 1.0);
            from_both(&mut y, [b, minus_b], B, 1.0);
            y
        }
    }

    #[inline(always)]
    unsafe fn widened<L: Lanes>(y: [L; O]) -> [L; 6] {
        // SAFETY: as above.
        unsafe {
            let ([a, minus_a], [b, minus_b]) = (at_both(y, A, 1.0), at_both(y, B, 1.0));
            [y[0], a, minus_a, b, minus_b, y[O - 1]]
        }
    }

    #[inline(always)]
    unsafe fn of_taps<L: Lanes>(g: [L; K]) -> [L; 6] {
        // SAFETY: as above.
        unsafe {
            let ([a, minus_a], [b, minus_b]) = (at_both(g, A, OF_A), at_both(g, B, OF_B));
            [scaled(L::zero(), 1.0 / OF_ZERO, g[0]), a, minus_a, b, minus_b, g[K - 1]]
        }
    }

    #[inline(always)]
    unsafe fn to_taps<L: Lanes>([zero, a, minus_a, b, minus_b, infinity]: [L; 6]) -> [L; K] {
        // SAFETY: as above.
        unsafe {
            let mut g = [L::zero(); K];
            g[0] = scaled(L::zero(), 1.0 / OF_ZERO, zero);
            g[K - 1] = infinity;
            from_both(&mut g, [a, minus_a], A, OF_A);
            from_both(&mut g, [b, minus_b], B, OF_B);
            g
        }
    }
}

/// `O` sums of two taps, `y[o] = d[o] g[0] + d[o + 1] g[1]`, from `N = O + 1` products.
pub trait Pair<const N: usize, const O: usize> {
    /// Same as [`Axis`].
    ///
    /// # Safety
    /// Same as for [`Axis`].
    unsafe fn spread<L: Lanes>(d: [L; N]) -> [L; N];
    unsafe fn gathered<L: Lanes>(m: [L; N]) -> [L; O];
    unsafe fn widened<L: Lanes>(y: [L; O]) -> [L; N];
    unsafe fn of_taps<L: Lanes>(g: [L; 2]) -> [L; N];
    unsafe fn to_taps<L: Lanes>(m: [L; N]) -> [L; 2];
}

/// Two sums; the points are 0, -1 and infinity.
pub struct PairOfTwo;

impl Pair<3, 2> for PairOfTwo {
    #[inline(always)]
    unsafe fn spread<L: Lanes>([a, b, c]: [L; 3]) -> [L; 3] {
        // SAFETY: as above.
        unsafe { [a.sub(b), b, b.sub(c)] }
    }

    #[inline(always)]
    unsafe fn gathered<L: Lanes>([a, b, c]: [L; 3]) -> [L; 2] {
        // SAFETY: as above.
        unsafe { [a.add(b), b.sub(c)] }
    }

    #[inline(always)]
    unsafe fn widened<L: Lanes>([a, b]: [L; 2]) -> [L; 3] {
        // SAFETY: as above.
        unsafe { [a, a.add(b), L::zero().sub(b)] }
    }

    #[inline(always)]
    unsafe fn of_taps<L: Lanes>([a, b]: [L; 2]) -> [L; 3] {
        // SAFETY: as above.
        unsafe { [a, a.add(b), b] }
    }

    #[inline(always)]
    unsafe fn to_taps<L: Lanes>([a, b, c]: [L; 3]) -> [L; 2] {
        // SAFETY: as above.
        unsafe { [a.add(b), b.add(c)] }
    }
}

/// Three sums; the points are 0, 1, -1 and infinity. Rounding errors are a little smaller than
/// those of the plain sum; four sums would take fewer products, but have two to three times its errors.
pub struct PairOfThree;

impl Pair<4, 3> for PairOfThree {
    #[inline(always)]
    unsafe fn spread<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 4] {
        // SAFETY: as above.
        unsafe { [a.sub(c), b.add(c), c.sub(b), d.sub(b)] }
    }

    #[inline(always)]
    unsafe fn gathered<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 3] {
        // SAFETY: as above.
        unsafe {
            let both = b.add(c);
            [a.add(both), b.sub(c), both.add(d)]
        }
    }

    #[inline(always)]
    unsafe fn widened<L: Lanes>([a, b, c]: [L; 3]) -> [L; 4] {
        // SAFETY: as above.
        unsafe {
            let ends = a.add(c);
            [a, ends.add(b), ends.sub(b), c]
        }
    }

    #[inline(always)]
    unsafe fn of_taps<L: Lanes>([a, b]: [L; 2]) -> [L; 4] {
        // SAFETY: as above.
        unsafe {
            let half = L::splat(&0.5);
            [a, L::zero().fma(half, a.add(b)), L::zero().fma(half, a.sub(b)), b]
        }
    }

    #[inline(always)]
    unsafe fn to_taps<L: Lanes>([a, b, c, d]: [L; 4]) -> [L; 2] {
        // SAFETY: as above.
        unsafe {
            let half = L::splat(&0.5);
            [a.add(L::zero().fma(half, b.add(c))), d.add(L::zero().fma(half, b.sub(c)))]
        }
    }
}

/// Splits off the first `N` components.
#[inline(always)]
unsafe fn parted<L: Lanes, const I: usize, const N: usize, const O: usize>(m: [L; I]) -> ([L; N], [L; O]) {
    const { assert!(I == N + O) };
    // SAFETY: as above.
    let (mut first, mut others) = unsafe { ([L::zero(); N], [L::zero(); O]) };
    first.copy_from_slice(&m[..N]);
    others.copy_from_slice(&m[N..]);
    (first, others)
}

/// The inverse of [`parted`].
#[inline(always)]
unsafe fn joined<L: Lanes, const I: usize, const N: usize, const O: usize>(first: [L; N], others: [L; O]) -> [L; I] {
    const { assert!(I == N + O) };
    // SAFETY: as above.
    let mut m = unsafe { [L::zero(); I] };
    m[..N].copy_from_slice(&first);
    m[N..].copy_from_slice(&others);
    m
}

/// The sum of a number of registers.
#[inline(always)]
unsafe fn sum<L: Lanes, const O: usize>(values: [L; O]) -> L {
    let mut sum = values[0];
    for value in &values[1..] {
        // SAFETY: as above.
        sum = unsafe { sum.add(*value) };
    }
    sum
}

/// Three taps at stride 2. The last components are products of the middle tap.
pub struct Strided<P, const N: usize>(P);

impl<P: Pair<N, O>, const S: usize, const N: usize, const O: usize> Axis<S, S, O, 3> for Strided<P, N> {
    const STEP: usize = 2 * O;
    const ENDS: bool = false;

    #[inline(always)]
    unsafe fn spread<L: Lanes>(d: [L; S]) -> [L; S] {
        // SAFETY: as above.
        unsafe {
            let (mut even, mut odd) = ([L::zero(); N], [L::zero(); O]);
            for n in 0..N {
                even[n] = d[2 * n];
            }
            for n in 0..O {
                odd[n] = d[2 * n + 1];
            }
            joined(P::spread(even), odd)
        }
    }

    #[inline(always)]
    unsafe fn gathered<L: Lanes>(m: [L; S]) -> [L; O] {
        // SAFETY: as above.
        unsafe {
            let (pairs, odd) = parted::<L, S, N, O>(m);
            let mut y = P::gathered(pairs);
            for o in 0..O {
                y[o] = y[o].add(odd[o]);
            }
            y
        }
    }

    #[inline(always)]
    unsafe fn widened<L: Lanes>(y: [L; O]) -> [L; S] {
        // SAFETY: as above.
        unsafe { joined(P::widened(y), y) }
    }

    #[inline(always)]
    unsafe fn of_taps<L: Lanes>([a, b, c]: [L; 3]) -> [L; S] {
        // SAFETY: as above.
        unsafe { joined(P::of_taps([a, c]), [b; O]) }
    }

    #[inline(always)]
    unsafe fn to_taps<L: Lanes>(m: [L; S]) -> [L; 3] {
        // SAFETY: as above.
        unsafe {
            let (pairs, odd) = parted::<L, S, N, O>(m);
            let [a, c] = P::to_taps(pairs);
            [a, sum(odd), c]
        }
    }
}

/// The transpose of three taps at a stride of two, with a padding of one: outputs alternate between
/// products of the middle tap and sums of the two others.
pub struct Transposed<P, const HALF: usize>(P);

impl<P: Pair<N, HALF>, const N: usize, const I: usize, const O: usize, const HALF: usize> Axis<N, I, O, 3>
    for Transposed<P, HALF>
{
    const STEP: usize = HALF;
    const ENDS: bool = false;

    #[inline(always)]
    unsafe fn spread<L: Lanes>(d: [L; N]) -> [L; I] {
        // SAFETY: as above.
        unsafe {
            let mut alone = [L::zero(); HALF];
            alone.copy_from_slice(&d[..HALF]);
            joined(P::spread(d), alone)
        }
    }

    #[inline(always)]
    unsafe fn gathered<L: Lanes>(m: [L; I]) -> [L; O] {
        const { assert!(O == 2 * HALF) };
        // SAFETY: as above.
        unsafe {
            let (pairs, alone) = parted::<L, I, N, HALF>(m);
            let both = P::gathered(pairs);
            let mut y = [L::zero(); O];
            for o in 0..HALF {
                (y[2 * o], y[2 * o + 1]) = (alone[o], both[o]);
            }
            y
        }
    }

    #[inline(always)]
    unsafe fn widened<L: Lanes>(y: [L; O]) -> [L; I] {
        // SAFETY: as above.
        unsafe {
            let (mut alone, mut both) = ([L::zero(); HALF], [L::zero(); HALF]);
            for o in 0..HALF {
                (alone[o], both[o]) = (y[2 * o], y[2 * o + 1]);
            }
            joined(P::widened(both), alone)
        }
    }

    #[inline(always)]
    unsafe fn of_taps<L: Lanes>([a, b, c]: [L; 3]) -> [L; I] {
        // SAFETY: as above.
        unsafe { joined(P::of_taps([c, a]), [b; HALF]) }
    }

    #[inline(always)]
    unsafe fn to_taps<L: Lanes>(m: [L; I]) -> [L; 3] {
        // SAFETY: as above.
        unsafe {
            let (pairs, alone) = parted::<L, I, N, HALF>(m);
            let [c, a] = P::to_taps(pairs);
            [a, sum(alone), c]
        }
    }
}
