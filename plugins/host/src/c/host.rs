//! `hearth_host`: the engine's `Host` for a plugin in C.

use std::any::Any;
use std::ffi::{CString, c_char, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::ptr::null;

use hearth_engine::{Attachment, CheckpointRequest, Combine, DType, Host, HostTensor, Level, State};
use hearth_plugin::__private as view;
use serde::Serialize;

use super::call::{c_text, message, text};
use super::table::{self, ABI, FAILED, OK, Tensor, Text, This};
use crate::watched::come_back;

/// The host and the state during one call of a plugin, and the values lent to the plugin.
pub struct HostDesk<'h> {
    host: &'h mut dyn Host,
    state: &'h State,
    /// The reason why the callback fails.
    message: Option<String>,
    error: CString,
    /// The text that was returned last.
    lent: CString,
    shape: Vec<usize>,
    bytes: Vec<u8>,
    /// A panic of the host, kept because it must not unwind through the plugin.
    panic: Option<Box<dyn Any + Send>>,
}

impl<'h> HostDesk<'h> {
    pub fn new(host: &'h mut dyn Host, state: &'h State) -> Self {
        let (error, lent, shape, bytes) = Default::default();
        Self { host, state, message: None, error, lent, shape, bytes, panic: None }
    }

    /// The table, for the duration of one callback.
    pub fn table(&mut self) -> table::Host {
        table::Host {
            size: size_of::<table::Host>(),
            abi: ABI,
            context: std::ptr::from_mut(self).cast(),
            fail,
            error,
            log,
            terminate,
            terminate_epoch,
            interrupt,
            metric,
            set_metric,
            scalar,
            state,
            output,
            learning_rate,
            set_learning_rate,
            run,
            save_checkpoint,
            load_checkpoint,
            names,
            cases,
            numbers,
            texts,
            tensor,
            put_tensor,
            combine,
            layer_statistics,
            remember,
            recall,
            attach_file,
            attach_image,
            attach_text,
            run_info,
            fire,
            call_after,
        }
    }

    /// The plugin's message. Resumes a panic of the host, if there was one.
    pub fn finish(self) -> Option<String> {
        if let Some(payload) = self.panic {
            panic::resume_unwind(payload);
        }
        self.message
    }

    /// Returns a value as JSON.
    fn json(&mut self, value: &impl Serialize) -> Result<Text, String> {
        self.lent = c_text(serde_json::to_string(value).map_err(|e| e.to_string())?);
        Ok(self.lent.as_ptr())
    }
}

