//! What a received file belongs to: [`Head`].

use std::path::Path;

use dicom_dictionary_std::tags;

use crate::error::DicomError;
use crate::mosaic;
use crate::open::open;
use crate::options::Limits;
use crate::tags::Attributes;

/// The study and the series of a file. Its pixels are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// StudyInstanceUID; empty if missing.
    pub study: String,
    /// SeriesInstanceUID; empty if missing.
    pub series: String,
    /// SOPInstanceUID; empty if missing.
    pub instance: String,
    /// NumberOfFrames, 1 without it; the slices of a mosaic.
    pub frames: u64,
}

impl Head {
    /// Reads the attributes before the pixels, within limits.
    ///
    /// # Errors
    /// A file that is not DICOM, is damaged, or exceeds a limit: nesting, lengths, sizes.
    pub fn read(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, DicomError> {
        let path = path.as_ref();
        let opened = open(path, limits)?;
        let attributes = Attributes::new(&opened.object, path);
        let text = |tag| attributes.text(tag).unwrap_or_default();
        let frames = attributes.int(tags::NUMBER_OF_FRAMES)?.unwrap_or(1);
        let most = i64::try_from(limits.frames).unwrap_or(i64::MAX);
        if !(0..=most).contains(&frames) {
            return Err(attributes.error(tags::NUMBER_OF_FRAMES, format!("{frames}; expected 0 to {most}")));
        }
        Ok(Self {
            study: text(tags::STUDY_INSTANCE_UID),
            series: text(tags::SERIES_INSTANCE_UID),
            instance: text(tags::SOP_INSTANCE_UID),
            frames: match frames {
                0 | 1 => mosaic::slices(&attributes, limits).map_or(frames.unsigned_abs(), |slices| slices as u64),
                _ => frames.unsigned_abs(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: [u16; 2], vr: &[u8; 2], value: &[u8]) -> Vec<u8> {
        let mut out: Vec<u8> = tag.iter().flat_map(|half| half.to_le_bytes()).chain(*vr).collect();
        match vr {
            b"OB" | b"OW" | b"UN" => {
                out.extend([0, 0]);
                out.extend((value.len() as u32).to_le_bytes());
            }
            _ => out.extend((value.len() as u16).to_le_bytes()),
        }
        out.extend(value);
        out
    }

    /// A file whose data set begins with a study.
    fn file(rest: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.dcm");
        let mut bytes = vec![0; 128];
        bytes.extend(b"DICM");
        bytes.extend(element([2, 0x10], b"UI", b"1.2.840.10008.1.2.1\0"));
        bytes.extend(element([8, 0x18], b"UI", b"1.2.3\0"));
        bytes.extend(element([0x20, 0xd], b"UI", b"1.2\0"));
        bytes.extend(element([0x20, 0xe], b"UI", b"1.2.4\0"));
        bytes.extend(rest);
        std::fs::write(&path, bytes).expect("written");
        (folder, path)
    }

    /// Sequences of undefined length within each other, closed.
    fn nested(depth: usize) -> Vec<u8> {
        let open = b"\x40\x00\x30\xa7SQ\x00\x00\xff\xff\xff\xff\xfe\xff\x00\xe0\xff\xff\xff\xff";
        let close = b"\xfe\xff\x0d\xe0\x00\x00\x00\x00\xfe\xff\xdd\xe0\x00\x00\x00\x00";
        [open.repeat(depth), close.repeat(depth)].concat()
    }

    #[test]
    fn a_file_says_what_it_belongs_to() {
        let (_folder, path) = file(&element([0x28, 8], b"IS", b"12"));
        let head = Head::read(&path, &Limits::default()).expect("sound");
        assert_eq!((head.study.as_str(), head.series.as_str(), head.instance.as_str()), ("1.2", "1.2.4", "1.2.3"));
        assert_eq!(head.frames, 12);
        for frames in ["-1", "999999999"] {
            let (_folder, path) = file(&element([0x28, 8], b"IS", frames.as_bytes()));
            assert!(Head::read(&path, &Limits::default()).is_err(), "{frames}");
        }
    }

    /// The deepest nesting that is accepted needs little of the stack of a thread.
    #[test]
    fn nesting_is_bounded_by_less_than_a_stack() {
        let read = |depth: usize| {
            let (_folder, path) = file(&nested(depth));
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            let work = move || Head::read(&path, &Limits::default()).map_err(|error| error.to_string());
            thread.spawn(work).expect("a thread").join().expect("no overflow")
        };
        assert_eq!(read(32).expect("32 sequences with an item each").study, "1.2");
        for depth in [33, 100_000] {
            assert!(read(depth).expect_err("too deep").contains("deeper"), "{depth}");
        }
    }

    #[test]
    fn attributes_before_the_pixels_are_bounded() {
        let (_folder, path) = file(&element([0x29, 0x1010], b"OB", &vec![0; 1 << 20]));
        let mut limits = Limits::default();
        assert!(Head::read(&path, &limits).is_ok());
        limits.attribute_bytes = 1 << 19;
        assert!(Head::read(&path, &limits).expect_err("a limit").to_string().contains("attribute_bytes"));
    }
}
