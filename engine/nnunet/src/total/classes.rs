//! The classes of TotalSegmentator's tasks, in the order of their labels 1, 2, ..., as in its class
//! maps.

macro_rules! total {
    ($class_26:literal) => {
        concat!(
            "spleen kidney_right kidney_left gallbladder liver stomach pancreas ",
            "adrenal_gland_right adrenal_gland_left lung_upper_lobe_left lung_lower_lobe_left ",
            "lung_upper_lobe_right lung_middle_lobe_right lung_lower_lobe_right esophagus trachea ",
            "thyroid_gland small_bowel duodenum colon urinary_bladder prostate kidney_cyst_left ",
            "kidney_cyst_right sacrum ",
            $class_26,
            " vertebrae_L5 vertebrae_L4 vertebrae_L3 vertebrae_L2 vertebrae_L1 vertebrae_T12",
            " vertebrae_T11 vertebrae_T10 vertebrae_T9 vertebrae_T8 vertebrae_T7 vertebrae_T6",
            " vertebrae_T5 vertebrae_T4 vertebrae_T3 vertebrae_T2 vertebrae_T1 vertebrae_C7",
            " vertebrae_C6 vertebrae_C5 vertebrae_C4 vertebrae_C3 vertebrae_C2 vertebrae_C1 heart",
            " aorta pulmonary_vein brachiocephalic_trunk subclavian_artery_right",
            " subclavian_artery_left common_carotid_artery_right common_carotid_artery_left",
            " brachiocephalic_vein_left brachiocephalic_vein_right atrial_appendage_left",
            " superior_vena_cava inferior_vena_cava portal_vein_and_splenic_vein iliac_artery_left",
            " iliac_artery_right iliac_vena_left iliac_vena_right humerus_left humerus_right",
            " scapula_left scapula_right clavicula_left clavicula_right femur_left femur_right",
            " hip_left hip_right spinal_cord gluteus_maximus_left gluteus_maximus_right",
            " gluteus_medius_left gluteus_medius_right gluteus_minimus_left gluteus_minimus_right",
            " autochthon_left autochthon_right iliopsoas_left iliopsoas_right brain skull",
            " rib_left_1 rib_left_2 rib_left_3 rib_left_4 rib_left_5 rib_left_6 rib_left_7",
            " rib_left_8 rib_left_9 rib_left_10 rib_left_11 rib_left_12 rib_right_1 rib_right_2",
            " rib_right_3 rib_right_4 rib_right_5 rib_right_6 rib_right_7 rib_right_8 rib_right_9",
            " rib_right_10 rib_right_11 rib_right_12 sternum costal_cartilages",
        )
    };
}

pub(super) const TOTAL: &str = total!("vertebrae_S1");

pub(super) const TOTAL_V3: &str = total!("vertebrae_L6");

pub(super) const TOTAL_MR: &str = "\
    spleen kidney_right kidney_left gallbladder liver stomach pancreas adrenal_gland_right \
    adrenal_gland_left lung_left lung_right esophagus small_bowel duodenum colon urinary_bladder \
    prostate sacrum vertebrae intervertebral_discs spinal_cord heart aorta inferior_vena_cava \
    portal_vein_and_splenic_vein iliac_artery_left iliac_artery_right iliac_vena_left \
    iliac_vena_right humerus_left humerus_right scapula_left scapula_right clavicula_left \
    clavicula_right femur_left femur_right hip_left hip_right gluteus_maximus_left \
    gluteus_maximus_right gluteus_medius_left gluteus_medius_right gluteus_minimus_left \
    gluteus_minimus_right autochthon_left autochthon_right iliopsoas_left iliopsoas_right brain";

pub(super) const BODY: &str = "body_trunc body_extremities";

pub(super) const LUNG_VESSELS: &str = "lung_airways lung_airways_wall lung_arteries lung_veins";

pub(super) const LUNG_VESSELS_LEGACY: &str = "lung_vessels lung_trachea_bronchia";

pub(super) const CEREBRAL_BLEED: &str = "intracerebral_hemorrhage";

pub(super) const HIP_IMPLANT: &str = "hip_implant";

pub(super) const VERTEBRAE_MR: &str = "\
    sacrum vertebrae_L5 vertebrae_L4 vertebrae_L3 vertebrae_L2 vertebrae_L1 vertebrae_T12 \
    vertebrae_T11 vertebrae_T10 vertebrae_T9 vertebrae_T8 vertebrae_T7 vertebrae_T6 vertebrae_T5 \
    vertebrae_T4 vertebrae_T3 vertebrae_T2 vertebrae_T1 vertebrae_C7 vertebrae_C6 vertebrae_C5 \
    vertebrae_C4 vertebrae_C3 vertebrae_C2 vertebrae_C1";

