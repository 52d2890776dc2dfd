//! Files written by a pipeline, and their paths.

use hearth_image::{Image, affine, host_device};
use hearth_io::{NiftiOptions, read_image, write_nifti};
use hearth_transforms::transforms::{LoadImage, SaveImage};
use hearth_transforms::{DrawKey, Pipeline, Sample, Transform, Value};

#[test]
fn a_pipeline_saves_under_the_names_of_its_files() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("brain.nii.gz");
    let volume = Image::from_values(vec![3.0; 8], [1, 2, 2, 2], affine::IDENTITY, &host_device());
    write_nifti(&source, &volume, NiftiOptions::image()).expect("written");
    let out = dir.path().join("out");
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(LoadImage::new("image")),
        Box::new(SaveImage::new("image", &out).output_postfix("seg").output_dtype(hearth_io::nifti::DataType::U8)),
    ];
    let pipeline = Pipeline::new(steps).expect("a sound pipeline");
    let sample = Sample::new("case").with("image", Value::Path(source));
    pipeline.run(sample, DrawKey::new(0, 0, 0)).expect("saved");
    let saved = read_image(out.join("brain").join("brain_seg.nii.gz")).expect("readable");
    assert_eq!((saved.to_vec(), saved.meta.stored_type.as_str()), (vec![3.0; 8], "uint8"));
    assert!(Pipeline::new(SaveImage::new("image", &out).output_ext(".jpg")).is_err());
}
