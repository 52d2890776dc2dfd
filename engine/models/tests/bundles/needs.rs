//! Lists of the needs of configs.

use std::error::Error;
use std::path::{Path, PathBuf};

use hearth_models::bundle::{Bundle, FaultKind, RunOptions, convert, needs};
use hearth_recipe::recipe::Recipe;

type Tested = Result<(), Box<dyn Error>>;

/// Bundles whose inference configs lack only files.
const RUN: [&str; 25] = [
    "spleen_ct_segmentation",
    "swin_unetr_btcv_segmentation",
    "wholeBody_ct_segmentation",
    "prostate_mri_anatomy",
    "segmentation_template",
    "ventricular_short_axis_3label",
    "pediatric_abdominal_ct_segmentation",
    "brats_mri_segmentation",
    "mednist_gan",
    "classification_template",
    "endoscopic_inbody_classification",
    "pathology_tumor_detection",
    "brats_mri_generative_diffusion",
    "brats_mri_axial_slices_generative_diffusion",
    "breast_density_classification",
    "renalStructures_CECT_segmentation",
    "pathology_nuclick_annotation",
    "endoscopic_tool_segmentation",
    "renalStructures_UNEST_segmentation",
    "wholeBrainSeg_Large_UNEST_segmentation",
    "pancreas_ct_dints_segmentation",
    "pathology_nuclei_classification",
    "spleen_deepedit_annotation",
    "valve_landmarks",
    "mednist_reg",
];

pub fn configs() -> PathBuf {
    let given = std::env::var_os("HEARTH_REAL_DATA").map(PathBuf::from);
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    given.unwrap_or(usual).join("bundle_configs")
}

#[test]
#[ignore = "reads real configs"]
fn every_config_of_the_zoo_is_listed() -> Tested {
    let mut wrong = Vec::new();
    let mut bundles = 0;
    for entry in std::fs::read_dir(configs())? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        bundles += 1;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bundle = Bundle::open(&path)?;
        let all = needs(&bundle, &RunOptions::default()).map_err(|error| format!("{name}: {}", error.line()))?;
        if all.is_empty() {
            wrong.push(format!("{name}: no config is listed"));
        }
        for config in all {
            let state = if config.is_supported() { "all here" } else { "missing" };
            println!("{name} {} ({:?}): {state}", config.name, config.run_id);
            config.missing.iter().for_each(|fault| println!("    {}: {fault}", fault.kind.word()));
            let inference = config.name.starts_with("inference");
            if inference && RUN.contains(&name.as_str()) && !config.is_supported() {
                wrong.push(format!("{name} {}: {:?}", config.name, config.missing));
            }
            // Every fault has a place.
            if let Some(fault) = config.missing.iter().find(|fault| fault.file.is_empty()) {
                wrong.push(format!("{name} {}: {fault} names no file", config.name));
            }
            if config.parts.is_empty() && config.missing.is_empty() {
                wrong.push(format!("{name} {}: needs nothing", config.name));
            }
        }
    }
    assert_eq!(bundles, 30);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

#[test]
#[ignore = "reads real configs"]
fn train_configs_become_recipes() -> Tested {
    for (name, least) in [
        ("spleen_ct_segmentation", "RandCropByPosNegLabel"),
        ("prostate_mri_anatomy", "RandCropByPosNegLabel"),
        ("swin_unetr_btcv_segmentation", "SwinUNETR"),
        ("wholeBody_ct_segmentation", "SegResNet"),
        ("brats_mri_segmentation", "SegResNet"),
    ] {
        let bundle = Bundle::open(&configs().join(name))?;
        let made = convert(&bundle, &["train".to_owned()]).map_err(|error| format!("{name}: {}", error.line()))?;
        println!("{name}\n{}\n{}", made.recipe, made.left_out.join("\n"));
        assert!(made.recipe.contains(least), "{name}: {}", made.recipe);
        let document = hearth_registry::Document::parse(name, made.recipe.clone())?;
        Recipe::read(&document).map_err(|fault| format!("{name}: {fault}\n{}", made.recipe))?;
        assert!(!made.left_out.is_empty(), "{name}");
    }
    Ok(())
}

#[test]
fn a_stored_bundle_is_listed_and_converted() -> Tested {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/bundles/swin_unetr_btcv_segmentation");
    let bundle = Bundle::open(&folder)?;
    let labels = bundle.metadata().map(|metadata| metadata.labels()).unwrap_or_default();
    assert_eq!(labels.get(&1).map(String::as_str), Some("spleen"));
    let all = needs(&bundle, &RunOptions::default())?;
    let config = all.iter().find(|config| config.name == "inference").ok_or("no inference config")?;
    assert!(config.is_supported(), "{:?}", config.missing);
    // The tests that run it make the weights, and the images are those of its data set.
    assert!(!config.is_complete() && config.missing.iter().all(|fault| fault.kind == FaultKind::File));
    for part in ["models/model.pt", "the list of images is empty"] {
        assert!(config.missing.iter().any(|fault| fault.what.contains(part)), "{part}: {:?}", config.missing);
    }
    let kinds: Vec<(&str, &str)> = config.parts.iter().map(|part| (part.kind, part.target.as_str())).collect();
    for wanted in [("network", "SwinUNETR"), ("transform", "Spacingd"), ("inferer", "SlidingWindowInferer")] {
        assert!(kinds.contains(&wanted), "{wanted:?} is not in {kinds:?}");
    }
    let made = convert(&bundle, &[])?;
    let recipe = Recipe::read(&hearth_registry::Document::parse("swin", made.recipe.clone())?)?;
    assert_eq!(recipe.labels.len(), 14, "{}", made.recipe);
    assert!(made.weights.is_none() && made.left_out.iter().any(|left| left.contains("weights")));
    Ok(())
}
