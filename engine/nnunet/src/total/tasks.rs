//! The table of TotalSegmentator's tasks with open weights, as in version 2.18.
//!
//! The margin of every crop is 20 mm. TotalSegmentator's table has other values, but its
//! `python_api.py` replaces them by 20 if the rough model is one of `total` or `body`.

use super::classes;
use super::task::{Cleaning, Mode, Models, Rough, Task};
use crate::volume::Axes3;

const PLAIN: &str = "nnUNetTrainer";
const NO_MIRRORING: &str = "nnUNetTrainerNoMirroring";
const EPOCHS_4000: &str = "nnUNetTrainer_4000epochs_NoMirroring";
const EPOCHS_2000: &str = "nnUNetTrainer_2000epochs_NoMirroring";
const DA_SEG: &str = "nnUNetTrainer_DASegOrd0";
const DA_SEG_NO_MIRRORING: &str = "nnUNetTrainer_DASegOrd0_NoMirroring";

const HIGH: &str = "3d_fullres_high";

const ROBUST: Rough = Rough::Mode("total", Mode::Fast);
const MR: Rough = Rough::Mode("total_mr", Mode::Fast);
const BODY: Rough = Rough::Mode("body", Mode::Fast);
const FACE: Rough = Rough::Mode("craniofacial_structures", Mode::Default);

const MARGIN: f64 = 20.0;

const LUNG: [&str; 5] = [
    "lung_upper_lobe_left",
    "lung_lower_lobe_left",
    "lung_upper_lobe_right",
    "lung_middle_lobe_right",
    "lung_lower_lobe_right",
];
const HIPS: [&str; 4] = ["femur_left", "femur_right", "hip_left", "hip_right"];
const KIDNEYS: [&str; 5] = ["kidney_left", "kidney_right", "liver", "spleen", "colon"];
const NECK: [&str; 6] =
    ["clavicula_left", "clavicula_right", "vertebrae_C1", "vertebrae_C5", "vertebrae_T1", "vertebrae_T4"];

const fn cube(size: f64) -> Option<Axes3<f64>> {
    Some([size; 3])
}

/// Voxels that are finer than 1 mm within a slice.
const FINE: Option<Axes3<f64>> = Some([1.0, 0.75, 0.75]);

