//! Every network.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor};
use hearth_nn::networks::{Network, NetworkConfig, NetworkSpec};
use hearth_registry::Registry;
use toml::{Table, toml};

use crate::small::{Learns, Volumes, step, with};

/// The output of a network, which decides its recipe.
#[derive(Clone, Copy)]
enum Fits {
    /// Label maps.
    Maps,
    /// Classes of images.
    Classes,
    /// Numbers per image, one per channel: one for a critic.
    Numbers,
    /// Images, features or scores of patches: any output, at its own size.
    Images,
    /// The same from an image of one voxel: latent numbers from which images are made.
    Latent,
}

/// The smallest table of each network that its checks allow, and its input size.
fn small(name: &str) -> (Fits, [usize; 3], Table) {
    use Fits::{Classes, Images, Latent, Maps, Numbers};
    const SOLID: [usize; 3] = [16, 16, 16];
    const FLAT: [usize; 3] = [32, 32, 1];
    let of_maps = |table: Table| {
        let table = with(table, "spatial_dims", 3);
        with(with(table, "in_channels", 1), "out_channels", 2)
    };
    // Networks of a fixed depth are large: in 2-D they are fast enough.
    let flat = |input: &str, output: &str| {
        let table = with(Table::new(), "spatial_dims", 2);
        with(with(table, input, 1), output, 2)
    };
    match name {
        "UNet" | "AttentionUnet" => (
            Maps,
            SOLID,
            of_maps(toml! {
                channels = [4, 8]
                strides = [2]
            }),
        ),
        "BasicUNet" | "BasicUNetPlusPlus" => (
            Maps,
            SOLID,
            of_maps(toml! {
                features = [4, 4, 8, 8, 8, 4]
                // Their lowest level has one voxel, which an instance norm cannot train on.
                norm = "batch"
            }),
        ),
        "DynUNet" => (
            Maps,
            SOLID,
            of_maps(toml! {
                kernel_size = [3, 3, 3]
                strides = [1, 2, 2]
                upsample_kernel_size = [2, 2]
                filters = [4, 8, 8]
            }),
        ),
        "PlainConvUNet" | "ResidualEncoderUNet" => (
            Maps,
            SOLID,
            of_maps(toml! {
                features_per_stage = [4, 8]
                kernel_sizes = [3, 3]
                strides = [1, 2]
            }),
        ),
        "HighResNet" => (
            Maps,
            SOLID,
            of_maps(toml! {
                layer_params = [
                    { n_features = 4, kernel_size = 3 },
                    { n_features = 4, kernels = [3, 3], repeat = 1 },
                    { n_features = 8, kernel_size = 1 },
                    { kernel_size = 1 },
                ]
            }),
        ),
        "FlexibleUNet" => (
            Maps,
            FLAT,
            with(
                with(flat("in_channels", "out_channels"), "backbone", "efficientnet-b0"),
                "decoder_channels",
                vec![8, 8, 8, 8, 8],
            ),
        ),
        "DiNTS" => (
            Maps,
            SOLID,
            toml! {
                in_channels = 1
                num_classes = 2
                [dints_space]
                name = "TopologyInstance"
                channel_mul = 0.125
                num_blocks = 1
                num_depths = 2
            },
        ),
        "UNesT" => (
            Maps,
            [64, 64, 64],
            toml! {
                in_channels = 1
                out_channels = 2
                img_size = 64
                feature_size = 1
                depths = [1, 1, 1]
                num_heads = [1, 2, 4]
                embed_dim = [8, 16, 32]
            },
        ),
        "EfficientNetBN" => (Classes, FLAT, with(flat("in_channels", "num_classes"), "model_name", "efficientnet-b0")),
        "AutoencoderKL" | "DiffusionModelUNet" => (
            Images,
            SOLID,
            with(
                of_maps(toml! {
                    channels = [4, 8]
                    num_res_blocks = 1
                    norm_num_groups = 4
                    attention_levels = [false, true]
                }),
                "out_channels",
                1,
            ),
        ),
        "SegResNet" => (
            Maps,
            SOLID,
            of_maps(toml! {
                init_filters = 8
                blocks_down = [1, 1]
                blocks_up = [1]
            }),
        ),
        "SegResNetDS" | "SegResNetDS2" => (
            Maps,
            SOLID,
            of_maps(toml! {
                init_filters = 4
                blocks_down = [1, 1]
            }),
        ),
        "SegResNetVAE" => (
            Maps,
            SOLID,
            of_maps(toml! {
                input_image_size = [16, 16, 16]
                vae_nz = 8
                init_filters = 8
                blocks_down = [1, 1]
                blocks_up = [1]
                norm = ["group", { num_groups = 4 }]
            }),
        ),
        "VNet" => (Maps, [32, 32, 32], of_maps(toml! { base = 2 })),
        "AHNet" => {
            let table = toml! {
                layers = [1, 1, 1, 1]
                psp_block_num = 1
            };
            (Maps, [64, 64, 1], with(of_maps(table), "spatial_dims", 2))
        }
        "UNETR" => (
            Maps,
            SOLID,
            of_maps(toml! {
                img_size = [16, 16, 16]
                feature_size = 4
                hidden_size = 16
                mlp_dim = 16
                num_heads = 2
            }),
        ),
        "SwinUNETR" => (
            Maps,
            [32, 32, 32],
            of_maps(toml! {
                feature_size = 12
                depths = [1, 1, 1, 1]
                num_heads = [2, 2, 2, 2]
                window_size = 4
                norm_name = "batch"
            }),
        ),
        "Classifier" => (
            Classes,
            SOLID,
            toml! {
                in_shape = [1, 16, 16, 16]
                classes = 2
                channels = [4, 8]
                strides = [2, 2]
            },
        ),
        "ViT" => (
            Classes,
            SOLID,
            toml! {
                in_channels = 1
                img_size = [16, 16, 16]
                patch_size = 8
                hidden_size = 16
                mlp_dim = 16
                num_heads = 2
                num_layers = 1
                classification = true
                num_classes = 2
                spatial_dims = 3
            },
        ),
        "DenseNet" => {
            let table = with(flat("in_channels", "out_channels"), "block_config", vec![2, 2]);
            (Classes, FLAT, table)
        }
        "DenseNet121" | "DenseNet169" | "DenseNet201" | "DenseNet264" => {
            (Classes, FLAT, with(flat("in_channels", "out_channels"), "init_features", 16))
        }
        "ResNet" => {
            let table = toml! {
                block = "basic"
                layers = [1, 1, 1, 1]
                block_inplanes = [4, 4, 8, 8]
                spatial_dims = 3
                n_input_channels = 1
                num_classes = 2
            };
            (Classes, SOLID, table)
        }
        "resnet10" | "resnet18" | "resnet34" | "resnet50" | "resnet101" | "resnet152" | "resnet200" => {
            (Classes, FLAT, flat("n_input_channels", "num_classes"))
        }
        "NetAdapter" => (
            Classes,
            SOLID,
            toml! {
                num_classes = 2
                dim = 3
                pool = ["adaptiveavg", { output_size = 1 }]
                [model]
                block = "basic"
                layers = [1, 1, 1, 1]
                block_inplanes = [4, 4, 8, 8]
                spatial_dims = 3
                n_input_channels = 1
            },
        ),
        "SENet" => (
            Classes,
            FLAT,
            toml! {
                spatial_dims = 2
                in_channels = 1
                num_classes = 2
                layers = [1, 1, 1, 1]
                block = "se_resnet_bottleneck"
                groups = 1
                reduction = 16
                inplanes = 8
                input_3x3 = false
                downsample_kernel_size = 1
            },
        ),
        "SENet154" | "SEResNet50" | "SEResNet101" | "SEResNet152" | "SEResNext50" | "SEResNext101" => {
            (Classes, FLAT, flat("in_channels", "num_classes"))
        }
        "TorchVisionFCModel" => (
            Classes,
            [64, 64, 1],
            toml! {
                model_name = "resnet18"
                num_classes = 2
                use_conv = true
                pool = ["avg", { kernel_size = 2, stride = 1 }]
            },
        ),
        "Regressor" => (
            Numbers,
            SOLID,
            toml! {
                in_shape = [1, 16, 16, 16]
                out_shape = [3]
                channels = [4, 8]
                strides = [2, 2]
            },
        ),
        "RegResNet" => (Images, FLAT, toml! { image_size = [32, 32] }),
        "PointRegressor" => (
            Numbers,
            FLAT,
            toml! {
                in_shape = [1, 32, 32]
                out_shape = [3, 1]
                channels = [4, 8]
                strides = [2, 2]
            },
        ),
        "Critic" | "Discriminator" => (
            Numbers,
            SOLID,
            toml! {
                in_shape = [1, 16, 16, 16]
                channels = [4, 8]
                strides = [2, 2]
            },
        ),
        "AutoEncoder" => (
            Images,
            SOLID,
            with(
                of_maps(toml! {
                    channels = [4, 8]
                    strides = [2, 2]
                }),
                "out_channels",
                1,
            ),
        ),
        "VarAutoEncoder" => (
            Images,
            SOLID,
            toml! {
                spatial_dims = 3
                in_shape = [1, 16, 16, 16]
                out_channels = 1
                latent_size = 8
                channels = [4, 8]
                strides = [2, 2]
            },
        ),
        "Generator" => (
            Latent,
            SOLID,
            toml! {
                latent_shape = [6]
                start_shape = [4, 4, 4, 4]
                channels = [8, 1]
                strides = [2, 2]
            },
        ),
        "PatchDiscriminator" => (
            Images,
            FLAT,
            toml! {
                spatial_dims = 2
                channels = 4
                in_channels = 1
                num_layers_d = 2
                norm = "instance"
            },
        ),
        "MultiScalePatchDiscriminator" => (
            Images,
            FLAT,
            toml! {
                spatial_dims = 2
                num_d = 2
                num_layers_d = 1
                channels = 4
                in_channels = 1
                minimum_size_im = 32
                norm = "instance"
            },
        ),
        "ResNetFeatures" => (
            Images,
            FLAT,
            toml! {
                model_name = "resnet10"
                pretrained = false
                spatial_dims = 2
                in_channels = 1
            },
        ),
        "SwinTransformer" => (
            Images,
            FLAT,
            toml! {
                spatial_dims = 2
                in_chans = 1
                embed_dim = 12
                window_size = 2
                patch_size = 2
                depths = [1, 1, 1, 1]
                num_heads = [2, 2, 2, 2]
            },
        ),
        _ => panic!("{name}: say here what it is for, and the smallest table of it"),
    }
}

