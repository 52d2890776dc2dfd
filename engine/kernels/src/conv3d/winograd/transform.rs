//! The transforms of Winograd's minimal filtering, over the planes and rows of a tile, written once
//! for every kind of [`Lanes`] and every [`Axis`].
//!
//! Over two axes, the components of one multiply those of the other: 36 components of six rows by
//! six replace 144 products. The weight's gradient uses the transposed transforms: the output
//! gradient replaces the outputs, and the products are added up before they are transformed into
//! taps.

#![expect(clippy::needless_range_loop, reason = "the indices are numbers of components, the same in several arrays")]

use std::sync::LazyLock;

use crate::lanes::{Lanes, Portable};

use super::super::blocked::WIDTH;
use super::axis::{Axis, Four, PairOfThree, PairOfTwo, Six, Strided, Transposed, Whole};

/// The numbers of source rows that a tile reads along one axis, of output rows that it computes,
/// and of taps of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub source: usize,
    pub components: usize,
    pub outputs: usize,
    pub taps: usize,
    /// The number of rows of the source between tiles.
    pub step: usize,
}

/// The ratio of outputs to values along the rows of the source, which are not transformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One output for each value.
    Each,
    /// One output for every two values: stride 2.
    Halved,
    /// Two outputs for each value: the input gradient of stride 2.
    Doubled,
}

/// The shape of a tile over planes and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// F(2 x 2, 3 x 3)
    Two,
    /// F(4 x 4, 3 x 3)
    Four,
    /// F(2 x 2, 5 x 5)
    TwoOfFive,
    /// F(4, 3) over rows only: kernels that are flat, as in 2-D.
    FlatFour,
    /// F(2, 5) over rows only.
    FlatTwoOfFive,
    /// F(2 x 2, 3 x 3) of stride 2
    StridedTwo,
    /// F(3 x 3, 3 x 3) of stride 2
    StridedThree,
    /// The transpose of stride 2, of two by two values of the source.
    TransposedTwo,
    /// The transpose of stride 2, of three by three.
    TransposedThree,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::Two,
        Kind::Four,
        Kind::TwoOfFive,
        Kind::FlatFour,
        Kind::FlatTwoOfFive,
        Kind::StridedTwo,
        Kind::StridedThree,
        Kind::TransposedTwo,
        Kind::TransposedThree,
    ];

    /// The sides along planes and along rows.
    pub const fn sides(self) -> [Side; 2] {
        match self {
            Kind::Two => TwoTile::SIDES,
            Kind::Four => FourTile::SIDES,
            Kind::TwoOfFive => TwoOfFiveTile::SIDES,
            Kind::FlatFour => FlatFourTile::SIDES,
            Kind::FlatTwoOfFive => FlatTwoOfFiveTile::SIDES,
            Kind::StridedTwo => StridedTwoTile::SIDES,
            Kind::StridedThree => StridedThreeTile::SIDES,
            Kind::TransposedTwo => TransposedTwoTile::SIDES,
            Kind::TransposedThree => TransposedThreeTile::SIDES,
        }
    }

    /// The pace along planes, rows, and within the rows.
    pub const fn pace(self) -> Pace {
        match self {
            Kind::StridedTwo | Kind::StridedThree => Pace::Halved,
            Kind::TransposedTwo | Kind::TransposedThree => Pace::Doubled,
            _ => Pace::Each,
        }
    }

    /// The number of products of a tile, for each tap along the row.
    pub const fn components(self) -> usize {
        let [planes, rows] = self.sides();
        planes.components * rows.components
    }

    /// The number of rows of outputs of a tile.
    pub const fn outputs(self) -> usize {
        let [planes, rows] = self.sides();
        planes.outputs * rows.outputs
    }

    /// The number of taps over planes and rows.
    pub const fn taps(self) -> usize {
        let [planes, rows] = self.sides();
        planes.taps * rows.taps
    }
}

