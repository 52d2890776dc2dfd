//! Detection of a file's format by its content, if its name has no known extension.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The number of bytes that are read: the header of NIfTI-2.
const HEAD: usize = 540;

/// The extension that the file's name should have; `None` if its content is not known.
pub fn end_of(path: &Path) -> Option<&'static str> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(64 << 10).read_to_end(&mut head).ok()?;
    if head.starts_with(&[0x1f, 0x8b]) {
        let mut inner = Vec::new();
        // The stream is cut off here, which is an error after the first bytes.
        let _ = flate2::read::GzDecoder::new(&head[..]).take(HEAD as u64).read_to_end(&mut inner);
        return if is_mgh(&inner) { Some(".mgz") } else { is_nifti(&inner).then_some(".nii.gz") };
    }
    let starts = |magic: &[u8]| head.starts_with(magic);
    if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        Some(".zip")
    } else if is_nifti(&head) {
        Some(".nii")
    } else if head.get(128..132) == Some(b"DICM") {
        Some(".dcm")
    } else if is_mgh(&head) {
        Some(".mgh")
    } else if starts(b"NRRD000") {
        Some(".nrrd")
    } else if starts(b"\x89PNG") {
        Some(".png")
    } else if starts(b"ObjectType") || starts(b"NDims") {
        Some(".mha")
    } else {
        None
    }
}

fn is_nifti(head: &[u8]) -> bool {
    let first = head.get(344..347).is_some_and(|magic| magic == b"n+1");
    first || head.get(4..7).is_some_and(|magic| magic == b"n+2")
}

/// Version 1, four lengths above 0 and a type, big-endian: a volume of FreeSurfer.
fn is_mgh(head: &[u8]) -> bool {
    let word = |at: usize| head.get(at..at + 4).and_then(|word| word.try_into().ok()).map(i32::from_be_bytes);
    let lengths = [4, 8, 12, 16].into_iter().all(|at| word(at).is_some_and(|length| length > 0));
    word(0) == Some(1) && lengths && word(20).is_some_and(|kind| [0, 1, 3, 4, 10].contains(&kind)) && head.len() >= 284
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn contents_say_what_a_file_is() {
        let folder = tempfile::tempdir().unwrap();
        let of = |content: &[u8]| {
            let path = folder.path().join("file");
            std::fs::write(&path, content).unwrap();
            end_of(&path)
        };
        let mut nifti = vec![0; 352];
        nifti[344..348].copy_from_slice(b"n+1\0");
        assert_eq!(of(&nifti), Some(".nii"));
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&nifti).unwrap();
        assert_eq!(of(&gz.finish().unwrap()), Some(".nii.gz"));
        let mut mgh = [1_i32, 4, 3, 2, 1, 3].map(i32::to_be_bytes).concat();
        mgh.resize(300, 0);
        assert_eq!(of(&mgh), Some(".mgh"));
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&mgh).unwrap();
        assert_eq!(of(&gz.finish().unwrap()), Some(".mgz"));
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(b"text").unwrap();
        assert_eq!(of(&gz.finish().unwrap()), None);
        let mut dicom = vec![0; 200];
        dicom[128..132].copy_from_slice(b"DICM");
        assert_eq!(of(&dicom), Some(".dcm"));
        assert_eq!(of(b"NRRD0005\n"), Some(".nrrd"));
        assert_eq!(of(b"ObjectType = Image\n"), Some(".mha"));
        assert_eq!(of(b"PK\x03\x04"), Some(".zip"));
        assert_eq!((of(b""), of(b"hello")), (None, None));
    }
}
