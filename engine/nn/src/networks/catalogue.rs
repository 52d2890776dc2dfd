//! What there is: every name a recipe can give, what it is for, where it comes from, and an example to look at.

use super::NetworkConfig;

/// A network that a recipe can name.
#[derive(Clone, Copy, Debug)]
pub struct CatalogueEntry {
    /// The name.
    pub name: &'static str,
    /// Spatial dimensions it can be built for.
    pub dims: &'static [usize],
    /// What it is for.
    pub about: &'static str,
    /// The paper; empty where there is none.
    pub paper: &'static str,
    /// Parameters of an example as JSON, everything else by MONAI's defaults.
    pub example: &'static str,
    /// A modest input for the example, `[batch, channel, x, y, z]`.
    pub input: [usize; 5],
}

impl CatalogueEntry {
    /// The example.
    ///
    /// # Errors
    /// None for the entries of [`CATALOGUE`]; the type is that of any configuration.
    pub fn config(&self) -> Result<NetworkConfig, serde_json::Error> {
        let mut value: serde_json::Value = serde_json::from_str(self.example)?;
        value["name"] = self.name.into();
        serde_json::from_value(value)
    }
}

const BOTH: &[usize] = &[2, 3];

/// All of them, by name.
pub static CATALOGUE: &[CatalogueEntry] = &[
    CatalogueEntry {
        name: "AHNet",
        dims: BOTH,
        about: "segmentation of anisotropic volumes: in-plane encoder, 3-D decoder",
        paper: "Liu et al. 2018, arXiv:1711.08580",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "psp_block_num": 3}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "AttentionUnet",
        dims: BOTH,
        about: "segmentation: U-Net whose skips pass gates of attention",
        paper: "Oktay et al. 2018, arXiv:1804.03999",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": [16, 32, 64, 128, 256], "strides": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "AutoEncoder",
        dims: BOTH,
        about: "reconstruction and denoising of images",
        paper: "",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 1, "channels": [16, 32, 64, 128], "strides": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "BasicUNet",
        dims: BOTH,
        about: "segmentation: plain U-Net with maximum pooling",
        paper: "Falk et al. 2019, doi:10.1038/s41592-018-0261-2",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "BasicUNetPlusPlus",
        dims: BOTH,
        about: "segmentation: nested U-Net, deep supervision",
        paper: "Zhou et al. 2018, arXiv:1807.10165",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "deep_supervision": true}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "Classifier",
        dims: BOTH,
        about: "classification of images of one size, built from residual units",
        paper: "",
        example: r#"{"in_shape": [1, 64, 64, 64], "classes": 2, "channels": [16, 32, 64, 128], "strides": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "Critic",
        dims: BOTH,
        about: "the critic of a Wasserstein GAN",
        paper: "Arjovsky et al. 2017, arXiv:1701.07875",
        example: r#"{"in_shape": [1, 64, 64, 64], "channels": [16, 32, 64, 128], "strides": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "DenseNet",
        dims: BOTH,
        about: "classification: every layer sees all before it; blocks of one's own",
        paper: "Huang et al. 2017, arXiv:1608.06993",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "block_config": [6, 12, 24, 16]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "DenseNet121",
        dims: BOTH,
        about: "classification: DenseNet with blocks of 6, 12, 24, 16 layers",
        paper: "Huang et al. 2017, arXiv:1608.06993",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "DenseNet169",
        dims: BOTH,
        about: "classification: DenseNet with blocks of 6, 12, 32, 32 layers",
        paper: "Huang et al. 2017, arXiv:1608.06993",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "DenseNet201",
        dims: BOTH,
        about: "classification: DenseNet with blocks of 6, 12, 48, 32 layers",
        paper: "Huang et al. 2017, arXiv:1608.06993",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "DenseNet264",
        dims: BOTH,
        about: "classification: DenseNet with blocks of 6, 12, 64, 48 layers",
        paper: "Huang et al. 2017, arXiv:1608.06993",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "Discriminator",
        dims: BOTH,
        about: "whether an image is real or generated",
        paper: "Goodfellow et al. 2014, arXiv:1406.2661",
        example: r#"{"in_shape": [1, 64, 64, 64], "channels": [16, 32, 64, 128], "strides": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "DynUNet",
        dims: BOTH,
        about: "segmentation: the U-Net of nnU-Net, kernels and strides of one's own, deep supervision",
        paper: "Isensee et al. 2021, doi:10.1038/s41592-020-01008-z",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "kernel_size": [3, 3, 3, 3, 3], "strides": [1, 2, 2, 2, 2], "upsample_kernel_size": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "Generator",
        dims: BOTH,
        about: "images from latent numbers",
        paper: "Goodfellow et al. 2014, arXiv:1406.2661",
        example: r#"{"latent_shape": [64], "start_shape": [64, 8, 8, 8], "channels": [32, 16, 8, 1], "strides": [2, 2, 2, 1]}"#,
        input: [1, 64, 1, 1, 1],
    },
    CatalogueEntry {
        name: "HighResNet",
        dims: BOTH,
        about: "segmentation at full resolution by dilated convolutions",
        paper: "Li et al. 2017, arXiv:1707.01992",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "MultiScalePatchDiscriminator",
        dims: BOTH,
        about: "whether patches of several sizes are real or generated",
        paper: "Wang et al. 2018, arXiv:1711.11585",
        example: r#"{"num_d": 2, "num_layers_d": 2, "spatial_dims": 3, "channels": 16, "in_channels": 1, "minimum_size_im": 64}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "NetAdapter",
        dims: BOTH,
        about: "classification: a ResNet with another last layer",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"model": {"block": "basic", "layers": [2, 2, 2, 2], "block_inplanes": [64, 128, 256, 512], "spatial_dims": 3, "n_input_channels": 1}, "num_classes": 2, "dim": 3, "pool": ["adaptiveavg", {"output_size": 1}]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "PatchDiscriminator",
        dims: BOTH,
        about: "whether each patch of an image is real or generated",
        paper: "Isola et al. 2017, arXiv:1611.07004",
        example: r#"{"spatial_dims": 3, "channels": 16, "in_channels": 1}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "Regressor",
        dims: BOTH,
        about: "a few numbers from images of one size",
        paper: "",
        example: r#"{"in_shape": [1, 64, 64, 64], "out_shape": [3], "channels": [16, 32, 64, 128], "strides": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "ResNet",
        dims: BOTH,
        about: "classification: residual blocks of one's own",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2, "block": "bottleneck", "layers": [3, 4, 6, 3], "block_inplanes": [64, 128, 256, 512]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "resnet10",
        dims: BOTH,
        about: "classification: ResNet of depth 10",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "resnet101",
        dims: BOTH,
        about: "classification: ResNet of depth 101",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "resnet152",
        dims: BOTH,
        about: "classification: ResNet of depth 152",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "resnet18",
        dims: BOTH,
        about: "classification: ResNet of depth 18",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "resnet200",
        dims: BOTH,
        about: "classification: ResNet of depth 200",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "resnet34",
        dims: BOTH,
        about: "classification: ResNet of depth 34",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "resnet50",
        dims: BOTH,
        about: "classification: ResNet of depth 50",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"spatial_dims": 3, "n_input_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "ResNetFeatures",
        dims: BOTH,
        about: "the feature maps of a ResNet's stages",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"model_name": "resnet18", "pretrained": false, "spatial_dims": 3, "in_channels": 1}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SegResNet",
        dims: BOTH,
        about: "segmentation: residual encoder, light decoder (BraTS 2018)",
        paper: "Myronenko 2018, arXiv:1810.11654",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "init_filters": 16}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SegResNetDS",
        dims: BOTH,
        about: "segmentation: SegResNet with deep supervision and anisotropic levels",
        paper: "Myronenko 2018, arXiv:1810.11654",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "blocks_down": [1, 2, 2, 4, 4], "dsdepth": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SegResNetDS2",
        dims: BOTH,
        about: "segmentation: SegResNetDS with a second decoder, the image encoder of VISTA3D",
        paper: "He et al. 2024, arXiv:2406.05285",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "init_filters": 16}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SegResNetVAE",
        dims: BOTH,
        about: "segmentation: SegResNet with a variational autoencoder that regularizes its training",
        paper: "Myronenko 2018, arXiv:1810.11654",
        example: r#"{"input_image_size": [64, 64, 64], "spatial_dims": 3, "in_channels": 1, "out_channels": 2, "init_filters": 16}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SENet",
        dims: BOTH,
        about: "classification: squeeze and excitation, blocks of one's own",
        paper: "Hu et al. 2018, arXiv:1709.01507",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "num_classes": 2, "block": "se_resnet_bottleneck", "layers": [3, 4, 6, 3], "groups": 1, "reduction": 16, "inplanes": 64, "downsample_kernel_size": 1, "input_3x3": false}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SENet154",
        dims: BOTH,
        about: "classification: the largest of the paper",
        paper: "Hu et al. 2018, arXiv:1709.01507",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SEResNet101",
        dims: BOTH,
        about: "classification: ResNet101 with squeeze and excitation",
        paper: "Hu et al. 2018, arXiv:1709.01507",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SEResNet152",
        dims: BOTH,
        about: "classification: ResNet152 with squeeze and excitation",
        paper: "Hu et al. 2018, arXiv:1709.01507",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SEResNet50",
        dims: BOTH,
        about: "classification: ResNet50 with squeeze and excitation",
        paper: "Hu et al. 2018, arXiv:1709.01507",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SEResNext101",
        dims: BOTH,
        about: "classification: ResNeXt101 with squeeze and excitation",
        paper: "Hu et al. 2018, arXiv:1709.01507",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SEResNext50",
        dims: BOTH,
        about: "classification: ResNeXt50 with squeeze and excitation",
        paper: "Hu et al. 2018, arXiv:1709.01507",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "num_classes": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SwinTransformer",
        dims: BOTH,
        about: "feature maps by attention within shifted windows",
        paper: "Liu et al. 2021, arXiv:2103.14030",
        example: r#"{"in_chans": 1, "embed_dim": 48, "window_size": [7, 7, 7], "patch_size": [2, 2, 2], "depths": [2, 2, 2, 2], "num_heads": [3, 6, 12, 24], "spatial_dims": 3}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "SwinUNETR",
        dims: BOTH,
        about: "segmentation: Swin transformer encoder, convolutional decoder",
        paper: "Hatamizadeh et al. 2022, arXiv:2201.01266",
        example: r#"{"in_channels": 1, "out_channels": 2, "feature_size": 24, "spatial_dims": 3}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "TorchVisionFCModel",
        dims: &[2],
        about: "classification of patches, maps of scores for whole slides: a ResNet of torchvision",
        paper: "He et al. 2016, arXiv:1512.03385",
        example: r#"{"model_name": "resnet18", "num_classes": 1, "use_conv": true}"#,
        input: [1, 3, 224, 224, 1],
    },
    CatalogueEntry {
        name: "UNet",
        dims: BOTH,
        about: "segmentation: U-Net of residual units",
        paper: "Kerfoot et al. 2019, doi:10.1007/978-3-030-12029-0_40",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2, "channels": [16, 32, 64, 128, 256], "strides": [2, 2, 2, 2], "num_res_units": 2, "norm": "batch"}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "UNETR",
        dims: BOTH,
        about: "segmentation: vision transformer encoder, convolutional decoder",
        paper: "Hatamizadeh et al. 2022, arXiv:2103.10504",
        example: r#"{"in_channels": 1, "out_channels": 2, "img_size": [64, 64, 64], "feature_size": 16, "spatial_dims": 3}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "VarAutoEncoder",
        dims: BOTH,
        about: "reconstruction and generation: variational autoencoder",
        paper: "Kingma and Welling 2014, arXiv:1312.6114",
        example: r#"{"spatial_dims": 3, "in_shape": [1, 64, 64, 64], "out_channels": 1, "latent_size": 32, "channels": [16, 32, 64, 128], "strides": [2, 2, 2, 2]}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "ViT",
        dims: BOTH,
        about: "classification, or features of patches: the vision transformer",
        paper: "Dosovitskiy et al. 2021, arXiv:2010.11929",
        example: r#"{"in_channels": 1, "img_size": [64, 64, 64], "patch_size": [16, 16, 16], "classification": true, "num_classes": 2, "spatial_dims": 3}"#,
        input: [1, 1, 64, 64, 64],
    },
    CatalogueEntry {
        name: "VNet",
        dims: BOTH,
        about: "segmentation: residual encoder and decoder, kernels of 5",
        paper: "Milletari et al. 2016, arXiv:1606.04797",
        example: r#"{"spatial_dims": 3, "in_channels": 1, "out_channels": 2}"#,
        input: [1, 1, 64, 64, 64],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::mem::discriminant;

    use burn::tensor::Device;

    use super::{CATALOGUE, NetworkConfig};
    use crate::networks::Network;

    #[test]
    fn every_network_has_an_entry_whose_example_takes_its_input() {
        let mut known = Vec::new();
        for entry in CATALOGUE {
            let config = entry.config().unwrap_or_else(|error| panic!("{}: {error}", entry.name));
            assert!(!known.contains(&discriminant(&config)), "{} is there twice", entry.name);
            known.push(discriminant(&config));
            assert_eq!(config.in_channels(), entry.input[1], "{}", entry.name);
            assert!(entry.dims.contains(&if entry.input[4] == 1 && entry.name != "Generator" { 2 } else { 3 }));
        }
        assert_eq!(known.len(), NetworkConfig::COUNT);
        let names: BTreeSet<String> = CATALOGUE.iter().map(|entry| entry.name.to_lowercase()).collect();
        assert!(names.iter().eq(CATALOGUE.iter().map(|entry| entry.name.to_lowercase()).collect::<Vec<_>>().iter()));
        // The small ones are built too; the others are when their cost is counted.
        for name in ["UNet", "resnet18", "Generator"] {
            let entry = CATALOGUE.iter().find(|entry| entry.name == name).expect("an entry");
            let net = entry.config().expect("read above").init(&Device::default(), 0).expect("an example");
            assert_eq!(net.check_input(entry.input), Ok(()));
        }
    }
}
