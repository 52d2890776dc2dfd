//! The labels of a data set that make up each region.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The labels of each region: a convention for brain tumours, for the regions TC, WT and ET in this
/// order, or a list for each region.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RegionLabels {
    /// A convention by name.
    Convention(Convention),
    /// One list of labels for each region, in the order of `labels`.
    Listed(Vec<Vec<i64>>),
}

/// The label numbering of brain tumour data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Convention {
    /// The Decathlon's Task01: 1 oedema, 2 non-enhancing core, 3 enhancing tumour.
    Decathlon,
    /// BraTS 2012 to 2015: 1 necrotic and 3 non-enhancing core, 2 oedema, 4 enhancing tumour.
    /// Predictions have 1 for both parts of the core.
    Brats2015,
    /// BraTS 2017 to 2022: 1 core, 2 oedema, 4 enhancing tumour.
    Brats2018,
    /// BraTS 2023 and later: 1 core, 2 oedema, 3 enhancing tumour.
    Brats2023,
    /// MONAI's tutorial on the Decathlon's Task01, which uses label 2 for the enhancing tumour. Its
    /// published Dice values use this numbering.
    Tutorial,
}

/// A derived implementation's message would not list the conventions.
impl<'de> Deserialize<'de> for RegionLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RegionLabels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a convention, or a list of labels for each region, as in [[1, 3], [1, 2, 3], [3]]")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<RegionLabels, E> {
                Convention::deserialize(name.into_deserializer()).map(RegionLabels::Convention)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, lists: A) -> Result<RegionLabels, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(lists)).map(RegionLabels::Listed)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl RegionLabels {
    /// The labels of each region.
    pub fn classes(&self) -> Vec<Vec<i64>> {
        let three = |core: &[i64], whole: &[i64], enhancing: i64| vec![core.to_vec(), whole.to_vec(), vec![enhancing]];
        match self {
            RegionLabels::Convention(Convention::Decathlon) => three(&[2, 3], &[1, 2, 3], 3),
            RegionLabels::Convention(Convention::Brats2015) => three(&[1, 3, 4], &[1, 2, 3, 4], 4),
            RegionLabels::Convention(Convention::Brats2018) => three(&[1, 4], &[1, 2, 4], 4),
            RegionLabels::Convention(Convention::Brats2023) => three(&[1, 3], &[1, 2, 3], 3),
            RegionLabels::Convention(Convention::Tutorial) => three(&[2, 3], &[1, 2, 3], 2),
            RegionLabels::Listed(classes) => classes.clone(),
        }
    }
}

/// A part of a tumour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Core,
    Oedema,
    Enhancing,
}

impl Part {
    /// The part that a label's name means, in the words of the data sets.
    fn of(name: &str) -> Option<Part> {
        let name = name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let is = |words: &[&str]| name.split(|c: char| !c.is_alphanumeric()).any(|part| words.contains(&part));
        // "non-enhancing" comes before "enhancing".
        if has(&["non-enh", "non enh", "nonenh", "necro"]) || is(&["ncr", "net", "netc"]) {
            Some(Part::Core)
        } else if has(&["edema", "oedema", "flair"]) || is(&["ed", "snfh"]) {
            Some(Part::Oedema)
        } else if has(&["enhanc"]) || is(&["et"]) {
            Some(Part::Enhancing)
        } else {
            None
        }
    }

    fn words(self) -> &'static str {
        match self {
            Part::Core => "the core",
            Part::Oedema => "oedema",
            Part::Enhancing => "enhancing tumour",
        }
    }
}

impl Convention {
    /// Its name in a recipe.
    fn word(self) -> &'static str {
        match self {
            Convention::Decathlon => "decathlon",
            Convention::Brats2015 => "brats2015",
            Convention::Brats2018 => "brats2018",
            Convention::Brats2023 => "brats2023",
            Convention::Tutorial => "tutorial",
        }
    }

    fn parts(self) -> &'static [(u32, Part)] {
        match self {
            Convention::Decathlon => &[(1, Part::Oedema), (2, Part::Core), (3, Part::Enhancing)],
            Convention::Brats2015 => &[(1, Part::Core), (2, Part::Oedema), (3, Part::Core), (4, Part::Enhancing)],
            Convention::Brats2018 => &[(1, Part::Core), (2, Part::Oedema), (4, Part::Enhancing)],
            Convention::Brats2023 => &[(1, Part::Core), (2, Part::Oedema), (3, Part::Enhancing)],
            // The tutorial reads the Decathlon's data in its own way.
            Convention::Tutorial => &[],
        }
    }
}

impl RegionLabels {
    /// Compares a convention with the label names of a data set.
    ///
    /// # Errors
    /// A name that means another part of the tumour.
    pub fn check_names(&self, names: &BTreeMap<u32, String>) -> Result<(), String> {
        let RegionLabels::Convention(convention) = self else { return Ok(()) };
        for (label, part) in convention.parts() {
            let Some(name) = names.get(label) else { continue };
            if Part::of(name).is_some_and(|found| found != *part) {
                let fits =
                    [Convention::Decathlon, Convention::Brats2018, Convention::Brats2023].into_iter().find(|other| {
                        let agrees = |(label, part): &(u32, Part)| {
                            names.get(label).is_some_and(|name| Part::of(name) == Some(*part))
                        };
                        other.parts().iter().all(agrees)
                    });
                let advice = match fits {
                    Some(other) => {
                        let word = other.word();
                        format!("set task.classes to {word:?}, or give --classes {word} to evaluate and predict")
                    }
                    None => "list the labels of each region in task.classes".to_owned(),
                };
                return Err(format!(
                    "label {label} is {name:?} in this data set, but {} with task.classes = {:?}: {advice}",
                    part.words(),
                    convention.word()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as data sets have them.
    fn names(list: &[(u32, &str)]) -> BTreeMap<u32, String> {
        list.iter().map(|(label, name)| (*label, (*name).to_owned())).collect()
    }

    #[test]
    fn a_data_set_of_another_convention_is_refused() {
        let task01 = names(&[(0, "background"), (1, "edema"), (2, "non-enhancing tumor"), (3, "enhancing tumour")]);
        let brats2021 = names(&[(1, "NCR - necrotic tumor core"), (2, "ED - peritumoral edema"), (4, "ET")]);
        let brats2023 = names(&[(1, "NETC"), (2, "SNFH"), (3, "ET")]);
        let check = |convention, names| RegionLabels::Convention(convention).check_names(names);
        for (convention, names) in
            [(Convention::Decathlon, &task01), (Convention::Brats2018, &brats2021), (Convention::Brats2023, &brats2023)]
        {
            assert_eq!(check(convention, names), Ok(()));
        }
        assert_eq!(check(Convention::Tutorial, &task01), Ok(()));
        let error = check(Convention::Brats2023, &task01).expect_err("refused");
        assert!(error.contains("label 1 is \"edema\"") && error.contains("\"decathlon\""), "{error}");
        let error = check(Convention::Decathlon, &brats2021).expect_err("refused");
        assert!(error.contains("\"brats2018\""), "{error}");
        assert_eq!(check(Convention::Brats2023, &BTreeMap::new()), Ok(()));
    }
}
