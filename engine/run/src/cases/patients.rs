//! The patient of a case.

use std::collections::BTreeMap;

use hearth_data::{DataError, Field, Item, split_fraction};
use hearth_registry::counted;

/// The patient in the name of a case: `sub-01` of `sub-01_ses-02`, `BraTS-GLI-00005` of
/// `BraTS-GLI-00005-101`, `Brats18_2013_2` of `Brats18_2013_2_1`, or for DICOM the ID before the
/// series.
pub(crate) fn patient_in_name(case: &str) -> Option<&str> {
    let counts = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let without = |mark: char| case.rsplit_once(mark).filter(|(_, last)| counts(last)).map(|(name, _)| name);
    if case.starts_with("sub-") {
        return Some(case.split('_').next().unwrap_or(case));
    }
    if case.starts_with("BraTS-") {
        return without('-');
    }
    if ["Brats17_", "Brats18_", "Brats19_", "BraTS19_"].iter().any(|start| case.starts_with(start)) {
        // If only a number follows the year, the number is the patient.
        return Some(without('_').filter(|name| name.contains('_')).unwrap_or(case));
    }
    // One case per patient.
    if case.starts_with("BraTS20") {
        return Some(case);
    }
    case.rsplit_once('/').map(|(name, _)| name)
}

/// The patient of a case: its column `patient`, which DICOM cases have, or the patient in BIDS and
/// BraTS names. A folder in another name may be a class or a hospital.
fn patient(item: &Item) -> Option<String> {
    match item.fields.get("patient") {
        Some(Field::Text(name)) => Some(name.clone()),
        Some(Field::Number(number)) => Some(number.to_string()),
        Some(Field::Numbers(_)) | None if item.case.contains('/') => None,
        Some(Field::Numbers(_)) | None => patient_in_name(&item.case).map(str::to_owned),
    }
}

/// Splits cases into training and validation by [`split_fraction`]. If a patient has several cases,
/// patients are drawn instead of cases, so that no patient is on both sides; a case of an unknown
/// patient counts as a patient.
pub(crate) fn split_patients(items: &[Item], part: f64, seed: u32) -> Result<(Vec<Item>, Vec<Item>), DataError> {
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut patients: Vec<Vec<Item>> = Vec::new();
    for item in items {
        let Some(name) = patient(item) else {
            patients.push(vec![item.clone()]);
            continue;
        };
        let place = *places.entry(name).or_insert(patients.len());
        match patients.get_mut(place) {
            Some(cases) => cases.push(item.clone()),
            None => patients.push(vec![item.clone()]),
        }
    }
    let drawn: Vec<Item> = (0..patients.len()).map(|place| Item::new(place.to_string())).collect();
    let (train, validate) = split_fraction(&drawn, part, seed)?;
    let cases = |drawn: Vec<Item>| -> Vec<Item> {
        let places = drawn.iter().filter_map(|item| item.case.parse::<usize>().ok());
        places.flat_map(|place| patients[place].clone()).collect()
    };
    Ok((cases(train), cases(validate)))
}

/// What to say about a split that has cases of one patient on both sides; `None` if there is no such patient.
pub(crate) fn shared_patients(train: &[Item], validate: &[Item]) -> Option<String> {
    let trained: BTreeMap<String, &str> =
        train.iter().filter_map(|item| Some((patient(item)?, item.case.as_str()))).collect();
    let shared: BTreeMap<String, &str> = validate
        .iter()
        .filter_map(|item| Some((patient(item)?, item.case.as_str())))
        .filter(|(name, _)| trained.contains_key(name))
        .collect();
    let (name, validates) = shared.first_key_value()?;
    let (trains, count) = (trained.get(name)?, counted(shared.len(), "patient"));
    Some(format!(
        "{count} on both sides of the split: of {name}, {trains} trains and {validates} validates, which makes the metrics \
         too good. data.validation = {{ fraction = 0.2 }} keeps the cases of a patient together, in a cross-validation \
         --group-by patient"
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn patients_are_read_from_names() {
        for (case, name) in [
            ("sub-01_ses-02", "sub-01"),
            ("sub-01", "sub-01"),
            ("BraTS-GLI-00005-101", "BraTS-GLI-00005"),
            ("Brats18_2013_2_1", "Brats18_2013_2"),
            ("Brats18_007", "Brats18_007"),
            ("BraTS2021_00005", "BraTS2021_00005"),
            ("LUNG1-001/3-2", "LUNG1-001"),
        ] {
            assert_eq!(patient_in_name(case), Some(name), "{case}");
        }
        assert_eq!(patient_in_name("spleen_10"), None);
    }

    #[test]
    fn a_patient_is_on_one_side_only() {
        let patient_of = |n: usize| Field::Text(format!("LUNG1-{:03}", n / 3));
        let case = |n| Item::new(format!("scan {n}")).with_field("patient", patient_of(n));
        let items: Vec<Item> = (0..30).map(case).collect();
        let (train, validate) = split_patients(&items, 0.2, 0).expect("a split");
        assert_eq!((train.len(), validate.len()), (24, 6));
        let of = |items: &[Item]| items.iter().filter_map(patient).collect::<BTreeSet<_>>();
        assert!(of(&train).is_disjoint(&of(&validate)));
    }

    #[test]
    fn a_patient_on_both_sides_is_named() {
        let items = |names: &[&str]| names.iter().map(|name| Item::new(*name)).collect::<Vec<_>>();
        let words = |train: &[&str], validate: &[&str]| shared_patients(&items(train), &items(validate));
        assert_eq!(words(&["sub-01_ses-01", "sub-02_ses-01"], &["sub-03_ses-01"]), None);
        assert_eq!(words(&["spleen_1", "spleen_2"], &["spleen_3"]), None, "of unknown patients");
        let said = words(&["sub-01_ses-01", "sub-02"], &["sub-01_ses-02", "sub-03"]).expect("a patient");
        assert!(
            said.starts_with("1 patient on both sides of the split: of sub-01, sub-01_ses-01 trains and"),
            "{said}"
        );
        let with = |name: &str| Item::new(name).with_field("patient", Field::Text("P7".into()));
        let said = shared_patients(&[with("a")], &[with("b")]).expect("a patient");
        assert!(said.contains("of P7, a trains and b validates"), "{said}");
    }

    #[test]
    fn a_case_for_each_patient_is_split_as_monai_does() {
        for name in ["spleen_", "BraTS2021_", "Hand/"] {
            let items: Vec<Item> = (0..23).map(|n| Item::new(format!("{name}{n}"))).collect();
            let split = split_patients(&items, 0.2, 7).expect("a split");
            assert_eq!(split, split_fraction(&items, 0.2, 7).expect("a split"));
        }
    }
}
