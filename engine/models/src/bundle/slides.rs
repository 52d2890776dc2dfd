//! Probability maps of slides: `MaskedPatchWSIDataset` and `ProbMapProducer`.

use std::path::PathBuf;
use std::sync::Arc;

use hearth_bundle::{Component, Fault, Value};
use hearth_data::slides::{Resolution, Slide, TissueOptions, TissueRule};
use hearth_data::{Dataset, PatchWSIDataset, Pipeline, WsiOptions};
use hearth_nn::networks::Network;

use crate::bundle::case::{Case, prediction};
use crate::bundle::chain::Chain;
use crate::bundle::evaluator::Pass;
use crate::bundle::nodes::fault;
use crate::bundle::run::Told;
use crate::bundle::writing::Writing;
use crate::slides::npy;
use hearth_recipe::{Context, Outcome, RecipeError};

/// How slides are split into patches.
pub(crate) struct SlideOptions {
    patch: [usize; 2],
    level: usize,
    mask_level: usize,
}

impl SlideOptions {
    pub fn new(dataset: &Component) -> Result<Self, Fault> {
        let whole = |value: &Value| usize::try_from(value.as_int()?).ok();
        let patch = match dataset.get("patch_size") {
            Some(value) if value.as_int().is_some() => whole(value).map(|size| [size, size]),
            Some(value) => {
                let sizes: Option<Vec<usize>> = value.as_slice().and_then(|sizes| sizes.iter().map(whole).collect());
                sizes.and_then(|sizes| sizes.try_into().ok())
            }
            None => None,
        };
        let patch = patch.ok_or_else(|| fault(dataset, "patch_size: expected two numbers"))?;
        let level = |key: &str, default: usize| dataset.get(key).map_or(Some(default), whole);
        let level_of =
            |key: &str, default: usize| level(key, default).ok_or_else(|| fault(dataset, format!("{key} is no level")));
        for unused in ["additional_meta_keys", "include_label"] {
            if dataset.get(unused).is_some_and(|value| value.truth() == Some(true)) {
                return Err(fault(dataset, format!("{unused} is not supported")));
            }
        }
        Ok(SlideOptions { patch, level: level_of("patch_level", 0)?, mask_level: level_of("mask_level", 7)? })
    }
}

/// `ProbMapProducer`.
pub(crate) struct Maps {
    folder: String,
    postfix: String,
    key: String,
}

impl Maps {
    pub fn new(handler: &Component) -> Result<Self, Fault> {
        let text = |key: &str, default: &str| handler.get(key).and_then(Value::as_str).unwrap_or(default).to_owned();
        Ok(Maps {
            folder: text("output_dir", "./"),
            postfix: text("output_postfix", ""),
            key: text("prob_key", "pred"),
        })
    }

    /// Writes the maps of all slides, one file each. Returns their number.
    #[expect(clippy::too_many_arguments, reason = "the parts of an evaluator, which has them apart")]
    pub fn run<N: Network>(
        &self,
        options: &SlideOptions,
        list: &[Value],
        (before, after): (&Chain, &Chain),
        batch: usize,
        pass: &Pass<'_, N>,
        writing: &mut Writing,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Outcome<usize> {
        for given in list {
            let written = given.key("image").and_then(Value::as_str);
            let written = written.ok_or_else(|| RecipeError::new("a slide of the list has no `image`"))?;
            let path = writing.inputs.join(written);
            self.slide(&path, options, (before, after), batch, pass, writing, tell)
                .while_doing(|| written.to_owned())?;
        }
        Ok(list.len())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an evaluator, which has them apart")]
    fn slide<N: Network>(
        &self,
        path: &PathBuf,
        options: &SlideOptions,
        (before, after): (&Chain, &Chain),
        batch: usize,
        pass: &Pass<'_, N>,
        writing: &mut Writing,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Outcome {
        let slide = Slide::open(path)?;
        let levels = slide.levels().len();
        if options.mask_level >= levels {
            let what =
                format!("mask_level is {}, and the slide has {levels} levels (0 is the largest)", options.mask_level);
            return Err(RecipeError::new(what));
        }
        let tissue =
            TissueOptions { level: Some(options.mask_level), rule: TissueRule::Foreground, ..TissueOptions::default() };
        let mask = slide.tissue_mask(&tissue)?;
        let wsi = WsiOptions::new(options.patch[0], options.patch[1]).resolution(Resolution::Level(options.level));
        let data = PatchWSIDataset::masked(std::slice::from_ref(path), &tissue, wsi, Arc::new(Pipeline::default()))?;
        let mut values = vec![0.0; mask.width * mask.height];
        let total = data.patches().len();
        for start in (0..total).step_by(batch.max(1)) {
            let places: Vec<usize> = (start..(start + batch).min(total)).collect();
            let mut cases = Vec::with_capacity(places.len());
            for place in &places {
                let mut samples = data.get(*place, 0)?;
                let mut case = Case::new(&Value::None, *place, &writing.inputs);
                case.sample = samples.pop().ok_or_else(|| RecipeError::new("a patch was lost"))?;
                before.run(&mut case, writing)?;
                cases.push(case);
            }
            let images = cases.iter().map(|case| Ok(case.sample.image("image")?.data.clone()));
            let outputs = pass.run(images.collect::<Outcome<Vec<_>>>()?)?;
            for ((mut case, output), place) in cases.into_iter().zip(outputs).zip(places) {
                case.sample.values.insert("pred".to_owned(), hearth_data::Value::Image(prediction(output, None)));
                after.run(&mut case, writing)?;
                let probability = case.sample.image(&self.key)?.to_vec();
                let [one] = probability[..] else {
                    let what = format!("the network gives {} values for a patch; a map has one", probability.len());
                    return Err(RecipeError::new(what));
                };
                if let Some([row, column]) = data.patches()[place].map_location {
                    values[row * mask.width + column] = f64::from(one);
                }
            }
            tell(Told::Patches { done: (start + batch).min(total), total });
        }
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let file = PathBuf::from(&self.folder).join(format!("{name}{}.npy", self.postfix));
        let file = writing.claim(&file, std::slice::from_ref(path))?;
        let bytes = npy(&values, [mask.height, mask.width]);
        hearth_files::replace(&file, bytes).while_doing(|| format!("cannot write {}", file.display()))?;
        writing.done(file);
        Ok(())
    }
}
