//! A small recipe of each kind that is exported, and images for it: all of it is made by rules, and the same
//! on every machine.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_data::slides::{PyramidOptions, pyramid};
use hearth_data::{Affine, Image, NiftiOptions, WriteOptions, write_image, write_nifti};

/// What is written for the images of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// `NAME_seg.nii.gz`
    Labels,
    /// `NAME_pred.nii.gz`
    Images,
    /// `scores.csv`
    Scores,
    /// `NAME.npy`
    Maps,
    /// Pictures, of numbers instead of images.
    Pictures,
}

/// A recipe, the seed of its network's weights, and its images.
pub struct Kind {
    pub name: &'static str,
    pub gives: Gives,
    /// Items of the configuration that are set, as on the command line.
    pub overrides: &'static [(&'static str, &'static str)],
    seed: u64,
    head: &'static str,
    network: &'static str,
    tail: &'static str,
    images: fn(&Path),
}

/// All of them.
pub const KINDS: &[Kind] = &[
    // Every step of a label map's post-processing, behind a chain that moves the grid three times.
    Kind {
        name: "labels",
        gives: Gives::Labels,
        overrides: &[],
        seed: 1,
        head: r#"task = "labels"
labels = ["background", "one", "two"]
transforms = [
    { name = "LoadImaged", keys = ["image", "label"] },
    { name = "EnsureChannelFirstd", keys = ["image", "label"] },
    { name = "Orientationd", keys = ["image", "label"], axcodes = "RAS" },
    { name = "Spacingd", keys = ["image", "label"], pixdim = [2.0, 2.0, 2.5], mode = ["bilinear", "nearest"] },
    { name = "ScaleIntensityRanged", keys = ["image"], a_min = -50.0, a_max = 150.0, b_min = 0.0, b_max = 1.0, clip = true },
    { name = "CropForegroundd", keys = ["image", "label"], source_key = "image", margin = 1, select_fn = "> 0.3" },
    { name = "SpatialPadd", keys = ["image", "label"], spatial_size = [16, 16, 16] },
    { name = "NormalizeIntensityd", keys = ["image"], nonzero = true, channel_wise = true },
    { name = "RandFlipd", keys = ["image", "label"], prob = 0.5, spatial_axis = 0 },
]
"#,
        network: "name = \"UNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 3\nchannels = [4, 8]\nstrides = [2]\nnum_res_units = 1",
        tail: r#"[inferer]
name = "SlidingWindowInferer"
roi_size = [16, 16, 16]
sw_batch_size = 2
overlap = 0.5
mode = "gaussian"
[post]
prediction = [
    { name = "AsDiscrete", argmax = true, to_onehot = 3 },
    { name = "KeepLargestConnectedComponent", applied_labels = [1, 2], num_components = 3 },
    { name = "FillHoles", applied_labels = [1] },
    { name = "RemoveSmallObjectsd", min_size = 8 },
]
"#,
        images: volumes,
    },
    // Regions that are written as labels, of four channels.
    Kind {
        name: "regions",
        gives: Gives::Labels,
        overrides: &[],
        seed: 2,
        head: r#"labels = ["TC", "WT", "ET"]
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
    { name = "ConvertToMultiChannelBasedOnBratsClasses", keys = ["label"] },
    { name = "Orientation", keys = ["image", "label"], axcodes = "RAS" },
    { name = "Spacing", keys = ["image", "label"], pixdim = [2.0, 2.0, 2.0], mode = ["bilinear", "nearest"] },
    { name = "NormalizeIntensity", keys = ["image"], nonzero = true, channel_wise = true },
    { name = "RandSpatialCrop", keys = ["image", "label"], roi_size = [16, 16, 16], random_size = false },
]
[task]
name = "Regions"
classes = "brats2018"
[data]
images = ["FLAIR", "T1w", "T1gd", "T2w"]
"#,
        network: "name = \"SegResNet\"\nspatial_dims = 3\nin_channels = 4\nout_channels = 3\ninit_filters = 8\nblocks_down = [1, 1]\nblocks_up = [1]",
        tail: "[inferer]\nname = \"SlidingWindowInferer\"\nroi_size = [16, 16, 16]\noverlap = 0.25\n",
        images: contrasts,
    },
    // Regions that are written as channels, by a network over the whole volume.
    Kind {
        name: "channels",
        gives: Gives::Labels,
        overrides: &[],
        seed: 3,
        head: r#"labels = ["one", "two"]
transforms = [
    { name = "LoadImage", keys = ["image"] },
    { name = "LoadImage", keys = ["label"] },
    { name = "ScaleIntensity", keys = ["image"] },
    { name = "DivisiblePad", keys = ["image", "label"], k = 4 },
]
[task]
name = "Regions"
"#,
        network: "name = \"AttentionUnet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]",
        tail: "[post]\nprediction = [{ name = \"Activations\", sigmoid = true }, { name = \"AsDiscrete\", threshold = 0.5 }]\n",
        images: volumes,
    },
    // Volumes, slice by slice through a network of two axes.
    Kind {
        name: "slices",
        gives: Gives::Labels,
        overrides: &[],
        seed: 4,
        head: r#"task = "slices"
labels = ["background", "one"]
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
    { name = "Resize", keys = ["image", "label"], spatial_size = [24, 24, 8], mode = ["trilinear", "nearest"] },
    { name = "ScaleIntensityRangePercentiles", keys = ["image"], lower = 1.0, upper = 99.0, b_min = 0.0, b_max = 1.0 },
]
"#,
        network: "name = \"UNet\"\nspatial_dims = 2\nin_channels = 1\nout_channels = 2\nchannels = [4, 8]\nstrides = [2]",
        tail: "[inferer]\nname = \"SliceInferer\"\nspatial_dim = 2\nroi_size = [16, 16]\nsw_batch_size = 4\n",
        images: volumes,
    },
    // Overlapping patches.
    Kind {
        name: "patches",
        gives: Gives::Labels,
        overrides: &[],
        seed: 5,
        head: r#"task = "patches"
labels = ["background", "one"]
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
    { name = "GaussianSmooth", keys = ["image"], sigma = 0.75 },
    { name = "NormalizeIntensity", keys = ["image"] },
]
"#,
        network: "name = \"DynUNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 2\nkernel_size = [3, 3, 3]\nstrides = [1, 2, 2]\nupsample_kernel_size = [2, 2]\nfilters = [4, 8, 8]",
        tail: "[inferer]\nname = \"PatchInferer\"\nsplitter = { patch_size = [16, 16, 16], overlap = 0.5 }\nbatch_size = 2\n",
        images: volumes,
    },
    Kind {
        name: "classes",
        gives: Gives::Scores,
        overrides: &[],
        seed: 6,
        head: r#"title = "classes"
labels = ["dark", "middle", "bright"]
transforms = [
    { name = "LoadImage", keys = ["image"] },
    { name = "EnsureChannelFirst", keys = ["image"] },
    { name = "ScaleIntensityRange", keys = ["image"], a_min = -50, a_max = 150, b_min = -1.0, b_max = 1.0 },
    { name = "Resize", keys = ["image"], spatial_size = [32, 32, 32] },
]
[task]
name = "Classification"
"#,
        network: "name = \"DenseNet\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 3\ninit_features = 4\ngrowth_rate = 4\nblock_config = [2, 2]",
        tail: "",
        images: volumes,
    },
    // Pictures that may show several things, as those of MedNIST are read.
    Kind {
        name: "findings",
        gives: Gives::Scores,
        overrides: &[],
        seed: 7,
        head: r#"title = "findings"
labels = ["left", "bright"]
transforms = [
    { name = "LoadImage", keys = ["image"] },
    { name = "EnsureChannelFirst", keys = ["image"] },
    { name = "ScaleIntensity", keys = ["image"] },
    { name = "CenterSpatialCrop", keys = ["image"], roi_size = [32, 32] },
]
[task]
name = "Classification"
multi_label = true
"#,
        network: "name = \"ResNet\"\nspatial_dims = 2\nn_input_channels = 1\nnum_classes = 2\nblock = \"basic\"\nlayers = [1, 1, 1, 1]\nblock_inplanes = [4, 4, 8, 8]\nconv1_t_size = 3\nconv1_t_stride = 1",
        tail: "",
        images: pictures,
    },
    Kind {
        name: "numbers",
        gives: Gives::Scores,
        overrides: &[],
        seed: 8,
        head: r#"title = "numbers"
labels = ["age", "dose"]
transforms = [
    { name = "LoadImage", keys = ["image"] },
    { name = "EnsureChannelFirst", keys = ["image"] },
    { name = "ResizeWithPadOrCrop", keys = ["image"], spatial_size = [16, 16, 16], mode = "edge" },
    { name = "NormalizeIntensity", keys = ["image"], subtrahend = 50.0, divisor = 60.0 },
]
[task]
name = "Regression"
"#,
        network: "name = \"Regressor\"\nin_shape = [1, 16, 16, 16]\nout_shape = [2]\nchannels = [4, 8]\nstrides = [2, 2]",
        tail: "",
        images: volumes,
    },
    Kind {
        name: "images",
        gives: Gives::Images,
        overrides: &[],
        seed: 9,
        head: r#"title = "images"
transforms = [
    { name = "LoadImage", keys = ["image", "label"] },
    { name = "EnsureChannelFirst", keys = ["image", "label"] },
    { name = "Orientation", keys = ["image", "label"], axcodes = "RAS" },
    { name = "Spacing", keys = ["image", "label"], pixdim = [2.0, 2.0, 2.5] },
    { name = "ScaleIntensityRange", keys = ["image", "label"], a_min = -50.0, a_max = 150.0, b_min = 0.0, b_max = 1.0 },
    { name = "DivisiblePad", keys = ["image", "label"], k = 4 },
]
[task]
name = "Reconstruction"
target = "clean"
"#,
        network: "name = \"AutoEncoder\"\nspatial_dims = 3\nin_channels = 1\nout_channels = 1\nchannels = [4, 8]\nstrides = [2, 2]",
        tail: "[post]\nprediction = [{ name = \"Activations\", other = \"tanh\" }]\n",
        images: volumes,
    },
    Kind {
        name: "slides",
        gives: Gives::Maps,
        overrides: &[],
        seed: 10,
        head: r#"title = "slides"
labels = ["tumor"]
transforms = [
    { name = "LoadRegion", keys = ["image"], size = [192, 192], label_grid = [3, 3] },
    { name = "GridSplit", keys = ["image", "label"], grid = [3, 3], size = { image = [64, 64], label = [1, 1] } },
    { name = "RandFlip", keys = ["image"], prob = 0.5, spatial_axis = -1, batch = true },
    { name = "ScaleIntensityRange", keys = ["image"], a_min = 0.0, a_max = 255.0, b_min = -1.0, b_max = 1.0, batch = true },
]
[task]
name = "Patches"
patch_size = 64
stride = 16
batch = 16
[data]
layout = { name = "Slides", region_size = 192, grid = 3, regions = 4 }
validation = "listed"
"#,
        network: "name = \"ResNet\"\nspatial_dims = 2\nn_input_channels = 3\nnum_classes = 1\nblock = \"basic\"\nlayers = [1, 1, 1, 1]\nblock_inplanes = [4, 4, 8, 8]\nconv1_t_size = 5\nconv1_t_stride = 2",
        tail: "",
        images: slide,
    },
    // Both draw other random numbers, so the network is given ones.
    Kind {
        name: "generated",
        gives: Gives::Pictures,
        overrides: &[("--dataset::data", "$[torch.ones(@latent_shape) for i in range(1)]")],
        seed: 11,
        head: r#"title = "generated"
transforms = [
    { name = "LoadImage", keys = ["image"] },
    { name = "EnsureChannelFirst", keys = ["image"] },
    { name = "ScaleIntensity", keys = ["image"] },
]
[task]
name = "Generation"
"#,
        network: "name = \"Generator\"\nlatent_shape = [8]\nstart_shape = [8, 4, 4]\nchannels = [8, 4, 1]\nstrides = [2, 2, 1]",
        tail: "[discriminator]\nname = \"Discriminator\"\nin_shape = [1, 16, 16]\nchannels = [4, 8]\nstrides = [2, 2]\n\
               [post]\nprediction = [{ name = \"Activations\", sigmoid = true }]\n",
        images: |_| {},
    },
];

