//! Calls the component, without a host.

use std::fs;
use std::path::PathBuf;

use hearth_gallery::nrrd_writer::Nhdr;
use hearth_plugin::component::{Array, Writer};
use hearth_plugin::{NoOptions, PluginOptions};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("nrrd-writer-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// An image of 2 x 3 x 2 voxels, tilted, whose values are their indices `[c, x, y, z]` read as digits.
fn image(channels: usize) -> Array<'static> {
    let digits = |at: usize| (1000 * (at / 12) + 100 * (at / 6 % 2) + 10 * (at / 2 % 3) + at % 2) as f32;
    let values: Vec<f32> = (0..channels * 12).map(digits).collect();
    let affine = [[0.5, 0.0, 0.25, -10.0], [0.0, 2.0, 0.0, 20.5], [-0.25, 0.0, 3.0, 30.0], [0.0, 0.0, 0.0, 1.0]];
    Array { affine, ..Array::new(vec![channels, 2, 3, 2], values).expect("the shape fits") }
}

#[test]
fn the_header_has_the_grid_and_the_file_the_values() {
    let folder = folder("one");
    let path = folder.join("case_1.nhdr");
    let writer = Nhdr::new(NoOptions::from_toml("").expect("no options")).expect("no options");
    assert_eq!((writer.endings(), writer.sides()), (vec![".nhdr".to_owned()], vec![".raw".to_owned()]));
    let files = writer.write(image(1), &path, "case 1").expect("written");
    assert_eq!(files, [path.clone(), folder.join("case_1.raw")]);
    let expected = "NRRD0005\n# case 1\ntype: float\ndimension: 3\nspace: right-anterior-superior\nsizes: 2 3 2\n\
                    space directions: (0.5,0,-0.25) (0,2,0) (0.25,0,3)\nkinds: domain domain domain\nendian: little\n\
                    encoding: raw\nspace origin: (-10,20.5,30)\ndata file: case_1.raw\n";
    assert_eq!(fs::read_to_string(&path).expect("a header"), expected);
    let bytes = fs::read(&files[1]).expect("values");
    let values: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    // x is the fastest axis, then y.
    assert_eq!(values, [0, 100, 10, 110, 20, 120, 1, 101, 11, 111, 21, 121].map(|value| value as f32));
    assert!(writer.write(image(1), &path, "case 1").is_err(), "files of others stay");
    fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn channels_are_the_first_axis() {
    let folder = folder("two");
    let path = folder.join("a.nhdr");
    let files = Nhdr.write(image(2), &path, "a\nb").expect("written");
    let header = fs::read_to_string(&path).expect("a header");
    assert!(header.contains("# a b\n") && header.contains("dimension: 4\n"), "{header}");
    assert!(header.contains("sizes: 2 2 3 2\n") && header.contains("kinds: vector domain domain domain"), "{header}");
    assert!(header.contains("space directions: none (0.5,0,-0.25)"), "{header}");
    let bytes = fs::read(&files[1]).expect("values");
    assert_eq!(bytes[..8], [0.0_f32.to_le_bytes(), 1000.0_f32.to_le_bytes()].concat());
    let flat = Array::new(vec![2, 2], vec![0.0; 4]).expect("four values");
    assert!(Nhdr.write(flat, &folder.join("b.nhdr"), "b").is_err_and(|error| error.to_string().contains("[2, 2]")));
    fs::remove_dir_all(folder).expect("removed");
}
