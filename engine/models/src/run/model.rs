//! A run, an ensemble of runs, a package of one or a recipe with weights as a [`Model`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_data::{Image, NiftiOptions};
use hearth_package::Label;
use hearth_recipe::Outcome;
use hearth_recipe::recipe::{Output, Recipe};
use hearth_registry::counted;
use hearth_run::{Fingerprint, previous_labels};
use serde_json::{Map, Value, json};

use crate::cases::{Case, CaseFinder, Sought};
use crate::model::{
    Abilities, Asked, Card, ClassLabel, Kind, Model, PredictedMap, Prediction, Prepare, Prepared, Scores, Uncertainty,
};
use crate::package::codes_of;
use crate::run::segment::{Reading, Ready, Segmented, Wanted};
use crate::run::trained::Trained;
use crate::slides::SlidePreparer;
use crate::slides::find::{PARTIAL, slides_of};
use crate::writers::write_volume;

/// The network of a run as a model.
pub struct RunModel {
    trained: Trained,
    card: Card,
    reading: Arc<dyn Prepare>,
}

impl RunModel {
    /// Wraps the network of a run.
    pub fn new(trained: Trained) -> Self {
        let card = card(&trained);
        let reading: Arc<dyn Prepare> = match trained.plan.recipe.learns().patches() {
            Some(how) => Arc::new(SlidePreparer(how.clone())),
            None => Arc::new(RunPreparer(Reading::of(&trained.plan))),
        };
        Self { trained, card, reading }
    }

    /// The network.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// Hides the progress of windows in later predictions.
    #[must_use]
    pub fn quiet(mut self) -> Self {
        self.trained.plan.progress = hearth_data::Progress::None;
        self
    }
}

fn card(trained: &Trained) -> Card {
    let recipe = &trained.plan.recipe;
    let learns = recipe.learns();
    let kind = match recipe.output() {
        _ if learns.generates() => Kind::Generated,
        _ if learns.patches().is_some() => Kind::SlideMap,
        Output::Labels => Kind::Labels,
        Output::Regions => Kind::Regions,
        Output::Scores => Kind::Scores,
        Output::Image => Kind::Image,
    };
    let title = recipe.title();
    let family = match &trained.ensemble {
        Some(_) => "ensemble",
        None => "run",
    };
    Card {
        family,
        description: match &trained.ensemble {
            Some(all) => format!("{title}, {} merged", counted(all.members().len(), "run")),
            None => format!("{title}, {}", trained.checkpoint),
        },
        made_by: trained.made_by(),
        kind,
        labels: class_labels(recipe, kind, &trained.labels),
        file_labels: file_labels(recipe, kind),
        channels: recipe.data.images.clone(),
        modalities: modalities(trained),
        checksum: Some(format!("BLAKE3:{}", trained.weights)),
        ending: match kind {
            Kind::Image => "_pred.nii.gz".to_owned(),
            Kind::SlideMap => ".npy".to_owned(),
            _ => "_seg.nii.gz".to_owned(),
        },
        probability_endings: vec!["_prob.nii.gz"],
        names_a_winner: learns.names_a_winner(),
        maps: trained.ensemble.iter().flat_map(|all| all.maps()).map(|map| map.word()).collect(),
        title,
    }
}

/// The DICOM modalities that the recipe names, or that of the training's data set.
fn modalities(trained: &Trained) -> Vec<String> {
    let named = &trained.plan.recipe.data.modalities;
    let known = || trained.fingerprint.iter().filter_map(|known| known.modality.clone()).collect();
    if named.is_empty() { known() } else { named.clone() }
}

/// The labels by their values, regions and numbers by their channels; with colours and codes of a
/// package.
fn class_labels(recipe: &Recipe, kind: Kind, packed: &[Label]) -> Vec<ClassLabel> {
    // The first label is the background.
    let skipped = usize::from(kind == Kind::Labels);
    let codes = codes_of(packed);
    let first = if kind == Kind::Scores { 0 } else { 1 - skipped as u32 };
    let label = |(place, name): (usize, &String)| ClassLabel {
        value: place as u32 + first,
        name: name.clone(),
        color: packed.iter().find(|label| label.name == *name).map(|label| label.colour),
        coding: codes.get(name).cloned(),
    };
    recipe.labels.iter().enumerate().skip(skipped).map(label).collect()
}