pub(super) const PLEURAL_PERICARD_EFFUSION: &str = "lung_pleural pleural_effusion pericardial_effusion";

pub(super) const LIVER_VESSELS: &str = "liver_vessels liver_tumor";

pub(super) const HEAD_GLANDS_CAVITIES: &str = "\
    eye_left eye_right eye_lens_left eye_lens_right optic_nerve_left optic_nerve_right \
    parotid_gland_left parotid_gland_right submandibular_gland_right submandibular_gland_left \
    nasopharynx oropharynx hypopharynx nasal_cavity_right nasal_cavity_left auditory_canal_right \
    auditory_canal_left soft_palate hard_palate";

pub(super) const HEADNECK_BONES_VESSELS: &str = "\
    larynx_air thyroid_cartilage hyoid cricoid_cartilage zygomatic_arch_right \
    zygomatic_arch_left styloid_process_right styloid_process_left internal_carotid_artery_right \
    internal_carotid_artery_left internal_jugular_vein_right internal_jugular_vein_left";

pub(super) const HEAD_MUSCLES: &str = "\
    masseter_right masseter_left temporalis_right temporalis_left lateral_pterygoid_right \
    lateral_pterygoid_left medial_pterygoid_right medial_pterygoid_left tongue digastric_right \
    digastric_left";

pub(super) const HEADNECK_MUSCLES: &str = "\
    sternocleidomastoid_right sternocleidomastoid_left superior_pharyngeal_constrictor \
    middle_pharyngeal_constrictor inferior_pharyngeal_constrictor trapezius_right trapezius_left \
    platysma_right platysma_left levator_scapulae_right levator_scapulae_left \
    anterior_scalene_right anterior_scalene_left middle_scalene_right middle_scalene_left \
    posterior_scalene_right posterior_scalene_left sterno_thyroid_right sterno_thyroid_left \
    thyrohyoid_right thyrohyoid_left prevertebral_right prevertebral_left";

pub(super) const OCULOMOTOR_MUSCLES: &str = "\
    skull eyeball_right lateral_rectus_muscle_right superior_oblique_muscle_right \
    levator_palpebrae_superioris_right superior_rectus_muscle_right medial_rectus_muscle_left \
    inferior_oblique_muscle_right inferior_rectus_muscle_right optic_nerve_left eyeball_left \
    lateral_rectus_muscle_left superior_oblique_muscle_left levator_palpebrae_superioris_left \
    superior_rectus_muscle_left medial_rectus_muscle_right inferior_oblique_muscle_left \
    inferior_rectus_muscle_left optic_nerve_right";

pub(super) const LUNG_NODULES: &str = "lung lung_nodules";

pub(super) const KIDNEY_CYSTS: &str = "kidney_cyst_left kidney_cyst_right";

pub(super) const BREASTS: &str = "breast";

pub(super) const VENTRICLE_PARTS: &str = "\
    ventricle_frontal_horn_left ventricle_occipital_horn_left ventricle_body_left \
    ventricle_temporal_horn_left ventricle_trigone_left ventricle_frontal_horn_right \
    ventricle_occipital_horn_right ventricle_body_right ventricle_temporal_horn_right \
    ventricle_trigone_right third_ventricle fourth_ventricle";

pub(super) const LIVER_SEGMENTS: &str = "\
    liver_segment_1 liver_segment_2 liver_segment_3 liver_segment_4 liver_segment_5 \
    liver_segment_6 liver_segment_7 liver_segment_8";

pub(super) const LIVER_LESIONS: &str = "liver_lesions";

pub(super) const CRANIOFACIAL_STRUCTURES: &str =
    "mandible teeth_lower skull head sinus_maxillary sinus_frontal teeth_upper";

pub(super) const ABDOMINAL_MUSCLES: &str = "\
    pectoralis_major_right pectoralis_major_left rectus_abdominis_right rectus_abdominis_left \
    serratus_anterior_right serratus_anterior_left latissimus_dorsi_right latissimus_dorsi_left \
    trapezius_right trapezius_left external_oblique_right external_oblique_left \
    internal_oblique_right internal_oblique_left erector_spinae_right erector_spinae_left \
    transversospinalis_right transversospinalis_left psoas_major_right psoas_major_left \
    quadratus_lumborum_right quadratus_lumborum_left";

