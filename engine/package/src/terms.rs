//! Coded terms of labels, as used in DICOM segmentations and reports: [`Term`].

use serde::{Deserialize, Serialize};

/// A coded concept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// CodingSchemeDesignator: `SCT` is SNOMED CT.
    pub scheme: String,
    /// CodeValue.
    pub value: String,
    /// CodeMeaning.
    pub meaning: String,
}

/// The coded term of a label, as in a segment of a DICOM SEG.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// SegmentedPropertyCategoryCodeSequence: an anatomical structure, an abnormal one, a tissue.
    pub category: Code,
    /// SegmentedPropertyTypeCodeSequence.
    #[serde(rename = "type")]
    pub kind: Code,
    /// AnatomicRegionSequence: the organ in which a lesion lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Code>,
    /// SegmentedPropertyTypeModifierCodeSequence: left or right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Code>,
}