/// The recipe that trains it, and the size of its volumes.
fn recipe(name: &str) -> (Table, [usize; 3]) {
    let (fits, size, table) = small(name);
    let table = with(table, "name", name);
    let config: NetworkConfig = table.clone().try_into().unwrap_or_else(|error| panic!("{name}: {error}"));
    let channels = config.in_channels();
    let dims = if size[2] == 1 { 2 } else { 3 };
    let seen = if matches!(fits, Fits::Latent) { [1; 3] } else { size };
    // The output shape, so that there is a target of that shape.
    let gives = || {
        let network = config.init(&Device::default(), 0).unwrap_or_else(|error| panic!("{name}: {error}"));
        let [x, y, z] = seen;
        let [_, out @ ..] = network.forward(Tensor::zeros([1, channels, x, y, z], &Device::default())).dims();
        out
    };
    let learns = match fits {
        Fits::Maps => Learns::Segmentation,
        Fits::Classes => Learns::Classification,
        Fits::Numbers => Learns::Regression(gives()[0]),
        Fits::Images | Fits::Latent => Learns::Reconstruction(gives()),
    };
    let mut recipe = learns.recipe(channels, dims);
    if matches!(fits, Fits::Latent) {
        // The label is made before the image is reduced to one voxel.
        let steps = recipe["transforms"].as_array_mut().expect("a list");
        steps.push(with(step("Resize", &["image"]), "spatial_size", vec![1; dims]).into());
    }
    recipe.insert("network".into(), table.into());
    (recipe, size)
}