/// Names with their values in the written label map; for regions without labels, their channel numbers.
fn file_labels(recipe: &Recipe, kind: Kind) -> Vec<(String, u32)> {
    let numbered = |first: usize| {
        recipe.labels.iter().enumerate().skip(first).map(|(place, name)| (name.clone(), place as u32)).collect()
    };
    match (kind, recipe.learns().region_labels()) {
        (Kind::Labels, _) => numbered(1),
        (Kind::Regions, Some(regions)) => of_regions(&recipe.labels, &regions),
        (Kind::Regions, None) => {
            recipe.labels.iter().enumerate().map(|(place, name)| (name.clone(), place as u32 + 1)).collect()
        }
        (Kind::Scores, _) => numbered(0),
        _ => Vec::new(),
    }
}

/// A label may belong to several nested regions; it gets the name of the smallest.
fn of_regions(names: &[String], regions: &[Vec<i64>]) -> Vec<(String, u32)> {
    let mut values: Vec<i64> = regions.iter().flatten().copied().filter(|value| *value > 0).collect();
    values.sort_unstable();
    values.dedup();
    let mut found: Vec<(String, u32)> = Vec::new();
    for value in values {
        let own = names.iter().zip(regions).filter(|(_, labels)| labels.contains(&value));
        let Some((name, _)) = own.min_by_key(|(_, labels)| labels.len()) else { continue };
        let taken = found.iter().any(|(known, _)| known == name);
        found.push((if taken { format!("{name}_{value}") } else { name.clone() }, value as u32));
    }
    found
}

impl Model for RunModel {
    fn card(&self) -> &Card {
        &self.card
    }

    fn abilities(&self) -> Abilities {
        if self.card.kind == Kind::SlideMap {
            return Abilities::default();
        }
        let saliency = self.card.kind == Kind::Scores && self.trained.ensemble.is_none();
        let learns = self.trained.plan.recipe.learns();
        let channels = self.card.kind == Kind::Regions && learns.region_labels().is_none();
        Abilities { probabilities: true, uncertainty: self.trained.compares(), augmentation: true, saliency, channels }
    }

    fn check(&self, asked: &Asked) -> Outcome {
        asked.saliency.as_ref().map_or(Ok(()), |how| self.trained.check_saliency(how))
    }