/// Transforms rows of `count` values of the source to the components of consecutive tiles. For each
/// row that they read, `rows` has as many entries as a tile reads planes; each tile starts reading
/// after the outputs of the previous one, and component `c` of tile `t` is written to
/// `to[t * steps.0 + c * steps.1..]`. `odd`, sixteen values, becomes nonzero where a value is not
/// finite.
///
/// # Safety
/// There are rows for whole tiles, of `count` values each; `to` has space for `count` values in
/// each component, and `odd` has sixteen values.
pub type Source = unsafe fn(rows: &[*const f32], count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32);

/// Transforms components of registers, `step` apart, to rows of sums, `to_steps.0` apart, with a
/// bias added: at each of `count` positions as many registers as `bias` has. Positions within a row
/// are `to_steps.1` apart.
///
/// # Safety
/// `from` and `to` hold that many registers from each of their starts, and `bias` has whole
/// registers.
pub type Outputs =
    unsafe fn(from: *const f32, step: usize, count: usize, bias: &[f32], to: *mut f32, to_steps: (usize, usize));

/// Transforms rows of the output gradient, `count` registers each and `from_step` apart, to
/// components; `steps` are the distances of components, and of registers in each. `odd` is as for
/// [`Source`].
///
/// # Safety
/// `from` and `to` hold `count` registers from each of their starts, and `odd` has sixteen values.
pub type Gradient =
    unsafe fn(from: *const f32, from_step: usize, count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32);

/// Transforms the taps of sixteen lanes to components: the first `run.1` of the `run.0` along the
/// row, for each plane and row of the kernel. `steps` are the distances of components, and of the
/// taps in each. `odd` is as for [`Source`].
///
/// # Safety
/// `taps` has a register for each tap, `to` holds a register from each start, and `odd` has sixteen
/// values.
pub type Weights = unsafe fn(taps: *const f32, run: (usize, usize), to: *mut f32, steps: (usize, usize), odd: *mut f32);

/// Transforms the gradients of components to those of taps: the transpose of [`Weights`].
///
/// # Safety
/// Same as for [`Weights`].
pub type Taps = unsafe fn(from: *const f32, steps: (usize, usize), taps: *mut f32, run: (usize, usize));

/// The transforms of one kind of tile.
#[derive(Clone, Copy)]
pub struct Transforms {
    pub source: Source,
    pub outputs: Outputs,
    pub gradient: Gradient,
    pub weights: Weights,
    pub taps: Taps,
}

/// The transforms of one kind of CPU.
pub struct Every([Transforms; Kind::ALL.len()]);

impl Every {
    /// The transforms of one kind of tile.
    pub fn of(&self, kind: Kind) -> &Transforms {
        &self.0[kind as usize]
    }
}

/// The loops for this CPU.
pub static TRANSFORMS: LazyLock<Every> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return avx512::TRANSFORMS;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return avx2::TRANSFORMS;
        }
    }
    #[cfg(target_arch = "aarch64")]
    return neon::TRANSFORMS;
    #[cfg(not(target_arch = "aarch64"))]
    portable::TRANSFORMS
});

// SAFETY (all blocks below): the caller guarantees the instructions of this kind and the ranges
// described at the function types.

/// Adds zero to `odd` unless one of the values is not finite: a non-finite value times zero is NaN.
#[inline(always)]
unsafe fn watch<L: Lanes, const N: usize>(odd: *mut f32, values: [L; N]) {
    // SAFETY: as above.
    unsafe {
        let mut seen = L::load(odd);
        for value in values {
            seen = seen.fma(value, L::zero());
        }
        seen.store(odd);
    }
}

/// The transforms over planes and rows; for each axis, the numbers of source rows, components,
/// output rows and taps.
struct Over<
    P,
    R,
    const PS: usize,
    const PI: usize,
    const PO: usize,
    const PK: usize,
    const RS: usize,
    const RI: usize,
    const RO: usize,
    const RK: usize,
>(P, R);

