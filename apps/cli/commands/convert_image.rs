//! Conversion of images between formats: volumes, label maps, surfaces, DICOM.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hearth_data::dicom::write::SegmentationType;
use hearth_data::dicom::{Authorship, DrawnBy, Series, scan};
use hearth_data::readers::{read_segments, require_segments, segments_overlap};
use hearth_data::writers::{
    PluginWriter, RegionFile, Segment, SurfaceOptions, SurfaceSpace, label_map, read_codes, regions_of, write_surfaces,
};
use hearth_data::{Image, ReadOptions, WriteOptions, read_image_with, write_image};
use hearth_models::writers::check_codes;
use hearth_registry::component::is_of_a_plugin;

use crate::error::{Context, Failure, Outcome};
use crate::{folders, note, out};

/// Options for images.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Images")]
pub struct ImageOptions {
    /// Write integers, for a label map; implied by --segment, --only and by .seg.nrrd, .stl, .obj and .dcm
    #[arg(long)]
    pub label: bool,
    /// The name of a label, such as 1=liver; may be given several times [default: the names in a
    /// .seg.nrrd, SEG or RTSTRUCT input]
    #[arg(long = "segment", value_name = "LABEL=NAME")]
    pub segments: Vec<String>,
    /// Convert only this segment of a .seg.nrrd, SEG or RTSTRUCT: its name (case is ignored; GTV* names all that
    /// begin so) or number; may be given several times. They become the labels 1, 2, ... in this order
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// The reader to use, by name [default: chosen by the file's content]
    #[arg(long, value_name = "NAME")]
    pub reader: Option<String>,
    /// The writer of a plugin to use, PLUGIN.NAME [default: chosen by the extension of OUT]
    #[arg(long, value_name = "NAME")]
    pub writer: Option<String>,
    /// Which DICOM series of a folder with several to convert: its UID, number or description
    /// (*thorax*), or a rule: most-slices, thinnest; with #KEY one of several volumes of a series, as
    /// `data inspect` lists them: UID#echo2, #localizer
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
    /// Accept this fault of a DICOM series, such as MissingSlices; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub accept: Vec<String>,
    /// The DICOM series that the labels were drawn on: an RTSTRUCT is read on its grid, and a .dcm
    /// output refers to it
    #[arg(long, value_name = "FOLDER")]
    pub like: Option<PathBuf>,
    /// The kind of a .dcm output [default: seg]
    #[arg(long, value_name = "KIND")]
    pub to: Option<DicomKind>,
    /// A TOML table of codes for labels; see docs/dicom.md
    #[arg(long, value_name = "FILE")]
    pub codes: Option<PathBuf>,
    /// Smoothing passes over a surface; 0 keeps the steps between voxels [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub smooth: Option<u16>,
    /// The share of a surface's triangles to remove, from 0 to less than 1 [default: 0]
    #[arg(long, value_name = "PART")]
    pub decimate: Option<f64>,
    /// The coordinate system of a surface's file [default: lps, as in 3D Slicer]
    #[arg(long, value_name = "SYSTEM")]
    pub space: Option<Space>,
}

/// Kinds of DICOM files with labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DicomKind {
    /// A segmentation with one bit per voxel
    Seg,
    /// A segmentation with one byte per voxel and segment
    SegFractional,
    /// A label map segmentation
    SegLabelmap,
    /// A structure set: contours
    Rtstruct,
    /// A structured report with volumes and diameters
    Sr,
}

/// Coordinate systems of surface files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Space {
    /// Left, posterior, superior
    Lps,
    /// Right, anterior, superior
    Ras,
}

/// The format that the name of the output selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Volume,
    Named,
    Surface,
    Dicom,
}

impl Format {
    fn of(output: &Path) -> Self {
        let name = output.to_string_lossy().to_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if ends(&[".stl", ".obj"]) {
            Format::Surface
        } else if ends(&[".dcm"]) {
            Format::Dicom
        } else if ends(&[".seg.nrrd"]) {
            Format::Named
        } else {
            Format::Volume
        }
    }
}

