//! Several models of one data set that predict together, merged as in `nnUNetv2_ensemble`.

use std::path::{Path, PathBuf};

use hearth_nnunet::{Case, NnunetError, postprocess, probabilities};

use crate::nnunet::predict::{NnunetOptions, NnunetPredictor, Predicted, Preparation};
use crate::spread::Spread;
use hearth_recipe::nnunet::CaseImage;
use hearth_recipe::{Outcome, RecipeError};

/// Models whose probabilities are averaged: configurations of one data set, or a single model.
pub struct NnunetEnsemble {
    members: Vec<NnunetPredictor>,
}

impl NnunetEnsemble {
    /// Opens the folders of models.
    ///
    /// # Errors
    /// No models, models that cannot be opened, or models with different labels or channels.
    pub fn open(folders: &[PathBuf], options: &NnunetOptions) -> Outcome<Self> {
        let options = NnunetOptions { kept: options.kept / folders.len().max(1), ..options.clone() };
        let members = folders.iter().map(|folder| NnunetPredictor::open(folder, &options));
        let members = members.collect::<Outcome<Vec<_>>>()?;
        let Some(first) = members.first() else { return Err(RecipeError::new("there is no model")) };
        for other in &members[1..] {
            let differs = |what: &str| {
                let paths = [first, other].map(|member| member.folder.path.display().to_string());
                RecipeError::new(format!(
                    "{} and {} differ in their {what}, and cannot be averaged",
                    paths[0], paths[1]
                ))
            };
            let [one, two] = [&first.folder.dataset, &other.folder.dataset];
            if one.labels != two.labels {
                return Err(differs("labels"));
            }
            if one.channel_names != two.channel_names || one.file_ending != two.file_ending {
                return Err(differs("channels or file_ending"));
            }
        }
        Ok(NnunetEnsemble { members })
    }

    /// The models, in order.
    pub fn members(&self) -> &[NnunetPredictor] {
        &self.members
    }

    /// The first model, which reads cases and decides the names of their results.
    pub fn first(&self) -> &NnunetPredictor {
        &self.members[0]
    }

    /// Predicts the labels of a case, and probabilities if `wanted`. `previous` is the folder of
    /// the labels of an earlier stage, for models that continue from them.
    ///
    /// # Errors
    /// Images that cannot be read or do not fit the models.
    pub fn predict(&self, case: &Case, previous: Option<&Path>, wanted: bool) -> Outcome<Predicted> {
        let [first] = &self.members[..] else { return self.mean(case, previous, wanted) };
        first.predict_with(case, previous, wanted)
    }

    /// Preprocesses an image for each model. `previous` is the label file of an earlier stage.
    ///
    /// # Errors
    /// An image that does not fit the models.
    pub fn prepare(&self, image: CaseImage, previous: Option<&Path>) -> Outcome<Vec<Preparation>> {
        let (last, others) = match self.members.split_last() {
            Some(parts) => parts,
            None => return Ok(Vec::new()),
        };
        let all = others.iter().map(|member| member.prepare_image(image.clone(), previous));
        let mut all = all.collect::<Outcome<Vec<_>>>()?;
        all.push(last.prepare_image(image, previous)?);
        Ok(all)
    }

    /// Predicts the labels of an image that was prepared for each model, and probabilities if
    /// `wanted`. For `uncertainty`, each fold and each mirrored image is predicted separately as
    /// well.
    ///
    /// # Errors
    /// Values that the device failed to compute.
    pub fn compute(&self, prepared: Vec<Preparation>, wanted: bool, uncertainty: bool) -> Outcome<Predicted> {
        let several = self.members.len() > 1;
        let mut spread = Spread::default();
        if uncertainty {
            let steps = self.first().steps();
            let members = self.members.iter().zip(&prepared);
            members.into_iter().try_for_each(|(member, one)| member.spread(one, steps, &mut spread))?;
        }
        let found = self.members.iter().zip(prepared).map(|(member, one)| {
            let logits = member.logits(&one.data)?;
            member.export(&logits, one.origin, one.grid, wanted || several)
        });
        let mut found = self.merged(found, wanted)?;
        if uncertainty {
            found.uncertainty = Some(spread.finish()?);
        }
        Ok(found)
    }

    /// The number of averaged outputs: for each model, each fold and each mirrored image.
    pub fn outputs(&self) -> usize {
        self.members.iter().map(NnunetPredictor::spread_members).sum()
    }

    fn mean(&self, case: &Case, previous: Option<&Path>, wanted: bool) -> Outcome<Predicted> {
        self.merged(self.members.iter().map(|member| member.predict_with(case, previous, true)), wanted)
    }

    /// Merges the predictions of the models; of a single model its own prediction.
    fn merged(&self, found: impl Iterator<Item = Outcome<Predicted>>, wanted: bool) -> Outcome<Predicted> {
        let mut found = found;
        if self.members.len() == 1 {
            return found.next().unwrap_or_else(|| Err(RecipeError::new("there is no model")));
        }
        // One at a time: the sum and one model's probabilities are in memory.
        let (mut last, mut fault) = (None, None);
        let each = found.filter_map(|found| match found {
            Ok(mut found) => {
                let own = found.probabilities.take();
                last = Some(found);
                own.map(Ok)
            }
            Err(why) => {
                let message = NnunetError::case(why.to_string());
                fault = Some(why);
                Some(Err(message))
            }
        });
        let mean = probabilities::mean(each);
        if let Some(why) = fault {
            return Err(why);
        }
        let (Some(mut found), mean) = (last, mean?) else { return Err(RecipeError::new("there is no model")) };
        let first = self.first();
        found.labels = probabilities::labels(&first.folder.dataset.labels, &mean);
        postprocess::apply(first.steps(), &mut found.labels)?;
        found.probabilities = wanted.then_some(mean);
        Ok(found)
    }
}