    fn cases(&self, given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>> {
        if self.card.kind == Kind::SlideMap {
            return slides_of(given, sought);
        }
        let finder = CaseFinder::of_recipe(&self.trained.plan.recipe);
        CaseFinder { modalities: &self.card.modalities, ..finder }.find(given, sought)
    }

    fn preparer(&self) -> Arc<dyn Prepare> {
        self.reading.clone()
    }

    fn predict(&self, mut prepared: Prepared, asked: Asked) -> Outcome<Prediction> {
        if self.card.kind == Kind::SlideMap {
            let partial = prepared.partial.take();
            let map = self.trained.slide_map(prepared.take()?, partial.as_deref())?;
            return Ok(Prediction::SlideMap(Box::new(map)));
        }
        let ready = prepared.take::<Ready>()?;
        if self.card.kind == Kind::Scores {
            let saliency = asked.saliency.map(|how| self.trained.saliency_of(&ready, &how)).transpose()?.map(Box::new);
            return Ok(Prediction::Scores(Scores { values: self.trained.scores_of(ready)?, saliency }));
        }
        let wanted = Wanted { probabilities: asked.probabilities, uncertainty: asked.uncertainty };
        let found = self.trained.segment_of(ready, wanted)?;
        let written = found.written(&self.trained.plan)?;
        Ok(Prediction::Map(Box::new(RunMap { found, written, made_by: self.card.made_by.clone() })))
    }

    fn key(&self) -> Outcome<Value> {
        self.trained.key()
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        self.trained.fingerprint.as_ref()
    }

    fn record(&self) -> Map<String, Value> {
        let Trained { plan, checkpoint, weights, ensemble, .. } = &self.trained;
        let recipe = &plan.recipe;
        let mut record = Map::from_iter([
            ("checkpoint".to_owned(), json!(checkpoint)),
            ("recipe".to_owned(), json!(recipe.title())),
            ("weights_blake3".to_owned(), json!(weights)),
        ]);
        if let Some(ensemble) = ensemble {
            record.insert("ensemble".to_owned(), json!(ensemble.members()));
        }
        match self.card.kind {
            Kind::Labels => drop(record.insert("labels".to_owned(), json!(recipe.labels))),
            Kind::Regions => drop(record.insert("regions".to_owned(), json!(recipe.labels))),
            _ => {}
        }
        if let Some(classes) = recipe.learns().region_labels() {
            record.insert("region_labels".to_owned(), json!(classes));
        }
        record
    }

    fn previous_stage(&self, case: &Case) -> Outcome<Option<PathBuf>> {
        previous_labels(&self.trained.plan.recipe, &case.stem().to_string_lossy())
    }

    fn partial_ending(&self) -> Option<&'static str> {
        (self.card.kind == Kind::SlideMap).then_some(PARTIAL)
    }

    fn as_run(&self) -> Option<&Trained> {
        Some(&self.trained)
    }
}

/// Reads cases according to a recipe.
struct RunPreparer(Reading);

impl Prepare for RunPreparer {
    fn prepare(&self, case: &Case, previous: Option<&Path>) -> Outcome<Prepared> {
        let ready = self.0.ready_from(case.sample(), previous)?;
        let (bytes, facts) = (ready.bytes(), ready.facts().cloned());
        Ok(Prepared::new(ready, bytes).with_facts(facts))
    }
}

/// The prediction of a run.
struct RunMap {
    found: Segmented,
    /// The image for the file: regions as one label map if the recipe has labels for them.
    written: Image,
    made_by: String,
}

impl RunMap {
    fn volume(&self) -> NiftiOptions {
        NiftiOptions::default().description(&self.made_by)
    }
}

impl PredictedMap for RunMap {
    fn image(&self) -> Outcome<Image> {
        Ok(self.found.image.clone())
    }

    fn file_image(&self) -> Outcome<Image> {
        Ok(self.written.clone())
    }

    fn write(&self, path: &Path) -> Outcome {
        let options = match self.found.output.is_map() {
            true => NiftiOptions::label().description(&self.made_by),
            false => self.volume(),
        };
        write_volume(path, &self.written, options)
    }

    fn probabilities(&self) -> Outcome<Option<Image>> {
        Ok(self.found.probabilities.clone())
    }

    fn write_probabilities(&self, paths: &[PathBuf]) -> Outcome {
        for (path, maps) in paths.iter().zip(&self.found.probabilities) {
            write_volume(path, maps, self.volume())?;
        }
        Ok(())
    }

    fn uncertainty(&self) -> Option<&Uncertainty> {
        self.found.uncertainty.as_ref()
    }

    fn disagreement(&self) -> &[(&'static str, Image)] {
        &self.found.disagreement
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_has_the_name_of_its_smallest_region() {
        let names: Vec<String> = ["TC", "WT", "ET"].map(str::to_owned).into();
        let found = of_regions(&names, &[vec![1, 3], vec![1, 2, 3], vec![3]]);
        assert_eq!(found, [("TC".to_owned(), 1), ("WT".to_owned(), 2), ("ET".to_owned(), 3)]);
        let found = of_regions(&names[..1], &[vec![1, 2]]);
        assert_eq!(found, [("TC".to_owned(), 1), ("TC_2".to_owned(), 2)]);
    }
}
