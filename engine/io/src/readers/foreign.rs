//! Formats of images that no reader reads: their names, and what converts them.

/// A format, recognized by its content or by its name.
struct Foreign {
    name: &'static str,
    /// Endings in lower case.
    ends: &'static [&'static str],
    /// Bytes at an offset.
    magic: &'static [(usize, &'static [u8])],
    /// The program that converts it.
    advice: &'static str,
}

const FOREIGN: &[Foreign] = &[
    Foreign {
        name: "MINC",
        ends: &[".mnc", ".mnc.gz", ".mnc2"],
        magic: &[(0, b"CDF\x01"), (0, b"CDF\x02")],
        advice: "convert it to NIfTI with mnc2nii (MINC tools), mri_convert (FreeSurfer) or nib-convert (nibabel)",
    },
    Foreign {
        name: "Philips PAR/REC",
        ends: &[".par", ".rec"],
        magic: &[(0, b"# === DATA DESCRIPTION FILE")],
        advice: "convert it to NIfTI with dcm2niix or parrec2nii (nibabel)",
    },
    Foreign {
        name: "GIPL",
        ends: &[".gipl", ".gipl.gz"],
        magic: &[(252, &719_555_000_u32.to_be_bytes())],
        advice: "convert it to NIfTI with SimpleITK, c3d (ITK-SNAP) or 3D Slicer",
    },
    Foreign {
        name: "AFNI",
        ends: &[".head", ".brik", ".brik.gz"],
        magic: &[],
        advice: "convert it to NIfTI with 3dAFNItoNIFTI (AFNI) or nib-convert (nibabel)",
    },
    Foreign {
        name: "Interfile",
        ends: &[".hv", ".h33", ".i33"],
        magic: &[(0, b"!INTERFILE")],
        advice: "convert it to NIfTI or MetaImage with medcon (XMedCon)",
    },
    Foreign {
        name: "ECAT",
        ends: &[".v"],
        magic: &[(0, b"MATRIX7")],
        advice: "convert it to NIfTI with nib-convert (nibabel) or medcon (XMedCon)",
    },
    Foreign {
        name: "VTK",
        ends: &[".vti", ".vtk"],
        magic: &[(0, b"# vtk DataFile")],
        advice: "convert it to NIfTI or MetaImage with 3D Slicer or ParaView",
    },
    Foreign {
        name: "HDF5",
        ends: &[".h5", ".hdf5"],
        magic: &[(0, b"\x89HDF\r\n\x1a\n")],
        advice: "write its array as .npy, or with its affine as NIfTI",
    },
];

/// Describes a file of a format that no reader reads, by its name in lower case and its first bytes.
pub(super) fn described(name: &str, start: &[u8]) -> Option<String> {
    let by_name = || FOREIGN.iter().find(|format| format.ends.iter().any(|end| name.ends_with(end)));
    let has = |(at, bytes): &(usize, &[u8])| start.get(*at..at + bytes.len()) == Some(*bytes);
    let found = by_name().or_else(|| FOREIGN.iter().find(|format| format.magic.iter().any(has)))?;
    Some(format!("the format {} is not supported; {}", found.name, found.advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_name_and_by_content() {
        let of = |name: &str, start: &[u8]| described(name, start).unwrap_or_default();
        assert!(of("brain.mnc", b"\x89HDF\r\n\x1a\n").contains("MINC"));
        assert!(of("brain", b"CDF\x01").contains("mnc2nii"));
        assert!(of("scan.par", b"").contains("PAR/REC") && of("scan.rec", b"").contains("parrec2nii"));
        assert!(of("a.gipl.gz", b"").contains("GIPL"));
        let mut gipl = [0; 256];
        gipl[252..].copy_from_slice(&[0x2a, 0xe3, 0x89, 0xb8]);
        assert!(of("a", &gipl).contains("GIPL"), "the magic number of ITK's reader");
        assert_eq!(described("a.txt", b"text"), None);
    }
}