impl ImageOptions {
    /// The first given option that does not apply to weights.
    pub fn given(&self) -> Option<&'static str> {
        let options = [
            ("--label", self.label),
            ("--segment", !self.segments.is_empty()),
            ("--only", !self.only.is_empty()),
            ("--reader", self.reader.is_some()),
            ("--writer", self.writer.is_some()),
            ("--series", self.series.is_some()),
            ("--accept", !self.accept.is_empty()),
            ("--like", self.like.is_some()),
            ("--codes", self.codes.is_some()),
        ];
        let own = options.into_iter().find(|(_, given)| *given).map(|(option, _)| option);
        own.or_else(|| self.of_format(Format::Volume))
    }

    /// The first given option that does not apply to this format.
    fn of_format(&self, format: Format) -> Option<&'static str> {
        let (surface, dicom) = (format != Format::Surface, format != Format::Dicom);
        let options = [
            ("--to", dicom && self.to.is_some()),
            ("--codes", dicom && self.codes.is_some()),
            ("--smooth", surface && self.smooth.is_some()),
            ("--decimate", surface && self.decimate.is_some()),
            ("--space", surface && self.space.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }
}

/// Converts the image.
pub fn run(input: &Path, output: &Path, args: &ImageOptions) -> Outcome {
    if output.symlink_metadata().is_ok() {
        let advice = "remove it, or give another name";
        return Err(Failure::new(format!("{} exists already; {advice}", output.display())));
    }
    if let Some(folder) = output.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        return Err(Failure::new(format!("there is no folder {}: make it, or give another name", folder.display())));
    }
    let writer = args.writer.as_deref().map(|name| plugin_writer(name, output, args)).transpose()?;
    let format = if writer.is_some() { Format::Volume } else { Format::of(output) };
    if let Some(option) = args.of_format(format) {
        let kind = if ["--to", "--codes"].contains(&option) { "a .dcm" } else { "a .stl or .obj" };
        return Err(Failure::new(format!("{option} is for {kind}; {} is not one", output.display())));
    }
    let named = named(&args.segments)?;
    let mut options = ReadOptions::default();
    options.reader.clone_from(&args.reader);
    options.series.clone_from(&args.series);
    options.accept.clone_from(&args.accept);
    options.segments.clone_from(&args.only);
    if !args.only.is_empty() {
        require_segments(input, &options).while_doing(|| "--only")?;
    }
    let labels = args.label || !named.is_empty() || !args.only.is_empty() || format != Format::Volume;
    // An input that refers to a series is on the grid of that series.
    let own = read_segments(input, &options)?;
    let is_drawn = || scan(input).is_ok_and(|found| found.series.is_empty() && !found.annotations.is_empty());
    if args.like.is_some() && (!own.is_empty() || is_drawn()) {
        options.reference.clone_from(&args.like);
    }
    check_series(input, output, args, options.reference.is_some() || format == Format::Dicom)?;
    // Segments that share voxels stay complete where the output has layers or regions; elsewhere they are refused.
    if !own.is_empty() && own.iter().all(|segment| segment.layer.is_none()) {
        options.segments_as_channels = segments_overlap(input, &options)?;
    }
    let mut image = read_image_with(input, &options)?;
    let segments = merged(own, named);
    let is_layered = args.label && segments.iter().any(|segment| segment.layer.is_some());
    if format == Format::Volume && (is_layered || options.segments_as_channels) {
        image = label_map(&image, &segments).map_err(|what| Failure::new(format!("{}: {what}", input.display())))?;
    }
    match format {
        Format::Surface => surfaces(output, &image, &segments, args),
        Format::Dicom => dicom(input, output, &image, &segments, args),
        Format::Volume | Format::Named => {
            if labels && let Some(value) = image.to_vec().into_iter().find(|value| value.fract() != 0.0) {
                let what =
                    format!("{}: a voxel has the value {value}; expected labels, whole numbers", input.display());
                return Err(Failure::new(what));
            }
            let mut written = if labels { WriteOptions::label() } else { WriteOptions::default() };
            // Each channel of several is a layer, or a segment.
            if format == Format::Named && image.channels() == 1 {
                note_empty(&image, &segments);
            }
            written.segments = segments;
            match &writer {
                Some(writer) => drop(writer.write(output, &image, &case_of(output), &PluginWriter::kept)?),
                None => write_image(output, &image, &written)?,
            }
            let [x, y, z] = image.shape();
            let [a, b, c] = image.spacing();
            let channels =
                if image.channels() > 1 { format!(", {} channels", image.channels()) } else { String::new() };
            let place = format!("{a:.3} x {b:.3} x {c:.3} mm, {}", image.orientation());
            out!("{}  {x} x {y} x {z}{channels}, {place}", output.display());
            Ok(())
        }
    }
}