/// The words of the reference for a network that no recipe can use.
const UNREACHABLE: &str = "No recipe trains it: ";

/// Trains the selected networks, and reports all errors.
fn train(turn: impl Fn(usize) -> bool) {
    let mut volumes: BTreeMap<[usize; 3], Volumes> = BTreeMap::new();
    let mut faults = Vec::new();
    let registry = Registry::<NetworkSpec>::new();
    assert!(registry.entries().len() >= 48, "{} networks", registry.entries().len());
    for (place, entry) in registry.entries().iter().enumerate() {
        if !turn(place) {
            continue;
        }
        let (recipe, size) = recipe(entry.name);
        let done = volumes.entry(size).or_insert_with(|| Volumes::new(size)).run(&recipe);
        let listed = entry.about.contains(UNREACHABLE);
        match done.and_then(|done| done.is_sound()) {
            Ok(()) if listed => faults.push(format!("{} can be reached, and the reference denies it", entry.name)),
            Err(fault) if !listed => faults.push(format!("{}: {fault}", entry.name)),
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{} networks cannot be reached:\n{}", faults.len(), faults.join("\n"));
}

/// Every network trains a step. There are two tests, so that two cores share them.
#[test]
fn every_second_network_trains() {
    train(|place| place % 2 == 0);
}

#[test]
fn every_other_network_trains() {
    train(|place| place % 2 == 1);
}
