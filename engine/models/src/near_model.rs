//! Paths that are no models, but lie in one, or hold some: [`near_model`].

use std::path::Path;

use crate::nnunet::{ModelFolder, models_below};

/// What a path that is no model is, and what to give in its place; `None` if it has nothing to do with one.
pub(crate) fn near_model(path: &Path) -> Option<String> {
    if !path.exists() {
        return None;
    }
    let is_run = |folder: &Path| folder.join("recipe.toml").is_file();
    // The checkpoints of both lie two folders deep.
    if let Some(model) = path.ancestors().skip(1).take(2).find(|at| ModelFolder::is_one(at) || is_run(at)) {
        let kind = if is_run(model) { "run" } else { "model of nnU-Net" };
        let model = if model.as_os_str().is_empty() { Path::new(".") } else { model };
        return Some(format!("is a part of the {kind} {}: give that folder", model.display()));
    }
    if path.is_file() {
        let end = path.extension()?.to_string_lossy().to_lowercase();
        return match end.as_str() {
            "onnx" => Some("is an ONNX model, for other programs: give the model that it was exported from".to_owned()),
            "ckpt" | "pt" | "pth" | "safetensors" => {
                let how = "give the folder of their model, or its recipe with --weights FILE.safetensors";
                Some(format!("holds weights alone: {how} (`hearth convert` writes such a file)"))
            }
            _ => None,
        };
    }
    let mut found = Vec::new();
    models_below(path, 1, &mut found);
    if found.is_empty() {
        return None;
    }
    let found: Vec<String> = found.iter().map(|model| model.display().to_string()).collect();
    let found = found.join(" or ");
    Some(format!("holds models of nnU-Net: give {found}, or for a task of TotalSegmentator the folder above it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_models_and_folders_of_them_lead_to_the_model() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let file = |name: &str| {
            std::fs::create_dir_all(at(name).parent().expect("a folder")).expect("made");
            std::fs::write(at(name), "{}").expect("written");
        };
        let (model, run) = ("Dataset300_body/nnUNetTrainer__nnUNetPlans__3d_fullres", "runs/spleen");
        for name in ["plans.json", "dataset.json", "fold_0/checkpoint_final.pth"] {
            file(&format!("{model}/{name}"));
        }
        for name in ["recipe.toml", "checkpoints/best/network.safetensors"] {
            file(&format!("{run}/{name}"));
        }
        ["net.onnx", "net.pt", "notes.md", "empty/notes.md"].iter().for_each(|name| file(name));
        let said = |name: &str| near_model(&at(name)).unwrap_or_default();
        for part in ["plans.json", "fold_0", "fold_0/checkpoint_final.pth"] {
            let expected = format!("is a part of the model of nnU-Net {}: give that folder", at(model).display());
            assert_eq!(said(&format!("{model}/{part}")), expected);
        }
        let expected = format!("is a part of the run {}: give that folder", at(run).display());
        assert_eq!(said(&format!("{run}/checkpoints/best")), expected);
        let expected = format!("holds models of nnU-Net: give {}, or", at(model).display());
        assert!(said("Dataset300_body").starts_with(&expected), "{}", said("Dataset300_body"));
        assert!(said("net.onnx").starts_with("is an ONNX model") && said("net.pt").starts_with("holds weights alone"));
        assert_eq!(["notes.md", "empty", "absent"].map(said), [""; 3]);
    }
}