type TwoTile = Over<Four, Four, 4, 4, 2, 3, 4, 4, 2, 3>;
type FourTile = Over<Six, Six, 6, 6, 4, 3, 6, 6, 4, 3>;
type TwoOfFiveTile = Over<Six, Six, 6, 6, 2, 5, 6, 6, 2, 5>;
type FlatFourTile = Over<Whole, Six, 1, 1, 1, 1, 6, 6, 4, 3>;
type FlatTwoOfFiveTile = Over<Whole, Six, 1, 1, 1, 1, 6, 6, 2, 5>;
type StridedTwoTile = Over<Strided<PairOfTwo, 3>, Strided<PairOfTwo, 3>, 5, 5, 2, 3, 5, 5, 2, 3>;
type StridedThreeTile = Over<Strided<PairOfThree, 4>, Strided<PairOfThree, 4>, 7, 7, 3, 3, 7, 7, 3, 3>;
type TransposedTwoTile = Over<Transposed<PairOfTwo, 2>, Transposed<PairOfTwo, 2>, 3, 5, 4, 3, 3, 5, 4, 3>;
type TransposedThreeTile = Over<Transposed<PairOfThree, 3>, Transposed<PairOfThree, 3>, 4, 7, 6, 3, 4, 7, 6, 3>;

impl<
    P,
    R,
    const PS: usize,
    const PI: usize,
    const PO: usize,
    const PK: usize,
    const RS: usize,
    const RI: usize,
    const RO: usize,
    const RK: usize,