/// The writer that `--writer` names.
fn plugin_writer(name: &str, output: &Path, args: &ImageOptions) -> Outcome<PluginWriter> {
    if !is_of_a_plugin(name) {
        let advice = "expected PLUGIN.NAME; the formats of this program are chosen by the extension of OUT";
        return Err(Failure::new(format!("--writer {name}: {advice}")));
    }
    if !args.segments.is_empty() {
        return Err(Failure::new("--segment names labels, which --writer does not pass on: remove one of them"));
    }
    let writer = PluginWriter::find(name).map_err(|fault| Failure::new(format!("--writer {name}: {fault}")))?;
    if !writer.fits(output) {
        let endings = writer.endings().join(" or ");
        return Err(Failure::new(format!("{}: {name} writes files that end in {endings}", output.display())));
    }
    let sides = writer.side_names(&output.file_name().unwrap_or_default().to_string_lossy());
    match sides.iter().map(|side| output.with_file_name(side)).find(|side| side.symlink_metadata().is_ok()) {
        Some(taken) => Err(Failure::new(format!("{}: {name} writes it, and it exists already", taken.display()))),
        None => Ok(writer),
    }
}

/// The name of the case that a plugin is given: that of the file, without its endings.
fn case_of(output: &Path) -> String {
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').find(|part| !part.is_empty()).unwrap_or_default().to_owned()
}

/// Refuses options of a series where none is read.
fn check_series(input: &Path, output: &Path, args: &ImageOptions, uses_like: bool) -> Outcome {
    let (input_name, output) = (input.display(), output.display());
    if args.like.is_some() {
        let what = "--like is the series on which regions were drawn";
        let unused = format!("{what}; {input_name} holds none, and {output} is no .dcm: remove it");
        return if uses_like { Ok(()) } else { Err(Failure::new(unused)) };
    }
    let given = [("--series", args.series.is_some()), ("--accept", !args.accept.is_empty())];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) if !is_dicom(input) => {
            Err(Failure::new(format!("{option} is for DICOM, and {input_name} is of another format: remove it")))
        }
        _ => Ok(()),
    }
}

/// Whether a path holds DICOM, also such that cannot be used.
fn is_dicom(path: &Path) -> bool {
    scan(path).is_ok_and(|found| {
        let counts = [found.series.len(), found.annotations.len(), found.others.len(), found.failed.len()];
        counts.iter().any(|count| *count > 0)
    })
}

/// Reports segments without a voxel.
fn note_empty(image: &Image, segments: &[Segment]) {
    let values = image.to_vec();
    for Segment { label, name, .. } in segments {
        if !values.contains(&(*label as f32)) {
            note!("no voxel has the label {label} ({name:?}); the file records that");
        }
    }
}

/// The segments that the options name, each label once.
fn named(given: &[String]) -> Outcome<Vec<Segment>> {
    let mut all: Vec<Segment> = Vec::new();
    for text in given {
        let new = segment(text)?;
        if all.iter().any(|known| known.label == new.label) {
            return Err(Failure::new(format!("--segment {text}: the label {} has a name already", new.label)));
        }
        all.push(new);
    }
    Ok(all)
}