/// All tasks.
pub static TASKS: [Task; 32] = [
    Task {
        split: &[24, 26, 18, 23, 26],
        step: 0.8,
        ..Task::new(
            "total",
            classes::TOTAL,
            &[
                Models::new(
                    &[
                        "Dataset291_TotalSegmentator_part1_organs_1559subj",
                        "Dataset292_TotalSegmentator_part2_vertebrae_1532subj",
                        "Dataset293_TotalSegmentator_part3_cardiac_1559subj",
                        "Dataset294_TotalSegmentator_part4_muscles_1559subj",
                        "Dataset295_TotalSegmentator_part5_ribs_1559subj",
                    ],
                    cube(1.5),
                    NO_MIRRORING,
                ),
                Models::new(&["Dataset297_TotalSegmentator_total_3mm_1559subj"], cube(3.0), EPOCHS_4000)
                    .mode(Mode::Fast),
                Models::new(&["Dataset298_TotalSegmentator_total_6mm_1559subj"], cube(6.0), EPOCHS_4000)
                    .mode(Mode::Fastest),
            ],
        )
    },
    Task {
        split: &[24, 26, 18, 23, 26],
        step: 0.8,
        ..Task::new(
            "total_v3",
            classes::TOTAL_V3,
            &[
                Models::new(
                    &[
                        "Dataset831_TotalSegmentator_part1_organs_1830subj",
                        "Dataset832_TotalSegmentator_part2_vertebrae_1559subj",
                        "Dataset833_TotalSegmentator_part3_cardiac_1830subj",
                        "Dataset834_TotalSegmentator_part4_muscles_1830subj",
                        "Dataset835_TotalSegmentator_part5_ribs_1559subj",
                    ],
                    cube(1.5),
                    NO_MIRRORING,
                ),
                Models::new(&["Dataset836_TotalSegmentator_total_3mm_1559subj"], cube(3.0), EPOCHS_4000)
                    .mode(Mode::Fast),
                Models::new(&["Dataset837_TotalSegmentator_total_6mm_1559subj"], cube(6.0), EPOCHS_4000)
                    .mode(Mode::Fastest),
            ],
        )
    },
    Task {
        split: &[29, 21],
        step: 0.8,
        ..Task::new(
            "total_mr",
            classes::TOTAL_MR,
            &[
                Models::new(
                    &["Dataset850_TotalSegMRI_part1_organs_1088subj", "Dataset851_TotalSegMRI_part2_muscles_1088subj"],
                    cube(1.5),
                    EPOCHS_2000,
                ),
                Models::new(&["Dataset852_TotalSegMRI_total_3mm_1088subj"], cube(3.0), EPOCHS_2000).mode(Mode::Fast),
                Models::new(&["Dataset853_TotalSegMRI_total_6mm_1088subj"], cube(6.0), EPOCHS_2000).mode(Mode::Fastest),
            ],
        )
        .mr()
    },
    Task {
        cleaning: Cleaning::Body,
        ..Task::new(
            "body",
            classes::BODY,
            &[
                Models::new(&["Dataset299_body_1559subj"], cube(1.5), PLAIN),
                Models::new(&["Dataset300_body_6mm_1559subj"], cube(6.0), PLAIN).mode(Mode::Fast),
            ],
        )
    },
    Task::new(
        "body_mr",
        classes::BODY,
        &[
            Models::new(&["Dataset597_mri_body_139subj"], cube(1.5), DA_SEG),
            Models::new(&["Dataset598_mri_body_6mm_139subj"], cube(6.0), DA_SEG).mode(Mode::Fast),
        ],
    )
    .mr(),
    Task::new(
        "lung_vessels",
        classes::LUNG_VESSELS,
        &[Models::new(
            &["Dataset117_lung_airways_arteries_veins_282subj"],
            Some([1.0, 0.703125, 0.703125]),
            "nnUNetTrainerSkeletonRecall",
        )],
    )
    .crop(ROBUST, &LUNG, MARGIN),
    Task::new(
        "lung_vessels_LEGACY",
        classes::LUNG_VESSELS_LEGACY,
        &[Models::new(&["Dataset258_lung_vessels_248subj"], None, PLAIN)],
    )
    .crop(Rough::Total, &LUNG, MARGIN),
    Task::new("cerebral_bleed", classes::CEREBRAL_BLEED, &[Models::new(&["Dataset150_icb_v0"], None, PLAIN)]).crop(
        Rough::Total,
        &["brain"],
        MARGIN,
    ),
    Task::new("hip_implant", classes::HIP_IMPLANT, &[Models::new(&["Dataset260_hip_implant_71subj"], None, PLAIN)])
        .crop(Rough::Total, &HIPS, MARGIN),
    Task::new(
        "vertebrae_mr",
        classes::VERTEBRAE_MR,
        &[Models::new(&["Dataset756_mri_vertebrae_1076subj"], cube(1.5), DA_SEG_NO_MIRRORING)],
    )
    .mr(),
    Task::new(
        "pleural_pericard_effusion",
        classes::PLEURAL_PERICARD_EFFUSION,
        &[Models::new(&["Dataset315_thoraxCT"], None, PLAIN).all_folds()],
    )
    .crop(Rough::Total, &LUNG, MARGIN),
    Task::new("liver_vessels", classes::LIVER_VESSELS, &[Models::new(&["Dataset008_HepaticVessel"], None, PLAIN)])
        .crop(Rough::Total, &["liver"], MARGIN),
    Task::new(
        "head_glands_cavities",
        classes::HEAD_GLANDS_CAVITIES,
        &[Models::new(&["Dataset775_head_glands_cavities_492subj"], FINE, DA_SEG_NO_MIRRORING).configuration(HIGH)],
    )
    .crop(Rough::Total, &["skull"], MARGIN),
    Task::new(
        "headneck_bones_vessels",
        classes::HEADNECK_BONES_VESSELS,
        &[Models::new(&["Dataset776_headneck_bones_vessels_492subj"], FINE, DA_SEG_NO_MIRRORING).configuration(HIGH)],
    )
    .crop(Rough::Total, &NECK, MARGIN),
    Task::new(
        "head_muscles",
        classes::HEAD_MUSCLES,
        &[Models::new(&["Dataset777_head_muscles_492subj"], FINE, DA_SEG_NO_MIRRORING).configuration(HIGH)],
    )
    .crop(Rough::Total, &["skull"], MARGIN),
    Task {
        split: &[11, 12],
        ..Task::new(
            "headneck_muscles",
            classes::HEADNECK_MUSCLES,
            &[Models::new(
                &["Dataset778_headneck_muscles_part1_492subj", "Dataset779_headneck_muscles_part2_492subj"],
                FINE,
                DA_SEG_NO_MIRRORING,
            )
            .configuration(HIGH)],
        )
        .crop(Rough::Total, &NECK, MARGIN)
    },
    Task::new(
        "oculomotor_muscles",
        classes::OCULOMOTOR_MUSCLES,
        &[Models::new(
            &["Dataset351_oculomotor_muscles_18subj"],
            Some([0.8500002026557922, 0.47251562774181366, 0.47251562774181366]),
            DA_SEG_NO_MIRRORING,
        )],
    )
    .crop(Rough::Total, &["skull"], MARGIN),
    Task::new(
        "lung_nodules",
        classes::LUNG_NODULES,
        &[Models::new(&["Dataset913_lung_nodules"], cube(1.5), "nnUNetTrainer_MOSAIC_1k_QuarterLR_NoMirroring")],
    )
    .crop(Rough::Total, &LUNG, MARGIN),
    Task {
        auxiliary: classes::KIDNEYS,
        ..Task::new(
            "kidney_cysts",
            classes::KIDNEY_CYSTS,
            &[Models::new(&["Dataset789_kidney_cyst_501subj"], cube(1.5), DA_SEG_NO_MIRRORING)],
        )
        .crop(Rough::Total, &KIDNEYS, MARGIN)
    },
    Task::new(
        "breasts",
        classes::BREASTS,
        &[Models::new(&["Dataset527_breasts_1559subj"], cube(1.5), DA_SEG_NO_MIRRORING)],
    ),
    Task::new(
        "ventricle_parts",
        classes::VENTRICLE_PARTS,
        &[Models::new(&["Dataset552_ventricle_parts_38subj"], Some([1.0, 0.4345703125, 0.4384765625]), NO_MIRRORING)],
    )
    .crop(Rough::Total, &["brain"], MARGIN),
    Task::new(
        "liver_segments",
        classes::LIVER_SEGMENTS,
        &[Models::new(
            &["Dataset570_ct_liver_segments"],
            Some([1.5, 0.8046879768371582, 0.8046879768371582]),
            NO_MIRRORING,
        )],
    )
    .crop(Rough::Total, &["liver"], MARGIN),
    Task::new(
        "liver_segments_mr",
        classes::LIVER_SEGMENTS,
        &[Models::new(
            &["Dataset576_mri_liver_segments_120subj"],
            Some([3.0, 1.1875, 1.1250001788139343]),
            DA_SEG_NO_MIRRORING,
        )],
    )
    .mr()
    .crop(MR, &["liver"], MARGIN),
    Task::new(
        "liver_lesions",
        classes::LIVER_LESIONS,
        &[Models::new(&["Dataset591_ct_liver_lesions_842subj"], FINE, PLAIN).configuration(HIGH)],
    )
    .crop(ROBUST, &["liver"], MARGIN),
    Task::new(
        "liver_lesions_mr",
        classes::LIVER_LESIONS,
        &[Models::new(&["Dataset589_ct_mri_liver_lesions_750subj"], Some([1.0, 0.857421875, 0.8603515625]), DA_SEG)],
    )
    .mr()
    .crop(MR, &["liver"], MARGIN),
    Task::new(
        "craniofacial_structures",
        classes::CRANIOFACIAL_STRUCTURES,
        &[Models::new(&["Dataset115_mandible"], cube(0.5), DA_SEG_NO_MIRRORING)],
    )
    .crop(Rough::Total, &["skull"], MARGIN),
    Task::new(
        "abdominal_muscles",
        classes::ABDOMINAL_MUSCLES,
        &[Models::new(&["Dataset952_abdominal_muscles_167subj"], FINE, DA_SEG_NO_MIRRORING).configuration(HIGH)],
    )
    .crop(BODY, &["body_trunc"], MARGIN),
    Task::new(
        "teeth",
        classes::TEETH,
        &[Models::new(&["Dataset113_ToothFairy3"], cube(0.5), "nnUNetTrainer_onlyMirror01")
            .configuration("3d_lowres_high")],
    )
    .crop(FACE, &["teeth_lower", "teeth_upper"], 10.0),
    Task::new(
        "trunk_cavities",
        classes::TRUNK_CAVITIES,
        &[Models::new(&["Dataset343_mediastinum_1786subj"], cube(1.5), PLAIN)],
    ),
    Task::new(
        "brain_aneurysm",
        classes::BRAIN_ANEURYSM,
        &[Models::new(
            &["Dataset615_MAXIMUS"],
            Some([0.5000016391277313, 0.390625, 0.390625]),
            "nnUNetTrainerDiceTopK10Loss_2000epochs",
        )
        .all_folds()],
    )
    .mr(),
    Task::new(
        "vertebrae_body",
        classes::VERTEBRAE_BODY,
        &[Models::new(&["Dataset305_vertebrae_discs_1559subj"], cube(1.5), DA_SEG)],
    ),
    Task {
        cleaning: Cleaning::Vertebrae,
        ..Task::new(
            "vertebrae_pp",
            classes::VERTEBRAE_PP,
            &[Models::new(&["Dataset803_TotalSegmentator_vertebrae_inner_1559subj"], cube(1.5), NO_MIRRORING)],
        )
    },
];

/// The task with this name.
pub fn task(name: &str) -> Option<&'static Task> {
    TASKS.iter().find(|task| task.name == name)
}
