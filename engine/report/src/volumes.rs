//! Volumes for the page's viewer, reduced to fit.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// The maximum number of voxels of a volume on a page; a larger volume is reduced.
const VOXELS: usize = 3 << 20;

/// The number of values between the ends of a window, which is enough for a screen. The same number is
/// stored on either side, so that the window can be moved.
const WINDOW_STEPS: f32 = 85.0;

/// A volume of a case with label maps over it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The index of the run in the report, from 0.
    pub run: usize,
    /// The case's name.
    pub case: String,
    /// The number of voxels towards the patient's right, front and head.
    pub size: [usize; 3],
    /// The voxel spacing in mm.
    pub spacing: [f64; 3],
    /// The values, with the last axis fastest.
    pub values: Vec<f32>,
    /// The initial values of black and white.
    pub window: [f32; 2],
    /// Label maps over the volume: their names, and the class of each voxel in the order of `values`.
    pub layers: Vec<(String, Vec<u8>)>,
    /// The names of the classes, the background first.
    pub classes: Vec<String>,
}

/// A volume in the form that is embedded in the page.
pub struct Embedded {
    /// The index of the run.
    pub run: usize,
    /// The case's name.
    pub case: String,
    /// The number of voxels on the page.
    pub size: [usize; 3],
    /// The voxel spacing on the page in mm.
    pub spacing: [f64; 3],
    /// The number of voxels along each axis that become one on the page.
    pub factors: [usize; 3],
    /// The values of 0 and 255 in the volume.
    pub range: [f32; 2],
    /// The initial values of black and white.
    pub window: [f32; 2],
    /// The values, gzipped, as base64.
    pub values: String,
    /// Label maps: their names, and their classes, encoded as `values`.
    pub layers: Vec<(String, String)>,
    /// The names of the classes.
    pub classes: Vec<String>,
}

/// The volumes to embed, and notes about those that exceed `budget` bytes, or whose parts differ in
/// size.
pub fn embed(volumes: &[Volume], budget: usize) -> (Vec<Embedded>, Vec<String>) {
    let (mut embedded, mut notes, mut left) = (Vec::new(), Vec::new(), budget);
    for volume in volumes {
        match packed(volume, left) {
            Ok((one, bytes)) => {
                left -= bytes;
                embedded.push(one);
            }
            Err(why) => notes.push(format!("The volume of {} is left out: {why}", volume.case)),
        }
    }
    (embedded, notes)
}

/// Packs a volume with as much detail as fits.
fn packed(volume: &Volume, room: usize) -> Result<(Embedded, usize), String> {
    let count = volume.size.iter().try_fold(1_usize, |count, side| count.checked_mul(*side)).unwrap_or(0);
    let whole = count > 0 && volume.values.len() == count && volume.layers.iter().all(|(_, map)| map.len() == count);
    let [low, high] = volume.window;
    if !(whole && low < high && (high - low).is_finite()) {
        return Err(format!("it has no voxels of {:?}, its label maps have others, or no window", volume.size));
    }
    let mut factors = [1; 3];
    loop {
        let size = reduced(volume.size, factors);
        if size.iter().product::<usize>() <= VOXELS {
            let one = at(volume, factors)?;
            let bytes = one.values.len() + one.layers.iter().map(|(_, map)| map.len()).sum::<usize>();
            if bytes <= room {
                return Ok((one, bytes));
            }
            if size.iter().product::<usize>() < 1 << 12 {
                return Err("there are too many for one page; choose fewer cases".to_owned());
            }
        }
        // The axis with the smallest spacing loses the least detail.
        let step = |axis: usize| volume.spacing[axis] * factors[axis] as f64;
        let finest = (0..3).filter(|axis| size[*axis] > 1).min_by(|a, b| step(*a).total_cmp(&step(*b))).unwrap_or(0);
        factors[finest] += 1;
    }
}

fn reduced(size: [usize; 3], factors: [usize; 3]) -> [usize; 3] {
    [0, 1, 2].map(|axis| size[axis].div_ceil(factors[axis]))
}

