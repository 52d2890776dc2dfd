//! Inverts predictors: horizontal differences (2) and the byte planes of floating point values (3).

/// Inverts horizontal differences in one row of samples of `bytes` bytes, `samples` per pixel.
pub(crate) fn horizontal(row: &mut [u8], samples: usize, bytes: usize) {
    match bytes {
        1 => match samples {
            3 => pixels::<3>(row),
            4 => pixels::<4>(row),
            _ => sums(row, samples, u8::wrapping_add),
        },
        2 => wide(row, samples, u16::from_ne_bytes, u16::to_ne_bytes, u16::wrapping_add),
        4 => wide(row, samples, u32::from_ne_bytes, u32::to_ne_bytes, u32::wrapping_add),
        _ => wide(row, samples, u64::from_ne_bytes, u64::to_ne_bytes, u64::wrapping_add),
    }
}

/// Pixels of a few bytes, kept in registers.
fn pixels<const N: usize>(row: &mut [u8]) {
    let mut last = [0u8; N];
    for pixel in row.chunks_exact_mut(N) {
        for (sample, last) in pixel.iter_mut().zip(&mut last) {
            *last = sample.wrapping_add(*last);
            *sample = *last;
        }
    }
}

fn sums<T: Copy>(row: &mut [T], samples: usize, add: impl Fn(T, T) -> T) {
    for i in samples..row.len() {
        row[i] = add(row[i], row[i - samples]);
    }
}

/// The bytes of a row need not be aligned for the type.
fn wide<T, const N: usize>(
    row: &mut [u8],
    samples: usize,
    from: impl Fn([u8; N]) -> T,
    to: impl Fn(T) -> [u8; N],
    add: impl Fn(T, T) -> T,
) {
    let (row, _) = row.as_chunks_mut::<N>();
    sums(row, samples, |a, b| to(add(from(a), from(b))));
}

/// Inverts byte planes in one row: differences of bytes, most significant bytes of all samples
/// first. The result is in the machine's byte order.
pub(crate) fn floating(row: &mut [u8], samples: usize, bytes: usize) {
    sums(row, samples, u8::wrapping_add);
    let planes = row.to_vec();
    let count = row.len() / bytes;
    for (i, value) in row.chunks_exact_mut(bytes).enumerate() {
        for (byte, out) in value.iter_mut().enumerate() {
            let plane = if cfg!(target_endian = "little") { bytes - 1 - byte } else { byte };
            *out = planes[plane * count + i];
        }
    }
}
