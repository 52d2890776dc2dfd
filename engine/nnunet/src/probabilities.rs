//! Probabilities of a network's outputs, their ensembles, and their files (`.npz`).

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use hearth_files::{Latched, NpyKind, NpyType, npy_header, npy_start};
use rayon::prelude::*;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::error::{NnunetError, Result};
use crate::export::{Origin, placed, sigmoid};
use crate::labels::{LabelManager, Writes};
use crate::plans::Plans;
use crate::resample::Heads;
use crate::volume::Volume;

/// The name of the array within a file.
const ARRAY: &str = "probabilities";

/// The largest number of values of a file (64 GiB).
const MAX_VALUES: u64 = 1 << 34;

/// Probabilities in the whole image, in the axes of the file: softmax over the heads, or a sigmoid
/// of each region. Everything outside of the used part is background.
pub fn probabilities(plans: &Plans, manager: &LabelManager, heads: &Heads<'_>, origin: &Origin) -> Volume {
    let voxels = heads.shape().iter().product::<usize>();
    let mut data: Vec<f32> = Vec::with_capacity(heads.len() * voxels);
    (0..heads.len()).for_each(|head| data.extend(heads.head(head)));
    if manager.has_regions() {
        data.par_iter_mut().for_each(|value| *value = sigmoid(*value));
    } else {
        softmax(&mut data, voxels);
    }
    let part = Volume { channels: heads.len(), shape: heads.shape(), data };
    let mut whole = placed(plans, part, origin, 0.0);
    if !manager.has_regions() {
        // A voxel without any probability lies outside.
        let count = whole.voxels();
        let (background, others) = whole.data.split_at_mut(count);
        background.par_iter_mut().enumerate().for_each(|(at, value)| {
            if *value == 0.0 && others.chunks(count).all(|head| head[at] == 0.0) {
                *value = 1.0;
            }
        });
    }
    whole
}

/// Softmax over the first axis of `[heads, voxels]`.
fn softmax(data: &mut [f32], voxels: usize) {
    if voxels == 0 {
        return;
    }
    let heads = data.len() / voxels;
    let mut most = vec![f32::NEG_INFINITY; voxels];
    let mut total = vec![0.0_f32; voxels];
    for head in 0..heads {
        let values = &data[head * voxels..][..voxels];
        most.par_iter_mut().zip(values).for_each(|(most, value)| *most = most.max(*value));
    }
    for head in 0..heads {
        let values = &mut data[head * voxels..][..voxels];
        values.par_iter_mut().zip(&most).zip(&mut total).for_each(|((value, most), total)| {
            *value = (*value - most).exp();
            *total += *value;
        });
    }
    data.par_chunks_mut(voxels).for_each(|values| values.iter_mut().zip(&total).for_each(|(v, total)| *v /= total));
}

/// The label map for probabilities.
pub fn labels(manager: &LabelManager, probabilities: &Volume) -> Volume<u16> {
    let voxels = probabilities.voxels();
    let mut data = vec![0_u16; voxels];
    match &manager.writes {
        Writes::Winner => {
            let mut best = probabilities.channel(0).to_vec();
            for head in 1..probabilities.channels {
                let values = probabilities.channel(head);
                data.par_iter_mut().zip(&mut best).zip(values).for_each(|((label, best), value)| {
                    if value > best {
                        (*best, *label) = (*value, head as u16);
                    }
                });
            }
        }
        Writes::Regions(order) => {
            for (head, label) in order.iter().enumerate().take(probabilities.channels) {
                let values = probabilities.channel(head);
                let all = data.par_iter_mut().zip(values);
                all.filter(|(_, value)| **value > 0.5).for_each(|(found, _)| *found = *label);
            }
        }
    }
    Volume { channels: 1, shape: probabilities.shape, data }
}

/// The mean of several predictions of one case: their sum in order, divided by their number.
///
/// # Errors
/// No predictions, or predictions of different sizes.
pub fn mean(all: impl IntoIterator<Item = Result<Volume>>) -> Result<Volume> {
    let (mut sum, mut count): (Option<Volume>, usize) = (None, 0);
    for one in all {
        let one = one?;
        count += 1;
        match &mut sum {
            None => sum = Some(one),
            Some(sum) if sum.shape == one.shape && sum.channels == one.channels => {
                sum.data.par_iter_mut().zip(one.data).for_each(|(sum, value)| *sum += value);
            }
            Some(sum) => {
                let sizes = [(sum.channels, sum.shape), (one.channels, one.shape)];
                return Err(NnunetError::case(format!("predictions of one case have different sizes: {sizes:?}")));
            }
        }
    }
    let mut sum = sum.ok_or_else(|| NnunetError::case("there is no prediction to average"))?;
    sum.data.par_iter_mut().for_each(|value| *value /= count as f32);
    Ok(sum)
}

