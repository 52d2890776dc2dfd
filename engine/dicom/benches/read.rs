//! Reads a folder of slices as a volume: synthetic ones, and the CT of STS_008 where real files are
//! available (`HEARTH_REAL_DATA`).

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use dicom_core::VR;
use dicom_dictionary_std::tags;
use hearth_dicom::{ReadOptions, read_path};

fn bench(criterion: &mut Criterion, name: &str, folder: &Path) {
    let read = || read_path(folder, &ReadOptions::default()).expect("a volume").values.len();
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(read() as u64)).sample_size(20);
    group.bench_function(name, |b| b.iter(read));
    group.finish();
}

fn all(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let values: Vec<u16> = (0..512 * 512_u32).map(|i| (i % 4096) as u16).collect();
    for number in 0..60 {
        common::slice(number, [0.0, 0.0, f64::from(number)])
            .pixels([512, 512], &values)
            .text(tags::MODALITY, VR::CS, "CT")
            .decimals(tags::RESCALE_SLOPE, &[1.0])
            .decimals(tags::RESCALE_INTERCEPT, &[-1024.0])
            .write(&folder.path().join(format!("{number}.dcm")));
    }
    bench(criterion, "60 slices of 512 x 512", folder.path());
    let real = common::real_data().join("dicom/sts008/CT");
    if real.is_dir() {
        bench(criterion, "CT of STS_008, 51 slices of 137 x 141", &real);
    }
}

criterion_group!(benches, all);
criterion_main!(benches);