/// Carries out a plugin's request. A failure is kept for `error`, a panic for later.
fn ask<T>(this: This, failed: T, call: impl FnOnce(&mut HostDesk<'_>) -> Result<T, String>) -> T {
    // SAFETY: a plugin passes the table that it received, which `HostDesk::table` made, during the
    // callback that received it: the desk exists, and nothing else uses it meanwhile.
    let desk = unsafe { this.as_ref().and_then(|table| table.context.cast::<HostDesk<'_>>().as_mut()) };
    let Some(desk) = desk else { return failed };
    come_back();
    match panic::catch_unwind(AssertUnwindSafe(|| call(desk))) {
        Ok(Ok(value)) => value,
        Ok(Err(why)) => {
            desk.error = c_text(why);
            failed
        }
        Err(payload) => {
            desk.panic = Some(payload);
            desk.error = c_text("the host panicked");
            failed
        }
    }
}

/// Text passed by a plugin.
fn given<'a>(given: Text) -> Result<&'a str, String> {
    // SAFETY: `hearth_plugin.h` requires it of the plugin.
    unsafe { text(given) }
}

/// Writes to a variable of the plugin.
fn put<T>(to: *mut T, value: T) -> Result<i32, String> {
    if to.is_null() {
        return Err("the plugin passed NULL where the address of a variable was expected".to_owned());
    }
    // SAFETY: the plugin passes the address of its variable of this type.
    unsafe { to.write(value) };
    Ok(OK)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

extern "C" fn fail(this: This, why: Text) -> i32 {
    ask(this, FAILED, |desk| {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        desk.message = Some(unsafe { message(why) });
        Ok(FAILED)
    })
}

extern "C" fn error(this: This) -> Text {
    ask(this, null(), |desk| Ok(desk.error.as_ptr()))
}

extern "C" fn log(this: This, level: i32, what: Text) {
    ask(this, (), |desk| {
        let level = u8::try_from(level).map_or(Level::Warn, view::level);
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        desk.host.log(level, &unsafe { message(what) });
        Ok(())
    });
}

extern "C" fn terminate(this: This, why: Text) {
    ask(this, (), |desk| {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        desk.host.terminate(&unsafe { message(why) });
        Ok(())
    });
}

extern "C" fn terminate_epoch(this: This, why: Text) {
    ask(this, (), |desk| {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        desk.host.terminate_epoch(&unsafe { message(why) });
        Ok(())
    });
}

extern "C" fn interrupt(this: This, why: Text) {
    ask(this, (), |desk| {
        // SAFETY: `hearth_plugin.h` requires it of the plugin.
        desk.host.interrupt(&unsafe { message(why) });
        Ok(())
    });
}

extern "C" fn metric(this: This, name: Text, value: *mut f64) -> i32 {
    ask(this, FAILED, |desk| {
        let name = given(name)?;
        put(value, *desk.state.metrics.get(name).ok_or_else(|| format!("there is no metric `{name}` yet"))?)
    })
}

extern "C" fn set_metric(this: This, name: Text, value: f64) {
    ask(this, (), |desk| {
        desk.host.set_metric(given(name)?, value);
        Ok(())
    });
}

extern "C" fn scalar(this: This, tag: Text, value: f64) {
    ask(this, (), |desk| {
        desk.host.scalar(given(tag)?, value);
        Ok(())
    });
}

extern "C" fn state(this: This) -> Text {
    ask(this, null(), |desk| {
        let mut state = serde_json::to_value(desk.state).map_err(words)?;
        // The serialized state contains neither.
        let scalars = desk.state.scalars.iter();
        let scalars =
            scalars.map(|(tag, s)| (tag.clone(), serde_json::json!({"value": s.value, "iteration": s.iteration})));
        state["scalars"] = serde_json::Value::Object(scalars.collect());
        state["exception"] = desk.state.exception.clone().into();
        desk.json(&state)
    })
}

extern "C" fn output(this: This, name: Text, value: *mut f64) -> i32 {
    ask(this, FAILED, |desk| put(value, desk.host.output(given(name)?).map_err(words)?))
}

extern "C" fn learning_rate(this: This, value: *mut f64) -> i32 {
    ask(this, FAILED, |desk| put(value, desk.host.learning_rate().ok_or("there is no learning rate")?))
}

extern "C" fn set_learning_rate(this: This, value: f64) -> i32 {
    ask(this, FAILED, |desk| desk.host.set_learning_rate(value).map(|()| OK).map_err(words))
}

extern "C" fn run(this: This, engine: Text) -> Text {
    ask(this, null(), |desk| {
        let metrics = desk.host.run(given(engine)?).map_err(words)?;
        desk.json(&metrics)
    })
}

extern "C" fn save_checkpoint(this: This, folder: Text, tag: Text, keep_last: u64) -> i32 {
    ask(this, FAILED, |desk| {
        let keep_last = usize::try_from(keep_last).ok().filter(|count| *count > 0);
        let request = CheckpointRequest { dir: PathBuf::from(given(folder)?), tag: given(tag)?.to_owned(), keep_last };
        desk.host.save_checkpoint(request).map(|()| OK).map_err(words)
    })
}

extern "C" fn load_checkpoint(this: This, folder: Text) -> i32 {
    ask(this, FAILED, |desk| desk.host.load_checkpoint(Path::new(given(folder)?)).map(|()| OK).map_err(words))
}

extern "C" fn names(this: This, kind: i32) -> Text {
    ask(this, null(), |desk| {
        let known = u8::try_from(kind).ok().and_then(view::name_kind);
        let names = desk.host.names(known.ok_or_else(|| format!("names of kind {kind} are unknown"))?);
        desk.json(&names)
    })
}

extern "C" fn cases(this: This) -> Text {
    ask(this, null(), |desk| {
        let cases = desk.host.cases();
        desk.json(&cases)
    })
}

extern "C" fn numbers(this: This, name: Text) -> Text {
    ask(this, null(), |desk| {
        let numbers = desk.host.numbers(given(name)?).map_err(words)?;
        desk.json(&numbers)
    })
}

extern "C" fn texts(this: This, name: Text) -> Text {
    ask(this, null(), |desk| {
        let texts = desk.host.texts(given(name)?).map_err(words)?;
        desk.json(&texts)
    })
}

extern "C" fn tensor(this: This, name: Text, to: *mut Tensor) -> i32 {
    ask(this, FAILED, |desk| {
        // SAFETY: the plugin passes the address of its record, whose first member it has set.
        let size = unsafe { to.cast::<usize>().as_ref() }.copied();
        if size.is_none_or(|size| size < size_of::<Tensor>()) {
            return Err("set `.size = sizeof(hearth_tensor)` before `tensor` is called".to_owned());
        }
        let HostDesk { host, shape: kept, bytes: owned, .. } = desk;
        let HostTensor { dtype, shape, bytes } = host.tensor(given(name)?).map_err(words)?;
        *kept = shape;
        let (data, count) = match bytes {
            std::borrow::Cow::Borrowed(bytes) => (bytes.as_ptr(), bytes.len()),
            std::borrow::Cow::Owned(bytes) => {
                *owned = bytes;
                (owned.as_ptr(), owned.len())
            }
        };
        let dimensions = u32::try_from(kept.len()).map_err(words)?;
        let (data, shape) = (data.cast::<c_void>(), kept.as_ptr());
        put(to, Tensor { size: size_of::<Tensor>(), dtype: dtype as i32, dimensions, shape, data, bytes: count })
    })
}

/// A tensor of a plugin.
fn received<'a>(tensor: *const Tensor) -> Result<HostTensor<'a>, String> {
    // SAFETY: the plugin passes the address of its record, or null.
    let tensor = unsafe { tensor.as_ref() }.ok_or("the plugin passed NULL where a tensor was expected")?;
    let Tensor { size, dtype, dimensions, shape, data, bytes } = *tensor;
    if size < size_of::<Tensor>() || shape.is_null() || data.is_null() {
        return Err("a tensor needs its size (`sizeof(hearth_tensor)`), its shape and its data".to_owned());
    }
    // SAFETY: `hearth_plugin.h` requires of the plugin that this number of elements exists.
    let (shape, bytes): (&[usize], &'a [u8]) = unsafe {
        (std::slice::from_raw_parts(shape, dimensions as usize), std::slice::from_raw_parts(data.cast(), bytes))
    };
    let number = u8::try_from(dtype).map_err(|_| format!("element type {dtype} is unknown"))?;
    let dtype: DType = view::check_tensor(number, shape, bytes.len()).map_err(words)?;
    Ok(HostTensor { dtype, shape: shape.to_vec(), bytes: bytes.into() })
}

extern "C" fn put_tensor(this: This, name: Text, tensor: *const Tensor) -> i32 {
    ask(this, FAILED, |desk| desk.host.put_tensor(given(name)?, received(tensor)?).map(|()| OK).map_err(words))
}

extern "C" fn combine(this: This, inputs: *const Text, count: usize, how: Text, to: Text) -> i32 {
    ask(this, FAILED, |desk| {
        if inputs.is_null() {
            return Err("there is nothing to combine".to_owned());
        }
        // SAFETY: `hearth_plugin.h` requires of the plugin that this number of names exists.
        let inputs: &[*const c_char] = unsafe { std::slice::from_raw_parts(inputs, count) };
        let inputs = inputs.iter().map(|name| given(*name)).collect::<Result<Vec<_>, _>>()?;
        let how: Combine = serde_json::from_str(given(how)?).map_err(|e| format!("how to combine: {e}"))?;
        desk.host.combine(&inputs, &how, given(to)?).map(|()| OK).map_err(words)
    })
}

extern "C" fn layer_statistics(this: This, of: i32) -> Text {
    ask(this, null(), |desk| {
        let of = view::layer_values(u8::try_from(of).unwrap_or(u8::MAX)).map_err(words)?;
        let layers = desk.host.layer_statistics(of).map_err(words)?;
        desk.json(&layers)
    })
}

/// Bytes passed by a plugin.
fn bytes_of<'a>(bytes: *const c_void, count: usize) -> Result<&'a [u8], String> {
    match (bytes.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err("the plugin passed NULL where bytes were expected".to_owned()),
        // SAFETY: `hearth_plugin.h` requires of the plugin that this number of bytes exists.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), count) }),
    }
}

extern "C" fn remember(this: This, key: Text, bytes: *const c_void, count: usize) -> i32 {
    ask(this, FAILED, |desk| desk.host.remember(given(key)?, bytes_of(bytes, count)?).map(|()| OK).map_err(words))
}

extern "C" fn recall(this: This, key: Text, bytes: *mut *const c_void, count: *mut usize) -> i32 {
    ask(this, FAILED, |desk| {
        let key = given(key)?;
        desk.bytes = desk.host.recall(key).ok_or_else(|| format!("nothing is kept under `{key}`"))?;
        put(count, desk.bytes.len())?;
        put(bytes, desk.bytes.as_ptr().cast())
    })
}

extern "C" fn attach_file(this: This, name: Text, bytes: *const c_void, count: usize) -> i32 {
    ask(this, FAILED, |desk| {
        let file = Attachment::File(bytes_of(bytes, count)?);
        desk.host.attach(given(name)?, &file).map(|()| OK).map_err(words)
    })
}

extern "C" fn attach_image(this: This, name: Text, image: *const Tensor) -> i32 {
    ask(this, FAILED, |desk| {
        let image = Attachment::Image(received(image)?);
        desk.host.attach(given(name)?, &image).map(|()| OK).map_err(words)
    })
}

extern "C" fn attach_text(this: This, name: Text, what: Text) -> i32 {
    ask(this, FAILED, |desk| {
        let text = Attachment::Text(given(what)?);
        desk.host.attach(given(name)?, &text).map(|()| OK).map_err(words)
    })
}

extern "C" fn run_info(this: This) -> Text {
    ask(this, null(), |desk| {
        desk.lent = c_text(desk.host.run_info().map_err(words)?);
        Ok(desk.lent.as_ptr())
    })
}

extern "C" fn fire(this: This, event: Text) -> i32 {
    ask(this, FAILED, |desk| desk.host.fire(given(event)?).map(|()| OK).map_err(words))
}

extern "C" fn call_after(this: This, seconds: f64) -> i32 {
    ask(this, FAILED, |desk| {
        let time = view::time(seconds).map_err(words)?;
        desk.host.call_after(time).map(|()| OK).map_err(words)
    })
}