/// Writes probabilities as numpy's `savez_compressed` does: one array, `probabilities`, f32,
/// `[head, z, y, x]`.
///
/// # Errors
/// Errors of the file system.
pub fn write(path: &Path, probabilities: &Volume) -> Result<()> {
    let write = |file: &mut BufWriter<File>| {
        let mut archive = ZipWriter::new(Latched::new(file));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated).large_file(true);
        archive.start_file(format!("{ARRAY}.npy"), options)?;
        let [z, y, x] = probabilities.shape.map(|length| length as u64);
        archive.write_all(&npy_start(&[probabilities.channels as u64, z, y, x]))?;
        // In pieces: the compressor takes a call for each.
        for values in probabilities.data.chunks(1 << 14) {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            archive.write_all(&bytes)?;
        }
        archive.finish()?;
        Ok(())
    };
    hearth_files::replace_with(path, write).map_err(|source| NnunetError::Io { path: path.to_owned(), source })
}

/// Reads probabilities written by nnU-Net or by [`write()`].
///
/// # Errors
/// A file that is damaged, lacks the array, or has one that is too large.
pub fn read(path: &Path) -> Result<Volume> {
    let io = |source| NnunetError::Io { path: path.to_owned(), source };
    let file = |what: String| NnunetError::File { path: path.to_owned(), what };
    let packed = hearth_files::open(path).map_err(io)?;
    let length = packed.metadata().map_err(io)?.len();
    let mut archive = ZipArchive::new(BufReader::new(packed)).map_err(|error| file(error.to_string()))?;
    let mut entry = archive.by_name(&format!("{ARRAY}.npy")).map_err(|error| match error {
        ZipError::FileNotFound => file(format!("holds no array {ARRAY:?}; expected nnU-Net's --save_probabilities")),
        other => file(other.to_string()),
    })?;
    // A header can state any shape, but the compressed bytes limit the number of values.
    let held = entry.size().min(entry.compressed_size().min(length).saturating_mul(1032));
    let header = npy_header(&mut entry).map_err(file)?;
    let shape: Vec<usize> = header.shape.iter().map(|length| *length as usize).collect();
    let values = header.shape.iter().try_fold(1_u64, |n, length| n.checked_mul(*length));
    let &[channels, z, y, x] = &shape[..] else {
        return Err(file(format!("the array has {} axes; expected heads and three axes", shape.len())));
    };
    if values.is_none_or(|values| values > MAX_VALUES) {
        return Err(file(format!("{shape:?} values are more than the limit of {MAX_VALUES}")));
    }
    if values.is_none_or(|values| values.saturating_mul(4) > held) {
        return Err(file(format!("the array ends early: {shape:?} values are more than the file has")));
    }
    if header.fortran_order {
        return Err(file("the array is in Fortran's order; expected C's".to_owned()));
    }
    let NpyType { kind: NpyKind::Float, size: 4, big_endian: false } = header.descr else {
        return Err(file(format!("the array holds {}; expected <f4", header.descr)));
    };
    let mut bytes = Vec::new();
    entry.take(4 * values.unwrap_or_default()).read_to_end(&mut bytes).map_err(io)?;
    let data: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
    Volume::new(channels, [z, y, x], data).ok_or_else(|| file("the array ends early".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_back_and_damaged_ones_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npz");
        let volume = Volume::new(2, [2, 3, 4], (0..48).map(|i| i as f32 / 48.0).collect()).expect("48 values");
        write(&path, &volume).expect("written");
        assert_eq!(read(&path).expect("read"), volume);
        let bytes = std::fs::read(&path).expect("bytes");
        std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
        assert!(read(&path).is_err());
        // A header that states 32 GiB, without any value.
        let mut zip = zip::ZipWriter::new(File::create(&path).expect("created"));
        zip.start_file("probabilities.npy", SimpleFileOptions::default()).expect("an entry");
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2048, 2048, 1024), }";
        let header = format!("{header:<117}\n");
        let head = [b"\x93NUMPY\x01\x00".as_slice(), &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
        std::io::Write::write_all(&mut zip, &head).expect("a header");
        zip.finish().expect("written");
        let error = read(&path).expect_err("no values").to_string();
        assert!(error.contains("ends early"), "{error}");
        let one = Volume::new(1, [1, 1, 1], vec![1.0]).expect("one value");
        assert!(mean([Ok(one.clone()), Ok(volume)]).is_err());
        assert_eq!(mean([Ok(one.clone()), Ok(one.clone())]).expect("a mean"), one);
    }

    #[test]
    fn softmax_sums_to_one() {
        let mut data = vec![1.0, 1000.0, 2.0, -1000.0];
        softmax(&mut data, 2);
        assert!((data[0] + data[2] - 1.0).abs() < 1e-6);
        assert_eq!((data[1], data[3]), (1.0, 0.0));
    }
}