/// `1=liver`
fn segment(given: &str) -> Outcome<Segment> {
    let parsed = given.split_once('=').and_then(|(label, name)| Some((label.trim().parse().ok()?, name.trim())));
    match parsed {
        Some((label, name)) if !name.is_empty() && label > 0 => Ok(Segment::new(label, name)),
        _ => Err(Failure::new(format!("--segment {given}: expected LABEL=NAME, as in 1=liver"))),
    }
}

/// The input's segments, with the given names for the given labels; colours and codes stay.
fn merged(mut own: Vec<Segment>, named: Vec<Segment>) -> Vec<Segment> {
    for given in named {
        match own.iter_mut().find(|segment| segment.label == given.label) {
            Some(segment) => segment.name = given.name,
            None => own.push(given),
        }
    }
    own.sort_by_key(|segment| segment.label);
    own
}

fn surfaces(output: &Path, image: &Image, segments: &[Segment], args: &ImageOptions) -> Outcome {
    let mut options = SurfaceOptions::default();
    options.smoothing = args.smooth.map_or(options.smoothing, usize::from);
    options.decimate = args.decimate.unwrap_or(options.decimate);
    if args.space == Some(Space::Ras) {
        options.space = SurfaceSpace::Ras;
    }
    for surface in write_surfaces(output, image, segments, &options)? {
        let triangles = crate::terminal::thousands(surface.triangles as u64);
        let volume = surface.volume / 1000.0;
        out!("{}  {}: {triangles} triangles, {volume:.3} ml", surface.path.display(), surface.name);
    }
    Ok(())
}

fn dicom(input: &Path, output: &Path, image: &Image, segments: &[Segment], args: &ImageOptions) -> Outcome {
    let Some(folder) = &args.like else {
        let advice = "give the folder of the series that they were drawn on: --like FOLDER";
        return Err(Failure::new(format!("DICOM files of labels refer to images: {advice}")));
    };
    let series = the_series(folder, args.series.as_deref())?;
    let codes = args.codes.as_ref().map(read_codes).transpose()?.unwrap_or_default();
    let [_, shape @ ..] = series.shape();
    let turned = image.on_axes_of(shape, series.grid().affine());
    let image = turned.as_ref().unwrap_or(image);
    let regions = regions_of(input, image, segments, &codes)?;
    let labels: Vec<&str> = regions.regions.iter().map(|region| region.name.as_str()).collect();
    check_codes(&codes, &labels)?;
    let name = input.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // The author of a file's labels is not known; the converter did not draw them.
    let by = Authorship::new(format!("converted from {name}")).drawn_by(DrawnBy::Semiautomatic).keep_empty(true);
    let kind = match args.to.unwrap_or(DicomKind::Seg) {
        DicomKind::Seg => RegionFile::Segmentation(SegmentationType::Binary),
        DicomKind::SegFractional => RegionFile::Segmentation(SegmentationType::Fractional),
        DicomKind::SegLabelmap => RegionFile::Segmentation(SegmentationType::LabelMap),
        DicomKind::Rtstruct => RegionFile::StructureSet,
        DicomKind::Sr => RegionFile::Report(None),
    };
    for region in regions.empty() {
        note!("no voxel has the label {} ({:?}); the file records that", region.label, region.name);
    }
    let bytes = kind.bytes(&regions, &series, &by).while_doing(|| format!("cannot write {}", output.display()))?;
    folders::replace(output, bytes)?;
    out!("{}  {}", output.display(), labels.join(", "));
    Ok(())
}

/// The requested series of a folder.
fn the_series(folder: &Path, wanted: Option<&str>) -> Outcome<Series> {
    let doing = || format!("--like {}", folder.display());
    let found = scan(folder).while_doing(doing)?;
    let place = match wanted {
        Some(wanted) => found.select(wanted).map_err(|why| Failure::new(format!("{}: {why}", doing())))?,
        None if found.series.len() == 1 => 0,
        None => {
            let count = found.series.len();
            let advice = format!("expected one series, found {count}; choose by --series{}", found.list());
            return Err(Failure::new(format!("{}: {advice}", doing())));
        }
    };
    let mut series = found.series;
    Ok(series.swap_remove(place))
}
