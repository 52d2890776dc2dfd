//! Converts between stored values (first axis fastest, any type) and f32 tensors (last axis
//! fastest).

use rayon::prelude::*;

use super::DataType;

/// Edge of the tiles that are transposed at a time: one cache line of f32.
const TILE: usize = 16;

/// Runs a body with the size of a stored value and the function that reads one.
macro_rules! each_type {
    ($data_type:expr, $big:expr, $scaling:expr, |$size:ident, $read:ident| $body:expr) => {{
        let scaling: Option<(f64, f64)> = $scaling.filter(|s| *s != (1.0, 0.0));
        macro_rules! of {
            ($type:ty) => {{
                const $size: usize = size_of::<$type>();
                let little = |b: [u8; $size]| <$type>::from_le_bytes(b);
                let big = |b: [u8; $size]| <$type>::from_be_bytes(b);
                // Scaled in f64 and rounded once, as in nibabel and MONAI.
                match ($big, scaling) {
                    (false, None) => {
                        let $read = |b: [u8; $size]| little(b) as f32;
                        $body
                    }
                    (true, None) => {
                        let $read = |b: [u8; $size]| big(b) as f32;
                        $body
                    }
                    (false, Some((slope, inter))) => {
                        let $read = |b: [u8; $size]| (little(b) as f64 * slope + inter) as f32;
                        $body
                    }
                    (true, Some((slope, inter))) => {
                        let $read = |b: [u8; $size]| (big(b) as f64 * slope + inter) as f32;
                        $body
                    }
                }
            }};
        }
        match $data_type {
            DataType::U8 => of!(u8),
            DataType::I8 => of!(i8),
            DataType::U16 => of!(u16),
            DataType::I16 => of!(i16),
            DataType::U32 => of!(u32),
            DataType::I32 => of!(i32),
            DataType::U64 => of!(u64),
            DataType::I64 => of!(i64),
            DataType::F32 => of!(f32),
            DataType::F64 => of!(f64),
        }
    }};
}

/// The whole numbers that f32 holds without gaps.
const WITHOUT_GAPS: u64 = 1 << 24;

/// Fails for a whole number that f32 cannot hold: two labels must not become one.
pub(crate) fn check_whole(value: i128) -> Result<(), String> {
    if value as f32 as i128 == value {
        return Ok(());
    }
    Err(format!(
        "the value {value} would become {}: values are held as float32, which has every whole number up to 2^24 \
         ({WITHOUT_GAPS}) only; renumber the labels, or store intensities as float32",
        value as f32
    ))
}

/// Applies [`check_whole`] to stored values.
fn check_stored(bytes: &[u8], data_type: DataType, big: bool) -> Result<(), String> {
    macro_rules! check {
        ($type:ty, $size:expr) => {{
            let read =
                |raw: &[u8; $size]| if big { <$type>::from_be_bytes(*raw) } else { <$type>::from_le_bytes(*raw) };
            let rounded = |value: &$type| {
                let small = -(WITHOUT_GAPS as i128)..=WITHOUT_GAPS as i128;
                !small.contains(&(*value as i128)) && check_whole(*value as i128).is_err()
            };
            bytes.as_chunks::<$size>().0.par_iter().map(read).find_first(rounded).map(|value| value as i128)
        }};
    }
    let found = match data_type {
        DataType::U32 => check!(u32, 4),
        DataType::I32 => check!(i32, 4),
        DataType::U64 => check!(u64, 8),
        DataType::I64 => check!(i64, 8),
        _ => None,
    };
    found.map_or(Ok(()), check_whole)
}

/// Whether values are stored as they are.
fn unscaled(scaling: Option<(f64, f64)>) -> bool {
    scaling.is_none_or(|scaling| scaling == (1.0, 0.0))
}

/// Reads values into row-major `[channels, x, y, z]`, with threads over `x`.
///
/// `bytes` must hold `channels * x * y * z` values.
///
/// # Errors
/// A whole number that f32 cannot hold, unless it is scaled.
pub(crate) fn unpack(
    bytes: &[u8],
    data_type: DataType,
    big_endian: bool,
    scaling: Option<(f64, f64)>,
    shape: [usize; 4],
) -> Result<Vec<f32>, String> {
    if unscaled(scaling) {
        check_stored(bytes, data_type, big_endian)?;
    }
    Ok(each_type!(data_type, big_endian, scaling, |SIZE, read| transpose::<SIZE>(bytes, shape, read)))
}

/// Reads values in the order of the file, with threads over parts of it.
///
/// # Errors
/// Those of [`unpack`].
pub(crate) fn in_order(
    bytes: &[u8],
    data_type: DataType,
    big_endian: bool,
    scaling: Option<(f64, f64)>,
) -> Result<Vec<f32>, String> {
    if unscaled(scaling) {
        check_stored(bytes, data_type, big_endian)?;
    }
    Ok(each_type!(data_type, big_endian, scaling, |SIZE, read| {
        bytes.par_chunks_exact(SIZE).map(|raw| read(std::array::from_fn(|i| raw[i]))).collect()
    }))
}

