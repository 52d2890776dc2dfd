//! `--format` for a bundle that runs as its config defines: [`set_format`].

use hearth_bundle::Config;
use hearth_recipe::{Outcome, RecipeError};
use serde_json::Value;

use crate::writers::VolumeFormat;

/// The option of `SaveImage` with the ending of its files, and the default.
const ENDING: (&str, &str) = ("output_ext", ".nii.gz");

/// The endings of files without an image.
const OTHERS: [&str; 2] = [".npy", ".json"];

/// Sets the format of every `SaveImage` of a config, as if its `output_ext` were given on the command line.
///
/// # Errors
/// A config without images to save; PNG in the place of volumes; `as-input`, for which each case would have
/// its own.
pub(crate) fn set_format(config: &mut Config, format: VolumeFormat) -> Outcome {
    let Some(ending) = format.ending() else {
        let what =
            "as-input: the config of this bundle has one format for all images; give one of them, such as nii.gz";
        return Err(RecipeError::new(format!("--format {what}")));
    };
    let mut saves = Vec::new();
    find(config.root(), String::new(), &mut saves);
    saves.retain(|(_, own)| !OTHERS.contains(&own.as_str()));
    if saves.is_empty() {
        let what = "chooses the format of images, and the config of this bundle has no SaveImage for one: remove it";
        return Err(RecipeError::new(format!("--format {what}")));
    }
    for (id, own) in saves {
        if ending == ".png" && own != ending {
            return Err(RecipeError::new(format!(
                "--format: png holds one slice of whole numbers, and {id} saves volumes ({own}): give another format, such \
                 as nii.gz"
            )));
        }
        config.set_from_text(&format!("{id}#{}", ENDING.0), ending)?;
    }
    Ok(())
}

/// The ids of the components that save images, with their endings.
fn find(item: &Value, id: String, saves: &mut Vec<(String, String)>) {
    let below = |key: &str| if id.is_empty() { key.to_owned() } else { format!("{id}#{key}") };
    match item {
        Value::Object(table) => {
            let target = table.get("_target_").and_then(Value::as_str).unwrap_or_default();
            let name = target.rsplit('.').next().unwrap_or_default();
            if ["SaveImage", "SaveImaged", "SaveImageD", "SaveImageDict"].contains(&name) {
                let own = table.get(ENDING.0).and_then(Value::as_str).unwrap_or(ENDING.1).to_lowercase();
                let own = if own.starts_with('.') { own } else { format!(".{own}") };
                saves.push((id.clone(), own));
            }
            table.iter().for_each(|(key, item)| find(item, below(key), saves));
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(place, item)| find(item, below(&place.to_string()), saves));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn endings(config: Value, format: VolumeFormat) -> Result<Vec<String>, String> {
        let mut config = Config::parse("inference.json", &config.to_string()).map_err(|fault| fault.to_string())?;
        set_format(&mut config, format).map_err(|error| error.line())?;
        let mut saves = Vec::new();
        find(config.root(), String::new(), &mut saves);
        Ok(saves.into_iter().map(|(_, own)| own).collect())
    }

    #[test]
    fn every_image_has_the_format() {
        let save = |own: Value| json!({ "_target_": "SaveImaged", "keys": "pred", "output_ext": own });
        let chain = |saves: Value| json!({ "post": { "_target_": "Compose", "transforms": saves } });
        let config =
            chain(json!([{ "_target_": "monai.transforms.SaveImage" }, save(json!("nii")), save(json!(".json"))]));
        assert_eq!(endings(config, VolumeFormat::Nrrd), Ok(vec![".nrrd".into(), ".nrrd".into(), ".json".into()]));
        let pictures = || chain(json!([save(json!(".png"))]));
        assert_eq!(endings(pictures(), VolumeFormat::Png), Ok(vec![".png".into()]));
        assert_eq!(endings(pictures(), VolumeFormat::NiftiPacked), Ok(vec![".nii.gz".into()]));
        for (config, format, words) in [
            (chain(json!([save(json!(".nii.gz"))])), VolumeFormat::Png, "post#transforms#0 saves volumes (.nii.gz)"),
            (pictures(), VolumeFormat::AsInput, "as-input"),
            (chain(json!([save(json!(".npy"))])), VolumeFormat::Nifti, "no SaveImage"),
        ] {
            let error = endings(config, format).expect_err("refused");
            assert!(error.contains("--format") && error.contains(words), "{error}");
        }
    }
}