> Over<P, R, PS, PI, PO, PK, RS, RI, RO, RK>
where
    P: Axis<PS, PI, PO, PK>,
    R: Axis<RS, RI, RO, RK>,
{
    /// The sides along planes and along rows.
    const SIDES: [Side; 2] = [
        Side { source: PS, components: PI, outputs: PO, taps: PK, step: P::STEP },
        Side { source: RS, components: RI, outputs: RO, taps: RK, step: R::STEP },
    ];

    /// The planes of a row at one position, transformed.
    #[inline(always)]
    unsafe fn planes<L: Lanes>(rows: &[*const f32; PS], at: usize, here: usize, odd: *mut f32) -> [L; PI] {
        // SAFETY: as above.
        unsafe {
            let mut d = [L::zero(); PS];
            for x in 0..PS {
                let from = rows[x].add(at);
                d[x] = if here == WIDTH { L::load(from) } else { L::load_first(from, here) };
            }
            let components = P::spread(d);
            if P::ENDS {
                // Each row is included in one of these, and a difference cannot hide a non-finite
                // value.
                watch(odd, [components[0], components[PI - 1]]);
            } else {
                watch(odd, d);
            }
            components
        }
    }

    #[inline(always)]
    unsafe fn source<L: Lanes>(
        rows: &[*const f32],
        count: usize,
        to: *mut f32,
        (tile, step): (usize, usize),
        odd: *mut f32,
    ) {
        let rows = rows.as_chunks::<PS>().0;
        // SAFETY: as above.
        unsafe {
            let mut at = 0;
            while at < count {
                let here = (count - at).min(WIDTH);
                let (first, rest) = rows.split_at(RS - R::STEP);
                // The last rows of a tile are the first of the next.
                let mut window = [[L::zero(); PI]; RS];
                for y in 0..RS - R::STEP {
                    window[y] = Self::planes(&first[y], at, here, odd);
                }
                for (index, rows) in rest.chunks_exact(R::STEP).enumerate() {
                    for y in 0..R::STEP {
                        window[RS - R::STEP + y] = Self::planes(&rows[y], at, here, odd);
                    }
                    let to = to.add(index * tile + at);
                    for x in 0..PI {
                        let mut column = [L::zero(); RS];
                        for y in 0..RS {
                            column[y] = window[y][x];
                        }
                        let components = R::spread(column);
                        for y in 0..RI {
                            let to = to.add((x * RI + y) * step);
                            if here == WIDTH { components[y].store(to) } else { components[y].store_first(to, here) }
                        }
                    }
                    for y in 0..RS - R::STEP {
                        window[y] = window[y + R::STEP];
                    }
                }
                at += WIDTH;
            }
        }
    }

    #[inline(always)]
    unsafe fn outputs<L: Lanes>(
        from: *const f32,
        step: usize,
        count: usize,
        bias: &[f32],
        to: *mut f32,
        (row, apart): (usize, usize),
    ) {
        // SAFETY: as above.
        unsafe {
            let lanes = bias.len();
            for vector in (0..lanes).step_by(WIDTH) {
                let bias = L::load(bias.as_ptr().add(vector));
                for position in 0..count {
                    let from = from.add(position * lanes + vector);
                    let to = to.add(position * apart * lanes + vector);
                    let mut half = [[L::zero(); RO]; PI];
                    for i in 0..PI {
                        let mut m = [L::zero(); RI];
                        for j in 0..RI {
                            m[j] = L::load(from.add((i * RI + j) * step));
                        }
                        half[i] = R::gathered(m);
                    }
                    for j in 0..RO {
                        let mut column = [L::zero(); PI];
                        for i in 0..PI {
                            column[i] = half[i][j];
                        }
                        let y = P::gathered(column);
                        for i in 0..PO {
                            y[i].add(bias).store(to.add((i * RO + j) * row));
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn gradient<L: Lanes>(
        from: *const f32,
        from_step: usize,
        count: usize,
        to: *mut f32,
        (step, each): (usize, usize),
        odd: *mut f32,
    ) {
        // SAFETY: as above.
        unsafe {
            for register in 0..count {
                let mut columns = [[L::zero(); PI]; RO];
                for j in 0..RO {
                    let mut y = [L::zero(); PO];
                    for i in 0..PO {
                        y[i] = L::load(from.add((i * RO + j) * from_step + register * WIDTH));
                    }
                    watch(odd, y);
                    columns[j] = P::widened(y);
                }
                for i in 0..PI {
                    let mut row = [L::zero(); RO];
                    for j in 0..RO {
                        row[j] = columns[j][i];
                    }
                    let row = R::widened(row);
                    for j in 0..RI {
                        row[j].store(to.add((i * RI + j) * step + register * each));
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn weights<L: Lanes>(
        taps: *const f32,
        (row, count): (usize, usize),
        to: *mut f32,
        (step, each): (usize, usize),
        odd: *mut f32,
    ) {
        // SAFETY: as above.
        unsafe {
            for n in 0..count {
                let mut columns = [[L::zero(); PI]; RK];
                for j in 0..RK {
                    let mut g = [L::zero(); PK];
                    for i in 0..PK {
                        g[i] = L::load(taps.add(((i * RK + j) * row + n) * WIDTH));
                    }
                    watch(odd, g);
                    columns[j] = P::of_taps(g);
                }
                for i in 0..PI {
                    let mut row = [L::zero(); RK];
                    for j in 0..RK {
                        row[j] = columns[j][i];
                    }
                    let row = R::of_taps(row);
                    for j in 0..RI {
                        row[j].store(to.add((i * RI + j) * step + n * each));
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn taps<L: Lanes>(
        from: *const f32,
        (step, each): (usize, usize),
        taps: *mut f32,
        (row, count): (usize, usize),
    ) {
        // SAFETY: as above.
        unsafe {
            for n in 0..count {
                let mut half = [[L::zero(); RK]; PI];
                for i in 0..PI {
                    let mut m = [L::zero(); RI];
                    for j in 0..RI {
                        m[j] = L::load(from.add((i * RI + j) * step + n * each));
                    }
                    half[i] = R::to_taps(m);
                }
                for j in 0..RK {
                    let mut column = [L::zero(); PI];
                    for i in 0..PI {
                        column[i] = half[i][j];
                    }
                    let g = P::to_taps(column);
                    for i in 0..PK {
                        g[i].store(taps.add(((i * RK + j) * row + n) * WIDTH));
                    }
                }
            }
        }
    }
}

/// Makes the transforms of one kind of lanes and one kind of tile.
macro_rules! tile {
    ($name:ident, $lanes:ty, $over:ty, $(#[$feature:meta])?) => {
        mod $name {
            use super::super::*;

            $(#[$feature])?
            unsafe fn source(rows: &[*const f32], count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32) {
                // SAFETY: the caller guarantees the ranges; these loops are used only where the
                // instructions are available.
                unsafe { <$over>::source::<$lanes>(rows, count, to, steps, odd) }
            }

            $(#[$feature])?
            unsafe fn outputs(
                from: *const f32, step: usize, count: usize, bias: &[f32], to: *mut f32, to_steps: (usize, usize),
            ) {
                // SAFETY: as above.
                unsafe { <$over>::outputs::<$lanes>(from, step, count, bias, to, to_steps) }
            }

            $(#[$feature])?
            unsafe fn gradient(
                from: *const f32, from_step: usize, count: usize, to: *mut f32, steps: (usize, usize), odd: *mut f32,
            ) {
                // SAFETY: as above.
                unsafe { <$over>::gradient::<$lanes>(from, from_step, count, to, steps, odd) }
            }

            $(#[$feature])?
            unsafe fn weights(
                taps: *const f32, run: (usize, usize), to: *mut f32, steps: (usize, usize), odd: *mut f32,
            ) {
                // SAFETY: as above.
                unsafe { <$over>::weights::<$lanes>(taps, run, to, steps, odd) }
            }

            $(#[$feature])?
            unsafe fn taps(from: *const f32, steps: (usize, usize), taps: *mut f32, run: (usize, usize)) {
                // SAFETY: as above.
                unsafe { <$over>::taps::<$lanes>(from, steps, taps, run) }
            }

            pub const TRANSFORMS: Transforms = Transforms { source, outputs, gradient, weights, taps };
        }
    };
}

/// Makes the transforms of one kind of lanes.
macro_rules! transforms {
    ($name:ident, $lanes:ty, $(#[$feature:meta])?) => {
        mod $name {
            use super::Every;

            tile!(two, $lanes, TwoTile, $(#[$feature])?);
            tile!(four, $lanes, FourTile, $(#[$feature])?);
            tile!(two_of_five, $lanes, TwoOfFiveTile, $(#[$feature])?);
            tile!(flat_four, $lanes, FlatFourTile, $(#[$feature])?);
            tile!(flat_two_of_five, $lanes, FlatTwoOfFiveTile, $(#[$feature])?);
            tile!(strided_two, $lanes, StridedTwoTile, $(#[$feature])?);
            tile!(strided_three, $lanes, StridedThreeTile, $(#[$feature])?);
            tile!(transposed_two, $lanes, TransposedTwoTile, $(#[$feature])?);
            tile!(transposed_three, $lanes, TransposedThreeTile, $(#[$feature])?);

            /// The transforms, in the order of [`Kind::ALL`](super::Kind::ALL).
            pub const TRANSFORMS: Every = Every([
                two::TRANSFORMS,
                four::TRANSFORMS,
                two_of_five::TRANSFORMS,
                flat_four::TRANSFORMS,
                flat_two_of_five::TRANSFORMS,
                strided_two::TRANSFORMS,
                strided_three::TRANSFORMS,
                transposed_two::TRANSFORMS,
                transposed_three::TRANSFORMS,
            ]);
        }
    };
}

#[cfg(target_arch = "x86_64")]
transforms!(avx512, crate::lanes::Avx512, #[target_feature(enable = "avx512f")]);

#[cfg(target_arch = "x86_64")]
transforms!(avx2, crate::lanes::Avx2, #[target_feature(enable = "avx2,fma")]);

#[cfg(target_arch = "aarch64")]
transforms!(neon, crate::lanes::Neon,);

#[cfg(any(test, not(target_arch = "aarch64")))]
transforms!(portable, Portable,);

#[cfg(test)]
pub mod every {
    //! All transforms that this machine can run, for tests that compare them.
    use super::Every;

    /// The transforms, in the same order as the other loops.
    pub fn runnable() -> Vec<Every> {
        let mut found = vec![super::portable::TRANSFORMS];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(super::avx2::TRANSFORMS);
            }
            if is_x86_feature_detected!("avx512f") {
                found.push(super::avx512::TRANSFORMS);
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(super::neon::TRANSFORMS);
        found
    }
}