/// A volume reduced by these factors along each axis: the mean of the voxels, and for label maps the
/// voxel in the middle.
fn at(volume: &Volume, factors: [usize; 3]) -> Result<Embedded, String> {
    let [low, high] = volume.window;
    let step = (high - low) / WINDOW_STEPS;
    let range = [low - step * WINDOW_STEPS, high + step * WINDOW_STEPS];
    let byte = |value: f32| {
        let share = (value - range[0]) / (range[1] - range[0]) * 255.0;
        // Non-finite values are black.
        if share.is_nan() { 0 } else { share.round().clamp(0.0, 255.0) as u8 }
    };
    let [_, ny, nz] = volume.size;
    let index = |x: usize, y: usize, z: usize| (x * ny + y) * nz + z;
    let size = reduced(volume.size, factors);
    let extent = |place: usize, axis: usize| {
        let from = place * factors[axis];
        from..(from + factors[axis]).min(volume.size[axis])
    };
    let mut values = Vec::with_capacity(size.iter().product());
    let mut layers: Vec<Vec<u8>> = volume.layers.iter().map(|_| Vec::with_capacity(values.capacity())).collect();
    for x in 0..size[0] {
        for y in 0..size[1] {
            for z in 0..size[2] {
                let [xs, ys, zs] = [extent(x, 0), extent(y, 1), extent(z, 2)];
                let middle = index(xs.start + xs.len() / 2, ys.start + ys.len() / 2, zs.start + zs.len() / 2);
                let (mut sum, mut count) = (0.0, 0.0);
                for x in xs {
                    for y in ys.clone() {
                        for z in zs.clone() {
                            sum += f64::from(volume.values[index(x, y, z)]);
                            count += 1.0;
                        }
                    }
                }
                values.push(byte((sum / count) as f32));
                for (kept, (_, map)) in layers.iter_mut().zip(&volume.layers) {
                    kept.push(map[middle]);
                }
            }
        }
    }
    let names = volume.layers.iter().map(|(name, _)| name.clone());
    let maps = layers.iter().map(|map| gzipped(map)).collect::<Result<Vec<_>, _>>()?;
    Ok(Embedded {
        run: volume.run,
        case: volume.case.clone(),
        size,
        spacing: [0, 1, 2].map(|axis| volume.spacing[axis] * factors[axis] as f64),
        factors,
        range,
        window: volume.window,
        values: gzipped(&values)?,
        layers: names.zip(maps).collect(),
        classes: volume.classes.clone(),
    })
}

fn gzipped(bytes: &[u8]) -> Result<String, String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    let done = packed.write_all(bytes).and_then(|()| packed.finish());
    done.map(|packed| STANDARD.encode(packed)).map_err(|error| format!("it cannot be packed ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    /// Noise that cannot be compressed (the end of SplitMix64).
    fn noise(at: u64) -> u64 {
        let x = (at ^ (at >> 30)).wrapping_add(1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn volume(size: [usize; 3]) -> Volume {
        let count = size.iter().product::<usize>();
        Volume {
            run: 0,
            case: "a".into(),
            size,
            spacing: [1.0, 1.0, 3.0],
            values: (0..count as u64).map(|at| (noise(at) % 1000) as f32 - 200.0).collect(),
            window: [-200.0, 300.0],
            layers: vec![("label".into(), (0..count).map(|at| u8::from(at % 50 > 25)).collect())],
            classes: vec!["background".into(), "spleen".into()],
        }
    }

    fn unpacked(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let packed = STANDARD.decode(text).expect("base64");
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("gzip");
        bytes
    }

    #[test]
    fn a_small_volume_is_whole_and_its_window_can_be_moved() {
        let whole = volume([5, 4, 3]);
        let (embedded, notes) = embed(std::slice::from_ref(&whole), 1 << 20);
        assert!(notes.is_empty(), "{notes:?}");
        let one = &embedded[0];
        assert_eq!((one.size, one.factors, one.range), ([5, 4, 3], [1; 3], [-700.0, 800.0]));
        let values = unpacked(&one.values);
        for (byte, value) in values.iter().zip(&whole.values) {
            let back = one.range[0] + f32::from(*byte) / 255.0 * (one.range[1] - one.range[0]);
            assert!((back - value).abs() <= 3.0 || *value > 800.0, "{value} came back as {back}");
        }
        assert_eq!(unpacked(&one.layers[0].1), whole.layers[0].1);
    }

    #[test]
    fn a_large_volume_fits_and_loses_most_along_its_finest_axes() {
        let large = volume([96, 96, 40]);
        let (embedded, notes) = embed(std::slice::from_ref(&large), 100_000);
        assert!(notes.is_empty(), "{notes:?}");
        let one = &embedded[0];
        let bytes = one.values.len() + one.layers[0].1.len();
        assert!(
            bytes <= 100_000 && one.factors[2] <= one.factors[0] && one.factors[0] > 1,
            "{bytes} {:?}",
            one.factors
        );
        assert_eq!(unpacked(&one.values).len(), one.size.iter().product::<usize>());
        // A page has room for only some of them.
        let (embedded, notes) = embed(&vec![large; 30], 120_000);
        assert!(embedded.len() < 30 && notes.iter().any(|note| note.contains("too many")), "{notes:?}");
    }

    #[test]
    fn what_does_not_fit_together_is_named() {
        let mut wrong = vec![volume([4, 4, 4]); 4];
        wrong[0].values.pop();
        wrong[1].layers[0].1.pop();
        wrong[2].window = [1.0, 1.0];
        wrong[3].size = [0, 4, 4];
        let (embedded, notes) = embed(&wrong, 1 << 20);
        assert!(embedded.is_empty() && notes.len() == 4, "{notes:?}");
        let odd = Volume { values: vec![f32::NAN; 64], ..volume([4, 4, 4]) };
        assert_eq!(unpacked(&embed(&[odd], 1 << 20).0[0].values), vec![0; 64]);
    }
}