pub(super) const TEETH: &str = "\
    lower_jawbone upper_jawbone left_inferior_alveolar_canal right_inferior_alveolar_canal \
    left_maxillary_sinus right_maxillary_sinus pharynx bridge crown implant \
    upper_right_central_incisor_fdi11 upper_right_lateral_incisor_fdi12 upper_right_canine_fdi13 \
    upper_right_first_premolar_fdi14 upper_right_second_premolar_fdi15 \
    upper_right_first_molar_fdi16 upper_right_second_molar_fdi17 upper_right_third_molar_fdi18 \
    upper_left_central_incisor_fdi21 upper_left_lateral_incisor_fdi22 upper_left_canine_fdi23 \
    upper_left_first_premolar_fdi24 upper_left_second_premolar_fdi25 \
    upper_left_first_molar_fdi26 upper_left_second_molar_fdi27 upper_left_third_molar_fdi28 \
    lower_left_central_incisor_fdi31 lower_left_lateral_incisor_fdi32 lower_left_canine_fdi33 \
    lower_left_first_premolar_fdi34 lower_left_second_premolar_fdi35 \
    lower_left_first_molar_fdi36 lower_left_second_molar_fdi37 lower_left_third_molar_fdi38 \
    lower_right_central_incisor_fdi41 lower_right_lateral_incisor_fdi42 lower_right_canine_fdi43 \
    lower_right_first_premolar_fdi44 lower_right_second_premolar_fdi45 \
    lower_right_first_molar_fdi46 lower_right_second_molar_fdi47 lower_right_third_molar_fdi48 \
    left_mandibular_incisive_canal_fdi103 right_mandibular_incisive_canal_fdi104 lingual_canal \
    upper_right_central_incisor_pulp_fdi111 upper_right_lateral_incisor_pulp_fdi112 \
    upper_right_canine_pulp_fdi113 upper_right_first_premolar_pulp_fdi114 \
    upper_right_second_premolar_pulp_fdi115 upper_right_first_molar_pulp_fdi116 \
    upper_right_second_molar_pulp_fdi117 upper_right_third_molar_pulp_fdi118 \
    upper_left_central_incisor_pulp_fdi121 upper_left_lateral_incisor_pulp_fdi122 \
    upper_left_canine_pulp_fdi123 upper_left_first_premolar_pulp_fdi124 \
    upper_left_second_premolar_pulp_fdi125 upper_left_first_molar_pulp_fdi126 \
    upper_left_second_molar_pulp_fdi127 upper_left_third_molar_pulp_fdi128 \
    lower_left_central_incisor_pulp_fdi131 lower_left_lateral_incisor_pulp_fdi132 \
    lower_left_canine_pulp_fdi133 lower_left_first_premolar_pulp_fdi134 \
    lower_left_second_premolar_pulp_fdi135 lower_left_first_molar_pulp_fdi136 \
    lower_left_second_molar_pulp_fdi137 lower_left_third_molar_pulp_fdi138 \
    lower_right_central_incisor_pulp_fdi141 lower_right_lateral_incisor_pulp_fdi142 \
    lower_right_canine_pulp_fdi143 lower_right_first_premolar_pulp_fdi144 \
    lower_right_second_premolar_pulp_fdi145 lower_right_first_molar_pulp_fdi146 \
    lower_right_second_molar_pulp_fdi147 lower_right_third_molar_pulp_fdi148";

pub(super) const TRUNK_CAVITIES: &str = "abdominal_cavity thoracic_cavity pericardium mediastinum";

pub(super) const BRAIN_ANEURYSM: &str = "brain_aneurysm";

pub(super) const VERTEBRAE_BODY: &str = "vertebrae_body intervertebral_discs";

pub(super) const VERTEBRAE_PP: &str = "\
    vertebrae_C1 vertebrae_C2 vertebrae_C3 vertebrae_C4 vertebrae_C5 vertebrae_C6 vertebrae_C7 \
    vertebrae_T1 vertebrae_T2 vertebrae_T3 vertebrae_T4 vertebrae_T5 vertebrae_T6 vertebrae_T7 \
    vertebrae_T8 vertebrae_T9 vertebrae_T10 vertebrae_T11 vertebrae_T12 vertebrae_L1 \
    vertebrae_L2 vertebrae_L3 vertebrae_L4 vertebrae_L5";

pub(super) const KIDNEYS: &str = "kidney_left kidney_right";
