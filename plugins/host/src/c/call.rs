//! `hearth_call`: the table for callbacks without a table of their own.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use super::table::{ABI, Call, FAILED};

/// The message and the bytes of a callback.
pub struct CallDesk {
    library: CString,
    message: Option<String>,
    /// The bytes that the callback returned.
    pub bytes: Vec<u8>,
}

impl CallDesk {
    pub fn new(library: &Path) -> Self {
        // A path contains no zero byte: it was opened.
        let library = CString::new(library.as_os_str().as_encoded_bytes()).unwrap_or_default();
        Self { library, message: None, bytes: Vec::new() }
    }

    /// The table, for the duration of one callback.
    pub fn table(&mut self) -> Call {
        let library = self.library.as_ptr();
        let context = std::ptr::from_mut(self).cast();
        Call { size: size_of::<Call>(), abi: ABI, context, library, fail, give }
    }

    /// The reason why the callback failed.
    pub fn reason(&self, function: &str, code: i32) -> String {
        said(self.message.clone(), function, code)
    }
}

/// The error text of a callback that failed.
pub fn said(message: Option<String>, function: &str, code: i32) -> String {
    message.unwrap_or_else(|| {
        format!("`{function}` returned {code} and did not say why: `return host->fail(host, \"...\")`")
    })
}

/// Text of a plugin. The error states why it is invalid.
///
/// # Safety
/// A non-null pointer points to bytes that end with a zero and do not change meanwhile.
pub unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, String> {
    if text.is_null() {
        return Err("the plugin passed NULL where a text was expected".to_owned());
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| "the plugin passed a text that is not UTF-8".to_owned())
}

/// A message of a plugin; invalid characters are replaced.
///
/// # Safety
/// As [`text`].
pub unsafe fn message(message: *const c_char) -> String {
    if message.is_null() {
        return "no reason was given".to_owned();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

/// Text for C, truncated at a zero byte.
pub fn c_text(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes: Vec<u8> = text.into();
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    CString::new(bytes).unwrap_or_default()
}

fn desk<'a>(call: *const Call) -> Option<&'a mut CallDesk> {
    // SAFETY: a plugin passes the table that it received, which `CallDesk::table` made, during the
    // callback that received it: the desk exists, and nothing else uses it meanwhile.
    unsafe { call.as_ref().and_then(|call| call.context.cast::<CallDesk>().as_mut()) }
}

extern "C" fn fail(call: *const Call, why: *const c_char) -> i32 {
    if let Some(desk) = desk(call) {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        desk.message = Some(unsafe { message(why) });
    }
    FAILED
}

extern "C" fn give(call: *const Call, bytes: *const c_void, count: usize) {
    if let Some(desk) = desk(call)
        && !bytes.is_null()
    {
        // SAFETY: `hearth_plugin.h` requires of the plugin that this number of bytes exists.
        desk.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes.cast(), count) });
    }
}
