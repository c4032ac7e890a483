//! The arguments of MODULE LOAD: name and value pairs that become the defaults of the settings.

use std::borrow::Cow;

use super::config::{BadValue, SETTINGS, Setting};

/// Reads the arguments into the settings. Both RedisBloom's old words (`ERROR_RATE`) and the names of the settings,
/// with `bf.`, with `bf-` and without either, are understood in upper and lower case.
///
/// # Errors
/// A line for the log, RedisBloom's where it has one; the module must not load then.
pub(super) fn apply(arguments: &[&[u8]]) -> Result<(), String> {
    // A single empty argument counts as none, as in RedisBloom: launchers pass an unset variable that way.
    if arguments == [b"".as_slice()] {
        return Ok(());
    }
    let (pairs, rest) = arguments.as_chunks::<2>();
    if let [word] = rest {
        return Err(format!("Invalid number of arguments passed: no value for '{}'", text(word)));
    }
    for [word, value] in pairs {
        let setting = SETTINGS
            .iter()
            .find(|setting| is_named(setting, word))
            .ok_or_else(|| format!("Unrecognized option '{}'", text(word)))?;
        setting.set_default(value).map_err(|bad| describe(bad, word, setting))?;
    }
    Ok(())
}

fn is_named(setting: &Setting, word: &[u8]) -> bool {
    let plain = setting.dashed.to_bytes().strip_prefix(b"bf-").unwrap_or_default();
    [setting.dotted.to_bytes(), setting.dashed.to_bytes(), plain]
        .into_iter()
        .chain(setting.legacy.map(str::as_bytes))
        .any(|name| name.eq_ignore_ascii_case(word))
}

/// The setting is named as it was in the arguments.
fn describe(bad: BadValue, word: &[u8], setting: &Setting) -> String {
    let name = text(word);
    match bad {
        BadValue::NotANumber => format!("Invalid argument for '{name}'"),
        BadValue::OutOfRange => format!("'{name}' must be in the range {}", setting.range_text()),
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