fn transpose<const SIZE: usize>(
    bytes: &[u8],
    [channels, nx, ny, nz]: [usize; 4],
    read: impl Fn([u8; SIZE]) -> f32 + Sync,
) -> Vec<f32> {
    let mut out = vec![0.0_f32; channels * nx * ny * nz];
    if out.is_empty() {
        return out;
    }
    let volume = nx * ny * nz;
    for (c, target) in out.chunks_exact_mut(volume).enumerate() {
        let source = &bytes[c * volume * SIZE..][..volume * SIZE];
        target.par_chunks_mut(TILE * ny * nz).enumerate().for_each(|(block, slab)| {
            let x0 = block * TILE;
            let width = TILE.min(nx - x0);
            let mut tile = [[0.0_f32; TILE]; TILE];
            for y in 0..ny {
                for z0 in (0..nz).step_by(TILE) {
                    let depth = TILE.min(nz - z0);
                    for (z, column) in tile.iter_mut().enumerate().take(depth) {
                        let line = &source[(((z0 + z) * ny + y) * nx + x0) * SIZE..][..width * SIZE];
                        for (value, raw) in column.iter_mut().zip(line.as_chunks::<SIZE>().0) {
                            *value = read(*raw);
                        }
                    }
                    for x in 0..width {
                        let row = &mut slab[(x * ny + y) * nz + z0..][..depth];
                        for (value, column) in row.iter_mut().zip(&tile) {
                            *value = column[x];
                        }
                    }
                }
            }
        });
    }
    out
}

/// Writes row-major `[channels, x, y, z]` as stored values, little endian.
///
/// # Errors
/// Where a value does not fit an integer type.
pub(crate) fn pack(
    values: &[f32],
    data_type: DataType,
    scaling: Option<(f64, f64)>,
    [channels, nx, ny, nz]: [usize; 4],
) -> Result<Vec<u8>, String> {
    let (slope, inter) = scaling.unwrap_or((1.0, 0.0));
    let mut out = Vec::with_capacity(values.len() * data_type.size());
    macro_rules! pack {
        (float $type:ty) => {{
            for_each(channels, nx, ny, nz, |i| {
                let value = values[i];
                let stored = if scaling.is_some() { (f64::from(value) - inter) / slope } else { f64::from(value) };
                out.extend_from_slice(&(stored as $type).to_le_bytes());
                Ok(())
            })
        }};
        (integer $type:ty) => {{
            for_each(channels, nx, ny, nz, |i| {
                let stored = ((f64::from(values[i]) - inter) / slope).round_ties_even();
                if !(stored >= <$type>::MIN as f64 && stored <= <$type>::MAX as f64) {
                    return Err(format!("the value {} does not fit {}", values[i], data_type.name()));
                }
                out.extend_from_slice(&(stored as $type).to_le_bytes());
                Ok(())
            })
        }};
    }
    match data_type {
        DataType::U8 => pack!(integer u8),
        DataType::I8 => pack!(integer i8),
        DataType::U16 => pack!(integer u16),
        DataType::I16 => pack!(integer i16),
        DataType::U32 => pack!(integer u32),
        DataType::I32 => pack!(integer i32),
        DataType::U64 => pack!(integer u64),
        DataType::I64 => pack!(integer i64),
        DataType::F32 => pack!(float f32),
        DataType::F64 => pack!(float f64),
    }?;
    Ok(out)
}

/// The row-major index of each value in file order.
fn for_each(
    channels: usize,
    nx: usize,
    ny: usize,
    nz: usize,
    mut each: impl FnMut(usize) -> Result<(), String>,
) -> Result<(), String> {
    for c in 0..channels {
        for z in 0..nz {
            for y in 0..ny {
                for x in 0..nx {
                    each(((c * nx + x) * ny + y) * nz + z)?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_values_unpack(shape in (1usize..3, 1usize..40, 1usize..5, 1usize..40), big: bool) {
            let shape = [shape.0, shape.1, shape.2, shape.3];
            let n = shape.iter().product::<usize>();
            let values: Vec<f32> = (0..n).map(|i| (i % 251) as f32 - 100.0).collect();
            let mut bytes = pack(&values, DataType::I16, None, shape).expect("they fit");
            if big {
                bytes.chunks_exact_mut(2).for_each(|b| b.swap(0, 1));
            }
            prop_assert_eq!(unpack(&bytes, DataType::I16, big, None, shape), Ok(values));
        }
    }

    #[test]
    fn the_first_axis_is_fastest_in_the_file() {
        let got = unpack(&[0, 1, 2, 3, 4, 5], DataType::U8, false, Some((2.0, 1.0)), [1, 3, 2, 1]);
        assert_eq!(got.expect("values"), [1.0, 7.0, 3.0, 9.0, 5.0, 11.0]);
        let got = in_order(&[0, 1, 2, 0], DataType::U16, true, Some((2.0, 1.0)));
        assert_eq!(got.expect("values"), [3.0, 1025.0]);
    }

    #[test]
    fn whole_numbers_are_held_or_refused() {
        let even = (1_i32 << 24) + 2;
        for (value, held) in [(1 << 24, true), (even, true), (even - 1, false), (1 - even, false), (i32::MIN, true)] {
            let read = in_order(&value.to_be_bytes(), DataType::I32, true, None);
            assert_eq!(read.is_ok(), held, "{value}");
            if let Err(error) = read {
                assert!(error.contains(&value.to_string()), "{error}");
            }
        }
        let most = u32::MAX.to_le_bytes();
        assert!(in_order(&most, DataType::U32, false, None).is_err());
        assert!(in_order(&most, DataType::U32, false, Some((0.5, 0.0))).is_ok(), "a scaled value is no label");
        assert!(in_order(&u64::MAX.to_le_bytes(), DataType::U64, false, Some((1.0, 0.0))).is_err());
        assert!(unpack(&(i64::MAX - 1).to_le_bytes(), DataType::I64, false, None, [1; 4]).is_err());
        assert!(unpack(&i64::MIN.to_le_bytes(), DataType::I64, false, None, [1; 4]).is_ok());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = pack(&[256.0], DataType::U8, None, [1; 4]).expect_err("too large");
        assert!(error.contains("256") && error.contains("uint8"), "{error}");
        assert!(pack(&[f32::NAN], DataType::I16, None, [1; 4]).is_err());
    }
}