impl Kind {
    /// The recipe's text.
    pub fn recipe(&self) -> String {
        let loss = match self.gives {
            Gives::Labels => "[loss]\nname = \"DiceLoss\"\nsigmoid = true",
            Gives::Images => "[loss]\nname = \"MSELoss\"",
            Gives::Scores | Gives::Maps => "[loss]\nname = \"BCEWithLogitsLoss\"",
            Gives::Pictures => "",
        };
        let Kind { head, network, tail, .. } = self;
        format!("{head}[network]\n{network}\n{loss}\n[optimizer]\nname = \"Adam\"\nlr = 1e-3\n{tail}")
    }

    /// The seed of the weights.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Writes the images to a folder, which is made.
    pub fn write_images(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("made");
        (self.images)(folder);
    }
}

/// A value in [0, 1) of a place, without a random generator: the same everywhere.
fn noise(place: usize, seed: u64) -> f32 {
    let mut x = (place as u64).wrapping_add(seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((x ^ (x >> 27)) >> 40) as f32 / (1_u64 << 24) as f32
}

/// Two bright balls in noise, of this size; whole numbers, which every file holds exactly.
fn balls(size: [usize; 3], seed: u64) -> Vec<f32> {
    let centre = |axis: usize, part: f32| size[axis] as f32 * part;
    let shift = noise(0, seed) * 0.2;
    let inside = |at: [usize; 3], part: f32, radius: f32| {
        let squares =
            (0..3).map(|axis| (at[axis] as f32 - centre(axis, part + shift)).powi(2) / (size[axis] as f32).powi(2));
        squares.sum::<f32>() < radius * radius
    };
    let mut values = Vec::with_capacity(size.iter().product());
    for x in 0..size[0] {
        for y in 0..size[1] {
            for z in 0..size[2] {
                let level = match (inside([x, y, z], 0.3, 0.22), inside([x, y, z], 0.6, 0.3)) {
                    (true, _) => 120.0,
                    (false, true) => 60.0,
                    _ => -20.0,
                };
                values.push((level + 40.0 * (noise(values.len(), seed) - 0.5)).round());
            }
        }
    }
    values
}

/// Voxels of different sizes, whose axes point to the left and backwards.
const AFFINE: Affine = [[-1.5, 0.0, 0.0, 20.0], [0.0, -1.25, 0.0, 15.0], [0.0, 0.0, 2.0, -10.0], [0.0, 0.0, 0.0, 1.0]];

fn write(path: PathBuf, channels: Vec<Vec<f32>>, size: [usize; 3]) {
    let shape = [channels.len(), size[0], size[1], size[2]];
    let image = Image::from_values(channels.concat(), shape, AFFINE, &Default::default());
    write_nifti(&path, &image, NiftiOptions::default()).expect("written");
}

/// Two volumes of one channel.
fn volumes(folder: &Path) {
    for (place, size) in [[24, 22, 14], [20, 26, 16]].into_iter().enumerate() {
        write(folder.join(format!("case{place}.nii.gz")), vec![balls(size, place as u64)], size);
    }
}

/// A volume of four channels.
fn contrasts(folder: &Path) {
    let size = [22, 24, 14];
    write(folder.join("case0.nii.gz"), (0..4).map(|channel| balls(size, 10 + channel)).collect(), size);
}

/// Three pictures in grey.
fn pictures(folder: &Path) {
    for place in 0..3 {
        let (width, height) = (40, 36);
        let values = balls([width, height, 1], 20 + place);
        let values = values.into_iter().map(|value| (value + 60.0).clamp(0.0, 255.0)).collect();
        let image =
            Image::from_values(values, [1, width, height, 1], hearth_data::affine::IDENTITY, &Default::default());
        let path = folder.join(format!("picture{place}.png"));
        write_image(path, &image.with_spatial_dims(2), &WriteOptions::default()).expect("written");
    }
}

/// A slide of 512 pixels, whose levels end at 16: stained tissue on white glass.
fn slide(folder: &Path) {
    const SIDE: usize = 512;
    let inside = |x: usize, y: usize, at: [f32; 2], radius: f32| {
        (x as f32 - at[0]).hypot(y as f32 - at[1]) < radius + 12.0 * (x as f32 / 19.0).sin()
    };
    let mut pixels = Vec::with_capacity(3 * SIDE * SIDE);
    for y in 0..SIDE {
        for x in 0..SIDE {
            let colour = match (inside(x, y, [190.0, 230.0], 60.0), inside(x, y, [240.0, 250.0], 150.0)) {
                (true, _) => [120.0, 60.0, 150.0],
                (false, true) => [205.0, 130.0, 180.0],
                _ => [240.0, 240.0, 240.0],
            };
            let grain = 24.0 * (noise(y * SIDE + x, 30) - 0.5);
            pixels.extend(colour.map(|value| (value + grain).round() as u8));
        }
    }
    let options = PyramidOptions { smallest: 16, mpp: Some(0.5), ..PyramidOptions::default() };
    fs::write(folder.join("slide.tif"), pyramid(&pixels, SIDE, SIDE, &options).expect("a slide")).expect("written");
}
