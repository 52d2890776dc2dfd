//! The properties by which slices of several volumes of one series differ: echo, time point, b-value, ...
//! ([`Marks`]).

use dicom_core::Tag;
use dicom_dictionary_std::tags;

use crate::tags::Attributes;

/// A property in which the volumes of one series may differ, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    ImageType,
    Echo,
    EchoTime,
    Inversion,
    FlipAngle,
    BValue,
    Direction,
    Time,
    Trigger,
    FrameTime,
    Acquisition,
    Kernel,
    Stack,
}

impl Mark {
    pub const ALL: [Mark; 13] = [
        Mark::ImageType,
        Mark::Echo,
        Mark::EchoTime,
        Mark::Inversion,
        Mark::FlipAngle,
        Mark::BValue,
        Mark::Direction,
        Mark::Time,
        Mark::Trigger,
        Mark::FrameTime,
        Mark::Acquisition,
        Mark::Kernel,
        Mark::Stack,
    ];
}

/// The properties of one slice, as parts of a key (`echo2`, `b1000`), except [`Mark::ImageType`], which is
/// ImageType as in the file, and [`Mark::Direction`], which is no part of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks([Option<String>; Mark::ALL.len()]);

impl Marks {
    /// Reads them of a frame: `group` is a functional group, its own or a shared one. Values that are damaged
    /// only serve as names, and are not used.
    pub fn read<'a>(file: &Attributes<'a>, group: &dyn Fn(Tag) -> Option<Attributes<'a>>) -> Self {
        let within = |sequence, tag| group(sequence).filter(|group| group.has(tag)).unwrap_or(*file);
        let named = |word: &str, value: Option<f64>| value.map(|value| format!("{word}{}", number(value)));
        let float = |of: Attributes<'a>, tag| of.float(tag).ok().flatten();
        let plain = |word: &str, tag| named(word, float(*file, tag));
        let image_type = [tags::MR_IMAGE_FRAME_TYPE_SEQUENCE, tags::CT_IMAGE_FRAME_TYPE_SEQUENCE]
            .into_iter()
            .find_map(|sequence| group(sequence)?.text(tags::FRAME_TYPE));
        let time = group(tags::FRAME_CONTENT_SEQUENCE)
            .and_then(|content| float(content, tags::TEMPORAL_POSITION_INDEX))
            .or_else(|| float(*file, tags::TEMPORAL_POSITION_IDENTIFIER));
        let heart = within(tags::CARDIAC_SYNCHRONIZATION_SEQUENCE, tags::NOMINAL_CARDIAC_TRIGGER_DELAY_TIME);
        let trigger = float(heart, tags::NOMINAL_CARDIAC_TRIGGER_DELAY_TIME).or(float(*file, tags::TRIGGER_TIME));
        let kernel = within(tags::CT_RECONSTRUCTION_SEQUENCE, tags::CONVOLUTION_KERNEL).text(tags::CONVOLUTION_KERNEL);
        let echo = within(tags::MR_ECHO_SEQUENCE, tags::EFFECTIVE_ECHO_TIME);
        let echo = float(echo, tags::EFFECTIVE_ECHO_TIME).or(float(*file, tags::ECHO_TIME));
        let stack = within(tags::FRAME_CONTENT_SEQUENCE, tags::STACK_ID).text(tags::STACK_ID);
        Marks(Mark::ALL.map(|mark| match mark {
            Mark::ImageType => image_type.clone().or_else(|| file.text(tags::IMAGE_TYPE)),
            Mark::Echo => plain("echo", tags::ECHO_NUMBERS),
            Mark::EchoTime => named("te", echo),
            Mark::Inversion => plain("ti", tags::INVERSION_TIME),
            Mark::FlipAngle => plain("flip", tags::FLIP_ANGLE),
            Mark::BValue => named("b", b_value(file, group(tags::MR_DIFFUSION_SEQUENCE))),
            Mark::Direction => direction(file, group(tags::MR_DIFFUSION_SEQUENCE)),
            Mark::Time => named("time", time),
            Mark::Trigger => named("trigger", trigger),
            Mark::FrameTime => named("at", float(*file, tags::FRAME_REFERENCE_TIME)).map(|text| text + "ms"),
            Mark::Acquisition => plain("acq", tags::ACQUISITION_NUMBER),
            Mark::Kernel => kernel.as_deref().map(|kernel| format!("kernel_{}", word(kernel))),
            Mark::Stack => stack.as_deref().map(|stack| format!("stack{}", word(stack))),
        }))
    }

    pub fn get(&self, mark: Mark) -> Option<&str> {
        self.0[mark as usize].as_deref()
    }

    /// The words of ImageType: `original`, `primary`, `m`.
    pub fn image_type(&self) -> Vec<String> {
        let words = self.get(Mark::ImageType).unwrap_or_default().split('\\').map(word);
        words.filter(|word| !word.is_empty()).collect()
    }

    /// Whether it is an image for planning others.
    pub fn is_localizer(&self) -> bool {
        self.image_type().iter().any(|word| word == "localizer")
    }
}

/// The diffusion weighting: standard, else of Siemens, GE or Philips.
fn b_value(file: &Attributes<'_>, group: Option<Attributes<'_>>) -> Option<f64> {
    let standard = |of: Attributes<'_>| of.float(tags::DIFFUSION_B_VALUE).ok().flatten();
    let private = |group, creator, element| file.number_of(file.private(group, creator, element)?);
    // GE adds flags of 1e9 and 1e6.
    let plain = |value: f64| if value >= 1e9 { value % 1e9 % 1e6 } else { value };
    group
        .and_then(standard)
        .or_else(|| standard(*file))
        .or_else(|| private(0x0019, "SIEMENS MR HEADER", 0x0c))
        .or_else(|| private(0x0043, "GEMS_PARM_01", 0x39).map(plain))
        .or_else(|| private(0x2001, "Philips Imaging DD 001", 0x03))
        .filter(|value| *value >= 0.0)
}

/// The gradient's direction, as numbers.
fn direction(file: &Attributes<'_>, group: Option<Attributes<'_>>) -> Option<String> {
    let within = group.and_then(|group| group.item(tags::DIFFUSION_GRADIENT_DIRECTION_SEQUENCE));
    let of = within.filter(|item| item.has(tags::DIFFUSION_GRADIENT_ORIENTATION)).unwrap_or(*file);
    let vector = of.vector::<3>(tags::DIFFUSION_GRADIENT_ORIENTATION).ok().flatten()?;
    Some(vector.map(|part| format!("{part:.3}")).join(" "))
}

/// A number with at most three decimals.
pub(crate) fn number(value: f64) -> String {
    let rounded = (value * 1000.0).round() / 1000.0;
    // Avoids negative zero.
    (rounded + 0.0).to_string()
}

/// A text as a part of a key and of a file's name: letters, digits, dots and underscores, in lower case.
pub(crate) fn word(text: &str) -> String {
    let one = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '_' };
    text.trim().chars().take(40).map(one).collect::<String>().trim_matches('_').to_owned()
}
