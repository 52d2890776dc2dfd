//! Files that are not images of scanners, or not images.

use hearth_data::download::{ArchiveLimits, unpack};
use hearth_data::layouts::{self, Wants};
use hearth_data::{Progress, ReadOptions};
use hearth_pickle::{Options, Others};
use hearth_registry::Document;

use super::{with_file, with_files};

/// PNG, JPEG and BMP.
pub fn raster(bytes: &[u8]) {
    let mut options = ReadOptions::default();
    options.reader = Some("RasterReader".to_owned());
    with_file("x.png", bytes, |path| {
        if let Ok(image) = hearth_data::read_image_with(path, &options) {
            assert_eq!(image.to_vec().len(), image.channels() * image.shape().iter().product::<usize>());
        }
    });
}

/// A recipe: its text, and all of its keys.
pub fn recipe(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if let Ok(document) = Document::parse("x.toml", text) {
        let read = hearth_recipe::recipe::Recipe::read(&document);
        // A recipe that was read can be written, and read again.
        if let Some(again) = read.ok().and_then(|recipe| recipe.to_toml().ok()) {
            let again = Document::parse("again.toml", again).expect("TOML that was written");
            hearth_recipe::recipe::Recipe::read(&again).expect("a recipe that was written");
        }
    }
}

/// Lists of cases: JSON if the first byte shows it, else a table.
pub fn lists(bytes: &[u8]) {
    let json = bytes.first().is_some_and(|first| b"{[".contains(first));
    let name = if json { "x.json" } else { "x.csv" };
    with_file(name, bytes, |path| drop(layouts::read(path, &Wants::default())));
}

/// A download: tar, tar.gz or zip. Nothing is written outside the folder.
pub fn archive(bytes: &[u8]) {
    with_files(&[("x.zip", bytes)], |folder| {
        let into = folder.join("deep").join("into");
        let limits = ArchiveLimits { bytes: 1 << 20, entries: 64 };
        let _ = unpack(&folder.join("x.zip"), &into, limits, Progress::None);
        let outside = std::fs::read_dir(folder).expect("a folder").flatten();
        let outside: Vec<_> =
            outside.map(|entry| entry.file_name()).filter(|name| name != "x.zip" && name != "deep").collect();
        assert!(outside.is_empty(), "{outside:?}");
        let beside = std::fs::read_dir(folder.join("deep")).into_iter().flatten().flatten();
        assert!(beside.into_iter().all(|entry| entry.file_name() == "into"), "beside the folder");
    });
}

/// Weights.
pub fn safetensors(bytes: &[u8]) {
    let _ = hearth_nn::weights::summary(bytes);
}

/// Pickles, alone and in PyTorch's files and MONAI's bundles, for each of their users. Nothing is
/// executed.
pub fn pickle(bytes: &[u8]) {
    // Small limits, as for DICOM.
    let all = |options: Options| Options { bytes: 4 << 20, objects: 1 << 17, ..options };
    let named = Options { others: Others::Named(|name| name.starts_with("nnunetv2.")), ..Options::default() };
    for options in [Options::default(), Options::weights(), named] {
        if let Ok((pickled, length)) = hearth_pickle::parse(bytes, &all(options)) {
            assert!(length <= bytes.len() && !pickled.objects().is_empty());
        }
    }
    let files: Vec<(&str, &[u8])> =
        ["x.pt", "x.zip", "postprocessing.pkl"].into_iter().map(|name| (name, bytes)).collect();
    with_files(&files, |folder| {
        for name in ["x.pt", "x.zip"] {
            let opened = hearth_nn::pytorch::StateDict::open(&folder.join(name), &Default::default());
            let _ = opened.map(|state| state.to_bytes().map(drop));
        }
        let _ = hearth_nnunet::postprocess::read(&folder.join("postprocessing.pkl"));
        let config = hearth_bundle::Config::parse("x.json", r#"{"x": "$torch.load('x.pt').get('a')"}"#);
        let resolver = config.and_then(|config| hearth_bundle::Resolver::new(config, folder.to_owned()));
        let _ = resolver.expect("a config of one item").get("x");
    });
}

/// The identity of a plugin's library. None of its code runs.
pub fn plugin(bytes: &[u8]) {
    with_file("libhearth_stats.so", bytes, |path| drop(hearth_plugin_host::inspect(path)));
}
