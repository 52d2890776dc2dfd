//! Translates a device's error for the user. Burn passes on the errors of drivers as text.

use std::fmt::Display;

/// Whether the device has run out of memory, or is too small for the allocation.
pub fn is_out_of_memory(error: &str) -> bool {
    size_asked_for(error).is_some() || error.contains("out-of-memory error")
}

/// The requested number of bytes (cubecl's `IoError::OutOfMemory` and `IoError::BufferTooBig`).
fn size_asked_for(error: &str) -> Option<u64> {
    ["out of device memory allocating ", "can't allocate buffer of size: "].iter().find_map(|before| {
        let rest = &error[error.find(before)? + before.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

/// The reason why the device did not compute a value, in one line: for a lack of memory, possible
/// remedies; otherwise the device's message.
pub fn reason(error: &impl Display) -> String {
    let text = error.to_string();
    if !is_out_of_memory(&text) {
        return line(&text);
    }
    let asked = match size_asked_for(&text) {
        Some(bytes) => format!(" ({:.1} MiB more are needed)", bytes as f64 / (1 << 20) as f64),
        None => String::new(),
    };
    format!(
        "the device is out of memory{asked}: use a smaller batch, crop or window; \
         `hearth memory RECIPE` reports what fits"
    )
}

/// Joins the causes, without the stack trace.
fn line(text: &str) -> String {
    let mut words = Vec::new();
    let mut is_of_calls = false;
    for part in text.lines().map(str::trim) {
        match part {
            "Caused by:" => is_of_calls = false,
            "Backtrace:" | "Asked at:" => is_of_calls = true,
            _ if is_of_calls || part.is_empty() => {}
            _ => words.push(part),
        }
    }
    words.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_memory_says_how_much_and_what_to_do() {
        let driver = "DeviceError: out of device memory allocating 1610612736 bytes\n   0: frame";
        assert!(is_out_of_memory(driver) && is_out_of_memory("can't allocate buffer of size: 4096"));
        assert_eq!(
            reason(&driver),
            "the device is out of memory (1536.0 MiB more are needed): use a smaller batch, crop or window; \
             `hearth memory RECIPE` reports what fits"
        );
        assert_eq!(reason(&"the device is lost"), "the device is lost");
    }

    /// A message of CubeCL 0.11.3 about a kernel that the driver rejected.
    #[test]
    fn causes_stand_in_one_line_without_calls() {
        let said = "An error happened during execution\nCaused by:\n  The bytes were never written (failure #693)\n\
                    Caused by:\n  Unable to load the PTX: DriverError(CUDA_ERROR_INVALID_PTX)\nBacktrace:\n   0: frame\n\
                    Caused by:\n  the end\nBacktrace:\nNo backtrace available\nAsked at:\nNo backtrace available";
        assert_eq!(
            reason(&said),
            "An error happened during execution: The bytes were never written (failure #693): \
             Unable to load the PTX: DriverError(CUDA_ERROR_INVALID_PTX): the end"
        );
    }
}
