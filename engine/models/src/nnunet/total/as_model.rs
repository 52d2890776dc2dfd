//! TotalSegmentator's tasks, and folders of several models, as a [`Model`].

use std::path::Path;
use std::sync::Arc;

use hearth_data::Image;
use hearth_nnunet::total::Modality;
use hearth_recipe::Outcome;
use hearth_recipe::nnunet::Reader;
use hearth_registry::counted;
use hearth_run::Fingerprint;
use serde_json::{Map, Value, json};

use crate::cases::{Case, CaseFinder, Sought};
use crate::model::{Abilities, Asked, Card, ClassLabel, Kind, Model, PredictedMap, Prediction, Prepare, Prepared};
use crate::nnunet::facts::facts_of;
use crate::nnunet::model::read_case;
use crate::nnunet::{TotalLabels, TotalPrepared, TotalSegmentator};
use crate::package::Unpacked;

/// Several models in one folder as one model.
pub struct TotalModel {
    total: Arc<TotalSegmentator>,
    card: Card,
    /// The properties of its models' data sets.
    fingerprint: Option<Fingerprint>,
    /// The faults of DICOM series that are accepted.
    accept: Vec<String>,
    /// The unpacked folder of a package, from which networks are read.
    _unpacked: Option<Unpacked>,
}

impl TotalModel {
    /// Wraps opened models.
    pub fn new(total: TotalSegmentator, unpacked: Option<Unpacked>) -> Self {
        let facts = total.card();
        let title =
            facts.task.map_or_else(|| "models side by side".to_owned(), |task| format!("TotalSegmentator {task}"));
        let models = counted(total.models().count(), "model");
        let mut labels: Vec<ClassLabel> =
            total.names().iter().map(|(label, name)| ClassLabel::new(u32::from(*label), name)).collect();
        if let Some(unpacked) = &unpacked {
            unpacked.describe(&mut labels);
        }
        let modality = if facts.modality == Modality::Ct { "CT" } else { "MR" };
        let card = Card {
            family: "folder of models",
            description: format!("{title}, {models} of nnU-Net"),
            made_by: format!("hearth {} {title}, {models}", env!("CARGO_PKG_VERSION")),
            kind: Kind::Labels,
            file_labels: labels.iter().map(|label| (label.name.clone(), label.value)).collect(),
            labels,
            channels: vec![modality.to_owned()],
            modalities: vec![modality.to_owned()],
            checksum: None,
            ending: "_seg.nii.gz".to_owned(),
            probability_endings: Vec::new(),
            names_a_winner: false,
            maps: Vec::new(),
            title,
        };
        let fingerprint = total.fingerprint();
        Self { total: Arc::new(total), card, fingerprint, accept: Vec::new(), _unpacked: unpacked }
    }

    /// Accepts faults of DICOM series, by name.
    #[must_use]
    pub fn accepting(self, faults: &[String]) -> Self {
        Self { accept: faults.to_vec(), ..self }
    }
}

impl Model for TotalModel {
    fn card(&self) -> &Card {
        &self.card
    }

    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn cases(&self, given: &Path, sought: Sought<'_>) -> Outcome<Vec<Case>> {
        let finder = CaseFinder { layout: None, images: &[], modalities: &self.card.modalities, series: None };
        finder.find(given, sought)
    }

    fn preparer(&self) -> Arc<dyn Prepare> {
        Arc::new(TotalPreparer(self.total.clone(), self.accept.clone()))
    }

    fn predict(&self, prepared: Prepared, _asked: Asked) -> Outcome<Prediction> {
        let found = self.total.compute(prepared.take::<TotalPrepared>()?)?;
        Ok(Prediction::Map(Box::new(found)))
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        self.fingerprint.as_ref()
    }

    fn key(&self) -> Outcome<Value> {
        let models = self.total.models().map(|model| model.key()).collect::<Outcome<Vec<Value>>>()?;
        let classes: Vec<&String> = self.total.names().values().collect();
        Ok(json!({ "models": models, "classes": classes, "task": self.total.card().task }))
    }

    fn record(&self) -> Map<String, Value> {
        let labels: Map<String, Value> =
            self.total.names().iter().map(|(label, name)| (label.to_string(), name.clone().into())).collect();
        let models: Vec<String> = self.total.models().map(|model| model.folder.path.display().to_string()).collect();
        Map::from_iter([
            ("labels".to_owned(), Value::Object(labels)),
            ("models".to_owned(), json!(models)),
            ("accept".to_owned(), json!(self.accept)),
        ])
    }
}

/// Reads and resamples images for a folder of several models, which accepts these faults of DICOM series.
struct TotalPreparer(Arc<TotalSegmentator>, Vec<String>);

impl Prepare for TotalPreparer {
    fn prepare(&self, case: &Case, _previous: Option<&Path>) -> Outcome<Prepared> {
        // TotalSegmentator reads the closest canonical axes.
        let image = read_case(case, Reader::SimpleItk { reorient: true }, ".nii.gz", &self.1)?;
        let bytes = 4 * 4 * image.volume.data.len() as u64;
        let facts = facts_of(&image.volume, image.spacing);
        Ok(Prepared::new(self.0.prepare(image)?, bytes).with_facts(Some(facts)))
    }
}

impl PredictedMap for TotalLabels {
    fn image(&self) -> Outcome<Image> {
        Ok(self.grid().image(&self.labels))
    }

    fn write(&self, path: &Path) -> Outcome {
        TotalLabels::write(self, path)
    }

    fn statistics(&self, incomplete: bool) -> Option<Value> {
        Some(TotalLabels::statistics(self, incomplete))
    }

    fn incomplete(&self) -> Vec<String> {
        TotalLabels::incomplete(self).map(str::to_owned).collect()
    }
}
